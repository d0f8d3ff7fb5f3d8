"""Whatever the way in, the arrays are those of the Python objects."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from matchwood import geo
from matchwood.encode.arrays import CIRCLE, concatenate_events, concatenate_rows
from matchwood.encode.checks import check_events, check_rows
from matchwood.encode.event_tables import encode_event_table
from matchwood.encode.events import encode_events
from matchwood.encode.json_lines import read_json_events, read_json_subscriptions
from matchwood.encode.objects import RowsBuilder
from matchwood.encode.subscription_tables import encode_subscription_table
from matchwood.errors import NeverMatchesError
from matchwood.lang.event import Event
from matchwood.lang.expression import Constant, Predicate, all_of
from matchwood.lang.json_form import to_json
from matchwood.lang.parser import parse
from matchwood.lang.place_predicates import DWithin
from matchwood.lang.rows import normalise
from matchwood.schema import Point, Schema
from matchwood.structures import make_index
from tests.encode.tables import (
    ARROW,
    PREDICATE,
    a_conjunct,
    assert_same,
    ends,
    json_value,
    listed_events,
    struct_of,
    wide_events,
)
from tests.worlds import DAY, POINTS, RADII, TYPES, WORDS, Dice, World, a_world, ranked, seeded_dice, worlds

Conjunctions = list[tuple[float, list[Predicate]]]


def known_words() -> Schema:
    """A schema whose symbols are there already, so that codes do not depend on the order of reading."""
    schema = Schema(TYPES)
    for name in ("plan", "city"):
        for word in WORDS:
            schema.key(schema.find(name), word)
    return schema


def of_objects(conjunctions: Conjunctions, schema: Schema) -> tuple[Any, list[int]]:
    """The rows by way of the language, and the positions of those that can never match."""
    builder, refused = RowsBuilder(schema), []
    for position, (priority, predicates) in enumerate(conjunctions):
        try:
            rows = normalise(all_of(*predicates) if predicates else Constant(True), schema)
            builder.add(position, priority, rows)
        except NeverMatchesError:
            refused.append(position)
    return builder.build(), refused


@given(world=worlds())
@settings(max_examples=60)
def test_text_and_json_subscriptions_equal_the_objects(world: World) -> None:
    table = pa.table(
        {
            "id": pa.array(world.subscriptions, pa.int64()),
            "priority": pa.array([p for p, _, _ in world.subscriptions.values()], pa.float64()),
            "expression": pa.array([str(e) for _, e, _ in world.subscriptions.values()], pa.string()),
        }
    )
    encoded = encode_subscription_table(table, world.schema)
    assert not encoded.rejects
    assert encoded.ids.tolist() == list(world.subscriptions)
    assert_same(encoded.rows, world.rows())
    lines = [
        json.dumps({"id": i, "priority": p, "expression": to_json(e) if i % 2 else json.dumps(to_json(e))})
        for i, (p, e, _) in world.subscriptions.items()
        if not isinstance(e, Constant)
    ]
    wanted = [i for i, (_, e, _) in world.subscriptions.items() if not isinstance(e, Constant)]
    as_json = read_json_subscriptions(lines, world.schema)
    assert not as_json.rejects
    assert_same(as_json.rows, world.rows(wanted))


@pytest.mark.parametrize("seed", range(40))
def test_the_list_form_equals_the_objects(seed: int) -> None:
    dice = seeded_dice(seed)
    conjunctions: Conjunctions = [
        (dice.one([0.0, 1.0, -2.5]), [a_conjunct(dice, dice.one(list(TYPES))) for _ in range(dice.below(6))])
        for _ in range(30)
    ]
    expected, refused = of_objects(conjunctions, known_words())
    table = pa.table(
        {
            "id": list(range(30)),
            "priority": [priority for priority, _ in conjunctions],
            "predicates": pa.array([[struct_of(p) for p in ps] for _, ps in conjunctions], pa.list_(PREDICATE)),
        }
    )
    schema = known_words()
    encoded = encode_subscription_table(table, schema)
    assert [reject.position for reject in encoded.rejects] == refused
    assert_same(encoded.rows, expected)
    halves = [encode_subscription_table(part, schema).rows for part in (table.slice(0, 11), table.slice(11))]
    assert_same(concatenate_rows(halves), expected)  # a slice's lists do not begin at offset 0


@pytest.mark.parametrize("seed", range(40))
def test_the_wide_form_equals_the_objects(seed: int) -> None:
    dice = seeded_dice(seed)
    names = [name for name in TYPES if TYPES[name] != "point"]
    conjunctions: Conjunctions = [
        (0.0, [p for name in names if dice.chance(2) for p in [a_conjunct(dice, name)] if states_a_value(p)])
        for _ in range(25)
    ]
    expected, refused = of_objects(conjunctions, known_words())
    encoded = encode_subscription_table(wide_table(names, conjunctions), known_words())
    assert [reject.position for reject in encoded.rejects] == refused
    assert_same(encoded.rows, expected)


def states_a_value(predicate: Predicate) -> bool:
    """Presence alone cannot be said in the wide form."""
    return TYPES[predicate.attribute] == "string" or ends(predicate) != (None, None)


def wide_table(names: list[str], conjunctions: Conjunctions) -> pa.Table:
    columns: dict[str, Any] = {"id": pa.array(range(len(conjunctions)), pa.uint32())}
    for name in names:
        mine = [next((p for p in ps if p.attribute == name), None) for _, ps in conjunctions]
        columns[f"{name}_weight"] = pa.array([None if p is None else p.weight for p in mine], pa.float64())
        if TYPES[name] == "string":
            values = [None if p is None else list(p.values) for p in mine]  # type: ignore[attr-defined]
            columns[name] = pa.array(values, pa.large_list(pa.dictionary(pa.int8(), pa.string())))
        else:
            for end, key in enumerate(("lo", "hi")):
                values = [None if p is None else ends(p)[end] for p in mine]
                columns[f"{name}_{key}"] = pa.array(values, ARROW[TYPES[name]])
    return pa.table(columns)


def test_the_wide_form_takes_equality() -> None:
    table = pa.table(
        {
            "id": [1, 2, 3],
            "age": pa.array([31, None, 33], pa.int16()),
            "plan": ["free", "pro", None],
            "vip": [True, None, False],
            "seen": pa.array([DAY, None, DAY + timedelta(hours=1)]),
        }
    )
    types = {"age": "number", "plan": "string", "vip": "bool", "seen": "timestamp"}
    texts = [
        "age = 31 AND plan = 'free' AND vip = TRUE AND seen = TIMESTAMP('2026-03-01')",
        "plan = 'pro'",
        "age = 33 AND vip = FALSE AND seen = TIMESTAMP('2026-03-01T01:00:00Z')",
    ]
    expected = encode_subscription_table(pa.table({"id": [1, 2, 3], "expression": texts}), Schema())
    assert_same(encode_subscription_table(table, Schema(types)).rows, expected.rows)


def placed_tables(dice: Dice) -> tuple[list[tuple[float, float, float]], list[pa.Table]]:
    circles = [(*dice.one(POINTS), dice.one(RADII)) for _ in range(60)]
    place = dict(zip(("lon", "lat", "radius"), (list(c) for c in zip(*circles, strict=True)), strict=True))
    ids = {"id": list(range(60))}
    empty = pa.array([[] for _ in range(60)], pa.list_(PREDICATE))
    return circles, [
        pa.table({**ids, "expression": ["vip = TRUE"] * 60, **place}),
        pa.table({**ids, "vip": [True] * 60, **place}),
        pa.table(
            {
                **ids,
                "predicates": pa.array([[{"attribute": "vip", "lo": 1, "hi": 1}]] * 60, pa.list_(PREDICATE)),
                **place,
            }
        ),
        pa.table({**ids, "predicates": empty, **place}),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_place_in_columns_is_dwithin(seed: int) -> None:
    dice = seeded_dice(seed)
    circles, tables = placed_tables(dice)
    world = World(Schema(TYPES))
    near = [Point(min(180.0, lon + dice.one([0.0, 0.005, 0.014])), lat) for lon, lat in POINTS]
    world.events = [Event({"place": place, "vip": True}) for place in [*POINTS, *near]]
    for id_, (lon, lat, radius) in enumerate(circles):
        circle = DWithin("place", centre=Point(lon, lat), radius=radius)
        world.put(id_, 0.0, all_of(Constant(True), circle))
    bare = world.expected()
    with_vip = [[(id_, score + 1.0) for id_, score in hits] for hits in bare]
    for table, expected in zip(tables, (with_vip, with_vip, with_vip, bare), strict=True):
        encoded = encode_subscription_table(table, world.schema)
        assert not encoded.rejects
        assert (encoded.rows.kinds == CIRCLE).sum() == len(circles)
        index = make_index("scan")
        index.insert(encoded.rows)
        assert ranked(index.match(world.event_arrays())) == expected


@given(world=worlds(subscriptions=0, events=6))
@settings(max_examples=80)
def test_events_equal_the_objects_in_every_form(world: World) -> None:
    for register in (False, True):
        schemas = [Schema(TYPES) for _ in range(4)]
        expected = encode_events(world.events, schemas[0], register=register)
        lines = [
            json.dumps({"values": {n: json_value(v) for n, v in e.values.items()}, "weights": dict(e.weights)})
            for e in world.events
        ]
        as_json = read_json_events(lines, schemas[1], register=register)
        assert not as_json.rejects
        assert_same(as_json.events, expected)
        wide = encode_event_table(wide_events(world.events), schemas[2], register=register)
        assert not wide.rejects
        assert_same(wide.events, expected)
        assert [a.symbols for a in schemas[2]] == [a.symbols for a in schemas[0]]
        flat = [
            Event({n: e.values[n] for n in [*TYPES] if n in e.values and n != "home"}, no_place_weight(e))
            for e in world.events
        ]
        listed = encode_event_table(listed_events(flat), schemas[3], register=register)
        assert not listed.rejects
        assert_same(listed.events, encode_events(flat, Schema(TYPES), register=register))


def no_place_weight(event: Event) -> dict[str, float]:
    return {name: weight for name, weight in event.weights.items() if name not in ("place", "home")}


def test_a_world_through_tables_gives_the_oracles_matches() -> None:
    world = a_world(seeded_dice(99), 200, 60)
    ids = list(world.subscriptions)
    table = pa.table({"id": ids, "expression": [str(world.subscriptions[i][1]) for i in ids]})
    schema = known_words()
    rows = encode_subscription_table(table, schema).rows
    events = encode_event_table(wide_events(world.events), schema).events
    world.subscriptions = {i: (0.0, e, rows_) for i, (_, e, rows_) in world.subscriptions.items()}
    index = make_index("scan")
    index.insert(rows)
    assert ranked(index.match(events)) == world.expected()


def test_points_ranges_and_weights_as_structs() -> None:
    table = pa.table(
        {
            "id": [5, 6],
            "age": pa.array([{"lo": 1, "hi": None}, None], pa.struct([("lo", pa.int32()), ("hi", pa.int32())])),
            "place": pa.array(
                [{"lon": 1, "lat": 2}, {"lon": None, "lat": None}], pa.struct([("lon", pa.int8()), ("lat", pa.int8())])
            ),
            "weights": [{"age": 0.5, "place": None}, {"age": None, "place": 2.0}],
            "until": pa.array([1_000, None], pa.timestamp("ms", "Europe/Oslo")),
        }
    )
    encoded = encode_event_table(table, Schema())
    assert encoded.ids.tolist() == [5, 6]
    assert encoded.until.tolist() == [1e6, np.inf]
    assert encoded.events.offsets.tolist() == [0, 3, 3]
    assert encoded.events.lo.tolist() == [1.0, 1.0, 2.0]
    assert encoded.events.hi.tolist() == [np.inf, 1.0, 2.0]
    assert encoded.events.weight.tolist() == [0.5, 1.0, 1.0]


@pytest.mark.parametrize("seed", range(6))
def test_slices_of_a_table_give_the_same_events(seed: int) -> None:
    events = a_world(seeded_dice(seed), 0, 40).events
    for table in (wide_events(events), listed_events(events)):
        whole = encode_event_table(table, Schema(TYPES), register=True).events
        schema = Schema(TYPES)
        parts = [encode_event_table(table.slice(at, 7), schema, register=True).events for at in range(0, 40, 7)]
        assert_same(concatenate_events(parts), whole)


def test_odd_lists_and_null_slots_are_read_as_plain_lists() -> None:
    fixed = pa.array([[1.0, 2.0], None, [3.0, 3.0]], pa.list_(pa.float64(), 2))
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 2, 4, 6]), pa.array([1.0, 2.0, 9.0, 9.0, 3.0, 3.0]), mask=pa.array([False, True, False])
    )
    plain = pa.array([[1.0, 2.0], None, [3.0]], pa.list_(pa.float64()))
    expected = encode_event_table(pa.table({"age": plain}), Schema()).events
    for odd in (fixed, hidden, plain.cast(pa.large_list(pa.float64()))):
        assert_same(encode_event_table(pa.table({"age": odd}), Schema()).events, expected)


def test_everything_encoded_passes_the_checks_of_arrays() -> None:
    dice = seeded_dice(5)
    world = a_world(dice, 0, 100)
    for table in placed_tables(dice)[1]:
        schema = Schema(TYPES)
        check_rows(encode_subscription_table(table, schema).rows, schema.dimensions)
    for table in (wide_events(world.events), listed_events(world.events)):
        check_events(encode_event_table(table, Schema(TYPES)).events)


MOMENTS = [DAY + timedelta(microseconds=us) for us in (0, 1, 2)]
T0, T1, T2 = (f"TIMESTAMP('{moment.isoformat()}')" for moment in MOMENTS)


@pytest.mark.parametrize(
    ("text", "wide", "struct"),
    [
        ("vip = TRUE", {"vip": [True]}, {"value": 1.0}),
        ("vip IN (FALSE)", {"vip": [[False]]}, {"values": [0.0]}),
        ("vip IN (TRUE, FALSE)", {"vip": [[True, False]]}, {"values": [1.0, 0.0]}),
        ("vip <= FALSE", {"vip_hi": [False]}, {"hi": 0.0}),
        ("vip >= FALSE", {"vip_lo": [False]}, {"lo": 0.0}),
        ("vip BETWEEN FALSE AND TRUE", {"vip_lo": [False], "vip_hi": [True]}, {"lo": 0.0, "hi": 1.0}),
        (f"seen IN ({T1}, {T0})", {"seen": [[MOMENTS[1], MOMENTS[0]]]}, {"values": [MOMENTS[1], MOMENTS[0]]}),
        (f"seen IN ({T0}, {T2})", {"seen": [[MOMENTS[0], MOMENTS[2]]]}, {"values": [MOMENTS[0], MOMENTS[2]]}),
        (f"seen <= {T1}", {"seen_hi": [MOMENTS[1]]}, {"hi": MOMENTS[1]}),
    ],
)
def test_sets_of_bools_and_instants_are_the_same_in_every_form(
    text: str, wide: dict[str, Any], struct: dict[str, Any]
) -> None:
    """Each form has its own way from values to interval sets; in none of them lies anything between two values."""
    tree = parse(text)
    assert isinstance(tree, Predicate)
    expected, _ = of_objects([(0.0, [tree])], Schema(TYPES))
    tables = [
        {"expression": [text]},
        {"expression": [json.dumps(to_json(tree))]},
        {name: pa.array(values) for name, values in wide.items()},
        {"predicates": [[{"attribute": tree.attribute, **struct}]]},
    ]
    for columns in tables:
        assert_same(encode_subscription_table(pa.table({"id": [0], **columns}), Schema(TYPES)).rows, expected)


DEGREES_PER_METRE = 180.0 / geo.HALF_TURN_M


@pytest.mark.parametrize("seed", range(8))
def test_a_circle_has_the_same_rows_whichever_way_it_comes(seed: int) -> None:
    """To the bit: at the poles, across the antimeridian, from centimetres to half the earth."""
    chooser = random.Random(seed)
    size = 400
    lon = [chooser.choice([chooser.uniform(-180, 180), -180.0, 180.0, 179.9999999, 0.0]) for _ in range(size)]
    lat = [chooser.choice([chooser.uniform(-90, 90), -90.0, 90.0, 89.99999, 0.0, 60.0]) for _ in range(size)]
    radius = [10 ** chooser.uniform(-3, 7.31) for _ in range(size)]
    for i in range(0, size, 5):  # the box of these touches a pole or the antimeridian, to a few roundings
        reach = (90.0 - abs(lat[i]) + chooser.choice([-1e-14, 0.0, 1e-14, 1e-9])) / DEGREES_PER_METRE
        radius[i] = max(reach, 1e-3)
        lat[i + 1], lon[i + 1] = 0.0, chooser.choice([-1.0, 1.0]) * (180.0 - radius[i + 1] * DEGREES_PER_METRE % 180.0)
    place = {"lon": lon, "lat": lat, "radius": radius}
    ids = {"id": list(range(size))}
    texts = [f"DWITHIN(place, POINT({x!r} {y!r}), {r!r} m)" for x, y, r in zip(lon, lat, radius, strict=True)]
    expected = encode_subscription_table(pa.table({**ids, "expression": texts}), Schema({"place": "point"})).rows
    assert expected.size == size
    nothing = pa.array([[] for _ in range(size)], pa.list_(PREDICATE))
    lines = [
        json.dumps({"id": i, "expression": "TRUE", "place": [lon[i], lat[i]], "radius": radius[i]}) for i in range(size)
    ]
    tables = [{"expression": ["TRUE"] * size, **place}, {"predicates": nothing, **place}, place]
    for found in (
        *(encode_subscription_table(pa.table({**ids, **t}), Schema({"place": "point"})).rows for t in tables),
        read_json_subscriptions(lines, Schema({"place": "point"})).rows,
    ):
        assert_same(found, expected)
        assert found.lo.tobytes() == expected.lo.tobytes()
