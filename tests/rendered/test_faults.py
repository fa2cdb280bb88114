"""Faults that are planted into the device or a kernel, and how each is found."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import DeviceError
from mdtensor.kernels.emulated import compiler, launcher
from mdtensor.kernels.emulated.launcher import ORDERS
from mdtensor.kernels.loops.cuda import render
from mdtensor.kernels.loops.ir import Input, Loop, apply, cast, load
from mdtensor.kernels.loops.kernel import Kernel

emucuda: Any = md.device("emucuda")
pytestmark = pytest.mark.skipif(not compiler.compiler(), reason="needs g++")
F32, I32 = Input("float32"), Input("int32")
SUM = render(Loop((F32,), load(0, "float32"), "add"))


def sums(kernel: Kernel) -> list[float]:
    """The sum of 64 numbers in each order of threads."""
    found = []
    for order in ORDERS:
        emucuda.order = order
        x = emucuda.from_host(np.arange(64, dtype=np.float32))
        out = emucuda.alloc((), np.dtype(np.float32))
        emucuda.launch(kernel, x, out, (0,))
        found.append(float(emucuda.to_host(out)))
    emucuda.order = "ascending"
    return found


def test_a_removed_synchronize(monkeypatch: pytest.MonkeyPatch) -> None:
    x = md.asarray([1.0, 2.0]).to(emucuda)
    with monkeypatch.context() as patch:
        patch.setattr(type(emucuda), "wait_for", lambda *_: None)
        y = x + x
        assert np.isnan(y.tolist()).all()
    assert y.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("at", [0, 1])
def test_a_removed_barrier(at: int) -> None:
    """Of the two barriers that a sum depends on."""
    parts = SUM.text.split("__syncthreads();")
    text = (
        "__syncthreads();".join(parts[: at + 1])
        + ";"
        + "__syncthreads();".join(parts[at + 1 :])
    )
    name = f"removed_{at}"
    broken = Kernel(name, text.replace(SUM.name, name), SUM.inputs, SUM.type, "add")
    assert sums(SUM) == [2016.0] * 3
    assert set(sums(broken)) != {2016.0}


def test_swapped_arguments_of_a_launch() -> None:
    value = apply("sub", load(0, "float32"), cast(load(1, "int32"), "float32"))
    kernel = render(Loop((F32, I32), value))
    x = emucuda.from_host(np.ones(3, np.float32))
    n = emucuda.from_host(np.full(3, 5, np.int32))
    out = emucuda.alloc((3,), np.dtype(np.float32))
    emucuda.launch(kernel, x, n, out)
    assert emucuda.to_host(out).tolist() == [-4.0] * 3
    with pytest.raises(DeviceError, match="argument 0 is EmuBuffer of int32, not a"):
        emucuda.launch(kernel, n, x, out)
    with pytest.raises(DeviceError, match="argument 1 is EmuBuffer of float32, not a"):
        emucuda.launch(kernel, x, out, n)


def test_a_wrong_stream() -> None:
    x = md.asarray([1.0, 2.0]).to(emucuda)
    with emucuda.stream() as first:
        y = x + x
    words = "that a launch in another stream uses"
    with pytest.raises(DeviceError, match=words), emucuda.stream():
        y * 2
    with emucuda.stream() as second:
        second.wait(first.record())
        assert (y * 2).tolist() == [4.0, 8.0]


def test_a_stale_block_of_the_pool() -> None:
    """A launch that does not hold its arguments reads poison, or what came later."""
    kernel = render(Loop((F32,), load(0, "float32")))
    x = emucuda.from_host(np.ones(37, np.float32))
    out = emucuda.from_host(np.zeros(37, np.float32))
    stale = SimpleNamespace(shape=x.shape, strides=x.strides, dtype=x.dtype)
    place, launch = x.address, kernel.bind((stale, out))

    def run() -> Any:
        launcher.run(kernel, launch, [place, out.address])
        return out.raw()

    assert (run() == 1).all()
    del x
    assert np.isnan(run()).all()
    later = emucuda.alloc((37,), np.dtype(np.float32))
    assert later.address == place
    assert np.isnan(run()).all()


def test_launches_hold_their_arguments() -> None:
    x = md.asarray(np.ones(41, np.float32)).to(emucuda)
    y = x + x
    del x
    md.empty(41, device=emucuda)[:] = 7.0
    assert y.tolist() == [2.0] * 41
