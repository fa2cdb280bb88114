"""The code of cuda:0 on a double of CuPy: memory, launches, streams, waits, errors."""

import gc
from functools import partial
from typing import Any

import numpy as np
import pytest
from support import cupy_double, rendered_device

import mdtensor as md
from bench import gpu as gpu_run, gpu_timings as timings
from mdtensor.errors import DeviceError, OptionError
from mdtensor.kernels.loops.cuda import render
from mdtensor.kernels.loops.ir import Input, Loop, apply, load
from mdtensor.kernels.loops.kernel import Kernel

cuda: Any = rendered_device.chosen()
pytestmark = pytest.mark.skipif(
    rendered_device.name() != "double" or bool(rendered_device.missing(cuda)),
    reason="needs g++, and MDTENSOR_TEST_DEVICE=double",
)
F32 = Input("float32")
ADD = render(Loop((F32, F32), apply("add", load(0, "float32"), load(1, "float32"))))
FAIL = Kernel(
    "fails",
    'extern "C" __global__ void fails(float* out, mdt::walk<1> w) { __trap(); }\n',
    (),
    "float32",
)


class TestCuda(md.conformance.DeviceConformance):
    """The tests that every device must pass."""

    device = cuda
    add = ADD
    # On a GPU a trap would end all further work of the process.
    raise_error = FAIL


def asked(what: str) -> list[Any]:
    """Return what the program asked the driver for since the last call."""
    found = [call for call in cupy_double.CALLS if call[0] == what]
    cupy_double.CALLS.clear()
    return found


def test_types_and_methods_are_there() -> None:
    x = md.asarray([1.0, 2.0]).to("cuda")
    assert type(x) is md.CudaFloat32Tensor
    assert type(x + 1) is md.CudaFloat32Tensor
    assert cuda in md.registry.devices_of(md.which(md.add, x, x).method)
    assert md.registry.get("add", cuda)


def test_a_launch_without_elements_is_not_made() -> None:
    """The driver refuses a grid without blocks."""
    x = md.zeros((0, 3), device=cuda)
    asked("launch")
    assert (x + x).shape == (0, 3)
    assert not asked("launch")
    assert md.sum(x, axis=0).tolist() == [0, 0, 0]


def test_a_read_waits_for_its_stream_only_then_it_has_the_numbers() -> None:
    x = md.asarray([1.0, 2.0]).to(cuda)
    y = x + x
    asked("synchronize")
    assert y.tolist() == [2.0, 4.0]
    ((_, stream),) = asked("synchronize")
    assert stream == cuda.main_stream().raw.ptr != 0


def test_a_removed_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    y = md.asarray([1.0, 2.0]).to(cuda) + 1
    stream = type(cuda.main_stream())
    with monkeypatch.context() as patch:
        patch.setattr(stream, "finish", lambda self: None)
        found = cuda.to_host(y.buffer)
        # Neither the sum nor its copy to the host has run.
        assert len(cuda.main_stream().raw.waiting) >= 2
    cuda.synchronize()
    assert found.tolist() == [2.0, 3.0]


def test_views_are_addresses_and_strided_reads_are_packed_there() -> None:
    x = md.asarray(np.arange(24, dtype=np.int16).reshape(4, 6)).to(cuda)
    part = x[::-2, 1::2]
    assert part.buffer.memory is x.buffer.memory
    assert part.buffer.address == x.buffer.address + 2 * (3 * 6 + 1)
    with md.trace_device() as log:
        assert part.tolist() == [[19, 21, 23], [7, 9, 11]]
    assert [launch.kernel for launch in log.launches] == ["copy_s16"]
    assert log.size("to host") == 12


