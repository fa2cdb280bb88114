"""What is inferred of quantized tensors is what comes out, over random calls."""

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support.draws import DRAWS, INSIDE

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QParams, qint32, quint8
from mdtensor.quant.dtypes import FLOATS as FLOAT8
from mdtensor.quant.tensor import spec_of

TENSOR = [QParams(0.5, 3), QParams(0.5, 3, dtype=quint8), QParams(0.25, dtype=qint32)]
TENSOR += [QParams(0.5, 3, dtype=d) for d in (quant.qint4, quant.quint4)]
TENSOR += [QParams(0.5, dtype=d) for d in (quant.qint16, quant.qfloat8_e5m2)]
OUTS = [None, None, QParams(0.1, 3), QParams(1, 3, dtype=quint8)]
OUTS += [QParams(0.5, dtype=d) for d in (quant.qint4, quant.qint16)]
FLOATS = [leaf for leaf in md.leaves()[:15] if leaf.dtype.is_floating]


def codes(draw: Any, shape: tuple[int, ...]) -> Any:
    """Ones on a grid: of the tensor, along an axis, or in blocks of it."""
    grid = draw(st.sampled_from(TENSOR))
    if shape and draw(st.integers(0, 2)) == 0:
        axis, size = draw(st.integers(0, len(shape) - 1)), draw(st.sampled_from([0, 2]))
        ones = np.ones((1,) * len(shape) if size else 1)
        grid = grid.replace(
            scale=ones, zero_point=0, axis=axis, block_size=size or None
        )
        counts = grid.scales_of(shape)
        scales = np.resize([0.5, 0.25, 1.0], prod(counts)).reshape(counts)
        grid = grid.replace(scale=scales, zero_point=0)
    ones = np.ones(shape, np.uint8 if grid.dtype in FLOAT8 else grid.dtype.storage)
    return quant.tensor.quantized(ones, grid)


def on_grids(operation: Any, draw: Any) -> Any:
    """A random call of a core operation, with codes in place of some numbers."""
    arguments, options = DRAWS[operation](draw)
    if "out" in operation.operation.options:
        options = {**options, "out": draw(st.sampled_from(OUTS))}
    quantized = tuple(
        codes(draw, x.shape) if isinstance(x, md.Tensor) and draw(st.booleans()) else x
        for x in arguments
    )
    return quantized, options


def between_grids(operation: Any, draw: Any) -> Any:
    """A random call of an operation that quant adds."""
    shape = draw(st.lists(st.integers(0, 3), max_size=3).map(tuple))
    leaf = draw(st.sampled_from([*FLOATS, md.Int8Tensor]))
    numbers = leaf.wrap(np.ones(shape, leaf.dtype.storage))
    x = numbers if draw(st.booleans()) else codes(draw, shape)
    (name, *_) = [*operation.operation.options, None]
    grid = draw(st.sampled_from([*TENSOR, QParams([0.5, 2], axis=0)]))
    return (x,), ({name: grid} if name else {})


def outcome(call: Any) -> Any:
    try:
        return call()
    except md.MdtensorError as error:
        return type(error)


def specs(argument: Any) -> Any:
    return spec_of(argument) if isinstance(argument, md.Tensor) else argument


def flat(result: Any) -> Any:
    return result if isinstance(result, tuple) else (result,)


def agree(operation: Any, draw: Any) -> None:
    """Execution and inference give one type, shape and grid, or both refuse."""
    drawn = on_grids if operation in DRAWS else between_grids
    arguments, options = drawn(operation, draw)
    known = tuple(map(specs, arguments))
    if operation.operation.sequence:
        arguments, known = (arguments,), (known,)
    result = outcome(lambda: operation(*arguments, **options))
    found = outcome(lambda: md.infer(operation, *known, **options))
    if isinstance(found, type) or isinstance(result, type):
        is_inside = result in INSIDE.get(operation, ())
        assert isinstance(result, type), (found, result)
        assert isinstance(found, type) or is_inside, (found, result)
        return
    for deduced, tensor in zip(flat(found), flat(result), strict=True):
        got = spec_of(tensor)
        assert (deduced.type, deduced.qparams) == (got.type, got.qparams)
        assert len(deduced.shape) == len(got.shape)
        pairs = zip(deduced.shape, got.shape, strict=True)
        assert all(m in (n, md.DYNAMIC) for m, n in pairs), (deduced, got)


ADDED = [quant.quantize, quant.dequantize, quant.requantize]
each_operation = pytest.mark.parametrize(
    "operation", [*DRAWS, *ADDED], ids=lambda f: f.__name__
)


@each_operation
@settings(max_examples=7)
@given(data=st.data())
def test_inference_is_execution(operation: Any, data: st.DataObject) -> None:
    agree(operation, data.draw)


@pytest.mark.slow
@each_operation
@settings(max_examples=1000, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_inference_is_execution_in_1000_draws(
    operation: Any, data: st.DataObject
) -> None:
    agree(operation, data.draw)
