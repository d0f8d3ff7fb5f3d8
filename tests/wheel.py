"""`python tests/wheel.py`, the last step of `make wheel`: an installed wheel answers without compiling anything.

Compiling is made to fail, and the cache is an empty folder. Prints the seconds from the import to the first answer.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path


def refuse(*arguments: object, **options: object) -> None:
    """Takes the place of Numba's compiler."""
    raise AssertionError(f"compiled {arguments[2]}")


def main() -> None:
    """Use every part of an engine."""
    with tempfile.TemporaryDirectory() as empty:
        os.environ["NUMBA_CACHE_DIR"] = empty
        start = time.perf_counter()
        from numba.core import compiler

        compiler.compile_extra = refuse
        import matchwood

        assert Path(matchwood.__file__).with_name("_kernels").is_dir(), f"{matchwood.__file__} has no kernels"
        engine = matchwood.Engine()
        engine.subscribe_many(f"price BETWEEN {i % 90} AND {i % 90 + 5} AND city = 'c{i % 40}'" for i in range(10_000))
        event = {"price": 50, "city": "c3"}
        first = engine.match(event)
        seconds = time.perf_counter() - start
        assert {match.id for match in first} == {i for i in range(10_000) if i % 40 == 3 and i % 90 <= 50 <= i % 90 + 5}
        use(engine, event)
        assert engine.ready(timeout=120)
        assert not list(Path(empty).rglob("*.kernel")), "kernels were compiled"
    print(f"{engine.index}: {seconds:.2f} s to the first answer of 10,000 subscriptions, nothing compiled")


def use(engine: object, event: dict[str, object]) -> None:
    """Call what an engine of every structure offers."""
    import matchwood
    from matchwood.structures import INDEXES

    engines = [engine, *(matchwood.Engine(index=name) for name in INDEXES if name != "k-index")]
    for each in engines:
        assert isinstance(each, matchwood.Engine)
        each.subscribe_many(f"price > {i} ^2 OR city = 'c{i}'" for i in range(300))
        for _ in range(300):
            each.match(event)
        best = each.top_k(event, 3)
        assert best == each.match(event)[:3], each.index
        new = each.subscribe("price = 50")
        each.update(new, "price = 51")
        assert new not in [match.id for match in each.match(event)]
        each.unsubscribe(new)
        each.publish(event, until="9999-01-01")
        assert len(each.subscribe("price = 50").live) == 1
        each.covers("price > 5 AND city = 'c3'")
        each.covered_by("price > 5")
        each.reduce()


if __name__ == "__main__":
    main()
