"""Does this machine conform? Runs against the oracle, hashes against the published."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdtensor.kernels.cpu import isa
from mdtensor.quant.certificate.case import THREADS, Array, Case, digest
from mdtensor.quant.certificate.cases import ORACLE, chosen, costs

# Every runway of this CPU on every number of threads, each in a process of its own.


@dataclass(frozen=True)
class Run:
    """One runway on some threads.

    Args:
        runway: a value of MDTENSOR_ISA.
        threads: how many.
        results: one for each case, or none if the process failed.
        problem: why it failed.
        seconds: that it took, compilation included.
    """

    runway: str
    threads: int
    results: tuple[Array, ...]
    problem: str
    seconds: float


def runways(emulated: bool) -> list[str]:
    """What MDTENSOR_ISA can be on this CPU, the slowest first.

    Args:
        emulated: with those that can be emulated where the CPU lacks instructions.
    """
    usable = [name for name in isa.ISAS if not isa.lacking(name, isa.FEATURES)]
    if isa.IS_JIT_DISABLED:
        return ["generic"]
    lacking = [name for name in isa.DOT_ISAS if name not in usable]
    return usable + [name + isa.EMULATED for name in lacking if emulated]


def compute(
    names: list[str], quick: bool, done: Callable[[int], object] = lambda cost: None
) -> list[Run]:
    """Runs of these runways on every number of threads, as many at once as cores.

    Args:
        done: is called when a case is computed on some threads, with its cost.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1

    def one(runway: str) -> list[Run]:
        return _process(runway, quick, done)

    with ThreadPoolExecutor(cores) as pool:
        return [run for runs in pool.map(one, names) for run in runs]


def _process(runway: str, quick: bool, done: Callable[[int], object]) -> list[Run]:
    """The results of one process."""
    left = iter(costs(chosen(quick), len(THREADS)))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.npz"
        command = [sys.executable, "-P", "-m", "mdtensor.quant.certificate.worker"]
        command += [str(file), *["--quick"] * quick]
        code, text = watched(
            command, {"MDTENSOR_ISA": runway}, lambda: done(next(left, 0))
        )
        done(sum(left))  # where it failed
        if code:
            problem = _problem(code, text)
            return [Run(runway, threads, (), problem, 0.0) for threads in THREADS]
        with np.load(file, allow_pickle=False) as found:
            return [_run(runway, threads, found) for threads in THREADS]


