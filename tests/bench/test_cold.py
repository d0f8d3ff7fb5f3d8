"""The benchmark of cold starts: what is counted as a compilation, and which figures come out."""

from __future__ import annotations

from typing import Any

import numba
import pytest
from numba.core import event as numba_events

from bench import cold
from bench.report import Report


def test_a_kernel_is_counted_once_and_its_helpers_as_compilations() -> None:
    @numba.njit
    def helper(x: int) -> int:
        return x + 1

    @numba.njit
    def kernel(x: int) -> Any:
        return helper(x) + helper(x + 1)

    counted = cold.Compilations()
    with numba_events.install_listener("numba:compile", counted):
        kernel(1)
        kernel(2)
    figures = counted.figures()
    assert (figures["kernels"], figures["compilations"]) == (1, 2)
    assert figures["compile_cpu_s"] > 0
    counted.reset()
    assert set(counted.figures().values()) == {0}


@pytest.mark.parametrize("system", ["scan", "k-index", cold.LIVE, cold.COVERING, cold.TEXTS])
def test_every_kind_of_system_answers_and_reports_the_same_figures(system: str) -> None:
    figures = cold.measure(system, 100)
    assert figures.keys() == {"first_answer_s", "compile_cpu_s", "kernels", "compilations"}
    assert figures["first_answer_s"] > 0


def test_the_first_answer_of_auto_is_taken_where_another_process_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(system: str, size: int, *options: str, **environment: str) -> cold.Figures:
        return (
            {"first_answer_s": 1.0}
            if options
            else {"first_answer_s": 9.0, "kernels": 3, **dict.fromkeys(environment, 0)}
        )

    monkeypatch.setattr(cold, "in_fresh_process", measured)
    report = Report("quick")
    cold.record(report, "auto", 10)
    assert report.value(workload="city-mixed", system="auto", metric="first_answer_s") == 1.0
    assert report.value(workload="city-mixed", system="auto", metric="MATCHWOOD_COMPILE_AHEAD") == 0


def test_prebuilt_kernels_are_handed_to_the_fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(system: str, size: int, *options: str, **environment: str) -> cold.Figures:
        assert (system, environment) == (cold.TEXTS, {"MATCHWOOD_KERNELS": "built"})
        return {"first_answer_s": 2.0}

    monkeypatch.setattr(cold, "in_fresh_process", measured)
    monkeypatch.setattr(cold, "prebuilt_kernels", lambda folder: "built")
    report = Report("quick")
    cold.record(report, cold.PREBUILT, 10)
    assert report.value(workload="city-mixed", system=cold.PREBUILT, metric="first_answer_s") == 2.0


def test_the_quick_preset_measures_a_part_of_the_systems_that_there_are() -> None:
    assert set(cold.systems("quick")) < set(cold.systems("paper"))
    assert {"scan", "mo-tree", cold.LIVE, cold.COVERING, cold.AUTO} <= set(cold.systems("paper"))