def test_arguments_are_checked_before_the_driver_sees_them() -> None:
    x, y = (md.asarray([1], dtype=t).to(cuda).buffer for t in (md.float32, md.int32))
    asked("launch")
    for given, words in (
        ((x, y, x), "argument 1 is CudaBuffer of int32, not a buffer of float32"),
        ((x, x), "takes 2 operands, out, got 2 arguments"),
        ((x, 1.0, x), "argument 1 is float, not a buffer of float32"),
    ):
        with pytest.raises(DeviceError, match=words):
            cuda.launch(ADD, *given)
    with pytest.raises(DeviceError, match="launches kernels of CUDA text, not"):
        cuda.launch(print, x)
    assert not asked("launch")


def test_a_text_that_does_not_compile_names_the_kernel() -> None:
    bad = Kernel("bad", FAIL.text.replace("__trap()", "int31 x"), (), "float32")
    with pytest.raises(DeviceError, match="bad") as caught:
        cuda.launch(bad, cuda.alloc((1,), np.dtype("float32")))
    assert "does not compile" in str(caught.value.__cause__)


def test_an_error_of_a_launch_comes_out_of_a_wait() -> None:
    x = cuda.alloc((1,), np.dtype("float32"))
    cuda.launch(FAIL, x)
    with pytest.raises(DeviceError, match=r"cuda:0: waiting for a stream fails with"):
        cuda.to_host(x)
    cuda.synchronize()


def test_two_streams_need_an_event_and_the_gpu_waits_for_it() -> None:
    x, one, two = md.asarray([1.0]).to(cuda), cuda.stream(), cuda.stream()
    with one:
        y = x + x
    with two, pytest.raises(DeviceError, match="that a launch in another stream uses"):
        y + y
    two.wait(one.record())
    asked("wait")
    with two:
        z = y + y
    two.record().wait()
    assert z.tolist() == [4.0]
    with pytest.raises(OptionError):
        two.wait(3)


def test_a_stream_waits_for_the_one_that_had_its_memory_before() -> None:
    other = cuda.stream()
    x = cuda.from_host(np.ones(3, np.float32))
    asked("wait")
    other.launch(ADD, x, x, x)
    main = cuda.main_stream().raw.ptr
    assert asked("wait") == [("wait", other.raw.ptr, main)]
    # The pool may hand the block out at once: its stream waits for the other one.
    del x
    gc.collect()
    assert asked("wait") == [("wait", main, other.raw.ptr)]
    # What is known to be done needs no wait.
    y = cuda.from_host(np.ones(3, np.float32))
    cuda.synchronize()
    asked("wait")
    other.launch(ADD, y, y, y)
    other.synchronize()
    del y
    gc.collect()
    assert not asked("wait")


def test_memory_comes_from_the_pool_of_the_stream_entered() -> None:
    """The pool hands a freed block out to its own stream, without a wait."""
    other = cuda.stream()
    with other:
        x = cuda.alloc((3,), np.dtype(np.float32))
    assert x.memory.owner.key[1] == other.raw.ptr != cuda.main_stream().raw.ptr


def test_memory_is_counted() -> None:
    gc.collect()
    before = md.memory_stats(cuda)
    x = md.zeros(1000, dtype=md.float32, device=cuda)
    assert md.memory_stats(cuda).used == before.used + 4000
    assert md.memory_stats(cuda).peak >= before.used + 4000
    del x
    gc.collect()
    after = md.memory_stats(cuda)
    assert after.used == before.used and after.pooled >= 4000


def test_free_memory_is_that_of_the_driver_and_of_the_pool() -> None:
    pooled = md.memory_stats(cuda).pooled
    assert cuda.free_bytes == (1 << 30) + pooled


