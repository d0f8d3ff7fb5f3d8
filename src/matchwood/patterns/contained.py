"""Literals that a text contains: which of many do.

New literals are filed under one of their n-grams, the one with the fewest; all n-grams of a text are looked up. When they have
become as many as the others, or so many texts were looked up that building takes no longer, all literals are built into an
Aho-Corasick automaton, which reads a text once. The automaton comes from pyahocorasick, the extra `strings`; without it the
n-grams serve alone, which takes about three times as long. A literal that is removed stays in the automaton until half of it is
gone. So an insert or a remove costs O(length), amortised.

One writer; readers need no lock: what they read is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

GRAM = 4
"""Characters of an n-gram; a shorter literal is one as a whole."""
FEWEST = 256
"""Literals that are worth an automaton."""

Entry = tuple[int, Callable[[str], bool] | None]
"""The code of a test, and what is to be asked beside the access."""
_Grams = dict[int, dict[str, list[str]]]
_SLICES = [slice(at, at + GRAM) for at in range(1 << 12)]


class Contained:
    """Entries by literal, none of which is empty."""

    def __init__(self) -> None:
        self._entries: dict[str, list[Entry]] = {}
        self._built: set[str] = set()  # literals of the automaton, removed ones included
        self._gram_of: dict[str, str] = {}  # of the other literals
        self._state: tuple[Any, _Grams] = (None, {})
        """The automaton, and by length and n-gram the literals that it lacks."""
        self._lookups = 0  # of n-grams since the automaton was built; threads may lose some

    def add(self, literal: str, entry: Entry) -> None:
        """Add an entry of a literal. O(length), amortised."""
        known = self._entries.get(literal)
        if known is not None:
            known.append(entry)
            return
        self._entries[literal] = [entry]
        if literal not in self._built:
            self._file(literal)
            if len(self._gram_of) > max(FEWEST, len(self._built)):
                self.build()

    def remove(self, literal: str, code: int) -> None:
        """Remove the entry of a code."""
        left = [entry for entry in self._entries[literal] if entry[0] != code]
        if left:
            self._entries[literal] = left
            return
        del self._entries[literal]
        gram = self._gram_of.pop(literal, None)
        if gram is not None:
            table = self._state[1][len(gram)]
            table[gram] = [other for other in table[gram] if other != literal]
            if not table[gram]:
                del table[gram]
        elif len(self._built) > 2 * len(self._entries) + FEWEST:
            self.build()

    def found(self, text: str) -> Iterator[list[Entry]]:
        """The entries of each literal that the text contains, some perhaps several times. O(length)."""
        automaton, grams = self._state
        entries = self._entries
        if automaton is not None:
            for _, literal in automaton.iter(text):
                if (held := entries.get(literal)) is not None:
                    yield held
        self._lookups += bool(grams)
        for length, table in list(grams.items()):
            # One call of C for all n-grams: a loop takes twice as long.
            for gram in table.keys() & map(text.__getitem__, _slices(len(text), length)):
                for literal in table.get(gram, ()):
                    if literal in text and (held := entries.get(literal)) is not None:
                        yield held

    @property
    def is_due(self) -> bool:
        """Is it time to `build`?"""
        return self._lookups * 2 > len(self._entries) > FEWEST

    def _file(self, literal: str) -> None:
        length = min(len(literal), GRAM)
        table = self._state[1].setdefault(length, {})
        grams = (literal[at : at + length] for at in range(len(literal) - length + 1))
        gram = min(grams, key=lambda gram: len(table.get(gram, ())))
        self._gram_of[literal] = gram
        table.setdefault(gram, []).append(literal)

    def build(self) -> None:
        """Build the automaton of all literals, if pyahocorasick is installed. O(their length)."""
        self._lookups = 0
        try:
            import ahocorasick
        except ImportError:
            return
        automaton = ahocorasick.Automaton()
        for literal in self._entries:
            automaton.add_word(literal, literal)
        automaton.make_automaton()
        self._built, self._gram_of = set(self._entries), {}
        self._state = (automaton if len(automaton) else None, {})


def _slices(size: int, length: int) -> list[slice]:
    """The places of the n-grams of a text."""
    count = max(size - length + 1, 0)
    if length == GRAM and count <= len(_SLICES):
        return _SLICES[:count]
    return [slice(at, at + length) for at in range(count)]
