"""The pieces of a step write its bytes, each only its own."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.avx2 import packing as avx2
from mdtensor.kernels.cpu.dot8 import packing as dot8
from mdtensor.kernels.cpu.generic import packing
from mdtensor.kernels.cpu.program import kinds, norms, products, steps
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.program.step import as_bytes
from mdtensor.kernels.cpu.threads import pieces, split
from mdtensor.kernels.cpu.threads.pool import run_alone
from mdtensor.kernels.numpy.threads import THREADS

CANARY = 0xA5


def check(step, *arrays, count, least=1):
    """Carry out the pieces last to first, each into an arena full of canaries."""
    program = Program()
    slots = [program.input(array.shape, array.dtype) for array in arrays]
    executable = program.build([program.append(step, *slots)])
    layout, constants = executable._layout, executable._constants
    whole = np.full(layout.size, CANARY, np.uint8)
    for slot, array in zip(slots, arrays, strict=True):
        layout.view(whole, slot)[...] = array
    before, pieced = whole.copy(), whole.copy()
    run_alone(layout.rows, whole, constants)
    row = layout.rows[0]
    parts = split.cut(row, count)
    assert least <= len(parts) <= max(count, 1)
    written = np.zeros(layout.size, bool)
    for part in reversed(parts):
        arena = before.copy()
        run_alone(part.reshape(1), arena, constants)
        changed = arena != before
        changed[: row.scratch_bytes] = False
        assert not (changed & written).any()
        written |= changed
        run_alone(part.reshape(1), pieced, constants)
    start = row.scratch_bytes
    assert np.array_equal(pieced[start:], whole[start:])
    if step.parts == (step,):
        check_call(step, arrays, count)
    return parts


def check_call(step, arrays, threads):
    """Compare calls of a step outside of plans, on one thread and on several."""
    call = step.bound(*(array.shape for array in arrays))
    given = [as_bytes(array) for array in arrays]
    alone = call(*given)
    token = THREADS.set(threads)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pieces, "LONG_NANOSECONDS", 0)
            assert call(*given).tobytes() == alone.tobytes()
    finally:
        THREADS.reset(token)


def codes(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def conv(ic, oc, kernel, seed=0, **options):
    rng = np.random.default_rng(seed)
    groups, exact = options.get("groups", 1), options.pop("exact", False)
    weight = rng.integers(-128, 128, (oc, ic // groups, *kernel), dtype=np.int8)
    bias = rng.integers(-999, 999, oc, dtype=np.int32)
    return products.Conv2d(
        *(weight, bias),
        x_zero_point=120,
        ratios=None if exact else [Fraction(1, 700)] * oc,
        zero_point=118,
        **options,
    )


@settings(max_examples=40)
@given(
    size=st.tuples(st.integers(1, 12), st.integers(1, 9)),
    images=st.integers(1, 3),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 2)),
    padding=st.tuples(*[st.integers(0, 3)] * 4),
    dilation=st.integers(1, 3),
    channels=st.sampled_from([(3, 5, 1), (8, 8, 8), (17, 17, 17), (4, 6, 2)]),
    exact=st.booleans(),
    count=st.integers(2, 8),
)
def test_windows(
    size, images, kernel, stride, padding, dilation, channels, exact, count
):
    (h, w), (top, left, bottom, right) = size, padding
    reach = [dilation * (k - 1) + 1 for k in kernel]
    if h + top + bottom < reach[0] or w + left + right < reach[1]:
        return
    ic, oc, groups = channels
    options = {"stride": stride, "padding": padding, "groups": groups}
    step = conv(ic, oc, kernel, exact=exact, dilation=(dilation,) * 2, **options)
    check(step, codes(images, h, w, ic), count=count)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    "shape, oc", [((1, 14, 14, 24), 40), ((2, 7, 7, 9), 40), ((1, 1, 1, 70), 200)]
)
def test_products(shape, oc, exact):
    for count in (2, 4, 8):
        check(conv(shape[-1], oc, (1, 1), exact=exact), codes(*shape), count=count)


@given(st.integers(1, 200), st.integers(1, 8), st.sampled_from([1, 5, 12]))
def test_ranges_are_a_partition(size, count, grain):
    ranges = split._ranges(size, count, grain)
    assert [i for a, b in ranges for i in range(a, b)] == list(range(size))
    assert 1 <= len(ranges) <= count
    assert all(a % grain == 0 for a, _ in ranges)


def test_wide_layers_of_few_pixels_are_cut_by_columns():
    if not kernel_set.HOST.PANEL_COLUMNS:
        pytest.skip("weights of this runway are not cut")
    parts = check(conv(32, 160, (1, 1)), codes(1, 3, 3, 32), count=4, least=2)
    assert {part.x_bytes for part in parts} == {3 * 3 * 32}
    weight = np.random.default_rng(0).integers(-128, 128, (130, 64), dtype=np.int8)
    linear = products.Linear(weight, ratios=[Fraction(1, 300)] * 130)
    check(linear, codes(1, 64), count=2, least=2)


@pytest.mark.parametrize("images", [1, 3])
def test_moves(images):
    x, y = codes(images, 6, 5, 8), codes(images, 6, 5, 3, seed=1)
    steps_of_one = [
        steps.Move(lambda x: x.transpose(0, 3, 1, 2)),
        steps.Move(lambda x: x[:, ::-1, 1:, None]),
        steps.Move(lambda x: x[:1, :1, :1, :1]),
        *(steps.Take([2, 0, 0, -1, 1, 2, 3, 4], axis) for axis in range(1, 4)),
    ]
    for count in (2, 4, 7):
        for step in steps_of_one:
            check(step, x, count=count)
        for shape in (x.shape, (images, 6, 40)):
            other = y if shape == x.shape else y.reshape(images, 6, 15)
            check(steps.Concat(-1 + len(shape)), x.reshape(shape), other, count=count)


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 1, 2, 1)])
def test_pools(images, padding):
    x = codes(images, 9, 8, 5)
    average = {"ratio": Fraction(1), "x_zero_point": 9}
    for count in (2, 5):
        check(steps.MaxPool((3, 3), (2, 1), padding), x, count=count, least=2)
        step = steps.AvgPool((3, 3), (1, 2), padding, **average)
        check(step, x, count=count, least=2)


def test_elements():
    x, y = codes(3, 1100), codes(3, 1100, seed=1)
    table = np.roll(np.arange(256, dtype=np.uint8), 3)
    pair = Fraction(1, 2), Fraction(2, 3)
    floats = np.random.default_rng(2).normal(0, 9, (3, 1100)).astype(np.float32)
    for count in (2, 3):
        check(steps.Lookup(table), x, count=count, least=2)
        check(steps.Add(pair, (3, 9), 100), x, y, count=count, least=2)
        check(steps.Extreme(True, (table, None, table)), x, y, count=count, least=2)
        check(steps.Mul(Fraction(1, 99), (3, 9), 100), x, y, count=count, least=2)
        check(steps.Dequantize(0.1, 7), x, count=count, least=2)
        check(steps.Quantize(0.1, 7), floats, count=count, least=2)


@pytest.mark.parametrize(
    ("shape", "weights", "options"),
    [
        ((1, 9, 8, 16), (24, 16, 3, 3), {"padding": (1,) * 4}),
        ((3, 5, 6, 16), (24, 16, 3, 3), {"padding": (0, 1, 2, 0)}),
        ((8, 1, 9, 8), (20, 8, 1, 3), {}),
        ((1, 8, 7, 8), (20, 8, 2, 2), {"stride": (2, 1)}),
        ((2, 9, 9, 16), (20, 16, 1, 1), {}),
    ],
)
def test_windows_of_codes(shape, weights, options, monkeypatch):
    monkeypatch.setattr(kernel_set.HOST, "MULTIPLIES_PAIRS", True)
    weight = np.random.default_rng(7).integers(-60, 61, weights, dtype=np.int8)
    rules = {"ratios": [Fraction(1, 500)] * len(weight), "zero_point": 118}
    step = products.Conv2d(weight, x_zero_point=9, **rules, **options)
    assert step.kind == kinds.WINDOWS
    for count in (2, 3):
        check(step, codes(*shape), count=count, least=2)


@pytest.mark.parametrize("images", [1, 4])
def test_a_factor_for_each_channel(images):
    x, y = codes(images, 30, 40, 6), codes(images, 1, 1, 6, seed=1)
    check(steps.Mul(Fraction(1, 99), (3, 9), 100), x, y, count=4, least=4)


@pytest.mark.parametrize("images", [1, 4])
def test_tables_of_channels(images):
    tables = codes(6, 256, seed=3)
    for count in (2, 3):
        last = steps.LookupChannels(tables)
        check(last, codes(images, 30, 40, 6), count=count, least=2)
        lines = np.broadcast_to(np.arange(256, dtype=np.uint8), tables.shape)
        slopes = steps.LookupChannels(lines, zeros=(9, 9))
        assert slopes.kernel == "slopes_u8"
        check(slopes, codes(images, 30, 40, 6), count=count, least=2)
        middle = steps.LookupChannels(tables, axis=1)
        check(middle, codes(images, 6, 30, 40), count=count, least=min(images, 2))


def test_rows_of_a_norm():
    numbers = [Fraction(i, 7) for i in range(24)]
    step = norms.Normalize(True, 0, Fraction(1, 100), numbers, numbers, 100)
    for count in (2, 3):
        check(step, codes(3, 50, 24), count=count, least=2)


def test_kinds_that_stay_whole():
    check(steps.Mean(Fraction(1), 9), codes(1, 9, 9, 8), count=4)
    step = steps.Quantize(0.1, 7, channels_first=True)
    check(step, np.ones((1, 3, 9, 9), np.float32), count=4)
    assert set(range(len(kinds.FUNCTIONS))) - set(split.CUTS) == {
        kinds.MEAN,
        kinds.QUANTIZE_NCHW,
        kinds.TRANSPOSE_F32,
        kinds.RESAMPLE_F32,
        kinds.LSTM_F32,
        kinds.GRU_F32,
        kinds.RNN_F32,
        kinds.REDUCE_F32,
        kinds.DYNAMIC_LINEAR,
        kinds.WORD_LINEAR,
        # Steps on few elements.
        *range(kinds.PLAIN_INT64, kinds.TREES_FLOAT64 + 1),
    }


@pytest.mark.parametrize("family", [avx2, dot8], ids=["avx2", "dot"])
def test_columns_of_packed_weights_lie_apart(family):
    assert packing.PANEL_COLUMNS == 0
    for n, k in ((130, 9), (320, 4), (64, 30), (112, 260), (250, 256)):
        weight = np.random.default_rng(n).integers(-128, 128, (n, k), dtype=np.int8)
        packed = family.pack_s8(weight)
        for first in range(0, n, family.PANEL_COLUMNS):
            at = first * family.packed_column_bytes(k)
            assert np.array_equal(packed[at:], family.pack_s8(weight[first:]))


def test_short_steps_between_long_ones_are_one_piece(monkeypatch):
    monkeypatch.setattr(split, "PIECE_NANOSECONDS", 100)
    monkeypatch.setattr(split, "LONG_NANOSECONDS", 2000)
    program, table = Program(), np.arange(256, dtype=np.uint8)
    x = program.input((1, 30, 40, 8), np.uint8)
    y = program.append(steps.Lookup(table), x)
    for _ in range(2):
        y = program.append(steps.Mean(Fraction(1), 9), y)
    layout = program.build([program.append(steps.Lookup(table), y)])._layout
    found = layout.job()
    assert found.first.tolist() == [0, 4, 5]
    assert found.pieces[4].tolist() == [4, 7]
    assert [split.piece_count(row) for row in layout.rows] == [4, 1, 1, 1]


def test_a_program_of_short_steps_is_no_job():
    program = Program()
    x = program.input((1, 4, 4, 8), np.uint8)
    y = program.append(steps.Mean(Fraction(1), 9), x)
    assert program.build([y])._layout.job() is None


def test_a_step_of_no_elements_is_one_piece() -> None:
    program = Program()
    x = program.input((1, 100_000), np.uint8)
    program.append(steps.Take([], 1), x)
    program.append(steps.Move(lambda x: x[:, :0]), x)
    assert program.build([x]).pieces == [1, 1]
