"""Programs: steps whose buffers are planned once, run in one compiled call.

All values live in one arena. The bytes of a value are used again after its last reader.
The compiled loop reads an array of records (one per step), the arena and one array of
constants. The records hold offsets instead of addresses, so the loop runs uncompiled as
well.
"""

import time
from math import prod
from typing import NamedTuple

import numpy as np

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.cpu.isa import IS_JIT_DISABLED
from mdtensor.kernels.cpu.program import STEP
from mdtensor.kernels.cpu.program.fuse import fuse
from mdtensor.kernels.cpu.program.invoke import address, invokers, run_rows
from mdtensor.kernels.cpu.program.kinds import ALIGN, SLACK
from mdtensor.kernels.cpu.program.step import Constants, aligned_bytes
from mdtensor.kernels.cpu.threads.pool import POOL, placed, run_alone, run_placed
from mdtensor.kernels.cpu.threads.split import job, piece_count

copy_f32 = Entry("generic.copies", "copy_f32")
F32 = np.dtype(np.float32)

#: For a profile: seconds to time a step, the most runs of it in that time, and how
#: often the empty call is timed, whose time is subtracted.
TIMED, MOST_RUNS, IDLE_RUNS = 20e-6, 100, 20


class Slot(NamedTuple):
    """A value of a Program; reshapes of a value share the number `storage`."""

    storage: int
    shape: tuple
    dtype: np.dtype

    @property
    def bytes(self):
        """Return the bytes of the value."""
        return prod(self.shape) * self.dtype.itemsize


class Contents(NamedTuple):
    """The parts of an Executable that a stored plan needs.

    Args:
        rows: records without addresses.
        constants: of all steps.
        arena: its bytes.
        inputs, outputs: (place, bytes) of each value in the arena.
        refuses_nan: whether each input must not have a NaN.
        checked: (number in `without_nan`, slot, place in the arena) of each other value
            that must not have one.
        isa: the ISA whose kernels run the rows.
    """

    rows: np.ndarray
    constants: np.ndarray
    arena: int
    inputs: list
    outputs: list
    refuses_nan: list
    checked: list
    isa: str


class HasNaN(ValueError):
    """A NaN in a value that a program rounds to codes.

    Its argument is the place of the value in `without_nan` of `Program.build`.
    """


# Steps are rows of one matrix without addresses, so one compiled loop runs every
# network, also uncompiled (decision 0004).
class Program:
    """Steps of one ISA; `build` turns them into an `Executable`.

    Example:
        >>> import numpy as np
        >>> from mdtensor.kernels.cpu.program.steps import Lookup
        >>> program = Program()
        >>> x = program.input((4,), np.uint8)
        >>> y = program.append(Lookup(np.arange(256, dtype=np.uint8)[::-1].copy()), x)
        >>> program.build([y])(np.array([0, 1, 2, 255], np.uint8))[0]
        array([255, 254, 253,   0], dtype=uint8)
    """

    def __init__(self):
        self.inputs = []
        # Each step is (plan, row, input slots, output slot).
        self.steps = []
        # Bytes of each storage.
        self.sizes = []
        self.on = kernel_set.CHOSEN.get()

    def _new(self, shape, dtype):
        """Add a storage and return its slot."""
        slot = Slot(len(self.sizes), tuple(shape), np.dtype(dtype))
        self.sizes.append(slot.bytes)
        return slot

    def input(self, shape, dtype):
        """Add the next input of the program, C-contiguous, and return its slot."""
        self.inputs.append(self._new(shape, dtype))
        return self.inputs[-1]

    def append(self, step, *slots):
        """Add `step` on the values `slots`; return the slot of its result.

        A step with several `parts` becomes several steps, one after the other.
        """
        slots = step.lead_in(self, *slots)
        step = step.parts[-1]
        assert len(slots) == len(step.input_types), "wrong number of inputs"
        assert step.on is self.on, f"a step of {step.on.name} among {self.on.name}"
        for slot, dtype in zip(slots, step.input_types, strict=True):
            assert slot.dtype == dtype, f"{step.kernel} takes {dtype}"
        plan, row = step.prepare(*(slot.shape for slot in slots))
        result = self._new(plan.shape, step.output_type)
        self.steps.append((plan, row, slots, result))
        return result

    def reshape(self, slot, shape):
        """Return a slot for the same bytes in another shape, free at run time."""
        assert prod(shape) == prod(slot.shape), "the number of elements changes"
        return slot._replace(shape=tuple(shape))

    def copy_steps(self, other, slots):
        """Append the steps of another program, which read `slots` as its inputs.

        Args: slots: the slot of each input, by the number of its storage there.

        Returns: the number of each storage here, by its number there.
        """
        places = {number: slot.storage for number, slot in slots.items()}
        for plan, row, given, result in other.steps:
            own = tuple(one._replace(storage=places[one.storage]) for one in given)
            made = self._new(result.shape, result.dtype)
            places[result.storage] = made.storage
            self.steps.append((plan, row, own, made))
        return places

    def build(self, outputs, without_nan=()):
        """Return the program as an Executable that returns the values `outputs`.

        Args:
            without_nan: float32 values; calls raise HasNaN if one contains a NaN,
                before the first step for an input, after the last one for others.
        """
        return Executable(self, list(outputs), list(without_nan))


