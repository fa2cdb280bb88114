"""NumPy arrays and scalars as arguments of functions: one rule, that of operators."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant

X = md.asarray([[1.0, 2.0], [3.0, 4.0]])
A = np.asarray([[0.5, 1.5], [2.5, 3.5]], np.float32)


@pytest.mark.parametrize("other", [A, np.float64(2), np.float32(2), np.int64(2)])
def test_functions_take_what_operators_take(other: Any) -> None:
    for found, wanted in (
        (md.add(X, other), X + other),
        (md.add(other, X), other + X),
        (X.add(other), X + other),
    ):
        assert type(found) is type(wanted)
        assert found.tolist() == wanted.tolist()


def test_numpy_alone_has_its_own_element_type() -> None:
    assert type(md.sin(np.float64(0))) is md.Float64Tensor
    assert type(md.add(A, A)) is md.Float32Tensor
    assert type(md.add(np.float64(1), 2)) is md.Float64Tensor


def test_products_and_sequences() -> None:
    assert md.linear(A, X).tolist() == md.linear(md.asarray(A), X).tolist()
    assert md.concat([X, A]).shape == (4, 2)
    assert md.where(A > 1, X, 0.0).tolist() == [[0.0, 2.0], [3.0, 4.0]]


def test_quantize_takes_arrays() -> None:
    grid = quant.QParams(0.5)
    assert quant.quantize(A, grid).codes.tolist() == [[1, 3], [5, 7]]
    q = quant.quantize(A, grid)
    out = md.add(q, quant.quantize(A, grid), out=quant.QParams(1.0))
    assert out.codes.tolist() == [[1, 3], [5, 7]]


def test_out_of_numpy_arguments() -> None:
    with pytest.raises(md.OptionError, match="out= and rounding="):
        md.add(X, A, out=quant.QParams(1.0))


def test_arrays_share_their_memory() -> None:
    array = np.zeros((2, 3), np.float32)
    assert np.shares_memory(np.asarray(md.reshape(array, (3, 2))), array)


def test_lists_are_not_converted() -> None:
    with pytest.raises(md.NoMethodError, match="x2 is list"):
        md.add(X, [1, 2])


def test_an_array_without_tensor_type_names_the_call() -> None:
    with pytest.raises(md.OptionError, match=r"^add\(Float32Tensor\[2,2\], ndarray"):
        md.add(X, np.asarray(["a"]))


MASKED = np.ma.array([1.0, 2.0], mask=[False, True])  # type: ignore[no-untyped-call]
MASKED_CODES = MASKED.astype(np.int8)


@pytest.mark.parametrize(
    "call",
    [
        lambda: md.sum(MASKED),
        lambda: X + MASKED,
        lambda: md.concat([X[0], MASKED]),
        lambda: md.asarray(MASKED),
        lambda: md.asarray([MASKED, MASKED]),
        lambda: md.asarray([1.0, np.ma.masked]),
        lambda: md.asarray(MASKED.astype(">f8")),
        lambda: md.from_dlpack(MASKED),
        lambda: md.Float64Tensor(MASKED),
        lambda: quant.QInt8Tensor(MASKED_CODES, scale=0.5),
    ],
)
def test_masked_elements_have_no_value(call: Any) -> None:
    with pytest.raises(md.CastError, match=r"1 of [12] elements are masked"):
        call()


def test_masked_scales_have_no_value() -> None:
    with pytest.raises(md.GridError, match="scale is a MaskedArray"):
        quant.QParams(MASKED, axis=0)


def test_an_array_without_masked_elements_is_shared() -> None:
    array = np.ma.array([1.0, 2.0])  # type: ignore[no-untyped-call]
    assert md.sum(array).tolist() == 3.0
    assert np.shares_memory(np.asarray(md.asarray(array)), array.data)


@pytest.mark.usefixtures("registered_as_before")
def test_a_method_for_arrays_gets_them() -> None:
    @md.generic
    def kind_of(x: Any, /) -> Any:
        """Return the type of the argument."""

    @md.method(kind_of)
    def kind_of(x: np.ndarray, /) -> Any:  # type: ignore[type-arg]
        return type(x)

    assert kind_of(A) is np.ndarray


def test_calls_with_arrays_are_traced_with_tensors() -> None:
    with md.traced() as calls:
        md.add(X, A)
    assert [call.types for call in calls] == [(md.Float32Tensor, md.Float32Tensor)]


def test_which_and_infer_see_the_tensor_that_a_call_makes() -> None:
    array, x = np.ones(2, np.int8), md.ones(2)
    result = md.add(array, x)
    assert md.which(md.add, array, x).result.type is type(result)
    assert md.infer(md.add, array, x) == md.TensorSpec(type(result), (2,))
    assert md.which(md.matmul, np.ones((2, 2)), np.ones((2, 2))).error is None
