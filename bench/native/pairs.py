"""Processes that take turns, in pairs: one with each kind of kernels."""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import Reading, Samples
from bench.harness.agreement import Disagreement
from bench.harness.machine import pinned
from bench.harness.reading import timed
from bench.harness.turns import Effort, rotated
from bench.inference.networks import Network, classifier, mobile, saved

LIBRARY, NUMBA = "library", "numba"
MODES = {LIBRARY: "native", NUMBA: "jit"}
#: Seconds of one of the samples of a turn.
SAMPLE = 0.004
#: Processes of each kind, which take turns: where memory lies in a process changes the
#: time of a call by up to 10 %, for as long as the process runs.
PROCESSES = 5
ROOT = Path(__file__).parents[2]


class Worker:
    """A process with one kind of kernels, which answers questions."""

    def __init__(self, mode: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.native.worker"],
            cwd=ROOT,
            env={**os.environ, "MDTENSOR_KERNELS": mode},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._process.kill)

    def ask(self, **question: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


@cache
def workers() -> list[dict[str, Worker]]:
    return [
        {name: Worker(mode) for name, mode in MODES.items()} for _ in range(PROCESSES)
    ]


@dataclass(frozen=True)
class PairRow:
    """A call in both processes: equal bytes, then times in turns."""

    name: str
    table: str = "One call"

    def read(self, effort: Effort) -> list[Reading]:
        with pinned(1):
            return self._read(effort, {"name": self.name})

    def _read(self, effort: Effort, question: dict[str, Any]) -> list[Reading]:
        pairs = workers()
        found = {worker.ask(**question) for pair in pairs for worker in pair.values()}
        if len(found) != 1:
            raise Disagreement(f"{self.name} gives other bytes with a library")
        samples: Samples = {name: [] for name in MODES}
        question |= {"seconds": SAMPLE / effort.haste}
        for turn in range(effort.rounds):
            for name in rotated(list(samples), turn):
                worker = pairs[turn % PROCESSES][name]
                samples[name].append(worker.ask(**question))
        return timed(self.table, self.name, samples, LIBRARY, {})


@dataclass(frozen=True)
class NetworkRow(PairRow):
    """A network of `bench.inference` in both processes, one image at a time."""

    table: str = "One image"

    def read(self, effort: Effort) -> list[Reading]:
        network, kind = self.name.rsplit(" ", 1)
        found: Network = classifier() if network == "classifier" else mobile(224)
        model = found.small if kind == "int8" else found.floating
        with pinned(1), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.onnx"
            path.write_bytes(saved(model))
            np.save(f"{path}.npy", found.images[:1])
            return self._read(effort, {"name": self.name, "file": str(path)})
