"""What the kernels of float32 read and write, by kind of step; see `rules_of_codes.py`.

`mdtensor.kernels.cpu.program.interpret_floats` has the function of each kind.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor_run.packing import padded_columns
from mdtensor_run.row import ITEM, SLACK, Row, product

#: Activations of a product, and operations of an Elementwise, count from 0. Reductions
#: of rows of a block come behind: no stored plan has them.
ACTIVATIONS, OPERATIONS = 6, 47
#: An activation is less than 8; roundings take the bits above it.
KINDS, CODE_BITS = 8, 9
#: Reductions: sum, mean, maximum, minimum.
REDUCTIONS = 4
#: The columns of an operand, see `kernels/cpu/generic/opcodes.py`.
SOURCE, PLACE, IS_PERIODIC, SIZES, JUMPS, COLUMNS = 0, 1, 2, 3, 7, 11
INPUTS, NOTHING, CONSTANTS, SECOND = 4, -1, 4, 1
MOST_INSTRUCTIONS, MOST_BLOCKS, MOST_BLOCK = 1 << 10, 1 << 10, 1 << 16


def _product(r: Row) -> tuple[Any, int, int]:
    """Check the buffers of a convolution; return its window, depth and columns."""
    f = r.fields
    w, elements, pixels = r.image()
    groups, n, k = r.groups()
    r.require(f.depth == k, f"has sums of {f.depth} products")
    padded = padded_columns(n)
    r.require(f.weight_bytes == ITEM * padded * k, "has other weights")
    r.reads_constants(f.weights, groups * f.weight_bytes)
    r.reads_constants(f.bias, ITEM * groups * padded)
    r.reads_x(ITEM * elements)
    r.writes(ITEM * pixels * groups * n)
    _activates(r)
    if f.has_residual:
        r.reads_y(f.out_bytes)
    return w, k, groups


def _activates(r: Row) -> None:
    (code,) = r.ints("activation", least=0, most=(1 << CODE_BITS) - 1)
    r.require(code % KINDS < ACTIVATIONS, f"has the activation {code % KINDS}")


def convolve_floats(r: Row) -> None:
    """Check a Conv2d whose rows are pixels or copies of windows."""
    w, k, _ = _product(r)
    if r.fields.strip == 0:
        r.require(r.is_pixelwise(), "has a window that needs a copy")
        return
    (strip,), (columns,) = r.ints("strip", most=w.out_h), r.ints("rows", most=w.out_w)
    r.uses_scratch(strip * columns * r.packing.pitch(ITEM * k))


def convolve_windows(r: Row) -> None:
    """Check a Conv2d on padded copies of lines."""
    w, _, groups = _product(r)
    r.require(r.packing.has_windows, "is for another ISA")
    r.require(w.dilation_w == 1, "has dilated columns")
    (strip,) = r.ints("strip", most=w.out_h)
    lines = (strip - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1
    width = (w.out_w - 1) * w.stride_w + w.kernel_w
    r.uses_scratch(ITEM * lines * width * (w.channels // groups))


def convolve_depthwise_floats(r: Row) -> None:
    """Check a depthwise Conv2d, packed in blocks of 8 channels."""
    f = r.fields
    w, elements, pixels = r.image()
    size = ITEM * 8 * -(-w.channels // 8) * w.kernel_h * w.kernel_w
    r.require(f.weight_bytes == size, f"has {f.weight_bytes} bytes of weights")
    r.reads_constants(f.weights, size)
    r.reads_constants(f.bias, ITEM * padded_columns(w.channels))
    _activates(r)
    r.reads_x(ITEM * elements)
    r.writes(ITEM * pixels * w.channels)


def pool(r: Row) -> None:
    """Check a MaxPool or an AvgPool."""
    w, elements, pixels = r.image()
    r.reads_x(ITEM * elements)
    r.writes(ITEM * pixels * w.channels)


def mean_floats(r: Row) -> None:
    """Check a Mean."""
    images, pixels, channels = r.ints("images", "pixels", "channels")
    r.reads_x(ITEM * product((images, pixels, channels)))
    r.writes(ITEM * images * channels)


def reduce_floats(r: Row) -> None:
    """Check a Reduce along an axis."""
    f = r.fields
    r.ints("operation", least=0, most=REDUCTIONS - 1)
    length, inner = r.ints("length", "inner")
    r.require(f.out_bytes % (ITEM * inner) == 0, "has a part of a line")
    r.reads_x(product((f.out_bytes, length)))
    r.needs["out"] = f.out_bytes


def transpose_floats(r: Row) -> None:
    """Check a Transpose."""
    size = ITEM * product(r.ints("images", "pixels", "channels"))
    r.reads_x(size)
    r.writes(size)


def _is_rows(r: Row, length: int) -> None:
    size = r.fields.out_bytes
    r.require(size % (ITEM * length) == 0, "has a part of a row")
    r.reads_x(size)


def softmax_floats(r: Row) -> None:
    """Check a Softmax along an axis."""
    _is_rows(r, product(r.ints("length", "inner")))


def normalize_floats(r: Row) -> None:
    """Check a Normalize."""
    f = r.fields
    (length,) = r.ints("length")
    if f.weight_bytes:
        r.reads_constants(0, ITEM * length)
    if f.bias:
        r.reads_constants(f.bias, ITEM * length)
    _is_rows(r, length)


def multiply_matrices_floats(r: Row) -> None:
    """Check a MatMul: scratch has the packed y and a row of zeros."""
    f = r.fields
    images, m, k, n = r.ints("images", "rows", "depth", "columns")
    padded = padded_columns(n)
    r.require(f.padded_columns == padded, f"has {f.padded_columns} padded columns")
    # Only calls have biases in the first column of x.
    r.require(f.bias == 0, f"has {f.bias} columns of biases")
    r.places(ITEM)
    _activates(r)
    r.uses_scratch(ITEM * (k + 1) * padded)
    r.writes(ITEM * product((images, m, n)))


def resample_floats(r: Row) -> None:
    """Check a Resample: the places of the elements that it adds up are constants."""
    f = r.fields
    outer, length, inner = r.ints("outer", "length", "inner")
    new, taps = r.ints("rows", "columns")
    places = r.numbers(f.operands, new, taps)
    is_inside = bool(((places >= 0) & (places < length)).all())
    r.require(is_inside, "reads an element past the axis")
    r.reads_constants(f.numbers, ITEM * new * taps)
    r.reads_x(ITEM * product((outer, length, inner)))
    r.writes(ITEM * product((outer, new, inner)))


def run_elementwise(r: Row) -> None:
    """Check an Elementwise: its instructions, and where its operands lie."""
    f = r.fields
    (count,) = r.ints("instructions", most=MOST_INSTRUCTIONS)
    (operands,) = r.ints("operand_count", least=INPUTS, most=MOST_BLOCKS)
    (registers,) = r.ints("registers", least=0, most=MOST_BLOCKS)
    (size,) = r.ints("strip", most=MOST_BLOCK)
    r.ints("segment")
    r.require(f.start == 0, f"starts at {f.start}")
    r.require(f.out_bytes % ITEM == 0, "has a part of a float")
    r.reads_constants(f.numbers, 2 * ITEM * count)
    r.uses_scratch(ITEM * (operands + registers) * size)
    _instructions(r, r.numbers(0, count, 4), operands, operands + registers)
    _operands(r, r.numbers(f.operands, operands, COLUMNS))


def _instructions(
    r: Row, program: npt.NDArray[np.int64], operands: int, values: int
) -> None:
    """Check operations, targets and values; a target is a register or the result."""
    operation, target, *given = program.T
    is_known = (operation >= 0) & (operation < OPERATIONS)
    is_target = (target == 0) | ((target >= operands) & (target < values))
    is_value = [(value >= 0) & (value < values) for value in given]
    found = np.logical_and.reduce([is_known, is_target, *is_value])
    r.require(bool(found.all()), "has an instruction on other values")


def _operands(r: Row, table: npt.NDArray[np.int64]) -> None:
    """Check where the first and the last element of each operand is."""
    f = r.fields
    rooms = dict.fromkeys(range(INPUTS), f.x_bytes) | {SECOND: f.y_bytes}
    rooms[CONSTANTS] = f.constants_bytes - SLACK
    for row in table.tolist():
        source, place, is_periodic = row[SOURCE], row[PLACE], row[IS_PERIODIC]
        if source == NOTHING:
            r.require(is_periodic == 0, "repeats an operand that does not exist")
            continue
        r.require(source in rooms, f"reads the source {source}")
        sizes, jumps = row[SIZES:JUMPS], row[JUMPS:COLUMNS]
        r.require(place >= 0 and min(sizes) >= 1, "has an operand without elements")
        r.require(min(jumps) >= 0, "has an operand that goes backwards")
        last = sum((n - 1) * jump for n, jump in zip(sizes, jumps, strict=True))
        end = ITEM * (place + last + 1)
        r.require(end <= rooms[source], "has an operand past its buffer")
        if source == CONSTANTS:
            r.needs["constants"] = max(r.needs["constants"], end + SLACK)
        else:
            r.needs["y" if source == SECOND else "x"] = rooms[source]


RULES = {
    f"program.interpret_floats.{name}": rule
    for name, rule in {
        "convolve_floats": convolve_floats,
        "convolve_windows": convolve_windows,
        "convolve_depthwise_floats": convolve_depthwise_floats,
        "max_pool_floats": pool,
        "avg_pool_floats": pool,
        "mean_floats": mean_floats,
        "run_elementwise": run_elementwise,
        "transpose_floats": transpose_floats,
        "softmax_floats": softmax_floats,
        "normalize_floats": normalize_floats,
        "multiply_matrices_floats": multiply_matrices_floats,
        "resample_floats": resample_floats,
    }.items()
} | {"program.interpret_reductions.reduce_floats": reduce_floats}
