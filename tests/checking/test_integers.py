"""Counts of wrapped integers equal those of Python's integers."""

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import MdtensorError
from mdtensor.kernels.numpy import overflow

INTEGERS = [leaf for leaf in md.leaves()[:15] if leaf.dtype.is_integer]
BINARY: list[tuple[Any, Callable[[int, int], int]]] = [
    (md.add, operator.add),
    (md.sub, operator.sub),
    (md.mul, operator.mul),
]
UNARY: list[tuple[Any, Callable[[int], int]]] = [
    (md.neg, operator.neg),
    (md.abs, abs),
    (md.square, lambda value: value * value),
]


def codes(leaf: Any) -> st.SearchStrategy[int]:
    low, high = int(leaf.dtype.minimum), int(leaf.dtype.maximum)
    ends = st.sampled_from([low, low + 1, high - 1, high, 0, 1])
    return st.integers(low, high) | ends


def off(found: Any, exact: list[int]) -> int:
    """How many elements are not the exact ones."""
    elements = np.ravel(found.buffer).tolist()
    return sum(a != b for a, b in zip(elements, exact, strict=True))


@pytest.mark.parametrize(("operation", "python"), BINARY)
@given(st.sampled_from(INTEGERS), st.sampled_from(INTEGERS), st.data())
def test_two_operands(
    operation: Any, python: Any, first: Any, second: Any, data: st.DataObject
) -> None:
    pairs = data.draw(st.lists(st.tuples(codes(first), codes(second)), max_size=8))
    a, b = first([p for p, _ in pairs]), second([q for _, q in pairs])
    with md.checked() as log:
        try:
            found = operation(a, b)
        except MdtensorError:  # uint64 with a signed type
            return
    if found.dtype.is_integer:
        assert log.lost["wrapped"] == off(found, [python(p, q) for p, q in pairs])


@pytest.mark.parametrize(("operation", "python"), BINARY)
@pytest.mark.parametrize("leaf", [md.Int8Tensor, md.UInt8Tensor])
def test_all_pairs_of_8_bits_and_compiled(
    operation: Any, python: Any, leaf: Any
) -> None:
    low = int(leaf.dtype.minimum)
    values = range(low, low + 256)
    pairs = list(itertools.product(values, values))
    a, b = leaf([p for p, _ in pairs]), leaf([q for _, q in pairs])
    assert len(pairs) >= overflow.LARGE
    with md.checked() as log:
        found = operation(a, b)
    assert log.lost["wrapped"] == off(found, [python(p, q) for p, q in pairs])


@pytest.mark.parametrize(("operation", "python"), BINARY)
@pytest.mark.parametrize("leaf", INTEGERS)
def test_large_arrays_of_every_type(operation: Any, python: Any, leaf: Any) -> None:
    rng = np.random.default_rng(3)
    low, high = int(leaf.dtype.minimum), int(leaf.dtype.maximum)
    shape = (3, overflow.LARGE)
    values = rng.integers(low, high, shape, leaf.dtype.storage, endpoint=True)
    x, row = md.from_numpy(values), md.from_numpy(values[:1] >> 5)
    with md.checked() as log:
        found = operation(x, row)
    exact = python(values.astype(object), (values[:1] >> 5).astype(object))
    assert log.lost["wrapped"] == np.count_nonzero(exact != found.buffer.astype(object))
    assert log.lost["wrapped"]


@pytest.mark.parametrize(("operation", "python"), UNARY)
@given(st.sampled_from(INTEGERS), st.data())
def test_one_operand(operation: Any, python: Any, leaf: Any, data: Any) -> None:
    values = data.draw(st.lists(codes(leaf), max_size=8))
    with md.checked() as log:
        found = operation(leaf(values))
    assert log.lost["wrapped"] == off(found, [python(v) for v in values])


