"""What steps on elements of any type read and write; see `rules_of_codes.py`.

`mdtensor.kernels.cpu.program.interpret_plain` has the function of each kind. The
constants of such a step begin with a header of int64.
"""

from collections.abc import Callable
from functools import partial

from mdtensor_run.row import Row, product

# The places of numbers in a header, and its bytes; see `plain_codes` of the kernels.
OPERATION, COUNT, X_STRIDE, Y_STRIDE, CONSTANT = range(5)
LENGTH, INNER, INDICES, BYTES = range(5, 9)
NODES, ROWS, FEATURES, CHILDREN, ROOTS, IS_WIDE = range(9, 15)
HEADER, HEADER_BYTES = 16, 128
#: Operations of two operands by the number of the first and the last one: those of
#: numbers, of bits, and comparisons. Then those of one operand.
SUMS, DIV, ORDERS, BITS = range(3), 3, (4, 5), (6, 7, 8)
SINGLES, SQRT, COMPARISONS, TESTS = (16, 17, 19), 18, range(32, 38), range(38, 41)
ALONG, INDEX = 1, 8
#: What an Order does: places of extremes, sorts, running sums, sums, searches.
EXTREMES, SORTS, ADD_UP, TOTAL, SEARCHES = (0, 1), (2, 3), 4, 5, (6, 7)
#: Bytes of an element that is moved.
MOVED = (1, 4, 8)
#: The bytes of each type of a Cast, and the types that saturate.
SIZES, SATURATED = (1, 1, 4, 8, 4, 8), (2, 3, 4)
#: The codes of float32 and float64 in a Scatter.
FLOAT32, FLOAT64 = 4, 5
#: The numbers of the children of a node.
BRANCHES = 3


def _header(r: Row) -> list[int]:
    """Return the numbers of the header of a step."""
    found: list[int] = r.numbers(0, HEADER, 1).reshape(-1).tolist()
    return found


def _sizes(r: Row, *numbers: int, least: int = 1) -> int:
    """Return a product of sizes, which must not be less than `least`."""
    r.require(all(number >= least for number in numbers), f"has a size in {numbers}")
    return product(numbers)


def _strided(r: Row, stride: int, count: int) -> int:
    """Return the number of elements of an operand that is one of all, or each."""
    r.require(stride in (0, 1), f"has the stride {stride}")
    return count if stride else 1


def _reads_places(r: Row, at: int, count: int, size: int, low: int, high: int) -> None:
    """Require integers of the constants to be from `low` to below `high`."""
    found = r.integers(at, count, size)
    inside = bool(found.size) and low <= int(found.min()) and int(found.max()) < high
    r.require(inside or not found.size, "has a place outside")


# The numbers that steer these kernels lie among the constants (decision 0125).
def calculate(r: Row, size: int, operations: frozenset[int]) -> None:
    """Check an operation on numbers of `size` bytes."""
    h = _header(r)
    operation, count = h[OPERATION], _sizes(r, h[COUNT])
    r.require(operation in operations, f"has the operation {operation}")
    r.reads_x(size * _strided(r, h[X_STRIDE], count))
    if operation in SINGLES or operation == SQRT or operation in TESTS:
        # The kernel reads x alone, but it also looks at one element of y.
        is_single = h[X_STRIDE] == 1 and h[Y_STRIDE] == h[CONSTANT] == 0
        r.require(is_single and r.fields.y_bytes >= size, "has two operands")
    elif h[CONSTANT]:
        r.reads_constants(h[CONSTANT], size * _strided(r, h[Y_STRIDE], count))
    else:
        r.reads_y(size * _strided(r, h[Y_STRIDE], count))
    is_truth = operation in COMPARISONS or operation in TESTS
    r.writes(count if is_truth else size * count)


_COMPARED = frozenset((*COMPARISONS, *TESTS))
_FLOATS = _COMPARED.union((*SUMS, DIV, *SINGLES, SQRT))
_INTEGERS = _COMPARED.union((*SUMS, *ORDERS, *SINGLES))


