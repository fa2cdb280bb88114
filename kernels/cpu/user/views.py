"""Views of tensors inside compiled functions: `view[i]`, `view[i] = value`.

A view is a pointer with sizes, made from an address at the start of a piece. It needs
no memory and no reference count, and LLVM sees plain loads (decision 0012). An index
outside of the view raises IndexError, and LLVM vectorizes such loops all the same.

    Contiguous   view[i] of any rank            data[i]
    Strided      view[i] of any rank            a chain of quotients; stride 0 repeats
    Ranked       view[i, j, ...]                the innermost stride is known if `dense`
    Row          read(view, j), write(...)      a line of an operation, without checks

Geometry is an int64 array [2, ndim]: sizes, then strides in bytes.
"""

import operator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import (
    intrinsic,
    make_attribute_wrapper,
    models,
    overload,
    overload_attribute,
    register_jitable,
    register_model,
)

from mdtensor.kernels.cpu.generic import bfloat16, float16
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.numpy import float8
from mdtensor.kernels.numpy.float16 import is_narrow

# Elements of narrow floats are read as float32, which is exact; all others keep their
# type. A written value is rounded once to the storage type, half to even, and integers
# wrap.
# Floats cannot be written to integers, nor complex numbers to floats, since that would
# lose more than rounding does.

OURS = {"float16": float16, "bfloat16": bfloat16}
#: The beginning of a message for users, which separates it from numba's own text.
MARK = "mdtensor: "

compiled = register_jitable(error_model="numpy")


class Element(NamedTuple):
    """The element type of an operand, by name, and whether it may be written."""

    name: str
    writes: bool = False

    @property
    def is_narrow(self):
        """Return whether elements are floats that are computed in float32."""
        return is_narrow(np.dtype(self.name))

    @property
    def storage(self):
        """Return numba's type of an element in memory."""
        bits = f"uint{8 * self.size}"
        return from_dtype(np.dtype(bits if self.is_narrow else self.name))

    @property
    def compute(self):
        """Return numba's type of an element in a function."""
        return types.float32 if self.is_narrow else self.storage

    @property
    def casts(self):
        """Return the module or tuple with `widen` and `narrow` of a narrow float."""
        return OURS.get(self.name) or float8_casts(self.name)

    @property
    def widen(self):
        """Return the cast from storage to compute type, or None if they are equal."""
        return self.casts.widen if self.is_narrow else None

    @property
    def size(self):
        """Return the bytes of an element."""
        return np.dtype(self.name).itemsize


def converter(element, value):
    """Return the function that casts numbers of type `value` to bits of `element`.

    Return None if numba's own cast gives the right result.

    Raises:
        TypingError: values of this type cannot be written to the element.
    """
    value = types.unliteral(value)
    problem = loss(element, value)
    if problem:
        raise TypingError(f"{MARK}{problem}")
    if not element.is_narrow:
        return None
    # Rounding to float32 first, and then to 16 bits, could round twice, so a float64
    # goes through a float32 rounded to odd.
    narrow = element.casts.narrow
    if value == types.float32:
        return narrow
    return compiled(lambda value: narrow(to_odd(np.float64(value))))


def loss(element, value):
    """Return the problem with writing a `value` to `element`, or an empty text."""
    if not element.writes:
        return "the function writes to a read-only view"
    if not isinstance(value, types.Number | types.Boolean):
        kind = "nothing" if isinstance(value, types.NoneType) else str(value)
        return f"{kind} is written to elements of {element.name}"
    rank, wanted = _rank(value), _rank(element.compute)
    if rank > wanted:
        return f"{value} is written to elements of {element.name}"
    return ""


def _rank(kind):
    """Return the rank of a type: bool, integer, float, complex, in this order."""
    if isinstance(kind, types.Boolean):
        return 0
    if isinstance(kind, types.Integer):
        return 1
    return 2 if isinstance(kind, types.Float) else 3


@kernel
def to_odd(x):
    """Round a float64 to float32: if inexact, to the neighbour whose last bit is 1.

    Rounding the result to fewer bits equals rounding `x` itself.

    Source: S. Boldo, G. Melquiond, "When double rounding is odd".
    """
    near = np.float32(x)
    bits = near.view(np.uint32)
    is_beyond = np.abs(np.float64(near)) > np.abs(x)
    below = np.uint32(bits - np.uint32(is_beyond))
    odd = np.uint32(below | np.uint32(1))
    return np.uint32(bits if np.float64(near) == x else odd).view(np.float32)


BYTES = ir.IntType(8).as_pointer()


class View(types.Type):
    """The type of a view, for numba.

    Args:
        element: the type of its elements.
        ndim, dense: the number of dimensions of a `Ranked` view, and whether the
            innermost elements of a `Ranked` view, or of a `Row`, are adjacent.
    """

    def __init__(self, element, ndim=0, dense=False):
        self.element, self.ndim, self.dense = element, ndim, dense
        words = ["writable"] * element.writes + ["dense"] * dense
        words += [type(self).__name__.lower(), f"{ndim}-d"][: 1 + (ndim > 0)]
        super().__init__(f"{' '.join(words)} view of {element.name}")