@given(st.sampled_from(INTEGERS), st.data())
def test_powers_and_quotients(leaf: Any, data: st.DataObject) -> None:
    values = data.draw(st.lists(codes(leaf), min_size=1, max_size=8))
    powers = data.draw(st.lists(st.integers(0, 70), min_size=1, max_size=8))
    pairs = list(zip(values, powers, strict=False))
    a = leaf([p for p, _ in pairs])
    with md.checked() as log:
        found = md.pow(a, leaf([q for _, q in pairs]))
    assert log.lost["wrapped"] == off(found, [p**q for p, q in pairs])
    if leaf.dtype.kind == "signed integer":
        with md.checked() as log:
            found = md.floor_divide(a, leaf([-1] * len(pairs)))
        assert log.lost["wrapped"] == off(found, [p // -1 for p, _ in pairs])


@given(st.sampled_from(INTEGERS), st.data())
def test_sums_and_products_along_axes(leaf: Any, data: st.DataObject) -> None:
    values = data.draw(st.lists(codes(leaf), min_size=1, max_size=6))
    held = data.draw(st.sampled_from([None, leaf.dtype]))
    cases: list[tuple[Any, Any]] = [
        (md.sum, [sum(values)]),
        (md.prod, [math.prod(values)]),
        (md.cumulative_sum, list(itertools.accumulate(values))),
        (md.cumulative_prod, list(itertools.accumulate(values, operator.mul))),
    ]
    for operation, exact in cases:
        with md.checked() as log:
            found = operation(leaf(values), dtype=held)
        assert log.lost["wrapped"] == off(found, exact), operation.__name__
    with md.checked() as log:
        found = md.diff(leaf(values))
    exact = [b - a for a, b in itertools.pairwise(values)]
    assert log.lost["wrapped"] == off(found, exact)


@given(st.sampled_from(INTEGERS), st.data())
def test_sums_of_products(leaf: Any, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, 4))
    a = data.draw(st.lists(codes(leaf), min_size=2 * k, max_size=2 * k))
    b = data.draw(st.lists(codes(leaf), min_size=k, max_size=k))
    rows = [a[:k], a[k:]]
    exact = [sum(map(operator.mul, row, b)) for row in rows]
    for compute in (
        lambda: md.matmul(leaf(rows), leaf(b)),
        lambda: md.vecdot(leaf(rows), leaf(b)),
        lambda: md.tensordot(leaf(rows), leaf(b), axes=1),
    ):
        with md.checked() as log:
            found = compute()
        assert log.lost["wrapped"] == off(found, exact)
    with md.checked() as log:
        found = md.linalg.outer(leaf(a), leaf(b))
    assert log.lost["wrapped"] == off(found, [p * q for p in a for q in b])


def test_headroom_is_what_the_largest_sum_leaves() -> None:
    with md.checked() as log:
        md.sum(md.asarray([2**20, 2**20]))
        md.matmul(md.Int8Tensor([[7]]), md.Int8Tensor([[9]]))
    first, second = log
    assert (first.headroom.bits, first.headroom.width) == (63 - 22, 63)  # type: ignore[union-attr]
    assert second.headroom is not None
    assert second.headroom.width - second.headroom.bits == 6
    assert log.headroom == min(41, second.headroom.bits)


def test_a_number_of_python_counts_as_the_type_of_the_result() -> None:
    with md.checked() as log:
        md.Int8Tensor([100, 1]) + 100
        3 * md.UInt8Tensor([100, 1])
    assert log.lost == {"wrapped": 2}


def test_strided_broadcast_and_empty() -> None:
    x = md.from_numpy(np.full((4, 6), 100, np.int8)[::2, ::-3])
    one = md.broadcast_to(md.Int8Tensor([100]), (2, 2))
    with md.checked() as log:
        x + one
        md.Int8Tensor([]) + md.Int8Tensor([])
        md.asarray(100, dtype=md.int8) * 2
    assert log.lost == {"wrapped": 5}


HUNDREDS = md.full((2, 2), 100, dtype=md.int8)
IMAGE = md.full((1, 1, 2, 2), 100, dtype=md.int8)


@pytest.mark.parametrize(
    ("compute", "wrapped"),
    [
        (lambda: md.matmul(md.asarray([2**62, 2]), md.asarray([2, 2])), 1),
        (lambda: md.sum(md.Int8Tensor([-5, 2]), dtype=md.uint8), 1),
        (lambda: md.cumulative_sum(md.Int8Tensor([-5, 2]), dtype=md.uint8), 2),
        (lambda: md.linear(HUNDREDS, HUNDREDS), 4),
        (lambda: md.linear(HUNDREDS, HUNDREDS, md.Int8Tensor([1, 1])), 4),
        (lambda: md.conv2d(IMAGE, IMAGE), 1),
        (lambda: md.conv2d(IMAGE, IMAGE, md.Int8Tensor([1])), 1),
        (
            lambda: md.linalg.cross(
                md.Int8Tensor([100, 100, 1]), md.Int8Tensor([2, 100, 100])
            ),
            3,
        ),
        (lambda: md.linalg.matrix_power(HUNDREDS, 2), 4),
        (lambda: md.linalg.matrix_power(md.asarray([[2**40, 1], [1, 1]]), 2), 1),
    ],
)
def test_sums_that_are_hidden_in_other_operations(compute: Any, wrapped: int) -> None:
    with md.checked() as log:
        compute()
    assert log.lost == {"wrapped": wrapped}


def cross_product(a: list[int], b: list[int]) -> list[int]:
    return [a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)]