def pick(r: Row) -> None:
    """Check a Pick: the place of each element in x and y, or a negative number."""
    h = _header(r)
    size, count = h[BYTES], _sizes(r, h[COUNT])
    r.require(size in MOVED, f"moves {size} bytes")
    r.require(h[LENGTH] >= 0 and h[INNER] >= 0, "has an operand of no size")
    table = r.numbers(HEADER_BYTES, count, 1)
    r.require(int(table.max()) < h[LENGTH] + h[INNER], "has a place outside")
    r.reads_x(product((size, h[LENGTH])))
    r.reads_y(product((size, h[INNER])))
    r.writes(size * count)


def hold(r: Row) -> None:
    """Check a Hold, whose constant has the bytes of the result."""
    r.reads_x(r.fields.x_bytes)
    r.reads_constants(HEADER_BYTES, r.fields.out_bytes)


def choose(r: Row) -> None:
    """Check a Choose: a condition, a value and a constant."""
    h = _header(r)
    size, count = h[BYTES], _sizes(r, h[COUNT])
    r.require(size in MOVED, f"moves {size} bytes")
    r.require(h[OPERATION] in (0, 1), f"has the operation {h[OPERATION]}")
    r.reads_x(_strided(r, h[X_STRIDE], count))
    r.reads_y(size * _strided(r, h[Y_STRIDE], count))
    r.reads_constants(h[CONSTANT], size * _strided(r, h[INNER], count))
    r.writes(size * count)


def take(r: Row) -> None:
    """Check a step that reads at indices, of which a kernel tests all."""
    h = _header(r)
    size, length, inner, n = h[BYTES], h[LENGTH], h[INNER], h[INDICES]
    r.require(size in MOVED, f"moves {size} bytes")
    line, count = _sizes(r, length, inner), _sizes(r, h[COUNT])
    r.require(count % line == 0, f"has {count} elements in lines of {line}")
    lines = count // line
    if h[OPERATION] == ALONG:
        r.require(n % _sizes(r, lines, inner) == 0, f"has {n} indices")
        found = n
    else:
        r.require(h[OPERATION] == 0, f"has the operation {h[OPERATION]}")
        found = product((lines, n, inner))
    r.reads_y(INDEX * _sizes(r, n))
    if h[CONSTANT]:
        # The indices are the only input, which is x as well.
        r.reads_x(INDEX * n)
        r.reads_constants(h[CONSTANT], product((size, count)))
    else:
        r.reads_x(product((size, count)))
    r.writes(product((size, found)))


def outside(r: Row) -> None:
    """Check the step that tells whether an index is outside."""
    h = _header(r)
    r.require(h[OPERATION] in (0, 1), f"has the operation {h[OPERATION]}")
    r.reads_x(INDEX * _sizes(r, h[COUNT]))
    if h[OPERATION]:
        r.reads_y(1)
    r.writes(1)


