"""How the generic ISA packs weights, and the sizes that its kernels want.

Every ISA has such a module, which does not load numba. Kernels compile the functions
that they call, too.
"""

import numpy as np

from mdtensor.kernels.cpu.program import Window

# Products of codes.

PANEL = 16
#: Whether `gemm_u8s8u8` compares sums with exception sums.
PRODUCTS_TAKE_EXCEPTION_SUMS = False
#: Packed weights can be divided only at multiples of this many columns; 0: nowhere,
#: since a row of the panel holds all columns.
PANEL_COLUMNS = 0
#: Bytes of a packed column of codes for the terms of rows, see `gemm_u8u8u8`.
TERM_BYTES = 0


def padded_columns(n):
    """Return `n` rounded up to whole panels: the length of bias and multiplier."""
    return (n + PANEL - 1) // PANEL * PANEL


def packed_column_bytes(k):
    """Return the bytes of a packed column of k weights."""
    return 4 * (-(-k // 4) * 4)


def pack_s8(weight):
    """Pack weights as float32 [k padded to 4][n padded].

    Args:
        weight: int8 [n, k].

    Returns: int8 1-D, a view of the float32 panel; pads are zero.
    """
    n, k = weight.shape
    packed = np.zeros((-(-k // 4) * 4, padded_columns(n)), np.float32)
    packed[:k, :n] = weight.T
    return packed.reshape(-1).view(np.int8)


#: Whether `add_u8u8u8` rounds sums as `program/checked_sums.py` does.
SUMS_TAKE_CHECKED_MULTIPLIERS = False
#: Whether products of pairs in 16 bits are faster than those of words.
MULTIPLIES_PAIRS = False

# Convolutions of codes.

# The least lanes of a depthwise block. Whole pixels fill a block, because images of few
# channels would otherwise leave most lanes of a vector empty.
BLOCK = 256
#: Bits of depthwise weights, with the sign; an 8-bit code minus a zero point has 9.
DEPTHWISE_BITS = 9
#: The largest factor of depthwise weights, see `multipliers.multiples`; 0: none.
MOST_FACTOR = 0
#: Whether `depthwise_u8s8u8` compares sums with exception sums.
DEPTHWISE_TAKES_EXCEPTION_SUMS = False
# The largest sum of a depthwise output. Up to it, float32 represents every integer.
MOST_SUM = 1 << 24
#: Whether products of windows are at least as fast as im2col on this ISA.
MULTIPLIES_WINDOWS = True


def window(shape, kernel, stride, padding, dilation):
    """Return the Window of an input [n, h, w, c].

    Args: padding: (top, left, bottom, right).
    """
    _, h, w, c = shape
    top, left, bottom, right = padding
    oh = (h + top + bottom - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    ow = (w + left + right - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    assert oh > 0 and ow > 0, "the window is larger than the padded input"
    return Window(h, w, c, *kernel, *stride, top, left, *dilation, oh, ow)


# A window of one line reads no other line, so all lines may be those of one image: a
# tile then has outputs of several images, and none is left half full (decision 0112).
def joined_lines(shape, kernel, stride, padding, dilation):
    """Return the shape of one image with the lines of all; else `shape`.

    Args: as in `window`.
    """
    n, h, w, c = shape
    is_line = kernel[0] == 1 and stride[0] == 1 and padding[0] == padding[2] == 0
    return (1, n * h, w, c) if is_line and n else shape


def im2col_pitch(k):
    """Return the bytes from one row of k codes to the next, as matrix products need."""
    return k


def block_channels(c):
    """Return the lanes of a block of a depthwise convolution.

    A block has at least BLOCK lanes, and holds all channels of one or more pixels.
    """
    return (BLOCK + c - 1) // c * c


def pack_depthwise(weight):
    """Pack weights as float32 [kh * kw padded to 3][block].

    Args:
        weight: integers [c, kh, kw] of DEPTHWISE_BITS; the magnitudes of a channel's
            weights, times 255, sum to MOST_SUM at most.

    Returns: int8 1-D, a view of the float32 rows; each row repeats the c channels.
    """
    # Taps are padded to threes because `_add_taps` adds three at once.
    c, kh, kw = weight.shape
    taps = kh * kw
    packed = np.zeros((-(-taps // 3) * 3, block_channels(c)), np.float32)
    packed[:taps] = np.tile(weight.reshape(c, taps).T, block_channels(c) // c)
    return packed.reshape(-1).view(np.int8)
