"""Steps on few elements of any type, for what surrounds the layers of a network.

Indices, masks, doubles and labels are small; a call of NumPy for each takes longer than
its work. The steps give the bytes of NumPy.
"""

from math import prod

import numpy as np

from mdtensor.kernels.cpu.generic import plain_codes as run
from mdtensor.kernels.cpu.generic.plain_codes import HEADER, HEADER_BYTES
from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.kinds import ALIGN
from mdtensor.kernels.cpu.program.step import Constants, Plan, Step

BOOL, INT8, INT32, INT64 = map(np.dtype, (np.bool_, np.int8, np.int32, np.int64))
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
#: The types of a Cast, by their codes.
TYPES = (BOOL, INT8, INT32, INT64, FLOAT32, FLOAT64)
#: The kinds of operations on numbers.
NUMBERS = {
    INT64: kinds.PLAIN_INT64,
    FLOAT32: kinds.PLAIN_FLOAT32,
    FLOAT64: kinds.PLAIN_FLOAT64,
    BOOL: kinds.PLAIN_BITS,
}
#: The kinds of steps that convert, by the type of x.
CASTS = dict(zip(TYPES, range(kinds.CAST_BOOL, kinds.CAST_FLOAT64 + 1), strict=True))
#: The kinds of searches, sorts and sums.
ORDERS = {
    INT64: kinds.ORDER_INT64,
    FLOAT32: kinds.ORDER_FLOAT32,
    FLOAT64: kinds.ORDER_FLOAT64,
}
TREES = {FLOAT32: kinds.TREES_FLOAT32, FLOAT64: kinds.TREES_FLOAT64}
#: Bytes of an element that Pick, Choose and Index know.
SIZES = (1, 4, 8)


# A call of NumPy takes longer than the work on few elements (decision 0117).
class PlainStep(Step):
    """A step on elements of any type, which has a header among its constants.

    Args:
        kind: the number of the kind.
        dtypes: the types of the inputs.
        result: the type of the result.
        shape: the shape of the result.
        header: numbers of the header by their place.
        arrays: constants behind the header; the first one's place is in the header.
        scratch: bytes.
    """

    def __init__(self, kind, dtypes, result, shape, header, arrays=(), scratch=0):
        self.kind, self._shape = kind, tuple(shape)
        self.input_types = tuple(map(np.dtype, dtypes))
        self.output_type = np.dtype(result)
        self._header, self._arrays, self._scratch = header, arrays, scratch

    @property
    def kernel(self):
        """Return the name of the function that does the work."""
        return kinds.FUNCTIONS[self.kind][1]

    @property
    def runway(self):
        """Return the ISA of the function."""
        return "generic"

    def output_shape(self, *shapes):
        """Return the shape of the result."""
        return self._shape

    def plan(self, *shapes):
        """Return the `Plan`; the shapes of the inputs were given before."""
        numbers, constants = np.zeros(HEADER, np.int64), Constants()
        constants.add(numbers)
        places = [constants.add(one)[0] for one in self._arrays]
        for place, value in self._header.items():
            numbers[place] = value
        if places:
            numbers[run.CONSTANT] = places[0]
        blob = constants.array()
        blob[:HEADER_BYTES] = numbers.view(np.uint8)
        fields = {"out_bytes": prod(self._shape) * self.output_type.itemsize}
        return Plan(fields, blob, self._shape, self._scratch)


assert HEADER_BYTES % ALIGN == 0, "the table of a Pick follows its header"


def combine(operation, dtype, shape, x_size, y):
    """Return the step of x ∘ y, where x and y have `shape` or one element.

    Args: y: the number of its elements, or a constant array.
    """
    count, is_constant = prod(shape), isinstance(y, np.ndarray)
    y_size = y.size if is_constant else y
    header = {run.OPERATION: operation, run.COUNT: count}
    header |= {run.X_STRIDE: int(x_size == count), run.Y_STRIDE: int(y_size == count)}
    result = BOOL if operation >= run.EQUAL else dtype
    inputs = (dtype,) if is_constant else (dtype, dtype)
    arrays = (y,) if is_constant else ()
    return PlainStep(NUMBERS[dtype], inputs, result, shape, header, arrays)


