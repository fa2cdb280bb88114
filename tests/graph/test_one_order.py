"""Reductions of floats: calls, traces, lazy tensors and plans give the same bytes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.graph.graph import Graph, Node
from mdtensor.kernels.cpu.generic.float_pool import mean_f32
from mdtensor.kernels.cpu.generic.float_reduce import reduce_f32
from mdtensor.kernels.cpu.generic.opcodes import SUM
from mdtensor.quant.model.model import Model

#: Lengths around the 8 lanes, the 128 elements of a leaf and its halves.
SIZES = (1, 2, 3, 7, 8, 9, 17, 64, 127, 128, 129, 137, 255, 256, 257, 400)
REDUCTIONS = (md.sum, md.mean, md.var, md.std, md.max, md.min)
ALONG = (md.softmax, md.log_softmax)


def raw(x: Any) -> Any:
    found = np.asarray(x)
    nan = found.dtype.type(np.nan)
    return found.shape, np.where(np.isnan(found), nan, found).tobytes()


def normal(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    x = (3 * rng.normal(size=shape)).astype(dtype)
    if seed % 3 == 0:
        x[rng.random(shape) < 0.02] = rng.choice([0.0, -0.0, np.inf, np.nan])
    return md.from_numpy(x)


def ways(operation: Any, x: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the bytes of each way to compute an operation."""

    def function(x: Any) -> Any:
        return operation(x, **options)

    with md.lazy():
        lazy = function(x)
    spec = TensorSpec(type(x), x.shape)
    node = Node("node", operation, ("x",), "y", options)
    plan = Model(Graph({"x": spec}, (node,), {}, ("y",)))
    return {
        "call": raw(function(x)),
        "trace": raw(md.compile(function)(x)),
        "lazy": raw(md.realize(lazy)),
        "plan": raw(plan(x)),
    }


def require_same(operation: Any, x: Any, options: dict[str, Any]) -> None:
    found = ways(operation, x, options)
    wanted = found["call"]
    assert {key: value == wanted for key, value in found.items()} == dict.fromkeys(
        found, True
    )


@st.composite
def shapes(draw: Any, least: int = 1) -> tuple[int, ...]:
    shape = draw(st.lists(st.sampled_from(SIZES), min_size=least, max_size=4))
    while np.prod(shape) > 300_000:
        shape[int(np.argmax(shape))] = 3
    return tuple(shape)


@settings(max_examples=60, deadline=None)
@given(shapes(), st.data())
def test_reductions_over_any_axes(shape: tuple[int, ...], data: Any) -> None:
    places = st.integers(0, len(shape) - 1)
    axes = data.draw(st.sets(places, min_size=1).map(lambda x: tuple(sorted(x))))
    options = {"axis": axes, "keepdims": data.draw(st.booleans())}
    dtype = data.draw(st.sampled_from(["float32", "float16"]))
    x = normal(shape, dtype, data.draw(st.integers(0, 99)))
    require_same(data.draw(st.sampled_from(REDUCTIONS)), x, options)
    require_same(data.draw(st.sampled_from(ALONG)), x, {"axis": axes[0]})


@settings(max_examples=30, deadline=None)
@given(shapes(4), st.integers(0, 99))
def test_means_of_images(shape: tuple[int, ...], seed: int) -> None:
    require_same(md.global_avg_pool2d, normal(shape, "float32", seed), {})


@pytest.mark.parametrize("length", [*SIZES, 1000, 12_544])
@pytest.mark.parametrize("channels", [1, 3, 7, 8, 9, 33, 256, 512])
def test_an_image_is_added_as_rows_of_numpy(length: int, channels: int) -> None:
    x = np.array(normal((length, channels), "float32", length + channels))
    found, rows = np.empty(channels, np.float32), np.ascontiguousarray(x.T)
    with np.errstate(all="ignore"):
        mean_f32(x.reshape(-1), length, channels, found)
        assert raw(found) == raw(rows.mean(axis=1))
        reduce_f32(SUM, rows.reshape(-1), length, 1, found)
        assert raw(found) == raw(rows.sum(axis=1))
        if channels > 1:
            reduce_f32(SUM, x.reshape(-1), length, channels, found)
            assert raw(found) == raw(x.sum(axis=0))


def test_a_sum_of_negative_zeros_is_zero() -> None:
    x = md.from_numpy(np.full((1, 8, 16, 9), -0.0, np.float32))
    for operation, options in (
        (md.sum, {"axis": -1}),
        (md.sum, {"axis": 1}),
        (md.mean, {"axis": (2, 3), "keepdims": True}),
        (md.global_avg_pool2d, {}),
    ):
        require_same(operation, x, options)
        assert not np.signbit(np.asarray(operation(x, **options))).any()
