"""Arrays whose references nobody counts, for loops that slice in each iteration.

numba counts the references of an array with atomic instructions, several for each
slice: in a short loop they take as long as its elements.
"""

from llvmlite import ir
from numba.extending import intrinsic, overload


def borrowed(array):
    """Return `array` as a view that does not keep its memory alive.

    The view must not outlive the array: pass arrays that the caller of a kernel holds.
    """
    return array


@overload(borrowed, inline="always")
def _borrowed(array):
    def borrow(array):
        return _without_owner(array)

    return borrow


@intrinsic
def _without_owner(typingctx, array):
    """Return the array without the object that counts its references."""

    def emit(context, b, signature, arguments):
        found = context.make_array(signature.args[0])(context, b, arguments[0])
        for field in ("meminfo", "parent"):
            nothing = ir.Constant(getattr(found, field).type, None)
            setattr(found, field, nothing)
        return found._getvalue()

    return array(array), emit
