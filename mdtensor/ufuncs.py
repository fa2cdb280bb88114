"""NumPy's ufuncs on tensors: `numpy.add(x, y)`, `array += x`, `scipy.special.expit(x)`.

A ufunc with a counterpart here runs our operation. Any other one, NumPy's, SciPy's or
your own, runs on the arrays of the tensors, and its results become tensors again. An
array that the caller passes as `out=`, as `array += x` does, receives the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.coercion import typed_array
from mdtensor.dispatch.operation import Operation
from mdtensor.errors import (
    CastError,
    DispatchError,
    OptionError,
    PromotionError,
    ShapeError,
    WriteError,
    describe,
    shown,
    type_and_shape,
)
from mdtensor.foreign import require_operand
from mdtensor.generics import arithmetic, comparison, math
from mdtensor.generics.matmul import matmul
from mdtensor.interop import Interchange

#: NumPy's ufuncs under our names, where those differ.
_RENAMED = {
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "negative": "neg",
    "absolute": "abs",
    "power": "pow",
    "conjugate": "conj",
    "rint": "round",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "arctan2": "atan2",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
}
#: Ufuncs whose `reduce` has a counterpart here: `numpy.add.reduce` is `sum`.
_REDUCED = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
#: The modules that declare the counterparts of ufuncs.
_FAMILIES = arithmetic, comparison, math
#: The axes of matrices, which `array @= x` passes although they are the default.
_MATRICES = [(-2, -1)] * 3


def run(ufunc: np.ufunc, how: str, operands: Any, options: dict[str, Any]) -> Any:
    """Return the result of `ufunc`, which NumPy calls with a tensor as an operand.

    Args:
        ufunc: NumPy's function.
        how: `__call__`, or the name of a method such as `reduce`.
        operands: tensors, arrays and numbers.
        options: the keyword arguments, with `out` as a tuple.

    Raises:
        DispatchError: options such as `where=`, or a method of the ufunc, which do not
            have a counterpart here.
        MdtensorError: what our operation raises, or the result does not fit `out`.
    """
    rest = {name: value for name, value in options.items() if name != "out"}
    if ufunc is np.matmul and rest.get("axes") == _MATRICES:
        del rest["axes"]
    if how != "__call__" or rest:
        raise _no_counterpart(ufunc, how, operands)
    found = _compute(ufunc, operands)
    if "out" not in options:
        return found
    several = found if isinstance(found, tuple) else (found,)
    pairs = zip(several, options["out"], strict=True)
    written = tuple(_write(ufunc, x, out, operands) for x, out in pairs)
    return written if isinstance(found, tuple) else written[0]


def _no_counterpart(ufunc: np.ufunc, how: str, operands: Any) -> DispatchError:
    method = "" if how == "__call__" else f".{how}"
    ours = _REDUCED.get(ufunc.__name__) if how == "reduce" else None
    return DispatchError(
        f"numpy.{ufunc.__name__}{method} with these options has no counterpart here"
        if not method
        else f"numpy.{ufunc.__name__}{method} has no counterpart here",
        f"Use mdtensor.{ours}(x), or numpy.asarray(x) to leave mdtensor"
        if ours
        else "Use numpy.asarray(x) to leave mdtensor",
        f"{ufunc.__name__}({', '.join(map(type_and_shape, operands))})",
    )


def _compute(ufunc: np.ufunc, operands: Any) -> Any:
    """Return the result of our counterpart of `ufunc`, or of `ufunc` itself."""
    if ufunc is np.divmod:
        quotient = arithmetic.floor_divide(*operands)
        return quotient, arithmetic.remainder(*operands)
    operation = _counterpart(ufunc)
    return (
        _run_on_arrays(ufunc, operands) if operation is None else operation(*operands)
    )


def _counterpart(ufunc: np.ufunc) -> Any:
    """Return our operation for one of NumPy's ufuncs, or None."""
    name = ufunc.__name__
    # Another package's function of the same name may be another function.
    if getattr(np, name, None) is not ufunc:
        return None
    if ufunc is np.matmul:
        return matmul
    ours = _RENAMED.get(name, name)
    found = next((vars(f)[ours] for f in _FAMILIES if ours in vars(f)), None)
    return found if hasattr(found, "select") else None


def _run_on_arrays(ufunc: np.ufunc, operands: Any) -> Any:
    """Return the results of `ufunc` on arrays as tensors."""
    call = describe(ufunc.__name__, *operands)
    for x in operands:
        require_operand(x)
        if isinstance(x, (list, tuple)):
            typed_array(x)  # raises for masks and units of the elements
    arrays = [x.__array__() if isinstance(x, Interchange) else x for x in operands]
    try:
        # Our operations ignore the flags of floating-point arithmetic, too.
        with np.errstate(all="ignore"):
            found = ufunc(*arrays)
    except TypeError as error:
        problem = f"NumPy's function does not take these types: {shown(str(error))}"
        fix = "Use astype(x, float32), or another type that it takes"
        raise DispatchError(problem, fix, call) from None
    except OverflowError as error:
        raise CastError(f"{error}", "Use a wider type", call) from None
    except ValueError as error:
        raise ShapeError(f"{error}", "Make the shapes fit", call) from None
    if isinstance(found, tuple):
        return tuple(map(Operation.from_numpy, found))
    return Operation.from_numpy(found)


def _write(ufunc: np.ufunc, result: Any, out: Any, operands: Any) -> Any:
    """Write a result into `out`, a tensor or an array, and return `out`."""
    if out is None:
        return result
    if isinstance(out, Interchange):
        return Operation.write(out, result, ufunc.__name__, operands)
    call = describe(ufunc.__name__, *operands)
    if not isinstance(out, np.ndarray):
        problem = f"out is a {type(out).__name__}"
        raise OptionError(problem, "Give a tensor or an array", call)
    require_operand(out)
    if not out.flags.writeable:
        raise WriteError("out is read-only", "Give an array that you may write", call)
    array = result.__array__()
    if not np.can_cast(array.dtype, out.dtype, "same_kind"):
        problem = (
            f"cannot write a result of dtype {result.dtype} into out of dtype "
            f"{out.dtype}"
        )
        fix = f"Give an array of dtype {result.dtype}"
        raise PromotionError(problem, fix, call)
    if array.shape != out.shape:
        problem = f"the result has shape {array.shape}, but out has {out.shape}"
        raise ShapeError(problem, "Give an array of the result's shape", call)
    np.copyto(out, array, casting="same_kind")
    return out
