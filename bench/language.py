"""What the language adds, one section a file: `bench/language_NAME.py` with `run(preset, report)`.

patterns    100,000 prefixes and contained texts on events of ten strings
polygons    polygons beside shapely's STRtree
objects     100,000 conditions on lists of ten objects
graded      top-k with graded predicates beside plain top-k
"""

from __future__ import annotations

from bench import language_graded, language_objects, language_patterns, language_polygons
from bench.report import Report


def run(preset: str, report: Report) -> None:
    """Every section."""
    for section in (language_patterns, language_polygons, language_objects, language_graded):
        section.run(preset, report)
