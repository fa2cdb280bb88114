"""Cut a step into pieces that threads may carry out at once, each a row of its own.

A piece is a smaller step of the same kind: other sizes, and another place in the
arena. So no kernel knows of threads, and a kind that is not named here is one piece.
Rows of images are cut where there is one image, else images. The window of a piece
begins at the first input row that it needs, so its padding is never negative.
"""

from itertools import pairwise

import numpy as np

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.program import interpret

#: Pixels, or elements, between two cuts: whole tiles and vectors.
PIXELS, ELEMENTS = 12, 1024


# A piece is a smaller row, so that no kernel knows about threads (decision 0031).
def cut(row, count):
    """`row` as at most `count` rows that write what it writes, each a part of it."""
    return CUTS[row.kind](row, count) if row.kind in CUTS else [row]


def _ranges(size, count, grain):
    """Consecutive ranges of about one length, cut at multiples of `grain`."""
    places = (round(size * i / count / grain) * grain for i in range(count))
    at = [*(min(place, size) for place in places), size]
    return [(a, b) for a, b in pairwise(at) if a < b]


def _moved(row, x, y, out, out_bytes):
    """`row` with buffers that many bytes further on, and a result so long."""
    row = row.copy()
    row.x += x
    row.x_bytes -= x
    row.y += y
    row.y_bytes -= y
    row.out += out
    row.out_bytes = out_bytes
    return row


def _image_parts(row, count, pixel_bytes):
    """Cut by images, or by output rows of one image."""
    images, window = row.images, row.window
    h, w, c = window.height, window.width, window.channels
    oh, ow = window.out_h, window.out_w
    parts = []
    if images > 1:
        size, length = h * w * c, oh * ow * pixel_bytes
        for a, b in _ranges(images, count, 1):
            part = _moved(row, a * size, 0, a * length, (b - a) * length)
            part.images = b - a
            parts.append(part)
        return parts
    for a, b in _ranges(oh, count, 1):
        skipped = max(0, a * window.stride_h - window.pad_top)
        if skipped >= h:
            return [row]
        length = ow * pixel_bytes
        part = _moved(row, skipped * w * c, 0, a * length, (b - a) * length)
        own = part.window
        own.height, own.out_h = h - skipped, b - a
        own.pad_top += skipped - a * window.stride_h
        parts.append(part)
    return parts


def _windows(row, count):
    """Depthwise convolution."""
    return _image_parts(row, count, row.window.channels * (4 if row.is_exact else 1))


def _pools(row, count):
    return _image_parts(row, count, row.window.channels)


def _products(row, count):
    """Convolution as a product: rows of images, pixels, or columns of the weights."""
    pixel_bytes = row.out_channels * (4 if row.is_exact else 1)
    if row.strip != 0:
        return _image_parts(row, count, pixel_bytes)
    c = row.window.channels
    pixels = row.images * row.window.out_h * row.window.out_w
    if pixels < PIXELS * count and row.groups == 1 and kernel_set.HOST.PANEL_COLUMNS:
        return _columns(row, count)
    parts = []
    # what fills no tile is in the first part, the caller's: helpers begin later
    for begin, end in reversed(_ranges(pixels, count, PIXELS)):
        a, b = pixels - end, pixels - begin
        part = _moved(row, a * c, 0, a * pixel_bytes, (b - a) * pixel_bytes)
        part.x_bytes = (b - a) * c
        part.images, part.window.out_h, part.window.out_w = 1, 1, b - a
        parts.append(part)
    return parts


def _columns(row, count):
    window, n, size = row.window, row.columns, 4 if row.is_exact else 1
    depth = window.channels * window.kernel_h * window.kernel_w
    column_bytes = kernel_set.HOST.packed_column_bytes(depth)
    parts = []
    for a, b in _ranges(n, count, kernel_set.HOST.PANEL_COLUMNS):
        part = _moved(row, 0, 0, a * size, row.out_bytes - a * size)
        part.columns = b - a
        part.padded_columns = kernel_set.HOST.padded_columns(b - a)
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
    """Lookup, Add and Dequantize: element by element."""
    size = 4 if row.kind == interpret.DEQUANTIZE else 1
    parts = []
    for a, b in _ranges(row.out_bytes // size, count, ELEMENTS):
        y = a if row.kind == interpret.ADD else 0
        parts.append(_moved(row, a, y, a * size, (b - a) * size))
    return parts


def _quantized(row, count):
    parts = []
    for a, b in _ranges(row.elements, count, ELEMENTS):
        part = _moved(row, 4 * a, 0, a, b - a)
        part.elements = b - a
        parts.append(part)
    return parts


def _multiplied(row, count):
    """Mul: by images where each has its factors, else by pixels."""
    images, pixels, c = row.images, row.pixels, row.channels
    parts = []
    if images > 1:
        size = pixels * c
        for a, b in _ranges(images, count, 1):
            part = _moved(row, a * size, a * c, a * size, (b - a) * size)
            part.images = b - a
            parts.append(part)
        return parts
    for a, b in _ranges(pixels, count, -(-ELEMENTS // c)):
        y = 0 if row.has_factors else a * c
        part = _moved(row, a * c, y, a * c, (b - a) * c)
        part.pixels = b - a
        parts.append(part)
    return parts


def _views(row, count):
    """Move: along the first axis of the result that has more than one place."""
    shape = row.lengths
    axis = next((i for i, size in enumerate(shape) if size > 1), 0)
    length = row.run * int(np.prod(shape[axis + 1 :]))
    parts = []
    for a, b in _ranges(shape[axis], count, 1):
        part = _moved(row, 0, 0, a * length, (b - a) * length)
        part.start += a * row.jumps[axis]
        part.lengths[axis] = b - a
        parts.append(part)
    return parts


def _taken(row, count):
    """Take: by what lies before the axis, or by indices where nothing does."""
    outer, size, inner, places = row.outer, row.length, row.inner, row.indices
    parts = []
    for a, b in _ranges(outer if outer > 1 else places, count, 1):
        if outer > 1:
            length = places * inner
            part = _moved(row, a * size * inner, 0, a * length, (b - a) * length)
            part.outer = b - a
        else:
            part = _moved(row, 0, 0, a * inner, (b - a) * inner)
            part.indices = b - a
            part.constants += 16 * a
            part.constants_bytes -= 16 * a
        parts.append(part)
    return parts


def _joined(row, count):
    """Concat: by what lies before the axis."""
    of_x, of_y = row.x_run, row.y_run
    parts = []
    for a, b in _ranges(row.outer, count, 1):
        length = of_x + of_y
        part = _moved(row, a * of_x, a * of_y, a * length, (b - a) * length)
        part.outer = b - a
        parts.append(part)
    return parts


CUTS = {
    interpret.CONV: _products,
    interpret.DEPTHWISE: _windows,
    interpret.MAX_POOL: _pools,
    interpret.AVG_POOL: _pools,
    interpret.LOOKUP: _elements,
    interpret.ADD: _elements,
    interpret.DEQUANTIZE: _elements,
    interpret.QUANTIZE: _quantized,
    interpret.MUL: _multiplied,
    interpret.MOVE: _views,
    interpret.TAKE: _taken,
    interpret.CONCAT: _joined,
}
