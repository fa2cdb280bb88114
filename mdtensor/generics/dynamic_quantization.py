"""Products of floats that are rounded to 8 bits on a grid of each call."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.dtypes import float32, uint8
from mdtensor.errors import PromotionError, ShapeError
from mdtensor.generics.integer_products import (
    infer_conv2d_integer,
    infer_matmul_integer,
)
from mdtensor.spec.options import choice
from mdtensor.spec.shapes import Integers, are_like
from mdtensor.spec.spec import TensorSpec

PARTS = ("codes", "scale", "zero_point")


def infer_dynamic_quantize(x: TensorSpec, *, part: str) -> TensorSpec:
    """Infer uint8 like x, or a float32 or uint8 scalar.

    Raises:
        PromotionError: x is not float32.
        OptionError: the part has another name.
    """
    choice(part, "part", PARTS)
    require_float32(x, "x")
    if part == "codes":
        return x.with_dtype(uint8)
    return x.with_dtype(float32 if part == "scale" else uint8).with_shape(())


def require_float32(x: TensorSpec, name: str) -> None:
    """Raise unless an operand is float32."""
    if x.dtype is not float32:
        problem = f"{name} is {x.dtype}"
        raise PromotionError(problem, f"Use astype({name}, float32)")


def infer_dynamic_matmul(
    x: TensorSpec,
    w: TensorSpec,
    scale: TensorSpec,
    zero: TensorSpec | None = None,
    bias: TensorSpec | None = None,
) -> TensorSpec:
    """Infer float32 [..., m, n].

    Raises:
        PromotionError: x, scale or bias are not float32, or the weights not 8 bits.
        ShapeError: the shapes do not fit each other.
    """
    require_float32(x, "x")
    found = infer_matmul_integer(x.with_dtype(uint8), w, None, zero)
    check_columns(scale, bias, found.shape[-1])
    return found.with_dtype(float32)


def infer_dynamic_conv2d(
    x: TensorSpec,
    w: TensorSpec,
    scale: TensorSpec,
    zero: TensorSpec | None = None,
    bias: TensorSpec | None = None,
    **options: Any,
) -> TensorSpec:
    """Infer float32 [n, out, oh, ow].

    Raises:
        PromotionError: x, scale or bias are not float32, or the weights not 8 bits.
        ShapeError: the shapes do not fit each other.
        OptionError: an option has a wrong value.
    """
    require_float32(x, "x")
    found = infer_conv2d_integer(x.with_dtype(uint8), w, None, zero, **options)
    check_columns(scale, bias, found.shape[1])
    return found.with_dtype(float32)


def check_columns(scale: TensorSpec, bias: TensorSpec | None, count: int) -> None:
    """Raise unless there is one scale, or one for each column, and a bias for each."""
    require_float32(scale, "scale")
    if scale.shape and not any(are_like(scale.shape, (n,)) for n in (1, count)):
        problem = f"the scale has shape {scale.shape}"
        raise ShapeError(problem, f"Give it shape (), (1,) or ({count},)")
    if bias is not None:
        require_float32(bias, "bias")
        if not are_like(bias.shape, (count,)):
            problem = f"the bias has shape {bias.shape}"
            raise ShapeError(problem, f"Give it shape ({count},)")


@generic(deduce=infer_dynamic_quantize)
def dynamic_quantize(x: object, /, *, part: str) -> Any:
    """Return codes of x, or their scale or zero point, on a grid that covers x and 0.

    scale = (max - min) / 255, and code = round(x / scale) + zero_point. Each operation
    rounds to float32, halves to even; if all elements are 0, the scale is 1.

    Args:
        x: float32, any shape. With a NaN the scale is NaN, and all codes are 0.
        part: "codes", "scale" or "zero_point".

    Returns:
        Codes: uint8 like x. Scale: float32 (). Zero point: uint8 ().

    Raises:
        PromotionError: `x` is not float32.
        OptionError: the part has another name.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([-1.0, 0.0, 4.0], dtype=md.float32)
        >>> [md.dynamic_quantize(x, part=p).tolist() for p in ("codes", "zero_point")]
        [[0, 51, 255], 51]

    Source: ONNX, `DynamicQuantizeLinear` 11.
    """


@generic(deduce=infer_dynamic_matmul)
def dynamic_matmul(
    x: object,
    w: object,
    scale: object,
    zero: object = None,
    bias: object = None,
    /,
) -> Any:
    """Return x · scale · (w - zero) + bias, with x rounded to 8 bits.

    The codes of x are those of `dynamic_quantize`. Their products are added exactly in
    int32; a sum is rounded to float32, multiplied by the product of both scales, and
    the bias is added, each rounded to float32.

    Args:
        x: float32 [..., m, k].
        w: int8 or uint8 [k, n].
        scale: float32, one number or [n].
        zero: of the type of `w`, one number or [n]; None is 0.
        bias: float32 [n]; None is 0.

    Returns:
        Float32Tensor [..., m, n].

    Raises:
        PromotionError: an operand has another type.
        ShapeError: the shapes do not fit each other, or a sum could leave int32.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[0.0, 1.0, 255.0]], dtype=md.float32)
        >>> w, scale = md.asarray([[1], [2], [-1]], dtype=md.int8), md.asarray(0.5)
        >>> md.dynamic_matmul(x, w, md.astype(scale, md.float32)).tolist()
        [[-126.5]]

    Source: ONNX Runtime, `DynamicQuantizeMatMul`.
    """


@generic(deduce=infer_dynamic_conv2d)
def dynamic_conv2d(
    x: object,
    w: object,
    scale: object,
    zero: object = None,
    bias: object = None,
    /,
    *,
    stride: Integers = 1,
    padding: Integers = 0,
    dilation: Integers = 1,
    groups: int = 1,
) -> Any:
    """Return the convolution of x, rounded to 8 bits, with scale · (w - zero).

    It computes and rounds as `dynamic_matmul` does.

    Args:
        x: float32 [n, c, h, w].
        w: int8 or uint8 [out, c / groups, kh, kw].
        scale: float32, one number or [out].
        zero: of the type of `w`, one number or [out]; None is 0.
        bias: float32 [out]; None is 0.
        stride, padding, dilation, groups: as in `conv2d`.

    Returns:
        Float32Tensor [n, out, oh, ow].

    Raises:
        PromotionError: an operand has another type.
        ShapeError: the shapes do not fit each other, or a sum could leave int32.
        OptionError: an option has a wrong value.

    Example:
        >>> import mdtensor as md
        >>> x = md.reshape(md.asarray([0.0, 255.0], dtype=md.float32), (1, 1, 1, 2))
        >>> w = md.astype(md.ones((1, 1, 1, 2)), md.int8)
        >>> scale = md.asarray(0.5, dtype=md.float32)
        >>> md.dynamic_conv2d(x, w, scale, padding=(0, 1)).tolist()
        [[[[0.0, 127.5, 127.5]]]]

    Source: ONNX, `DynamicQuantizeLinear` 11 and `ConvInteger` 10.
    """
