"""Layer norm and RMS norm of codes: exact integer sums, each result rounded once.

Weights and biases are floats. `kernels/cpu/generic/normalization.py` has the formulas.
"""

from fractions import Fraction
from math import prod
from typing import Any, NamedTuple, Union

import numpy as np
import numpy.typing as npt

from mdtensor import (
    CastError,
    FloatingTensor,
    OptionError,
    TensorSpec,
    layer_norm,
    method,
    rms_norm,
)
from mdtensor.errors import checked, describe
from mdtensor.extend import number
from mdtensor.kernels.cpu.generic.row_limits import NORM_LENGTH
from mdtensor.kernels.cpu.program import norms
from mdtensor.quant import exact
from mdtensor.quant.codes import unsigned_grid
from mdtensor.quant.deduction import rounded_norm
from mdtensor.quant.ops.errors import require_out
from mdtensor.quant.ops.kernels import (
    NotCompiled,
    make_step,
    require_one_grid,
    require_output_grid,
)
from mdtensor.quant.presets import rounding_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import NarrowTensor, QuantizedTensor, quantized, spec_of

Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]
Weight = Union[FloatingTensor, None]
#: float64 holds every term of a result within these limits.
LARGEST = Fraction(2) ** 300
#: The relative error of a term in float64 is below this.
ERROR = 2.0**-48


class Norm(NamedTuple):
    """The exact numbers of a norm, in steps of its result.

    Args:
        is_centered: layer norm, or else RMS norm.
        spread: eps over the square of the scale of the argument.
        weights, biases: one for each code of a row.
    """

    is_centered: bool
    spread: Fraction
    weights: list[Fraction]
    biases: list[Fraction]


def _norm_of(
    name: str, x: Any, weight: Any, bias: Any, options: dict[str, Any], grid: QParams
) -> Norm:
    """Return the numbers of a call.

    Raises:
        CastError: a weight or a bias is not finite.
        OptionError: the rows are longer than sums of codes may be.
    """
    sizes = options["normalized_shape"]
    length = sizes if isinstance(sizes, int) else prod(sizes)
    if length > NORM_LENGTH:
        problem = f"a row has {length} codes, and sums of them have {NORM_LENGTH}"
        raise OptionError(f"{problem} at most", "Use dequantize(x) first", name)
    eps = options["eps"]
    # `rms_norm` takes None for the eps of the type that computes.
    least = float(np.finfo(np.float32).eps) if eps is None else number(eps, "eps")
    spread = Fraction(least) / x.qparams.fraction**2
    numbers = [
        [Fraction(default)] * length if given is None else _fractions(name, given)
        for given, default in ((weight, 1), (bias, 0))
    ]
    in_steps = [[n / grid.fraction for n in each] for each in numbers]
    return Norm(name == "layer_norm", spread, *in_steps)


def _fractions(name: str, weights: Any) -> list[Fraction]:
    values = np.asarray(weights).astype(np.float64).reshape(-1)
    if not np.isfinite(values).all():
        raise CastError(
            "a weight or bias is not finite, and codes are", "Replace it", name
        )
    return [Fraction(value) for value in values.tolist()]


def _prepare(
    name: str, x: TensorSpec, weight: Any, bias: Any, options: dict[str, Any]
) -> norms.Normalize:
    """Return the step of a norm with constant weights.

    Raises:
        NotCompiled: kernels cannot compute it.
    """
    if any(isinstance(given, TensorSpec) for given in (weight, bias)):
        raise NotCompiled("kernels need constant weights and biases")
    source = unsigned_grid(require_one_grid(x))
    target = unsigned_grid(require_output_grid(options.get("out")))
    norm = _norm_of(name, x, weight, bias, options, target)
    return make_step(
        lambda: norms.Normalize(norm.is_centered, source.zero, *norm[1:], target.zero)
    )


def layer_norm_step(
    x: TensorSpec, weight: Any, bias: Any, /, **options: Any
) -> norms.Normalize:
    return _prepare("layer_norm", x, weight, bias, options)


def rms_norm_step(x: TensorSpec, weight: Any, /, **options: Any) -> norms.Normalize:
    return _prepare("rms_norm", x, weight, None, options)


