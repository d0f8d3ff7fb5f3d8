"""Jars from Maven Central, for tests that need a broker, a connector or a file system of the JVM."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def fetched(name: str, coordinates: list[tuple[str, bool]], folder: Path) -> list[str]:
    """The jars of Maven coordinates, each with or without all that it depends on; skips the test if they cannot be had."""
    if shutil.which("mvn") is None:
        pytest.skip(f"Maven (mvn) is not on the path; it fetches {name}")
    (folder / "pom.xml").write_text(_pom(coordinates))
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"Maven could not fetch {name}: {done.stdout[-300:]}")
    return sorted(str(path) for path in (folder / "jars").glob("*.jar"))


def _pom(coordinates: list[tuple[str, bool]]) -> str:
    wanted = []
    for coordinate, whole in coordinates:
        group, artifact, version = coordinate.split(":")
        names = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        wanted.append(f"<dependency>{names}{'' if whole else ALONE}</dependency>")
    head = "<modelVersion>4.0.0</modelVersion><groupId>local</groupId><artifactId>jars</artifactId><version>1</version>"
    return f"<project>{head}<dependencies>{''.join(wanted)}</dependencies></project>"
