"""The certificate of this machine: results are compared with the oracle and a hash."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mdtensor.kernels.cpu import isa
from mdtensor.quant.certificate.case import THREADS, Array, Case, digest
from mdtensor.quant.certificate.cases import ORACLE, costs, select_cases

# Runs. Each ISA of this CPU has its own process, because the ISA is chosen at import
# and a wrong instruction ends the process (decision 0027).


@dataclass(frozen=True)
class Run:
    """The results of one ISA on a number of threads.

    Args:
        runway: the ISA, a value of MDTENSOR_ISA.
        threads: the number of threads.
        results: one for each case, or empty if the process failed.
        problem: why the process failed.
        seconds: the time of the run, with compilation.
    """

    runway: str
    threads: int
    results: tuple[Array, ...]
    problem: str
    seconds: float


def runways(emulated: bool) -> list[str]:
    """Return the values of MDTENSOR_ISA that work on this CPU, the slowest first.

    Args:
        emulated: include ISAs that the CPU lacks but that can be emulated.
    """
    usable = [name for name in isa.ISAS if not isa.lacking(name, isa.FEATURES)]
    if isa.IS_JIT_DISABLED:
        return ["generic"]
    lacking = [name for name in isa.DOT_ISAS if name not in usable]
    return usable + [name + isa.EMULATED for name in lacking if emulated]


def compute(
    names: list[str], quick: bool, done: Callable[[int], object] = lambda cost: None
) -> list[Run]:
    """Run each ISA on every number of threads; one ISA per core at the same time.

    Args:
        done: called after each case on each number of threads, with the cost of it.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1

    def one(runway: str) -> list[Run]:
        return _process(runway, quick, done)

    with ThreadPoolExecutor(cores) as pool:
        return [run for runs in pool.map(one, names) for run in runs]


def _process(runway: str, quick: bool, done: Callable[[int], object]) -> list[Run]:
    """Run all cases on one ISA in a process of its own."""
    left = iter(costs(select_cases(quick), len(THREADS)))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.npz"
        command = [sys.executable, "-P", "-m", "mdtensor.quant.certificate.worker"]
        command += [str(file), *["--quick"] * quick]
        code, text = run_and_watch(
            command, {"MDTENSOR_ISA": runway}, lambda: done(next(left, 0))
        )
        # After a failure, so that the reported costs still add up to the total.
        done(sum(left))
        if code:
            problem = _describe_failure(code, text)
            return [Run(runway, threads, (), problem, 0.0) for threads in THREADS]
        with np.load(file, allow_pickle=False) as found:
            return [_load_run(runway, threads, found) for threads in THREADS]


