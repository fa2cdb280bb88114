"""What the kernels of codes read and write, by kind of step.

Each rule raises `Refused` for a row whose kernel could touch other bytes than its own.
`mdtensor.kernels.cpu.program.interpret` has the function of each kind.
"""

import math

import numpy as np

from mdtensor_run.packing import padded_columns
from mdtensor_run.row import CODES, ITEM, Row, product

#: Codes of a strip of an Extreme.
STRIP = 4096
MOST_ROW, MOST_NORM, MOST_LIMBS = 1 << 24, 1 << 20, 96
#: Columns of a panel; bytes of a group of four weights of all its columns.
COLUMNS, GROUP_BYTES = 16, 64
MOST_DEPTH = (2**31 - 1) // 255**2


def convolve(r: Row) -> None:
    """Check a Conv2d: packed weights, then bias and ratios for each padded column."""
    f = r.fields
    w, elements, pixels = r.image()
    groups, n, k = r.groups()
    r.codes("x_zero_point")
    r.reads_x(elements)
    size = r.packing.products(n, k)
    r.require(f.weight_bytes == size, f"has {f.weight_bytes} bytes of weights")
    _weights(r, groups * size, groups * f.padded_columns, pixels * groups * n)
    if f.strip == 0:
        r.require(r.is_pixelwise(), "has a window that needs a copy")
        return
    (strip,) = r.ints("strip", most=w.out_h)
    r.uses_scratch(strip * w.out_w * r.packing.pitch(k))


def _groups(r: Row) -> int:
    """Check where the groups of four weights lie; return how many there are."""
    f, w = r.fields, r.fields.window
    panels, count = f.padded_columns // COLUMNS, int(f.weight_bytes) // GROUP_BYTES
    r.require(count > 0, f"has {f.weight_bytes} bytes of weights")
    starts = r.numbers(f.operands, panels + 1, 1)[:, 0]
    in_order = bool((np.diff(starts) >= 0).all())
    r.require(in_order and int(starts[0]) >= 0, "has panels out of order")
    r.require(int(starts[-1]) <= count, f"has {starts[-1]} groups of {count}")
    lines, places = r.numbers(f.numbers, count, 1).view(np.int32).reshape(2, count)
    reach = ((w.kernel_w - 1) * w.dilation_w + 1) * w.channels
    is_inside = lines.min() >= 0 and lines.max() < w.kernel_h
    is_inside = is_inside and places.min() >= 0 and places.max() <= reach - ITEM
    r.require(bool(is_inside), "has codes outside their window")
    return count


