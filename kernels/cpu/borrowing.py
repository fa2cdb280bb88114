"""Arrays whose references nobody counts, for loops that slice in each iteration.

numba counts the references of an array with atomic instructions, several for each
slice: in a short loop they take as long as its elements.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numba.np import arrayobj

from mdtensor.kernels.cpu import vectors


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


def hold(arrays):
    """Keep a tuple of arrays alive up to here, for views of them that are borrowed.

    An array that a kernel made is freed after its last use, and a view is none.
    """


@overload(hold, inline="always")
def _hold(arrays):
    def keep(arrays):
        vectors.keep(arrays)

    return keep


def place_in_memory(array):
    """Return the address of an array for `borrowed_part`; 0 in plain Python."""
    return 0


@overload(place_in_memory, inline="always")
def _place_in_memory(array):
    def place(array):
        return vectors.address_of(array, 0)

    return place


# A tuple of arrays has no places, so an array of it is found by comparing numbers, and
# numba's slices check limits (decision 0119).
def borrowed_part(arrays, places, source, first, count):
    """Return arrays[source][first : first + count], which must be within the array.

    Args:
        arrays: a tuple of contiguous 1-D arrays of one type.
        places: int64 1-D, `place_in_memory` of each.
    """
    return arrays[source][int(first) : int(first) + int(count)]


@overload(borrowed_part, inline="always")
def _borrowed_part(arrays, places, source, first, count):
    def part(arrays, places, source, first, count):
        return _part_at(places[source], first, count, arrays[0])

    return part


@intrinsic
def _part_at(typingctx, place, first, count, like):
    """Return `count` elements from `first` on of the array at an address."""

    def emit(context, b, signature, arguments):
        place, first, count, _ = arguments
        made = context.make_array(signature.return_type)(context, b)
        kind = made.data.type
        size = context.get_constant(types.intp, context.get_abi_sizeof(kind.pointee))
        arrayobj.populate_array(
            made,
            data=b.inttoptr(b.add(place, b.mul(first, size)), kind),
            shape=[count],
            strides=[size],
            itemsize=size,
            meminfo=None,
        )
        return made._getvalue()

    integer = types.int64
    return like(integer, integer, integer, like), emit
