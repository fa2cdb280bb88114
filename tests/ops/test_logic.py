"""Truth values and bits against Python's."""

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.elements import INTEGERS, edges, wrapped

import mdtensor as md
from mdtensor.errors import DispatchError, PromotionError

BITS = {
    md.bitwise_and: operator.and_,
    md.bitwise_or: operator.or_,
    md.bitwise_xor: operator.xor,
}
SHIFTS = {
    md.bitwise_left_shift: operator.lshift,
    md.bitwise_right_shift: operator.rshift,
}
TRUTHS = {
    md.logical_and: operator.and_,
    md.logical_or: operator.or_,
    md.logical_xor: operator.xor,
}
named = {"ids": lambda f: getattr(f, "__name__", str(f))}


def whole(dtype: md.DType) -> st.SearchStrategy[int]:
    near = st.sampled_from(edges(dtype).tolist())
    return near | st.integers(int(dtype.minimum), int(dtype.maximum))


@pytest.mark.parametrize("operation", BITS, **named)
@given(data=st.data())
def test_bits_as_python_has_them(operation: Any, data: st.DataObject) -> None:
    a, b = (data.draw(st.sampled_from(INTEGERS)) for _ in range(2))
    x, y = data.draw(whole(a)), data.draw(whole(b))
    tensors = md.asarray([x], dtype=a), md.asarray([y], dtype=b)
    try:
        common = md.promote_types(a, b)
    except PromotionError:
        with pytest.raises(PromotionError):
            operation(*tensors)
        return
    found = operation(*tensors)
    assert found.dtype is common
    assert found.tolist() == [wrapped(BITS[operation](x, y), common)]


@pytest.mark.parametrize("operation", SHIFTS, **named)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts_by_any_count(operation: Any, dtype: md.DType) -> None:
    x, counts = edges(dtype), edges(dtype)[edges(dtype) >= 0]
    found = operation(md.asarray(x[:, None]), md.asarray(counts[None, :]))
    assert found.dtype is dtype
    for n, row in zip(x.tolist(), found.tolist(), strict=True):
        for count, bits in zip(counts.tolist(), row, strict=True):
            exact = SHIFTS[operation](n, min(count, 200))
            assert bits == wrapped(exact, dtype)


def test_a_shift_promotes_first() -> None:
    x, count = md.asarray([1], dtype=md.int8), md.asarray([8], dtype=md.uint8)
    assert (x << count).dtype is md.int16
    assert (x << count).tolist() == [256]
    assert (x << 8).tolist() == [0]
    assert (1 << md.asarray([0, 3])).tolist() == [1, 8]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_inverted(dtype: md.DType) -> None:
    found = md.bitwise_invert(md.from_numpy(edges(dtype)))
    assert found.dtype is dtype
    assert found.tolist() == [wrapped(~n, dtype) for n in edges(dtype).tolist()]


PAIRS = [(a, b) for a in (False, True) for b in (False, True)]


@pytest.mark.parametrize("operation", [*TRUTHS, *BITS], **named)
def test_truth_tables(operation: Any) -> None:
    x, y = (md.asarray([pair[i] for pair in PAIRS]) for i in (0, 1))
    python = (TRUTHS | BITS)[operation]
    want = [python(a, b) for a, b in PAIRS]
    assert type(operation(x, y)) is md.BoolTensor
    assert operation(x, y).tolist() == want
    assert operation(x, True).tolist() == [python(a, True) for a, _ in PAIRS]
    assert operation(False, y).tolist() == [python(False, b) for _, b in PAIRS]


def test_the_other_truth() -> None:
    x = md.asarray([True, False])
    assert md.logical_not(x).tolist() == md.bitwise_invert(x).tolist() == [False, True]
    assert md.bitwise_and(x, md.asarray([3, 3])).tolist() == [1, 0]
    assert type(md.bitwise_or(x, 2)) is md.Int64Tensor


REFUSED = {
    "bitwise_left_shift(Int8Tensor[2], Int8Tensor[2]): 1 of 2 shift counts are "
    "negative. Give counts of 0 or more.": (
        lambda x: x << md.asarray([1, -1], dtype=md.int8)
    ),
    "bitwise_right_shift(Int8Tensor[2], int): 1 of 1 shift counts are negative. "
    "Give counts of 0 or more.": lambda x: x >> -1,
    "bitwise_left_shift(Int8Tensor[2], int): int8 represents -128 to 127; cannot "
    "represent 128. Use astype(x, int16) first.": lambda x: x << 128,
    "bitwise_and(Int8Tensor[2], Int8Tensor[3]): shapes (2,) and (3,) do not "
    "broadcast. Make the sizes equal.": lambda x: x & md.ones((3,), dtype=md.int8),
    "bitwise_xor(UInt64Tensor[1], Int8Tensor[2]): uint64 and int8 do not have a common "
    "type. Use astype(x, int8) or astype(x, uint64) to choose one.": (
        lambda x: md.ones((1,), dtype=md.uint64) ^ x
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(md.MdtensorError) as caught:
        REFUSED[text](md.asarray([1, 2], dtype=md.int8))
    assert str(caught.value) == text


@pytest.mark.parametrize("operation", [*TRUTHS, *SHIFTS, *BITS], **named)
def test_each_has_its_types(operation: Any) -> None:
    wrong = md.asarray([1]) if operation in TRUTHS else md.asarray([True])
    wrong = md.asarray([1.0]) if operation in BITS else wrong
    with pytest.raises(DispatchError, match="Use astype"):
        operation(wrong, wrong)
    with pytest.raises(md.OptionError, match="no element type <U4"):
        operation(wrong, np.str_("text"))


@pytest.mark.parametrize("name", ["bitwise_xor", "bitwise_left_shift"])
def test_rules_under_which_integers_become_floats(name: str) -> None:
    operation: Any = getattr(md, name)
    signed, unsigned = md.ones(2, dtype=md.int8), md.ones(2, dtype=md.uint64)
    with md.promotion_rules("numpy"), pytest.raises(PromotionError) as caught:
        operation(signed, unsigned)
    assert str(caught.value) == (
        f"{name}(Int8Tensor[2], UInt64Tensor[2]): the common type float64 is not "
        f"bool or an integer. "
        "Use astype(x, int64) on one operand."
    )
