"""How float32 weights, and weights of float products, are packed on every ISA."""

from math import prod

import numpy as np

from mdtensor.kernels.cpu.entry import Entry

#: Columns of a panel of weights.
PANEL = 16
#: Bytes of a cache line.
ALIGN = 64
#: Channels of a block of a depthwise convolution.
BLOCK = 8

_interleave = Entry("generic.weight_only", "interleave")


def allocate_f32(size):
    """Allocate float32 zeros [size] that begin at a cache line."""
    # A vector that crosses a cache line is read twice.
    room = np.zeros(size + ALIGN // 4, np.float32)
    start = -room.ctypes.data % ALIGN // 4
    return room[start : start + size]


def padded_columns(n):
    """Return `n` rounded up to whole panels: the length of a bias."""
    return -(-n // PANEL) * PANEL


def pack_f32(w):
    """Pack w[n, k] as panels [n / 16][k][16]; missing columns are 0.

    Args:
        w: float32 [n, ...], any strides; the axes behind n are k.

    Returns: float32 1-D.
    """
    n, k = len(w), prod(w.shape[1:])
    packed = allocate_f32(padded_columns(n) * k)
    panels = packed.reshape(padded_columns(n) // PANEL, k, PANEL)
    for panel, first in zip(panels, range(0, n, PANEL), strict=True):
        # A copy of the rows of one panel stays in the cache.
        rows = w[first : first + PANEL]
        rows = rows.reshape(len(rows), k)
        panel[:, : len(rows)] = rows.T
    return packed


def first_channel(block, c):
    """Return the first channel of a block; the last block overlaps the one before."""
    return max(0, min(block * BLOCK, c - BLOCK))


def block_count(c):
    """Return the number of blocks of c channels."""
    return -(-c // BLOCK)


def pad_rows(values):
    """Pad values[n, ...] with rows of 0 to whole panels."""
    padded = np.zeros((padded_columns(len(values)), *values.shape[1:]), values.dtype)
    padded[: len(values)] = values
    return padded


def pack_rows(rows):
    """Pack bytes rows[n, width] as panels [n / 16][width][16], 1-D."""
    if rows.T.flags.c_contiguous and not rows.flags.c_contiguous:
        return pack_columns(rows.T)
    rows = np.ascontiguousarray(rows)
    n, width = rows.shape
    panels = np.zeros((padded_columns(n) // PANEL, width, PANEL), rows.dtype)
    # Only the last panel is padded, which saves a copy of all weights.
    whole = n // PANEL
    source, target = rows.view(np.uint8), panels.view(np.uint8)
    _interleave(source, target[:whole])
    if whole < len(panels):
        _interleave(pad_rows(source[whole * PANEL :]), target[whole:])
    return panels.reshape(-1)


def pack_columns(columns):
    """Pack bytes columns[width, n] like the rows of `pack_rows`."""
    # Sixteen bytes of a panel are adjacent already, so they are copied as one element.
    width, n = columns.shape
    if n % PANEL:
        padded = np.zeros((width, padded_columns(n)), columns.dtype)
        padded[:, :n] = columns
        columns = padded
    lines = np.ascontiguousarray(columns).view(f"V{PANEL}")
    return np.ascontiguousarray(lines.T).view(columns.dtype).reshape(-1)


def pack_grid(values):
    """Pack scales or zeros [n, blocks] as float32 [n / 16][blocks][16], 1-D."""
    rows = pad_rows(np.asarray(values, np.float32))
    panels = rows.reshape(len(rows) // PANEL, PANEL, rows.shape[1])
    return panels.transpose(0, 2, 1).reshape(-1)


# Padded images of convolutions by windows, see `float_conv.py`.


def padded_lines(window, lines):
    """Return the lines of the padded image that `lines` lines of outputs read."""
    return (lines - 1) * window.stride_h + (window.kernel_h - 1) * window.dilation_h + 1


def padded_width(window):
    """Return the pixels of a line of the padded image; columns are not dilated."""
    return (window.out_w - 1) * window.stride_w + window.kernel_w
