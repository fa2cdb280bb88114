"""What all functions of elements have in common: shapes, strides, memory, scalars."""

import inspect
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from support.each import each
from support.elements import same

import mdtensor as md
from mdtensor.errors import DeviceError, DispatchError, NoMethodError, ShapeError

ONE = """
    abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1
    floor imag isfinite isinf isnan log log1p log2 log10 logical_not negative positive
    real reciprocal round sign signbit sin sinh square sqrt tan tanh trunc
"""
TWO = """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
    copysign divide equal floor_divide greater greater_equal hypot less less_equal
    logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter
    not_equal pow remainder subtract
"""
UNARY = [getattr(md, name) for name in ONE.split()]
BINARY = [getattr(md, name) for name in TWO.split()]
named = {"ids": lambda f: getattr(f, "__name__", str(f))}


def kind(operation: Any) -> Any:
    """A NumPy type that the operation takes."""
    name = operation.__name__
    if name.startswith("bitwise"):
        return np.int32
    if name.startswith("logical"):
        return np.bool_
    return np.complex64 if name == "imag" else np.float32


def numbers(operation: Any, shape: tuple[int, ...], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return rng.integers(1, 9, shape).astype(kind(operation))


@each("operation", [*UNARY, *BINARY, md.clip])
def test_signatures_are_those_of_the_standard(operation: Any) -> None:
    found = str(inspect.signature(operation).replace(return_annotation=inspect._empty))
    want = "(x, /)" if operation in UNARY else "(x1, x2, /)"
    want = "(x, /, min=None, max=None)" if operation is md.clip else want
    # Names, kinds and defaults; annotations are ours.
    bare = re.sub(r": '[^']*'", "", found).replace(" = ", "=")
    bare = bare.replace(", *, out=None", "").replace(", rounding=None", "")
    assert bare == want


@pytest.mark.parametrize("operation", BINARY, **named)
@given(
    shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3),
    step=st.sampled_from([1, 2, -1]),
)
def test_operands_broadcast(operation: Any, shapes: Any, step: int) -> None:
    """To the results of each pair of numbers, whatever strides they lie in."""
    first, second = shapes.input_shapes
    x, y = numbers(operation, first, 0), numbers(operation, second, 1)
    x, y = (v[..., ::step] if v.ndim else v for v in (x, y))
    try:
        a, b = np.broadcast_arrays(x, y)
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast"):
            operation(md.from_numpy(x), md.from_numpy(y))
        return
    found = operation(md.from_numpy(x), md.from_numpy(y))
    assert found.shape == a.shape
    wide = operation(md.from_numpy(a), md.from_numpy(b)).buffer
    pairs = zip(a.ravel(), b.ravel(), strict=True)
    each = [operation(md.from_numpy(p), md.from_numpy(q)).buffer for p, q in pairs]
    want = np.array(each, found.dtype.storage).reshape(a.shape)
    assert close(found.buffer, want)
    assert close(wide, want)


def close(found: Any, want: Any) -> bool:
    """Equal up to the last bit, which may differ between NumPy's loops."""
    if found.dtype.kind in "biu":
        return same(found, want)
    return bool(np.allclose(found, want, rtol=3e-7, atol=0, equal_nan=True))


@pytest.mark.parametrize("operation", UNARY, **named)
def test_any_layout(operation: Any) -> None:
    whole = numbers(operation, (4, 6), 0)
    whole.flags.writeable = False
    want = operation(md.from_numpy(whole)).buffer
    assert want.shape == (4, 6)
    part = operation(md.from_numpy(whole[::-2, 1::2])).buffer
    assert close(part, want[::-2, 1::2])
    column = operation(md.from_numpy(np.broadcast_to(whole[:, :1], (4, 6))))
    assert close(column.buffer, np.broadcast_to(want[:, :1], (4, 6)))
    assert operation(md.from_numpy(whole[:0])).shape == (0, 6)
    point = operation(md.from_numpy(whole[0, 0]))
    assert (type(point.buffer), point.shape) == (np.ndarray, ())


@each("operation", [*UNARY, *BINARY])
def test_arguments_are_only_read(operation: Any) -> None:
    x = numbers(operation, (3, 2), 1)
    before, count = x.copy(), 1 if operation in UNARY else 2
    found = operation(*[md.from_numpy(x)] * count)
    assert x.tobytes() == before.tobytes()
    assert not np.shares_memory(found.buffer, x)
    found.buffer[...] = 0


@pytest.mark.parametrize("operation", BINARY, **named)
def test_a_python_number_on_either_side(operation: Any) -> None:
    x = md.from_numpy(numbers(operation, (5,), 2))
    number = kind(operation)(2).item()
    filled = md.full((5,), number, dtype=x.dtype)
    assert close(operation(x, number).buffer, operation(x, filled).buffer)
    assert close(operation(number, x).buffer, operation(filled, x).buffer)


@each("operation", [*UNARY, *BINARY])
def test_strangers_and_other_devices_are_refused(operation: Any) -> None:
    count = 1 if operation in UNARY else 2
    with pytest.raises(DispatchError):
        operation(*["text"] * count)
    if kind(operation) is np.bool_:
        return
    host = md.from_numpy(numbers(operation, (), 0))
    there = host.with_device(md.cuda).wrap(host.buffer)
    # Alone on a device it lacks a method there; mixed operands are another fault.
    with pytest.raises(NoMethodError if count == 1 else DeviceError):
        operation(*[host, there][-count:])


@pytest.mark.parametrize("leaf", [md.Float16Tensor, md.BFloat16Tensor])
def test_extremes_of_16_bits_do_not_depend_on_the_size(leaf: Any) -> None:
    rng = np.random.default_rng(4)
    ends = [0, 0x8000, 0x7C00, 0x7F80, 0xFC00, 0xFF80, 0x7FFF, 0xFFFF, 0x7C01, 0x7F81]
    a, b = (rng.integers(0, 1 << 16, 20_000).astype(np.uint16) for _ in range(2))
    a[:100], b[:100] = np.repeat(ends, 10), np.tile(ends, 10)
    x, y = (leaf.wrap(bits.view(leaf.dtype.storage)) for bits in (a, b))
    for operation in (md.minimum, md.maximum):
        found = operation(x, y).buffer.view(np.uint16)
        parts = [
            operation(x[i : i + 100], y[i : i + 100]).buffer.view(np.uint16)
            for i in range(0, 20_000, 100)
        ]
        assert np.array_equal(found, np.concatenate(parts))
    zeros = leaf([0.0, -0.0]), leaf([-0.0, 0.0])
    assert not np.signbit(md.maximum(*zeros).buffer).any()
    assert np.signbit(md.minimum(*zeros).buffer).all()