@pytest.mark.parametrize("leaf", INTEGERS)
@given(st.data())
def test_differences_of_products(leaf: Any, data: st.DataObject) -> None:
    a, b = (data.draw(st.lists(codes(leaf), min_size=3, max_size=3)) for _ in range(2))
    with md.checked() as log:
        found = md.linalg.cross(leaf(a), leaf(b))
    assert log.lost["wrapped"] == off(found, cross_product(a, b))


def test_an_unsigned_difference_of_products_raises() -> None:
    a, b = md.UInt8Tensor([0, 0, 1]), md.UInt8Tensor([0, 1, 0])
    with pytest.raises(md.LossError) as caught, md.checked(raises=True):
        md.linalg.cross(a, b)
    assert "1 of 3 elements wrapped" in str(caught.value)


@pytest.mark.parametrize("leaf", INTEGERS)
@given(st.data())
def test_convolutions(leaf: Any, data: st.DataObject) -> None:
    def draw(size: int) -> list[int]:
        return data.draw(st.lists(codes(leaf), min_size=size, max_size=size))

    x, w, (bias,) = draw(3), draw(2), draw(1)
    one = [x[i] * w[0] + x[i + 1] * w[1] + bias for i in range(2)]
    padded = [0, *x, 0]
    back = [padded[i] * w[1] + padded[i + 1] * w[0] + bias for i in range(4)]
    row, taps, b = leaf([[x]]), leaf([[w]]), leaf([bias])
    image, kernel = leaf([[[x]]]), leaf([[[w]]])
    for compute, exact in (
        (lambda: md.conv1d(row, taps, b), one),
        (lambda: md.conv2d(image, kernel, b), one),
        (lambda: md.conv_transpose2d(image, kernel, b), back),
        (lambda: md.linear(leaf([x[:2]]), leaf([w]), b), one[:1]),
    ):
        with md.checked() as log:
            found = compute()
        assert log.lost["wrapped"] == off(found, exact)


@given(st.integers(0, 60), st.data())
def test_differences_of_any_order(n: int, data: st.DataObject) -> None:
    leaf = data.draw(st.sampled_from([md.Int8Tensor, md.UInt8Tensor, md.Int64Tensor]))
    values = data.draw(st.lists(codes(leaf), min_size=n + 1, max_size=n + 1))
    with md.checked() as log:
        found = md.diff(leaf(values), n=n)
    signs = [(-1) ** (n - i) * math.comb(n, i) for i in range(n + 1)]
    assert log.lost["wrapped"] == off(found, [sum(map(operator.mul, signs, values))])


def test_terms_that_cancel_are_summed_exactly() -> None:
    big = 2**62 + 12345
    a, b = [big, big, 7, 1], [big, -big, 1, 2**40]
    assert sum(map(operator.mul, a, b)) == 2**40 + 7
    image, kernel = (md.Int64Tensor([[[x]]]) for x in (a, b))
    with md.checked() as log:
        md.conv2d(image, kernel)
        md.matmul(md.Int64Tensor(a), md.Int64Tensor(b))
        md.vecdot(md.Int64Tensor(a), md.Int64Tensor(b))
    assert not log
    assert log.headroom == 63 - 41


def test_headroom_of_the_ends_of_a_range() -> None:
    with md.checked() as log:
        md.matmul(md.Int8Tensor([64]), md.Int8Tensor([-2]))
        md.matmul(md.UInt8Tensor([15]), md.UInt8Tensor([17]))
        md.matmul(md.UInt8Tensor([16]), md.UInt8Tensor([16]))
    assert [entry.headroom.bits for entry in log if entry.headroom] == [0, 0, 0]
    assert log.lost == {"wrapped": 1}


def test_operands_that_a_rule_wraps() -> None:
    u, i = md.UInt32Tensor([3_000_000_000, 1]), md.Int32Tensor([1, 1])
    yes = md.asarray([True, True])
    with md.promotion_rules("pypto"):  # int32 for both, because a sign wins
        for compute in (
            lambda: md.minimum(u, i),
            lambda: md.maximum(u, i),
            lambda: md.remainder(u, i),
            lambda: md.floor_divide(u, i),
            lambda: md.clip(i, min=u),
            lambda: md.where(yes, u, i),
            lambda: md.concat([u, i]),
            lambda: md.stack([u, i]),
        ):
            with md.checked() as log:
                found = compute()
            assert (found.dtype, log.lost) == (md.int32, {"wrapped": 1})