class Contiguous(View):
    """A view of elements that are adjacent in memory."""


class Strided(View):
    """A view of elements in the order of their indices, with any strides."""


class Ranked(View):
    """A view with one index for each dimension."""


class Row(View):
    """A view of elements at equal distances; `dense` if they are adjacent."""


def _model(view, members):
    """Register values of the type `view` as structs of `members`."""

    class Struct(models.StructModel):
        def __init__(self, manager, kind):
            super().__init__(manager, kind, members(kind))

    register_model(view)(Struct)
    for name, _ in members(view(Element("int8"), 1)):
        make_attribute_wrapper(view, name, name)


def _sizes(kind):
    """Return the type of one integer for each dimension."""
    return types.UniTuple(types.intp, kind.ndim)


DATA, SIZE = ("data", types.voidptr), ("size", types.intp)
LINES = [("lines", types.CPointer(types.intp)), ("ndim", types.intp)]
_model(Contiguous, lambda kind: [DATA, SIZE])
_model(Strided, lambda kind: [DATA, SIZE, *LINES])
_model(
    Ranked,
    lambda kind: [DATA, SIZE, ("shape", _sizes(kind)), ("steps", _sizes(kind))],
)
_model(Row, lambda kind: [DATA, ("step", types.intp)])


def maker(view):
    """Return make(address, size, geometry), which makes a view.

    For a row, `size` is the step in bytes.
    """

    @intrinsic
    def make(typing_context, address, size, geometry):
        signature = view(types.intp, types.intp, geometry)
        return signature, lambda *found: _build(view, geometry, *found)

    return make


def _build(view, geometry, context, b, signature, arguments):
    """Emit the struct of a view."""
    address, size, lines = arguments
    new = cgutils.create_struct_proxy(view)(context, b)
    new.data = b.inttoptr(address, BYTES)
    if isinstance(view, Row):
        new.step = size
        return new._getvalue()
    new.size = size
    array = context.make_array(geometry)(context, b, lines)
    if isinstance(view, Ranked):
        found = [b.load(b.gep(array.data, [_word(at)])) for at in range(2 * view.ndim)]
        new.shape = cgutils.pack_array(b, found[: view.ndim], _word(0).type)
        new.steps = cgutils.pack_array(b, found[view.ndim :], _word(0).type)
    elif isinstance(view, Strided):
        new.lines = array.data
        new.ndim = cgutils.unpack_tuple(b, array.shape, 2)[1]
    return new._getvalue()


def _word(value):
    """Return a constant of 64 bits."""
    return ir.Constant(ir.IntType(64), value)


@intrinsic
def fetch(typing_context, view, at):
    """Load the element at an offset of `at` bytes from the start of the view."""
    stored = view.element.storage

    def build(context, b, signature, arguments):
        place = _place(context, b, view, arguments)
        return context.unpack_value(b, stored, place, _alignment(view))

    return stored(view, types.intp), build


@intrinsic
def put(typing_context, view, at, value):
    """Store a value at an offset of `at` bytes, by numba's cast to the element type."""
    stored, given = view.element.storage, types.unliteral(value)

    def build(context, b, signature, arguments):
        place = _place(context, b, view, arguments)
        found = context.cast(b, arguments[2], given, stored)
        context.pack_value(b, stored, found, place, _alignment(view))
        return context.get_dummy_value()

    return types.void(view, types.intp, given), build


def _place(context, b, view, arguments):
    """Return a pointer to the element at an offset of arguments[1] bytes."""
    data = cgutils.create_struct_proxy(view)(context, b, arguments[0]).data
    where = b.gep(data, [arguments[1]], inbounds=True)
    return b.bitcast(where, context.get_data_type(view.element.storage).as_pointer())


def _alignment(view):
    """Return the alignment of an element: None for its natural one, else 1."""
    # Fields of NumPy records may have odd strides.
    return None if isinstance(view, Contiguous) or view.dense else 1


@intrinsic
def is_inside(typing_context, view, index):
    """Return whether each index is inside its dimension."""

    def build(context, b, signature, arguments):
        found = ir.Constant(ir.IntType(1), 1)
        view_, *indices = _unpack(context, b, signature, arguments)
        is_ranked = isinstance(view, Ranked)
        sizes = cgutils.unpack_tuple(b, view_.shape) if is_ranked else [view_.size]
        for size, at in zip(sizes, indices, strict=True):
            # As unsigned numbers, negative indices are too large: one comparison.
            found = b.and_(found, b.icmp_unsigned("<", at, size))
        return found

    return types.boolean(view, index), build


