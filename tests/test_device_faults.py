"""Faults of waits, barriers, arguments, streams and pools: each turns a test red.

Each fault is one edit of a copy of the package: of the code of cuda:0, which runs on a
double of CuPy, of the emulated device, or of a CUDA text.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.mutants import ROOT, copy_checkout

from mdtensor.kernels.emulated.compiler import compiler

# Not `md.device("emucuda").missing`: the device would stay for the tests of others.
NO_COMPILER = pytest.mark.skipif(not compiler(), reason="needs g++")
EMU, LOOPS = "tests/test_emucuda.py", "tests/kernels/loops"
GPU = ("tests/gpu/test_cuda.py", "tests/gpu/test_exchange.py")
GPU += ("tests/rendered/test_events.py", "tests/rendered/test_capture.py")
DEVICE, STREAMS = "mdtensor/gpu/device.py", "mdtensor/gpu/streams.py"
#: Seconds of a run; a wait that never ends counts as noticed.
MOST = 900


@dataclass(frozen=True)
class Fault:
    """An edit: the file, its text at one place and the text that replaces it.

    Args:
        name: of the kind, and what is wrong.
        at: which of the places with this text.
        tests: run one after the other until one fails.
        device: on which they run.
    """

    name: str
    file: str
    before: str
    after: str
    at: int = 0
    tests: tuple[str, ...] = GPU
    device: str = "double"

    def __str__(self) -> str:
        return self.name

    def plant(self, text: str) -> str:
        """Return the text of the file with the fault."""
        parts = text.split(self.before)
        assert len(parts) > self.at + 1, f"{self.file} lacks {self.before!r}"
        first, last = parts[: self.at + 1], parts[self.at + 1 :]
        return self.before.join(first) + self.after + self.before.join(last)


def on_emucuda(name: str, file: str, before: str, after: str, *tests: str) -> Fault:
    return Fault(name, file, before, after, 0, tests or (EMU,), "emucuda")


WAITS = [
    Fault("wait: of a read", DEVICE, "stream.finish()\n        return", "return"),
    Fault("wait: of the device", DEVICE, "self._gpu.device.synchronize()", "pass"),
    Fault("wait: of an event", STREAMS, "self.raw.synchronize()", "pass"),
    Fault("wait: of a stream", STREAMS, "self.raw.synchronize()", "pass", 1),
    Fault("wait: for an event", STREAMS, "self.raw.wait_event(event.raw)", "pass"),
    on_emucuda(
        "wait: of an emulated read",
        "mdtensor/emucuda.py",
        "self.wait_for(*buffer.memory.uses.writer)",
        "pass",
    ),
    on_emucuda(
        "wait: of the emulated device",
        "mdtensor/emucuda.py",
        "for stream in list(self._pending)]",
        "for stream in ()]",
    ),
    on_emucuda(
        "wait: of an emulated stream",
        "mdtensor/emucuda.py",
        "self.device.wait_for(self, self.issued)",
        "pass",
    ),
]
SWAP = "; {0}[:2] = {0}[1::-1] if len({0}) > 2 else {0}[:2]"
PLACES = '[getattr(x, "address", 0) for x in launch.operands]'
ARGUMENTS = [
    Fault("arguments: of a launch", DEVICE, PLACES, PLACES + SWAP.format("addresses")),
    Fault(
        "arguments: source and target of an upload",
        DEVICE,
        "made.address, source.ctypes.data, source.nbytes",
        "source.ctypes.data, made.address, source.nbytes",
    ),
    Fault(
        "arguments: grid and block",
        "mdtensor/kernels/cuda/gpu.py",
        "launch.grid, 1, 1, launch.block, 1, 1",
        "launch.block, 1, 1, launch.grid, 1, 1",
    ),
    on_emucuda(
        "arguments: of an emulated launch",
        "mdtensor/emucuda.py",
        PLACES,
        PLACES + SWAP.format("places"),
        EMU,
        "tests/rendered/test_faults.py",
    ),
    on_emucuda(
        "arguments: walks of operands",
        "mdtensor/kernels/loops/arguments.py",
        "for x in launch.walks]",
        "for x in launch.walks[::-1]]",
        EMU,
        "tests/rendered/test_faults.py",
        "tests/rendered/test_operations.py",
    ),
]
MAIN = "self._main.raw"
QUEUES = [
    Fault("stream: of a launch", DEVICE, "addresses, stream.raw", f"addresses, {MAIN}"),
    Fault(
        "stream: of a read",
        DEVICE,
        "toolkit.gpu.TO_HOST, stream.raw",
        f"toolkit.gpu.TO_HOST, {MAIN}",
    ),
    Fault(
        "stream: of an upload",
        DEVICE,
        "toolkit.gpu.TO_DEVICE, made.memory.home.raw",
        f"toolkit.gpu.TO_DEVICE, {MAIN}",
    ),
    Fault("stream: of a replay", DEVICE, "launch(stream.raw)", f"launch({MAIN})"),
    Fault(
        "stream: of an export",
        DEVICE,
        "with self._last_stream(buffer):",
        "with self._main:",
    ),
    on_emucuda(
        "stream: of emulated launches",
        "mdtensor/emucuda.py",
        "            stream.tasks.append(task)",
        "            stream = self._main; stream.tasks.append(task)",
    ),
]
USES = "buffer.memory.uses.streams.add(self._foreign(handle or LEGACY))"
BLOCKS = [
    Fault("pool: a block that others still use", DEVICE, "stream.follow(home)", "pass"),
    Fault("pool: a block that an importer still reads", DEVICE, USES, "pass"),
    Fault(
        "pool: a block of another stream",
        DEVICE,
        "gpu.allocate(size, stream.raw)",
        f"gpu.allocate(size, {MAIN})",
    ),
    Fault(
        "pool: a freed block that another stream still uses",
        "mdtensor/gpu/memory.py",
        "home.follow(stream)",
        "pass",
    ),
    on_emucuda(
        "pool: numbers of a freed block stay",
        "mdtensor/emucuda.py",
        "        block[ZONE : ZONE + size] = POISON\n        self._counts.count(-size)",
        "        self._counts.count(-size)",
        EMU,
        "tests/rendered/test_faults.py",
    ),
    on_emucuda(
        "pool: a block that is still in use",
        "mdtensor/emucuda.py",
        "weakref.finalize(self, pool.give, self.bytes).atexit = False",
        "pool.give(self.bytes)",
    ),
]
#: Texts with barriers, and what runs them.
TEXTS = {
    "cuda_rows.py": (
        f"{LOOPS}/test_rows.py",
        f"{LOOPS}/test_cuda.py",
        "tests/rendered/test_pieces.py",
    ),
    "cuda_tiles.py": (f"{LOOPS}/test_tiles.py", "tests/quant/rendered/test_codes.py"),
    "cuda_weights.py": ("tests/quant/rendered/test_weights.py",),
    "tiles.cuh": (f"{LOOPS}/test_tiles.py",),
}
# The wait of asynchronous copies is PTX on a GPU, which no test without one runs; the
# emulated device has a function in its place.
BARRIERS = ("__syncthreads();", "__syncwarp();", "mdt_emulation::arrive(LATER);")


def barriers() -> list[Fault]:
    """Return a fault for each barrier of the texts."""
    found = []
    for name, tests in TEXTS.items():
        text = (ROOT / "kernels" / "loops" / name).read_text(encoding="utf-8")
        for before in BARRIERS:
            for at in range(text.count(before)):
                title = f"barrier: {name} {before.strip('_();')} {at}"
                file = f"mdtensor/kernels/loops/{name}"
                found.append(Fault(title, file, before, ";", at, tests, "emucuda"))
    return found


FAULTS = [*WAITS, *ARGUMENTS, *QUEUES, *BLOCKS, *barriers()]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the faults are planted: package, tests and benches."""
    place = copy_checkout(tmp_path_factory.mktemp("faults") / "copy")
    (place / "bench").symlink_to(ROOT / "bench")
    return place


