"""Claims and numbers as Markdown: the tables of a section, a target with its verdict, a competitor with its ratio."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.claims.forms import Claim, Rival

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Judged:
    """A claim with its figures; None for a missing one."""

    claim: Claim
    ours: float | None
    rival: float | None
    ours_beside_rival: float | None

    @property
    def is_missed(self) -> bool:
        """Does the claim have a target that ours does not reach?"""
        return self.ours is not None and self.claim.target is not None and not self.claim.target.met(self.ours)

    @property
    def is_lost(self) -> bool:
        """Is a competitor better?"""
        return self.rival is not None and self.ours_beside_rival is not None and self.rival < self.ours_beside_rival


def claims_table(judged: Sequence[Judged]) -> Iterator[str]:
    """One line per claim; columns without any content are left out."""
    columns = {
        "the paper": [one.claim.paper for one in judged],
        "ours": [shown(one.ours, one.claim.unit) for one in judged],
        "target": [verdict(one) for one in judged],
        "strongest competitor": [rival_of(one) for one in judged],
    }
    used = {head: cells for head, cells in columns.items() if any(cells)}
    yield f"| | {' | '.join(used)} |"
    yield "|---" * (len(used) + 1) + "|"
    for position, one in enumerate(judged):
        yield f"| {one.claim.what} | {' | '.join(cells[position] for cells in used.values())} |"
    yield ""


def verdict(judged: Judged) -> str:
    """The target, and whether it is met."""
    target = judged.claim.target
    if target is None:
        return ""
    target_text = target_of(judged.claim)
    if judged.ours is None:
        return target_text
    return f"{target_text}: met" if target.met(judged.ours) else f"{target_text}: **missed**"


def target_of(claim: Claim) -> str:
    """The target of a claim in words."""
    assert claim.target is not None
    return f"{'at least' if claim.target.least else 'at most'} {shown(claim.target.bound, claim.unit)}"


def rival_of(judged: Judged) -> str:
    """The competitor's figure and how many times ours is better."""
    rival: Rival | None = judged.claim.rival
    if rival is None:
        return ""
    if judged.rival is None or judged.ours_beside_rival is None:
        return f"{rival.name}: {NOT_MEASURED}"
    ratio = judged.rival / judged.ours_beside_rival
    text = f"{rival.name} {shown(judged.rival, rival.unit)}, ours {shown(judged.ours_beside_rival, rival.unit)}"
    return f"{text} ({number(ratio)} x)" if ratio >= 1 else f"**{text}** ({number(ratio)} x)"


def shown(value: float | None, unit: str) -> str:
    """A number with its unit."""
    return NOT_MEASURED if value is None else f"{number(value)} {unit}".rstrip()


def number(value: float) -> str:
    """Three significant digits, or all digits before the point."""
    size = abs(value)
    decimals = 0 if size >= 100 or value == int(value) else 1 if size >= 10 else 2 if size >= 0.1 else 4
    return f"{value:,.{decimals}f}"


def escaped(text: str) -> str:
    """The text with the stars of names (BE*-Tree, R*-tree, G*) escaped."""
    return re.sub(r"\b(BE|R|G)\*(?!\*)", r"\1\*", text)


def bold(text: str, wanted: bool) -> str:
    """The text, in bold if wanted."""
    return f"**{text}**" if wanted else text