@intrinsic
def locate(typing_context, view, index):
    """Return the bytes from the start to an element, except in a strided view."""

    def build(context, b, signature, arguments):
        view_, *indices = _unpack(context, b, signature, arguments)
        steps = [_word(view.element.size)]
        if isinstance(view, Ranked):
            # A constant innermost step lets LLVM load vectors.
            rest = cgutils.unpack_tuple(b, view_.steps, view.ndim)
            steps = rest[:-1] + steps if view.dense else rest
        elif isinstance(view, Row) and not view.dense:
            steps = [view_.step]
        found = _word(0)
        for step, at in zip(steps, indices, strict=True):
            found = b.add(found, b.mul(step, at))
        return found

    return types.intp(view, index), build


def _unpack(context, b, signature, arguments):
    """Return the struct of the view, and each index as a word."""
    view, index = signature.args
    given, kinds = [arguments[1]], [index]
    if isinstance(index, types.BaseTuple):
        given, kinds = cgutils.unpack_tuple(b, arguments[1]), index.types
    pairs = zip(given, kinds, strict=True)
    words = [context.cast(b, at, kind, types.intp) for at, kind in pairs]
    return cgutils.create_struct_proxy(view)(context, b, arguments[0]), *words


@kernel
def strided_offset(lines, ndim, i):
    """Return the bytes from the start of a strided view to its i-th element."""
    # Unsigned quotients need no correction for signs.
    found = np.intp(0)
    for d in range(ndim - 1, 0, -1):
        above = i // np.uintp(lines[d])
        found += np.intp(i - above * np.uintp(lines[d])) * lines[ndim + d]
        i = above
    return found + np.intp(i) * lines[ndim]


def _offset_of(view):
    """Return the function of a view and an index that returns bytes from the start."""
    if not isinstance(view, Strided):
        return locate
    return compiled(lambda view, i: strided_offset(view.lines, view.ndim, np.uintp(i)))


@overload(operator.getitem)
def _getitem(view, index):
    if not isinstance(view, View):
        return None
    _check_index(view, index)
    find, widen = _offset_of(view), view.element.widen

    def read(view, index):
        if not is_inside(view, index):
            raise IndexError("outside")
        return fetch(view, find(view, index))

    def read_narrow(view, index):
        if not is_inside(view, index):
            raise IndexError("outside")
        return widen(fetch(view, find(view, index)))

    return read_narrow if widen else read


@overload(operator.setitem)
def _setitem(view, index, value):
    if not isinstance(view, View):
        return None
    _check_index(view, index)
    find, convert = _offset_of(view), converter(view.element, value)

    def write(view, index, value):
        if not is_inside(view, index):
            raise IndexError("outside")
        put(view, find(view, index), value)

    def write_narrow(view, index, value):
        if not is_inside(view, index):
            raise IndexError("outside")
        put(view, find(view, index), convert(value))

    return write_narrow if convert else write


def _check_index(view, index):
    """Raise TypingError if the index does not have one integer for each dimension."""
    given = index.types if isinstance(index, types.BaseTuple) else (index,)
    wanted = view.ndim if isinstance(view, Ranked) else 1
    if len(given) != wanted:
        noun = "index" if wanted == 1 else "indices"
        problem = f"expected {wanted} {noun} of a view, got {len(given)}"
        raise TypingError(f"{MARK}{problem}")
    for kind in given:
        if not isinstance(kind, types.Integer):
            raise TypingError(f"{MARK}expected an integer index of a view, got {kind}")


def read(view, j):
    """Return element `j` of a row, in the compute type; for compiled code only."""


def write(view, j, value):
    """Round `value` to element `j` of a row; for compiled code only."""


@overload(read)
def _read(view, j):
    widen = view.element.widen
    if widen:
        return lambda view, j: widen(fetch(view, locate(view, j)))
    return lambda view, j: fetch(view, locate(view, j))


@overload(write)
def _write(view, j, value):
    convert = converter(view.element, value)
    if convert:
        return lambda view, j, value: put(view, locate(view, j), convert(value))
    return lambda view, j, value: put(view, locate(view, j), value)


@overload_attribute(Strided, "shape")
@overload_attribute(Contiguous, "shape")
def _shape(view):
    return lambda view: (view.size,)


LOWER_HALF = np.uint32(0xFFFF)


class Casts(NamedTuple):
    """Casts between the bits of a type and float32, for compiled functions."""

    widen: Any
    narrow: Any


@cache
def float8_casts(name):
    """Return the casts of the NumPy type `name`."""
    wide = float8.wide(np.dtype(name))
    bits = float8.narrow(np.dtype(name)).view(np.uint8)

    @register_jitable
    def widen(h):
        """Return the float32 that equals the bits `h`."""
        return wide[h]

    @register_jitable
    def narrow(x):
        """Return `x` rounded half to even, as bits."""
        found = np.float32(x).view(np.uint32)
        # The upper 16 bits round like the whole float32 if their last bit also says
        # whether any lower bit is set. So a table of 65,536 entries is enough.
        behind = np.uint32(np.uint32(found & LOWER_HALF) != np.uint32(0))
        return bits[np.uint32(found >> np.uint32(16)) | behind]

    return Casts(widen, narrow)
