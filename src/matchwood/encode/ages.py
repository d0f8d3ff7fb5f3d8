"""Ages: AGE(t) is the time from `t` to the arrival of the event, AGE(t, other) to another of its timestamps, in seconds.

An age needs more than the value of its attribute, so it is computed from events that are encoded already, after everything else.
It is a number: (reference - t) / 10^6, rounded once from whole microseconds. The age of a range is a range.
"""

from __future__ import annotations

import math

import numpy as np

from matchwood.encode.arrays import INTERVAL, Events, make_events
from matchwood.encode.derived import derived_events, with_entries
from matchwood.encode.flat import Entries
from matchwood.schema import Attribute, Schema
from matchwood.schema.functions import function_of, source_of

MICROSECONDS = 1e6


def with_event_ages(events: Events, schema: Schema) -> Events:
    """The events with their ages relative to others of their timestamps. O(entries) if the schema has such ages, else O(1)."""
    return _with(events, schema, [age for age in schema.ages if function_of(age.name).argument is not None], math.nan)


def with_clock_ages(events: Events, schema: Schema, now: float) -> Events:
    """The events with their ages relative to the clock, which shows `now`. O(entries) if the schema has such ages, else O(1)."""
    return _with(events, schema, clock_ages(schema), now)


def clock_ages(schema: Schema) -> list[Attribute]:
    """The ages that are relative to the clock."""
    return [age for age in schema.ages if function_of(age.name).argument is None]


def computed_events(events: Events, schema: Schema, attribute: Attribute, *, register: bool) -> Events:
    """A derived attribute of events that are encoded already, as events that have nothing else; none for the clock's ages."""
    if not function_of(attribute.name).is_age:
        return derived_events(events, schema.find(source_of(attribute.name)), attribute, register=register)
    entries = age_entries(events, schema, attribute, math.nan)
    offsets = np.searchsorted(entries.record, np.arange(events.size + 1))
    return make_events(offsets, entries.dims, entries.lo, entries.hi, entries.weight)


def _with(events: Events, schema: Schema, ages: list[Attribute], now: float) -> Events:
    parts = [age_entries(events, schema, age, now) for age in ages]
    return with_entries(events, [part for part in parts if len(part.record)])


def age_entries(events: Events, schema: Schema, age: Attribute, now: float) -> Entries:
    """The entries of one age."""
    owner = np.repeat(np.arange(events.size), np.diff(events.offsets))
    reference = np.full(events.size, now)
    other = function_of(age.name).argument
    if other is not None:
        reference = np.full(events.size, -math.inf)
        theirs = events.dims == schema.find(other).dims[0]
        np.maximum.at(reference, owner[theirs], events.hi[theirs])  # of several instants, the last
        reference[reference == -math.inf] = math.nan
    mine = events.dims == schema.find(source_of(age.name)).dims[0]
    mine &= np.isfinite(reference[owner])
    record, weight = owner[mine], events.weight[mine]
    lo = (reference[record] - events.hi[mine]) / MICROSECONDS
    hi = (reference[record] - events.lo[mine]) / MICROSECONDS
    order = np.lexsort((lo, record))
    dims, kinds = np.full(len(record), age.dims[0], np.uint16), np.full(len(record), INTERVAL, np.uint8)
    return Entries(record[order], dims, kinds, lo[order], hi[order], weight[order])
