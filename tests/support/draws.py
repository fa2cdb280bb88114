"""A random call of every operation, valid or not: types, shapes and options.

Elements are ones, or small integers where they are indices.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

import mdtensor as md
from mdtensor.errors import MdtensorError

Draw = Callable[..., Any]
Call = tuple[tuple[Any, ...], dict[str, Any]]

LEAVES = list(md.leaves()[:15])
NUMBERS = [leaf for leaf in LEAVES if leaf is not md.BoolTensor]
INTEGERS = [leaf for leaf in LEAVES if leaf.dtype.is_integer]
FLOATS = [leaf for leaf in LEAVES if leaf.dtype.is_floating]
INEXACT = [leaf for leaf in LEAVES if leaf.dtype.is_floating or leaf.dtype.is_complex]
REAL = [leaf for leaf in LEAVES if not leaf.dtype.is_complex]
COUNTED = [leaf for leaf in LEAVES if leaf is not md.BoolTensor]
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
SCALARS = st.sampled_from([0, 1, -1, 2.5, True, 300])
AXES = st.integers(-4, 4)
ACCUMULATORS = st.sampled_from([None, None, *(leaf.dtype for leaf in LEAVES)])


def tensor(leaf: type[md.Tensor], shape: tuple[int, ...]) -> Any:
    return leaf.wrap(np.ones(shape, leaf.dtype.storage))


def any_tensor(draw: Draw, leaves: list[Any] = LEAVES, shape: Any = SHAPES) -> Any:
    return tensor(draw(st.sampled_from(leaves)), draw(shape))


def one(draw: Draw) -> Call:
    return (any_tensor(draw),), {}


def one_float(draw: Draw) -> Call:
    return (any_tensor(draw, FLOATS),), {}


def one_complex(draw: Draw) -> Call:
    return (any_tensor(draw, SPECTRA),), {}


def pairs_of_parts(draw: Draw) -> Call:
    last = st.sampled_from([(2,), (2,), (2,), (1,), ()])
    return (any_tensor(draw, FLOATS, st.just((*draw(SHAPES)[:3], *draw(last)))),), {}


def two(draw: Draw) -> Call:
    shape = draw(SHAPES)
    other = shape[draw(st.integers(0, 2)) :] if draw(st.booleans()) else draw(SHAPES)
    x = any_tensor(draw, shape=st.just(shape))
    y = any_tensor(draw, shape=st.just(other))
    pair = (x, draw(SCALARS)) if draw(st.booleans()) else (x, y)
    return (pair if draw(st.booleans()) else pair[::-1]), {}


def clipped(draw: Draw) -> Call:
    x = any_tensor(draw, NUMBERS)
    number = st.sampled_from([None, 0, 6, -1, "a"])
    low, high = (
        any_tensor(draw, NUMBERS, st.sampled_from([x.shape, x.shape[1:], (2, 1)]))
        if draw(st.booleans())
        else draw(number)
        for _ in range(2)
    )
    return (x,), {"min": low, "max": high}


def reduced(draw: Draw) -> Call:
    axis = draw(st.one_of(st.none(), AXES, st.lists(AXES, max_size=3).map(tuple)))
    keep = draw(st.booleans())
    return (any_tensor(draw),), {"axis": axis, "keepdims": keep}


def totaled(draw: Draw) -> Call:
    arguments, options = reduced(draw)
    return arguments, {**options, "dtype": draw(ACCUMULATORS)}


def spread(draw: Draw) -> Call:
    arguments, options = reduced(draw)
    return arguments, {**options, "correction": draw(st.sampled_from([0, 1.5, "1"]))}


def indexed_extreme(draw: Draw) -> Call:
    axis, keep = draw(st.one_of(st.none(), AXES)), draw(st.booleans())
    return (any_tensor(draw),), {"axis": axis, "keepdims": keep}


def running(draw: Draw) -> Call:
    return (any_tensor(draw),), {
        "axis": draw(st.one_of(st.none(), AXES)),
        "dtype": draw(ACCUMULATORS),
        "include_initial": draw(st.booleans()),
    }


def neighbours(draw: Draw) -> Call:
    shape, axis = draw(SHAPES), draw(AXES)
    ends = st.one_of(st.none(), st.just(shape), st.just((*shape[:-1], 2)), SHAPES)
    options = {"axis": axis, "n": draw(st.integers(-1, 3))}
    for name in ("prepend", "append"):
        end = draw(ends)
        options[name] = None if end is None else any_tensor(draw, shape=st.just(end))
    return (any_tensor(draw, shape=st.just(shape)),), options


def searched(draw: Draw) -> Call:
    x1 = any_tensor(draw, shape=st.sampled_from([(3,), (3,), (0,), (2, 2), ()]))
    order = st.sampled_from([None, None, (3,), (0,), (1,)])
    sorter = draw(order)
    side = draw(st.sampled_from(["left", "right", "middle"]))
    given = None if sorter is None else any_tensor(draw, shape=st.just(sorter))
    x2 = draw(SCALARS) if draw(st.booleans()) else any_tensor(draw)
    return (x1, x2), {"side": side, "sorter": given}


def chosen(draw: Draw) -> Call:
    condition = any_tensor(draw, [md.BoolTensor, md.BoolTensor, md.Int8Tensor])
    return (condition, *two(draw)[0]), {}


def ordered(draw: Draw) -> Call:
    down = draw(st.sampled_from([True, False, "down"]))
    return (any_tensor(draw),), {"axis": draw(AXES), "descending": down}


def along(draw: Draw) -> Call:
    return (any_tensor(draw, FLOATS),), {"axis": draw(AXES)}


def tuned(**options: Any) -> Callable[[Draw], Call]:
    """One of floats, and options of these or wrong values."""

    def drawn(draw: Draw) -> Call:
        chosen = {k: draw(st.sampled_from([*v, "no"])) for k, v in options.items()}
        return (any_tensor(draw, FLOATS),), chosen

    return drawn


def sloped(draw: Draw) -> Call:
    x = any_tensor(draw, FLOATS)
    channels = x.shape[1] if x.ndim > 1 else 1
    shapes = st.sampled_from([(), (1,), (channels,), (channels + 1,), (1, 1)])
    return (x, any_tensor(draw, FLOATS, shapes)), {}


def product(draw: Draw) -> Call:
    m, k, n = draw(st.tuples(*[st.integers(0, 3)] * 3))
    batch = draw(st.sampled_from([(), (2,), (1,), (3, 1)]))
    shapes = draw(
        st.sampled_from(
            [
                ((*batch, m, k), (k, n)),
                ((m, k), (*batch, k, n)),
                ((*batch, m, k), (2, k, n)),
                ((k,), (*batch, k, n)),
                ((m, k), (k,)),
                ((k,), (k,)),
                ((m, k), (k + 1, n)),
                ((), (k,)),
            ]
        )
    )
    return tuple(any_tensor(draw, COUNTED, st.just(s)) for s in shapes), {}


def identity(draw: Draw, leaves: list[Any] = INEXACT, m: int = -1) -> Any:
    """Stacked identities, which have every inverse and factor; or any shape at all."""
    leaf = draw(st.sampled_from(leaves))
    stack = draw(st.sampled_from([(), (2,), (0,), (3, 1)]))
    m = draw(st.integers(0, 3)) if m < 0 else m
    n = draw(st.sampled_from([m, m, m, 2]))
    one = np.broadcast_to(np.eye(m, n).astype(leaf.dtype.storage), (*stack, m, n))
    return leaf.wrap(one) if draw(st.integers(0, 4)) else any_tensor(draw, leaves)


def factored(draw: Draw) -> Call:
    return (identity(draw),), {}


def triangular(draw: Draw) -> Call:
    return (identity(draw),), {"upper": draw(st.booleans())}


def orthogonal(draw: Draw) -> Call:
    mode = draw(st.sampled_from(["reduced", "complete", "r"]))
    return (identity(draw),), {"mode": mode}


def singular(draw: Draw) -> Call:
    return (identity(draw),), {"full_matrices": draw(st.booleans())}


def solved(draw: Draw) -> Call:
    a = identity(draw, COUNTED)
    m = a.shape[-1] if a.ndim else 1
    right = draw(st.sampled_from([(m,), (m, 2), (2, m, 1), (m + 1,), ()]))
    return (a, any_tensor(draw, COUNTED, st.just(right))), {}


def tolerated(draw: Draw) -> Call:
    rtol = st.sampled_from([None, 0, 0.5, True, md.ones(()), md.ones((2,)), [0.1]])
    return (identity(draw),), {"rtol": draw(rtol)}


def powered(draw: Draw) -> Call:
    return (identity(draw, COUNTED), draw(st.sampled_from([0, 1, 3, -2, True]))), {}


def transposed(draw: Draw) -> Call:
    return (any_tensor(draw),), {}


def on_diagonal(draw: Draw) -> Call:
    return (any_tensor(draw),), {"offset": draw(st.integers(-4, 4))}


def traced(draw: Draw) -> Call:
    dtypes = [None, *(leaf.dtype for leaf in LEAVES)]
    arguments, options = on_diagonal(draw)
    return arguments, {**options, "dtype": draw(st.sampled_from(dtypes))}


def vector_normed(draw: Draw) -> Call:
    orders = st.sampled_from([2, 1, 0, -1, 3.5, float("inf"), -float("inf"), "fro"])
    _, options = reduced(draw)
    return (any_tensor(draw, INEXACT),), {**options, "ord": draw(orders)}


def matrix_normed(draw: Draw) -> Call:
    infinity = float("inf")
    orders = ["fro", "nuc", 1, -1, 2, -2, infinity, -infinity, None, 3]
    order, keep = draw(st.sampled_from(orders)), draw(st.booleans())
    return (any_tensor(draw, INEXACT),), {"ord": order, "keepdims": keep}


def vectors(draw: Draw) -> Call:
    (x, y), _ = product(draw)
    shape = st.one_of(st.just(x.shape), st.just(y.shape), st.just((2, 1, 3)))
    pair = (any_tensor(draw, COUNTED, shape) for _ in range(2))
    return tuple(pair), {"axis": draw(st.sampled_from([-1, -1, -2, 0, 3]))}


def signals(draw: Draw) -> Call:
    shape = st.sampled_from([(1,), (2,), (4,), (4,), (0,), (), (2, 1)])
    pair = (any_tensor(draw, COUNTED, shape) for _ in range(2))
    return tuple(pair), {"mode": draw(st.sampled_from(["full", "same", "valid", 0]))}


def triples(draw: Draw) -> Call:
    shape = st.sampled_from([(3,), (2, 3), (2, 1, 3), (3, 3), (3, 1), (2,), ()])
    pair = (any_tensor(draw, COUNTED, shape) for _ in range(2))
    return tuple(pair), {"axis": draw(st.sampled_from([-1, -1, -2, 0]))}


def contracted(draw: Draw) -> Call:
    shape = draw(SHAPES)
    pairs = [
        2,
        1,
        0,
        -1,
        "ab",
        ([0], [0]),
        ([-1, 0], [-1, 0]),
        ([0, 0], [0, 0]),
        ([1],),
    ]
    x = any_tensor(draw, COUNTED, st.just(shape))
    y = any_tensor(draw, COUNTED, st.sampled_from([shape, shape[::-1], (2, 2)]))
    return (x, y), {"axes": draw(st.sampled_from(pairs))}


def two_vectors(draw: Draw) -> Call:
    shape = st.sampled_from([(0,), (2,), (3,), (1, 2)])
    return tuple(any_tensor(draw, COUNTED, shape) for _ in range(2)), {}


SPECTRA = [leaf for leaf in LEAVES if leaf.dtype.is_complex]
LENGTHS = st.sampled_from([None, None, 1, 3, 4, 0, True])
NORMS = st.sampled_from(["backward", "ortho", "forward", "ortho", None])


def transformed(draw: Draw, leaves: list[Any] = SPECTRA) -> Call:
    options = {"n": draw(LENGTHS), "axis": draw(AXES), "norm": draw(NORMS)}
    return (any_tensor(draw, leaves),), options


def transformed_inexact(draw: Draw) -> Call:
    return transformed(draw, INEXACT)


def transformed_real(draw: Draw) -> Call:
    return transformed(draw, FLOATS)


def transformed_n(draw: Draw, leaves: list[Any] = SPECTRA) -> Call:
    x = any_tensor(draw, leaves)
    axes = draw(st.sampled_from([None, (0,), (-1, 0), (1, 2), (0, 0), ()]))
    count = len(axes or ()) + draw(st.sampled_from([0, 0, 0, 1]))
    sizes = st.lists(st.sampled_from([-1, 1, 2, 5, 0]), min_size=count, max_size=count)
    s = draw(st.one_of(st.none(), sizes))
    return (x,), {"s": s, "axes": axes, "norm": draw(NORMS)}


def transformed_n_inexact(draw: Draw) -> Call:
    return transformed_n(draw, INEXACT)


def transformed_n_real(draw: Draw) -> Call:
    return transformed_n(draw, FLOATS)


def turned(draw: Draw) -> Call:
    axes = st.one_of(st.none(), AXES, st.lists(AXES, max_size=2).map(tuple))
    return (any_tensor(draw),), {"axes": draw(axes)}


def fully_connected(draw: Draw) -> Call:
    k, n, extra = draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(SHAPES)
    x = any_tensor(draw, COUNTED, st.just((*extra[:2], k)))
    w = any_tensor(draw, COUNTED, st.just((n, k)))
    b = any_tensor(draw, COUNTED, st.sampled_from([(n,), (n + 1,)]))
    return (x, w, b if draw(st.booleans()) else None), {}


def convolved(draw: Draw) -> Call:
    groups, depth, each = draw(st.tuples(*[st.integers(1, 2)] * 3))
    image = draw(st.tuples(*[st.integers(0, 7)] * 2))
    kernel = draw(st.tuples(*[st.integers(1, 3)] * 2))
    x = any_tensor(
        draw, NUMBERS, st.just((draw(st.integers(0, 2)), groups * depth, *image))
    )
    w = any_tensor(draw, NUMBERS, st.just((groups * each, depth, *kernel)))
    b = any_tensor(draw, NUMBERS, st.just((groups * each,)))
    options = {
        "stride": draw(st.sampled_from([1, 2, (1, 3)])),
        "padding": draw(st.sampled_from([0, 1, (2, 0), (0, 1, 2, 3)])),
        "dilation": draw(st.sampled_from([1, 2, (2, 1)])),
        "groups": groups,
    }
    return (x, w, b if draw(st.booleans()) else None), options


def normalized(draw: Draw) -> Call:
    x = any_tensor(draw, FLOATS)
    channels = x.shape[1] if x.ndim > 1 else 1
    wrong = draw(st.sampled_from([0, 0, 1]))
    sizes = st.just((channels + wrong,))
    return (x, *(any_tensor(draw, FLOATS, sizes) for _ in range(4))), {}


def folded(draw: Draw) -> Call:
    w = any_tensor(draw, FLOATS)
    sizes = st.just(w.shape[:1])
    rest = [any_tensor(draw, FLOATS, sizes) for _ in range(5)]
    return (w, rest[0] if draw(st.booleans()) else None, *rest[1:]), {}


def optional(draw: Draw, *shapes: tuple[int, ...]) -> Any:
    """A tensor of floats of one of the shapes, or none."""
    one = any_tensor(draw, FLOATS, st.sampled_from(shapes))
    return one if draw(st.booleans()) else None


EPS = st.sampled_from([1e-5, 0, 1, -1, "1"])


def over_last(count: int) -> Callable[[Draw], Call]:
    """An argument, `count` weights that may fit, and the shape they normalize."""

    def drawn(draw: Draw) -> Call:
        x = any_tensor(draw, FLOATS)
        shape = x.shape[draw(st.integers(0, 3)) :]
        weights = [optional(draw, shape, shape, (*shape, 1)) for _ in range(count)]
        chosen = draw(st.sampled_from([shape, shape, shape[::-1], 3]))
        return (x, *weights), {"normalized_shape": chosen, "eps": draw(EPS)}

    return drawn


def affine(draw: Draw) -> Call:
    x = any_tensor(draw, FLOATS)
    channels = x.shape[1] if x.ndim > 1 else 1
    shapes = (channels,), (channels,), (channels + 1,)
    weights = [optional(draw, *shapes) for _ in range(2)]
    return (x, *weights), {"eps": draw(EPS)}


def grouped(draw: Draw) -> Call:
    arguments, options = affine(draw)
    return arguments, {**options, "num_groups": draw(st.sampled_from([1, 1, 2, 3, 0]))}


def to_unit(draw: Draw) -> Call:
    axis = draw(st.one_of(AXES, st.tuples(AXES, AXES), st.none()))
    p = draw(st.sampled_from([1, 2, 3.5, float("inf"), 0, "2"]))
    return (any_tensor(draw, FLOATS),), {"p": p, "axis": axis, "eps": draw(EPS)}


IMAGES = st.tuples(st.integers(0, 2), st.integers(0, 2), *[st.integers(0, 8)] * 2)


def pooled(draw: Draw) -> Call:
    options = {
        "kernel_size": draw(st.sampled_from([1, 2, 3, (3, 2)])),
        "stride": draw(st.sampled_from([None, 1, 2, (2, 3)])),
        "padding": draw(st.sampled_from([0, 1, (1, 0), (0, 1, 1, 0), (1, 0, 0, 1)])),
        "ceil_mode": draw(st.booleans()),
    }
    return (any_tensor(draw, FLOATS, IMAGES),), options


def averaged(draw: Draw) -> Call:
    arguments, options = pooled(draw)
    return arguments, {**options, "count_include_pad": draw(st.booleans())}


def convolved_signal(draw: Draw) -> Call:
    groups, depth, each, k = draw(st.tuples(*[st.integers(1, 2)] * 4))
    n, length = draw(st.integers(0, 2)), draw(st.integers(0, 7))
    x = any_tensor(draw, NUMBERS, st.just((n, groups * depth, length)))
    w = any_tensor(draw, NUMBERS, st.just((groups * each, depth, k)))
    b = any_tensor(draw, NUMBERS, st.just((groups * each,)))
    options = {
        "stride": draw(st.sampled_from([1, 2, (3,)])),
        "padding": draw(st.sampled_from([0, 1, (0, 2), (1, 1, 1)])),
        "dilation": draw(st.sampled_from([1, 2])),
        "groups": groups,
    }
    return (x, w, b if draw(st.booleans()) else None), options


def painted(draw: Draw) -> Call:
    (x, w, _), options = convolved(draw)
    groups = options["groups"]
    out = draw(st.integers(1, 2))
    w = tensor(type(w), (x.shape[1], out, *w.shape[2:]))
    b = any_tensor(draw, NUMBERS, st.just((out * groups,)))
    more = draw(st.sampled_from([0, 1, (1, 0)]))
    chosen = (x, w, b if draw(st.booleans()) else None)
    return chosen, {**options, "output_padding": more}


def pooled_signal(draw: Draw) -> Call:
    options = {
        "kernel_size": draw(st.sampled_from([1, 2, (3,)])),
        "stride": draw(st.sampled_from([None, 1, 2])),
        "padding": draw(st.sampled_from([0, 1, (0, 1), (1, 0)])),
        "ceil_mode": draw(st.booleans()),
    }
    signals = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 8))
    return (any_tensor(draw, FLOATS, st.one_of(signals, SHAPES)),), options


def averaged_signal(draw: Draw) -> Call:
    arguments, options = pooled_signal(draw)
    return arguments, {**options, "count_include_pad": draw(st.booleans())}


def adapted(draw: Draw) -> Call:
    sizes = [1, 2, 5, (3, 1), (None, 2), None, 0, (1, 2, 3), "2"]
    x = any_tensor(draw, FLOATS, st.one_of(IMAGES, SHAPES))
    return (x,), {"output_size": draw(st.sampled_from(sizes))}


def attended(draw: Draw) -> Call:
    n, s, e, v = draw(st.tuples(*[st.integers(0, 3)] * 4))
    batch = st.sampled_from([(), (2,), (1,), (3, 1), (3,)])
    keys = (s if draw(st.booleans()) else n, e)
    shapes = [(*draw(batch), *size) for size in ((n, e), keys, (s, v))]
    mask = tensor(
        draw(st.sampled_from([md.BoolTensor, md.Float16Tensor, md.Int8Tensor])),
        draw(st.sampled_from([(n, s), (s,), (1, s), (5, n, s)])),
    )
    options = {
        "attn_mask": draw(st.sampled_from([None, mask, np.ones((n, s))])),
        "is_causal": draw(st.sampled_from([False, True, 1])),
        "scale": draw(st.sampled_from([None, 0.5, "1"])),
    }
    return tuple(any_tensor(draw, FLOATS, st.just(shape)) for shape in shapes), options


def embedded(draw: Draw) -> Call:
    tables = st.sampled_from([(2, 3), (4, 0), (3,), (2, 1, 1)])
    return (any_tensor(draw, INTEGERS), any_tensor(draw, shape=tables)), {}


def one_of(draw: Draw) -> Call:
    x = any_tensor(draw, INTEGERS, st.lists(st.integers(1, 3), max_size=3).map(tuple))
    return (x,), {"num_classes": draw(st.sampled_from([-1, 2, 5, 0, "1"]))}


def resampled(draw: Draw) -> Call:
    options = {
        "size": draw(st.sampled_from([None, 3, (2, 5), 0])),
        "scale_factor": draw(st.sampled_from([None, 2, (0.5, 1.7), 0.1, -1, "2"])),
        "mode": draw(st.sampled_from(["nearest", "bilinear", "bicubic", "area"])),
        "align_corners": draw(st.sampled_from([None, True, False, 1])),
    }
    return (any_tensor(draw, FLOATS, st.one_of(IMAGES, SHAPES)),), options


def shuffled(option: str) -> Callable[[Draw], Call]:
    def drawn(draw: Draw) -> Call:
        shapes = st.tuples(st.integers(0, 2), *[st.sampled_from([0, 2, 4, 9])] * 3)
        x = any_tensor(
            draw, shape=st.one_of(shapes, shapes.map(lambda s: s[1:]), SHAPES)
        )
        return (x,), {option: draw(st.sampled_from([1, 2, (2,), 3, 0, 1.5]))}

    return drawn


def image(draw: Draw) -> Call:
    return (any_tensor(draw, FLOATS, st.one_of(IMAGES, SHAPES)),), {}


def reshaped(draw: Draw) -> Call:
    x = any_tensor(draw)
    wanted = [*x.shape[::-1]]
    if wanted and draw(st.booleans()):
        wanted[draw(st.integers(0, len(wanted) - 1))] = -1
    shape = draw(st.sampled_from([tuple(wanted), (-1,), (2, -1), -1]))
    return (x,), {"shape": shape, "copy": draw(st.sampled_from([None, True, False]))}


def permuted(draw: Draw) -> Call:
    x = any_tensor(draw)
    order = draw(st.permutations(range(x.ndim)))
    return (x,), {"axes": tuple(order) if draw(st.booleans()) else (0, 0)}


def joined(draw: Draw) -> Call:
    shape, axis = draw(SHAPES), draw(st.one_of(st.none(), st.integers(-2, 2)))
    count = draw(st.integers(1, 3))
    shapes = st.sampled_from([shape, shape, (*shape[:-1], 2)])
    return tuple(any_tensor(draw, shape=shapes) for _ in range(count)), {"axis": axis}


def alike(draw: Draw) -> Call:
    dtype = draw(st.sampled_from([None, md.int8, "bfloat16", "int7"]))
    device = draw(st.sampled_from([None, "cpu", md.cpu, "moon"]))
    return (any_tensor(draw),), {"dtype": dtype, "device": device}


def filled(draw: Draw) -> Call:
    arguments, options = alike(draw)
    return arguments, {**options, "fill_value": draw(SCALARS)}


def triangle(draw: Draw) -> Call:
    return (any_tensor(draw),), {"k": draw(st.one_of(AXES, st.just(0.5)))}


def broadcast(draw: Draw) -> Call:
    x = any_tensor(draw)
    front = draw(st.lists(st.integers(-1, 2), max_size=2))
    sizes = [draw(st.sampled_from([n, n, 3])) if n == 1 else n for n in x.shape]
    return (x,), {"shape": draw(st.sampled_from([(*front, *sizes), 2, (4,), 2.0]))}


def flipped(draw: Draw) -> Call:
    axis = draw(st.one_of(st.none(), AXES, st.lists(AXES, max_size=3).map(tuple)))
    return (any_tensor(draw),), {"axis": axis}


def moved_axes(draw: Draw) -> Call:
    axes = st.one_of(AXES, st.lists(AXES, max_size=2).map(tuple), st.just("a"))
    return (any_tensor(draw), draw(axes), draw(axes)), {}


def repeated(draw: Draw) -> Call:
    x, axis = any_tensor(draw), draw(st.one_of(st.none(), AXES))
    counts = st.one_of(st.integers(-1, 3), st.builds(key_tensor, st.just(draw)))
    return (x, draw(counts)), {"axis": axis}


def rolled(draw: Draw) -> Call:
    axes = st.one_of(st.none(), AXES, st.lists(AXES, max_size=2).map(tuple))
    shift = st.one_of(AXES, st.lists(AXES, max_size=2).map(tuple), st.just(0.5))
    return (any_tensor(draw),), {"shift": draw(shift), "axis": draw(axes)}


def stacked(draw: Draw) -> Call:
    shape = draw(SHAPES)
    shapes = st.sampled_from([shape, shape, shape, (*shape[:-1], 2)])
    count = draw(st.integers(1, 3))
    return tuple(any_tensor(draw, shape=shapes) for _ in range(count)), {
        "axis": draw(st.integers(-5, 4))
    }


def tiled(draw: Draw) -> Call:
    counts = st.one_of(AXES, st.lists(st.integers(-1, 2), max_size=5).map(tuple))
    return (any_tensor(draw), draw(counts)), {}


def bordered(draw: Draw) -> Call:
    x = any_tensor(draw)
    widths = st.tuples(st.integers(0, 2), st.integers(0, 2))
    ndim = x.ndim + draw(st.sampled_from([0, 0, 1]))
    return (x,), {"pad_width": draw(st.lists(widths, min_size=ndim, max_size=ndim))}


def squeezed(draw: Draw) -> Call:
    x = any_tensor(draw, shape=st.lists(st.integers(0, 2), max_size=4).map(tuple))
    return (x,), {"axis": draw(st.one_of(AXES, st.lists(AXES, max_size=2).map(tuple)))}


def widened(draw: Draw) -> Call:
    several = st.lists(AXES, max_size=2).map(tuple)
    return (any_tensor(draw),), {"axis": draw(AXES | several)}


def expanded(draw: Draw) -> Call:
    return (any_tensor(draw),), {"axis": draw(AXES)}


def key_tensor(draw: Draw) -> Any:
    """Integers from -1 to 1, or truth values."""
    shape = draw(st.lists(st.integers(0, 3), max_size=2).map(tuple))
    leaf = draw(st.sampled_from([md.BoolTensor, md.Int8Tensor, md.UInt64Tensor]))
    least = 0 if leaf is md.UInt64Tensor else -1
    values = st.lists(st.integers(least, 1), min_size=prod(shape), max_size=prod(shape))
    return leaf.wrap(np.reshape(draw(values), shape).astype(leaf.dtype.storage))


def indexed(draw: Draw) -> Call:
    ends = st.one_of(st.none(), st.integers(-5, 5))
    steps = st.one_of(st.none(), st.integers(-2, 2))
    key = st.one_of(
        st.integers(-4, 4),
        st.none(),
        st.just(Ellipsis),
        st.builds(slice, ends, ends, steps),
        st.sampled_from(["a", 1.5, True, [0], np.int64(1)]),
        st.builds(key_tensor, st.just(draw)),
    )
    keys = st.one_of(key, st.lists(key, max_size=4).map(tuple))
    return (any_tensor(draw),), {"key": draw(keys)}


def assigned(draw: Draw) -> Call:
    arguments, options = indexed(draw)
    value = st.one_of(SCALARS, st.builds(any_tensor, st.just(draw)))
    return arguments, {**options, "value": draw(value)}


def taken(draw: Draw) -> Call:
    axis = draw(st.one_of(st.none(), AXES))
    return (any_tensor(draw), key_tensor(draw)), {"axis": axis}


def taken_along(draw: Draw) -> Call:
    return (any_tensor(draw), key_tensor(draw)), {"axis": draw(AXES)}


def scattered(draw: Draw) -> Call:
    names = ["none", "add", "mul", "max", "min", "sum", None]
    options = {"axis": draw(AXES), "reduction": draw(st.sampled_from(names))}
    return (any_tensor(draw), key_tensor(draw), any_tensor(draw)), options


def short_product(draw: Draw) -> Call:
    m, k, n = draw(st.tuples(*[st.integers(0, 3)] * 3))
    leaves = st.sampled_from([md.Int8Tensor, md.UInt8Tensor, md.Int16Tensor])
    shapes = [(2, m, k), (k, n) if draw(st.integers(0, 9)) else (k,)]
    shapes += [draw(st.sampled_from([(), (1,), (n,), (2,)])) for _ in range(2)]
    given = [tensor(draw(leaves), shape) for shape in shapes]
    return tuple(x if draw(st.integers(0, 3)) else None for x in given), {}


def short_convolution(draw: Draw) -> Call:
    (_, _, _), options = convolved(draw)
    groups = options["groups"]
    shapes = [(1, 2 * groups, 4, 5), (2 * groups, 2, 2, 3)]
    shapes += [draw(st.sampled_from([(), (1,), (2 * groups,)])) for _ in range(2)]
    leaves = st.sampled_from([md.Int8Tensor, md.UInt8Tensor, md.Int16Tensor])
    given = [tensor(draw(leaves), shape) for shape in shapes]
    return (
        *given[:2],
        *(x if draw(st.booleans()) else None for x in given[2:]),
    ), options


def on_dynamic_grids(draw: Draw, call: Call, columns: int) -> Call:
    """The call of a product of integers, of floats with a scale and a bias."""
    (x, w, _, zero), options = call
    shape = getattr(x, "shape", (2, 2))
    given = [tensor(draw(st.sampled_from(FLOATS)), shape)]
    for sizes in ([(), (1,), (columns,)], [(columns,), (1,)]):
        shape = draw(st.sampled_from(sizes))
        kind = draw(
            st.sampled_from([md.Float32Tensor, md.Float32Tensor, md.Float64Tensor])
        )
        given.append(tensor(kind, shape))
    x, scale, bias = given
    return (x, w, scale, zero, bias if draw(st.booleans()) else None), options


def dynamic_product(draw: Draw) -> Call:
    call = short_product(draw)
    shape = getattr(call[0][1], "shape", (1,))
    return on_dynamic_grids(draw, call, shape[-1])


def dynamic_convolution(draw: Draw) -> Call:
    call = short_convolution(draw)
    return on_dynamic_grids(draw, call, call[0][1].shape[0])


def rounded_to_part(draw: Draw) -> Call:
    part = st.sampled_from(["codes", "scale", "zero_point", "zero"])
    return (any_tensor(draw, FLOATS),), {"part": draw(part)}


def overlapping(draw: Draw) -> Call:
    n, c, b = draw(st.tuples(*[st.integers(0, 3)] * 3))
    shapes = [(n, b, 4), (n, c, b)]
    given = [
        any_tensor(draw, FLOATS, st.just(shape) if draw(st.integers(0, 9)) else SHAPES)
        for shape in shapes
    ]
    options = {
        "max_boxes": draw(st.sampled_from([None, 0, 2, -1, 1.5])),
        "iou_threshold": draw(st.sampled_from([0, 0.5, 1, 2, "0"])),
        "score_threshold": draw(st.sampled_from([None, 0, 0.5, "1"])),
        "centered": draw(st.sampled_from([False, True, 1])),
    }
    return tuple(given), options


def sampled(draw: Draw) -> Call:
    n, c = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    sizes = tuple(draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)))
    points = tuple(draw(st.integers(0, 3)) for _ in sizes)
    shapes = [(n, c, *sizes), (n, *points, len(sizes))]
    options = {
        "mode": draw(st.sampled_from(["bilinear", "nearest", "bicubic", "linear"])),
        "padding_mode": draw(st.sampled_from(["zeros", "border", "reflection", 0])),
        "align_corners": draw(st.sampled_from([False, True, 1])),
        "normalized": draw(st.sampled_from([False, True, None])),
    }
    return tuple(of_one_type(draw, shapes)), options


def of_one_type(draw: Draw, shapes: list[tuple[int, ...]]) -> list[Any]:
    """Tensors of floats, most often of one type and of these shapes."""
    kind = draw(st.sampled_from(FLOATS))
    return [
        tensor(kind, shape) if draw(st.integers(0, 9)) else any_tensor(draw, FLOATS)
        for shape in shapes
    ]


def regions(columns: int) -> Callable[[Draw], Call]:
    """An image and boxes of so many columns, with an image for each if there are 4."""

    def drawn(draw: Draw) -> Call:
        n, c, h, w, k = draw(st.tuples(*[st.integers(0, 3)] * 5))
        given = of_one_type(draw, [(n, c, h, w), (k, columns)])
        options: dict[str, Any] = {
            "output_size": draw(st.sampled_from([1, (2, 3), 0, (1, 2, 3), "2"])),
            "spatial_scale": draw(st.sampled_from([1, 0.5, 0, -1, "1"])),
        }
        if columns == 4:
            given.append(any_tensor(draw, INTEGERS, st.just((k,))))
            options |= {
                "sampling_ratio": draw(st.sampled_from([0, 2, -1, 1.5])),
                "aligned": draw(st.sampled_from([False, True, 1])),
                "mode": draw(st.sampled_from(["avg", "max", "mean"])),
            }
        return tuple(given), options

    return drawn


def recurrent(gates: int, states: int) -> Callable[[Draw], Call]:
    """Operands of a layer with so many gates and states, some omitted or misshapen."""

    def drawn(draw: Draw) -> Call:
        t, n, i, k = draw(st.tuples(*[st.integers(0, 3)] * 4))
        rows = gates * k
        shapes = [(t, n, i), (rows, i), (rows, k), (2, rows), *[(n, k)] * states]
        shapes += [(3, k)] if states == 2 else []
        given = []
        for at, shape in enumerate(shapes):
            other = draw(SHAPES) if not draw(st.integers(0, 19)) else shape
            is_left = at > 2 and draw(st.booleans())
            given.append(None if is_left else any_tensor(draw, FLOATS, st.just(other)))
        lengths = any_tensor(draw, INTEGERS, st.just((n,)))
        limit = draw(st.sampled_from([None, None, 1.5, 0]))
        return (*given, draw(st.sampled_from([None, lengths]))), {"clip": limit}

    return drawn


def dynamic_recurrent(draw: Draw) -> Call:
    """Operands of an LSTM with int8 weights, some of them misshapen."""
    (x, w, r, *rest), options = recurrent(4, 2)(draw)
    given = [x]
    for weight in (w, r):
        whole = weight.shape if draw(st.integers(0, 19)) else (2, 2)
        given.append(any_tensor(draw, [md.Int8Tensor], st.just(whole)))
        sizes = st.sampled_from([(), (1,), whole[:1], (3,)])
        given.append(any_tensor(draw, [md.Float32Tensor], sizes))
    return (*given, *rest), options


def grown(draw: Draw) -> Call:
    """Operands of trees, with children that may not exist or lead in a circle."""
    n, f, m, t = draw(st.tuples(*[st.integers(0, 3)] * 4))
    given = [any_tensor(draw, FLOATS, st.just(shape)) for shape in ((n, f), (m,))]
    for shape in ((m,), (m, 3), (t,)):
        other = draw(SHAPES) if not draw(st.integers(0, 19)) else shape
        values = st.lists(
            st.integers(-3, 3), min_size=prod(other), max_size=prod(other)
        )
        leaf = draw(st.sampled_from([md.Int8Tensor, md.Int32Tensor, md.Int64Tensor]))
        numbers = np.reshape(draw(values), other)
        given.append(leaf.wrap(numbers.astype(leaf.dtype.storage)))
    return tuple(given), {}


HOMES = [None, md.cpu, "cpu"]


def two_real(draw: Draw) -> Call:
    pair = [any_tensor(draw, REAL), draw(SCALARS | st.just(any_tensor(draw, REAL)))]
    return tuple(draw(st.permutations(pair))), {"invert": draw(st.booleans())}


def rounded_to(draw: Draw) -> Call:
    dtypes = [md.float16, md.bfloat16, md.float32, "float16", md.int8]
    return (any_tensor(draw, FLOATS), draw(st.sampled_from(dtypes))), {}


def cast(draw: Draw) -> Call:
    dtype = draw(st.sampled_from([leaf.dtype for leaf in LEAVES]))
    name = draw(st.sampled_from([dtype, dtype.name, dtype.storage.type]))
    policy = draw(st.sampled_from(["exact", "check", "saturate", "wrap"]))
    options = {"casting": policy, "copy": draw(st.booleans())}
    return (any_tensor(draw), name), options | {"device": draw(st.sampled_from(HOMES))}


def moved(draw: Draw) -> Call:
    return (any_tensor(draw), draw(st.sampled_from([md.cpu, "cpu"]))), {}


ONE = """
    abs acos acosh argwhere asin asinh atan atanh bitwise_invert ceil conj cos cosh exp
    expm1
    floor imag isfinite isinf isnan log log10 log1p log2 logical_not neg nonzero
    positive real reciprocal round sign signbit sin sinh sqrt square tan tanh trunc
    unique_all unique_counts unique_inverse unique_values
