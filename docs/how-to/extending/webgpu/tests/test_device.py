"""The device: memory, launches, the ledger, types, and errors."""

import pickle
from typing import Any

import numpy as np
import pytest
from host import TYPES, tensor, there, webgpu

import mdtensor as md
from mdtensor.extend import Kernel, render_wgsl
from mdtensor.kernels.loops.ir import Input, Loop, apply, load

F32 = Input("float32")
ADD = render_wgsl(
    Loop((F32, F32), apply("add", load(0, "float32"), load(1, "float32")))
)


class TestWebGpu(md.conformance.DeviceConformance):
    """The tests that every device must pass."""

    device = webgpu
    add = ADD
    raise_error = Kernel("fails", "fn main( {", (), "float32")


def test_there_is_an_adapter() -> None:
    """Where this package is tested a driver is there: its absence is no success."""
    assert webgpu.missing == ""


def test_types_are_those_that_wgsl_has() -> None:
    mine = {kind.dtype.name for kind in md.leaves() if kind.device is webgpu}
    assert mine & {"int64", "uint64", "float64", "bfloat16", "complex64"} == set()
    assert set(TYPES) <= mine
    with pytest.raises(md.MdtensorError, match="int64 has no tensor type on webgpu"):
        md.asarray([1]).to(webgpu)
    with pytest.raises(md.DeviceError, match=r"Use int8, .* or the device cpu"):
        md.argmax(tensor("float32", 3).to(webgpu), axis=0)


def test_what_wgsl_lacks_raises_and_names_the_way_out() -> None:
    x = tensor("float32", 3).to(webgpu)
    for call, what in (
        (lambda: md.gelu(x), "no method for webgpu yet"),
        (lambda: md.astype(x, "bool", casting="exact"), "WGSL kernels do not test"),
    ):
        with pytest.raises(md.NoMethodError, match=what) as error:
            call()
        assert 'to("cpu")' in str(error.value)
    with pytest.raises(md.DeviceError, match="operands are on webgpu and cpu"):
        x + x.to("cpu")


@pytest.mark.parametrize("type", TYPES)
def test_views_share_memory_and_packed_neighbours_stay(type: str) -> None:
    """Elements of 8 and 16 bits are written between others of the same word."""
    host, x = tensor(type, 4, 7), tensor(type, 4, 7).to(webgpu)
    one = tensor(type, 2, 3, seed=1)
    for place in (host, x):
        place[1:3, 1::2] = one if place is host else one.to(webgpu)
        place[0, 1] = 1
        place[:, :3] = place[:, 4:]
    assert x.tolist() == host.tolist()
    assert x[::-1, 2].tolist() == host[::-1, 2].tolist()
    assert x[1].buffer.memory is x.buffer.memory
    assert md.reshape(x, (28,)).buffer.memory is x.buffer.memory


def test_a_launch_may_read_the_memory_that_it_writes() -> None:
    x = tensor("float32", 8).to(webgpu)
    before = x.tolist()
    with md.trace_device() as log:
        webgpu.launch(ADD, x.buffer, x.buffer, x.buffer)
    assert x.tolist() == [2 * v for v in before]
    # Twice one memory, and two copies of 32 bytes: it is not bound for both uses.
    assert [copy.size for copy in log.copies] == [32, 32]
    assert {copy.direction for copy in log.copies} == {"on device"}


def test_the_ledger_has_launches_copies_and_waits() -> None:
    with md.trace_device() as log:
        x = tensor("float32", 2, 3).to(webgpu)
        y = md.softmax(x * 2, axis=1)
        y.tolist()
    assert [entry.kernel for entry in log.launches] == [
        *("mul_f32", "maximum_f32", "exp_f32", "add_f32", "div_f32")
    ]
    assert log.size("to device") == log.size("to host") == 24
    assert [wait.reason for wait in log.waits] == ["read"]
    assert all("test_device.py:" in entry.place for entry in log.entries)
    with md.no_sync(), md.no_transfer():
        z = md.exp(x) + 1
    with md.no_sync(), pytest.raises(md.DeviceError, match=r"waits \(read\)"):
        z.tolist()
    with md.no_transfer(), pytest.raises(md.DeviceError, match="12 bytes are copied"):
        md.asarray(np.ones(3, np.float32)).to(webgpu)


def test_memory_is_counted_and_given_back() -> None:
    before = md.memory_stats("webgpu")
    x = tensor("float32", 1000).to(webgpu)
    during = md.memory_stats("webgpu")
    assert during.used - before.used == 4000 and during.peak >= during.used
    del x
    assert md.memory_stats("webgpu").used == before.used


def test_a_buffer_that_no_binding_holds_raises() -> None:
    with pytest.raises(md.DeviceError, match="binds buffers of at most"):
        webgpu.alloc((2**40,), np.dtype(np.float32))


def test_support_says_what_calls_do() -> None:
    """Every operation of one or two tensors: it runs, or `support` says why not."""
    ran = 0
    for cell in md.support(device="webgpu"):
        call: Any = md.operations()[cell.name]
        count = len(call.operation.dispatched)
        if not cell.runs or str(cell.dtype) not in TYPES or count > 2:
            continue
        if call.operation.sequence:
            continue
        x = md.asarray(np.ones((2, 2), str(cell.dtype))).to(webgpu)
        try:
            call(*[x] * count)
            ran += 1
        except md.MdtensorError as error:
            # Other calls need options, or arguments of other types: repeats and powers
            # are numbers on a device, and no tensors.
            takes_number = cell.name.endswith((".repeat", ".matrix_power"))
            assert takes_number or "no method for webgpu" not in str(error), cell
    assert ran > 250


def test_no_call_is_ambiguous_on_a_device_of_few_types() -> None:
    report = md.diagnose.analyze()
    assert len(report.functions) > 200 and not report.at_least("warning")


def test_arguments_of_a_launch_are_checked() -> None:
    x, y = (tensor(type, 3).to(webgpu).buffer for type in ("float32", "int32"))
    for call, what in (
        (lambda: webgpu.launch(ADD, x, y, x), "argument 1 is Buffer of int32"),
        (lambda: webgpu.launch(ADD, x, x), "takes 2 operands, out, got 2"),
        (lambda: webgpu.launch(np.add, x, x, x), "launches kernels of WGSL"),
    ):
        with pytest.raises(md.DeviceError, match=what):
            call()


def test_which_and_registry_name_the_kernel() -> None:
    x: Any = tensor("float32", 4).to(webgpu)
    found = md.which(md.exp, x)
    assert (found.kernel, found.isa) == ("exp_f32", "WGSL")
    assert webgpu in md.registry.devices_of(md.registry.get("exp", webgpu)[0])
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()
    assert there(1) == 1
