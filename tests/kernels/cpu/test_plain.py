"""Steps on few elements of any type, against NumPy."""

import numpy as np
import pytest

from mdtensor.kernels.cpu.generic import plain_codes as run
from mdtensor.kernels.cpu.program import plain as steps
from mdtensor.kernels.cpu.program.program import Program

TYPES = (np.int64, np.float32, np.float64)
PAIRS = {
    run.ADD: np.add,
    run.SUB: np.subtract,
    run.MUL: np.multiply,
    run.EQUAL: np.equal,
    run.NOT_EQUAL: np.not_equal,
    run.LESS: np.less,
    run.LESS_EQUAL: np.less_equal,
    run.GREATER: np.greater,
    run.GREATER_EQUAL: np.greater_equal,
}
SINGLES = {run.NEG: np.negative, run.ABS: np.abs, run.SIGN: np.sign}
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0)


def numbers(dtype, shape, seed=0, special=False):
    """Return few different numbers, so that some are equal."""
    found = np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)
    if special and found.dtype.kind == "f":
        found.reshape(-1)[: len(SPECIAL)] = SPECIAL[: found.size]
    return found


def ran(step, *arrays):
    """Return what a program of one step returns."""
    program = Program()
    slots = [program.input(x.shape, x.dtype) for x in arrays]
    return program.build([program.append(step, *slots)])(*arrays)[0]


def assert_same(found, wanted):
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    assert found.tobytes() == np.ascontiguousarray(wanted).tobytes()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operation", PAIRS)
@pytest.mark.parametrize("sizes", [(12, 12), (12, 1), (1, 12)])
def test_pairs(dtype, operation, sizes):
    x, y = (numbers(dtype, n, seed, n > 1) for seed, n in enumerate(sizes))
    step = steps.combine(operation, np.dtype(dtype), (12,), x.size, y.size)
    with np.errstate(all="ignore"):
        found, wanted = ran(step, x, y), PAIRS[operation](x, y)
    if wanted.dtype.kind == "f":
        # The payload of a NaN is not defined.
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        found, wanted = np.nan_to_num(found, nan=7), np.nan_to_num(wanted, nan=7)
    assert_same(found, wanted)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_constant_operand(dtype):
    x, y = numbers(dtype, 6), numbers(dtype, 1, 3)
    step = steps.combine(run.SUB, np.dtype(dtype), (2, 3), 6, y)
    assert_same(ran(step, x), (x - y).reshape(2, 3))


@pytest.mark.parametrize("operation", [run.LEAST, run.MOST])
def test_extremes_of_integers(operation):
    x, y = numbers(np.int64, 12), numbers(np.int64, 12, 1)
    act = {run.LEAST: np.minimum, run.MOST: np.maximum}[operation]
    step = steps.combine(operation, steps.INT64, (12,), 12, 12)
    assert_same(ran(step, x, y), act(x, y))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotients_and_roots(dtype):
    x, y = numbers(dtype, 12), numbers(dtype, 12, 1)
    step = steps.combine(run.DIV, np.dtype(dtype), (12,), 12, 12)
    y[y == 0] = 3
    assert_same(ran(step, x, y), x / y)
    positive = np.abs(x) / dtype(3)
    step = steps.apply(run.SQRT, np.dtype(dtype), (12,))
    assert_same(ran(step, positive), np.sqrt(positive))
    assert np.isnan(ran(step, -np.ones(12, dtype))).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operation", SINGLES)
def test_functions_of_each_element(dtype, operation):
    x = numbers(dtype, 12, special=True)
    x = np.nan_to_num(x, nan=0.5) if x.dtype.kind == "f" else x
    step = steps.apply(operation, np.dtype(dtype), (12,))
    assert_same(ran(step, x), SINGLES[operation](x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_and_infinity(dtype):
    x = numbers(dtype, 12, special=True)
    for operation, act in ((run.IS_NAN, np.isnan), (run.IS_FINITE, np.isfinite)):
        with np.errstate(invalid="ignore"):
            found = ran(steps.apply(operation, np.dtype(dtype), (12,)), x)
        assert_same(found, act(x))


def test_truths():
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    pairs = {run.AND: np.logical_and, run.OR: np.logical_or}
    pairs |= {run.XOR: np.logical_xor, run.EQUAL: np.equal}
    for operation, act in pairs.items():
        step = steps.combine(operation, steps.BOOL, (4,), 4, 4)
        assert_same(ran(step, x, y), act(x, y))
    assert_same(ran(steps.apply(run.NOT, steps.BOOL, (4,)), x), ~x)


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 1, 1), (1, 5, 2)])
@pytest.mark.parametrize("is_all", [False, True])
def test_all_and_any(shape, is_all):
    x = np.random.default_rng(1).random(shape) < 0.6
    wanted = (np.all if is_all else np.any)(x, axis=1)
    step = steps.truths(is_all, x.size, wanted.shape, shape[1], shape[2])
    assert_same(ran(step, x), wanted)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float32, np.float64])
