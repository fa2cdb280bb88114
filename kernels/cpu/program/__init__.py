"""Compiled steps, and programs of steps that run in one call.

This module declares the record of one step, and the window of convolution and pooling.

`STEP` is a NumPy record of int64 fields, and two of float64. Compiled kernels and
Python read it by name (`step.groups`). A field that a kind of step does not use is 0.
The place of a buffer is its offset in the arena, in bytes. The field `constants` is the
offset of the step's constants in the array of all constants; the place of an array
among the constants of a step is its offset from there.

A field name must differ from the attributes of a NumPy scalar, such as `shape` or
`size`: under NUMBA_DISABLE_JIT=1 the record is a NumPy scalar.
"""

from typing import NamedTuple

import numpy as np

#: Axes that `move_u8` walks, besides the bytes that are adjacent in memory.
AXES = 5


class Window(NamedTuple):
    """A window that slides over one image, all sizes in pixels.

    Kernels take it as a tuple, because numba counts references of an array at every
    call.
    """

    height: int  # of the input image
    width: int
    channels: int  # of a pixel of the input
    kernel_h: int  # taps
    kernel_w: int
    stride_h: int  # from one output to the next
    stride_w: int
    pad_top: int  # negative where a piece of an image begins inside of it
    pad_left: int
    dilation_h: int  # from one tap to the next
    dilation_w: int
    out_h: int  # of the output image; the padding below and right follows from it
    out_w: int


def _integers(*names):
    """Return int64 fields with these names."""
    return [(name, np.int64) for name in names]


WINDOW = np.dtype(_integers(*Window._fields))

# fmt: off
STEP = np.dtype((np.record, [
    # every kind
    ("kind", np.int64),  # see `interpret`
    ("function", np.int64),  # address of the compiled function, see `functions`
    ("x", np.int64),  # place of the first input
    ("x_bytes", np.int64),
    ("y", np.int64),  # place of the last input, which is the first where there is one
    ("y_bytes", np.int64),
    ("out", np.int64),  # place of the result
    ("out_bytes", np.int64),
    ("scratch_bytes", np.int64),  # from the start of the arena
    ("constants", np.int64),  # place of this step's constants among all
    ("constants_bytes", np.int64),
    # sizes of the activations
    ("elements", np.int64),  # of all images; Quantize
    ("images", np.int64),
    ("pixels", np.int64),  # of an image; Mul, Mean, Quantize of NCHW
    ("channels", np.int64),  # of a pixel; Mul, Mean, Quantize of NCHW
    ("out_channels", np.int64),  # of a pixel of the result, over all groups
    ("window", WINDOW),  # convolutions and pools
    # rounding: clamp(round(sums * ratio) + zero_point, lo, hi)
    ("x_zero_point", np.int64),  # codes
    ("y_zero_point", np.int64),
    ("zero_point", np.int64),
    ("lo", np.int64),
    ("hi", np.int64),
    ("multipliers", np.int64),  # place of float32, one a ratio
    ("limbs", np.int64),  # place of int64 [ratios, 8], see `rescale`
    ("exception_sums", np.int64),  # place of int32; 0: there are none
    ("guard", np.int64),  # place of one float32; Add
    # convolutions as products, and depthwise
    ("strip", np.int64),  # output lines of one im2col; 0: pixels of x are the rows
    ("groups", np.int64),
    # output channels of a group; MatMul; LookupChannels: slopes, 0: it has tables
    ("columns", np.int64),
    ("padded_columns", np.int64),  # those that its constants have room for
    ("is_exact", np.int64),  # 1: the result is the int32 sums, nothing is rounded
    ("weights", np.int64),  # place of the packed weights of the first group
    ("weight_bytes", np.int64),  # of a group
    # place of int32; float MatMul: 1 if the first column of x holds biases
    ("bias", np.int64),
    # other kinds
    ("has_factors", np.int64),  # Mul; 1: y has one factor for each image and channel
    ("is_maximum", np.int64),  # Extreme; 1: the larger code is taken
    ("tables", np.int64),  # Extreme: bit i is 1 if table i of three is used
    ("counts_padding", np.int64),  # AvgPool; 1: divide by all taps
    # Move: bytes to the first element; Elementwise: number of the first element of out
    ("start", np.int64),
    ("lengths", np.int64, AXES),  # Move: elements along each axis
    ("jumps", np.int64, AXES),  # Move: bytes from one element to the next
    ("run", np.int64),  # Move: bytes that lie side by side
    ("is_single", np.int64),  # Move; 1: of float32
    ("outer", np.int64),  # Take and Concat: elements before the axis
    ("length", np.int64),  # Take, Softmax, Normalize and Reduce: of the axis in x
    # Take and LookupChannels: bytes behind the axis; float Softmax, Reduce: elements
    ("inner", np.int64),
    ("indices", np.int64),  # Take: how many
    ("x_run", np.int64),  # Concat: bytes of x, and of y, for each outer element
    ("y_run", np.int64),
    ("rows", np.int64),  # MatMul: of a matrix of x; float Conv2d: outputs of one im2col
    ("depth", np.int64),  # MatMul: columns of x, and rows of y; Conv2d: length of a sum
    ("quotients", np.int64),  # Softmax: place of int64 [256, 8]
    ("inverse_step", np.int64),  # Softmax: place of one float64
    ("gains", np.int64),  # Normalize: place of float64 [length]
    ("offsets", np.int64),
    ("widths", np.int64, 4),  # Normalize: limbs of the numbers at `limbs`
    # steps of floats, and norms of codes
    ("is_centered", np.int64),  # Normalize; 1: the mean is subtracted
    ("has_residual", np.int64),  # Conv2d; 1: y is added before the activation
    ("activation", np.int64),  # Conv2d, see `generic/activation.py`
    ("low", np.float64),
    ("high", np.float64),
    ("instructions", np.int64),  # Elementwise: how many
    ("operands", np.int64),  # Elementwise: place of int64 [operand_count, 11]
    ("operand_count", np.int64),
    ("segment", np.int64),  # Elementwise: elements of the result, see its kernel
    ("numbers", np.int64),  # Elementwise: place of float32 [instructions, 2]
    ("registers", np.int64),  # Elementwise: how many
    ("operation", np.int64),  # Reduce, see `generic/opcodes.py`
]))
# fmt: on