def _lifetimes(program, steps, outputs):
    """Return (first, last) step that needs each storage; inputs begin at -1."""
    first = {slot.storage: -1 for slot in program.inputs}
    last = dict(first)
    for index, (_, _, slots, result) in enumerate(steps):
        first[result.storage] = last[result.storage] = index
        for slot in slots:
            last[slot.storage] = index
    for slot in outputs:
        last[slot.storage] = len(steps)
    return first, last


def _place(program, steps, outputs, reuse):
    """Return (offset of each storage, arena bytes).

    Each storage gets the first gap that is free for its lifetime.
    """
    first, last = _lifetimes(program, steps, outputs)
    scratch = max((plan.scratch for plan, _, _, _ in steps), default=0)
    start = _round_up(scratch + SLACK)
    offsets, total = {}, start
    # Large values come first, so that small ones fill the gaps between them.
    by_size = sorted(first, key=lambda s: -program.sizes[s])
    for storage in by_size:
        busy = sorted(
            (offsets[other], _round_up(program.sizes[other] + SLACK))
            for other in offsets
            if not reuse
            or (first[other] <= last[storage] and first[storage] <= last[other])
        )
        size, at = _round_up(program.sizes[storage] + SLACK), start
        for offset, length in busy:
            if at + size <= offset:
                break
            at = max(at, offset + length)
        offsets[storage] = at
        total = max(total, at + size)
    return offsets, total


