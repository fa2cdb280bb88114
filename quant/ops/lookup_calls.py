"""Calls and steps of functions of one code: lookup tables, each entry rounded once."""

from collections.abc import Callable
from math import inf
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import (
    CastError,
    GridError,
    OptionError,
    TensorSpec,
    clip,
    relu,
)
from mdtensor.errors import checked, describe, shown
from mdtensor.kernels.cpu.program import steps
from mdtensor.quant import exact
from mdtensor.quant.codes import unsigned_grid
from mdtensor.quant.deduction import (
    on_input_grid,
)
from mdtensor.quant.dtypes import qint16
from mdtensor.quant.grids.combine import by_pieces, singles
from mdtensor.quant.lookup import build, int16
from mdtensor.quant.ops.bound import Run, bind_step
from mdtensor.quant.ops.errors import (
    require_out,
)
from mdtensor.quant.ops.kernels import (
    NotCompiled,
    find_step,
    require_one_grid,
    require_output_grid,
)
from mdtensor.quant.presets import rounding_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    QuantizedTensor,
    quantized,
    spec_of,
)

Array = npt.NDArray[Any]
#: A bound of clip; None does not bound.
Bound = float | None


def lookup_step(
    function: build.Function, x: TensorSpec, out: QParams | None
) -> steps.Lookup:
    """Return the step that looks codes up in the table of `function`.

    Raises:
        NotCompiled: kernels cannot compute it, or a code does not have a value.
    """
    # A compiled step cannot raise for single codes, so each code needs a value.
    is_partial = isinstance(function, build.Partial)
    if is_partial and build.outside_domain(function, require_one_grid(x)).any():
        raise NotCompiled("a compiled step needs a value for every code")
    return _lookup(function, x, out)