def test_pick_from_one_and_two(dtype):
    x, y = numbers(np.int64, 6).astype(dtype), numbers(np.int64, 4, 1).astype(dtype)
    places = np.array([[9, 0, 3], [5, 6, -1]])
    found = ran(steps.pick(dtype, places, (6, 4)), x, y)
    both = np.concatenate([x, y, np.zeros(1, dtype)])
    assert_same(found, both[places])
    one = ran(steps.pick(dtype, places % 6, (6,)), x)
    assert_same(one, x[places % 6])


@pytest.mark.parametrize("dtype", [np.bool_, np.float32, np.int64])
def test_choose_and_hold(dtype):
    mask = np.random.default_rng(2).random(12) < 0.5
    x, held = (
        numbers(np.int64, 12).astype(dtype),
        numbers(np.int64, 12, 4).astype(dtype),
    )
    for constant in (held, held[:1]):
        for takes in (True, False):
            step = steps.choose(dtype, (3, 4), (12, 12), constant, takes)
            chosen = (x, constant) if takes else (constant, x)
            wanted = np.where(mask, *chosen).reshape(3, 4)
            assert_same(ran(step, mask, x), wanted)
    assert_same(ran(steps.hold(held, mask.dtype), mask), held)


def test_bits_of_two_halves():
    x, y = np.float32([1.5, 0, -0.0]), np.float32([0, 2.5, 0])
    assert_same(
        ran(steps.join_bits(np.float32, (3,)), x, y), np.float32([1.5, 2.5, -0.0])
    )


@pytest.mark.parametrize("before", steps.TYPES)
@pytest.mark.parametrize("after", steps.TYPES)
def test_casts(before, after):
    x = np.array([0, 1, 3, 100, 17], np.int64).astype(before)
    assert_same(ran(steps.cast(before, after, x.shape), x), x.astype(after))


@pytest.mark.parametrize("before", [np.float32, np.float64])
@pytest.mark.parametrize("after", [np.int32, np.int64])
def test_casts_that_saturate(before, after):
    x = np.array([2.9, -2.9, 1e30, -1e30, np.inf, -np.inf, np.nan, 2**31, -(2**31)])
    found = ran(steps.cast(before, after, x.shape, saturates=True), x.astype(before))
    most, least = np.iinfo(after).max, np.iinfo(after).min
    edges = [most if after is np.int32 else 2**31, -(2**31)]
    wanted = np.array([2, -2, most, least, most, least, 0, *edges], after)
    assert_same(found, wanted)


def test_floats_that_saturate():
    x = np.array([1e300, -1e300, np.inf, -np.inf, 0.1, np.nan])
    with np.errstate(over="ignore"):
        found = ran(steps.cast(np.float64, np.float32, x.shape, saturates=True), x)
    most = np.finfo(np.float32).max
    np.testing.assert_array_equal(
        found, np.float32([most, -most, np.inf, -np.inf, 0.1, np.nan])
    )


@pytest.mark.parametrize("dtype", [np.bool_, np.float32, np.float64])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_take(dtype, axis):
    x = numbers(np.int64, (3, 4, 5)).astype(dtype)
    size, inner = x.shape[axis], int(np.prod(x.shape[axis + 1 :]))
    indices = np.array([[0, -1], [size - 1, -size]])
    wanted = x.take(indices, axis)
    step = steps.take((x.dtype, x.size), wanted.shape, 4, size, inner)
    assert_same(ran(step, x, indices), wanted)
    constant = steps.take(x, wanted.shape, 4, size, inner)
    assert_same(ran(constant, indices), wanted)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_take_along(axis):
    x = numbers(np.float64, (3, 4, 5))
    shape = list(x.shape)
    shape[axis] = 2
    size, inner = x.shape[axis], int(np.prod(x.shape[axis + 1 :]))
    indices = np.random.default_rng(3).integers(-size, size, shape)
    wanted = np.take_along_axis(x, indices, axis)
    step = steps.take(
        (x.dtype, x.size), wanted.shape, wanted.size, size, inner, along=True
    )
    assert_same(ran(step, x, indices), wanted)