def _round_up(size):
    """Round a size up to a multiple of the alignment."""
    return -(-size // ALIGN) * ALIGN


class Layout:
    """The records of a program's steps, and the offsets of its values in the arena."""

    def __init__(self, program, steps, outputs, constants_at, reuse=False):
        self.offsets, self.size = _place(program, steps, outputs, reuse)
        scratch = max((plan.scratch for plan, _, _, _ in steps), default=0)
        self.rows = np.zeros(len(steps), STEP)
        for index, (plan, own, slots, result) in enumerate(steps):
            self.rows[index] = own[0]
            row, x, y = self.rows[index], slots[0], slots[-1]
            row.x, row.x_bytes = self.offsets[x.storage], x.bytes
            row.y, row.y_bytes = self.offsets[y.storage], y.bytes
            row.out, row.out_bytes = self.offsets[result.storage], result.bytes
            row.scratch_bytes = scratch + SLACK
            row.constants = constants_at[id(plan.constants)]
            row.constants_bytes = plan.constants.size
            row.function = 0 if program.on is not kernel_set.HOST else address(row.kind)
        # Empty until the first call of `job`.
        self._jobs, self._on = [], program.on

    def job(self):
        """Return the rows as a job of the thread pool, or None if it is not faster."""
        if not self._jobs:
            self._jobs.append(kernel_set.make_on(self._on, job, self.rows))
        return self._jobs[0]

    def view(self, arena, slot):
        """Return the value `slot` in the arena, without a copy."""
        at = self.offsets[slot.storage]
        return arena[at : at + slot.bytes].view(slot.dtype).reshape(slot.shape)


def _input_of(view, place):
    """Return an input in the arena, its shape and type.

    Behind them come its bits and `place`, if it must not have a NaN; else None.
    """
    bits = None if place is None else _bits(view)
    return view, view.shape, view.dtype, bits, place


class Arena:
    """The memory of one call at a time, with its inputs and outputs as views.

    Args:
        layout: says where values are.
        inputs, outputs: their slots.
        refusals: for each input, the argument of HasNaN, or None.
        checked: slots that are checked for NaN after a call.

    Attributes:
        places: for `run_placed`; None where addresses do not count.
    """

    __slots__ = ("bytes", "checked", "inputs", "outputs", "places")

    def __init__(self, layout, inputs, outputs, refusals, checked=()):
        self.bytes = aligned_bytes(layout.size)
        views = [layout.view(self.bytes, slot) for slot in inputs]
        self.inputs = list(map(_input_of, views, refusals))
        self.outputs = [layout.view(self.bytes, slot) for slot in outputs]
        self.checked = [_bits(layout.view(self.bytes, slot)) for slot in checked]
        self.places = None


class Executable:
    """A built Program. Calls from several threads each use an arena of their own.

    Attributes:
        done_by: for each step of the program, the number of the step that does its
            work: its own, unless the step was joined with another, see `fuse.py`.
    """

    def __init__(self, program, outputs, without_nan=()):
        self._program, self.outputs = program, outputs
        self._watch(without_nan)
        self._kept = [*outputs, *self._checked]
        left, self.done_by = fuse(program.steps, self._kept)
        self._numbers, self._steps = list(left), list(left.values())
        constants, places = Constants(), {}
        for plan, _, _, _ in (*program.steps, *self._steps):
            if id(plan.constants) not in places:
                places[id(plan.constants)] = constants.add(plan.constants)[0]
        self._places = places
        self._constants = constants.array()
        self._layout = Layout(program, self._steps, self._kept, places, reuse=True)
        self._free = []

    # A NaN of an input is found before any step. Steps compute other values, which are
    # kept until they are checked behind the last one (decision 0069).
    def _watch(self, without_nan):
        """Sort the values that must not have a NaN into inputs and others."""
        places = {slot.storage: i for i, slot in enumerate(without_nan)}
        given = [slot.storage for slot in self._program.inputs]
        #: For each input its place in `without_nan`, or None.
        self._places_nan = [places.get(storage) for storage in given]
        others = {
            i: slot for i, slot in enumerate(without_nan) if slot.storage not in given
        }
        self._checked, self._checked_places = list(others.values()), list(others)

    @property
    def program(self):
        """Return the program that it runs."""
        return self._program

    @property
    def arena_bytes(self):
        """Return the bytes of one arena."""
        return self._layout.size

    @property
    def contents(self):
        """Return the `Contents`, with rows of their own."""
        layout, rows = self._layout, self._layout.rows.copy()
        rows["function"] = 0
        inputs, outputs = (
            [(int(layout.offsets[slot.storage]), slot.bytes) for slot in slots]
            for slots in (self._program.inputs, self.outputs)
        )
        refuses = [place is not None for place in self._places_nan]
        checked = [
            (number, slot, int(layout.offsets[slot.storage]))
            for number, slot in zip(self._checked_places, self._checked, strict=True)
        ]
        return Contents(
            *(rows, self._constants, layout.size, inputs, outputs),
            *(refuses, checked, self._program.on.name),
        )

    @property
    def pieces(self):
        """Return into how many pieces each step is cut for threads."""
        counts = [
            piece_count(row) if self._uses_host_kernels else 1
            for row in self._layout.rows
        ]
        found = dict(zip(self._numbers, counts, strict=True))
        return [found[number] for number in self.done_by]

    def _arena(self, layout, outputs, checked=()):
        inputs, refusals = self._program.inputs, self._places_nan
        return Arena(layout, inputs, outputs, refusals, checked)

    def _load(self, arena, arrays):
        """Copy the inputs into the arena."""
        assert len(arrays) == len(arena.inputs), "wrong number of inputs"
        for (target, shape, dtype, bits, place), array in zip(
            arena.inputs, arrays, strict=True
        ):
            assert array.shape == shape, f"input shape is {shape}"
            assert array.dtype == dtype, f"input type is {dtype}"
            if bits is None:
                target[...] = array
            elif not copy_f32.call(_bits(array), bits):
                raise HasNaN(place)

    def _check(self, arena):
        """Raise HasNaN if a step computed a NaN that another one rounded."""
        for bits, place in zip(arena.checked, self._checked_places, strict=True):
            if not copy_f32(bits, bits):
                raise HasNaN(place)

    @property
    def _uses_host_kernels(self):
        """Return whether the program uses the kernels of the host ISA.

        Only then can the compiled loop and the thread pool run it.
        """
        return self._program.on is kernel_set.HOST

    def _run(self, layout, arena, threads):
        """Run the rows on up to `threads` threads."""
        job = layout.job() if threads > 1 and self._uses_host_kernels else None
        if job is not None:
            POOL.run(threads, job, arena, self._constants)
        else:
            self._run_alone(layout.rows, arena)

    def _run_alone(self, rows, arena):
        """Run the rows on this thread."""
        if self._uses_host_kernels:
            run_alone(rows, arena, self._constants)
        else:
            own = invokers(self._program.on.name)
            run_rows(own, rows, arena, self._constants)

    def __call__(self, *arrays, threads=1):
        """Return the outputs as fresh arrays, in the order given to `build`.

        The bytes are the same for any number of threads.
        """
        layout = self._layout
        # Taking an arena is one operation of a list, so threads need no lock.
        try:
            arena = self._free.pop()
        except IndexError:
            arena = self._arena(layout, self.outputs, self._checked)
            if self._uses_host_kernels and not IS_JIT_DISABLED:
                arena.places = placed(layout.rows, arena.bytes, self._constants)
        self._load(arena, arrays)
        if threads == 1 and arena.places is not None:
            run_placed.call(arena.places)
        else:
            self._run(layout, arena.bytes, threads)
        if arena.checked:
            self._check(arena)
        results = [value.copy() for value in arena.outputs]
        self._free.append(arena)
        return results

    def bound(self, *arrays, threads=1):
        """Return a call on these inputs as they are now.

        The call neither copies nor allocates. The next call overwrites what a call
        returned.
        """
        layout = Layout(self._program, self._steps, self._kept, self._places)
        arena = self._arena(layout, self.outputs, self._checked)
        self._load(arena, arrays)

        def call():
            self._run(layout, arena.bytes, threads)
            self._check(arena)
            return arena.outputs

        return call

    def values(self, *arrays, threads=1):
        """Return the result of every step, in order, for comparisons.

        No bytes of the arena are used twice.
        """
        steps = self._program.steps
        slots = [result for _, _, _, result in steps]
        layout = Layout(self._program, steps, slots, self._places)
        arena = self._arena(layout, slots)
        self._load(arena, arrays)
        self._run(layout, arena.bytes, threads)
        return [value.copy() for value in arena.outputs]

    def profile(self, *arrays, repeat=20):
        """Return the shortest time of each step in `repeat` runs, in seconds, in order.

        One call runs a step so often that the clock and the call hardly count. A step
        whose work another step does takes 0 seconds.
        """
        layout = self._layout
        arena = self._arena(layout, [])

        def seconds(rows):
            start = time.perf_counter()
            self._run_alone(rows, arena.bytes)
            return time.perf_counter() - start

        self._load(arena, arrays)
        nothing = layout.rows[:0]
        idle = min(seconds(nothing) for _ in range(IDLE_RUNS))
        steps = [layout.rows[i : i + 1] for i in range(len(layout.rows))]
        warm = [seconds(row) - idle for row in steps]
        counts = [1 + int(min(TIMED / max(t, 1e-9), MOST_RUNS)) for t in warm]
        rows = [row.repeat(n, axis=0) for row, n in zip(steps, counts, strict=True)]
        best = np.full(len(rows), np.inf)
        for _ in range(repeat):
            self._load(arena, arrays)
            best = np.minimum(best, [seconds(part) for part in rows])
        found = np.zeros(len(self._program.steps))
        found[self._numbers] = np.maximum(best - idle, 0.0) / counts
        return found


def _bits(array):
    """Return float32 numbers as uint32 bits, 1-D."""
    return array.reshape(-1).view(np.uint32)
