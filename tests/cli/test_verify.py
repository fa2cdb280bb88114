"""`mdtensor verify`: what it prints, and its exit code."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mdtensor.cli import host, report
from mdtensor.quant.certificate.case import Case
from mdtensor.quant.certificate.verify import Run, Verdict, judge

Call = Callable[..., Any]
GOOD = np.array([[1, 2], [3, 4]], np.uint8)
CASES = (Case("sum", "of 4", lambda threads: GOOD, lambda: GOOD),)
HASH = "786026ed223c16f8ef86d0e7c421b68250b14469d1c9a310e8fe6288110de1a7"


def run_of(runway: str, *results: Any, problem: str = "") -> Run:
    return Run(runway, 1, results, problem, 1.25)


@pytest.fixture
def certified(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`certified(run, ...)`: these are the runs of the command."""

    def give(*runs: Run) -> None:
        verdict: Verdict = judge(CASES, runs, HASH)
        monkeypatch.setattr(host, "certify", lambda *given: verdict)
        monkeypatch.setattr(host.isa, "cpu_name", lambda: "znver5")

    return give


def test_a_machine_that_conforms(call: Call, certified: Any) -> None:
    certified(run_of("generic", GOOD), run_of("avx2", GOOD))
    ended = call("verify")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "                         generic      avx2",
        "kernel  cases  results  1 thread  1 thread",
        "sum         1        4     equal     equal",
        "all         1        4     1.2 s     1.2 s",
        "",
        f"hash       {HASH}",
        f"published  {HASH}",
        "znver5 conforms: every run gave the published hash",
    ]


def test_the_first_difference_is_named(call: Call, certified: Any) -> None:
    certified(run_of("generic", GOOD), run_of("avx2", GOOD + np.uint8([[0], [1]])))
    ended = call("verify", "--quick")
    assert (ended.code, ended.err) == (1, "")
    assert "1        4     equal  2 differ\n" in ended.out
    # The measured hash: only a machine that conforms may show the published one twice.
    (found,) = re.findall(r"^hash       (\w+)$", ended.out, re.M)
    assert found != HASH and ended.out.count(HASH) == 1
    assert ended.out.endswith(
        "znver5 does not conform: sum: of 4\n"
        "on avx2, 1 thread at [1,0]: expected 3, got 4\n"
    )


def test_another_type_is_a_difference(call: Call, certified: Any) -> None:
    certified(run_of("generic", GOOD.astype(np.int8)))
    ended = call("verify")
    assert ended.code == 1
    assert ended.out.endswith(
        "on generic, 1 thread at type and shape: expected uint8[2,2], got int8[2,2]\n"
    )


def test_a_process_that_fails(call: Call, certified: Any) -> None:
    certified(run_of("generic", GOOD), run_of("avx2", problem="it ended with -4"))
    ended = call("verify", "--json")
    assert ended.code == 1
    facts = json.loads(ended.out)
    assert facts["runs"][1]["problem"] == "it ended with -4"
    assert [run["hash"] for run in facts["runs"]] == [HASH, None]
    assert (facts["hash"], facts["conforms"]) == (None, False)
    words = call("verify").out
    assert "avx2, 1 thread: it ended with -4\n" in words
    assert "hash       missing\n" in words
    assert words.endswith("znver5 does not conform: see above\n")


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_bar_goes_to_a_terminal_alone(
    call: Call,
    certified: Any,
    monkeypatch: pytest.MonkeyPatch,
    option: tuple[str, ...],
) -> None:
    """As long as all runs and the oracle take; what is done is told as a share."""
    certified(run_of("generic", GOOD))
    made: list[Any] = []

    def given(*how: Any) -> Any:
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
        made.append(report.progress(*how))
        return made[-1]

    monkeypatch.setattr(host, "progress", given)
    assert call("verify", *option).code == 0
    (bar,) = made
    assert bar.disable == bool(option)
    if not option:
        assert [task.total for task in bar.tasks] == [host.total_cost(False, False)]
        assert [str(bar.columns[3](task)) for task in bar.tasks] == ["  0%"]
