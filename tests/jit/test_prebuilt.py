"""Kernels that come compiled: used where they fit, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from matchwood.jit import prebuilt
from tests.jit.installation import INNER, Installation

pytestmark = pytest.mark.skipif(not prebuilt.has_level(), reason=f"this processor is not {prebuilt.LEVEL}")

FOR_THE_LEVEL = {"NUMBA_CPU_NAME": prebuilt.LEVEL, "NUMBA_CPU_FEATURES": "", "MATCHWOOD_KERNELS": "0"}
RESULTS = [12.0, 6.0]


@pytest.fixture
def kernels(installation: Installation) -> Path:
    """A folder of kernels for the level."""
    folder = installation.folder / "built"
    assert installation.run(**FOR_THE_LEVEL, NUMBA_CACHE_DIR=str(folder))[:3] == (RESULTS, 0, 2)
    return folder / "matchwood"


def test_kernels_for_the_level_are_used_and_left_as_they_are(installation: Installation, kernels: Path) -> None:
    before = {path: path.read_bytes() for path in kernels.rglob("*.kernel")}
    assert installation.run(MATCHWOOD_KERNELS=str(kernels))[:3] == (RESULTS, 2, 0)
    assert {path: path.read_bytes() for path in kernels.rglob("*.kernel")} == before
    assert not list((installation.folder / "cache").rglob("*.kernel"))


def test_kernels_in_the_package_are_used_without_being_named(installation: Installation, kernels: Path) -> None:
    kernels.rename(installation.package / "_kernels")
    assert installation.run()[:3] == (RESULTS, 2, 0)
    assert installation.run(MATCHWOOD_KERNELS="0")[:3] == (RESULTS, 0, 2)


def test_they_are_used_where_no_cache_can_be_written(installation: Installation, kernels: Path) -> None:
    nowhere = dict.fromkeys(("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "TMPDIR"), "/proc/nowhere")
    assert installation.run(MATCHWOOD_KERNELS=str(kernels), **nowhere)[:3] == (RESULTS, 2, 0)


@pytest.mark.parametrize(
    "setting",
    [
        {"NUMBA_CPU_NAME": "generic"},
        {"NUMBA_CPU_NAME": "x86-64-v2", "NUMBA_CPU_FEATURES": ""},
        {"NUMBA_CPU_FEATURES": "-avx2"},
        {"NUMBA_BOUNDSCHECK": "1"},
        {"NUMBA_OPT": "1"},
    ],
)
def test_kernels_for_other_settings_are_not_used(
    installation: Installation, kernels: Path, setting: dict[str, str]
) -> None:
    assert installation.run(MATCHWOOD_KERNELS=str(kernels), **setting)[:3] == (RESULTS, 0, 2)


def test_kernels_of_other_sources_are_not_used(installation: Installation, kernels: Path) -> None:
    installation.write_inner(INNER.replace("2.0", "5.0"))
    assert installation.run(MATCHWOOD_KERNELS=str(kernels))[:3] == ([30.0, 6.0], 0, 2)


def test_damaged_kernels_are_not_used(installation: Installation, kernels: Path) -> None:
    first, second = sorted(kernels.rglob("*.kernel"))
    first.write_bytes(first.read_bytes()[:-100])
    whole = second.read_bytes()
    assert installation.run(MATCHWOOD_KERNELS=str(kernels))[:3] == (RESULTS, 1, 1)
    first.write_bytes(whole)  # the kernel of another function under this name
    assert installation.run(MATCHWOOD_KERNELS=str(kernels), NUMBA_CACHE_DIR=str(installation.folder / "other"))[:3] == (
        RESULTS,
        1,
        1,
    )


@pytest.mark.parametrize("missing", [{"avx2": False}, {"fma": False}, {"bmi2": False, "avx2": True}])
def test_a_processor_that_lacks_a_feature_is_not_of_the_level(
    missing: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    features = {**dict.fromkeys(prebuilt.LEVEL_FEATURES, True), "avx512f": False}
    monkeypatch.setattr(prebuilt.config, "CPU_NAME", None)
    monkeypatch.setattr(prebuilt.config, "CPU_FEATURES", None)
    monkeypatch.setattr(prebuilt.binding, "get_host_cpu_features", lambda: features)
    assert prebuilt.has_level.__wrapped__()
    features |= missing
    assert not prebuilt.has_level.__wrapped__()