def convolve_code_windows(r: Row) -> None:
    """Check a Conv2d on windows where they lie; groups of codes stay in them."""
    f = r.fields
    w, elements, pixels = r.image()
    groups, n, _ = r.groups()
    r.require(groups == 1, f"has {groups} groups")
    r.codes("x_zero_point")
    r.reads_x(elements)
    count = _groups(r)
    _weights(r, GROUP_BYTES * count, f.padded_columns, pixels * n)
    width = (w.out_w - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w + 1
    if f.strip == 0:
        height = (w.out_h - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1
        fits = w.pad_top == w.pad_left == 0 and height <= w.height and width <= w.width
        r.require(fits, "has windows outside the image")
        return
    (strip,) = r.ints("strip", most=w.out_h)
    copied = (strip - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1
    r.uses_scratch(copied * width * w.channels)


def _weights(r: Row, weights: int, columns: int, outputs: int) -> None:
    """Check weights, bias, ratios and results of a convolution."""
    f = r.fields
    r.reads_constants(f.weights, weights)
    r.reads_constants(f.bias, ITEM * columns)
    if f.is_exact:
        r.holds_numbers("out")
        r.writes(ITEM * outputs)
        return
    r.multipliers(columns)
    if f.exception_sums:
        r.reads_constants(f.exception_sums, ITEM * columns)
    r.rounds()
    r.writes(outputs)


def convolve_depthwise(r: Row) -> None:
    """Check a depthwise Conv2d."""
    f = r.fields
    w, elements, pixels = r.image()
    c = w.channels
    r.codes("x_zero_point")
    r.reads_x(elements)
    sizes, size = r.packing.depthwise(c, w.kernel_h, w.kernel_w), f.weight_bytes
    r.require(size in sizes, f"has {size} bytes of weights")
    padded = padded_columns(c)
    r.require(f.padded_columns == padded, f"has {f.padded_columns} padded columns")
    _weights(r, size, padded, pixels * c)


def look_up(r: Row) -> None:
    """Check a Lookup."""
    r.reads_constants(0, CODES)
    r.reads_x(r.fields.out_bytes)


def look_up_channels(r: Row) -> None:
    """Check a LookupChannels."""
    channels, inner = r.ints("channels", "inner")
    (columns,) = r.ints("columns", least=0)
    r.codes("x_zero_point", "zero_point")
    # Slopes above and below zero, in place of tables.
    r.reads_constants(0, 2 * ITEM * columns if columns else CODES * channels)
    r.reads_x(r.fields.out_bytes)
    r.require(r.fields.out_bytes % (channels * inner) == 0, "has a part of a pixel")


def add(r: Row) -> None:
    """Check an Add."""
    f = r.fields
    r.codes("x_zero_point", "y_zero_point")
    r.rounds()
    r.reads_constants(f.multipliers, 2 * ITEM)
    r.reads_constants(f.limbs, 96)
    r.reads_constants(f.guard, ITEM)
    r.reads_x(f.out_bytes)
    r.reads_y(f.out_bytes)


def multiply(r: Row) -> None:
    """Check a Mul."""
    images, pixels, channels = r.ints("images", "pixels", "channels")
    r.codes("x_zero_point", "y_zero_point")
    r.rounds()
    r.multipliers(1)
    size = product((images, pixels, channels))
    r.reads_x(size)
    r.reads_y(images * channels if r.fields.has_factors else size)
    r.writes(size)


def mean(r: Row) -> None:
    """Check a Mean."""
    images, pixels, channels = r.ints("images", "pixels", "channels")
    r.codes("x_zero_point")
    r.rounds()
    r.multipliers(1)
    r.reads_x(product((images, pixels, channels)))
    r.writes(images * channels)


def max_pool(r: Row) -> None:
    """Check a MaxPool."""
    w, elements, pixels = r.image()
    r.reads_x(elements)
    r.writes(pixels * w.channels)


def avg_pool(r: Row) -> None:
    """Check an AvgPool, which has a ratio for each number of pixels in a window."""
    w, elements, pixels = r.image()
    r.codes("x_zero_point")
    r.rounds()
    r.multipliers(w.kernel_h * w.kernel_w)
    r.reads_x(elements)
    r.writes(pixels * w.channels)


def _scale(r: Row) -> None:
    """Check the scale of a grid, by which a kernel divides."""
    r.reads_constants(0, 8)
    scale = float(r.numbers(0, 1, 1).view(np.float64)[0, 0])
    r.require(0 < scale < math.inf, f"has the scale {scale}")


def quantize(r: Row) -> None:
    """Check a Quantize."""
    (elements,) = r.ints("elements")
    r.holds_numbers("x")
    _scale(r)
    r.rounds()
    r.reads_x(ITEM * elements)
    r.writes(elements)


def quantize_nchw(r: Row) -> None:
    """Check a Quantize of channels first."""
    images, pixels, channels = r.ints("images", "pixels", "channels")
    (padded,) = r.ints("out_channels", least=channels, most=channels + 64)
    r.holds_numbers("x")
    _scale(r)
    r.rounds()
    r.reads_x(ITEM * product((images, pixels, channels)))
    r.writes(images * pixels * padded)


def dequantize(r: Row) -> None:
    """Check a Dequantize."""
    size = r.fields.out_bytes
    r.codes("x_zero_point")
    _scale(r)
    r.holds_numbers("out")
    r.require(size % ITEM == 0, f"writes {size} bytes of floats")
    r.reads_x(size // ITEM)


def move(r: Row) -> None:
    """Check a Move: the first and the last byte that its strides reach."""
    f = r.fields
    lengths, jumps = f.lengths, f.jumps
    (run,) = r.ints("run")
    r.require(all(n >= 1 for n in lengths), "has an axis without elements")
    r.require(all(abs(n) <= f.x_bytes for n in (f.start, *jumps)), "leaves its input")
    r.writes(product((*lengths, run)))
    ends = [(n - 1) * jump for n, jump in zip(lengths, jumps, strict=True)]
    first = f.start + sum(min(end, 0) for end in ends)
    r.require(first >= 0, "begins before its input")
    r.reads_x(f.start + sum(max(end, 0) for end in ends) + run)
    if run == ITEM and f.is_single:
        # Floats are moved by whole elements, whose places are rounded down.
        r.holds_numbers("x", "out")
        is_whole = all(n % ITEM == 0 for n in (f.start, *jumps))
        r.require(is_whole, "has a part of a float")


def take(r: Row) -> None:
    """Check a Take, whose constants are indices and runs of them."""
    outer, length, inner, count = r.ints("outer", "length", "inner", "indices")
    r.reads_x(product((outer, length, inner)))
    r.writes(product((outer, count, inner)))
    index, run = r.numbers(0, count, 2).T
    left = np.minimum(run, count - np.arange(count))
    # A run that is too long could make the sum below overflow, so it is first cut.
    is_inside = (index >= 0) & (index < length) & (run > 0) & (left <= length - index)
    r.require(bool(is_inside.all()), "has an index outside of its axis")


def concat(r: Row) -> None:
    """Check a Concat."""
    (outer,) = r.ints("outer")
    of_x, of_y = r.ints("x_run", "y_run", least=0)
    r.reads_x(product((outer, of_x)))
    r.reads_y(product((outer, of_y)))
    r.writes(outer * (of_x + of_y))


def multiply_matrices(r: Row) -> None:
    """Check a MatMul: scratch has the packed y, its columns, sums, and a copy of x."""
    f = r.fields
    images, m, k, n = r.ints("images", "rows", "depth", "columns")
    padded, strip = padded_columns(n), r.ints("strip", most=m)[0]
    r.require(k <= MOST_DEPTH, f"has sums of {k} products")
    r.codes("x_zero_point", "y_zero_point")
    r.rounds()
    r.require(f.padded_columns == padded, f"has {f.padded_columns} padded columns")
    size = r.packing.columns(n, k)
    r.require(f.weight_bytes == size, f"packs {f.weight_bytes} bytes")
    r.places(1)
    r.multipliers(padded)
    if f.exception_sums:
        r.reads_constants(f.exception_sums, ITEM * padded)
    r.uses_scratch(size + ITEM * padded + ITEM * strip * n + m * k)
    r.writes(product((images, m, n)))


def softmax(r: Row) -> None:
    """Check a Softmax of codes."""
    f = r.fields
    (length,) = r.ints("length", most=MOST_ROW)
    r.rounds()
    r.reads_constants(0, 8 * CODES)
    r.reads_constants(f.inverse_step, 8)
    r.reads_constants(f.limbs, 64 * CODES)
    r.reads_constants(f.quotients, 64 * CODES)
    r.require(f.out_bytes % length == 0, "has a part of a row")
    r.reads_x(f.out_bytes)


def choose(r: Row) -> None:
    """Check an Extreme, which has three tables."""
    f = r.fields
    r.ints("tables", least=0, most=7)
    r.reads_constants(0, 3 * CODES)
    r.uses_scratch(3 * STRIP)
    r.reads_x(f.out_bytes)
    r.reads_y(f.out_bytes)


def normalize(r: Row) -> None:
    """Check a Normalize of codes, whose exact numbers lie one after the other."""
    f = r.fields
    (n,) = r.ints("length", most=MOST_NORM)
    r.rounds()
    r.codes("x_zero_point")
    r.require(all(1 <= width <= MOST_LIMBS for width in f.widths), "has no limbs")
    r.require(0 < f.low < math.inf, f"has the spread {f.low}")
    r.reads_constants(f.gains, 8 * n)
    r.reads_constants(f.offsets, 8 * n)
    squares, biases, spreads, divisor = f.widths
    r.reads_constants(
        f.limbs, 8 * (n * squares + (n + 1) * biases + 2 * spreads + divisor)
    )
    r.require(f.out_bytes % n == 0, "has a part of a row")
    r.reads_x(f.out_bytes)


RULES = {
    f"program.interpret.{rule.__name__}": rule
    for rule in (
        *(convolve, convolve_depthwise, look_up, look_up_channels, add, multiply),
        *(mean, max_pool, avg_pool, quantize, quantize_nchw, dequantize, move, take),
        *(concat, multiply_matrices, softmax, choose, normalize),
    )
} | {"program.interpret_windows.convolve_code_windows": convolve_code_windows}
