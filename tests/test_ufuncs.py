"""NumPy's ufuncs on tensors: our operations, others' functions, and out=."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DispatchError

UFUNCS = {
    np.add: md.add,
    np.subtract: md.sub,
    np.multiply: md.mul,
    np.divide: md.div,
    np.true_divide: md.div,
    np.maximum: md.maximum,
    np.minimum: md.minimum,
    np.equal: md.equal,
    np.less: md.less,
    np.greater_equal: md.greater_equal,
    np.matmul: md.matmul,
    np.power: md.pow,
    np.floor_divide: md.floor_divide,
    np.remainder: md.remainder,
    np.arctan2: md.atan2,
    np.hypot: md.hypot,
    np.copysign: md.copysign,
    np.nextafter: md.nextafter,
    np.logaddexp: md.logaddexp,
}
ONE = {
    np.absolute: md.abs,
    np.conjugate: md.conj,
    np.rint: md.round,
    np.arcsin: md.asin,
    np.arctan: md.atan,
    np.arcsinh: md.asinh,
    np.arctanh: md.atanh,
    np.signbit: md.signbit,
    np.isnan: md.isnan,
    **{getattr(np, n): getattr(md, n) for n in ("sign", "square", "expm1", "floor")},
}
WHOLE = {
    np.left_shift: md.bitwise_left_shift,
    np.right_shift: md.bitwise_right_shift,
    np.bitwise_and: md.bitwise_and,
}


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda f: f.__name__)
def test_ufuncs_run_our_operations(ufunc: np.ufunc) -> None:
    x, y = md.asarray([1.0, 5.0]), np.array([3.0, 2.0], np.float32)
    assert ufunc(x, y).tolist() == UFUNCS[ufunc](x, md.asarray(y)).tolist()
    assert ufunc(y, x).tolist() == UFUNCS[ufunc](md.asarray(y), x).tolist()


@pytest.mark.parametrize("ufunc", ONE, ids=lambda f: f.__name__)
def test_unary_ufuncs(ufunc: np.ufunc) -> None:
    x = md.asarray([0.5, -0.25])
    found = ufunc(x)
    assert type(found) is type(ONE[ufunc](x))
    assert found.tolist() == ONE[ufunc](x).tolist()
    # Some of our functions are rounded once, and NumPy's are not.
    np.testing.assert_allclose(np.asarray(found), ufunc(np.asarray(x)), rtol=2.0**-22)


@pytest.mark.parametrize("ufunc", WHOLE, ids=lambda f: f.__name__)
def test_ufuncs_of_integers(ufunc: np.ufunc) -> None:
    x = md.asarray([5, 6])
    assert ufunc(x, 2).tolist() == WHOLE[ufunc](x, 2).tolist()
    assert np.invert(x).tolist() == md.bitwise_invert(x).tolist() == [-6, -7]
    assert np.arccos(md.asarray(1.0)).tolist() == np.arccosh(md.asarray(1.0)).tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.add.reduce(x),
        lambda x: np.add.accumulate(x),
        lambda x: np.multiply.outer(x, x),
        lambda x: np.add(x, 1, where=np.array([True])),
        lambda x: np.add(x, 1, casting="unsafe"),
        lambda x: np.cbrt(x, dtype=np.float64),
    ],
)
def test_options_and_methods_of_ufuncs_are_refused(call: Callable[[Any], Any]) -> None:
    with pytest.raises(DispatchError, match="has no counterpart here"):
        call(md.asarray([1.0]))


def test_refused_reductions_name_ours() -> None:
    x = md.ones((2,))
    for ufunc, name in ((np.add, "sum"), (np.maximum, "max"), (np.logical_or, "any")):
        with pytest.raises(DispatchError, match=rf"Use mdtensor.{name}\(x\), or"):
            ufunc.reduce(x)


@pytest.mark.parametrize("dtype", [md.float32, md.float64])
@pytest.mark.parametrize("ufunc", [np.cbrt, np.fmod, np.float_power, np.fmax, np.modf])
def test_other_ufuncs_compute_tensors(ufunc: np.ufunc, dtype: md.DType) -> None:
    x = md.asarray([1.0, 8.0, -0.75], dtype=dtype)
    given = (x, 2.0)[: ufunc.nin]
    found, wanted = ufunc(*given), ufunc(*(np.asarray(x), 2.0)[: ufunc.nin])
    if ufunc.nout == 1:
        found, wanted = (found,), (wanted,)
    for ours, theirs in zip(found, wanted, strict=True):
        assert isinstance(ours, md.Tensor)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_ufuncs_of_others_with_names_of_ours() -> None:
    # A function that is called add need not add.
    twice = np.frompyfunc(lambda x: 2 * x, 1, 1)
    with pytest.raises(md.OptionError, match="no element type object"):
        twice(md.asarray([1.0]))


def test_errors_of_other_ufuncs_are_ours() -> None:
    for call, kind in (
        (lambda: np.cbrt(md.asarray([1j])), DispatchError),
        (lambda: np.gcd(md.ones((2,), dtype=md.int8), 300), md.CastError),
        (lambda: np.fmod(md.ones((2,)), md.ones((3,))), md.ShapeError),
        (lambda: np.cbrt(quant.QInt8Tensor([1], scale=0.5)), md.GridError),
    ):
        with pytest.raises(kind, match=r"^(cbrt|gcd|fmod|QInt8Tensor)"):
            call()


def test_divmod_is_quotient_and_remainder() -> None:
    for x, y in (
        (md.asarray([7, -7, 7, -7]), md.asarray([2, 2, -2, -2])),
        (md.asarray([7, -7]), 2),
        (7, md.asarray([2, -2])),
        (np.array([7, -7]), md.asarray([2, -2])),
        (md.asarray([7.5, -7.5]), np.float32(2)),
    ):
        for found in (divmod(x, y), np.divmod(x, y)):
            wanted = np.divmod(np.asarray(x), np.asarray(y))
            for ours, theirs in zip(found, wanted, strict=True):
                assert isinstance(ours, md.Tensor)
                assert ours.tolist() == theirs.tolist()
    with pytest.raises(md.DataError, match="1 of 2 divisors are 0"):
        divmod(md.asarray([1, 2]), md.asarray([0, 1]))


ACCUMULATE = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
    operator.ifloordiv: operator.floordiv,
    operator.imod: operator.mod,
    operator.ipow: operator.pow,
}


@pytest.mark.parametrize("symbol", ACCUMULATE, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "kinds", [("f4", "f4"), ("f8", "f8"), ("f8", "f4"), ("f4", "f8")]
)
def test_arrays_accumulate_tensors(symbol: Any, kinds: tuple[str, str]) -> None:
    array, other = np.array([5.0, 3.0], kinds[0]), np.array([2.0, 4.0], kinds[1])
    want = ACCUMULATE[symbol](array, other).astype(kinds[0]).tolist()
    same = array
    array = symbol(array, md.asarray(other))
    assert array is same
    assert array.tolist() == want


def test_arrays_accumulate_integers_bits_and_products() -> None:
    whole = np.array([6, 3], np.int32)
    whole += md.asarray([1, 1], dtype=md.int8)
    whole &= md.asarray([3, 5], dtype=md.int32)
    whole <<= md.asarray([1, 1], dtype=md.int32)
    assert whole.tolist() == [6, 8]
    square = np.array([[1.0, 2.0], [3.0, 4.0]])
    square @= md.asarray(square.copy())
    assert square.tolist() == [[7.0, 10.0], [15.0, 22.0]]


def test_out_reads_before_it_writes() -> None:
    array = np.arange(4.0)
    array += md.asarray(array)[::-1]
    assert array.tolist() == [3.0] * 4


def test_out_takes_arrays_and_tensors_of_the_result() -> None:
    x = md.asarray([1.0, 4.0])
    array, tensor = np.zeros(2, np.float32), md.zeros((2,))
    assert np.sqrt(x, out=array) is array
    assert np.sqrt(x, out=tensor) is tensor
    assert array.tolist() == tensor.tolist() == [1.0, 2.0]
    assert np.cbrt(x * x * x, out=tensor) is tensor
    np.testing.assert_allclose(np.asarray(tensor), [1.0, 4.0], rtol=1e-6)
    whole, rest = np.zeros(2, np.float32), md.zeros((2,))
    assert np.divmod(x, 3, out=(whole, rest))[1] is rest
    assert (whole.tolist(), rest.tolist()) == ([0.0, 1.0], [1.0, 1.0])
    assert np.modf(x, out=(None, rest))[1] is rest


@pytest.mark.parametrize(
    ("out", "kind"),
    [
        (np.zeros(2, np.int32), md.PromotionError),
        (md.zeros((2,), dtype=md.int32), md.PromotionError),
        (np.zeros(3, np.float32), md.ShapeError),
        (md.zeros((3,)), md.ShapeError),
        (np.broadcast_to(np.float32(0), (2,)), md.WriteError),
        (md.broadcast_to(md.zeros(()), (2,)), md.WriteError),
        (3, md.OptionError),
        (quant.QParams(0.5), md.OptionError),
        (np.ma.array([0.0, 0.0], mask=[0, 1]), md.CastError),  # type: ignore[no-untyped-call]
    ],
)
def test_an_out_that_does_not_fit_stays(out: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^(add|setitem|1 of 2)"):
        np.add(md.asarray([1.0, 2.0]), 1, out=out)
    if isinstance(out, np.ndarray | md.Tensor):
        assert not np.any(np.asarray(out))