def step_of(function: build.Function) -> Callable[..., steps.Lookup]:
    """Return the function that prepares the lookup step of `function`."""

    def prepare(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
        return lookup_step(function, x, out)

    return prepare


# Equal grids and functions share one table, since building 256 exact values is slow.
def _lookup(
    function: build.Function, x: TensorSpec, out: QParams | None
) -> steps.Lookup:
    source, target = (
        unsigned_grid(require_one_grid(x)),
        unsigned_grid(require_output_grid(out)),
    )
    return steps.Lookup(build.lookup_table(function, source, target))


def bind_lookup(
    operation: Callable[..., Any],
    function: build.Function,
    x: QuantizedTensor,
    out: QParams | None,
    **options: Any,
) -> Run:
    """Bind the call of a function of codes, rounded to `out` by its rule.

    Args:
        operation: the same function of floats, called with `options`.
        function: of one rational number, exact.
        x: the argument.
        out: the grid of the result; required.
    """
    name = operation.__name__
    grid = require_out(name, out, x)
    # A rounding rule computes by itself, so no exact table is built for it.
    if rounding_rule(name, grid):
        return _bind_rule(name, function, grid, options)
    by_table = bind_table(operation, function, x, grid, options)
    if not isinstance(function, build.Partial):
        return by_table

    def run(x: QuantizedTensor) -> Any:
        # Elements are not part of the key, so this check runs at each call.
        _require_defined(name, function, x)
        return by_table(x)

    return run


def _bind_rule(
    name: str, function: build.Function, grid: QParams, options: dict[str, Any]
) -> Run:
    """Bind the codes of `function` on `grid`, by the rounding rule in force."""

    def run(x: QuantizedTensor) -> Any:
        if isinstance(function, build.Partial):
            _require_defined(name, function, x)
        return rounding_rule(name, grid)(function, x, grid, **options)

    return run


def bind_table(
    operation: Callable[..., Any],
    function: build.Function,
    x: QuantizedTensor,
    grid: QParams,
    options: dict[str, Any],
) -> Run:
    """Bind the codes of `function` on `grid`, rounded exactly, for any scales."""
    step, dtype = find_step(_lookup, function, spec_of(x), out=grid), x.dtype
    if step:
        return bind_step(step, x, grid=grid)

    def codes(given: Array, source: QParams) -> Array:
        # 65,536 exact values take seconds, so float64 decides most of them (decision
        # 0045).
        if dtype is qint16:
            table = int16.steps(operation, function, source, grid, options)
            return exact.to_codes(table[given.astype(np.int64) + 2**15], grid)
        # Blocks have few distinct codes, and each exact value is slow to compute.
        distinct, which = np.unique(given, return_inverse=True)
        steps = build.steps_of(function, distinct.tolist(), source, grid)
        return exact.to_codes(
            np.array(steps, np.int64)[which.reshape(given.shape)], grid
        )

    def run(x: QuantizedTensor) -> QuantizedTensor:
        found = by_pieces(codes, grid.dtype.storage, (x.code_array, x.qparams))
        return quantized(found, grid)

    return run


def _require_defined(name: str, function: build.Partial, x: QuantizedTensor) -> None:
    """Raise CastError if the real value of a code is outside the function's domain."""

    def which(codes: Array, grid: QParams) -> Array:
        return build.outside_domain(function, grid)[codes.view(np.uint8)]

    codes = x.codes.buffer
    without = by_pieces(which, np.bool_, (codes, x.qparams))
    if without.any():
        number = float(exact.reals(x)[without][0])
        raise CastError(
            f"{name} is defined for numbers {function.where}; "
            f"code {codes[without][0]} stands for {number:g}",
            "Use clip, or mask these codes first",
            describe(name, x),
        )


def bind_clip_between(
    operation: Callable[..., Any],
    x: QuantizedTensor,
    low: Bound,
    high: Bound,
    out: QParams | None,
    **options: Any,
) -> Run:
    """Bind relu or clip like `bind_lookup`; without `out` on the grid of `x`."""
    function = build.relu if operation is relu else build.clip(low, high)
    if out is not None:
        return bind_lookup(operation, function, x, out, **options)
    if x.qparams.axis is None:
        return bind_table(operation, function, x, x.qparams, options)
    # The bounds are codes on each grid, or beyond it, so clipping codes clips numbers
    # exactly, without one table for each scale.
    ends = (_codes_at(x.qparams, end) for end in (low, high))
    first, last = (x.qparams.along(end, x.shape) for end in ends)

    def run(x: QuantizedTensor) -> QuantizedTensor:
        given = codes = x.code_array
        if low is not None:
            codes = np.maximum(codes, first)
        if high is not None:
            codes = np.minimum(codes, last)
        return quantized(codes.astype(given.dtype), x.qparams)

    return run


def _codes_at(grid: QParams, bound: Bound) -> Array:
    """Return the code of `bound` on each grid, clipped to its range."""
    zeros = grid.zero_point.reshape(-1).tolist()
    # Fractions: a quotient in float64 could round to a neighbouring code.
    number = build.exactly(0 if bound is None else bound)
    codes = [
        min(max(round(number / scale) + zero, grid.minimum), grid.maximum)
        for scale, zero in zip(grid.fractions, zeros, strict=True)
    ]
    return np.array(codes, np.int64).reshape(grid.scale.shape)


def read_bounds(low: Any, high: Any) -> tuple[Bound, Bound]:
    """Return both bounds, checked; None for a bound that is infinite or missing."""
    for end in (low, high):
        # Only NaN differs from itself.
        if not isinstance(end, (Real, type(None))) or end != end:
            raise OptionError(f"a bound is {shown(end)}", "Pass numbers, or None")
    low, high = map(_plain, (low, high))
    if None not in (low, high) and low > high:
        raise OptionError(f"min {low} is above max {high}", "Swap them")
    # No finite number lies above +inf or below -inf, so nothing could be returned.
    if inf in (low, -high if high is not None else None):
        problem = f"no finite number lies between min {low} and max {high}"
        raise OptionError(problem, "Pass finite bounds")
    return None if low == -inf else low, None if high == inf else high


def _plain(bound: Any) -> Any:
    """Return a bound as Python's own number, which caches of functions may hold."""
    # `real` of a subclass of a number is of the class above it.
    number = bound.item() if isinstance(bound, np.generic) else bound
    return getattr(number, "real", None)


def require_exact_bounds(grid: QParams, low: Bound, high: Bound) -> None:
    """Raise GridError if a bound that has an effect is not a code of `grid`."""
    for single in singles(grid):
        _require_codes(single, low, high)


def _require_codes(grid: QParams, low: Bound, high: Bound) -> None:
    first, last = grid.range
    # A bound beyond the range does not change any code, so it need not be a code.
    effective = [low] if low is not None and low > first else []
    effective += [high] if high is not None and high < last else []
    for end in effective:
        is_code = (build.exactly(end) / grid.fraction).denominator == 1
        if not (is_code and first <= end <= last):
            where = "between two codes" if first <= end <= last else "past the codes"
            raise GridError(
                f"{end} is {where} of ({grid.describe()})", "Pass out=QParams(...)"
            )


def bind_clip(
    operation: Callable[..., Any],
    x: QuantizedTensor,
    low: object,
    high: object,
    out: QParams | None,
) -> Run:
    """Bind min(max(x, low), high), on the grid of `x` or on `out`."""
    name = operation.__name__
    low, high = checked(name, (x,), lambda: read_bounds(low, high))
    if out is None:
        checked(name, (x,), lambda: require_exact_bounds(x.qparams, low, high))
    options = {"min": low, "max": high} if operation is clip else {}
    return bind_clip_between(operation, x, low, high, out, **options)


def infer_clip(
    x: TensorSpec, /, *, min: object, max: object, out: QParams | None = None
) -> TensorSpec:
    """Infer clip on the grid `out`, or on the grid of `x` if it holds the bounds."""
    found = on_input_grid.rule(x, out=out)
    low, high = read_bounds(min, max)
    if out is None:
        require_exact_bounds(x.qparams, low, high)
    return found


def clip_step(
    x: TensorSpec, /, *, min: object, max: object, out: QParams | None = None
) -> steps.Lookup:
    low, high = read_bounds(min, max)
    if out is None:
        require_exact_bounds(x.qparams, low, high)
    return lookup_step(build.clip(low, high), x, out or x.qparams)
