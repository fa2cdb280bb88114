"""Products of two activations and softmax of codes, against the oracle."""

from fractions import Fraction

import numpy as np
import pytest

from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.cpu.generic.row_limits import DIFFERENCES
from mdtensor.kernels.cpu.program.attention import MOST_DEPTH, MatMul, Softmax
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.threads import split
from mdtensor.kernels.reference import attention as oracle

#: ISAs whose kernels run here without emulation.
HERE = [name for name in isa.here() if not name.endswith(isa.EMULATED)]
SHAPES = [
    ((1, 1), (1, 1)),
    ((5, 7), (7, 3)),
    ((12, 64), (64, 40)),
    ((2, 3, 4), (4, 17)),
    ((3, 9, 33), (33, 16)),
    ((2, 1, 9, 6), (3, 6, 8)),
    ((70, 130), (130, 33)),
    # From 257 products on, two int16 do not hold the sum of a row.
    ((13, 256), (256, 24)),
    ((5, 257), (257, 7)),
]
ZEROS = [(0, 0), (0, 128), (13, 128), (255, 255), (128, 127), (7, 1)]


def on(name, make, *arguments):
    return kernel_set.make_on(kernel_set.kernels(name), make, *arguments)


def codes(rng, *shape):
    return rng.integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("shapes", SHAPES)
def test_matmul(name, shapes, rng):
    x, y = (codes(rng, *shape) for shape in shapes)
    for zeros in ZEROS:
        ratio = Fraction(int(rng.integers(1, 999)), 2**17) / x.shape[-1]
        rules = ratio, zeros, 100
        step = on(name, MatMul, *rules, (3, 250))
        want = oracle.matmul_u8u8u8(x, y, *rules, 3, 250)
        assert np.array_equal(step(x, y), want)
    assert step.macs(*shapes) == want.size * x.shape[-1]
    assert step.output_shape(*shapes) == want.shape


@pytest.mark.parametrize("name", HERE)
def test_extreme_sums_fit(name):
    depth = 300 if isa.IS_JIT_DISABLED else MOST_DEPTH
    x, y = np.full((1, depth), 255, np.uint8), np.full((depth, 2), 255, np.uint8)
    y[:, 1] = 0
    for zeros in ((0, 0), (0, 255), (255, 0)):
        ratio = Fraction(1, 255 * depth)
        step = on(name, MatMul, ratio, zeros, 7)
        want = oracle.matmul_u8u8u8(x, y, ratio, zeros, 7, 0, 255)
        assert np.array_equal(step(x, y), want)


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("depth", [64, 255, 256, 257])
def test_rows_of_the_largest_codes(name, depth, rng):
    """The sum of such a row is the largest term that its zero point is times."""
    x, y = np.full((7, depth), 255, np.uint8), codes(rng, depth, 18)
    x[::3] = codes(rng, *x[::3].shape)
    for zero in (0, 1, 127, 129, 254, 255):
        rules = Fraction(1, 100 * depth), (3, zero), 120
        want = oracle.matmul_u8u8u8(x, y, *rules, 0, 255)
        assert np.array_equal(on(name, MatMul, *rules)(x, y), want)


def test_longer_sums_raise():
    step = MatMul(Fraction(1, 9), (0, 0))
    with pytest.raises(ValueError, match="products, int32 holds"):
        step.prepare((1, MOST_DEPTH + 1), (MOST_DEPTH + 1, 1))
    with pytest.raises(AssertionError, match="expected"):
        step.prepare((2, 3), (4, 5))


def test_products_near_ties_are_exact(rng):
    # Every fourth sum is a tie of this ratio.
    x, y = codes(rng, 40, 3), codes(rng, 3, 50)
    for zeros in ((9, 128), (9, 99)):
        rules = Fraction(1, 4), zeros, 0
        want = oracle.matmul_u8u8u8(x, y, *rules, 0, 255)
        assert np.array_equal(MatMul(*rules)(x, y), want)


