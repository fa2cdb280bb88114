"""Element by element: arithmetic, comparison, activation functions.

All follow one pattern. Arguments broadcast; the result has the promoted type
(`result_type`); Python scalars are weak. `out=` is for quantized arguments only: the
grid to which the exact result is rounded once, half to even. Without it a quantized
operation is exact or raises.
"""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch import generic
from mdtensor.generics.deduction import broadcast, comparison, same


@generic(deduce=broadcast)
def add(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """x1 + x2.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out: grid of a quantized result.

    Returns:
        The promoted type. Integers wrap modulo 2**bits; floats round once.

    Raises:
        ShapeError: the shapes do not broadcast.
        PromotionError: the types have no common type.
        GridError: quantized on different grids without `out`.

    Example:
        >>> import mdtensor as md
        >>> md.add(md.asarray([1, 2], dtype=md.int8), md.asarray([0.5, 0.25])).tolist()
        [1.5, 2.25]

    Source: array API 2024.12, `add`.
    """


@generic(deduce=broadcast)
def sub(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """x1 - x2; wraps and rounds as `add` does.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out: grid of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.sub(md.asarray([3, 2]), 1).tolist()
        [2, 1]

    Source: array API 2024.12, `subtract`.
    """


@generic(deduce=broadcast)
def mul(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """x1 · x2; wraps and rounds as `add` does.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out: grid of a quantized result. Without it, 8-bit codes multiply exactly
            into a `QInt32Tensor` whose scale is the product of the scales.

    Example:
        >>> import mdtensor as md
        >>> md.mul(md.asarray([1.0, 2.0]), 0.5).tolist()
        [0.5, 1.0]

    Source: array API 2024.12, `multiply`.
    """


@generic(deduce=broadcast)
def div(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """x1 / x2 in floating types; x / 0 is an infinity or NaN, as IEEE 754 says.

    Args:
        x1: any shape, floating.
        x2: broadcasts against `x1`.
        out: grid of a quantized result.

    Raises:
        PromotionError: no operand is floating; integers do not divide exactly.

    Example:
        >>> import mdtensor as md
        >>> md.div(md.asarray([1.0, 3.0]), 2).tolist()
        [0.5, 1.5]

    Source: array API 2024.12, `divide`.
    """


@generic(deduce=same)
def neg(x: Any, /) -> Any:
    """-x. The smallest signed integer and unsigned integers wrap.

    Args:
        x: any shape.

    Example:
        >>> import mdtensor as md
        >>> md.neg(md.asarray([1, -2])).tolist()
        [-1, 2]

    Source: array API 2024.12, `negative`.
    """


@generic(deduce=comparison)
def equal(x1: Any, x2: Any, /) -> Any:
    """x1 = x2 as numbers, whatever their types; NaN equals nothing.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.

    Returns:
        BoolTensor. Values are compared exactly: no operand is rounded first.

    Example:
        >>> import mdtensor as md
        >>> big = md.asarray([2**24 + 1])
        >>> md.equal(big, md.asarray([2.0**24])).tolist()
        [False]

    Source: array API 2024.12, `equal`; exactness as Julia's `==`.
    """


@generic(deduce=comparison)
def not_equal(x1: Any, x2: Any, /) -> Any:
    """x1 ≠ x2, exactly as `equal` compares.

    Example:
        >>> import mdtensor as md
        >>> md.not_equal(md.asarray([1, 2]), 1).tolist()
        [False, True]

    Source: array API 2024.12, `not_equal`.
    """


@generic(deduce=comparison)
def less(x1: Any, x2: Any, /) -> Any:
    """x1 < x2, exactly as `equal` compares.

    Example:
        >>> import mdtensor as md
        >>> md.less(md.asarray([1, 2]), 2).tolist()
        [True, False]

    Source: array API 2024.12, `less`.
    """


@generic(deduce=comparison)
def less_equal(x1: Any, x2: Any, /) -> Any:
    """x1 ≤ x2, exactly as `equal` compares.

    Example:
        >>> import mdtensor as md
        >>> md.less_equal(md.asarray([1, 2]), 1).tolist()
        [True, False]

    Source: array API 2024.12, `less_equal`.
    """


@generic(deduce=comparison)
def greater(x1: Any, x2: Any, /) -> Any:
    """x1 > x2, exactly as `equal` compares.

    Example:
        >>> import mdtensor as md
        >>> md.greater(md.asarray([1, 2]), 1).tolist()
        [False, True]

    Source: array API 2024.12, `greater`.
    """


@generic(deduce=comparison)
def greater_equal(x1: Any, x2: Any, /) -> Any:
    """x1 ≥ x2, exactly as `equal` compares.

    Example:
        >>> import mdtensor as md
        >>> md.greater_equal(md.asarray([1, 2]), 2).tolist()
        [False, True]

    Source: array API 2024.12, `greater_equal`.
    """


@generic(deduce=broadcast)
def minimum(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """The smaller of x1 and x2; NaN if either is NaN.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out: grid of a quantized result; not needed where the grids are equal.

    Example:
        >>> import mdtensor as md
        >>> md.minimum(md.asarray([1, 5]), 3).tolist()
        [1, 3]

    Source: array API 2024.12, `minimum`.
    """


@generic(deduce=broadcast)
def maximum(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """The larger of x1 and x2; NaN if either is NaN.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out: grid of a quantized result; not needed where the grids are equal.

    Example:
        >>> import mdtensor as md
        >>> md.maximum(md.asarray([1, 5]), 3).tolist()
        [3, 5]

    Source: array API 2024.12, `maximum`.
    """


@generic(deduce=same)
def clip(x: Any, /, min: Any = None, max: Any = None, *, out: Any = None) -> Any:
    """x limited to [min, max]; None leaves a side open.

    Args:
        x: any shape.
        min, max: Python numbers, `min` ≤ `max`.
        out: grid of a quantized result.

    Returns:
        The type of `x`.

    Raises:
        OptionError: `min` is above `max`.
        CastError: an integer type cannot hold a bound.

    Example:
        >>> import mdtensor as md
        >>> md.clip(md.asarray([-1.0, 0.5, 9.0]), 0, 6).tolist()
        [0.0, 0.5, 6.0]

    Source: array API 2024.12, `clip`.
    """


@generic(deduce=same)
def relu(x: Any, /, *, out: Any = None) -> Any:
    """max(x, 0); NaN stays NaN.

    Args:
        x: any shape.
        out: grid of a quantized result; without it the grid of `x`.

    Example:
        >>> import mdtensor as md
        >>> md.relu(md.asarray([-1.0, 2.0])).tolist()
        [0.0, 2.0]

    Source: ONNX `Relu`.
    """


@generic(deduce=same)
def relu6(x: Any, /, *, out: Any = None) -> Any:
    """min(max(x, 0), 6).

    Args:
        x: any shape.
        out: grid of a quantized result; without it the grid of `x`.

    Example:
        >>> import mdtensor as md
        >>> md.relu6(md.asarray([-1.0, 2.0, 8.0])).tolist()
        [0.0, 2.0, 6.0]

    Source: PyTorch, `torch.nn.functional.relu6`.
    """


@generic(deduce=same)
def hardsigmoid(
    x: Any, /, *, alpha: float = 1 / 6, beta: float = 0.5, out: Any = None
) -> Any:
    """min(max(alpha · x + beta, 0), 1).

    Args:
        x: any shape, floating or quantized.
        alpha, beta: slope and offset. PyTorch has 1/6, ONNX defaults to 0.2.
        out: grid of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.hardsigmoid(md.asarray([-3.0, 0.0, 3.0])).tolist()
        [0.0, 0.5, 1.0]

    Source: ONNX `HardSigmoid`; PyTorch, `torch.nn.functional.hardsigmoid`.
    """


@generic(deduce=same)
def hardswish(x: Any, /, *, out: Any = None) -> Any:
    """x · min(max(x + 3, 0), 6) / 6.

    Args:
        x: any shape, floating or quantized.
        out: grid of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.hardswish(md.asarray([-4.0, 0.0, 3.0])).tolist()
        [-0.0, 0.0, 3.0]

    Source: ONNX `HardSwish`; Howard et al. 2019, "Searching for MobileNetV3".
    """


@generic(deduce=same)
def sigmoid(x: Any, /, *, out: Any = None) -> Any:
    """1 / (1 + exp(-x)), without overflow.

    Args:
        x: any shape, floating or quantized.
        out: grid of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.sigmoid(md.asarray([0.0])).tolist()
        [0.5]

    Source: ONNX `Sigmoid`.
    """


@generic(deduce=same)
def tanh(x: Any, /, *, out: Any = None) -> Any:
    """The hyperbolic tangent.

    Args:
        x: any shape, floating or quantized.
        out: grid of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.tanh(md.asarray([0.0])).tolist()
        [0.0]

    Source: array API 2024.12, `tanh`.
    """


@generic(deduce=same)
def exp(x: Any, /, *, out: Any = None) -> Any:
    """The exponential function.

    Args:
        x: any shape, floating or quantized.
        out: grid of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.exp(md.asarray([0.0])).tolist()
        [1.0]

    Source: array API 2024.12, `exp`.
    """