def apply(operation, dtype, shape):
    """Return the step of a function of each element."""
    header = {run.OPERATION: operation, run.COUNT: prod(shape), run.X_STRIDE: 1}
    result = BOOL if operation >= run.EQUAL else dtype
    return PlainStep(NUMBERS[dtype], (dtype,), result, shape, header)


def pick(dtype, places, sizes, fill=0):
    """Return the step that writes the element at each place, of x and then of y.

    Args:
        places: int64, in the shape of the result; negative ones stand for `fill`.
        sizes: the number of elements of x, and of y if there is one.
        fill: an element, as the integer of its bits.
    """
    dtype = np.dtype(dtype)
    header = {run.COUNT: places.size, run.BYTES: dtype.itemsize, run.OPERATION: fill}
    header |= {run.LENGTH: sizes[0], run.INNER: sizes[1] if len(sizes) > 1 else 0}
    given = (dtype,) * len(sizes)
    table = np.ascontiguousarray(places, np.int64)
    return PlainStep(kinds.PICK, given, dtype, places.shape, header, (table,))


def hold(array, given):
    """Return the step that writes a constant; it does not read its input."""
    array = np.ascontiguousarray(array)
    return PlainStep(kinds.HOLD, (given,), array.dtype, array.shape, {}, (array,))


def choose(dtype, shape, sizes, constant, takes_computed):
    """Return the step of a choice between a computed value and a constant.

    Args:
        sizes: the number of elements of the condition, and of the computed value.
        constant: an array of one element or of all.
        takes_computed: whether the computed value is taken where the condition holds.
    """
    count, dtype = prod(shape), np.dtype(dtype)
    header = {run.OPERATION: int(takes_computed), run.COUNT: count}
    header |= {run.BYTES: dtype.itemsize, run.X_STRIDE: int(sizes[0] == count)}
    header |= {run.Y_STRIDE: int(sizes[1] == count)}
    header |= {run.INNER: int(constant.size == count)}
    given = (BOOL, dtype)
    return PlainStep(kinds.CHOOSE, given, dtype, shape, header, (constant,))


def join_bits(dtype, shape):
    """Return the step of x | y, bit by bit, of two values of one shape."""
    size = prod(shape) * np.dtype(dtype).itemsize
    header = {run.OPERATION: run.OR, run.COUNT: size}
    header |= {run.X_STRIDE: 1, run.Y_STRIDE: 1}
    return PlainStep(kinds.PLAIN_BITS, (dtype, dtype), dtype, shape, header)


def cast(before, after, shape, *, saturates=False):
    """Return the step that converts each element.

    Args: saturates: whether floats outside of the type become its bounds; other
        conversions wrap around.
    """
    before, after = np.dtype(before), np.dtype(after)
    header = {run.COUNT: prod(shape), run.BYTES: before.itemsize}
    header |= {run.OPERATION: int(saturates)}
    header |= {run.INNER: TYPES.index(after)}
    return PlainStep(CASTS[before], (before,), after, shape, header)


def take(x, shape, indices, length, inner, *, along=False):
    """Return the step that reads x at int64 indices along an axis.

    Args:
        x: (dtype, number of elements), or a constant array.
        shape: of the result.
        indices: how many there are.
        length, inner: the size of the axis, and the elements behind it.
        along: whether each line has indices of its own.
    """
    is_constant = isinstance(x, np.ndarray)
    dtype, size = (x.dtype, x.size) if is_constant else x
    header = {run.OPERATION: run.ALONG if along else run.TAKE, run.COUNT: size}
    header |= {run.LENGTH: length, run.INNER: inner, run.INDICES: indices}
    header |= {run.BYTES: np.dtype(dtype).itemsize}
    given = (INT64,) if is_constant else (dtype, INT64)
    arrays = (x,) if is_constant else ()
    return PlainStep(kinds.TAKE_AT, given, dtype, shape, header, arrays)