"""
TWO = """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
    copysign div equal floor_divide greater greater_equal hypot less less_equal
    logaddexp logical_and logical_or logical_xor maximum minimum mul nextafter
    not_equal pow remainder sub
"""
DRAWS: dict[Any, Callable[[Draw], Call]] = {
    **{getattr(md, name): one for name in ONE.split()},
    **{getattr(md, name): two for name in TWO.split()},
    **dict.fromkeys([md.relu, md.relu6], one),
    **dict.fromkeys([md.sigmoid, md.hardsigmoid, md.hardswish], one_float),
    **dict.fromkeys([md.erf, md.logsigmoid, md.softsign, md.selu], one_float),
    **dict.fromkeys([md.silu, md.mish], one_float),
    **dict.fromkeys([md.glu, md.log_softmax], along),
    **dict.fromkeys([md.elu, md.celu], tuned(alpha=[1, 0.5, 0])),
    md.leaky_relu: tuned(negative_slope=[0, 0.5, 2]),
    md.softplus: tuned(beta=[1, 0.5, 0], threshold=[20, 1.5]),
    md.hardtanh: tuned(min_val=[-1, 0.5], max_val=[1, 0.25]),
    md.gelu: tuned(approximate=["none", "tanh"]),
    md.prelu: sloped,
    md.clip: clipped,
    **dict.fromkeys([md.mean, md.max, md.min, md.all, md.any], reduced),
    **dict.fromkeys([md.sum, md.prod], totaled),
    **dict.fromkeys([md.var, md.std], spread),
    **dict.fromkeys([md.cumulative_sum, md.cumulative_prod], running),
    md.diff: neighbours,
    **dict.fromkeys([md.argmax, md.argmin], indexed_extreme),
    md.count_nonzero: reduced,
    md.searchsorted: searched,
    md.isin: two_real,
    md.where: chosen,
    **dict.fromkeys([md.sort, md.argsort], ordered),
    md.softmax: along,
    md.matmul: product,
    md.linear: fully_connected,
    **dict.fromkeys([md.fft.fft, md.fft.ifft], transformed_inexact),
    **dict.fromkeys([md.fft.irfft, md.fft.hfft], transformed),
    **dict.fromkeys([md.fft.rfft, md.fft.ihfft], transformed_real),
    **dict.fromkeys([md.fft.fftn, md.fft.ifftn], transformed_n_inexact),
    md.fft.irfftn: transformed_n,
    md.fft.rfftn: transformed_n_real,
    **dict.fromkeys([md.fft.fftshift, md.fft.ifftshift], turned),
    md.vecdot: vectors,
    **dict.fromkeys([md.convolve, md.correlate], signals),
    md.tensordot: contracted,
    md.linalg.outer: two_vectors,
    md.linalg.cross: triples,
    md.linalg.matrix_power: powered,
    md.matrix_transpose: transposed,
    md.linalg.diagonal: on_diagonal,
    md.linalg.trace: traced,
    md.linalg.vector_norm: vector_normed,
    md.linalg.matrix_norm: matrix_normed,
    **dict.fromkeys([md.linalg.det, md.linalg.slogdet, md.linalg.inv], factored),
    **dict.fromkeys([md.linalg.eigh, md.linalg.eigvalsh, md.linalg.svdvals], factored),
    **dict.fromkeys([md.linalg.eig, md.linalg.eigvals], factored),
    md.linalg.solve: solved,
    **dict.fromkeys([md.linalg.pinv, md.linalg.matrix_rank], tolerated),
    md.linalg.cholesky: triangular,
    md.linalg.qr: orthogonal,
    md.linalg.svd: singular,
    md.conv2d: convolved,
    md.conv1d: convolved_signal,
    md.conv_transpose2d: painted,
    md.max_pool1d: pooled_signal,
    md.avg_pool1d: averaged_signal,
    **dict.fromkeys([md.adaptive_avg_pool2d, md.adaptive_max_pool2d], adapted),
    md.scaled_dot_product_attention: attended,
    md.lstm: recurrent(4, 2),
    md.gru: recurrent(3, 1),
    md.rnn: recurrent(1, 1),
    md.decision_trees: grown,
    md.pairwise_probabilities: one_float,
    md.embedding: embedded,
    md.one_hot: one_of,
    md.interpolate: resampled,
    md.pixel_shuffle: shuffled("upscale_factor"),
    md.pixel_unshuffle: shuffled("downscale_factor"),
    md.batch_norm: normalized,
    md.fold_batch_norm: folded,
    md.layer_norm: over_last(2),
    md.rms_norm: over_last(1),
    md.group_norm: grouped,
    md.instance_norm: affine,
    md.normalize: to_unit,
    md.max_pool2d: pooled,
    md.avg_pool2d: averaged,
    md.global_avg_pool2d: image,
    md.reshape: reshaped,
    md.permute_dims: permuted,
    md.concat: joined,
    md.pad: bordered,
    md.squeeze: squeezed,
    md.expand_dims: widened,
    **dict.fromkeys([md.empty_like, md.ones_like, md.zeros_like], alike),
    md.full_like: filled,
    **dict.fromkeys([md.tril, md.triu], triangle),
    md.broadcast_to: broadcast,
    md.flip: flipped,
    md.moveaxis: moved_axes,
    md.repeat: repeated,
    md.roll: rolled,
    md.stack: stacked,
    md.tile: tiled,
    md.unstack: expanded,
    md.getitem: indexed,
    md.setitem: assigned,
    md.take: taken,
    md.take_along_axis: taken_along,
    md.scatter: scattered,
    md.matmul_integer: short_product,
    md.conv2d_integer: short_convolution,
    md.dynamic_quantize: rounded_to_part,
    md.dynamic_matmul: dynamic_product,
    md.dynamic_conv2d: dynamic_convolution,
    md.dynamic_lstm: dynamic_recurrent,
    md.non_max_suppression: overlapping,
    md.grid_sample: sampled,
    md.roi_align: regions(4),
    md.roi_pool: regions(5),
    md.astype: cast,
    md.reduce_precision: rounded_to,
    md.view_as_real: one_complex,
    md.view_as_complex: pairs_of_parts,
    md.to: moved,
}

#: Refusals that only elements bring about; of all others types and shapes tell.
INSIDE: dict[Any, tuple[type[MdtensorError], ...]] = {
    # How many places of a mask are true decides with what it broadcasts.
    **dict.fromkeys([md.getitem, md.setitem], (md.BoundsError, md.ShapeError)),
    md.embedding: (md.BoundsError,),
    **dict.fromkeys([md.roi_align, md.roi_pool], (md.BoundsError,)),
    md.decision_trees: (md.BoundsError, md.DataError),
    **dict.fromkeys([md.lstm, md.gru, md.rnn, md.dynamic_lstm], (md.BoundsError,)),
    **dict.fromkeys([md.take, md.take_along_axis, md.scatter], (md.BoundsError,)),
    **dict.fromkeys([md.floor_divide, md.remainder, md.pow], (md.DataError,)),
    **dict.fromkeys([md.bitwise_left_shift, md.bitwise_right_shift], (md.DataError,)),
    **dict.fromkeys([md.linalg.cholesky, md.linalg.inv], (md.LinAlgError,)),
    **dict.fromkeys([md.linalg.solve, md.linalg.matrix_power], (md.LinAlgError,)),
    md.astype: (md.CastError,),
    # Of codes that stand for numbers without a logarithm, a root and so on.
    **dict.fromkeys([md.log, md.log1p, md.log2, md.log10], (md.CastError,)),
    **dict.fromkeys([md.sqrt, md.reciprocal, md.asin], (md.CastError,)),
    **dict.fromkeys([md.acos, md.acosh, md.atanh], (md.CastError,)),
    md.one_hot: (md.DataError,),
    md.repeat: (md.OptionError,),
}
