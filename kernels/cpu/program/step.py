"""A step: one operation with its constants, callable alone or as a row of a Program.

A step describes itself for given input shapes as a `Plan`: fields of its record,
constants, output shape and scratch size. The same compiled function runs the plan alone
and in a Program, so both give the same bytes.
"""

from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from mdtensor.kernels import observe
from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.program import STEP
from mdtensor.kernels.cpu.program.invoke import invokers
from mdtensor.kernels.cpu.program.kinds import ALIGN, SLACK
from mdtensor.kernels.cpu.threads.pieces import pieces_of, run_pieces
from mdtensor.kernels.numpy import empty
from mdtensor.kernels.numpy.threads import of_steps

#: Bytes of a result from which it takes the memory of an earlier one.
LARGE = 1 << 20
#: Number of input shapes whose plans a step keeps; then it starts afresh.
MOST_SHAPES = 64


class Plan(NamedTuple):
    """One step for fixed input shapes: the fields of its record and its arrays."""

    fields: dict
    constants: np.ndarray
    shape: tuple
    scratch: int
    #: What an elementwise step computes, for `fuse`.
    formula: object = None


class Constants:
    """Arrays in one uint8 array, one after the other, each aligned to 64 bytes."""

    def __init__(self):
        self._parts = []
        self.size = 0

    def add(self, array):
        """Append `array`, which `array()` copies; return (offset, bytes)."""
        part = as_bytes(array)
        offset = self.size
        self._parts.append((offset, part))
        self.size += -(-part.size // ALIGN) * ALIGN
        return offset, part.size

    def array(self):
        """Return all parts in one aligned uint8 array, followed by SLACK bytes."""
        blob = aligned_bytes(self.size + SLACK)
        last = 0
        for offset, part in self._parts:
            blob[last:offset] = 0
            last = offset + part.size
            blob[offset:last] = part
        blob[last:] = 0
        return blob


def allocator(size):
    """Return the function that allocates results of `size` bytes."""
    # Fresh pages of a large result would take longer than many a step.
    return partial(empty, least=LARGE) if size >= LARGE else np.empty


def aligned_bytes(size, allocate=np.empty):
    """Allocate uninitialized uint8 [size] at a 64-byte boundary."""
    room = allocate((size + ALIGN,), np.uint8)
    start = -room.ctypes.data % ALIGN
    return room[start : start + size]


def as_bytes(array):
    """Return the bytes of a C-contiguous array as uint8 1-D, without a copy."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


class Step:
    """One operation on activation codes, NHWC.

    A subclass sets `kind`, `kernels` (names of the compiled functions that it calls)
    and `output_type`, and defines `output_shape` and `plan`. A step uses the
    ISA of the context in which it is made.
    """

    kind = -1
    kernels: tuple = ()
    input_types: tuple = (np.dtype(np.uint8),)
    output_type: np.dtype = np.dtype(np.uint8)

    def __new__(cls, *_, **__):
        step = super().__new__(cls)
        step.on = kernel_set.CHOSEN.get()
        return step

    def output_shape(self, *shapes):
        """Return the shape of the result for these input shapes."""
        raise NotImplementedError

    def plan(self, *shapes):
        """Return the `Plan` for these input shapes."""
        raise NotImplementedError

    def macs(self, *shapes):
        """Return the multiply-accumulates of one call."""
        return 0

    @property
    def kernel(self):
        """Return the name of the kernel that does the work."""
        return getattr(self.on, self.kernels[0]).__name__

    @property
    def runway(self):
        """Return the ISA of the first kernel that the step calls."""
        return kernel_set.isa_of(getattr(self.on, self.kernels[0]))

    @property
    def parts(self):
        """Return the steps that a Program stores in place of this step, in order."""
        return (self,)

    def lead_in(self, program, *slots):
        """Append all parts but the last one; return the values that the last takes."""
        for part in self.parts[:-1]:
            slots = (program.append(part, *slots),)
        return slots

    @property
    def bytes(self):
        """Return the number of bytes that the weights and lookup tables take.

        The number does not depend on the shape of the input.
        """
        return 0

    def prepare(self, *shapes):
        """Return (plan, row) for these shapes, from a small cache.

        The row is an array of one record.
        """
        plans = self.__dict__.setdefault("_plans", {})
        found = plans.get(shapes)
        if found is None:
            plan = self.plan(*shapes)
            found = plan, row_of(self, plan)
            # Dynamic shapes could fill the memory.
            if len(plans) >= MOST_SHAPES:
                plans.clear()
            plans[shapes] = found
        return found

    def __call__(self, *arrays):
        """Return the result as a fresh array.

        The inputs are C-contiguous, of `input_types`.
        """
        assert len(arrays) == len(self.input_types), "wrong number of inputs"
        for array, dtype in zip(arrays, self.input_types, strict=True):
            assert array.dtype == dtype, f"{self.kernel} takes {dtype} codes"
        run = self.bound(*[array.shape for array in arrays])
        return run(*[as_bytes(array) for array in arrays])

    def bound(self, *shapes):
        """Return the `BoundStep` for these input shapes."""
        return BoundStep(self, *self.prepare(*shapes))


class BoundStep:
    """A step for fixed input shapes; a call passes only the inputs."""

    __slots__ = (
        *("allocate", "constants", "invoke", "names", "output_type", "row", "scratch"),
        *("on", "shape", "_pieces", "__weakref__"),
    )

    def __init__(self, step, plan, row):
        self.row, self.constants, self.shape = row, plan.constants, plan.shape
        self.scratch, self.on = plan.scratch + SLACK, step.on
        self.output_type = step.output_type
        size = prod(plan.shape) * np.dtype(step.output_type).itemsize
        self.allocate = allocator(size)
        self.invoke = invokers(step.on.name)[step.kind].call
        self.names = step.kernel, step.runway
        # By the number of threads.
        self._pieces = {}

    def __call__(self, x, y=None):
        """Return the result as a fresh array; x and y are the inputs' bytes, 1-D."""
        out = self.allocate(self.shape, self.output_type)
        if out.size == 0:
            return out
        flat = out.reshape(-1).view(np.uint8)
        # The kernels of one input read it under both names.
        self.share(flat, x, x if y is None else y, self.constants)
        return out

    def fill(self, out, x, y, constants):
        """Write the result for other constants to `out`; all are bytes, 1-D."""
        scratch = np.empty(self.scratch, np.uint8)
        self.invoke(self.row, 0, x, y, out, scratch, constants)
        if observe.ACTIVE:
            observe.ran(*self.names)

    def share(self, out, x, y, constants):
        """Write the result as `fill` does, on as many threads as steps of plans use."""
        threads = of_steps()
        if threads == 1:
            return self.fill(out, x, y, constants)
        sizes = x.size, y.size, out.size, constants.size
        key = threads, *sizes
        if key not in self._pieces:
            arguments = self.row, sizes, threads
            self._pieces = {key: kernel_set.make_on(self.on, pieces_of, *arguments)}
        pieces = self._pieces[key]
        if pieces is None:
            return self.fill(out, x, y, constants)
        arrays = x, y, out, constants
        run_pieces(self.invoke, pieces, threads, self.scratch, arrays)
        if observe.ACTIVE:
            observe.ran(*self.names)
        return None


def row_of(step, plan):
    """Return the record of a step in an array; a Program fills in the places."""
    row = np.zeros(1, STEP)
    row["kind"] = step.kind
    for name, value in plan.fields.items():
        row[name] = value
    return row
