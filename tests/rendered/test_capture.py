"""Captured functions: one launch, memory of their own, and what cannot be captured."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support import cupy_double, rendered_device

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DeviceError, OptionError, ShapeError
from mdtensor.kernels.emulated.launcher import ORDERS

gpu: Any = rendered_device.chosen()
WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
IS_DOUBLE = rendered_device.name() == "double"
IS_EMULATED = rendered_device.name() == "emucuda"
PREFIX = rendered_device.prefix(gpu)


@pytest.fixture(autouse=True)
def ascending() -> Iterator[None]:
    yield
    gpu.order = "ascending"
    gpu.synchronize()


def here(seed: int, *shape: int) -> Any:
    return md.asarray(np.random.default_rng(seed).random(shape, np.float32))


def calls(name: str) -> list[Any]:
    return [call for call in cupy_double.CALLS if call[0] == name]


def test_a_replay_is_one_launch_with_the_same_bytes() -> None:
    w, b = here(1, 4, 3), here(2, 4)
    constants = [w.to(gpu), b.to(gpu)]
    fast = gpu.capture(lambda x: network(x, *constants), here(3, 2, 3).to(gpu))
    # The graph holds what it uses.
    constants.clear()
    gc.collect()
    for seed in (4, 5):
        x = here(seed, 2, 3).to(gpu)
        wanted = network(x, w.to(gpu), b.to(gpu))
        cupy_double.CALLS.clear()
        with md.trace_device() as log, md.no_sync():
            found = fast(x)
        # One copy in, and one for each result.
        assert [one.kernel for one in log.launches].count("<lambda>") == 1
        assert len(log.launches) == 4
        if IS_DOUBLE:
            assert len(calls("graph")) == 1 and not calls("synchronize")
            assert len(calls("launch")) == 3
        for a, c in zip(found, wanted, strict=True):
            assert a.tolist() == c.tolist()


def network(x: Any, w: Any, b: Any) -> Any:
    hidden = md.relu(md.linear(x, w, b))
    return md.softmax(hidden * 2 - 1, axis=1), hidden


def test_results_and_other_tensors_are_apart_from_the_graph() -> None:
    fast = gpu.capture(lambda x: (x + 1) * 2, here(1, 8).to(gpu))
    first = fast(md.zeros(8).to(gpu))
    # A block of the graph's pool that a later tensor got would be written by a replay.
    others = [md.full(8, 7.0).to(gpu) for _ in range(20)]
    second = fast(md.ones(8).to(gpu))
    assert first.tolist() == [2.0] * 8 and second.tolist() == [4.0] * 8
    assert all(other.tolist() == [7.0] * 8 for other in others)


def test_codes() -> None:
    grid = quant.QParams(0.125)
    w = quant.QInt8Tensor(np.arange(12).reshape(3, 4) - 6, scale=0.25)
    there = w.to(gpu)

    def network(x: Any) -> Any:
        return md.relu(md.linear(x, there, out=grid), out=grid)

    x = quant.QInt8Tensor(np.arange(8).reshape(2, 4), scale=0.5)
    fast = gpu.capture(network, x.to(gpu))
    found = fast(x.to(gpu)).to("cpu")
    wanted = md.relu(md.linear(x, w, out=grid), out=grid)
    assert found.codes.tolist() == wanted.codes.tolist()
    with pytest.raises(ShapeError, match=f"was captured for {PREFIX}QInt8Tensor"):
        fast(quant.QInt8Tensor(np.ones((2, 4), np.int8), scale=1.0).to(gpu))


def test_streams_are_ordered() -> None:
    fast = gpu.capture(lambda x: x + 1, here(1, 4).to(gpu))
    one = gpu.stream()
    # Two inputs: a replay in a wrong stream would leave the result of the first.
    x, later = md.ones(4).to(gpu), md.asarray([5.0] * 4).to(gpu)
    y = fast(x)
    with one, pytest.raises(DeviceError, match="another stream uses"):
        fast(x)
    one.wait(gpu.main_stream().record())
    with one:
        z = fast(later)
    assert y.tolist() == [2.0] * 4 and z.tolist() == [6.0] * 4


def test_what_waits_cannot_be_captured() -> None:
    x = here(1, 4).to(gpu)
    for bad, words in (
        (lambda x: x + x.tolist()[0], "waits (read)"),
        (lambda x: md.astype(x, md.int8, casting="check"), "astype counts"),
        (lambda x: x + md.ones(4).to(gpu), "16 bytes are copied to device"),
    ):
        with pytest.raises(DeviceError) as caught:
            gpu.capture(bad, x)
        assert "<lambda> cannot be captured" in str(caught.value)
        assert words in str(caught.value)
    assert (x + 1).shape == (4,)


def test_inputs_are_those_of_the_examples() -> None:
    x = here(1, 4).to(gpu)
    fast = gpu.capture(lambda x: x + 1, x)
    with pytest.raises(
        ShapeError, match=rf"for {PREFIX}Float32Tensor\[4\], got {PREFIX}"
    ):
        fast(here(1, 5).to(gpu))
    with pytest.raises(ShapeError):
        fast(x, x)
    with pytest.raises(OptionError, match=r"an input is Float32Tensor\[4\], not on"):
        fast(here(1, 4))
    with pytest.raises(OptionError, match="needs an example"):
        gpu.capture(lambda: 1)


@pytest.mark.skipif(not IS_EMULATED, reason="other devices have one order")
@pytest.mark.parametrize("order", ORDERS)
def test_a_compiled_function_is_captured_in_few_launches(order: str) -> None:
    gpu.order = order
    compiled = md.compile(lambda x: md.softmax(md.relu(x * 2 - 1)) + 1)
    fast = gpu.capture(compiled, here(1, 4, 70).to(gpu))
    (kernel,) = compiled.traces[0].items()[0].kernels
    assert "softmax" in kernel or "mul" in kernel
    assert len(fast._graph.launches) == 1
    x = here(2, 4, 70).to(gpu)
    want = md.softmax(md.relu(x * 2 - 1)) + 1
    assert fast(x).tolist() == want.tolist()


@pytest.mark.skipif(not IS_EMULATED, reason="the emulated device counts")
def test_the_ledger_and_the_device_count_a_replay_as_one() -> None:
    fast = gpu.capture(network, *(here(i, *s).to(gpu) for i, s in enumerate(SHAPES)))
    given = [here(9, *shape).to(gpu) for shape in SHAPES]
    gpu.synchronize()
    before = gpu.counts["launches"]
    with md.trace_device() as log:
        fast(*given)
        gpu.synchronize()
    assert gpu.counts["launches"] - before == len(log.launches) == 6
    stats = md.memory_stats(gpu)
    assert stats.peak >= stats.used > 0
    del fast
    gc.collect()
    assert md.memory_stats(gpu).used < stats.used


SHAPES = [(2, 3), (4, 3), (4,)]


@pytest.mark.skipif(not IS_EMULATED, reason="CUDA raises an error of its own")
def test_a_captured_stream_waits_for_nothing() -> None:
    done = gpu.stream().record()

    def waits(x: Any) -> Any:
        gpu.stream_now().wait(done)
        return x + 1

    with pytest.raises(DeviceError, match="captured cannot wait for an event"):
        gpu.capture(waits, here(1, 4).to(gpu))


def test_a_device_that_captures_nothing_says_so() -> None:
    with pytest.raises(DeviceError, match=r"cpu does not capture.*md.compile"):
        md.cpu.capture(md.relu, md.ones(2))
