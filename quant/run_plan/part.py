"""A part of a plan: steps that run in one compiled call, with their values."""

from collections.abc import Callable
from functools import cached_property
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mdtensor_run.check import check_groups, check_rows
from mdtensor_run.errors import HasNaN, PlanError, damaged
from mdtensor_run.fields import ITEMS, Fields
from mdtensor_run.layout import ALIGN, Stored
from mdtensor_run.packing import PACKINGS
from mdtensor_run.row import SLACK, Refused, Row
from mdtensor_run.threads import Job, Pool

ALONE = -1
#: Turns the code of an int8 into that of a uint8, and back.
FLIP = np.uint8(128)
Array = npt.NDArray[Any]


class Library(Protocol):
    """The compiled functions of one ISA."""

    def function(self, key: str) -> Any:
        """Return a function as a Python callable."""

    def address(self, key: str) -> int:
        """Return the address of a function for the loop over steps."""


FLAGS = ("is_image", "is_signed", "is_number", "refuses_nan", "is_plain")
#: Types of which no codes are, and those that only steps on any type read.
NUMBERS, WIDE = ("bool", "uint16", "int16"), ("int32", "int64", "float64")


class Slot(NamedTuple):
    """A value that enters or leaves a part.

    Args:
        name, type, shape: of the value; the type is a NumPy type.
        at: its place in the arena.
        is_image: stored channels last.
        is_signed: codes of int8, stored as uint8 with the top bit flipped.
        is_number: bools or integers that are no codes, stored as float32.
        refuses_nan: rounded to codes; a value inside of a part is checked behind it.
        is_plain: stored in rows and in its own type.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    at: int
    is_image: bool
    is_signed: bool
    is_number: bool
    refuses_nan: bool
    is_plain: bool

    @classmethod
    def read(cls, fields: Fields) -> "Slot":
        """Return the slot that the header describes."""
        slot = cls(
            fields.text("name"),
            fields.text("type"),
            fields.sizes("shape"),
            fields.size("at"),
            *(fields.flag(name) for name in FLAGS),
        )
        if slot.type not in ITEMS or slot.at % ALIGN:
            fields.refuse("has a wrong type or place")
        slot._check(fields)
        return slot

    def _check(self, fields: Fields) -> None:
        """Raise PlanError unless the flags fit each other and the type."""
        ways = [self.is_image, self.is_signed, self.is_number, self.refuses_nan]
        if self.is_plain:
            if any(ways):
                fields.refuse("is stored in two ways")
            return
        if self.is_image and len(self.shape) != 4:
            fields.refuse("is an image without four axes")
        if self.type in WIDE:
            fields.refuse("has numbers that no kernel of codes reads")
        if self.is_signed != (self.type == "int8" and not self.is_number):
            fields.refuse("has codes of another sign")
        if self.type == "float32" if self.is_number else self.type in NUMBERS:
            fields.refuse("has numbers that are stored in another way")
        if self.refuses_nan and self.type != "float32":
            fields.refuse("has codes that may be NaN")

    @property
    def bytes(self) -> int:
        """Return the bytes of the value."""
        return prod(self.shape) * self._stored.itemsize

    @property
    def _stored(self) -> np.dtype[Any]:
        if self.is_plain:
            return np.dtype(self.type)
        is_float = self.type == "float32" or self.is_number
        return np.dtype(np.float32 if is_float else np.uint8)

    def view(self, arena: Array) -> Array:
        """Return the value in the arena, in the order in which it is stored."""
        found = arena[self.at : self.at + self.bytes].view(self._stored)
        if not self.is_image:
            return found.reshape(self.shape)
        n, c, h, w = self.shape
        return found.reshape(n, h, w, c)

    def write(self, value: Array, view: Array, copy_f32: Any) -> None:
        """Copy a value into the arena.

        Raises:
            HasNaN: it has a NaN that would become a code.
        """
        if self.is_signed:
            value = value.view(np.uint8) ^ FLIP
        if self.is_image:
            value = value.transpose(0, 2, 3, 1)
        if not self.refuses_nan:
            view[...] = value
            return
        rows = np.ascontiguousarray(value).reshape(-1).view(np.uint32)
        if not copy_f32(rows, view.reshape(-1).view(np.uint32)):
            raise _has_nan(self.name)

    def take(self, view: Array) -> Array:
        """Return a copy of the value in the arena."""
        value = (view ^ FLIP).view(np.int8) if self.is_signed else view
        if self.is_number:
            value = view.astype(self.type)
        if self.is_image:
            value = value.transpose(0, 3, 1, 2)
        found: Array = np.array(value, order="C")
        return found


def _has_nan(name: str) -> HasNaN:
    return HasNaN(f"{name!r} has NaN, which has no code", "Replace NaNs")


class Arena:
    """The memory of one call at a time, with its inputs and outputs as views."""

    __slots__ = ("bytes", "checked", "inputs", "outputs", "outside")

    def __init__(
        self,
        size: int,
        inputs: list[Slot],
        outputs: list[Slot],
        checked: list[Slot],
        outside: list[Slot],
    ) -> None:
        room = np.zeros(size + ALIGN, np.uint8)
        start = -room.ctypes.data % ALIGN
        self.bytes = room[start : start + size]
        self.inputs = [slot.view(self.bytes) for slot in inputs]
        self.outputs = [slot.view(self.bytes) for slot in outputs]
        self.outside = [slot.view(self.bytes) for slot in outside]
        views = (slot.view(self.bytes) for slot in checked)
        self.checked = [view.reshape(-1).view(np.uint32) for view in views]


class Part:
    """Checked rows with the addresses of this process, ready to run.

    Raises:
        PlanError: a row, a value or a section does not fit.
    """

    def __init__(
        self,
        stored: Stored,
        fields: Fields,
        isa: str,
        step: np.dtype[Any],
        kinds: list[str],
        library: Library,
        pool: Callable[[], Pool],
    ) -> None:
        self.inputs = fields.each("inputs", Slot.read)
        self.outputs = fields.each("outputs", Slot.read)
        self.checked = fields.each("checked", Slot.read)
        self.outside = fields.each("outside", Slot.read)
        if not all(slot.refuses_nan for slot in self.checked):
            fields.refuse("checks codes for NaN")
        self._size, count = fields.size("arena"), fields.size("rows")
        for slot in (*self.inputs, *self.outputs, *self.checked, *self.outside):
            if slot.at + slot.bytes + SLACK > self._size:
                fields.refuse(f"has the value {slot.name!r} outside of its arena")
        kernels = fields.texts("kernels")
        if unknown := [name for name in kernels if name not in kinds]:
            problem = f"{stored.path} needs the kernel {unknown[0]}"
            raise PlanError(problem, "Compile the model again with this version")
        self._stored, self._kernels, self._packing = stored, kernels, PACKINGS[isa]
        self._job, self._pool = fields.optional("job"), pool
        self._constants = stored.section(
            fields.size("constants_at"), fields.size("constants")
        )
        self.rows = self._read_rows(fields.size("rows_at"), count, step)
        self._check(self.rows)
        self._places = [
            (field, np.array([find(name) for name in kernels], np.int64))
            for field, find in (("function", library.address), ("kind", kinds.index))
        ]
        self._link(self.rows)
        self._free: list[Arena] = []
        self._run = library.function("program.run.run")
        self._copy = library.function("generic.copies.copy_f32")
        self._nothing = np.zeros(0, np.int64)
        self._pieces = np.zeros((0, 2), np.int64)

    def _read_rows(self, at: int, count: int, step: np.dtype[Any]) -> Array:
        section = self._stored.section(at, count * step.itemsize)
        # A copy: nobody changes it after it was checked.
        found: Array = section.view(step).copy()
        return found

    def _check(self, rows: Array, are_pieces: bool = False) -> list[Row]:
        """Return the rows as Python numbers.

        Raises:
            PlanError: a kernel could read or write other bytes than its own.
        """
        given = rows, self._kernels, self._size, self._constants, self._packing
        try:
            return check_rows(*given, are_pieces)
        except Refused as problem:
            raise damaged(self._stored.path, str(problem)) from None

    def _link(self, rows: Array) -> None:
        """Write the numbers and addresses of this process into rows."""
        used = rows["kind"].clip(0, max(len(self._kernels) - 1, 0))
        for field, found in self._places:
            rows[field] = found[used] if found.size else 0

    # Read with the first call that wants threads, since most processes have none.
    @cached_property
    def job(self) -> Job | None:
        """Return the rows for several threads; None if the file has none.

        Raises:
            PlanError: a row or a piece does not fit.
        """
        fields, section = self._job, self._stored.section
        if fields is None:
            return None
        count, groups = fields.size("pieces"), fields.size("groups")
        rows = self._read_rows(
            fields.size("rows_at"), fields.size("rows"), self.rows.dtype
        )
        pieces = section(fields.size("pieces_at"), 16 * count).view(np.int64)
        first = section(fields.size("first_at"), 8 * (groups + 1)).view(np.int64)
        found = Job(rows, pieces.reshape(-1, 2).copy(), first.copy())
        checked, most = self._check(rows, True), self._pool().most_groups
        try:
            check_groups(checked, *found[1:], most)
        except Refused as problem:
            raise damaged(self._stored.path, str(problem)) from None
        self._link(rows)
        return found

    def _arena(self) -> Arena:
        slots = self.inputs, self.outputs, self.checked, self.outside
        try:
            return Arena(self._size, *slots)
        except (MemoryError, ValueError):
            problem = f"the plan needs an arena of {self._size:,} bytes"
            raise PlanError(problem, "Run it where there is more memory") from None

    def __call__(self, values: dict[str, Array], threads: int = 1) -> None:
        """Run the part on values by name, and add its results.

        The bytes are the same for any number of threads.

        Raises:
            PlanError: a NaN would become a code, an index is outside of its axis, or
                a kernel failed.
        """
        # Taking an arena is one operation of a list, so threads need no lock.
        try:
            arena = self._free.pop()
        except IndexError:
            arena = self._arena()
        for slot, view in zip(self.inputs, arena.inputs, strict=True):
            slot.write(values[slot.name], view, self._copy)
        try:
            self._compute(arena.bytes, threads)
        except (ArithmeticError, MemoryError, RuntimeError, ValueError) as error:
            problem = f"a kernel failed: {error or type(error).__name__}"
            raise PlanError(problem, "Compile the model again") from None
        for slot, bits in zip(self.checked, arena.checked, strict=True):
            if not self._copy(bits, bits):
                raise _has_nan(slot.name)
        if any(view.any() for view in arena.outside):
            problem = f"an index is outside of its axis, {self._named()}"
            raise PlanError(problem, "Check the numbers of the inputs")
        for slot, view in zip(self.outputs, arena.outputs, strict=True):
            values[slot.name] = slot.take(view)
        self._free.append(arena)

    def _named(self) -> str:
        """Return the values that the part reads and writes, for an error."""
        reads, writes = (
            ", ".join(repr(slot.name) for slot in slots)
            for slots in (self.inputs, self.outputs)
        )
        return f"between {reads} and {writes}"

    def _compute(self, arena: Array, threads: int) -> None:
        """Run all rows, on several threads if the workers are free."""
        words, constants = self._nothing, self._constants
        if threads > 1 and (job := self.job) is not None:
            given = job, self.rows[:0], arena, constants
            if self._pool().run(threads, *given):
                return
        self._run(ALONE, words, self.rows, self._pieces, words, arena, constants)