def run_and_watch(
    command: list[str], more: dict[str, str], line: Callable[[], object]
) -> tuple[int, str]:
    """Run a command, and return its exit code and its stderr.

    `line` is called for each line of stdout.

    Args:
        more: environment variables to add.
    """
    # stderr goes to a file: the child would block on a second pipe that is not read.
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        with subprocess.Popen(
            command,
            env=os.environ | more,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as child:
            for _ in child.stdout or ():
                line()
        errors.seek(0)
        return child.returncode, errors.read()


def _load_run(runway: str, threads: int, found: Mapping[str, Array]) -> Run:
    """Return the results for one number of threads in the file of a process."""
    count = len(found) // len(THREADS) - 1
    results = tuple(found[f"{threads}/{i}"] for i in range(count))
    return Run(runway, threads, results, "", float(found[f"{threads}/seconds"]))


def _describe_failure(code: int, text: str) -> str:
    """Describe the failure of a process: its exit code and last line."""
    last = (text.strip().splitlines() or ["without a message"])[-1]
    return f"the process ended with {code}: {last}"


# The hashes that every conforming machine gives. They are defined only here.

#: The hash of all cases.
WHOLE = "0ceab050c434a8e72e55e3a3b4367b2b836f06910a9ff97aeb8b522b86c7d314"
#: The hash of the cases that compile in seconds, `mdtensor verify --quick`.
QUICK = "9475068c8fd1b72d6f5aaeaccd28ff97690d092982ffb79ac15330d105f0a697"


@dataclass(frozen=True)
class Difference:
    """The first element in which a run and the oracle differ.

    Args:
        case: the kernel and the case.
        run: the number of the run.
        index: the index of the element; empty if type or shape differs.
        expected, got: the element in the oracle's result and in the run's.
    """

    case: str
    run: int
    index: tuple[int, ...]
    expected: str
    got: str


@dataclass(frozen=True)
class Tally:
    """The counts of one kernel in all runs.

    Args:
        kernel: its name.
        cases: the number of cases.
        elements: the number of results compared in each run.
        mismatches: for each run, the number of results that differ from the oracle.
    """

    kernel: str
    cases: int
    elements: int
    mismatches: tuple[int, ...]


@dataclass(frozen=True)
class Verdict:
    """The runs of a certificate, and whether the machine conforms.

    Args:
        runs: one for each ISA and number of threads.
        hashes: the hash of each run; empty if it failed.
        oracle: the hash of the oracle's results.
        published: the hash that every conforming machine gives.
        tallies: one for each kernel.
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
        """Return whether every run and the oracle give the published hash."""
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
        quick: run only the cases that compile in seconds.
        emulated: also run ISAs that the CPU lacks, with emulated instructions.
        done: called after each case of a run or of the oracle, with its cost. The costs
            add up to `total_cost`.
    """
    cases = select_cases(quick)
    runs = tuple(compute(runways(emulated), quick, done))
    return judge(cases, runs, QUICK if quick else WHOLE, done)


def total_cost(quick: bool, emulated: bool) -> int:
    """Return the total of the costs that `certify` reports, in about 1/100 seconds."""
    cases = select_cases(quick)
    runs = len(runways(emulated)) * sum(costs(cases, len(THREADS)))
    return runs + ORACLE * len(cases)


def judge(
    cases: tuple[Case, ...],
    runs: tuple[Run, ...],
    known: str,
    done: Callable[[int], object] = lambda cost: None,
) -> Verdict:
    """Compare the results of `runs` with the oracle and with the hash `known`."""
    titles = [case.title for case in cases]
    expected: list[Array] = []
    for case in cases:
        expected.append(case.oracle())
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
    """Return the hash of results; empty without results."""
    return digest(zip(titles, results, strict=True)) if results else ""


def unequal(got: Array, expected: Array) -> Array:
    """Return a mask of elements with other bytes; all if the type or shape differs."""
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return np.ones(expected.shape, bool)
    # By bytes, because -0.0 == 0.0, and NaN differs from itself.
    x, y = (
        np.ascontiguousarray(each).reshape(-1, 1).view(np.uint8)
        for each in (got, expected)
    )
    return np.asarray((x != y).any(axis=1).reshape(expected.shape))


def _tallies(
    cases: tuple[Case, ...], expected: list[Array], wrong: list[list[Array]]
) -> list[Tally]:
    """Count cases, elements and mismatches by kernel."""
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
    """Return the first difference, in the order of the hash, then of the runs."""
    for i, case in enumerate(cases):
        for number, (run, found) in enumerate(zip(runs, wrong, strict=True)):
            if found and found[i].any():
                got = run.results[i]
                if got.dtype != expected[i].dtype or got.shape != expected[i].shape:
                    return Difference(
                        case.title,
                        number,
                        (),
                        _describe_type(expected[i]),
                        _describe_type(got),
                    )
                at = tuple(int(n) for n in np.argwhere(found[i])[0])
                return Difference(
                    case.title, number, at, str(expected[i][at]), str(got[at])
                )
    return None


def _describe_type(array: Array) -> str:
    """Return the type and shape of an array as text."""
    return f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
