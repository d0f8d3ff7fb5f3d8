"""Whatever is handed in: a typed error, or an answer that is right. Never another exception, a crash or a hang."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchwood.encode.checks import check_events, check_rows
from matchwood.encode.events import encode_events
from matchwood.encode.json_lines import read_json_events, read_json_subscriptions
from matchwood.errors import MatchwoodError
from matchwood.lang.event import Event
from matchwood.lang.json_form import from_json, to_json
from matchwood.lang.parser import parse
from matchwood.schema import Schema
from tests.fuzz.folders import Saved, assert_told_or_same, saved_covers, saved_engine, saved_index
from tests.fuzz.mutation import FRAGMENTS, ODD_OBJECTS
from tests.fuzz.runs import Part, parts_of, run_part
from tests.fuzz.targets import TARGETS
from tests.strategies import expressions, names, scalars
from tests.systems import SYSTEMS
from tests.worlds import TYPES

HEAD = 600
"""Bytes of a file that the long test changes one by one: header, padding, first data. Behind them checksums see all alike."""
FEWER = {"arrow tables": 1_000, "parquet files": 1_000, "saved folders": 600}
FEWER |= dict.fromkeys(("cloud events", "authorization", "urls of webhooks", "wrapped addresses"), 1_000)
FEWER |= dict.fromkeys(("foreign conditions", "signed messages", "server-sent events"), 1_000)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["op", "args", "property", "weight", "min", "lon"]) | st.text(), inner, max_size=4
        )
    ),
)


@pytest.mark.parametrize("name", list(TARGETS))
def test_damaged_inputs_are_refused_or_answered_rightly(name: str) -> None:
    wanted = FEWER.get(name, 5_000)
    outcome = run_part(Part(name, seed=3, first=0, inputs=wanted))  # raises with the round that escaped
    assert outcome.inputs >= wanted


@pytest.mark.parametrize("name", ["text", "json trees", "event objects"])
@given(random=st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_hypothesis_finds_no_damage_that_escapes(name: str, random: Random) -> None:
    assert TARGETS[name][0](random) == 1  # raises if anything but a typed error escapes


@given(pieces=st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6) | expressions().map(str), max_size=8))
@settings(max_examples=200)
def test_any_text_is_an_expression_or_a_parse_error(pieces: list[str]) -> None:
    try:
        found = parse(" ".join(pieces))
    except MatchwoodError:
        return
    assert parse(str(found)) == found


@given(value=json_values)
@settings(max_examples=200)
def test_any_json_is_an_expression_or_an_error(value: Any) -> None:
    try:
        found = from_json(value)
    except MatchwoodError:
        return
    assert from_json(to_json(found)) == found


@given(lines=st.lists(st.binary(max_size=30) | st.text(max_size=30) | json_values.map(json.dumps), max_size=6))
@settings(max_examples=150)
def test_any_lines_are_records_or_rejects(lines: list[str | bytes]) -> None:
    schema = Schema(TYPES)
    there = sum(bool(line.strip()) for line in lines)
    subscriptions = read_json_subscriptions(lines, schema)
    check_rows(subscriptions.rows, schema.dimensions)
    assert len(subscriptions.ids) + len(subscriptions.rejects) == there
    read = read_json_events(lines, schema)
    check_events(read.events)
    assert len(read.ids) + len(read.rejects) == there


@given(
    values=st.dictionaries(
        names() | st.sampled_from(list(TYPES)),
        scalars() | st.lists(scalars(), max_size=3) | st.sampled_from(ODD_OBJECTS).map(lambda make: make()),
        max_size=5,
    )
)
@settings(max_examples=200)
def test_any_python_objects_are_an_event_or_an_error(values: dict[str, Any]) -> None:
    schema = Schema(TYPES)
    try:
        arrays = encode_events([Event(values)], schema)
    except MatchwoodError:
        return
    check_events(arrays)


def test_the_million_is_a_million() -> None:
    assert sum(part.inputs for part in parts_of(1_000_000, 1, None)) >= 1_000_000


def flipped_and_cut(kept: Saved, path: Path, positions: range) -> tuple[int, int]:
    """(damages, those refused) of one file: each position changed, and the file cut there."""
    content, refused = kept.files[path], 0
    try:
        for at in positions:
            for damaged in (content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :], content[:at]):
                path.write_bytes(damaged)
                refused += assert_told_or_same(kept)
    finally:
        path.write_bytes(content)
    return 2 * len(positions), refused


def test_bytes_of_a_saved_index_and_engine_cannot_change_unnoticed() -> None:
    for kept in (saved_index("scan"), saved_engine(), saved_covers()):
        for path, content in kept.files.items():
            damages, refused = flipped_and_cut(kept, path, range(0, len(content), max(1, len(content) // 12)))
            assert refused == damages, path


@pytest.mark.stress
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [*sorted(SYSTEMS), "engine", "covers"])
def test_no_byte_at_the_head_of_a_saved_file_can_change_unnoticed(name: str) -> None:
    kept = {"engine": saved_engine, "covers": saved_covers}.get(name, partial(saved_index, name))()
    for path, content in kept.files.items():
        damages, refused = flipped_and_cut(kept, path, range(min(len(content), HEAD)))
        assert refused == damages, path
