"""Captured functions: one launch, memory of their own, and what cannot be captured."""

import gc
from typing import Any

import numpy as np
import pytest
from support import cupy_double, rendered_device

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DeviceError, OptionError, ShapeError

cuda: Any = rendered_device.chosen()
pytestmark = pytest.mark.skipif(
    rendered_device.name() != "double" or bool(rendered_device.missing(cuda)),
    reason="needs g++, and MDTENSOR_TEST_DEVICE=double",
)


def here(seed: int, *shape: int) -> Any:
    return md.asarray(np.random.default_rng(seed).random(shape, np.float32))


def calls(name: str) -> list[Any]:
    return [call for call in cupy_double.CALLS if call[0] == name]


def test_a_replay_is_one_launch_with_the_same_bytes() -> None:
    w, b = here(1, 4, 3), here(2, 4)
    constants = [w.to(cuda), b.to(cuda)]
    fast = cuda.capture(lambda x: network(x, *constants), here(3, 2, 3).to(cuda))
    # The graph holds what it uses.
    constants.clear()
    gc.collect()
    for seed in (4, 5):
        x = here(seed, 2, 3).to(cuda)
        wanted = network(x, w.to(cuda), b.to(cuda))
        cupy_double.CALLS.clear()
        found = fast(x)
        assert len(calls("graph")) == 1 and not calls("synchronize")
        # One copy in, and one for each result.
        assert len(calls("launch")) == 3
        for a, c in zip(found, wanted, strict=True):
            assert a.tolist() == c.tolist()


def network(x: Any, w: Any, b: Any) -> Any:
    hidden = md.relu(md.linear(x, w, b))
    return md.softmax(hidden * 2 - 1, axis=1), hidden


def test_results_and_other_tensors_are_apart_from_the_graph() -> None:
    fast = cuda.capture(lambda x: (x + 1) * 2, here(1, 8).to(cuda))
    first = fast(md.zeros(8).to(cuda))
    # A block of the graph's pool that a later tensor got would be written by a replay.
    others = [md.full(8, 7.0).to(cuda) for _ in range(20)]
    second = fast(md.ones(8).to(cuda))
    assert first.tolist() == [2.0] * 8 and second.tolist() == [4.0] * 8
    assert all(other.tolist() == [7.0] * 8 for other in others)


def test_codes() -> None:
    grid = quant.QParams(0.125)
    w = quant.QInt8Tensor(np.arange(12).reshape(3, 4) - 6, scale=0.25)
    there = w.to(cuda)

    def network(x: Any) -> Any:
        return md.relu(md.linear(x, there, out=grid), out=grid)

    x = quant.QInt8Tensor(np.arange(8).reshape(2, 4), scale=0.5)
    fast = cuda.capture(network, x.to(cuda))
    found = fast(x.to(cuda)).to("cpu")
    wanted = md.relu(md.linear(x, w, out=grid), out=grid)
    assert found.codes.tolist() == wanted.codes.tolist()
    with pytest.raises(ShapeError, match="was captured for CudaQInt8Tensor"):
        fast(quant.QInt8Tensor(np.ones((2, 4), np.int8), scale=1.0).to(cuda))


def test_streams_are_ordered() -> None:
    fast = cuda.capture(lambda x: x + 1, here(1, 4).to(cuda))
    one = cuda.stream()
    x = md.ones(4).to(cuda)
    y = fast(x)
    with one, pytest.raises(DeviceError, match="another stream uses"):
        fast(x)
    one.wait(cuda.main_stream().record())
    with one:
        z = fast(x)
    assert y.tolist() == z.tolist() == [2.0] * 4


def test_what_waits_cannot_be_captured() -> None:
    x = here(1, 4).to(cuda)
    for bad, words in (
        (lambda x: x + x.tolist()[0], "waits (read)"),
        (lambda x: md.astype(x, md.int8, casting="check"), "astype counts"),
        (lambda x: x + md.ones(4).to(cuda), "16 bytes are copied to device"),
    ):
        with pytest.raises(DeviceError) as caught:
            cuda.capture(bad, x)
        assert "<lambda> cannot be captured" in str(caught.value)
        assert words in str(caught.value)
    assert (x + 1).shape == (4,)


def test_inputs_are_those_of_the_examples() -> None:
    x = here(1, 4).to(cuda)
    fast = cuda.capture(lambda x: x + 1, x)
    with pytest.raises(ShapeError, match=r"for CudaFloat32Tensor\[4\], got CudaFloat"):
        fast(here(1, 5).to(cuda))
    with pytest.raises(ShapeError):
        fast(x, x)
    with pytest.raises(OptionError, match=r"an input is Float32Tensor\[4\], not on"):
        fast(here(1, 4))
    with pytest.raises(OptionError, match="needs an example"):
        cuda.capture(lambda: 1)