@method(layer_norm, deduce=rounded_norm, prepare=layer_norm_step)
def layer_norm(
    x: NarrowTensor,
    weight: Weight,
    bias: Weight,
    /,
    *,
    normalized_shape: object,
    eps: float,
    out: QParams | None = None,
) -> QuantizedTensor:
    options = {"normalized_shape": normalized_shape, "eps": eps, "out": out}
    return _normalize("layer_norm", x, weight, bias, options)


@method(rms_norm, deduce=rounded_norm, prepare=rms_norm_step)
def rms_norm(
    x: NarrowTensor,
    weight: Weight,
    /,
    *,
    normalized_shape: object,
    eps: float | None,
    out: QParams | None = None,
) -> QuantizedTensor:
    options = {"normalized_shape": normalized_shape, "eps": eps, "out": out}
    return _normalize("rms_norm", x, weight, None, options)


def _normalize(
    name: str, x: QuantizedTensor, weight: Any, bias: Any, options: dict[str, Any]
) -> QuantizedTensor:
    """Return the norm of `x` on the grid `out`."""
    given = [None if w is None else spec_of(w) for w in (weight, bias)]
    specs = given if name == "layer_norm" else given[:1]
    # Shapes first, as in inference.
    checked(name, (x,), lambda: rounded_norm.rule(spec_of(x), *specs, **options))
    grid = require_out(name, options["out"], x)
    # Raises for every rule but the exact one, because no library has another.
    rounding_rule(name, grid)
    norm = _norm_of(name, x, weight, bias, options, grid)
    rows = exact.steps_of(x).reshape(-1, len(norm.weights) or 1)
    steps = _steps(name, x, rows, norm) if rows.size else rows
    return quantized(exact.to_codes(steps.reshape(x.shape), grid), grid)


def _steps(name: str, x: QuantizedTensor, rows: IntArray, norm: Norm) -> IntArray:
    """Return the rounded results of rows of steps, limited to ±2**40."""
    n = rows.shape[1]
    energy = (rows * rows).sum(axis=1, keepdims=True)
    deviations, spread, factor = rows, norm.spread * n, n
    if norm.is_centered:
        totals = rows.sum(axis=1, keepdims=True)
        deviations, energy = n * rows - totals, n * energy - totals * totals
        spread, factor = norm.spread * n * n, 1
    if not norm.spread and not energy.all():
        problem = "a row has no variance, and eps is 0: the result is 0 / 0"
        raise CastError(problem, "Pass eps above 0", describe(name, x))
    return _round(deviations, energy, spread, factor, norm)


def _round(
    deviations: IntArray, energy: IntArray, spread: Fraction, factor: int, norm: Norm
) -> IntArray:
    """Return round(d * w / sqrt((v + spread) / factor) + b), half to even, exact.

    float64 decides all results but near ties, and rational numbers decide these.
    """
    numbers = [abs(n) for n in (spread, *norm.weights, *norm.biases) if n]
    is_finite = all(1 / LARGEST < n < LARGEST for n in numbers)
    held = norm if is_finite else Norm(True, Fraction(0), [Fraction(0)], [Fraction(0)])
    gains, offsets = (np.array([*map(float, n)]) for n in (held.weights, held.biases))
    addend = float(spread) if is_finite else 1.0
    products = deviations * np.sqrt(factor / (energy + addend)) * gains
    total = products + offsets
    nearest = np.rint(np.clip(total, -exact.LARGE, exact.LARGE))
    error = (np.abs(products) + np.abs(offsets)) * ERROR
    doubt = np.abs(np.abs(total - nearest) - 0.5) <= error
    doubt |= not is_finite
    found: IntArray = nearest.astype(np.int64)
    for row, column in zip(*np.nonzero(doubt), strict=True):
        value = int(deviations[row, column]) * norm.weights[column]
        square = (int(energy[row, 0]) + spread) / factor
        found[row, column] = _round_root(value, square, norm.biases[column])
    return found


def _round_root(value: Fraction, square: Fraction, bias: Fraction) -> int:
    """Return round(value / sqrt(square) + bias), half to even, limited to ±2**40."""
    low, high = -int(exact.LARGE), int(exact.LARGE)
    # The number of ties below the result, by bisection.
    while low < high:
        middle = (low + high) // 2
        tie = middle + Fraction(1, 2) - bias
        a, b = value * abs(value), tie * abs(tie) * square
        if a > b or (a == b and middle % 2):
            low = middle + 1
        else:
            high = middle
    return low
