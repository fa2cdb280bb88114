"""Exchanges of two axes: `swapaxes` and `rot90`."""

from typing import Any

from mdtensor.compositions import as_tensor
from mdtensor.dispatch.composed import composed
from mdtensor.errors import OptionError, ShapeError, checked, describe, shown
from mdtensor.generics.manipulation import flip, permute_dims
from mdtensor.spec.shapes import integers, is_size, normalize_axis


@composed
def swapaxes(x: Any, /, axis1: int, axis2: int) -> Any:
    """Exchange two axes; a view.

    Args:
        x: any shape, any type.
        axis1, axis2: counted from the front, or from the end if negative.

    Raises:
        ShapeError: an axis does not exist.

    Example:
        >>> import mdtensor as md
        >>> md.swapaxes(md.zeros((2, 3, 4)), 0, -1).shape
        (4, 3, 2)

    Source: NumPy, `numpy.swapaxes`; PyTorch, `torch.swapaxes`.
    """
    x = as_tensor(x, "swapaxes")
    one, other = (_place(x, axis, "swapaxes") for axis in (axis1, axis2))
    order = [*range(x.ndim)]
    order[one], order[other] = other, one
    return permute_dims(x, tuple(order))


@composed
def rot90(x: Any, /, k: int = 1, *, axes: tuple[int, int] = (0, 1)) -> Any:
    """Rotate by a quarter turn, from the first of two axes towards the second.

    Args:
        x: two axes or more, any type.
        k: how many quarter turns; below 0 in the other direction.
        axes: the two axes of the plane.

    Returns:
        A view where `flip` and `permute_dims` return one.

    Raises:
        ShapeError: an axis does not exist, or both are the same one.
        OptionError: `k` is not an integer, or `axes` not two of them.

    Example:
        >>> import mdtensor as md
        >>> md.rot90(md.asarray([[1, 2], [3, 4]])).tolist()
        [[2, 4], [1, 3]]

    Source: NumPy, `numpy.rot90`; PyTorch, `torch.rot90`.
    """
    x, call = as_tensor(x, "rot90"), describe("rot90", x)
    if not is_size(k):
        raise OptionError(f"k is {shown(k)}", "Give an integer", call)
    given = checked("rot90", (x,), lambda: integers(axes, "axes", "Give two axes"))
    if len(given) != 2:
        raise OptionError(f"axes is {shown(axes)}", "Give two axes", call)
    first, second = (_place(x, axis, "rot90") for axis in given)
    if first == second:
        raise ShapeError(f"axes {given} are the same axis", "Give two axes", call)
    turns = int(k) % 4
    if turns in (0, 2):
        return flip(x, axis=(first, second)) if turns else x
    if turns == 1:
        return swapaxes(flip(x, axis=second), first, second)
    return flip(swapaxes(x, first, second), axis=second)


def _place(x: Any, axis: int, name: str) -> int:
    """Return an axis of `x`, counted from the front.

    Raises:
        ShapeError: it does not exist.
    """
    return checked(name, (x,), lambda: normalize_axis(axis, x.ndim))
