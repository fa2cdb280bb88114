"""The error of a call that no method fits, or more than one: types only, no values.

Names the first argument that rules out the nearest method, the nearest methods with
their places, and a way out: what the type of that argument suggests (`remedy` of its
class), or a cast after which a method fits.
"""

from __future__ import annotations

from typing import Any

from mdtensor import dtypes
from mdtensor.dtypes import DType
from mdtensor.errors import DispatchError

SHOWN = 3
#: Casts that are tried, in this order.
CASTS = (
    dtypes.float32,
    dtypes.int64,
    dtypes.bool_,
    dtypes.complex64,
    dtypes.complex128,
)
#: What holds numbers, and is no tensor.
_VALUES = (list, tuple, bool, int, float, complex)


def ambiguous(operation: Any, types: tuple[type, ...]) -> DispatchError:
    """Two or more methods fit, and none is more specific than all others."""
    fits = [m for m in operation.methods if all(m.fitting(types))]
    call = called(operation, types)
    return DispatchError("more than one method fits", f"Fitting: {_listed(fits)}", call)


def no_method(operation: Any, types: tuple[type, ...]) -> DispatchError:
    """No method fits."""
    call = called(operation, types)
    nearest = sorted(operation.methods, key=lambda m: -sum(m.fitting(types)))[:SHOWN]
    if not nearest:
        return DispatchError("no method", "Nothing is registered yet", call)
    problem, culprit = _culprit(operation, types, nearest[0])
    listed = f"Nearest: {_listed(nearest)}"
    remedy = _remedy(culprit) or _cast(operation, types, nearest[0])
    return DispatchError(problem, f"{remedy}. {listed}" if remedy else listed, call)


def undeclared(
    operation: Any, types: tuple[type, ...], name: str, given: type, want: str
) -> DispatchError:
    """An argument is of a type that the declaration rules out."""
    problem = f"{name} is {given.__name__}, not {want}"
    return DispatchError(problem, _remedy(given), called(operation, types))


def called(operation: Any, types: tuple[type, ...]) -> str:
    """`add(Float32Tensor, str)`."""
    return f"{operation.name}({', '.join(t.__name__ for t in types)})"


def _listed(methods: list[Any]) -> str:
    return "; ".join(f"{m} at {m.location}" for m in methods)


def _culprit(
    operation: Any, types: tuple[type, ...], nearest: Any
) -> tuple[str, type | None]:
    """The first argument that does not fit, in words, and its type."""
    one = [f"{operation.dispatched[0]}[{at}]" for at in range(len(types))]
    names = one if operation.sequence else operation.dispatched
    wanted = nearest.wanted(len(types))
    columns = zip(names, types, wanted, nearest.fitting(types), strict=False)
    for name, given, want, fits in columns:
        if not fits:
            return f"no method: {name} is {given.__name__}, not {want}", given
    return "no method", None


def _remedy(given: type | None) -> str:
    if given is None:
        return ""
    if given.__module__.startswith("numpy") or given in _VALUES:
        return "Use asarray(a) to make it a tensor"
    if hasattr(given, "__dlpack__") and not hasattr(given, "with_dtype"):
        return "Use from_dlpack(a) to make it a tensor"
    return str(getattr(given, "remedy", ""))


def _cast(operation: Any, types: tuple[type, ...], nearest: Any) -> str:
    """A cast of the tensors that do not fit, with which a method is found."""
    fitting = nearest.fitting(types)
    castable: list[Any] = [
        t for t, fits in zip(types, fitting, strict=False) if not fits
    ]
    if not all(isinstance(getattr(t, "dtype", None), DType) for t in castable):
        return ""
    widest = max((t.dtype.bits for t in castable if t.dtype.is_floating), default=0)
    for dtype in CASTS:
        if dtype.is_complex and dtype.bits < 2 * widest:
            continue
        to = {t: t.with_dtype(dtype) for t in castable}
        cast = tuple(to.get(t, t) for t in types)
        if any(method.accepts(cast) for method in operation.methods):
            return f"Use astype(x, {dtype})"
    return ""
