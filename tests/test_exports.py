"""The public names are few, and importing them brings in nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import matchwood
import matchwood.spark


def test_the_public_names_are_these() -> None:
    assert sorted(matchwood.__all__) == [
        "Engine",
        "Event",
        "Explanation",
        "LiveMatch",
        "ManualClock",
        "Match",
        "MatchwoodError",
        "Point",
        "Range",
        "Ranking",
        "Schema",
        "Subscription",
        "Track",
        "Tracker",
        "attr",
        "connect",
        "connect_sync",
        "interval",
        "parse",
    ]


def test_the_public_names_of_the_pipeline_are_these() -> None:
    assert sorted(matchwood.spark.__all__) == [
        "Codebook",
        "Evaluation",
        "IndexVersion",
        "Lake",
        "Manifest",
        "MatchStream",
        "Profile",
        "SubscriptionIndex",
        "build_index",
        "captured_changes",
        "close_all",
        "compact",
        "cover_table",
        "evaluate_table",
        "explain",
        "index_subscriptions",
        "index_table",
        "ingest_table",
        "local_session",
        "match",
        "match_subscriptions",
        "match_subscriptions_table",
        "match_table",
        "open_index",
        "profile_tables",
        "progress",
        "read_raw",
        "register",
        "session_problems",
        "settings",
        "warm",
        "weigh_table",
    ]


@pytest.mark.parametrize("package", [matchwood, matchwood.spark])
def test_every_public_name_is_there_and_documented(package: ModuleType) -> None:
    if package is matchwood.spark:
        pytest.importorskip("pyspark")
    for name in package.__all__:
        assert getattr(package, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


def test_importing_the_pipeline_imports_no_stage_of_it() -> None:
    script = "import sys, matchwood.spark; raise SystemExit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    "module", ["pyarrow", "pyspark", "pandas", "matplotlib", "hypothesis", "matchwood.covering.base"]
)
def test_importing_the_engine_does_not_import(module: str) -> None:
    script = f"import sys; from matchwood import Engine; raise SystemExit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("names", ["", "Schema, attr, parse, Event, Point, MatchwoodError"])
def test_what_does_not_match_imports_no_compiler(names: str) -> None:
    statement = f"from matchwood import {names}" if names else "import matchwood"
    script = f"import sys; {statement}; raise SystemExit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_an_index_is_imported_by_its_name_and_no_other() -> None:
    script = (
        "import sys; from matchwood.structures import INDEXES, make_index; before = set(sys.modules)\n"
        "assert len(INDEXES) == 8 and 'vcr' in INDEXES and 'b-tree' not in INDEXES\n"
        "assert make_index('vcr').name == 'vcr'\n"
        "print(*sorted({m.split('.')[2] for m in set(sys.modules) - before if m.startswith('matchwood.structures.')}))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "vcr" in done.stdout.split()
    assert not {"be_star", "mo_tree", "ranked", "k_index"} & set(done.stdout.split())


def test_every_index_has_the_name_it_is_looked_up_by() -> None:
    from matchwood.structures import INDEXES

    assert [index.name for index in INDEXES.values()] == list(INDEXES)


WITHOUT_ARROW = "import sys; sys.modules['pyarrow'] = sys.modules['pandas'] = None\n"


def test_an_engine_and_json_lines_need_no_pyarrow() -> None:
    script = WITHOUT_ARROW + (
        "from matchwood import Engine\n"
        "from matchwood.encode.tables import read_events, read_subscriptions\n"
        "from pathlib import Path; import tempfile\n"
        "folder = Path(tempfile.mkdtemp()); engine = Engine()\n"
        '(folder / \'s.jsonl\').write_text(\'{"id": 7, "expression": "age > 3"}\')\n'
        "(folder / 'e.jsonl').write_text('{\"values\": {\"age\": 5}}')\n"
        "engine.subscribe_rows(read_subscriptions(folder / 's.jsonl', engine.schema).rows)\n"
        "engine.subscribe('age > 4', priority=1.0, id=9)\n"
        "assert [hit.id for hit in engine.match({'age': 5})] == [9, 7]\n"
        "assert engine.match_many(read_events(folder / 'e.jsonl', engine.schema).events).ids.tolist() == [9, 7]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    "statement",
    [
        "from matchwood.encode.tables import read_events; read_events('events.csv', Schema())",
        "from matchwood.encode.tables import read_events; read_events('events.parquet', Schema())",
        "import matchwood.encode.subscription_tables",
        "import matchwood.encode.parquet",
    ],
)
def test_a_table_without_pyarrow_names_the_extra(statement: str) -> None:
    script = WITHOUT_ARROW + (
        "from matchwood import MatchwoodError, Schema\n"
        f"try: {statement}\n"
        "except ImportError as error: assert isinstance(error, MatchwoodError); print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "install it with: pip install 'matchwood[arrow]'" in done.stdout


def test_importing_matchwood_is_quick_and_compiles_nothing() -> None:
    """Half a second is promised, and is what a quiet machine takes at most; here the bound is on CPU time, and generous."""
    script = (
        "import time; start = time.process_time(); from matchwood import Engine; took = time.process_time() - start\n"
        "from numba.core.dispatcher import Dispatcher\n"
        "import gc; compiled = [d for d in gc.get_objects() if isinstance(d, Dispatcher) and d.overloads]\n"
        "ours = [d.py_func.__name__ for d in compiled if d.py_func.__module__.startswith('matchwood')]\n"
        "print(took, *ours)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    took, *compiled = done.stdout.split()
    assert compiled == []
    assert float(took) < 3.0


def test_the_first_match_of_a_fresh_process_compiles_nothing_that_another_has_compiled() -> None:
    script = (
        "import time; start = time.process_time()\n"
        "from matchwood import Engine\n"
        "engine = Engine(); engine.subscribe('age > 3 AND plan = \\'pro\\'')\n"
        "assert len(engine.match({'age': 5, 'plan': 'pro'})) == len(engine.top_k({'age': 5, 'plan': 'pro'}, 1)) == 1\n"
        "took = time.process_time() - start\n"
        "from numba.core.dispatcher import Dispatcher\n"
        "import gc; ours = [d for d in gc.get_objects() if isinstance(d, Dispatcher)]\n"
        "ours = [d for d in ours if d.py_func.__module__.startswith('matchwood')]\n"
        "print(took, sum(sum(d.stats.cache_misses.values()) for d in ours), sum(len(d.overloads) for d in ours))"
    )
    runs = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
        took, missed, used = done.stdout.split()
        runs.append((float(took), int(missed), int(used)))
    took, missed, used = runs[1]
    assert missed == 0 < used
    assert took < 6.0  # of CPU time; two seconds are promised, on a quiet machine


def test_every_error_is_a_matchwood_error_and_drawn_in_the_tree() -> None:
    from matchwood import errors

    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(classes) > 10
    for class_ in classes:
        assert issubclass(class_, errors.MatchwoodError)
        assert class_.__name__ in (errors.__doc__ or "")