def scatter(r: Row) -> None:
    """Check a Scatter: y has the indices, which a kernel tests, then the updates."""
    h = _header(r)
    size, n, kind = h[BYTES], h[INDICES], h[COUNT]
    along, inner = h[X_STRIDE], h[INNER]
    known = {FLOAT32: (4,), FLOAT64: (8,)}.get(kind, (1, 8))
    r.require(size in known, f"moves {size} bytes")
    r.require(h[OPERATION] in (0, 1), f"has the operation {h[OPERATION]}")
    line = _sizes(r, along, inner)
    r.require(_sizes(r, n) % line == 0, f"has {n} indices in lines of {line}")
    whole = size * _sizes(r, n // line, h[LENGTH], inner)
    r.reads_x(whole)
    r.reads_y(product((INDEX + size, n)))
    r.writes(whole)


def fold_truths(r: Row) -> None:
    """Check `all` or `any`."""
    h = _header(r)
    lines, line = _lines(r, h)
    r.reads_x(lines * line)
    r.writes(lines * h[INNER])


def _lines(r: Row, h: list[int]) -> tuple[int, int]:
    """Return how many lines there are along an axis, and the elements of each."""
    line, count = _sizes(r, h[LENGTH], h[INNER]), _sizes(r, h[COUNT])
    r.require(count % line == 0, f"has {count} elements in lines of {line}")
    return count // line, line


def cast(r: Row, size: int, is_float: bool) -> None:
    """Check a Cast from elements of `size` bytes."""
    h = _header(r)
    count, after = _sizes(r, h[COUNT]), h[INNER]
    r.require(after in range(len(SIZES)), f"casts to the type {after}")
    saturates = is_float and h[OPERATION] != 0
    r.require(not saturates or after in SATURATED, f"saturates at the type {after}")
    r.reads_x(size * count)
    r.writes(SIZES[after] * count)


def arrange(r: Row, size: int) -> None:
    """Check a search, a sort or sums along an axis."""
    h = _header(r)
    operation, (lines, line) = h[OPERATION], _lines(r, h)
    count = lines * line
    r.reads_x(size * count)
    r.uses_scratch(product((2, INDEX, h[LENGTH])))
    if operation in SEARCHES:
        r.reads_constants(h[CONSTANT], size * _sizes(r, h[INDICES]))
    else:
        r.require(h[INDICES] == 0, f"has {h[INDICES]} sorted numbers")
    few = lines * h[INNER]
    results = {ADD_UP: size * count, TOTAL: size * few}
    results |= dict.fromkeys(EXTREMES, INDEX * few)
    results |= dict.fromkeys((*SORTS, *SEARCHES), INDEX * count)
    r.require(operation in results, f"has the operation {operation}")
    r.writes(results[operation])


def walk(r: Row, size: int) -> None:
    """Check decision trees: each place of a feature or of a node exists."""
    h = _header(r)
    count, rows, nodes = _sizes(r, h[COUNT]), _sizes(r, h[ROWS]), _sizes(r, h[NODES])
    r.require(count % rows == 0, f"has {count} numbers in {rows} rows")
    width = INDEX if h[IS_WIDE] else 4
    trees, rest = divmod(r.fields.out_bytes, product((INDEX, rows)))
    r.require(trees > 0 and not rest, f"has {r.fields.out_bytes} bytes of leaves")
    r.reads_constants(h[CONSTANT], size * nodes)
    low = -(2**63)
    _reads_places(r, h[FEATURES], nodes, width, 0, count // rows)
    _reads_places(r, h[CHILDREN], BRANCHES * nodes, width, low, nodes)
    _reads_places(r, h[ROOTS], trees, width, low, nodes)
    r.reads_x(size * count)
    r.writes(product((INDEX, rows, trees)))


#: The bytes of the elements of a Cast, and whether they are floats.
_CASTS = {
    "bool": (1, False),
    "int8": (1, False),
    "int32": (4, False),
    "int64": (8, False),
    "float32": (4, True),
    "float64": (8, True),
}
_BITS = _COMPARED.union(BITS)
_RULES: dict[str, Callable[[Row], None]] = {
    "run_plain_int64": partial(calculate, size=8, operations=_INTEGERS),
    "run_plain_float32": partial(calculate, size=4, operations=_FLOATS),
    "run_plain_float64": partial(calculate, size=8, operations=_FLOATS),
    "run_plain_bits": partial(calculate, size=1, operations=_BITS),
    "run_pick": pick,
    "run_hold": hold,
    "run_choose": choose,
    "run_take": take,
    "run_outside": outside,
    "run_scatter": scatter,
    "run_truths": fold_truths,
    **{
        f"run_cast_{name}": partial(cast, size=size, is_float=is_float)
        for name, (size, is_float) in _CASTS.items()
    },
    "run_order_int64": partial(arrange, size=8),
    "run_order_float32": partial(arrange, size=4),
    "run_order_float64": partial(arrange, size=8),
    "run_trees_float32": partial(walk, size=4),
    "run_trees_float64": partial(walk, size=8),
}
RULES = {f"program.interpret_plain.{name}": rule for name, rule in _RULES.items()}
