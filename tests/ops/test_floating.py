"""Classes, signs and neighbours of floats against their bits."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.elements import COMPLEX, FLOATS, INTEGERS, edges, same

import mdtensor as md
from mdtensor.errors import DispatchError, PromotionError

CLASSES = {md.isfinite: math.isfinite, md.isinf: math.isinf, md.isnan: math.isnan}
named = {"ids": lambda f: getattr(f, "__name__", str(f))}


@pytest.mark.parametrize("operation", CLASSES, **named)
def test_classes_of_numbers(operation: Any) -> None:
    for dtype in FLOATS:
        x = md.from_numpy(edges(dtype))
        found = operation(x)
        assert type(found) is md.BoolTensor
        assert found.tolist() == [CLASSES[operation](v) for v in x.tolist()]
    join = all if operation is md.isfinite else any
    for dtype in COMPLEX:
        z = md.from_numpy(edges(dtype))
        parts = [(v.real, v.imag) for v in z.tolist()]
        want = [join(map(CLASSES[operation], pair)) for pair in parts]
        assert operation(z).tolist() == want
    for dtype in INTEGERS:
        x = md.from_numpy(edges(dtype))
        assert set(operation(x).tolist()) == {operation is md.isfinite}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_signs_are_bits(dtype: md.DType) -> None:
    x = edges(dtype)
    x = np.concatenate([x, -x])
    whole = x.view({2: np.int16, 4: np.int32, 8: np.int64}[x.itemsize])
    assert md.signbit(md.from_numpy(x)).tolist() == (whole < 0).tolist()
    found = md.copysign(md.from_numpy(x), md.from_numpy(x[::-1].copy()))
    assert found.dtype is dtype
    assert md.signbit(found).tolist() == (whole < 0).tolist()[::-1]
    assert same(md.abs(found).buffer, md.abs(md.from_numpy(x)).buffer)


def neighbour(x: Any, up: Any) -> Any:
    """The next number up or down by counting bits, which are ordered like numbers."""
    kind = {2: np.int16, 4: np.int32, 8: np.int64}[x.itemsize]
    bits = int(x.view(kind))
    low = -(2 ** (8 * x.itemsize - 1))
    order = bits if bits >= 0 else low - bits  # -0.0 and 0.0 are both at 0
    order += 1 if up else -1
    return kind(order if order >= 0 else low - order).view(x.dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@given(data=st.data())
def test_the_next_number_is_one_bit_away(dtype: md.DType, data: st.DataObject) -> None:
    kind = np.dtype(f"uint{dtype.bits}")
    bits = st.integers(0, 2**dtype.bits - 1).map(lambda n: kind.type(n))
    held = st.sampled_from(list(edges(dtype)))
    x, y = (
        data.draw(held | bits.map(lambda n: n.view(dtype.storage))) for _ in range(2)
    )
    found = md.nextafter(md.from_numpy(x), md.from_numpy(y)).buffer
    assert found.dtype == dtype.storage
    if x != x or y != y:
        assert found != found
    elif x == y:
        assert found.view(kind) == y.view(kind)
    else:
        want = neighbour(x, up=y > x)
        assert found == want
        assert found.view(kind) == want.view(kind) or want == 0


@pytest.mark.parametrize("operation", [md.copysign, md.nextafter], **named)
def test_operands_are_promoted(operation: Any) -> None:
    x = md.asarray([1, -2], dtype=md.int8)
    assert type(operation(x, md.asarray([2.0, -1.0]))) is md.Float32Tensor
    assert (
        type(operation(-1.0, md.asarray(2.0, dtype=md.bfloat16))).dtype is md.bfloat16
    )
    with pytest.raises(PromotionError) as caught:
        operation(x, 3)
    assert str(caught.value) == (
        f"{operation.__name__}(Int8Tensor[2], int): int8 cannot represent fractions. "
        "Use astype(x, float32) on one operand."
    )
    with pytest.raises(DispatchError):
        operation(md.asarray([1j]), 1.0)
    with pytest.raises(DispatchError, match=r"Use astype\(x, float32\)"):
        md.signbit(x)
