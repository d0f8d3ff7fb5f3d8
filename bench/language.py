"""What the language adds, one section a file: `bench/language_NAME.py` with `run(preset, report)`.

patterns    100,000 prefixes and contained texts on events of ten strings
polygons    polygons beside shapely's STRtree
graded      top-k with graded predicates beside plain top-k
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from bench.report import Report

SECTIONS = ("patterns", "polygons", "graded")


def run(preset: str, report: Report) -> None:
    """Every section that there is."""
    for section in SECTIONS:
        if find_spec(f"bench.language_{section}") is not None:
            import_module(f"bench.language_{section}").run(preset, report)
