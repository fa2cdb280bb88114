"""Activation functions, element by element, as layers of networks use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.errors import OptionError, ShapeError
from mdtensor.spec.elementwise import along, same
from mdtensor.spec.options import choice, number
from mdtensor.spec.shapes import DYNAMIC, normalize_axis
from mdtensor.spec.spec import TensorSpec

# softmax and log_softmax.


@generic(deduce=along, category="activation")
def softmax(
    x: object, /, *, axis: int = -1, out: object = None, rounding: str | None = None
) -> Any:
    """Return exp(x) / sum(exp(x)) along `axis`, shifted to avoid overflow.

    Args:
        x: any shape, floating or quantized.
        axis: the axis that sums to one.
        out, rounding: grid and rounding rule of a quantized result; the exact
            quotient rounds once.

    Example:
        >>> import mdtensor as md
        >>> md.softmax(md.asarray([0.0, 0.0])).tolist()
        [0.5, 0.5]

    Source: ONNX `Softmax`.
    """


@generic(deduce=along, category="activation")
def log_softmax(x: object, /, *, axis: int = -1) -> Any:
    """Return log(softmax(x)) along `axis`, without underflow.

    Args:
        x: any shape, floating.
        axis: the axis whose exponentials sum to one.

    Example:
        >>> import mdtensor as md
        >>> md.log_softmax(md.asarray([0.0, 1000.0])).tolist()
        [-1000.0, 0.0]

    Source: ONNX `LogSoftmax`; PyTorch, `torch.nn.functional.log_softmax`.
    """


# Shape rules of activation functions.

GELU = ("none", "tanh")


def numeric_rule(*divisors: str) -> Callable[..., TensorSpec]:
    """Return a rule that keeps the shape; options are numbers, `divisors` not 0."""

    def rule(x: TensorSpec, **options: Any) -> TensorSpec:
        for name, value in options.items():
            if number(value, name) == 0 and name in divisors:
                raise OptionError(f"{name} is 0", "Use another number")
        return x

    return rule


def infer_hardtanh(x: TensorSpec, *, min_val: float, max_val: float) -> TensorSpec:
    """Infer type and shape of the argument; the bounds must be in order."""
    low, high = number(min_val, "min_val"), number(max_val, "max_val")
    if low > high:
        raise OptionError(f"min_val {low} is above max_val {high}", "Swap them")
    # Every comparison with NaN is false, so this finds a NaN in either bound.
    if not low <= high:
        name = "max_val" if low == low else "min_val"
        raise OptionError(f"{name} must not be NaN", f"Use another number for {name}")
    return x


def infer_gelu(x: TensorSpec, *, approximate: str) -> TensorSpec:
    """Infer type and shape of the argument."""
    choice(approximate, "approximate", GELU)
    return x


def infer_prelu(x: TensorSpec, weight: TensorSpec, **_: Any) -> TensorSpec:
    """Infer type and shape of the first argument; one weight, or one per channel."""
    # Axis 1 holds the channels, as in PyTorch. A vector has none, so it takes one
    # weight.
    channels = x.shape[1] if x.ndim > 1 else 1
    # A weight of unknown size passes: the call checks it.
    sizes = {1, channels, DYNAMIC}
    if weight.ndim > 1 or (channels != DYNAMIC and not set(weight.shape) <= sizes):
        raise ShapeError(
            f"the weight has shape {weight.shape}, but there are {channels} channels",
            f"Give it shape (1,) or ({channels},)",
        )
    return x


def infer_glu(x: TensorSpec, *, axis: int = -1, **_: Any) -> TensorSpec:
    """Infer the type of the argument and half its size along `axis`."""
    at = normalize_axis(axis, x.ndim)
    size = x.shape[at]
    # Halves of unequal size could not be multiplied.
    if size != DYNAMIC and size % 2:
        raise ShapeError(
            f"axis {at} of size {size} does not split into halves",
            "Use an even size",
        )
    half = DYNAMIC if size == DYNAMIC else size // 2
    return x.with_shape((*x.shape[:at], half, *x.shape[at + 1 :]))


@generic(deduce=same)
def relu(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return max(x, 0), element by element; NaN stays NaN.

    Args:
        x: any shape.
        out, rounding: grid and rounding rule of a quantized result; by default the
            grid of `x`.

    Example:
        >>> import mdtensor as md
        >>> md.relu(md.asarray([-1.0, 2.0])).tolist()
        [0.0, 2.0]

    Source: ONNX `Relu`.
    """


