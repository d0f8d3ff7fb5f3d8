from __future__ import annotations

from pathlib import Path

import pytest

from tests.jit.installation import Installation


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)
