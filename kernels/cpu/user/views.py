"""Views of tensors inside compiled functions: `view[i]`, `view[i] = value`.

A view is a pointer with sizes, made from an address at the start of a piece: nothing is
allocated, nothing is counted, and LLVM sees plain loads. An index outside raises
IndexError, and LLVM vectorizes such loops all the same. `elements` says what is read
and written.

    Contiguous   view[i] of any rank            data[i]
    Strided      view[i] of any rank            a chain of quotients; stride 0 repeats
    Ranked       view[i, j, ...]                the innermost stride is known if `dense`
    Row          read(view, j), write(...)      one line of an operation, unchecked

Geometry is an int64 array [2, ndim]: sizes, then strides in bytes.
"""

import operator
from typing import NamedTuple

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

from mdtensor.kernels.cpu.generic import bfloat16, float8, float16
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.numpy.float16 import is_narrow

# What a compiled function reads and writes: compute types, storage types, rounding.
#
# Narrow floats are read as float32, exactly; everything else as it is. A value is
# rounded once to the storage type, half to even; integers wrap. Nothing becomes less than
# it is: no float is written to integers, no complex number to floats.

OURS = {"float16": float16, "bfloat16": bfloat16}
#: What a message that a user may read begins with, among numba's own.
MARK = "mdtensor: "

compiled = register_jitable(error_model="numpy")


class Element(NamedTuple):
    """One operand: the name of its element type, and whether it may be written."""

    name: str
    writes: bool = False

    @property
    def is_narrow(self):
        """Whether it is a float that is computed in float32."""
        return is_narrow(np.dtype(self.name))

    @property
    def storage(self):
        """What lies in memory, as numba sees it."""
        bits = f"uint{8 * self.size}"
        return from_dtype(np.dtype(bits if self.is_narrow else self.name))

    @property
    def compute(self):
        """What a function gets."""
        return types.float32 if self.is_narrow else self.storage

    @property
    def casts(self):
        """`widen` and `narrow` of a narrow float."""
        return OURS.get(self.name) or float8.casts(self.name)

    @property
    def widen(self):
        """From the storage type to the compute type; None where they are the same."""
        return self.casts.widen if self.is_narrow else None

    @property
    def size(self):
        return np.dtype(self.name).itemsize


def converter(element, value):
    """From the type `value` to bits, rounded once; None where a cast will do.

    Raises:
        TypingError: it may not be written there.
    """
    value = types.unliteral(value)
    problem = loss(element, value)
    if problem:
        raise TypingError(f"{MARK}{problem}")
    if not element.is_narrow:
        return None
    narrow = element.casts.narrow
    if value == types.float32:
        return narrow
    return compiled(lambda value: narrow(to_odd(np.float64(value))))


def loss(element, value):
    """What is wrong with writing a `value` to `element`, in words; empty if nothing."""
    if not element.writes:
        return "the view is for reading, and is written"
    if not isinstance(value, types.Number | types.Boolean):
        kind = "nothing" if isinstance(value, types.NoneType) else str(value)
        return f"{kind} is written to elements of {element.name}"
    rank, wanted = _rank(value), _rank(element.compute)
    if rank > wanted:
        return f"{value} is written to elements of {element.name}"
    return ""


def _rank(kind):
    """Truth values, integers, floats, complex numbers: each holds those before it."""
    if isinstance(kind, types.Boolean):
        return 0
    if isinstance(kind, types.Integer):
        return 1
    return 2 if isinstance(kind, types.Float) else 3


