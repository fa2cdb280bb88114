"""Counts of values that a cast changed, against a cast back to exact numbers."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md

REAL = [
    leaf for leaf in md.leaves()[:13] if leaf.dtype.is_integer or leaf.dtype.is_floating
]


def exact(x: Any) -> list[Any]:
    """Numbers that compare exactly; None for NaN, and floats for infinities."""
    if x.dtype.is_integer:
        return x.buffer.tolist()
    values = map(float, x.buffer.tolist())
    return [None if v != v else v if abs(v) == np.inf else Fraction(v) for v in values]


@given(
    st.sampled_from(REAL),
    st.sampled_from(REAL),
    st.sampled_from(["wrap", "saturate"]),
    st.data(),
)
def test_counts_what_changed(source: Any, target: Any, casting: str, data: Any) -> None:
    if source.dtype.is_integer:
        one = st.integers(int(source.dtype.minimum), int(source.dtype.maximum))
    else:
        one = st.floats(width=64) | st.sampled_from([0.5, 1e30, -1e300, 300.0, 2.0**63])
    values = data.draw(st.lists(one, max_size=8))
    x = md.astype(
        md.asarray(values, dtype=md.float64), source.dtype, casting="saturate"
    )
    if source.dtype.is_integer:
        x = source(values)
    with md.checked() as log:
        y = md.astype(x, target.dtype, casting=casting)
    pairs = zip(exact(x), exact(y), strict=True)
    assert sum(log.lost.values()) == sum(a != b for a, b in pairs)


def test_kinds_of_what_a_cast_does() -> None:
    x = md.asarray([1.5, 2.0, 300.0, -1.0])
    for casting, want in {
        "saturate": {"rounded": 1, "saturated": 2},
        "wrap": {"rounded": 1, "wrapped": 2},
    }.items():
        with md.checked() as log:
            md.astype(x, md.uint8, casting=casting)
        assert log.lost == want


def test_a_promotion_that_rounds_an_operand() -> None:
    with md.checked() as log:
        md.asarray([2**24, 2**24 + 1]) * md.asarray([1.0, 1.0])
    assert log.lost == {"rounded": 1}


@pytest.mark.parametrize("size", [10, 100_000])
def test_small_and_compiled_agree(size: int) -> None:
    values = np.arange(size, dtype=np.int32) - 5
    with md.checked() as log:
        md.astype(md.from_numpy(values), md.int8, casting="wrap")
        md.astype(md.from_numpy(values % 100), md.int8)
        md.astype(md.from_numpy(values.astype(np.int64)), md.uint64, casting="wrap")
    assert log.lost["wrapped"] == np.count_nonzero(values.astype(np.int8) != values) + 5


def test_complex_parts() -> None:
    with md.checked() as log:
        md.astype(md.asarray([1 + 1e-12j, 1j], dtype=md.complex128), md.complex64)
    assert log.lost == {"rounded": 1}


@pytest.mark.parametrize("source", [md.float16, md.bfloat16, md.float32, md.float64])
@pytest.mark.parametrize("target", [md.int8, md.int32, md.int64, md.uint8])
def test_nan_is_no_integer(source: Any, target: Any) -> None:
    x = md.asarray([np.nan, 1.0, np.inf, 1.5], dtype=source)
    with md.checked() as log:
        md.astype(x, target, casting="wrap")
    assert log.lost == {"wrapped": 2, "rounded": 1}


ODD = md.asarray([2**53 + 1])
ONE = md.Float64Tensor([1.0])


@pytest.mark.parametrize(
    "compute",
    [
        lambda: md.concat([ODD, ONE]),
        lambda: md.stack([ODD, ONE]),
        lambda: md.where(md.asarray([True]), ODD, ONE),
        lambda: md.remainder(ODD, ONE),
        lambda: md.atan2(ODD, ONE),
        lambda: ODD @ ONE,
        lambda: md.sum(ODD, dtype=md.float64),
    ],
)
def test_operands_are_rounded_wherever_types_meet(compute: Any) -> None:
    with md.checked() as log:
        compute()
    assert log.lost == {"rounded": 1}
