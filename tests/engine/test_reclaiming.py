"""Strings that nobody names any more are forgotten, and no answer changes."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from matchwood import Engine, Event
from matchwood.encode.named_codes import named_codes
from matchwood.encode.objects import RowsBuilder
from matchwood.engine import reclaiming
from matchwood.errors import SchemaError
from matchwood.lang.evaluate import holds
from matchwood.lang.event import event_keys
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Schema

FAR = "9999-01-01"


def texts(engine: Engine, name: str = "s") -> set[str]:
    symbols = engine.schema.find(name).symbols
    assert symbols is not None
    return set(symbols.codes)


def test_the_strings_of_one_large_subscription_go_with_it() -> None:
    engine = Engine()
    engine.subscribe("s = 'stays' AND t != 'other'")
    engine.subscribe("s IN (" + ", ".join(f"'w{i}'" for i in range(9_000)) + ")", id=7)
    engine.publish({"s": "live", "t": "unheard"}, until=FAR)
    assert len(texts(engine)) == 9_002
    engine.unsubscribe(7)
    assert texts(engine) == {"stays", "live"}
    assert texts(engine, "t") == {"other", "unheard"}
    assert engine.match({"s": "stays", "t": "new"}) == [(0, 2.0)]
    assert engine.match({"s": "stays", "t": "other"}) == []
    assert engine.subscribe("s = 'live' OR s = 'w5'").live == [(0, 1.0)]
    assert engine.match({"s": "w5", "t": "other"}) == [(8, 1.0)]


def test_rows_that_name_a_forgotten_string_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reclaiming, "FEWEST", 0)
    engine = Engine()
    engine.subscribe("s = 'x'", id=1)
    builder = RowsBuilder(engine.schema)
    builder.add_text(2, 0.0, "s = 'x'")
    equal = builder.build()
    builder = RowsBuilder(engine.schema)
    builder.add_text(3, 0.0, "s != 'x'")
    different = builder.build()
    builder = RowsBuilder(engine.schema)
    builder.add_text(4, 0.0, "s != 'y'")
    other = builder.build()
    engine.subscribe_rows(other)
    engine.unsubscribe(1)
    assert texts(engine) == {"y"}
    for rows in (equal, different):
        with pytest.raises(SchemaError, match="attribute 's': the rows name a string that the engine has forgotten"):
            engine.subscribe_rows(rows)
    assert engine.match({"s": "x"}) == [(4, 1.0)]


@pytest.mark.parametrize("seed", range(4))
def test_answers_stay_right_while_strings_come_and_go(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reclaiming, "FEWEST", 5)
    dice = random.Random(seed)
    engine, held = Engine(), dict[int, str]()

    def word() -> str:
        return f"'w{dice.randrange(60)}'"

    for step in range(150):
        what = dice.randrange(6)
        some = ", ".join(word() for _ in range(dice.randrange(1, 5)))
        text = dice.choice(
            [
                f"s IN ({some})",
                f"s NOT IN ({some})",
                f"s = {word()} OR t != {word()}",
                f"s != {word()} AND t = {word()}",
            ]
        )
        if what < 2 or not held:
            held[int(engine.subscribe(text))] = text
        elif what == 2:
            id_ = dice.choice([*held])
            engine.update(id_, text)
            held[id_] = text
        elif what == 3:
            for id_ in dice.sample([*held], min(len(held), 4)):
                engine.unsubscribe(id_)
                del held[id_]
        elif what == 4:
            engine.publish(Event({"s": word()[1:-1]}, id=dice.randrange(5)), until=FAR, replace=True)
        elif step % 7 == 0:
            engine.save(tmp_path / str(step))
            engine = Engine.load(tmp_path / str(step))
        event = {"s": word()[1:-1], "t": word()[1:-1]}
        schema = Schema()
        expected = []
        for id_, source in held.items():
            rows = normalise(parse(source), schema)
            keys = event_keys(event, schema)
            if any(all(holds(p, keys) for p in row.predicates) for row in rows):
                expected.append(id_)
        assert sorted(match.id for match in engine.match(event)) == sorted(expected)
        for id_ in [*held][:3]:
            assert "unregistered" not in engine.subscription(id_).expression
    assert len(texts(engine)) < 60


def test_named_codes_are_those_that_answers_depend_on() -> None:
    schema = Schema()
    for text in "abcdef":
        schema.key(schema.declare("s", "string"), text)
    for source, named in {
        "s = 'c'": "c",
        "s IN ('a', 'b', 'e')": "abe",
        "s NOT IN ('a', 'b', 'e')": "abe",
        "s != 'f' AND s != 'a'": "af",
        "s IS NOT NULL": "",
        "s IS NULL": "",
        "s != 'b' AND s IN ('b', 'd', 'e')": "bde",  # of a list, no value may be b
        "A_CONTAINS(s, ('a', 'f'))": "af",
        "n > 3": "",
    }.items():
        builder = RowsBuilder(schema)
        builder.add_text(0, 0.0, source)
        flags = named_codes(builder.build(), schema.find("s").dims[0], np.arange(6))
        assert "".join(t for t, flag in zip("abcdef", flags, strict=True) if flag) == named, source
