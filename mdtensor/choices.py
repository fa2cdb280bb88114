"""Choices between numbers, element by element: `select` and `nan_to_num`.

They are chains of `where`, so they take every type and device that it takes.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

from mdtensor.compositions import as_real, as_tensor
from mdtensor.dispatch.composed import composed
from mdtensor.errors import OptionError, checked, shown
from mdtensor.generics.comparison import equal
from mdtensor.generics.math import isnan
from mdtensor.generics.sorting import where
from mdtensor.spec.options import number


@composed
def select(
    conditions: Sequence[Any], choices: Sequence[Any], /, default: Any = 0
) -> Any:
    """Return the choice of the first condition that holds, else `default`.

    Args:
        conditions: tensors of bools, at least one.
        choices: as many tensors or Python numbers; all broadcast with each other.
        default: where no condition holds, a tensor or a Python number.

    Returns:
        The promoted type of the choices and the default.

    Raises:
        OptionError: they are not lists of one length.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([-3, 1, 8])
        >>> md.select([x < 0, x > 5], [-x, 5], x).tolist()
        [3, 1, 5]

    Source: NumPy, `numpy.select`.
    """
    for name, given in (("conditions", conditions), ("choices", choices)):
        if not isinstance(given, (list, tuple)):
            problem = f"{name} is {shown(given)}, not a list"
            raise OptionError(problem, "Give a list of tensors", "select")
    if not conditions or len(conditions) != len(choices):
        problem = f"there are {len(conditions)} conditions and {len(choices)} choices"
        raise OptionError(problem, "Give one choice for each, at least one", "select")
    found = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        found = where(as_tensor(condition, "select"), choice, found)
    return found


@composed
def nan_to_num(
    x: Any,
    /,
    *,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Any:
    """Return `x` with numbers in the place of NaN and of infinities.

    Args:
        x: real, any shape.
        nan: what stands for NaN.
        posinf: what stands for the positive infinity; by default the largest number of
            the type of `x`.
        neginf: what stands for the negative infinity; by default the smallest number.

    Returns:
        The type of `x`; integers and bools stay as they are.

    Raises:
        DispatchError: `x` is complex or quantized.
        OptionError: an option is not a number.
        CastError: the type of `x` cannot represent a number.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([1.0, float("nan"), float("inf")])
        >>> md.nan_to_num(x, posinf=9.0).tolist()
        [1.0, 0.0, 9.0]

    Source: NumPy, `numpy.nan_to_num`; PyTorch, `torch.nan_to_num`.
    """
    x = as_tensor(x, "nan_to_num")
    if x.dtype.kind == "bool":
        return x
    x = as_real(x, "nan_to_num")
    if not x.dtype.is_floating:
        return x
    high = x.dtype.maximum if posinf is None else _number(x, posinf, "posinf")
    low = x.dtype.minimum if neginf is None else _number(x, neginf, "neginf")
    found = where(isnan(x), _number(x, nan, "nan"), x)
    return where(equal(x, -inf), low, where(equal(x, inf), high, found))


def _number(x: Any, value: object, name: str) -> Any:
    """Return a number that stands for others of `x`.

    Raises:
        OptionError: `value` is not one.
    """
    return checked("nan_to_num", (x,), lambda: number(value, name))
