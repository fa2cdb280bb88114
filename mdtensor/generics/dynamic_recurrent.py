"""Recurrent layers of floats that are rounded to 8 bits on a grid of each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.dtypes import float32, int8, uint8
from mdtensor.errors import PromotionError
from mdtensor.generics.dynamic_quantization import check_columns, require_float32
from mdtensor.generics.integer_products import infer_matmul_integer
from mdtensor.generics.recurrent import infer_lstm
from mdtensor.spec.spec import TensorSpec


def infer_dynamic_lstm(
    x: TensorSpec,
    w: TensorSpec,
    w_scale: TensorSpec,
    r: TensorSpec,
    r_scale: TensorSpec,
    b: TensorSpec | None = None,
    h: TensorSpec | None = None,
    c: TensorSpec | None = None,
    p: TensorSpec | None = None,
    lengths: TensorSpec | None = None,
    **options: Any,
) -> TensorSpec:
    """Infer float32 [t + 2, n, k].

    Raises:
        PromotionError: weights are not int8, or another operand is not float32.
        ShapeError: the shapes do not fit each other, or a sum could leave int32.
        OptionError: an option has a wrong value.
    """
    for name, weight in (("w", w), ("r", r)):
        if weight.dtype is not int8:
            problem = f"{name} is {weight.dtype}"
            raise PromotionError(problem, f"Use astype({name}, int8)")
    floats = {"x": x, "b": b, "h": h, "c": c, "p": p}
    for name, spec in floats.items():
        if spec is not None:
            require_float32(spec, name)
    real_w, real_r = w.with_dtype(float32), r.with_dtype(float32)
    found = infer_lstm(x, real_w, real_r, b, h, c, p, lengths, **options)
    for weight, scale in ((w, w_scale), (r, r_scale)):
        rows, terms = weight.shape
        left = x.with_dtype(uint8).with_shape((*found.shape[1:2], terms))
        infer_matmul_integer(left, weight.with_shape((terms, rows)), None, None)
        check_columns(scale, None, rows)
    return found


@generic(deduce=infer_dynamic_lstm)
def dynamic_lstm(
    x: object,
    w: object,
    w_scale: object,
    r: object,
    r_scale: object,
    b: object = None,
    h: object = None,
    c: object = None,
    p: object = None,
    lengths: object = None,
    /,
    *,
    activations: Sequence[str | tuple[str, float, float]] = ("sigmoid", "tanh", "tanh"),
    clip: float | None = None,
    coupled: bool = False,
) -> Any:
    """Return the states of `lstm`, with x and the hidden states rounded to 8 bits.

    x has one grid, and the hidden states of all samples have one at each step, as in
    `dynamic_quantize`. Both products compute and round as `dynamic_matmul` does.

    Args:
        x: float32 [t, n, i], as all but the weights and `lengths`.
        w, r: int8 [4 * k, i] and [4 * k, k], the rows of the gates i, o, f and of the
            cell.
        w_scale, r_scale: one number or [4 * k].
        b, h, c, p, lengths, activations, clip, coupled: as in `lstm`.

    Returns:
        Float32Tensor [t + 2, n, k], as `lstm` does.

    Raises:
        PromotionError: an operand has another type.
        ShapeError: the shapes do not fit each other, or a sum could leave int32.
        OptionError: a function is unknown, or an option is invalid.
        BoundsError: a length is below 0 or above t.

    Example:
        >>> import mdtensor as md
        >>> x, scale = md.ones((3, 1, 1), dtype=md.float32), md.asarray([0.5])
        >>> w, scale = md.zeros((4, 1), dtype=md.int8), md.astype(scale, md.float32)
        >>> cell = md.ones((1, 1), dtype=md.float32)
        >>> md.dynamic_lstm(x, w, scale, w, scale, None, None, cell)[-1].tolist()
        [[0.125]]

    Source: ONNX Runtime, `DynamicQuantizeLSTM`.
    """
