"""Descriptor that caches the addresses of the arrays of a state, for kernels that take it by address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from matchwood.jit.addresses import addresses

State = TypeVar("State")


class Handed(Generic[State]):
    """A state (a NamedTuple of arrays) as attribute `x`; `x_at` says where its arrays are (`addresses`), always of the
    state that is there."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        owner.__setstate__ = _restore  # type: ignore[attr-defined]

    def __set__(self, owner: Any, state: State) -> None:
        if owner.__dict__.get(self._name) is not state:
            # In one step: an exception between two would leave the addresses of arrays that are gone.
            owner.__dict__.update({self._name: state, f"{self._name}_at": addresses(state)})

    if TYPE_CHECKING:  # without `__get__` Python finds what `__set__` wrote, as fast as any attribute

        def __get__(self, owner: Any, kind: type) -> State: ...


def _restore(owner: Any, attributes: dict[str, Any]) -> None:
    """Set all attributes of a copy anew: arrays that were copied or unpickled stand elsewhere than those they were made of."""
    for name, value in attributes.items():
        if name.removesuffix("_at") == name or name.removesuffix("_at") not in attributes:
            setattr(owner, name, value)