def test_the_ledger_and_the_blocks_that_forbid() -> None:
    x = md.asarray([1.0, 2.0]).to(cuda)
    (x * 2).tolist()
    cupy_double.CALLS.clear()
    with md.trace_device() as log:
        y = md.asarray([3.0, 4.0]).to(cuda)
        (x * y).tolist()
    calls = list(cupy_double.CALLS)
    assert len(log.launches) == len([c for c in calls if c[0] == "launch"]) == 1
    copies = [(c[1], c[2]) for c in calls if c[0] == "copy"]
    assert copies == [(1, 8), (2, 8)]
    assert [c.size for c in log.copies] == [8, 8]
    assert [wait.reason for wait in log.waits] == ["read"]
    with md.no_sync(), md.no_transfer():
        z = x * y
        for call in (z.tolist, lambda: md.asarray([1.0]).to(cuda), cuda.synchronize):
            with pytest.raises(DeviceError, match=r"block"):
                call()


def test_pinned_memory_is_read_before_the_copy_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = cuda.gpu
    monkeypatch.setattr(type(gpu), "_is_pinned", lambda self, address: True)
    asked("synchronize")
    md.asarray([1.0]).to(cuda)
    assert len(asked("synchronize")) == 1


def test_the_chain_of_a_run_on_a_gpu() -> None:
    x = md.asarray([2.0]).to(cuda)
    out = cuda.alloc((1,), np.dtype("float32"))
    cuda.launch(timings.chain(), x.buffer, out)
    wanted = np.float32(2)
    for _ in range(5):
        wanted = wanted * np.float32(1.5) + np.float32(1.5)
    assert cuda.to_host(out).tolist() == [float(wanted)]
    assert timings.compiled_chain(x).tolist() == [float(wanted)]


def test_the_record_of_a_run_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the double times say nothing, but every part that is not NVIDIA's runs."""
    monkeypatch.setattr(gpu_run, "checks", lambda: {"passed": True})
    monkeypatch.setattr(gpu_run.shutil, "which", lambda name: None)
    for name, given in (("elementwise", [1000]), ("products", [8]),
                        ("convolution", [2, 3]), ("weights", [32]),
                        ("few_tiles", [64]), ("depthwise", [2, 5]),
                        ("casts", [1000]), ("lines", [8])):  # fmt: skip
        call = partial(getattr(timings, name), *given)
        monkeypatch.setattr(timings, name, lambda *_, call=call: call())
    monkeypatch.setattr(timings, "captured", lambda size: {"host us": 20.5})
    kept: list[Any] = []
    found = gpu_run.record(True, lambda part: kept.append(dict(part)))
    # A run that is cut off has kept what it found.
    assert kept[0].keys() == {"claims", "passed", "elementwise"}
    assert kept[-1] == found and not kept[0]["passed"]
    assert "compute-sanitizer" in found["sanitizer"]["missing"]
    # The double has no products of its own.
    assert "'cupy' has no attribute" in found["products"]["error"]
    assert found["products"]["ms"] > 0
    assert found["few tiles"]["ms"] > 0 and found["depthwise"]["GB/s"] >= 0
    assert found["casts"]["check GB/s"] >= 0
    assert not found["passed"]
    assert {"copy GB/s", "add / copy", "chain / copy"} <= set(found["elementwise"])
    assert found["launch"]["host us"] > 0
    assert found["convolution"]["ms"] > 0
    assert found["weights"]["4 bits ms"] > 0 and found["lines"]["sort, rows, ms"] > 0
    rows = {row["claim"]: row for row in found["claims"]}
    assert len(rows) == 5
    lost = rows["products: CuPy / ours at least 5"]
    assert lost["measured"] is None and lost["holds"] is False
    missed = rows["captured MobileNetV2: host us at most 20"]
    assert missed["measured"] == 20.5 and missed["holds"] is False


@pytest.mark.slow
def test_the_captured_network_of_a_run_on_a_gpu() -> None:
    found = timings.captured(32, replays=2)
    assert found["the bytes of the host"] is True
    assert found["host us"] > 0 and found["ms"] >= 0


def test_events_have_times() -> None:
    stream = cuda.stream()
    first, last = stream.record(), stream.record()
    last.wait()
    assert last.is_done and last.milliseconds_since(first) >= 0
