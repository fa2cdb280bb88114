"""Elementwise steps: short formulas on up to four inputs and on constants.

Inputs and constants are broadcast to the result, as in NumPy. A formula knows for each
of them where its elements are for the elements of the result one after the other, so
two formulas join without their shapes.
"""

from math import prod
from typing import NamedTuple

import numpy as np

from mdtensor.kernels.cpu.generic import opcodes
from mdtensor.kernels.cpu.generic.opcodes import (
    AXES,
    BINARY,
    BLOCK,
    CONSTANTS,
    FIELDS,
    INPUTS,
    NOTHING,
)
from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.kinds import ITEM
from mdtensor.kernels.cpu.program.step import Constants, Plan, Step, row_of
from mdtensor.kernels.cpu.program.steps import F32

#: The shortest segment with blocks of its own; shorter ones share a block.
LEAST_SEGMENT = 512


class Instruction(NamedTuple):
    """One operation of an Elementwise on earlier values.

    Args:
        operation: see `generic/opcodes.py` and `generic/activation.py`.
        first, second: 0 to 3 are the inputs, 4 + i is the result of instruction i, and
            -1 - i is constant i.
        low, high: numbers that the operation reads.
    """

    operation: int
    first: int = 0
    second: int = 0
    low: float = 0.0
    high: float = 0.0

    @property
    def reads(self):
        """Return the values that the instruction reads."""
        is_binary = self.operation in BINARY
        return (self.first, self.second) if is_binary else (self.first,)


class Walk(NamedTuple):
    """Axes of a result, and how an operand moves along each; neighbours are merged."""

    sizes: tuple
    jumps: tuple

    @property
    def is_whole(self):
        """Return whether the operand has the shape of the result."""
        return self.jumps in ((), (1,))


def walk(shape, result):
    """Return the Walk of an array of this shape that is broadcast to `result`.

    Raises:
        ValueError: the array is repeated along too many separate axes.
    """
    wide = (1,) * (len(result) - len(shape)) + tuple(shape)
    sizes, jumps, stride = [], [], 1
    for own, size in zip(wide[::-1], result[::-1], strict=True):
        jump = stride if own != 1 else 0
        stride *= own
        if size == 1:
            continue
        # The walk is made from the last axis to the first.
        if sizes and jump == jumps[-1] * sizes[-1]:
            sizes[-1] *= size
        else:
            sizes.append(size)
            jumps.append(jump)
    if len(sizes) > AXES:
        raise ValueError(f"{shape} is repeated along more than {AXES} axes of {result}")
    return Walk(tuple(sizes[::-1]), tuple(jumps[::-1]))


# Walks stand for shapes, so that formulas join through views (decision 0054).
class Formula(NamedTuple):
    """Instructions on operands of one size.

    Args:
        inputs: the Walk of each input.
        constants: (float32 array, Walk) of each constant.
        elements: of the result.
        length: of the rows that reductions reduce, 0 without any.
    """

    instructions: tuple
    inputs: tuple
    constants: tuple
    elements: int
    length: int = 0

    @property
    def walks(self):
        """Return the walks of all operands: 4 inputs, then the constants."""
        missing = (Walk((), ()),) * (INPUTS - len(self.inputs))
        return (*self.inputs, *missing, *(one for _, one in self.constants))

    @property
    def registers(self):
        """Return the registers of `assign_registers`."""
        rows = assign_registers(self.instructions)
        return 1 + int(rows[:, 1].max()) - INPUTS if len(rows) > 1 else 0


def assign_registers(instructions):
    """Return int64 [n, 4]: operation, target, and the values that are read.

    A register is used again after its last reader. The last target is 0, the result.
    """
    last = {x: i for i, one in enumerate(instructions) for x in one.reads}
    places, free, count, rows = {}, [], 0, []
    for i, one in enumerate(instructions):
        reads = [places.get(x, x) for x in one.reads]
        target = 0
        if i + 1 < len(instructions):
            # No instruction writes what it reads, so registers are freed afterwards.
            count += not free
            target = free.pop() if free else INPUTS + count - 1
        places[INPUTS + i] = target
        done = {x for x in one.reads if x >= INPUTS and last[x] == i}
        free += [places[x] for x in done]
        rows.append((one.operation, target, reads[0], reads[-1]))
    return np.array(rows, np.int64)


def _period(sizes, jumps, length):
    """Return (period, segment): how many elements repeat, and in how many.

    The period is at most `length`, and 0 if there is none.
    """
    for axis, (size, jump) in enumerate(zip(sizes, jumps, strict=True)):
        period = prod(sizes[axis + 1 :])
        if jump == 0 and period <= length and period * size >= LEAST_SEGMENT:
            return period, period * size
    return 0, 0


