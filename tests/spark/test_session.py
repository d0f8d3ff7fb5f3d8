"""Local sessions, wherever they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from matchwood.spark.session import java_problem

SCRIPT = """
import sys
from matchwood.spark import Lake, local_session

spark = local_session(master="local[1]", memory="512m")
lake = Lake(sys.argv[1])
lake.write("things", spark.range(3))
read = spark.read.format("matchwood").option("table", "things").load(sys.argv[1])
print("found", sorted(row["id"] for row in read.collect()))
spark.stop()
"""


def test_a_lake_is_read_where_the_path_of_python_has_a_space(tmp_path: Path) -> None:
    problem = java_problem()
    if problem:
        pytest.skip(problem)
    python = tmp_path / "a b" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_DRIVER_PYTHON"}
    environment |= {"PYSPARK_PYTHON": str(python)}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "a lake")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert "found [0, 1, 2]" in done.stdout, json.dumps(done.stderr[-3000:])
