"""The options of `Engine.open`, and what a folder keeps of them: the kind of ids, the index, and the name of the scoring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from matchwood.engine.clock import Clock, system_clock
from matchwood.engine.engine import Engine
from matchwood.engine.journal import Journal
from matchwood.engine.record_clock import RecordClock
from matchwood.engine.tables import note_state, schema_of, state_of
from matchwood.errors import QueryError
from matchwood.lang.evaluate import Combine
from matchwood.lang.limits import DEFAULT_LIMITS, Limits
from matchwood.planner import AUTO
from matchwood.schema import Schema
from matchwood.store.scoring import FUNCTION

E = TypeVar("E", bound=Engine)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `Engine.open`: see `Engine`."""

    ids: str | type = "int"
    index: str = AUTO
    scoring: str | Combine | None = None
    on_bad_value: str = "raise"
    clock: Clock = system_clock
    limits: Limits = DEFAULT_LIMITS

    def of_folder(self, journal: Journal) -> Self:
        """With the scoring of the folder if none is given."""
        return replace(self, scoring=scoring_of(journal, self.scoring))

    def make(self, kind: type[E], schema: Schema | Mapping[str, str] | None, ids: str | type) -> E:
        """An empty engine of a class."""
        return kind(
            schema,
            ids=ids,
            index=self.index,
            scoring=self.scoring,
            on_bad_value=self.on_bad_value,
            clock=RecordClock(self.clock),
            limits=self.limits,
        )


def scoring_of(journal: Journal, given: str | Combine | None) -> str | Combine | None:
    """The scoring that is given, or else that of the folder."""
    kept: str | None = journal.meta("scoring")
    if given is None and kept == FUNCTION:
        raise QueryError(
            f"{journal.path.parent}: the scoring is a function, which is not stored; pass scoring=FUNCTION"
        )
    return kept if given is None else given


def found(engine: Engine, journal: Journal, index: str) -> None:
    """Note what an engine is, in a new journal."""
    kind = "int" if engine._subscriptions.names is None else "str"

    def also(connection: Any, _: int) -> None:
        known = (kind, index, engine.scoring)
        connection.execute("INSERT INTO meta VALUES('ids', ?), ('index', ?), ('scoring', ?)", known)
        note_state(connection, state_of(engine, 0), schema_of(engine))

    journal.write([], 0, also)


def keep_scoring(engine: Engine, journal: Journal) -> None:
    """Note the scoring of an engine, or refuse one that would rank the subscriptions of the folder otherwise than before."""
    kept = journal.meta("scoring")  # None in folders of older releases
    if kept not in (None, engine.scoring) and len(engine):
        advice = (
            "pass the function" if kept == FUNCTION else "open it without scoring=, or remove its subscriptions first"
        )
        raise QueryError(f"the scoring of this folder is {kept!r}, got {engine.scoring!r}; {advice}")
    if kept != engine.scoring:
        journal.set_meta("scoring", engine.scoring)


def check_same(engine: Engine, schema: Schema | Mapping[str, str] | None, ids: str | type) -> None:
    """Refuse options that contradict what is on disk."""
    kind = "int" if engine._subscriptions.names is None else "str"
    wanted = ids.__name__ if isinstance(ids, type) else ids
    if wanted not in (kind, "int"):
        raise QueryError(f"the ids of this folder are {kind!r}; open it with ids={kind!r}")
    declared = schema if schema is not None else {}
    attributes = declared.attributes if isinstance(declared, Schema) else declared
    for name, type_ in attributes.items():
        known = engine.schema.get(name)
        wanted_type = type_ if isinstance(type_, str) else type_.declared
        if known is None or (known.type is not None and known.declared != wanted_type):
            raise QueryError(f"attribute {name!r} is not a {wanted_type} in this folder; use declare to add attributes")