def _blocks(walks, elements, length):
    """Return (block size, segment, whether each operand is periodic).

    Args: length: of rows that no block may split, or 0.
    """
    if length:
        size = max(1, BLOCK // length) * length
        found = [_period(*one, size) for one in walks]
        # A segment is all rows, so that no block has to end within one.
        is_part = [p > 0 and size % p == 0 and s == elements for p, s in found]
        return size, elements, is_part
    found = [_period(*one, BLOCK) for one in walks]
    periods = [period for period, _ in found if period]
    size = BLOCK // max(periods, default=1) * max(periods, default=1)
    found = [(p, s) if p and size % p == 0 else (0, 0) for p, s in found]
    segment = min((s for _, s in found if s), default=elements)
    # A segment that is not a part of another one would split its blocks.
    is_part = [p > 0 and s % segment == 0 for p, s in found]
    return size, segment, is_part


class Tables(NamedTuple):
    """Arrays and numbers that `elementwise_f32` reads.

    Args:
        program, numbers, operands: its arrays; constants begin at place 0.
        segment, size, length: its numbers.
        registers: how many.
    """

    program: np.ndarray
    numbers: np.ndarray
    operands: np.ndarray
    segment: int
    size: int
    length: int
    registers: int

    @property
    def blocks(self):
        """Return how many blocks the kernel needs."""
        return len(self.operands) + self.registers


def _require_values(formula):
    """Raise ValueError unless each instruction reads values that exist before it.

    The kernel would read memory that nothing wrote.
    """
    inputs, constants = len(formula.inputs), len(formula.constants)
    for i, one in enumerate(formula.instructions):
        for x in one.reads:
            if not (-constants <= x < inputs or INPUTS <= x < INPUTS + i):
                raise ValueError(f"instruction {i} reads value {x}, which is not there")


def tables_of(formula):
    """Return the `Tables` of a formula.

    Raises:
        ValueError: an instruction reads a value that does not exist.
    """
    _require_values(formula)
    walks = formula.walks
    size, segment, is_periodic = _blocks(walks, formula.elements, formula.length)
    operands = np.zeros((len(walks), FIELDS), np.int64)
    operands[:, opcodes.SOURCE] = CONSTANTS
    operands[:INPUTS, opcodes.SOURCE] = NOTHING
    count = len(formula.inputs)
    operands[:count, opcodes.SOURCE] = range(count)
    operands[:, opcodes.IS_PERIODIC] = is_periodic
    first, last = opcodes.SIZES, opcodes.JUMPS
    for row, one in zip(operands, walks, strict=True):
        missing = AXES - len(one.sizes)
        row[first : first + AXES] = (1,) * missing + one.sizes
        # An operand of one element stays at it.
        row[last : last + AXES] = (0,) * missing + one.jumps
    program = assign_registers(formula.instructions)
    program[:, 1:] = _value_rows(program[:, 1:], len(walks))
    numbers = [(one.low, one.high) for one in formula.instructions]
    return Tables(
        *(program, np.array(numbers, np.float32), operands),
        *(segment, size, formula.length, formula.registers),
    )


def _value_rows(values, operands):
    """Return values as the kernel counts them: operands, then registers."""
    found = np.where(values < 0, INPUTS - 1 - values, values)
    return np.where(values >= INPUTS, operands + values - INPUTS, found)


def plan_of(formula, shape):
    """Return the `Plan` of a formula whose result has this shape."""
    constants, tables = Constants(), tables_of(formula)
    constants.add(tables.program)
    fields = {"numbers": constants.add(tables.numbers)[0]}
    for row, (array, _) in zip(
        tables.operands[INPUTS:], formula.constants, strict=True
    ):
        place, _ = constants.add(np.asarray(array, np.float32))
        row[opcodes.PLACE] = place // ITEM
    fields["operands"] = constants.add(tables.operands)[0]
    fields["operand_count"] = len(tables.operands)
    fields |= {"segment": tables.segment, "strip": tables.size}
    fields |= {"instructions": len(tables.program), "registers": tables.registers}
    # Outside of a program nothing else sets the bytes of the result.
    fields["out_bytes"] = formula.elements * ITEM
    scratch = tables.blocks * tables.size * ITEM + kinds.SLACK
    return Plan(fields, constants.array(), shape, scratch, formula)


def prepared(formula, shape):
    """Return (plan, row) of a formula whose result has this shape."""
    plan = plan_of(formula, shape)
    return plan, row_of(Elementwise, plan)


class Elementwise(Step):
    """Instructions on each element of one or two inputs; the last gives the result.

    Args:
        constants: float32 arrays, which instructions read as -1, -2, and so on. They
            and the inputs are broadcast.
    """

    kind = kinds.ELEMENTWISE_F32
    kernels = ("elementwise_f32",)
    output_type = F32

    def __init__(self, *instructions, constants=()):
        self.instructions = instructions
        self.arrays = tuple(np.ascontiguousarray(one, np.float32) for one in constants)
        is_binary = any(1 in one.reads for one in instructions)
        self.input_types = (F32, F32) if is_binary else (F32,)

    def output_shape(self, *shapes):
        """Return the shape of the result."""
        return np.broadcast_shapes(*shapes, *(one.shape for one in self.arrays))

    def plan(self, *shapes):
        """Return the `Plan` for these input shapes.

        Raises:
            ValueError: an operand is repeated along too many separate axes.
        """
        shape = self.output_shape(*shapes)
        constants = tuple((one, walk(one.shape, shape)) for one in self.arrays)
        inputs = tuple(walk(one, shape) for one in shapes)
        return plan_of(
            Formula(self.instructions, inputs, constants, prod(shape)), shape
        )


class Where(Elementwise):
    """A choice: out = x where the condition is not 0, else y.

    The inputs are the condition, x and y. A row of a program has the places of two
    values, so it is three steps.
    """

    def __init__(self):
        super().__init__(Instruction(opcodes.EITHER, 0, 1))
        self.input_types = (F32, F32, F32)

    @property
    def parts(self):
        """Return the last step, which joins what was kept of x and of y."""
        return (Elementwise(*self.instructions),)

    def lead_in(self, program, condition, x, y):
        """Append the other steps; return what is kept of x and of y."""
        shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
        kept = Elementwise(Instruction(opcodes.KEEP_IF, 0, 1))
        left = Elementwise(Instruction(opcodes.KEEP_UNLESS, 0, 1))
        found = program.append(kept, x, condition), program.append(left, y, condition)
        assert np.broadcast_shapes(*(one.shape for one in found)) == shape
        return found