def fails(place: Path, device: str, tests: str) -> str:
    """Run the tests of a file; return the first that fails, or nothing."""
    own = {"MDTENSOR_TEST_DEVICE": device, "PYTEST_XDIST_WORKER": ""}
    own |= {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "--hypothesis-seed=1"]
    # Also the long ones, some of which remove barriers themselves.
    command += ["-m", "not slow"]
    try:
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider", tests],
            cwd=place,
            env=os.environ | own,
            capture_output=True,
            text=True,
            timeout=MOST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{tests} does not end"
    # A fault in native code may end the process.
    assert done.returncode in (0, 1) or done.returncode < 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    red = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return "" if done.returncode == 0 else (red or [f"{tests}: {done.returncode}"])[0]


@NO_COMPILER
@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "tests"),
    sorted({(fault.device, tests) for fault in FAULTS for tests in fault.tests}),
)
def test_without_a_fault_all_pass(checkout: Path, device: str, tests: str) -> None:
    """Otherwise every fault would seem to be noticed."""
    assert not fails(checkout, device, tests)


@NO_COMPILER
@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_noticed(checkout: Path, fault: Fault) -> None:
    file = checkout / fault.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(fault.plant(whole), encoding="utf-8")
    try:
        noticed = next(
            filter(None, (fails(checkout, fault.device, t) for t in fault.tests)), ""
        )
    finally:
        file.write_text(whole, encoding="utf-8")
    print(f"\n{fault}: {noticed or 'NOT NOTICED'}")
    assert noticed


def test_every_text_with_barriers_is_broken() -> None:
    """A new text with barriers belongs to `TEXTS`."""
    folder = ROOT / "kernels" / "loops"
    found = {
        file.name
        for file in folder.iterdir()
        if file.suffix in (".py", ".cuh")
        and "__syncthreads();" in file.read_text(encoding="utf-8")
    }
    assert found == set(TEXTS)
