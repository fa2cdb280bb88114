"""`isclose` and `allclose` against NumPy, and what they refuse."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DispatchError, OptionError, ShapeError

NUMBERS = st.sampled_from(
    [0.0, -0.0, 1.0, 1.000009, 1.00002, 1e-9, 2.0, np.inf, -np.inf, np.nan]
)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=9)


@given(PAIRS, st.sampled_from([np.float32, np.float64]), st.booleans())
def test_isclose_against_numpy(pairs: Any, kind: Any, equal_nan: bool) -> None:
    a, b = np.array(pairs, kind).T
    found = md.isclose(md.asarray(a), md.asarray(b), equal_nan=equal_nan)
    wanted = np.isclose(a, b, equal_nan=equal_nan)
    assert type(found) is md.BoolTensor
    assert found.tolist() == wanted.tolist()
    assert md.allclose(a, b, equal_nan=equal_nan) is bool(wanted.all())


@given(NUMBERS, st.lists(NUMBERS, min_size=1, max_size=5), st.booleans())
def test_a_python_number_is_either_side(c: float, xs: Any, equal_nan: bool) -> None:
    a = np.array(xs)
    x = md.asarray(a)
    for found, wanted in (
        (md.isclose(x, c, equal_nan=equal_nan), np.isclose(a, c, equal_nan=equal_nan)),
        (md.isclose(c, x, equal_nan=equal_nan), np.isclose(c, a, equal_nan=equal_nan)),
    ):
        assert found.tolist() == wanted.tolist()


def test_integers_broadcasting_and_tolerances() -> None:
    x = md.asarray([[100], [200]])
    found = md.isclose(x, md.asarray([101, 200]), rtol=0.01, atol=0)
    assert found.tolist() == [[True, False], [False, True]]
    assert md.isclose(md.asarray([True]), md.asarray([1])).tolist() == [True]
    assert md.allclose(md.asarray([1.0]), 1.5, atol=0.5, rtol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rtol": -1.0}, "rtol is -1.0"),
        ({"atol": float("nan")}, "atol is nan"),
        ({"equal_nan": 1}, "equal_nan is 1"),
    ],
)
def test_wrong_options_raise(options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        md.isclose(md.asarray([1.0]), md.asarray([1.0]), **options)


def test_codes_are_compared_as_numbers() -> None:
    q = quant.QInt8Tensor([1, 2], scale=0.5)
    for call in (md.isclose, md.allclose):
        for arguments in ((q, q), (q, 0.5), (md.ones(2), q)):
            with pytest.raises(DispatchError, match=r"dequantize\(x\) or x.codes"):
                call(*arguments)
    assert md.allclose(quant.dequantize(q), md.asarray([0.5, 1.0]))


def test_shapes_that_do_not_broadcast_raise() -> None:
    with pytest.raises(ShapeError):
        md.allclose(md.asarray([1.0, 2.0]), md.asarray([1.0, 2.0, 3.0]))


@given(PAIRS, st.booleans())
def test_array_equal_against_numpy(pairs: Any, equal_nan: bool) -> None:
    a, b = np.array(pairs, np.float32).T
    for other in (a, b, a[:1], b[None]):
        found = md.array_equal(md.asarray(a), md.asarray(other), equal_nan=equal_nan)
        assert found is np.array_equal(a, other, equal_nan=equal_nan)


def test_array_equal_of_other_types() -> None:
    whole, real = md.asarray([1, 2]), md.asarray([1.0, 2.0])
    assert md.array_equal(whole, real, equal_nan=True)
    assert not md.array_equal(whole, whole[:1])
    assert md.array_equal(md.zeros((0, 2)), md.zeros((0, 2)))
    q = quant.QInt8Tensor([1, 2], scale=0.5)
    assert md.array_equal(q, q)
    with pytest.raises(OptionError, match="equal_nan"):
        md.array_equal(real, real, equal_nan=1)  # type: ignore[arg-type]
    with pytest.raises(DispatchError, match="is not a tensor"):
        md.array_equal(real, [1.0, 2.0])
