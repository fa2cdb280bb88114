"""Division of a step into pieces that threads may run at once.

Each piece is a row of its own: a smaller step of the same kind, with other sizes and
another place in the arena. So no kernel depends on threads. A kind that is missing here
stays one piece. Images are divided between pieces; a single image is divided by its
rows. The window of a piece begins at the first input row that it needs.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.generic.float_packing import PANEL
from mdtensor.kernels.cpu.program import STEP, kinds
from mdtensor.kernels.cpu.program.kinds import ITEM
from mdtensor.kernels.cpu.threads.pool import Profitability
from mdtensor.kernels.cpu.threads.words import MOST_GROUPS

#: Cuts lie at multiples of these, so that pieces are whole tiles and vectors.
PIXELS, ELEMENTS = 12, 1024


# A piece is a smaller row, so that no kernel knows about threads (decision 0031).
def cut(row, count):
    """Cut `row` into at most `count` rows that write the same bytes together."""
    return CUTS[row.kind](row, count) if row.kind in CUTS else [row]


def _ranges(size, count, grain):
    """Return ranges of about one length, cut at multiples of `grain`."""
    places = (round(size * i / count / grain) * grain for i in range(count))
    at = [*(min(place, size) for place in places), size]
    return [(a, b) for a, b in pairwise(at) if a < b]


def _move(row, x, y, out, out_bytes):
    """Return a copy of `row` whose buffers start that many bytes later."""
    row = row.copy()
    row.x += x
    row.x_bytes -= x
    row.y += y
    row.y_bytes -= y
    row.out += out
    row.out_bytes = out_bytes
    return row


def _item(row):
    """Return the bytes of an element of x."""
    return 1 if row.kind in kinds.OF_BYTES else ITEM


def _result_item(row):
    """Return the bytes of an element of the result of a convolution or a pool."""
    return ITEM if row.is_exact else _item(row)


def _image_parts(row, count, pixel_bytes):
    """Cut a row by images, or one image by output rows."""
    images, window = row.images, row.window
    h, w, c = window.height, window.width, window.channels * _item(row)
    # What a product adds lies as its result does.
    adds = int(row.has_residual)
    oh, ow = window.out_h, window.out_w
    parts = []
    if images > 1:
        size, length = h * w * c, oh * ow * pixel_bytes
        for a, b in _ranges(images, count, 1):
            place = a * length
            part = _move(row, a * size, adds * place, place, (b - a) * length)
            part.images = b - a
            parts.append(part)
        return parts
    for a, b in _ranges(oh, count, 1):
        skipped = max(0, a * window.stride_h - window.pad_top)
        if skipped >= h:
            return [row]
        place, length = a * ow * pixel_bytes, (b - a) * ow * pixel_bytes
        part = _move(row, skipped * w * c, adds * place, place, length)
        own = part.window
        own.height, own.out_h = h - skipped, b - a
        own.pad_top += skipped - a * window.stride_h
        part.strip = min(part.strip, b - a)
        parts.append(part)
    return parts


def _windows(row, count):
    """Cut a depthwise convolution or a pool."""
    return _image_parts(row, count, row.window.channels * _result_item(row))


def _is_pixelwise(w):
    """Return whether each result reads the pixel at its own place."""
    return w.kernel_h == w.kernel_w == w.stride_h == w.stride_w == 1


def _products(row, count):
    """Cut a convolution by image rows, pixels or columns of the weights."""
    pixel_bytes = row.out_channels * _result_item(row)
    if row.strip != 0 or not _is_pixelwise(row.window):
        return _image_parts(row, count, pixel_bytes)
    c, adds = row.window.channels * _item(row), int(row.has_residual)
    pixels = row.images * row.window.out_h * row.window.out_w
    if pixels < PIXELS * count and row.groups == 1:
        if row.kind == kinds.CONV_F32:
            return _float_columns(row, count)
        if row.kind == kinds.CONV and kernel_set.CHOSEN.get().PANEL_COLUMNS:
            return _columns(row, count)
    parts = []
    # The incomplete tile goes to the caller, because workers begin later.
    for begin, end in reversed(_ranges(pixels, count, PIXELS)):
        a, b = pixels - end, pixels - begin
        place, length = a * pixel_bytes, (b - a) * pixel_bytes
        part = _move(row, a * c, adds * place, place, length)
        part.x_bytes = (b - a) * c
        # A row of pixels: each result reads the one at its place.
        own, part.images = part.window, 1
        own.height, own.width = own.out_h, own.out_w = 1, b - a
        parts.append(part)
    return parts


def _columns(row, count):
    """Cut a product by columns of the weights."""
    window, n, size = row.window, row.columns, 4 if row.is_exact else 1
    depth = window.channels * window.kernel_h * window.kernel_w
    column_bytes = kernel_set.CHOSEN.get().packed_column_bytes(depth)
    parts = []
    for a, b in _ranges(n, count, kernel_set.CHOSEN.get().PANEL_COLUMNS):
        part = _move(row, 0, 0, a * size, row.out_bytes - a * size)
        part.columns = b - a
        part.padded_columns = kernel_set.CHOSEN.get().padded_columns(b - a)
        part.weights += a * column_bytes
        part.weight_bytes -= a * column_bytes
        part.bias += 4 * a
        part.multipliers += 4 * a
        part.limbs += 64 * a
        if part.exception_sums:
            part.exception_sums += 4 * a
        parts.append(part)
    return parts


def _elements(row, count):
    """Cut Lookup, Add, Extreme or Dequantize by elements."""
    size = 4 if row.kind == kinds.DEQUANTIZE else 1
    parts = []
    for a, b in _ranges(row.out_bytes // size, count, ELEMENTS):
        y = a if row.kind in (kinds.ADD, kinds.EXTREME) else 0
        parts.append(_move(row, a, y, a * size, (b - a) * size))
    return parts


def _quantize_parts(row, count):
    """Cut Quantize by elements."""
    parts = []
    for a, b in _ranges(row.elements, count, ELEMENTS):
        part = _move(row, 4 * a, 0, a, b - a)
        part.elements = b - a
        parts.append(part)
    return parts


def _pair_parts(row, count):
    """Cut Mul by images if each has its factors, else by pixels."""
    images, pixels, c = row.images, row.pixels, row.channels
    parts = []
    if images > 1:
        size = pixels * c
        for a, b in _ranges(images, count, 1):
            part = _move(row, a * size, a * c, a * size, (b - a) * size)
            part.images = b - a
            parts.append(part)
        return parts
    for a, b in _ranges(pixels, count, -(-ELEMENTS // c)):
        y = 0 if row.has_factors else a * c
        part = _move(row, a * c, y, a * c, (b - a) * c)
        part.pixels = b - a
        parts.append(part)
    return parts


def _formula_parts(row, count):
    """Cut Elementwise by elements; operands find theirs by the first of the result."""
    parts = []
    for a, b in _ranges(row.out_bytes // ITEM, count, ELEMENTS):
        part = _move(row, 0, 0, a * ITEM, (b - a) * ITEM)
        part.start += a
        parts.append(part)
    return parts


def _views(row, count):
    """Cut Move along the first axis of the result that is longer than 1."""
    shape = row.lengths
    axis = next((i for i, size in enumerate(shape) if size > 1), 0)
    length = row.run * int(np.prod(shape[axis + 1 :]))
    parts = []
    for a, b in _ranges(shape[axis], count, 1):
        part = _move(row, 0, 0, a * length, (b - a) * length)
        part.start += a * row.jumps[axis]
        part.lengths[axis] = b - a
        parts.append(part)
    return parts


def _take_parts(row, count):
    """Cut Take along the axes before `axis`, or by indices without such axes."""
    outer, size, inner, places = row.outer, row.length, row.inner, row.indices
    parts = []
    for a, b in _ranges(outer if outer > 1 else places, count, 1):
        if outer > 1:
            length = places * inner
            part = _move(row, a * size * inner, 0, a * length, (b - a) * length)
            part.outer = b - a
        else:
            part = _move(row, 0, 0, a * inner, (b - a) * inner)
            part.indices = b - a
            part.constants += 16 * a
            part.constants_bytes -= 16 * a
        parts.append(part)
    return parts


def _float_columns(row, count):
    """Cut a product of floats by columns of the weights."""
    parts, adds = [], int(row.has_residual)
    for a, b in _ranges(row.columns, count, PANEL):
        place = a * ITEM
        part = _move(row, 0, adds * place, place, row.out_bytes - place)
        part.columns = b - a
        part.padded_columns -= a
        part.weights += a * row.depth * ITEM
        part.weight_bytes -= a * row.depth * ITEM
        part.bias += place
        parts.append(part)
    return parts


def _mean_parts(row, count):
    """Cut a mean of floats by images."""
    size, length, parts = row.pixels * row.channels * ITEM, row.channels * ITEM, []
    for a, b in _ranges(row.images, count, 1):
        part = _move(row, a * size, 0, a * length, (b - a) * length)
        part.images = b - a
        parts.append(part)
    return parts


def _concat_parts(row, count):
    """Cut Concat along the axes before `axis`."""
    of_x, of_y = row.x_run, row.y_run
    parts = []
    for a, b in _ranges(row.outer, count, 1):
        length = of_x + of_y
        part = _move(row, a * of_x, a * of_y, a * length, (b - a) * length)
        part.outer = b - a
        parts.append(part)
    return parts


def _matmul_parts(row, count):
    """Cut MatMul by matrices, or a single product by rows of x."""
    item, parts = _item(row), []
    if row.images > 1:
        matrix = row.rows * row.columns * item
        for a, b in _ranges(row.images, count, 1):
            part = _move(row, 0, 0, a * matrix, (b - a) * matrix)
            part.images = b - a
            # The places of matrices come first among the constants.
            part.constants += 16 * a
            part.constants_bytes -= 16 * a
            part.multipliers -= 16 * a
            part.limbs -= 16 * a
            parts.append(part)
        return parts
    line = row.columns * item
    for a, b in _ranges(row.rows, count, PIXELS):
        part = _move(row, a * row.depth * item, 0, a * line, (b - a) * line)
        part.rows = b - a
        parts.append(part)
    return parts


def _softmax_parts(row, count):
    """Cut Softmax or Normalize by rows, or by all columns of an axis."""
    length, parts = row.length * max(row.inner, 1) * _item(row), []
    for a, b in _ranges(row.out_bytes // length, count, 1):
        parts.append(_move(row, a * length, 0, a * length, (b - a) * length))
    return parts


def _channel_parts(row, count):
    """Cut LookupChannels by images, or by pixels if the channels come last."""
    size, parts = row.channels * row.inner, []
    for a, b in _ranges(row.out_bytes // size, count, -(-ELEMENTS // size)):
        parts.append(_move(row, a * size, 0, a * size, (b - a) * size))
    return parts


CUTS = {
    kinds.CONV: _products,
    kinds.DEPTHWISE: _windows,
    kinds.MAX_POOL: _windows,
    kinds.AVG_POOL: _windows,
    kinds.LOOKUP: _elements,
    kinds.ADD: _elements,
    kinds.EXTREME: _elements,
    kinds.DEQUANTIZE: _elements,
    kinds.QUANTIZE: _quantize_parts,
    kinds.MUL: _pair_parts,
    kinds.MOVE: _views,
    kinds.TAKE: _take_parts,
    kinds.CONCAT: _concat_parts,
    kinds.MATMUL: _matmul_parts,
    kinds.SOFTMAX: _softmax_parts,
    kinds.NORMALIZE: _softmax_parts,
    kinds.LOOKUP_CHANNELS: _channel_parts,
    kinds.CONV_F32: _products,
    kinds.DEPTHWISE_F32: _windows,
    kinds.MAX_POOL_F32: _windows,
    kinds.AVG_POOL_F32: _windows,
    kinds.MEAN_F32: _mean_parts,
    kinds.ELEMENTWISE_F32: _formula_parts,
    kinds.SOFTMAX_F32: _softmax_parts,
    kinds.NORMALIZE_F32: _softmax_parts,
    kinds.MATMUL_F32: _matmul_parts,
    kinds.WINDOWS_F32: _products,
    kinds.WINDOWS: _products,
}


# Jobs: the rows of a Program as pieces in groups.

# A step is cut if it takes long enough. All steps between two such steps are one piece.
# Estimates decide, so the same shapes on one ISA always give the same pieces.

#: A shorter piece costs more to hand over than it saves.
PIECE_NANOSECONDS = 8_000
#: A longer step has twice as many pieces, so that a late worker still finds one.
LONG_NANOSECONDS = 150_000
#: Multiply-accumulates per nanosecond of matrix products and depthwise convolutions.
#: The numbers of "generic", "avx2" and "vnni" are measured, the others are estimates.
RATES = {
    "generic": (10, 6),
    "neon": (60, 15),
    "avx2": (70, 17),
    "avxvnni": (120, 17),
    "avx512": (80, 20),
    "vnni": (180, 45),
}
#: The same of floats.
FLOAT_RATES = {
    "generic": (4, 2),
    "neon": (20, 10),
    "avx2": (45, 22),
    "avxvnni": (45, 22),
    "avx512": (70, 22),
    "vnni": (70, 22),
}
#: Nanoseconds per instruction and float of an Elementwise.
INSTRUCTION_NANOSECONDS = 0.25
#: Nanoseconds per code of a softmax.
SOFTMAX_NANOSECONDS = 2
#: Nanoseconds per code of a norm.
NORM_NANOSECONDS = 1
#: Nanoseconds per byte of the result, for any other kind of step.
BYTE_NANOSECONDS = 0.25


class Job(NamedTuple):
    """The rows of a program for `run.run`, cut into pieces, and the uncut rows."""

    rows: np.ndarray
    pieces: np.ndarray
    first: np.ndarray
    whole: np.ndarray
    profitability: Profitability


#: Kinds whose time grows with the taps of their window.
POOLS = (
    *(kinds.MAX_POOL, kinds.AVG_POOL),
    *(kinds.MAX_POOL_F32, kinds.AVG_POOL_F32),
)


def nanoseconds(row):
    """Return an estimate of the time that the row takes one thread."""
    products, depthwise = RATES[kernel_set.CHOSEN.get().name]
    window = row.window
    taps = window.kernel_h * window.kernel_w
    outputs = row.images * window.out_h * window.out_w
    if row.kind in (kinds.CONV, kinds.WINDOWS):
        depth = taps * (window.channels // row.groups)
        return outputs * row.out_channels * depth / products
    if row.kind == kinds.DEPTHWISE:
        return outputs * window.channels * taps / depthwise
    of_products, of_depthwise = FLOAT_RATES[kernel_set.CHOSEN.get().name]
    if row.kind in (kinds.CONV_F32, kinds.WINDOWS_F32):
        return outputs * row.out_channels * row.depth / of_products
    if row.kind == kinds.DEPTHWISE_F32:
        return outputs * window.channels * taps / of_depthwise
    if row.kind == kinds.ELEMENTWISE_F32:
        elements = row.out_bytes // ITEM
        return elements * row.instructions * INSTRUCTION_NANOSECONDS
    if row.kind == kinds.MATMUL_F32:
        return row.images * row.rows * row.columns * row.depth / of_products
    if row.kind == kinds.MATMUL:
        return row.images * row.rows * row.columns * row.depth / products
    if row.kind == kinds.SOFTMAX:
        return row.out_bytes * SOFTMAX_NANOSECONDS
    if row.kind == kinds.NORMALIZE:
        return row.out_bytes * NORM_NANOSECONDS
    if row.kind in POOLS:
        return row.out_bytes * taps * BYTE_NANOSECONDS
    return max(row.out_bytes, row.x_bytes) * BYTE_NANOSECONDS


def piece_count(row):
    """Return into how many pieces the row is cut."""
    return len(_pieces(row))


def _pieces(row):
    """Return the row cut into pieces that are large enough to run on other threads."""
    time = nanoseconds(row)
    if time < 2 * PIECE_NANOSECONDS or not row.out_bytes:
        return [row]
    return cut(row, 4 if time > LONG_NANOSECONDS else 2)


def job(rows, is_allowed=None):
    """Return the Job of all rows, or None if one thread is as fast.

    Args: is_allowed: tells of the pieces of a row whether it may be cut so.
    """
    # A group is a list of pieces, a piece is a list of rows.
    groups, chain = [], []
    for row in rows:
        parts = _pieces(row)
        if len(parts) == 1 or (is_allowed and not is_allowed(parts)):
            chain.append(row)
            continue
        groups += [[chain]] if chain else []
        groups.append([[part] for part in parts])
        chain = []
    if not groups or len(groups) >= MOST_GROUPS:
        return None
    groups += [[chain]] if chain else []
    pieces = [piece for group in groups for piece in group]
    ends = np.cumsum([len(piece) for piece in pieces])
    table = np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
    first = np.cumsum([0, *(len(group) for group in groups)])
    cut_rows = np.array([row for piece in pieces for row in piece], STEP)
    return Job(cut_rows, table, first, rows, Profitability())
