"""Cut a step into pieces that threads may carry out at once, each a row of its own.

A piece is a smaller step of the same kind: other sizes, and another place in the
arena. So no kernel knows of threads, and a kind that is not named here is one piece.
Rows of images are cut where there is one image, else images. The window of a piece
begins at the first input row that it needs, so its padding is never negative.
"""

from itertools import pairwise

import numpy as np

from mdtensor.kernels.cpu import invoke, runway
from mdtensor.kernels.cpu.invoke import PARAMETERS, Column

#: Pixels, or elements, between two cuts: whole tiles and vectors.
PIXELS, ELEMENTS = 12, 1024


# A piece is a smaller row, so that no kernel knows about threads (decision 0031).
def cut(row, count):
    """`row` as at most `count` rows that write what it writes, each a part of it."""
    return CUTS[row[Column.KIND]](row, count) if row[Column.KIND] in CUTS else [row]


def _ranges(size, count, grain):
    """Consecutive ranges of about one length, cut at multiples of `grain`."""
    places = (round(size * i / count / grain) * grain for i in range(count))
    at = [*(min(place, size) for place in places), size]
    return [(a, b) for a, b in pairwise(at) if a < b]


def _moved(row, x, y, out, out_bytes):
    """`row` with buffers that many bytes further on, and a result so long."""
    row = row.copy()
    for place, size, offset in (
        (Column.X, Column.X_BYTES, x),
        (Column.Y, Column.Y_BYTES, y),
    ):
        row[place] += offset
        row[size] -= offset
    row[Column.OUT] += out
    row[Column.OUT_BYTES] = out_bytes
    return row


def _image_parts(row, count, geometry, pixel_bytes):
    """Cut by images, or by output rows; `geometry` is a slice of the parameters."""
    images, g = row[PARAMETERS], row[geometry]
    (h, w, c), (oh, ow) = g[:3], g[11:13]
    parts = []
    if images > 1:
        size, length = h * w * c, oh * ow * pixel_bytes
        for a, b in _ranges(images, count, 1):
            part = _moved(row, a * size, 0, a * length, (b - a) * length)
            part[PARAMETERS] = b - a
            parts.append(part)
        return parts
    for a, b in _ranges(oh, count, 1):
        skipped = max(0, a * g[5] - g[7])
        if skipped >= h:
            return [row]
        length = ow * pixel_bytes
        part = _moved(row, skipped * w * c, 0, a * length, (b - a) * length)
        window = part[geometry]
        window[0], window[11] = h - skipped, b - a
        window[7] += skipped - a * g[5]
        parts.append(part)
    return parts


def _windows(row, count):
    """Depthwise convolution."""
    at = PARAMETERS + 4
    c, is_exact = row[at + 2], row[PARAMETERS + 19] != 0
    return _image_parts(row, count, slice(at, at + 13), c * (4 if is_exact else 1))


def _pools(row, count):
    at = PARAMETERS + 1
    return _image_parts(row, count, slice(at, at + 13), row[at + 2])


def _products(row, count):
    """Convolution as a product: rows of images, pixels, or columns of the weights."""
    p = row[PARAMETERS:]
    is_exact = p[19] != 0
    pixel_bytes = p[29] * (4 if is_exact else 1)
    if p[1] != 0:
        at = PARAMETERS + 4
        return _image_parts(row, count, slice(at, at + 13), pixel_bytes)
    pixels = p[0] * p[15] * p[16]
    if pixels < PIXELS * count and p[2] == 1 and runway.HOST.PANEL_COLUMNS:
        return _columns(row, count, is_exact)
    parts = []
    # what fills no tile is in the first part, the caller's: helpers begin later
    for begin, end in reversed(_ranges(pixels, count, PIXELS)):
        a, b = pixels - end, pixels - begin
        part = _moved(row, a * p[6], 0, a * pixel_bytes, (b - a) * pixel_bytes)
        part[Column.X_BYTES] = (b - a) * p[6]
        part[PARAMETERS], part[PARAMETERS + 15], part[PARAMETERS + 16] = 1, 1, b - a
        parts.append(part)
    return parts


