"""Errors of functions made of operations name the function and its own arguments."""

import pickle

import numpy as np
import pytest

import mdtensor as md
from mdtensor.quant import QInt8Tensor

X, TRUTHS = md.ones((2, 3)), md.asarray([True, False])
CODES = QInt8Tensor([[1, 2]], scale=0.5)
#: The calls, and how the text of each error begins.
WRONG = {
    "kron of truths": (
        lambda: md.kron(TRUTHS, TRUTHS),
        "kron(BoolTensor[2], BoolTensor[2]): bool is not a number type.",
    ),
    "logsumexp of truths": (
        lambda: md.logsumexp(TRUTHS),
        "logsumexp(BoolTensor[2]): x is bool. Use astype(x, float32).",
    ),
    "logsumexp beyond the axes": (
        lambda: md.logsumexp(X, axis=5),
        "logsumexp(Float32Tensor[2,3]): axis 5 does not exist in 2 dimensions.",
    ),
    "logsumexp with a tensor as flag": (
        lambda: md.logsumexp(X, keepdims=X),
        "logsumexp(Float32Tensor[2,3]): keepdims is Float32Tensor[2,3].",
    ),
    "diag of codes": (
        lambda: md.diag(CODES),
        "diag(QInt8Tensor[1,2]): no method: x is QInt8Tensor",
    ),
    "nanmean along an axis twice": (
        lambda: md.nanmean(X, axis=(0, 0)),
        "nanmean(Float32Tensor[2,3]): axes (0, 0) repeat.",
    ),
    "nanstd along an axis twice": (
        lambda: md.nanstd(X, axis=(0, 0)),
        "nanstd(Float32Tensor[2,3]): axes (0, 0) repeat.",
    ),
    "allclose below zero": (
        lambda: md.allclose(X, X, atol=-1),
        "allclose(Float32Tensor[2,3], Float32Tensor[2,3]): atol is -1.",
    ),
    "percentile by an array of methods": (
        lambda: md.percentile(X, 50, method=np.ones(2)),
        "percentile(Float32Tensor[2,3]): method is ndarray[2].",
    ),
    "histogram beyond memory": (
        lambda: md.histogram(X, bins=2**55),
        "histogram(Float32Tensor[2,3]): ",
    ),
    "triangle beyond memory": (
        lambda: md.tril_indices(2**45),
        "tril_indices(int, NoneType): the result does not fit into memory.",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_the_function_that_was_called(case):
    call, text = WRONG[case]
    with pytest.raises(md.MdtensorError) as caught:
        call()
    assert str(caught.value).startswith(text)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_an_error_without_method_has_the_types_that_were_passed():
    with pytest.raises(md.NoMethodError) as caught:
        md.isclose(md.float32, X)
    assert str(caught.value).startswith("isclose(DType, Float32Tensor[2,3]): ")
    assert caught.value.types == (type(md.float32), md.Float32Tensor)


def test_a_cast_in_the_middle_keeps_its_name():
    # Its fix names `casting=`, which is an option of astype alone.
    with pytest.raises(md.CastError, match=r"^astype\(.*casting="):
        md.nanmean(md.asarray([float("nan")]), dtype=md.int8)


@pytest.mark.parametrize("name", ["add", "maximum", "relu", "exp", "matmul"])
def test_an_error_without_a_call_gets_the_one_of_the_operation(name):
    operation = getattr(md, name)
    given = [md.ones((2, 2))] * len(operation.operation.dispatched)
    shown = ", ".join(["Float32Tensor[2,2]"] * len(given))
    with pytest.raises(md.OptionError) as caught:
        operation(*given, rounding="exact")
    assert str(caught.value).startswith(f"{name}({shown}): rounding='exact' needs")
    with pytest.raises(md.DeviceError, match=r"^zeros_like\(Float32Tensor\[2,2\]\): "):
        md.zeros_like(given[0], device="none")


@pytest.mark.parametrize("groups", [md.asarray(1), np.int64(1), np.array(1)])
def test_a_number_of_groups_may_be_a_tensor(groups):
    x, w = md.ones((1, 2, 5, 5)), md.ones((3, 2, 3, 3))
    line, taps, back = md.ones((1, 2, 5)), md.ones((3, 2, 3)), md.ones((2, 3, 3, 3))
    assert md.conv2d(x, w, None, groups=groups).tolist() == [[[[18.0] * 3] * 3] * 3]
    assert md.conv1d(line, taps, None, groups=groups).tolist() == [[[6.0] * 3] * 3]
    wanted = md.conv_transpose2d(x, back, None, groups=1)
    found = md.conv_transpose2d(x, back, None, groups=groups)
    assert md.array_equal(found, wanted)
