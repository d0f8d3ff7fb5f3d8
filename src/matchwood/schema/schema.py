"""The schema: the attributes of a system, declared or learnt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from types import TracebackType
from typing import Any, NamedTuple

from matchwood.errors import SchemaError, UnknownAttributeError, ValueTypeError
from matchwood.patterns import Elements, read_test
from matchwood.schema.comparison import schema_difference
from matchwood.schema.functions import function_of, has_conditions, is_derived, is_hidden, source_of
from matchwood.schema.keys import key_of, value_of
from matchwood.schema.symbols import Symbols
from matchwood.schema.types import CODED, MAX_DIMENSIONS, ORDERS, Attribute, Scalar, Type


class _Step(NamedTuple):
    """A step of learning, recorded before it is made: an attribute is added, or gets its type."""

    attribute: Attribute
    added: bool
    dimensions: int
    """The number of dimensions before the step."""


class Schema:
    """The attributes of a system, declared or learnt.

    With `learn=True` (the default) the first value of a new attribute fixes its type; with `learn=False` only declared names are
    known and any other raises `UnknownAttributeError`. One writer; readers see an attribute once it is complete.

    >>> schema = Schema({"age": "number"})
    >>> schema.key(schema.attribute_for("age", Type.NUMBER), 31)
    31.0
    >>> schema.key(schema.attribute_for("age", Type.NUMBER), "old")
    Traceback (most recent call last):
    ...
    matchwood.errors.ValueTypeError: attribute 'age': expected a number, got 'old' (str)
    """

    def __init__(self, declared: Mapping[str, str | Type] | None = None, *, learn: bool = True) -> None:
        self.learn = learn
        self._attributes: dict[str, Attribute] = {}
        self._derived: dict[str, Attribute] = {}
        self.ages: tuple[Attribute, ...] = ()
        self.has_clock = True  # can AGE be relative to the clock?
        self._by_dimension: list[Attribute] = []
        self._learnt: list[_Step] = []
        self.forgotten = 0  # how often something learnt was forgotten: arrays encoded before may name other attributes
        self._prefixes: dict[str, int] = {}  # of dotted names, and how many attributes have each
        for name, type_ in (declared or {}).items():
            self.declare(name, type_)

    def declare(self, name: str, type_: str | Type) -> Attribute:
        """Set the type of `name`. O(1).

        Raises `SchemaError` if there is no such type, `ValueTypeError` if the attribute has another one already.

        >>> Schema().declare("age", "number").dims
        (0,)
        """
        order = ORDERS.get(str(type_))
        try:
            wanted = Type.STRING if order is not None else Type(type_)
        except ValueError:
            known = ", ".join([*Type, *ORDERS])
            raise SchemaError(f"attribute {name!r}: expected one of the types {known}, got {type_!r}") from None
        attribute = self.get(name)
        if attribute is None:
            attribute = self._derive(name) if is_derived(name) else self._add(name)
        if order is not None and attribute.type is Type.STRING and attribute.order != order:
            raise ValueTypeError(f"attribute {name!r} is of type {attribute.declared}, but is declared as {type_}")
        typed = self._give_type(attribute, wanted)
        typed.order = typed.order if order is None else order
        return typed

    def attribute_for(self, name: str, type_: Type) -> Attribute:
        """The attribute `name`, which must have the type `type_`; it is learnt if the schema learns. O(1)."""
        attribute = self.find(name)
        if attribute.type is type_:
            return attribute
        return self._give_type(attribute, type_)

    def find(self, name: str) -> Attribute:
        """The attribute `name`; if it is unknown and the schema learns, a new one without a type. O(1).

        A function of an attribute can always be added, if the attribute itself is known or can be learnt.
        """
        attribute = self.get(name)
        if attribute is not None:
            return attribute
        if is_derived(name):
            return self._derive(name)
        if not self.learn:
            known = ", ".join(sorted(self._attributes)[:20]) or "none"
            raise UnknownAttributeError(f"attribute {name!r} is not in the schema (known: {known}); declare it first")
        return self._add(name)

    def get(self, name: str) -> Attribute | None:
        """The attribute `name`, None if it is unknown; nothing is learnt. O(1)."""
        return self._attributes.get(name) or self._derived.get(name)

    def is_prefix(self, path: str) -> bool:
        """Is there an attribute whose dotted name begins with this path? O(1).

        >>> Schema({"user.age": "number"}).is_prefix("user")
        True
        """
        return path in self._prefixes

    def tentatively(self) -> Tentatively:
        """A block that forgets the attributes and types learnt inside if it raises: refused input must teach nothing. O(1).

        Symbols stay: an unused one costs its bytes and changes no answer.
        """
        return Tentatively(self)

    def mark(self) -> int:
        """The number of steps of learning so far, for `forget_since`."""
        return len(self._learnt)

    def learnt_since(self, mark: int) -> list[str]:
        """The names of the attributes that were added, or got their type, since `mark`. O(steps)."""
        return [step.attribute.name for step in self._learnt[mark:]]

    def forget_since(self, mark: int) -> None:
        """Forget the attributes and types learnt since `mark`. O(steps)."""
        while len(self._learnt) > mark:
            self.forgotten += 1
            self._forget(self._learnt[-1])
            self._learnt.pop()

    def hidden_dimensions(self) -> list[int]:
        """The dimensions of attributes that have the tests of others. O(derived attributes)."""
        return [attribute.dims[0] for name, attribute in self._derived.items() if is_hidden(name)]

    def of_dimension(self, dim: int) -> Attribute:
        """The attribute that a dimension belongs to. O(1)."""
        return self._by_dimension[dim]

    def key(self, attribute: Attribute, value: object, *, register: bool = True) -> float:
        """The key of one scalar value of `attribute`, whose type must be known and not point. O(1).

        With `register=False` a string that is not registered gets `UNKNOWN_SYMBOL` instead of a code of its own.
        """
        return key_of(attribute, value, register)

    def value(self, attribute: Attribute, key: float) -> Scalar:
        """The value whose key is `key`: the inverse of `key`, used to show rows to people. O(1).

        Raises OverflowError for the key of an instant that Python's datetime cannot hold (a float past an open end).
        """
        return value_of(attribute, key)

    def shown(self, attribute: Attribute, key: float) -> str:
        """The value of a key for a message; the key itself if Python's datetime cannot hold the instant."""
        try:
            return str(self.value(attribute, key))
        except OverflowError:
            return f"{key:.0f} us"

    @property
    def attributes(self) -> Mapping[str, Attribute]:
        """The attributes of events by name, without derived ones: a view that follows what is learnt."""
        return self._attributes

    @property
    def dimensions(self) -> int:
        """The number of dimensions assigned so far."""
        return len(self._by_dimension)

    def __iter__(self) -> Iterator[Attribute]:
        return chain(self._attributes.values(), self._derived.values())

    def __len__(self) -> int:
        return len(self._attributes) + len(self._derived)

    def __contains__(self, name: object) -> bool:
        return name in self._attributes or name in self._derived

    def extends(self, other: Schema) -> bool:
        """Does every dimension and key of `other` mean the same here? O(1) for itself, otherwise O(attributes + symbols).

        >>> ours, theirs = Schema({"age": "number", "city": "string"}), Schema({"age": "number"})
        >>> ours.extends(theirs), theirs.extends(ours)
        (True, False)
        """
        return self.difference(other) is None

    def difference(self, other: Schema) -> str | None:
        """The first attribute of `other` that means something else here, for a message; None if there is none."""
        return schema_difference(self, other)

    def to_json(self) -> dict[str, Any]:
        """The schema as a value for `json.dumps`, symbols included. O(attributes + symbols)."""
        return {
            "learn": self.learn,
            "attributes": [
                {
                    "name": attribute.name,
                    "type": attribute.type,
                    "dims": list(attribute.dims),
                    **({} if attribute.symbols is None else {"symbols": attribute.symbols.to_json()}),
                    **({} if attribute.order is None else {"order": attribute.order}),
                }
                for attribute in self
            ],
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Schema:
        """The schema that `to_json` wrote; `SchemaError` if it contradicts itself.

        >>> Schema.from_json(Schema({"age": "number"}).to_json()).get("age").type
        <Type.NUMBER: 'number'>
        """
        schema = cls(learn=bool(saved["learn"]))
        owners: dict[int, Attribute] = {}
        for item in saved["attributes"]:
            type_ = None if item["type"] is None else Type(item["type"])
            attribute = Attribute(str(item["name"]), type_, tuple(int(dim) for dim in item["dims"]))
            if item.get("order") is not None:
                if type_ is not Type.STRING or item["order"] not in ORDERS.values():
                    raise SchemaError(
                        f"attribute {attribute.name!r}: there is no order {item['order']!r} of its values"
                    )
                attribute.order = item["order"]
            if attribute.name in schema:
                raise SchemaError(f"attribute {attribute.name!r} is listed twice")
            if is_derived(attribute.name):
                _check_derived(attribute, schema)
            if len(attribute.dims) != (2 if type_ is Type.POINT else 1) or not owners.keys().isdisjoint(attribute.dims):
                raise SchemaError(
                    f"attribute {attribute.name!r}: dimensions {list(attribute.dims)} do not fit its type, or are used twice"
                )
            if type_ in CODED:
                try:
                    attribute.symbols = Symbols.from_json(item.get("symbols", ()))
                except SchemaError as error:
                    raise error.about(f"attribute {attribute.name!r}") from None
                if is_hidden(attribute.name):
                    for text in attribute.symbols.codes:  # `read_test` raises if it is none
                        if isinstance(read_test(text), Elements) is not has_conditions(attribute.name):
                            raise SchemaError(f"attribute {attribute.name!r}: {text[:80]!r} is a test of another kind")
            schema._enter(attribute)
            owners.update(dict.fromkeys(attribute.dims, attribute))
        if sorted(owners) != list(range(len(owners))):
            raise SchemaError("the dimensions of the saved schema are not 0, 1, 2, ...")
        schema._by_dimension = [owners[dim] for dim in range(len(owners))]
        return schema

    def _add(self, name: str) -> Attribute:
        if not isinstance(name, str) or not name:
            raise SchemaError(f"expected an attribute name, got {name!r}")
        attribute = Attribute(name, None, ())
        self._learnt.append(_Step(attribute, True, len(self._by_dimension)))
        attribute.dims = (self._new_dimension(attribute),)
        self._enter(attribute)
        return attribute

    def _derive(self, name: str) -> Attribute:
        """A new derived attribute; the attribute that it is computed from gets the type that the function takes."""
        function = function_of(name)
        if function.is_age and function.argument is None and not self.has_clock:
            raise SchemaError(
                "AGE of one attribute is relative to the clock of an engine, which Spark has not; "
                "name a second attribute: AGE(created, received)"
            )
        try:
            self.attribute_for(source_of(name), function.takes)
            if function.is_age and function.argument is not None:
                self.attribute_for(function.argument, function.takes)
        except ValueTypeError as error:
            raise error.about(f"{function.name}(...)") from None
        symbols = Symbols() if function.gives in CODED else None
        attribute = Attribute(name, function.gives, (), symbols)
        self._learnt.append(_Step(attribute, True, len(self._by_dimension)))
        attribute.dims = (self._new_dimension(attribute),)
        self._enter(attribute)  # from now on events that are encoded have it
        return attribute

    def _enter(self, attribute: Attribute) -> None:
        if is_derived(attribute.name):
            source = self.get(source_of(attribute.name))
            assert source is not None
            source.derived = (*source.derived, attribute)
            self._derived[attribute.name] = attribute
            if function_of(attribute.name).is_age:
                self.ages = (*self.ages, attribute)
            return
        for prefix in _prefixes_of(attribute.name):
            self._prefixes[prefix] = self._prefixes.get(prefix, 0) + 1
        self._attributes[attribute.name] = attribute

    def _give_type(self, attribute: Attribute, type_: Type) -> Attribute:
        if attribute.type is None:
            self._learnt.append(_Step(attribute, False, len(self._by_dimension)))
            if type_ is Type.POINT:
                attribute.dims = (*attribute.dims, self._new_dimension(attribute))
            if type_ in CODED:
                attribute.symbols = Symbols()
            attribute.type = type_
        if attribute.type is not type_:
            raise ValueTypeError(f"attribute {attribute.name!r} is of type {attribute.type}, but is used as {type_}")
        return attribute

    def _forget(self, step: _Step) -> None:
        """Undo the last step of learning, even if it was interrupted."""
        attribute = step.attribute
        if not step.added:
            attribute.type = attribute.symbols = attribute.order = None
            attribute.dims = attribute.dims[:1]
        elif self._derived.get(attribute.name) is attribute:
            source = self.get(source_of(attribute.name))
            assert source is not None
            source.derived = tuple([other for other in source.derived if other is not attribute])
            del self._derived[attribute.name]
            self.ages = tuple([other for other in self.ages if other is not attribute])
        elif self._attributes.get(attribute.name) is attribute:
            del self._attributes[attribute.name]
            for prefix in _prefixes_of(attribute.name):
                self._prefixes[prefix] -= 1
                if not self._prefixes[prefix]:
                    del self._prefixes[prefix]
        del self._by_dimension[step.dimensions :]

    def _new_dimension(self, attribute: Attribute) -> int:
        dim = len(self._by_dimension)
        if dim >= MAX_DIMENSIONS:
            raise SchemaError(
                f"attribute {attribute.name!r}: a schema holds at most {MAX_DIMENSIONS:,} dimensions; "
                "use one attribute with a list of values, and A_CONTAINS, instead of an attribute for each value"
            )
        self._by_dimension.append(attribute)
        return dim


def _check_derived(attribute: Attribute, schema: Schema) -> None:
    """Refuse a derived attribute of a saved schema that does not fit its function or the attribute it is computed from."""
    function, source = function_of(attribute.name), schema.get(source_of(attribute.name))
    other = schema.get(function.argument) if function.is_age and function.argument is not None else source
    takes = {None if found is None else found.type for found in (source, other)}
    if source is None or takes != {function.takes} or attribute.type is not function.gives:
        raise SchemaError(f"attribute {attribute.name!r} does not fit the attribute that it is computed from")


def _prefixes_of(name: str) -> list[str]:
    """The paths of the objects that a dotted name lies in: `a` and `a.b` of `a.b.c`."""
    return [name[:at] for at, sign in enumerate(name) if sign == "."] if "." in name else []


class Tentatively:
    """See `Schema.tentatively`. Not a generator: one that is dropped before it ends would forget what a call has used."""

    __slots__ = ("_mark", "_schema")

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._mark = schema.mark()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._schema.forget_since(self._mark)
