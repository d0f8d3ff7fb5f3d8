"""`python -m bench.performance [--results FOLDER] [--out FOLDER]`: OUT/performance.md from the figures kept in FOLDER.

The table of winners in the README beside OUT is written anew too.

Every number on the page is looked up in the rows; a figure that is asked for and not there ends the run with its name. Files of
the preset `quick` hold less: there, what is missing is left out, and so it is with `--lenient`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.__main__ import NAMES
from bench.claims import CHAPTERS
from bench.claims.forms import Chapter, Claim, Figure, Grid, Rival, Section
from bench.results import Experiment, MissingFigureError, Results

NOT_MEASURED = "not measured"
BEGIN, END = "<!-- made by `make report` from auto.json -->", "<!-- end of what `make report` made -->"


@dataclass(frozen=True)
class Judged:
    """A claim with its figures; None where there is none."""

    claim: Claim
    ours: float | None
    rival: float | None
    ours_beside_rival: float | None

    @property
    def is_missed(self) -> bool:
        """Is there a target, and is it not reached?"""
        return self.ours is not None and self.claim.target is not None and not self.claim.target.met(self.ours)

    @property
    def is_lost(self) -> bool:
        """Is a competitor better?"""
        return self.rival is not None and self.ours_beside_rival is not None and self.rival < self.ours_beside_rival


@dataclass
class Page:
    """Writes chapters; collects what is missing and what is lost on the way."""

    results: Results
    figures: Path
    lenient: bool = False
    missing: list[str] = field(default_factory=list)
    losses: list[tuple[str, Section, Judged]] = field(default_factory=list)

    def text(self, chapters: Sequence[Chapter]) -> str:
        """The whole page. Raises `MissingFigureError` with every figure that is not there."""
        body = [line for chapter in chapters for line in self._chapter(chapter)]
        if self.missing:
            raise MissingFigureError("\n".join(dict.fromkeys(self.missing)))
        lines = [*HEAD, "", *self._environment(chapters), *self._losses(), *body]
        return escaped("\n".join(lines).rstrip()) + "\n"

    def _environment(self, chapters: Sequence[Chapter]) -> Iterator[str]:
        packages = {f"{name} {version}" for e in self.results for name, version in e.environment["packages"].items()}
        yield f"Packages: {', '.join(sorted(packages))}."
        yield ""
        yield "| experiment | machine | preset | finished | commit | rows | compared with other answers | minutes |"
        yield "|---|---|---|---|---|---|---|---|"
        for chapter in chapters:
            experiment = self.results.get(chapter.experiment)
            link = f"[{chapter.experiment}](#{chapter.experiment})"
            if experiment is None:
                yield f"| {link} | | {NOT_MEASURED} | | | | | |"
                continue
            about = experiment.environment
            verified = sum(bool(row["verified"]) for row in experiment.rows)
            commits = {part["commit"] for part in experiment.parts.values()} or {about["commit"]}
            minutes = sum(part["seconds"] for part in experiment.parts.values()) / 60
            machine = f"{about['cpu']}, {about['cores']} cores, Python {about['python']}"
            yield (
                f"| {link} | {machine} | {experiment.preset} | {about['time']} "
                f"| {', '.join(sorted(c or 'unknown' for c in commits))} "
                f"| {len(experiment.rows):,} | {verified:,} | {f'{minutes:.1f}' if experiment.parts else ''} |"
            )
        yield ""

    def _losses(self) -> Iterator[str]:
        yield from ("## Where we lose or miss", "")
        if not self.losses:
            yield from ("Nowhere in these figures.", "")
            return
        yield from ("| where | what | ours | asked, or better | why |", "|---|---|---|---|---|")
        for anchor, section, judged in self.losses:
            asked = []
            if judged.is_missed:
                asked.append(f"target: {target_of(judged.claim)}")
            if judged.is_lost:
                asked.append(rival_of(judged))
            where = f"[{section.title}](#{anchor})"
            claim = judged.claim
            yield f"| {where} | {claim.what} | {shown(judged.ours, claim.unit)} | {'; '.join(asked)} | {claim.why} |"
        yield ""

    def _chapter(self, chapter: Chapter) -> Iterator[str]:
        yield from (f'<a id="{chapter.experiment}"></a>', "", f"## {chapter.title}", "", chapter.about, "")
        experiment = self.results.get(chapter.experiment)
        for number, section in enumerate(chapter.sections, 1):
            anchor = f"{chapter.experiment}-{number}"
            yield from (f'<a id="{anchor}"></a>', "", f"### {section.title}", "")
            if section.paper:
                yield from (f"*The paper:* {section.paper}", "")
            if experiment is None:
                yield from (
                    f"*Ours:* {NOT_MEASURED}; `python -m bench {chapter.experiment} --preset paper` does it.",
                    "",
                )
                continue
            yield from self._section(experiment, section, anchor)

    def _section(self, experiment: Experiment, section: Section, anchor: str) -> Iterator[str]:
        judged = [self._judge(experiment, claim) for claim in section.claims]
        self.losses += [(anchor, section, one) for one in judged if one.is_missed or one.is_lost]
        if judged:
            yield from claims_table(judged)
        for given in section.grids:
            for grid in [given] if isinstance(given, Grid) else given(experiment):
                yield from self._grid(experiment, grid)
        for name, caption in section.plots:
            if (self.figures / name).exists():
                yield from (f"![{caption}](figures/{name})", "")
            else:
                self._note_missing(experiment, f"the plot {name} has not been drawn")
        if section.differs:
            numbers = {name: self._number(experiment, figure) for name, figure in section.numbers.items()}
            if None not in numbers.values():
                texts = {name: number(value) for name, value in numbers.items() if value is not None}
                yield from (section.differs.format(**texts), "")
        reasons: dict[str, list[str]] = {}
        for one in judged:
            if (one.is_missed or one.is_lost) and one.claim.why:
                reasons.setdefault(one.claim.why, []).append(one.claim.what)
        for why, what in reasons.items():
            yield from (f"*Missed or lost* ({'; '.join(what)}): {why}", "")

    def _judge(self, experiment: Experiment, claim: Claim) -> Judged:
        rival = claim.rival
        theirs = (
            (None, None) if rival is None else tuple(self._number(experiment, f) for f in (rival.figure, rival.ours))
        )
        return Judged(claim, self._number(experiment, claim.ours), *theirs)

    def _number(self, experiment: Experiment, figure: Figure) -> float | None:
        try:
            return figure(experiment)
        except MissingFigureError as error:
            self._note_missing(experiment, str(error))
            return None

    def _note_missing(self, experiment: Experiment, what: str) -> None:
        if not self.lenient and experiment.preset == "paper":
            self.missing.append(what)

    def _grid(self, experiment: Experiment, grid: Grid) -> Iterator[str]:
        lines = [(label, [value_or_none(figure, experiment) for figure in cells]) for label, cells in grid.lines]
        for position, column in enumerate(grid.columns):
            if all(values[position] is None for _, values in lines):
                self._note_missing(
                    experiment, f"{experiment.name}.json has nothing for {column!r} of the table {grid.head!r}"
                )
        lines = [(label, values) for label, values in lines if any(value is not None for value in values)]
        if not lines:
            return
        yield f"| {grid.head} | {' | '.join(grid.columns)} |"
        yield "|---" * (len(grid.columns) + 1) + "|"
        for label, values in lines:
            best = min(value for value in values if value is not None)
            cells = ["" if value is None else bold(number(value), grid.bold and value == best) for value in values]
            yield f"| {label} | {' | '.join(cells)} |"
        yield ""


def value_or_none(figure: Figure, experiment: Experiment) -> float | None:
    """A figure, or None where there is none."""
    try:
        return figure(experiment)
    except MissingFigureError:
        return None


def claims_table(judged: Sequence[Judged]) -> Iterator[str]:
    """A line a claim; columns that all of them leave empty are left out."""
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
    asked = target_of(judged.claim)
    if judged.ours is None:
        return asked
    return f"{asked}: met" if target.met(judged.ours) else f"{asked}: **missed**"


def target_of(claim: Claim) -> str:
    """At least, or at most, so much."""
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
    """Three digits, or all of those before the point."""
    size = abs(value)
    decimals = 0 if size >= 100 or value == int(value) else 1 if size >= 10 else 2 if size >= 0.1 else 4
    return f"{value:,.{decimals}f}"


def winners(experiment: Experiment, metric: str = "us_per_event") -> list[str]:
    """Of each workload: the best index by name, the next, what `auto` makes of it, and Scan."""
    lines = ["| workload | subscriptions | best | next | `auto` | `scan` |", "|---|---|---|---|---|---|"]
    values: dict[tuple[str, int], dict[str, float]] = {}
    for row in experiment.rows:
        if row["metric"] == metric:
            values.setdefault((row["workload"], row["n"]), {})[row["system"]] = float(row["value"])
    for (workload, n), found in values.items():
        named = sorted((value, system) for system, value in found.items() if system != "auto")
        cells = [f"`{system}` {number(value)}" for value, system in named[:2]] + [""] * (2 - len(named[:2]))
        rest = [number(found[system]) if system in found else "" for system in ("auto", "scan")]
        lines.append(f"| {workload} | {n:,} | {' | '.join(cells + rest)} |")
    return lines


def with_block(text: str, lines: Sequence[str]) -> str:
    """The text with these lines between its two marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"expected the marks {BEGIN!r} and {END!r}")
    return "\n".join([f"{before}{begin}", *lines, f"{end}{after}"])