@generic(deduce=same)
def relu6(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return min(max(x, 0), 6), element by element.

    Args:
        x: any shape.
        out, rounding: grid and rounding rule of a quantized result; by default the
            grid of `x`.

    Example:
        >>> import mdtensor as md
        >>> md.relu6(md.asarray([-1.0, 2.0, 8.0])).tolist()
        [0.0, 2.0, 6.0]

    Source: PyTorch, `torch.nn.functional.relu6`.
    """


@generic(deduce=infer_hardtanh)
def hardtanh(
    x: object,
    /,
    *,
    min_val: float = -1.0,
    max_val: float = 1.0,
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Return min(max(x, min_val), max_val), element by element.

    Args:
        x: any shape, floating or quantized.
        min_val, max_val: the bounds.
        out, rounding: grid and rounding rule of a quantized result.

    Raises:
        OptionError: a bound is not a number, or `min_val` is above `max_val`.

    Example:
        >>> import mdtensor as md
        >>> md.hardtanh(md.asarray([-2.0, 0.5, 3.0])).tolist()
        [-1.0, 0.5, 1.0]

    Source: PyTorch, `torch.nn.functional.hardtanh`.
    """


@generic(deduce=same)
def hardsigmoid(
    x: object,
    /,
    *,
    alpha: float = 1 / 6,
    beta: float = 0.5,
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Return min(max(alpha · x + beta, 0), 1), element by element.

    Args:
        x: any shape, floating or quantized.
        alpha, beta: slope and offset. PyTorch has 1/6, ONNX defaults to 0.2.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.hardsigmoid(md.asarray([-3.0, 0.0, 3.0])).tolist()
        [0.0, 0.5, 1.0]

    Source: ONNX `HardSigmoid`; PyTorch, `torch.nn.functional.hardsigmoid`.
    """


@generic(deduce=same)
def hardswish(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return x · min(max(x + 3, 0), 6) / 6, element by element.

    Args:
        x: any shape, floating or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.hardswish(md.asarray([-4.0, 0.0, 3.0])).tolist()
        [-0.0, 0.0, 3.0]

    Source: ONNX `HardSwish`; Howard et al. 2019, "Searching for MobileNetV3".
    """


@generic(deduce=numeric_rule())
def leaky_relu(
    x: object,
    /,
    *,
    negative_slope: float = 0.01,
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Return x where x > 0, else negative_slope · x.

    Args:
        x: any shape, floating or quantized.
        negative_slope: a number.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.leaky_relu(md.asarray([-2.0, 3.0]), negative_slope=0.5).tolist()
        [-1.0, 3.0]

    Source: ONNX `LeakyRelu`; PyTorch, `torch.nn.functional.leaky_relu`.
    """


@generic(deduce=infer_prelu)
def prelu(
    x: object,
    weight: object,
    /,
    *,
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Return x where x > 0, else weight · x.

    Args:
        x: [n, c, ...] or any shape, floating or quantized.
        weight: [c], or one number for all, [1] or []; floating, or quantized like x.
        out, rounding: grid and rounding rule of a quantized result.

    Raises:
        ShapeError: the shape of `weight` is neither.

    Example:
        >>> import mdtensor as md
        >>> x, w = md.asarray([[-2.0, -2.0]]), md.asarray([0.5, 0.25])
        >>> md.prelu(x, w).tolist()
        [[-1.0, -0.5]]

    Source: PyTorch, `torch.nn.functional.prelu`; He et al. 2015.
    """


@generic(deduce=numeric_rule())
def elu(
    x: object, /, *, alpha: float = 1.0, out: object = None, rounding: str | None = None
) -> Any:
    """Return x where x > 0, else alpha · (exp(x) - 1).

    Args:
        x: any shape, floating or quantized.
        alpha: minus the limit at -inf.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.elu(md.asarray([-float("inf"), 3.0]), alpha=2.0).tolist()
        [-2.0, 3.0]

    Source: ONNX `Elu`; PyTorch, `torch.nn.functional.elu`; Clevert et al. 2015.
    """


@generic(deduce=same)
def selu(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return 1.0507 · elu(x, alpha=1.6733), which keeps mean 0 and variance 1.

    Args:
        x: any shape, floating or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.selu(md.asarray([0.0, 2.0])).tolist()
        [0.0, 2.1014020442962646]

    Source: ONNX `Selu`; PyTorch, `torch.nn.functional.selu`; Klambauer et al. 2017.
    """


@generic(deduce=numeric_rule("alpha"))
def celu(
    x: object, /, *, alpha: float = 1.0, out: object = None, rounding: str | None = None
) -> Any:
    """Return max(x, 0) + min(0, alpha · (exp(x / alpha) - 1)).

    Args:
        x: any shape, floating or quantized.
        alpha: not 0.
        out, rounding: grid and rounding rule of a quantized result.

    Raises:
        OptionError: alpha is 0 or not a number.

    Example:
        >>> import mdtensor as md
        >>> md.celu(md.asarray([-float("inf"), 3.0]), alpha=2.0).tolist()
        [-2.0, 3.0]

    Source: ONNX `Celu`; PyTorch, `torch.nn.functional.celu`; Barron 2017.
    """


@generic(deduce=same)
def sigmoid(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return 1 / (1 + exp(-x)), computed without overflow.

    Args:
        x: any shape, floating or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.sigmoid(md.asarray([0.0])).tolist()
        [0.5]

    Source: ONNX `Sigmoid`.
    """


@generic(deduce=same)
def logsigmoid(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return log(1 / (1 + exp(-x))), computed without overflow.

    Args:
        x: any shape, floating or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.logsigmoid(md.asarray([-1000.0, 1000.0])).tolist()
        [-1000.0, 0.0]

    Source: PyTorch, `torch.nn.functional.logsigmoid`.
    """


@generic(deduce=numeric_rule("beta"))
def softplus(
    x: object,
    /,
    *,
    beta: float = 1.0,
    threshold: float = 20.0,
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Return log(1 + exp(beta · x)) / beta, computed without overflow.

    float32 and float64 are within 5 units in the last place if beta is a power of two.
    Otherwise beta · x is rounded first, and exp makes up to |beta · x| units more of
    it; with `mdtensor.wide` the result is the nearest number, for five times the time.

    Args:
        x: any shape, floating or quantized.
        beta: not 0.
        threshold: above it beta · x counts as linear, and x is returned.
        out, rounding: grid and rounding rule of a quantized result.

    Raises:
        OptionError: beta is 0, or an option is not a number.

    Example:
        >>> import mdtensor as md
        >>> md.softplus(md.asarray([-1000.0, 1000.0])).tolist()
        [0.0, 1000.0]

    Source: ONNX `Softplus`; PyTorch, `torch.nn.functional.softplus`.
    """


@generic(deduce=same)
def softsign(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return x / (1 + abs(x)), element by element.

    Args:
        x: any shape, floating or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.softsign(md.asarray([-1.0, 3.0])).tolist()
        [-0.5, 0.75]

    Source: ONNX `Softsign`; PyTorch, `torch.nn.functional.softsign`.
    """


@generic(deduce=same)
def silu(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return x · sigmoid(x), also called swish.

    Args:
        x: any shape, floating or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.silu(md.asarray([0.0, 100.0])).tolist()
        [0.0, 100.0]

    Source: PyTorch, `torch.nn.functional.silu`; Elfwing et al. 2017.
    """


@generic(deduce=same)
def mish(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return x · tanh(softplus(x)), element by element.

    Args:
        x: any shape, floating or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.mish(md.asarray([0.0, 100.0])).tolist()
        [0.0, 100.0]

    Source: ONNX `Mish`; PyTorch, `torch.nn.functional.mish`; Misra 2019.
    """


@generic(deduce=infer_gelu)
def gelu(
    x: object,
    /,
    *,
    approximate: str = "none",
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Return x · Φ(x) = x · (1 + erf(x / √2)) / 2.

    Args:
        x: any shape, floating or quantized.
        approximate: "none", or "tanh" for
            x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) / 2.
        out, rounding: grid and rounding rule of a quantized result.

    Raises:
        OptionError: `approximate` is neither of them.

    Example:
        >>> import mdtensor as md
        >>> md.gelu(md.asarray([-100.0, 0.0, 100.0])).tolist()
        [-0.0, 0.0, 100.0]

    Source: ONNX `Gelu`; PyTorch, `torch.nn.functional.gelu`; Hendrycks and Gimpel 2016.
    """


@generic(deduce=infer_glu)
def glu(x: object, /, *, axis: int = -1) -> Any:
    """Return a · sigmoid(b), where a and b are the halves of x along `axis`.

    Args:
        x: any shape, floating.
        axis: of even size; PyTorch calls it `dim`.

    Raises:
        ShapeError: the size is odd.

    Example:
        >>> import mdtensor as md
        >>> md.glu(md.asarray([4.0, 0.0])).tolist()
        [2.0]

    Source: PyTorch, `torch.nn.functional.glu`; Dauphin et al. 2016.
    """
