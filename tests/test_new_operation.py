"""A new elementwise operation, without a word about devices, runs on all four of them.

On the host, on the emulated device, on a double of CuPy and on WebGPU; each device in a
process of its own, since it stays registered.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mdtensor.kernels.emulated.compiler import NO_COMPILER, compiler

ROOT = Path(__file__).parents[1]
EXTENDING = ROOT / "docs" / "how-to" / "extending"
DEVICES = ["emucuda", "double", "webgpu"]

#: What a user writes: a kernel of arrays, and a composition of operations.
OPERATIONS = """
from typing import Any
import numpy as np
import mdtensor as md
from mdtensor import extend
from mdtensor_squared import squared_difference

@md.generic(deduce=extend.same)
def bump(x: Any, /) -> Any: "sqrt(|x| / 3) above -1, else tanh(x)."

@md.method(bump, anywhere=True)
def bump(x: md.FloatingTensor, /) -> md.Tensor:
    return extend.compute(bump, bump_of_arrays, x)

def bump_of_arrays(x: Any) -> Any:
    return np.where(x > -1, np.sqrt(np.abs(x) / 3), np.tanh(x))

@md.generic(deduce=extend.arithmetic)
def hinge(x: Any, y: Any, /) -> Any: "The square of what is missing to a margin."

@md.method(hinge, anywhere=True)
def hinge(x: extend.Number, y: extend.Number, /) -> Any:
    return md.square(md.maximum(md.sub(3, md.mul(x, y)), 0))
"""

#: Compares each of them with the host, for the types that the device has.
COMPARE = """
import sys
name = sys.argv[1]
if name == "double":
    from support import rendered_device
    device = rendered_device.chosen()
else:
    device = md.device(name)
if device.missing:
    print("missing:", device.missing)
    sys.exit()

def same(operation, *given, units=0):
    wanted = operation(*given)
    found = operation(*(x.to(device) if isinstance(x, md.Tensor) else x for x in given))
    assert found.device is device, found
    a, b = (np.asarray(x) for x in (wanted, found.to("cpu")))
    assert a.dtype == b.dtype and a.shape == b.shape
    if not units:
        assert a.tobytes() == b.tobytes(), (operation, given[0].dtype)
    unit = float(md.finfo(wanted.dtype).eps) if units else 0
    a, b = a.astype(np.float64), b.astype(np.float64)
    assert (np.abs(a - b) <= units * unit * np.abs(a)).all(), (operation, given)

rng, count = np.random.default_rng(5), 0
for leaf in md.leaves():
    dtype = leaf.dtype
    is_here = any(x.device is device and x.dtype is dtype for x in md.leaves())
    if leaf.device is not md.cpu or not (dtype.is_integer or dtype.is_floating):
        continue
    if not is_here:
        continue
    x = md.astype(md.asarray(rng.integers(0, 90, (4, 5)) / 7), dtype, casting="wrap")
    y = md.astype(md.asarray(rng.integers(0, 90, 5) / 7), dtype, casting="wrap")
    same(squared_difference, x, y)
    same(squared_difference, x.T, 3)
    same(hinge, x, y)
    if dtype.is_floating:
        same(bump, x)
        same(bump, -x, units=4)
    count += 1
print(count, "types")
"""


def run(device: str) -> str:
    """What the comparison prints in a process of its own."""
    paths = [EXTENDING / "squared" / "src", EXTENDING / "webgpu" / "src"]
    env = {"MDTENSOR_TEST_DEVICE": device if device == "double" else "emucuda"}
    env["PYTHONPATH"] = os.pathsep.join(map(str, [*paths, ROOT / "tests"]))
    load = "import mdtensor_webgpu\n" if device == "webgpu" else ""
    done = subprocess.run(
        [sys.executable, "-P", "-c", OPERATIONS + load + COMPARE, device],
        cwd=ROOT,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("device", DEVICES)
def test_a_new_operation_runs_on_every_device(device: str) -> None:
    """With the bytes of the host where IEEE 754 decides them, else within 4 units."""
    is_web = device == "webgpu"
    if is_web and importlib.util.find_spec("wgpu") is None:
        pytest.skip("needs wgpu")
    if not is_web and not compiler():
        pytest.skip(NO_COMPILER)
    said = run(device)
    if (
        is_web
        and said.startswith("missing")
        and "MDTENSOR_REQUIRES_WEBGPU" not in os.environ
    ):
        pytest.skip(said)
    assert int(said.split()[0]) >= (6 if is_web else 12), said


def test_what_a_user_writes_names_no_device() -> None:
    source = EXTENDING / "squared" / "src" / "mdtensor_squared" / "__init__.py"
    for text in (OPERATIONS, source.read_text(encoding="utf-8")):
        assert not any(word in text for word in (*DEVICES, "cuda", "Cuda", "rendered"))
