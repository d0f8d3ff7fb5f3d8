"""`python -m bench.performance [--results FOLDER] [--out FOLDER]`: write OUT/performance.md from the figures kept in FOLDER.

The table of winners in the README beside OUT is written as well.

Every number on the page is looked up in the rows. A figure that a claim names and that is missing ends the run with its name.
Files of the preset `quick` hold less: there, and with `--lenient`, what is missing is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.__main__ import NAMES
from bench.claims import CHAPTERS
from bench.claims.forms import Chapter, Claim, Figure, Grid, Section
from bench.formatting import NOT_MEASURED, Judged, bold, claims_table, escaped, number, rival_of, shown, target_of
from bench.results import Experiment, MissingFigureError, Results
from bench.winners import winners, with_block


@dataclass
class Page:
    """Writes the chapters, and collects missing figures and losses while it does."""

    results: Results
    figures: Path
    lenient: bool = False
    missing: list[str] = field(default_factory=list)
    losses: list[tuple[str, Section, Judged]] = field(default_factory=list)

    def text(self, chapters: Sequence[Chapter]) -> str:
        """The whole page. Raises `MissingFigureError` that lists every missing figure."""
        body = [line for chapter in chapters for line in self._chapter(chapter)]
        if self.missing:
            raise MissingFigureError("\n".join(dict.fromkeys(self.missing)))
        lines = [*HEAD, "", *self._environment(chapters), *self._losses(), *body]
        return escaped("\n".join(lines).rstrip()) + "\n"

    def _environment(self, chapters: Sequence[Chapter]) -> Iterator[str]:
        packages = {f"{name} {version}" for e in self.results for name, version in e.environment["packages"].items()}
        yield f"Packages: {', '.join(sorted(packages))}."
        yield ""
        yield "| experiment | machine | preset | finished | commit | rows | verified rows | minutes |"
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
        yield from ("## Missed targets and losses", "")
        if not self.losses:
            yield from ("None in these figures.", "")
            return
        yield from ("| where | what | ours | target or competitor | why |", "|---|---|---|---|---|")
        for anchor, section, judged in self.losses:
            bounds = []
            if judged.is_missed:
                bounds.append(f"target: {target_of(judged.claim)}")
            if judged.is_lost:
                bounds.append(rival_of(judged))
            where = f"[{section.title}](#{anchor})"
            claim = judged.claim
            yield f"| {where} | {claim.what} | {shown(judged.ours, claim.unit)} | {'; '.join(bounds)} | {claim.why} |"
        yield ""

    def _chapter(self, chapter: Chapter) -> Iterator[str]:
        yield from (f'<a id="{chapter.experiment}"></a>', "", f"## {chapter.title}", "", chapter.about, "")
        experiment = self.results.get(chapter.experiment)
        for position, section in enumerate(chapter.sections, 1):
            anchor = f"{chapter.experiment}-{position}"
            yield from (f'<a id="{anchor}"></a>', "", f"### {section.title}", "")
            if section.paper:
                yield from (f"*The paper:* {section.paper}", "")
            if experiment is None:
                yield from (
                    f"*Ours:* {NOT_MEASURED}; run `python -m bench {chapter.experiment} --preset paper`.",
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
    """A figure, or None if it is missing."""
    try:
        return figure(experiment)
    except MissingFigureError:
        return None


HEAD = """# Performance

`make report` generates this page from the rows in `docs/figures/*.json`, which `make bench PRESET=paper` measures. Only the
figures of the papers and the targets are written by hand.

How to read it:

- *The paper* is what the source claims, on its machine. *Ours* is measured here, in the same terms.
- A *target* is a limit that the project has set itself, or the figure of the paper. A target that is missed is marked, and
  listed below.
- The reason given for a miss is our interpretation. It has been measured only where a count is given.
- The *strongest competitor* is the best other system in the same run on the same data. The number in brackets is its time
  divided by ours: below 1, in bold, we lose.
- Answers are compared with those of Scan, the oracle or the competitor before anything is timed. Times are medians of one
  thread's processor time unless a chapter says otherwise. Ratios carry over to other machines better than times.

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
        raise SystemExit(f"the page was not written because figures are missing:\n{error}") from None
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