def _columns(row, count, is_exact):
    p = row[PARAMETERS:]
    n, size = p[17], 4 if is_exact else 1
    column_bytes = runway.HOST.packed_column_bytes(p[6] * p[7] * p[8])
    parts = []
    for a, b in _ranges(n, count, runway.HOST.PANEL_COLUMNS):
        part = _moved(row, 0, 0, a * size, row[Column.OUT_BYTES] - a * size)
        q = part[PARAMETERS + 17 :]
        q[0], q[1] = b - a, runway.HOST.padded_columns(b - a)
        q[3] += a * column_bytes
        q[4] -= a * column_bytes
        q[5:8] += a * np.array([4, 4, 64])
        q[8] += 4 * a if q[8] else 0  # exceptions, where there are some
        parts.append(part)
    return parts


def _elements(row, count):
    """Lookup, Add and Dequantize: element by element."""
    size = 4 if row[Column.KIND] == invoke.DEQUANTIZE else 1
    parts = []
    for a, b in _ranges(row[Column.OUT_BYTES] // size, count, ELEMENTS):
        y = a if row[Column.KIND] == invoke.ADD else 0
        parts.append(_moved(row, a, y, a * size, (b - a) * size))
    return parts


def _quantized(row, count):
    parts = []
    for a, b in _ranges(row[PARAMETERS], count, ELEMENTS):
        part = _moved(row, 4 * a, 0, a, b - a)
        part[PARAMETERS] = b - a
        parts.append(part)
    return parts


def _multiplied(row, count):
    """Mul: by images where each has its factors, else by pixels."""
    images, pixels, c, has_factors = row[PARAMETERS : PARAMETERS + 4]
    parts = []
    if images > 1:
        size = pixels * c
        for a, b in _ranges(images, count, 1):
            part = _moved(row, a * size, a * c, a * size, (b - a) * size)
            part[PARAMETERS] = b - a
            parts.append(part)
        return parts
    for a, b in _ranges(pixels, count, -(-ELEMENTS // c)):
        y = 0 if has_factors else a * c
        part = _moved(row, a * c, y, a * c, (b - a) * c)
        part[PARAMETERS + 1] = b - a
        parts.append(part)
    return parts


def _views(row, count):
    """Move: along the first axis of the result that has more than one place."""
    start, *walk, run = row[PARAMETERS : PARAMETERS + 12]
    shape, strides = walk[:5], walk[5:]
    axis = next((i for i, size in enumerate(shape) if size > 1), 0)
    length = run * int(np.prod(shape[axis + 1 :]))
    parts = []
    for a, b in _ranges(shape[axis], count, 1):
        part = _moved(row, 0, 0, a * length, (b - a) * length)
        part[PARAMETERS] = start + a * strides[axis]
        part[PARAMETERS + 1 + axis] = b - a
        parts.append(part)
    return parts


def _taken(row, count):
    """Take: by what lies before the axis, or by indices where nothing does."""
    outer, size, inner, places = row[PARAMETERS : PARAMETERS + 4]
    parts = []
    for a, b in _ranges(outer if outer > 1 else places, count, 1):
        if outer > 1:
            length = places * inner
            part = _moved(row, a * size * inner, 0, a * length, (b - a) * length)
            part[PARAMETERS] = b - a
        else:
            part = _moved(row, 0, 0, a * inner, (b - a) * inner)
            part[PARAMETERS + 3] = b - a
            part[Column.CONSTANTS] += 16 * a
            part[Column.CONSTANTS_BYTES] -= 16 * a
        parts.append(part)
    return parts


def _joined(row, count):
    """Concat: by what lies before the axis."""
    outer, of_x, of_y = row[PARAMETERS : PARAMETERS + 3]
    parts = []
    for a, b in _ranges(outer, count, 1):
        length = of_x + of_y
        part = _moved(row, a * of_x, a * of_y, a * length, (b - a) * length)
        part[PARAMETERS] = b - a
        parts.append(part)
    return parts


CUTS = {
    invoke.CONV: _products,
    invoke.DEPTHWISE: _windows,
    invoke.MAX_POOL: _pools,
    invoke.AVG_POOL: _pools,
    invoke.LOOKUP: _elements,
    invoke.ADD: _elements,
    invoke.DEQUANTIZE: _elements,
    invoke.QUANTIZE: _quantized,
    invoke.MUL: _multiplied,
    invoke.MOVE: _views,
    invoke.TAKE: _taken,
    invoke.CONCAT: _joined,
}
