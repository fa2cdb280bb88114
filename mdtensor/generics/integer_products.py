"""Products of 8-bit integers with zero points, added exactly in int32."""

from __future__ import annotations

from math import prod
from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.dtypes import int8, int32, uint8
from mdtensor.errors import PromotionError, ShapeError
from mdtensor.spec.shapes import DYNAMIC, Dim, Integers, are_like, matmul_shape
from mdtensor.spec.spec import TensorSpec
from mdtensor.spec.windows import conv_shape, conv_window

#: The most products of which the sum fits int32, whatever the integers are.
MOST_TERMS = (2**31 - 1) // 255**2


def infer_matmul_integer(
    x1: TensorSpec,
    x2: TensorSpec,
    zero1: TensorSpec | None = None,
    zero2: TensorSpec | None = None,
    **_: Any,
) -> TensorSpec:
    """Infer int32 and [..., m, n].

    Raises:
        PromotionError: an argument is neither int8 nor uint8.
        ShapeError: the shapes do not fit each other, or a sum could leave int32.
    """
    _require_bytes(x1, x2, zero1, zero2)
    if x1.ndim < 2 or x2.ndim != 2:
        raise ShapeError(
            f"x1 has {x1.ndim} axes, x2 has {x2.ndim}",
            "Give x1 [..., m, k] and x2 [k, n]",
        )
    shape = matmul_shape(x1.shape, x2.shape)
    _check_zeros(zero1, zero2, x2.shape[1])
    # A named size is not known to be too large.
    if not isinstance(x2.shape[0], Dim):
        _check_terms(x2.shape[0])
    return x1.with_dtype(int32).with_shape(shape)


def infer_conv2d_integer(
    x: TensorSpec,
    w: TensorSpec,
    zero1: TensorSpec | None = None,
    zero2: TensorSpec | None = None,
    *,
    stride: Integers = 1,
    padding: Integers = 0,
    dilation: Integers = 1,
    groups: int = 1,
) -> TensorSpec:
    """Infer int32 and [n, out, oh, ow].

    Raises:
        PromotionError: an argument is neither int8 nor uint8.
        ShapeError: the shapes do not fit each other, or a sum could leave int32.
        OptionError: an option has a wrong value.
    """
    _require_bytes(x, w, zero1, zero2)
    window = conv_window(w.shape, stride, padding, dilation)
    shape = conv_shape(x.shape, w.shape, None, window, groups)
    _check_zeros(zero1, zero2, shape[1])
    if DYNAMIC not in w.shape[1:]:
        _check_terms(prod(w.shape[1:]))
    return x.with_dtype(int32).with_shape(shape)


def _require_bytes(*given: TensorSpec | None) -> None:
    for x in filter(None, given):
        if x.dtype not in (int8, uint8):
            problem = f"products of bytes take int8 and uint8, not {x.dtype}"
            raise PromotionError(problem, "Use astype(x, int8) if the numbers fit")


def _check_zeros(zero1: TensorSpec | None, zero2: TensorSpec | None, n: int) -> None:
    """Raise unless there is one zero point; of weights, or one for each column."""
    for name, zero, count in (("zero1", zero1, 1), ("zero2", zero2, n)):
        if zero is None or not zero.shape or are_like(zero.shape, (1,)):
            continue
        if name == "zero1" or not are_like(zero.shape, (count,)):
            allowed = "() or (1,)" if name == "zero1" else f"(), (1,) or ({count},)"
            problem = f"{name} has shape {zero.shape}"
            raise ShapeError(problem, f"Give it shape {allowed}")


def _check_terms(count: int) -> None:
    if count > MOST_TERMS:
        raise ShapeError(
            f"a sum of {count:,} products could leave int32",
            f"Use at most {MOST_TERMS:,}",
        )


@generic(deduce=infer_matmul_integer)
def matmul_integer(
    x1: object, x2: object, zero1: object = None, zero2: object = None, /
) -> Any:
    """Return (x1 - zero1) · (x2 - zero2), exactly.

    A plan packs a constant `x2` once, for the kernels of 8-bit codes.

    Args:
        x1: [..., m, k], int8 or uint8.
        x2: [k, n], int8 or uint8.
        zero1: the zero point of `x1`, of its type: one number. None is 0.
        zero2: the zero point of `x2`, of its type: one number, or one for each of n
            columns. None is 0.

    Returns:
        Int32Tensor [..., m, n].

    Raises:
        PromotionError: an argument is neither int8 nor uint8.
        ShapeError: the shapes do not fit each other, or k is above 33,025, so that a
            sum could leave int32.

    Example:
        >>> import mdtensor as md
        >>> x1, x2 = md.asarray([[130, 255]], dtype=md.uint8), md.asarray([[3], [-2]])
        >>> zero = md.asarray(128, dtype=md.uint8)
        >>> md.matmul_integer(x1, md.astype(x2, md.int8), zero).tolist()
        [[-248]]

    Source: ONNX, `MatMulInteger` 10, with constant weights of two axes.
    """


@generic(deduce=infer_conv2d_integer)
def conv2d_integer(
    x: object,
    w: object,
    zero1: object = None,
    zero2: object = None,
    /,
    *,
    stride: Integers = 1,
    padding: Integers = 0,
    dilation: Integers = 1,
    groups: int = 1,
) -> Any:
    """Return the convolution of x - zero1 with w - zero2, exactly.

    Args:
        x: int8 or uint8 [n, c, h, w]; the image is continued with `zero1`.
        w: int8 or uint8 [out, c / groups, kh, kw].
        zero1: int8 or uint8, one number; None is 0.
        zero2: int8 or uint8, one number or [out]; None is 0.
        stride, padding, dilation, groups: as in `conv2d`.

    Returns:
        Int32Tensor [n, out, oh, ow].

    Raises:
        PromotionError: an argument is neither int8 nor uint8.
        ShapeError: the shapes do not fit each other, or a sum could leave int32.
        OptionError: an option has a wrong value.

    Example:
        >>> import mdtensor as md
        >>> x = md.reshape(md.asarray([130, 255], dtype=md.uint8), (1, 1, 1, 2))
        >>> w = md.reshape(md.asarray([3, -2], dtype=md.int8), (1, 1, 1, 2))
        >>> md.conv2d_integer(x, w, md.asarray(128, dtype=md.uint8)).tolist()
        [[[[-248]]]]

    Source: ONNX, `ConvInteger` 10, with one zero point of x.
    """