def outside(count, length, has_flag):
    """Return the step that tells whether one of `count` int64 indices is outside.

    Args: has_flag: whether y is the result of such a step, which counts as well.
    """
    header = {run.COUNT: count, run.LENGTH: length, run.OPERATION: int(has_flag)}
    given = (INT64, BOOL) if has_flag else (INT64,)
    return PlainStep(kinds.OUTSIDE, given, BOOL, (1,), header)


def join_bytes(x, y):
    """Return the step that writes the bytes of one array behind those of another.

    Args: x, y: (dtype, number of elements) of each.
    """
    sizes = [size * np.dtype(dtype).itemsize for dtype, size in (x, y)]
    places = np.arange(sum(sizes))
    header = {run.COUNT: places.size, run.BYTES: 1}
    header |= {run.LENGTH: sizes[0], run.INNER: sizes[1]}
    given = (x[0], y[0])
    return PlainStep(kinds.PICK, given, np.uint8, places.shape, header, (places,))


def scatter(dtype, shape, axis, along, is_sum):
    """Return the step that writes over x: y has int64 indices, then the updates.

    Args:
        along: the shape of the indices and the updates.
        is_sum: whether updates are added.
    """
    dtype, inner = np.dtype(dtype), prod(shape[axis + 1 :])
    header = {run.OPERATION: int(is_sum), run.COUNT: TYPES.index(dtype)}
    header |= {run.LENGTH: shape[axis], run.INNER: inner, run.INDICES: prod(along)}
    header |= {run.BYTES: dtype.itemsize, run.X_STRIDE: along[axis]}
    return PlainStep(kinds.SCATTER, (dtype, np.uint8), dtype, shape, header)


def order(operation, dtype, count, shape, length, inner, ascending=None):
    """Return the step of a search or a sort along an axis, or of running sums.

    Args:
        count: the elements of x.
        ascending: the sorted numbers among which a search looks.
    """
    dtype = np.dtype(dtype)
    header = {run.OPERATION: operation, run.COUNT: count, run.BYTES: dtype.itemsize}
    header |= {run.LENGTH: length, run.INNER: inner}
    header |= {run.INDICES: 0 if ascending is None else ascending.size}
    result = dtype if operation in (run.ADD_UP, run.TOTAL) else INT64
    arrays = () if ascending is None else (ascending,)
    scratch = 16 * length
    return PlainStep(ORDERS[dtype], (dtype,), result, shape, header, arrays, scratch)


def truths(is_all, count, shape, length, inner):
    """Return the step of `all` or `any` along an axis of bools."""
    header = {run.OPERATION: int(is_all), run.COUNT: count}
    header |= {run.LENGTH: length, run.INNER: inner}
    return PlainStep(kinds.TRUTHS, (BOOL,), BOOL, shape, header)


def trees(rows, thresholds, features, children, roots):
    """Return the step that finds the leaves of rows of features, int64 [rows, trees].

    If a path does not end, each leaf is `plain_codes.NO_LEAF_AT`.

    Args:
        rows: the number of rows, and of features.
        thresholds, features, children, roots: as for `walk_trees`.
    """
    dtype, shape = thresholds.dtype, (rows[0], roots.size)
    header = {run.COUNT: rows[0] * rows[1], run.BYTES: dtype.itemsize}
    header |= {run.NODES: thresholds.size, run.ROWS: rows[0]}
    header |= {run.IS_WIDE: int(roots.dtype == INT64)}
    arrays = thresholds, features, children, roots
    place, places = HEADER_BYTES, []
    for one in arrays:
        places.append(place)
        place += -(-one.nbytes // ALIGN) * ALIGN
    header |= dict(
        zip((run.FEATURES, run.CHILDREN, run.ROOTS), places[1:], strict=True)
    )
    return PlainStep(TREES[dtype], (dtype,), INT64, shape, header, arrays)
