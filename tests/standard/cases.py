"""One case for each function of the standard: arguments inside its defined domain."""

from typing import Any

from hypothesis import strategies as st
from standard.drawing import (
    ANY,
    BOOL,
    COMPLEX,
    FILLED,
    FLOATING,
    INEXACT,
    INTEGER,
    LENGTH,
    NONZERO,
    NORM,
    NUMERIC,
    PAIRS,
    REAL,
    SHAPES,
    SIGNED,
    SMALL,
    TAME,
    TAME_FLOATS,
    TYPES,
    Arguments,
    Case,
    Draw,
    Kinds,
    along,
    array,
    binary,
    drawn,
    matrix,
    reduction,
    symmetric,
    tensor,
    unary,
    xps,
)

import mdtensor as md

CIRCULAR = ("acos", "asin", "atan", "cos", "sin", "tan")
HYPERBOLIC = ("acosh", "asinh", "atanh", "cosh", "sinh", "tanh")
POWERS = ("exp", "log", "log10", "log1p", "log2", "sqrt", "reciprocal")
CASES: dict[str, Case] = {
    **{f: unary(NUMERIC) for f in ("abs", "negative", "positive", "square")},
    "sign": unary(REAL),  # of tiny complex numbers theirs is NaN
    **{f: unary(INEXACT, **TAME) for f in CIRCULAR + HYPERBOLIC + POWERS},
    "expm1": unary(FLOATING, **TAME),  # of large complex numbers theirs is NaN
    **{f: unary(REAL) for f in ("ceil", "floor", "trunc")},
    **{
        f: unary(NUMERIC)
        for f in ("conj", "isfinite", "isinf", "isnan", "real", "round")
    },
    "imag": unary(COMPLEX),
    "signbit": unary(FLOATING),
    "bitwise_invert": unary(BOOL + INTEGER),
    "logical_not": unary(BOOL),
    **{f: binary(NUMERIC) for f in ("add", "subtract", "multiply")},
    **{f: binary(BOOL + NUMERIC) for f in ("equal", "not_equal")},
    **{f: binary(REAL) for f in ["less", "less_equal", "greater", "greater_equal"]},
    **{f: binary(REAL) for f in ("maximum", "minimum")},
    **{
        f: binary(FLOATING)
        for f in ["atan2", "copysign", "hypot", "logaddexp", "nextafter"]
    },
    **{f: binary(BOOL + INTEGER) for f in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{f: binary(BOOL) for f in ("logical_and", "logical_or", "logical_xor")},
    "remainder": binary(REAL, second=NONZERO),
    # Of infinities the standard leaves a choice, and theirs is the other one.
    "floor_divide": binary(REAL, first=TAME_FLOATS, second=TAME_FLOATS | NONZERO),
    "divide": binary(INEXACT, second=NONZERO),
    "pow": binary(REAL, second=SMALL),
    **{
        f: binary(INTEGER, second={"min_value": 0, "max_value": 7})
        for f in ("bitwise_left_shift", "bitwise_right_shift")
    },
}

CASES |= {
    **{f: reduction(NUMERIC, **TAME_FLOATS) for f in ("sum", "prod")},
    **{f: reduction(REAL, FILLED) for f in ("max", "min")},
    **{f: reduction(ANY) for f in ("all", "any", "count_nonzero")},
    "mean": reduction(INEXACT, FILLED, **TAME_FLOATS),
    **{f: reduction(FLOATING, FILLED, **TAME_FLOATS) for f in ("std", "var")},
    **{f: along(REAL) for f in ("argmax", "argmin")},
    **{
        f: along(NUMERIC, TAME_FLOATS, include_initial=st.booleans())
        for f in ("cumulative_sum", "cumulative_prod")
    },
    "diff": along(NUMERIC, TAME_FLOATS, n=st.integers(0, 2)),
    **{
        f: along(REAL, TAME_FLOATS, descending=st.booleans(), stable=st.just(True))
        for f in ("sort", "argsort")
    },
    "flip": along(ANY),
    "unstack": along(ANY),
    "nonzero": unary(ANY) and (lambda draw: ((array(draw, ANY, FILLED),), {})),
    **{f: unary(ANY) for f in ("unique_counts", "unique_values")},
    **{f: unary(BOOL + REAL, **TAME_FLOATS) for f in ("unique_all", "unique_inverse")},
    "searchsorted": lambda draw: searched(draw),
    "isin": lambda draw: (members(draw), {}),  # its `invert` is ignored there
    "where": lambda draw: (chosen(draw), {}),
    "clip": lambda draw: (limited(draw), {}),
}


def searched(draw: Draw) -> Arguments:
    dtype = draw(st.sampled_from(REAL))
    x1 = md.sort(array(draw, (dtype,), (draw(st.integers(1, 5)),), **TAME_FLOATS))
    x2 = array(draw, (dtype,), **TAME_FLOATS)
    return (x1, x2), {"side": draw(st.sampled_from(("left", "right")))}


def members(draw: Draw) -> tuple[Any, ...]:
    dtype = draw(st.sampled_from(INTEGER))
    return array(draw, (dtype,), **SMALL), array(draw, (dtype,), **SMALL)


def chosen(draw: Draw) -> tuple[Any, ...]:
    a, b = draw(st.sampled_from(PAIRS))
    shapes = draw(xps.mutually_broadcastable_shapes(3, max_dims=3, max_side=3))
    kinds = (BOOL, (a,), (b,))
    pairs = zip(kinds, shapes.input_shapes, strict=True)
    return tuple(array(draw, kind, shape) for kind, shape in pairs)


def limited(draw: Draw) -> tuple[Any, ...]:
    x = array(draw, REAL)
    low, high = sorted((draw(st.integers(0, 9)), draw(st.integers(0, 9))))
    bounds = [draw(st.sampled_from((None, bound))) for bound in (low, high)]
    if x.dtype.is_floating:
        bounds = [bound if bound is None else float(bound) for bound in bounds]
    return (x, *bounds)


def reshaped(draw: Draw) -> Arguments:
    x = array(draw, ANY)
    shape = draw(st.permutations((*x.shape, 1)))
    if x.size and draw(st.booleans()):
        shape[draw(st.integers(0, len(shape) - 1))] = -1
    return (x, tuple(shape)), {}


def permuted(draw: Draw) -> Arguments:
    x = array(draw, ANY)
    return (x, tuple(draw(st.permutations(range(x.ndim))))), {}


def broadcast(draw: Draw) -> Arguments:
    shapes = draw(xps.mutually_broadcastable_shapes(1, max_dims=3, max_side=3))
    x = array(draw, ANY, shapes.input_shapes[0])
    return (x, shapes.result_shape), {}


def together(draw: Draw) -> Arguments:
    shapes = draw(xps.mutually_broadcastable_shapes(2, max_dims=3, max_side=3))
    return tuple(array(draw, ANY, shape) for shape in shapes.input_shapes), {}


def joined(draw: Draw) -> Arguments:
    a, b = draw(st.sampled_from(PAIRS))
    shape = draw(FILLED)
    arrays = [array(draw, (kind,), shape) for kind in (a, b, a)]
    return (arrays,), {"axis": draw(st.integers(-len(shape), len(shape) - 1))}


def moved(draw: Draw) -> Arguments:
    x = array(draw, ANY, FILLED)
    one = st.integers(-x.ndim, x.ndim - 1)
    return (x, draw(one), draw(one)), {}


def rolled(draw: Draw) -> Arguments:
    x = array(draw, ANY, FILLED)
    axis = draw(st.none() | st.integers(-x.ndim, x.ndim - 1))
    return (x,), {"shift": draw(st.integers(-5, 5)), "axis": axis}


def squeezed(draw: Draw) -> Arguments:
    x = array(draw, ANY, st.lists(st.integers(1, 2), max_size=4).map(tuple))
    ones = [axis for axis, n in enumerate(x.shape) if n == 1]
    return (x, tuple(axis for axis in ones if draw(st.booleans()))), {}


def expanded(draw: Draw) -> Arguments:
    x = array(draw, ANY)
    return (x,), {"axis": draw(st.integers(-x.ndim - 1, x.ndim))}


def repeated(draw: Draw) -> Arguments:
    x = array(draw, ANY, FILLED)
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    return (x, draw(st.integers(0, 3))), {"axis": axis}


def tiled(draw: Draw) -> Arguments:
    repetitions = st.lists(st.integers(0, 2), max_size=3).map(tuple)
    return (array(draw, ANY), draw(repetitions)), {}


def taken(draw: Draw) -> Arguments:
    x = array(draw, ANY, FILLED)
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    bounds = {"min_value": 0, "max_value": x.shape[axis] - 1}
    return (x, array(draw, ("int64",), (3,), **bounds)), {"axis": axis}


def taken_along(draw: Draw) -> Arguments:
    x = array(draw, ANY, FILLED)
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    bounds = {"min_value": 0, "max_value": x.shape[axis] - 1}
    return (x, array(draw, ("int64",), x.shape, **bounds)), {"axis": axis}


CASES |= {
    "astype": drawn(tensor(BOOL + INTEGER, **SMALL), TYPES),
    "reshape": reshaped,
    "permute_dims": permuted,
    "broadcast_to": broadcast,
    "broadcast_arrays": together,
    "concat": joined,
    "stack": lambda draw: joined(draw),
    "moveaxis": moved,
    "roll": rolled,
    "squeeze": squeezed,
    "expand_dims": expanded,
    "repeat": repeated,
    "tile": tiled,
    "take": taken,
    "take_along_axis": taken_along,
}

SIDE = st.integers(0, 3)
SIGNED_TYPE = st.sampled_from([getattr(md, name) for name in SIGNED])
OF_TYPE = st.sampled_from([getattr(md, name) for name in NUMERIC])
COUNTS = st.integers(-9, 9)


def like(draw: Draw) -> Arguments:
    return (array(draw, NUMERIC),), {"dtype": draw(st.none() | OF_TYPE)}


def grid(draw: Draw) -> Arguments:
    sizes = draw(st.lists(SIDE, min_size=1, max_size=3))
    dtype = draw(st.sampled_from(NUMERIC))
    arrays = [array(draw, (dtype,), (n,)) for n in sizes]
    return tuple(arrays), {"indexing": draw(st.sampled_from(("xy", "ij")))}


def triangle(draw: Draw) -> Arguments:
    shape = st.lists(st.integers(0, 3), min_size=2, max_size=3).map(tuple)
    return (array(draw, ANY, shape),), {"k": draw(st.integers(-4, 4))}


def spaced(draw: Draw) -> Arguments:
    number = st.integers(-9, 9).map(float)
    options = {"endpoint": draw(st.booleans()), "dtype": draw(FLOAT_TYPES)}
    return (draw(number), draw(number), draw(st.integers(0, 9))), options


FLOAT_TYPES = st.sampled_from([getattr(md, name) for name in FLOATING])
STEP = COUNTS.filter(bool)
FILL = st.integers(0, 100)
TWO_SHAPES = xps.mutually_broadcastable_shapes(2)


def pair_of_types(draw: Draw) -> Any:
    return tuple(getattr(md, name) for name in draw(st.sampled_from(PAIRS)))


CASES |= {
    "arange": drawn(COUNTS, COUNTS, STEP, dtype=SIGNED_TYPE),
    "asarray": drawn(st.lists(FILL), dtype=OF_TYPE),
    "eye": drawn(SIDE, SIDE, k=st.integers(-4, 4), dtype=OF_TYPE),
    "full": drawn(SHAPES, FILL, dtype=OF_TYPE),
    **{f: drawn(SHAPES, dtype=OF_TYPE) for f in ("ones", "zeros")},
    **dict.fromkeys(("ones_like", "zeros_like"), like),
    "full_like": lambda draw: ((like(draw)[0][0], draw(FILL)), {}),
    "linspace": spaced,
    "meshgrid": grid,
    **dict.fromkeys(("tril", "triu"), triangle),
    "can_cast": drawn(OF_TYPE, OF_TYPE),
    "isdtype": drawn(OF_TYPE, st.sampled_from(("bool", "integral", "numeric"))),
    "result_type": lambda draw: (pair_of_types(draw), {}),
    "broadcast_shapes": lambda draw: (draw(TWO_SHAPES).input_shapes, {}),
}


def product(draw: Draw) -> Arguments:
    dtype = draw(st.sampled_from(NUMERIC))
    m, k, n = (draw(st.integers(1, 3)) for _ in range(3))
    shapes = draw(st.sampled_from((((m, k), (k, n)), ((k,), (k, n)), ((m, k), (k,)))))
    pair = tuple(array(draw, (dtype,), shape, **TAME_FLOATS) for shape in shapes)
    return pair, {}


def vectors(n: int | None = None) -> Case:
    def case(draw: Draw) -> Arguments:
        dtype = draw(st.sampled_from(NUMERIC))
        shape = (draw(st.integers(1, 3)), n or draw(st.integers(1, 3)))
        pair = tuple(array(draw, (dtype,), shape, **TAME_FLOATS) for _ in range(2))
        return pair, {}

    return case


def outer(draw: Draw) -> Arguments:
    dtype = draw(st.sampled_from(NUMERIC))
    sizes = [draw(st.integers(1, 3)) for _ in range(2)]
    return tuple(array(draw, (dtype,), (n,), **TAME_FLOATS) for n in sizes), {}


def solved(draw: Draw) -> Arguments:
    a = symmetric(draw)
    b = array(
        draw, (a.dtype.name,), (a.shape[0], draw(st.integers(1, 3))), **TAME_FLOATS
    )
    return (a, b), {}


def stack_of(draw: Draw, *_: Any) -> Any:
    shape = st.lists(st.integers(1, 3), min_size=2, max_size=3).map(tuple)
    return array(draw, NUMERIC, shape, **TAME_FLOATS)


ORDERS = st.sampled_from((0, 1, 2, float("inf"), float("-inf")))
MATRIX_ORDERS = st.sampled_from(("fro", "nuc", 1, 2))
LINALG: dict[str, Case] = {
    **dict.fromkeys(("matmul", "tensordot"), product),
    "tensordot": lambda draw: (vectors()(draw)[0], {"axes": ((1,), (1,))}),
    "vecdot": vectors(),
    "matrix_transpose": drawn(stack_of),
    "cross": vectors(3),
    "outer": outer,
    "diagonal": drawn(stack_of, offset=st.integers(-2, 2)),
    "trace": drawn(stack_of, offset=st.integers(-2, 2)),
    "cholesky": drawn(symmetric, upper=st.booleans()),
    **{f: drawn(symmetric) for f in ("det", "eigh", "eigvalsh", "inv")},
    **{f: drawn(symmetric) for f in ("slogdet", "svdvals", "eigvals")},
    **{f: drawn(symmetric) for f in ("pinv", "matrix_rank", "eig")},
    "svd": drawn(symmetric, full_matrices=st.booleans()),
    "qr": drawn(symmetric, mode=st.sampled_from(("reduced", "complete"))),
    "solve": solved,
    "matrix_power": drawn(symmetric, st.integers(-2, 3)),
    "matrix_norm": drawn(symmetric, ord=MATRIX_ORDERS, keepdims=st.booleans()),
    "vector_norm": drawn(matrix, ord=ORDERS, keepdims=st.booleans()),
}
CASES |= {f: LINALG[f] for f in ("matmul", "matrix_transpose", "tensordot", "vecdot")}


def signal(kinds: Kinds) -> Any:
    return lambda draw, *_: array(draw, kinds, FILLED, **TAME_FLOATS)


FFT: dict[str, Case] = {
    **{f: drawn(signal(COMPLEX), n=LENGTH, norm=NORM) for f in ("fft", "ifft", "hfft")},
    **{f: drawn(signal(COMPLEX), norm=NORM) for f in ("fftn", "ifftn", "irfftn")},
    "irfft": drawn(signal(COMPLEX), n=st.integers(2, 5), norm=NORM),
    **{f: drawn(signal(FLOATING), n=LENGTH, norm=NORM) for f in ("rfft", "ihfft")},
    "rfftn": drawn(signal(FLOATING), norm=NORM),
    **{
        f: drawn(st.integers(1, 9), d=st.sampled_from((0.5, 1.0)), dtype=FLOAT_TYPES)
        for f in ("fftfreq", "rfftfreq")
    },
    **{f: drawn(signal(INEXACT)) for f in ("fftshift", "ifftshift")},
}