def test_no_matrices_give_no_result(rng):
    step = MatMul(Fraction(1, 9), (0, 0), 5)
    assert step(np.empty((0, 2, 3), np.uint8), codes(rng, 3, 4)).shape == (
        0,
        2,
        4,
    )
    empty = step(np.empty((2, 0), np.uint8), np.empty((0, 3), np.uint8))
    assert np.array_equal(empty, np.full((2, 3), 5))


@pytest.mark.parametrize("name", isa.here())
@pytest.mark.parametrize("n", [1, 8, 9, 16, 40, 100, 130])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 64, 200])
def test_codes_are_packed_as_weights(name, k, n, rng):
    kernels = kernel_set.kernels(name.removesuffix(isa.EMULATED))
    y = codes(rng, k, n)
    want = kernels.pack_s8((y ^ 128).view(np.int8).T).view(np.uint8)
    size = kernels.packed_column_bytes(k) * kernels.padded_columns(n)
    for by_k, by_n, source in ((n, 1, y), (1, k, y.T)):
        packed = np.full(size, 99, np.uint8)
        flat = np.ascontiguousarray(source).reshape(-1)
        kernels.pack_codes.compiled(flat, by_k, by_n, k, n, 0, packed)
        assert np.array_equal(packed[: len(want)], want)


def powers_of(base):
    """Return base ** -d for each difference."""
    return [Fraction(base) ** -d for d in range(DIFFERENCES)]


@pytest.mark.parametrize("shape", [(1,), (6, 1), (3, 5), (2, 3, 70), (1, 300)])
@pytest.mark.parametrize("base", [Fraction(101, 100), Fraction(5, 4), 3])
def test_softmax(shape, base, rng):
    powers = powers_of(base)
    for step, zero_point in ((Fraction(1, 256), 0), (Fraction(1, 100), 20)):
        for top in (3, 255):
            x = rng.integers(0, top + 1, shape).astype(np.uint8)
            want = oracle.softmax_u8(x, powers, step, zero_point, 2, 250)
            got = Softmax(powers, step, zero_point, (2, 250))(x)
            assert np.array_equal(got, want)


def test_shares_at_ties_are_exact():
    # Shares of 1/2**n are ties of these grids; a code far below moves them off.
    powers = powers_of(2)
    for count in (1, 2, 4, 8, 16, 64):
        for far in ([], [0], [60], [190]):
            row = np.array([[*[200] * count, *far]], np.uint8)
            for step in (Fraction(1, 8), Fraction(1, 16)):
                want = oracle.softmax_u8(row, powers, step, 0, 0, 255)
                assert np.array_equal(Softmax(powers, step)(row), want)


def test_both_are_cut_for_threads(rng):
    program = Program()
    x, y = program.input((6, 40, 24), np.uint8), program.input((2, 24, 70), np.uint8)
    y = program.reshape(y, (2, 1, 24, 70))
    x = program.reshape(x, (2, 3, 40, 24))
    scores = program.append(MatMul(Fraction(1, 9000), (120, 90), 128), x, y)
    shares = program.append(
        Softmax(powers_of(Fraction(9, 8)), Fraction(1, 256)), scores
    )
    executable = program.build([scores, shares])
    arrays = codes(rng, 6, 40, 24), codes(rng, 2, 24, 70)
    alone = executable(*arrays)
    together = executable(*arrays, threads=2)
    assert all(map(np.array_equal, alone, together))
    for row in executable._layout.rows:
        parts = split.cut(row, 4)
        assert len(parts) > 1
        assert sum(part.out_bytes for part in parts) == row.out_bytes


def test_one_product_is_cut_by_rows(rng):
    program = Program()
    x, y = program.input((100, 30), np.uint8), program.input((30, 20), np.uint8)
    out = program.append(MatMul(Fraction(1, 9000), (120, 90), 128), x, y)
    rows = program.build([out])._layout.rows
    assert [int(part.rows) for part in split.cut(rows[0], 2)] == [48, 52]


def test_names():
    step = MatMul(Fraction(1, 9), (0, 128))
    assert step.kernel == "gemm_u8s8u8"
    assert MatMul(Fraction(1, 9), (0, 0)).kernel == "gemm_u8u8u8"
    made = Softmax(powers_of(2), Fraction(1, 256))
    assert made.kernel == "softmax_u8" and made.bytes > 0
