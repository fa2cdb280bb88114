"""Fresh processes that run one image: how long the first takes, and their memory.

Each does what a user of its runtime would write: import it, load the file, run.
PyTorch is not among them: its eager code has no file.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench.harness import Reading, Samples
from bench.harness.machine import pinned
from bench.harness.reading import timed
from bench.harness.turns import Effort, rotated
from bench.inference.files import files
from bench.inference.networks import Network
from bench.inference.runtimes import LITERT, ORT_FLOAT, ORT_INT8, OURS
from mdtensor.kernels.cpu import isa
from mdtensor.kernels.native import library
from mdtensor_run.packing import PACKINGS

#: The peak of this process alone: `ru_maxrss` begins at that of its parent.
PEAK = "/proc/self/status"
START = f"""
import json, sys
import numpy as np
def peak():
    lines = open("{PEAK}").readlines()
    return next(int(line.split()[1]) * 1024 for line in lines if "VmHWM" in line)
path, x = sys.argv[1], np.load(sys.argv[2])
"""
ORT = """
import onnxruntime
imported = peak()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
providers = ["CPUExecutionProvider"]
session = onnxruntime.InferenceSession(path, options, providers)
y = session.run(None, {"x": x})[0]
"""
PROGRAMS: Mapping[str, str] = {
    OURS: """
from mdtensor.quant import load
imported = peak()
y = load(path)(x)
""",
    ORT_FLOAT: ORT,
    ORT_INT8: ORT,
    LITERT: """
from ai_edge_litert.interpreter import Interpreter
imported = peak()
model = Interpreter(path, num_threads=1)
model.allocate_tensors()
model.set_tensor(model.get_input_details()[0]["index"], x.transpose(0, 2, 3, 1))
model.invoke()
y = model.get_tensor(model.get_output_details()[0]["index"])
""",
}
#: The same int8 network as a stored plan: by mdtensor, and by the runner alone.
PLAN, RUNNER = "mdtensor, stored plan", "mdtensor_run"
PLANNED: Mapping[str, str] = {
    PLAN: """
from mdtensor.quant import load_plan
imported = peak()
y = load_plan(path)(x)
""",
    RUNNER: """
from mdtensor_run import run
imported = peak()
y = run(path)(x)
""",
}
END = "print(json.dumps([imported, peak()]), flush=True)"


@dataclass(frozen=True)
class First:
    """From the start of a process to its first result.

    Args:
        is_compiled: whether our kernels were compiled by an earlier process.
    """

    name: str
    network: Callable[[], Network]
    is_compiled: bool = True

    @property
    def table(self) -> str:
        return f"First result, from the start of a process: {self.name}"

    def read(self, effort: Effort) -> list[Reading]:
        effort = effort.of(0.3 if self.is_compiled else 0.1)
        with programs(self.network()) as ways, pinned(1):
            run = self._run if self.is_compiled else self._run_uncompiled
            if self.is_compiled:
                run(ways[OURS])  # compiles what no process has compiled yet
            samples: Samples = {name: [] for name in ways}
            for turn in range(effort.rounds):
                for name in rotated(list(ways), turn):
                    samples[name].append(run(ways[name]))
        return timed(self.table, self.name, samples, OURS, {})

    def _run(self, command: list[str]) -> float:
        return measured(command)[0]

    def _run_uncompiled(self, command: list[str]) -> float:
        with tempfile.TemporaryDirectory() as empty:
            return measured(command, {"NUMBA_CACHE_DIR": empty})[0]


@dataclass(frozen=True)
class Memory:
    """The most memory that a process had for one image, beyond that of its imports."""

    name: str
    network: Callable[[], Network]

    @property
    def table(self) -> str:
        return f"Peak of memory: {self.name}"

    def read(self, effort: Effort) -> list[Reading]:
        effort = effort.of(0.2)
        samples, whole = {}, {}
        with programs(self.network()) as ways, pinned(1):
            for name, command in ways.items():
                peaks = [measured(command)[1] for _ in range(effort.rounds)]
                samples[name] = [(last - first) / 1e6 for first, last in peaks]
                first, last = np.median(peaks, axis=0) / 1e6
                whole[name] = {
                    "imported": f"{first:.0f} MB",
                    "whole process": f"{last:.0f} MB",
                }
        found = timed(self.table, self.name, samples, OURS, whole)
        return [replace(one, unit="MB") for one in found]


@contextmanager
def programs(network: Network) -> Iterator[dict[str, list[str]]]:
    """A command for each runtime that runs the network."""
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "image.npy"
        np.save(image, network.images[:1])
        found = {}
        for number, (name, file) in enumerate(files(network).items()):
            path = Path(folder) / f"{number}.model"
            path.write_bytes(file)
            found[name] = process(PROGRAMS[name], path, image)
        # The runner needs a library, and a plan is for the ISA of one.
        if library.describe(isa.ISA) == "a library" and isa.ISA in PACKINGS:
            path = Path(folder) / "net.mdt"
            network.small.compile(path, network.images[:1].shape)
            found |= {name: process(PLANNED[name], path, image) for name in PLANNED}
        yield found


def process(code: str, path: Path, image: Path) -> list[str]:
    """The command that runs `code` on a file and an image."""
    whole = START + code + END
    return [sys.executable, "-c", whole, str(path), str(image)]


def measured(
    command: list[str], variables: Mapping[str, str] | None = None
) -> tuple[float, tuple[int, int]]:
    """Seconds up to the first result; bytes of the peak after imports and of all."""
    place = {"cwd": tempfile.gettempdir(), "env": {**os.environ, **(variables or {})}}
    start = time.perf_counter()
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **quiet, **place) as process:
        line = process.stdout.readline()
        seconds = time.perf_counter() - start
    imported, peak = json.loads(line)
    return seconds, (imported, peak)