def escaped(text: str) -> str:
    """Stars that belong to a name (BE*-Tree, R*-tree, G*) are no emphasis."""
    return re.sub(r"\b(BE|R|G)\*(?!\*)", r"\1\*", text)


def bold(text: str, wanted: bool) -> str:
    """In bold, or as it is."""
    return f"**{text}**" if wanted else text


HEAD = """# Performance

This page is made by `make report` from the rows in `docs/figures/*.json`, which `make bench PRESET=paper` measures. No number on
it is typed in by hand, but for those of the papers and the targets.

How to read it:

- *The paper* is what the source claims, on its machine. *Ours* is measured here, in the same terms.
- A *target* is a figure the project was asked for, or the paper's own. A few were added with the page, after first measurements:
  the choice of L (VCR, Figure 6), growth with cardinality (BE*-Tree, Figure 6), tests in vain, and changes of live events.
  One that is missed says so, here and in the list below.
- The reason given for a miss is our reading of it. Unless a count stands beside it, it has not been measured by itself.
- The *strongest competitor* is the best other system that ran on the same data in the same run; the number in brackets is how
  many times ours is better. Below 1 it is a loss, and in bold.
- Answers are compared (with Scan, the oracle or the competitor) before anything is timed. Times are medians, of one thread and of
  its processor time where a part says nothing else; ratios travel better than times. Large bulk changes look ids up by all cores.

## Environment
""".splitlines()


def main() -> None:
    """Read, look up, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("docs/figures"), help="folder of NAME.json")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of performance.md and of figures/")
    parser.add_argument("--lenient", action="store_true", help="leave out what is missing")
    arguments = parser.parse_args()
    page = Page(Results.load(arguments.results, NAMES), arguments.out / "figures", arguments.lenient)
    try:
        text = page.text(CHAPTERS)
    except MissingFigureError as error:
        raise SystemExit(f"the page was not written, since figures are missing:\n{error}") from None
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "performance.md"
    path.write_text(text, encoding="utf-8")
    print(f"written: {path}")
    auto, readme = page.results.get("auto"), arguments.out.parent / "README.md"
    if auto is not None and readme.exists():
        readme.write_text(with_block(readme.read_text(encoding="utf-8"), winners(auto)), encoding="utf-8")
        print(f"written: the table of {readme}")


if __name__ == "__main__":
    main()