@pytest.mark.parametrize("index", [-5, 4, 1 << 40, -(1 << 40)])
def test_an_index_outside_is_told_and_not_read(index):
    x, indices = numbers(np.float32, 4), np.array([0, index])
    assert ran(steps.outside(2, 4, False), indices)[0]
    assert not ran(steps.outside(2, 4, False), np.array([-4, 3]))[0]
    assert ran(steps.outside(2, 4, True), np.array([-4, 3]), np.array([True]))[0]
    # What comes out is not defined, and nothing is read or written elsewhere.
    ran(steps.take((x.dtype, 4), (2,), 2, 4, 1), x, indices)


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64])
@pytest.mark.parametrize("is_sum", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter(dtype, is_sum, axis):
    x, along = numbers(dtype, (4, 3)), [4, 3]
    along[axis] = 7
    rng = np.random.default_rng(5)
    indices = rng.integers(-x.shape[axis], x.shape[axis], along)
    updates = rng.integers(-9, 9, along).astype(dtype) / dtype(7)
    updates = updates.astype(dtype)
    wanted = x.copy()
    places = list(np.indices(along))
    places[axis] = indices
    for at in np.ndindex(*along):
        place = tuple(one[at] for one in places)
        wanted[place] = wanted[place] + updates[at] if is_sum else updates[at]
    pair = (np.int64, indices.size), (dtype, updates.size)
    joined = ran(steps.join_bytes(*pair), indices.ravel(), updates.ravel())
    step = steps.scatter(dtype, x.shape, axis, tuple(along), is_sum)
    assert_same(ran(step, x, joined), wanted)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(2, 9, 3), (1, 1, 4), (3, 40, 1)])
def test_places_along_an_axis(dtype, shape):
    x = numbers(dtype, shape, special=True)
    length, inner = shape[1:]
    reduced = (shape[0], inner)
    for code, act in ((run.ARGMAX, np.argmax), (run.ARGMIN, np.argmin)):
        step = steps.order(code, dtype, x.size, reduced, length, inner)
        assert_same(ran(step, x), act(x, axis=1))
    step = steps.order(run.ARGSORT, dtype, x.size, shape, length, inner)
    assert_same(ran(step, x), np.argsort(x, axis=1, kind="stable"))
    down = steps.order(run.ARGSORT_DOWN, dtype, x.size, shape, length, inner)
    flipped = np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
    assert_same(ran(down, x), length - 1 - flipped)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 63, 128])
@pytest.mark.parametrize("inner", [1, 3])
def test_sums_in_the_order_of_numpy(dtype, length, inner):
    rng = np.random.default_rng(length)
    x = (rng.standard_normal((5, length, inner)) * 1000).astype(dtype)
    x[0] = -0.0
    step = steps.order(run.TOTAL, dtype, x.size, (5, inner), length, inner)
    assert_same(ran(step, x), np.add.reduce(x, 1))
    step = steps.order(run.ADD_UP, dtype, x.size, x.shape, length, inner)
    assert_same(ran(step, x), np.add.accumulate(x, 1))


@pytest.mark.parametrize("dtype", TYPES)
def test_search(dtype):
    ascending, x = np.sort(numbers(dtype, 9, 8)), np.arange(-6, 7).astype(dtype)
    for code, side in ((run.SEARCH, "left"), (run.SEARCH_RIGHT, "right")):
        step = steps.order(code, dtype, 13, (13,), 13, 1, ascending)
        assert_same(ran(step, x), np.searchsorted(ascending, x, side))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_trees(dtype, index):
    x = np.array([[0.5, 2], [3, np.nan], [1, 1]], dtype)
    thresholds, features = np.array([1, 1.5], dtype), np.array([0, 1], index)
    # Node 0 asks for feature 0, and node 1 for feature 1; NaN goes to leaf 2.
    children = np.array([[1, -1, -1], [-2, -3, -3]], index)
    roots = np.array([0, 1], index)
    found = ran(steps.trees(x.shape, thresholds, features, children, roots), x)
    assert found.tolist() == [[2, 2], [0, 2], [1, 1]]
    endless = steps.trees(x.shape, thresholds, features, children * 0, roots)
    assert (ran(endless, x) == run.NO_LEAF_AT).all()
