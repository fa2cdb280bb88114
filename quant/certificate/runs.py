"""Every runway of this CPU on every number of threads, each in a process of its own."""

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
from mdtensor.quant.certificate.cases import chosen, costs
from mdtensor.quant.certificate.digest import Array
from mdtensor.quant.certificate.stepping import THREADS


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
    usable = [name for name in isa.RUNWAYS if not isa.lacking(name, isa.FEATURES)]
    if isa.IS_JIT_DISABLED:
        return ["generic"]
    lacking = [name for name in isa.DOT_RUNWAYS if name not in usable]
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