@kernel
def to_odd(x):
    """float64 to float32; if inexact, the neighbour whose last bit is 1.

    Rounding that to fewer bits gives what rounding `x` itself would.

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
    """Args: element: of what; ndim, dense: of a ranked view."""

    def __init__(self, element, ndim=0, dense=False):
        self.element, self.ndim, self.dense = element, ndim, dense
        words = ["writable"] * element.writes + ["dense"] * dense
        words += [type(self).__name__.lower(), f"{ndim}-d"][: 1 + (ndim > 0)]
        super().__init__(f"{' '.join(words)} view of {element.name}")


class Contiguous(View):
    """Elements in one row of memory."""


class Strided(View):
    """Elements in the order of their indices, wherever they are."""


class Ranked(View):
    """Elements by one index for each dimension."""


class Row(View):
    """Elements at equal distances; `dense` where they are neighbours."""


def _model(view, members):
    """Let values of the type `view` be structs of `members`."""

    class Struct(models.StructModel):
        def __init__(self, manager, kind):
            super().__init__(manager, kind, members(kind))

    register_model(view)(Struct)
    for name, _ in members(view(Element("int8"), 1)):
        make_attribute_wrapper(view, name, name)


def _sizes(kind):
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
    """A function (address, size, geometry) that gives the view; of a row, its step."""

    @intrinsic
    def make(typing_context, address, size, geometry):
        signature = view(types.intp, types.intp, geometry)
        return signature, lambda *found: _build(view, geometry, *found)

    return make


def _build(view, geometry, context, b, signature, arguments):
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
    return ir.Constant(ir.IntType(64), value)


@intrinsic
def fetch(typing_context, view, at):
    """What lies `at` bytes behind the start of the view."""
    stored = view.element.storage

    def build(context, b, signature, arguments):
        place = _place(context, b, view, arguments)
        return context.unpack_value(b, stored, place, _alignment(view))

    return stored(view, types.intp), build


@intrinsic
def put(typing_context, view, at, value):
    """Write a value there, cast to the storage type as numba casts."""
    stored, given = view.element.storage, types.unliteral(value)

    def build(context, b, signature, arguments):
        place = _place(context, b, view, arguments)
        found = context.cast(b, arguments[2], given, stored)
        context.pack_value(b, stored, found, place, _alignment(view))
        return context.get_dummy_value()

    return types.void(view, types.intp, given), build


def _place(context, b, view, arguments):
    data = cgutils.create_struct_proxy(view)(context, b, arguments[0]).data
    where = b.gep(data, [arguments[1]], inbounds=True)
    return b.bitcast(where, context.get_data_type(view.element.storage).as_pointer())


def _alignment(view):
    """Strides may be odd: records of NumPy have such."""
    return None if isinstance(view, Contiguous) or view.dense else 1


# --- where an element is --------------------------------------------------------------


@intrinsic
def is_inside(typing_context, view, index):
    """Whether each index is within its dimension."""

    def build(context, b, signature, arguments):
        found = ir.Constant(ir.IntType(1), 1)
        view_, *indices = _unpacked(context, b, signature, arguments)
        is_ranked = isinstance(view, Ranked)
        sizes = cgutils.unpack_tuple(b, view_.shape) if is_ranked else [view_.size]
        for size, at in zip(sizes, indices, strict=True):
            found = b.and_(found, b.icmp_unsigned("<", at, size))
        return found

    return types.boolean(view, index), build


@intrinsic
def locate(typing_context, view, index):
    """Bytes from the start to the element at `index`; not of a strided view."""

    def build(context, b, signature, arguments):
        view_, *indices = _unpacked(context, b, signature, arguments)
        steps = [_word(view.element.size)]
        if isinstance(view, Ranked):
            # The innermost step of a dense view is a constant, the others are not.
            rest = cgutils.unpack_tuple(b, view_.steps, view.ndim)
            steps = rest[:-1] + steps if view.dense else rest
        elif isinstance(view, Row) and not view.dense:
            steps = [view_.step]
        found = _word(0)
        for step, at in zip(steps, indices, strict=True):
            found = b.add(found, b.mul(step, at))
        return found

    return types.intp(view, index), build


def _unpacked(context, b, signature, arguments):
    """The struct of the view, and each index as a word."""
    view, index = signature.args
    given, kinds = [arguments[1]], [index]
    if isinstance(index, types.BaseTuple):
        given, kinds = cgutils.unpack_tuple(b, arguments[1]), index.types
    pairs = zip(given, kinds, strict=True)
    words = [context.cast(b, at, kind, types.intp) for at, kind in pairs]
    return cgutils.create_struct_proxy(view)(context, b, arguments[0]), *words


@kernel
def behind(lines, ndim, i):
    """Bytes from the start of a strided view to element `i` in the order of indices."""
    found = np.intp(0)
    for d in range(ndim - 1, 0, -1):
        above = i // np.uintp(lines[d])
        found += np.intp(i - above * np.uintp(lines[d])) * lines[ndim + d]
        i = above
    return found + np.intp(i) * lines[ndim]


def _finder(view):
    """The function of a view and an index that gives the bytes from the start."""
    if not isinstance(view, Strided):
        return locate
    return compiled(lambda view, i: behind(view.lines, view.ndim, np.uintp(i)))


@overload(operator.getitem)
def _getitem(view, index):
    if not isinstance(view, View):
        return None
    _check_index(view, index)
    find, widen = _finder(view), view.element.widen

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
    find, convert = _finder(view), converter(view.element, value)

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
    given = index.types if isinstance(index, types.BaseTuple) else (index,)
    wanted = view.ndim if isinstance(view, Ranked) else 1
    if len(given) != wanted:
        raise TypingError(f"{MARK}a view of {wanted} indices is given {len(given)}")
    for kind in given:
        if not isinstance(kind, types.Integer):
            raise TypingError(f"{MARK}an index of a view is {kind}, no integer")


# --- rows of an operation -------------------------------------------------------------


def read(view, j):
    """Element `j` of a row, in the compute type."""


def write(view, j, value):
    """Round `value` to element `j` of a row."""


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