def watched(
    command: list[str], more: dict[str, str], line: Callable[[], object]
) -> tuple[int, str]:
    """The exit code of a process and its stderr; `line` is called for each of stdout.

    Args:
        more: environment variables besides ours.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as told:
        with subprocess.Popen(
            command,
            env=os.environ | more,
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
        ) as child:
            for _ in child.stdout or ():
                line()
        told.seek(0)
        return child.returncode, told.read()


def _run(runway: str, threads: int, found: Any) -> Run:
    count = len(found.files) // len(THREADS) - 1
    results = tuple(found[f"{threads}/{i}"] for i in range(count))
    return Run(runway, threads, results, "", float(found[f"{threads}/seconds"]))


def _problem(code: int, text: str) -> str:
    last = (text.strip().splitlines() or ["it said nothing"])[-1]
    return f"the process ended with {code}: {last}"


# The hashes that every conforming machine gives: the only place where they stand.

#: Of all cases.
WHOLE = "0ceab050c434a8e72e55e3a3b4367b2b836f06910a9ff97aeb8b522b86c7d314"
#: Of the cases that compile in seconds, `mdtensor verify --quick`.
QUICK = "9475068c8fd1b72d6f5aaeaccd28ff97690d092982ffb79ac15330d105f0a697"


@dataclass(frozen=True)
class Difference:
    """The first element in which a run and the oracle differ.

    Args:
        case: the kernel and the case.
        run: number of the run.
        index: of the element; empty where type or shape differ.
        expected, got: the element by the oracle and by the run.
    """

    case: str
    run: int
    index: tuple[int, ...]
    expected: str
    got: str


@dataclass(frozen=True)
class Tally:
    """One kernel on all runs.

    Args:
        kernel: its name.
        cases: how many inputs it was given.
        elements: how many results were compared, on each run.
        mismatches: how many differ from the oracle, for each run.
    """

    kernel: str
    cases: int
    elements: int
    mismatches: tuple[int, ...]


@dataclass(frozen=True)
class Verdict:
    """What was run, and whether it conforms.

    Args:
        runs: runways and threads.
        hashes: of the results of each run; empty if it failed.
        oracle: the hash of what the oracle gives.
        published: the hash of every conforming machine.
        tallies: by kernel.
        first: the first difference, if there is one.
    """

    runs: tuple[Run, ...]
    hashes: tuple[str, ...]
    oracle: str
    published: str
    tallies: tuple[Tally, ...]
    first: Difference | None

    @property
    def conforms(self) -> bool:
        """Every run gives the published hash, and so does the oracle."""
        return {*self.hashes, self.oracle} == {self.published}


# One hash covers all results, since the oracle, not a hash, finds the first difference
# (decision 0027).
def certify(
    quick: bool = False,
    emulated: bool = False,
    done: Callable[[int], object] = lambda cost: None,
) -> Verdict:
    """Run the certificate on this machine.

    Args:
        quick: only the cases that compile in seconds.
        emulated: also runways that the CPU lacks, in other instructions.
        done: is called when a case is computed, by a run or by the oracle, with a share
            of what `total_cost` gives.
    """
    cases = chosen(quick)
    runs = tuple(compute(runways(emulated), quick, done))
    return judged(cases, runs, QUICK if quick else WHOLE, done)


def total_cost(quick: bool, emulated: bool) -> int:
    """What the shares of one certificate come to, about hundredths of a second."""
    cases = chosen(quick)
    runs = len(runways(emulated)) * sum(costs(cases, len(THREADS)))
    return runs + ORACLE * len(cases)


def judged(
    cases: tuple[Case, ...],
    runs: tuple[Run, ...],
    known: str,
    done: Callable[[int], object] = lambda cost: None,
) -> Verdict:
    """What the results of `runs` say, against the hash that is `known`."""
    titles = [case.title for case in cases]
    expected: list[Array] = []
    for case in cases:
        expected.append(case.expected())
        done(ORACLE)
    hashes = tuple(_hash(titles, run.results) for run in runs)
    wrong = [
        [unequal(*pair) for pair in zip(run.results, expected, strict=True)]
        if run.results
        else []
        for run in runs
    ]
    return Verdict(
        runs,
        hashes,
        _hash(titles, expected),
        known,
        tuple(_tallies(cases, expected, wrong)),
        _first(cases, runs, expected, wrong),
    )


def _hash(titles: list[str], results: tuple[Array, ...] | list[Array]) -> str:
    return digest(zip(titles, results, strict=True)) if results else ""


def unequal(got: Array, expected: Array) -> Array:
    """Which elements differ, by their bytes; all of them if type or shape do."""
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return np.ones(expected.shape, bool)
    x, y = (
        np.ascontiguousarray(each).reshape(-1, 1).view(np.uint8)
        for each in (got, expected)
    )
    return np.asarray((x != y).any(axis=1).reshape(expected.shape))


def _tallies(
    cases: tuple[Case, ...], expected: list[Array], wrong: list[list[Array]]
) -> list[Tally]:
    places: dict[str, list[int]] = {}
    for i, case in enumerate(cases):
        places.setdefault(case.kernel, []).append(i)
    return [
        Tally(
            kernel,
            len(at),
            sum(expected[i].size for i in at),
            tuple(
                sum(int(found[i].sum()) for i in at) if found else 0 for found in wrong
            ),
        )
        for kernel, at in places.items()
    ]


def _first(
    cases: tuple[Case, ...],
    runs: tuple[Run, ...],
    expected: list[Array],
    wrong: list[list[Array]],
) -> Difference | None:
    """The first difference, in the order of the hash, then of the runs."""
    for i, case in enumerate(cases):
        for number, (run, found) in enumerate(zip(runs, wrong, strict=True)):
            if found and found[i].any():
                got = run.results[i]
                if got.dtype != expected[i].dtype or got.shape != expected[i].shape:
                    return Difference(
                        case.title, number, (), _kind(expected[i]), _kind(got)
                    )
                at = tuple(int(n) for n in np.argwhere(found[i])[0])
                return Difference(
                    case.title, number, at, str(expected[i][at]), str(got[at])
                )
    return None


def _kind(array: Array) -> str:
    return f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
