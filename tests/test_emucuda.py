"""The emulated CUDA device: memory, launches, streams, and faults that it finds."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import DeviceError
from mdtensor.kernels.emulated import compiler
from mdtensor.kernels.emulated.launcher import ORDERS
from mdtensor.kernels.loops.cuda import render
from mdtensor.kernels.loops.ir import Input, Loop, apply, load
from mdtensor.kernels.loops.kernel import Kernel

emucuda: Any = md.device("emucuda")
F32 = Input("float32")
ADD = render(Loop((F32, F32), apply("add", load(0, "float32"), load(1, "float32"))))
COPY = render(Loop((F32,), load(0, "float32")))

needs_compiler = pytest.mark.skipif(not compiler.compiler(), reason="needs g++")


def planted(name: str, old: str, new: str) -> Kernel:
    """The copy kernel with a fault."""
    assert old in COPY.text
    text = COPY.text.replace(old, new).replace(COPY.name, name)
    return Kernel(name, text, COPY.inputs, COPY.type)


TRAP = planted("traps", "out[", "__trap(); out[")
BEYOND = planted("writes_beyond", "out[p.at[1]]", "out[p.at[1] + 2]")
#: A kernel that raises takes one buffer.
FAIL = Kernel(
    "fails",
    'extern "C" __global__ void fails(float* out, mdt::walk<1> w) { __trap(); }\n',
    (),
    "float32",
)


@pytest.fixture(autouse=True)
def ascending() -> Iterator[None]:
    yield
    emucuda.order = "ascending"
    emucuda.synchronize()


@needs_compiler
class TestEmuCuda(md.conformance.DeviceConformance):
    """The tests that every device must pass."""

    device = emucuda
    add = ADD
    raise_error = FAIL
    peek = staticmethod(lambda buffer: buffer.raw())


def ones(n: int = 3) -> Any:
    return emucuda.from_host(np.ones(n, np.float32))


def text(call: Any) -> str:
    with pytest.raises(DeviceError) as caught:
        call()
    return str(caught.value)


def test_imported_when_it_is_named() -> None:
    code = (
        "import sys, mdtensor as md; assert 'mdtensor.emucuda' not in sys.modules;"
        "assert len(md.devices()) == 2; x = md.zeros(2, device='emucuda');"
        "assert type(x).__name__ == 'EmuCudaFloat32Tensor';"
        "assert [str(d) for d in md.devices()] == ['cpu', 'cuda:0', 'emucuda']"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_its_name_belongs_to_its_module() -> None:
    code = (
        "import mdtensor as md\n"
        "class Mine(md.Device):\n"
        "    name = 'emucuda'\n"
        "    alloc = from_host = to_host = launch = synchronize = None\n"
        "try: md.register_device(Mine())\n"
        "except md.RegistrationError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("a device named emucuda exists already.")


def test_every_element_type_has_a_type_there_of_the_same_kind() -> None:
    for host in md.leaves()[:15]:
        there = host.with_device(emucuda)
        assert there.__name__ == f"EmuCuda{host.__name__}"
        assert there.__bases__ == host.__bases__


def test_fresh_memory_is_poisoned() -> None:
    made = emucuda.alloc((2, 3), np.dtype(np.float32))
    assert np.isnan(emucuda.to_host(made)).all()
    assert md.empty(2, dtype=md.uint8, device=emucuda).tolist() == [255, 255]


@needs_compiler
def test_a_read_without_waiting_is_found() -> None:
    x = md.asarray([1.0, 2.0]).to(emucuda)
    y = x + x
    assert np.isnan(y.buffer.raw()).all()
    assert y.tolist() == [2.0, 4.0]
    assert y.buffer.raw().tolist() == [2.0, 4.0]


@needs_compiler
def test_a_write_outside_of_a_buffer_names_the_launch() -> None:
    x, out = ones(), ones()
    emucuda.launch(BEYOND, x, out)
    emucuda.launch(COPY, x, x)
    assert text(emucuda.synchronize) == (
        "writes_beyond(EmuBuffer[3], EmuBuffer[3]): on emucuda a launch wrote outside "
        "of argument 1. Check the places that it writes."
    )
    # The others ran, and are not blamed.
    emucuda.synchronize()


@needs_compiler
def test_a_trap_is_an_error_of_its_launch() -> None:
    out = ones()
    emucuda.launch(TRAP, ones(), out)
    assert text(lambda: emucuda.to_host(out)) == (
        "traps(EmuBuffer[3], EmuBuffer[3]): the kernel failed on emucuda with "
        "EmulationError."
    )


def test_launches_are_checked_at_once() -> None:
    x, bytes_ = ones(), emucuda.from_host(np.ones(3, np.uint8))
    assert f"{COPY.name}: argument 1 is EmuBuffer of uint8, not a buffer" in text(
        lambda: emucuda.launch(COPY, x, bytes_)
    )
    assert "takes 1 operands, out, got 1 arguments" in text(
        lambda: emucuda.launch(COPY, x)
    )
    assert "argument 0 is ndarray of float32" in text(
        lambda: emucuda.launch(COPY, np.ones(3, np.float32), x)
    )
    assert "launches kernels of CUDA text, not" in text(lambda: emucuda.launch(print))
    assert "does not broadcast to (2,)" in text(
        lambda: emucuda.launch(COPY, x, ones(2))
    )


@needs_compiler
def test_streams_without_an_event_are_found() -> None:
    first, second = emucuda.stream(), emucuda.stream()
    x, y, z = ones(), ones(), ones()
    first.launch(ADD, x, x, y)
    problem = "uses a buffer that a launch in another stream uses. Use stream.wait("
    # A read behind a write, a write behind a write, a write behind a read.
    for arguments in ((y, z), (z, y), (z, x)):
        assert problem in text(lambda a=arguments: second.launch(COPY, *a))
    second.launch(COPY, x, z)
    second.wait(first.record())
    second.launch(ADD, y, y, y)
    assert emucuda.to_host(y).tolist() == [4.0] * 3
    first.synchronize()
    second.synchronize()
    first.launch(COPY, y, x)
    assert emucuda.to_host(x).tolist() == [4.0] * 3


@needs_compiler
def test_an_event_carries_what_its_stream_waited_for() -> None:
    a, b, c = (emucuda.stream() for _ in range(3))
    x, y = ones(), ones()
    a.launch(ADD, x, x, y)
    b.wait(a.record())
    c.wait(b.record())
    c.launch(ADD, y, y, y)
    assert emucuda.to_host(y).tolist() == [4.0] * 3


@needs_compiler
@pytest.mark.parametrize("order", ORDERS)
def test_the_order_of_threads_is_chosen(order: str) -> None:
    emucuda.order = order
    x = md.reshape(md.arange(3000), (3, 1000)).to(emucuda)
    assert md.sum(x, axis=1).tolist() == [499500, 1499500, 2499500]


def test_without_a_compiler_tensors_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "compiler", lambda: "")
    monkeypatch.setattr("mdtensor.emucuda.compiler", lambda: "")
    sentence = "g++, which compiles kernels for the emulated device, is not installed"
    assert emucuda.missing == sentence
    assert md.asarray([1.0]).to(emucuda).tolist() == [1.0]


def test_which_names_the_text_that_runs() -> None:
    x = md.asarray([1.0, 2.0]).to("emucuda")
    found = str(md.which(md.add, x, x)).splitlines()[-1]
    assert "CUDA text" in found and "on emucuda" in found and "NumPy" not in found
