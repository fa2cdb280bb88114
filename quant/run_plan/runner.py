"""A stored plan, ready to run on NumPy arrays."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mdtensor_run.errors import PlanError, damaged
from mdtensor_run.fields import ITEMS, Fields
from mdtensor_run.layout import PathLike, Stored, open_plan
from mdtensor_run.machine import libraries
from mdtensor_run.packing import PACKINGS
from mdtensor_run.part import Array, Library, Part
from mdtensor_run.threads import pool_of


class Machine(Protocol):
    """The kernels of this process."""

    @property
    def stamp(self) -> str:
        """Return a hash of the sources of the kernels."""

    @property
    def step(self) -> np.dtype[Any]:
        """Return the type of the record of a step."""

    @property
    def kinds(self) -> list[str]:
        """Return the function of each kind of step."""

    @property
    def queue(self) -> dict[str, int]:
        """Return the places of the words that threads share."""

    def isas(self) -> list[str]:
        """Return the ISAs that can run here."""

    def library(self, isa: str) -> Library:
        """Return the functions of one of them."""


class Value(NamedTuple):
    """An input or a result of a plan.

    Args:
        name, type, shape: the type is a NumPy type.
        grid: the scale, zero point and type of codes, as the header has them; None for
            floats.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    grid: dict[str, Any] | None

    @classmethod
    def read(cls, fields: Fields) -> "Value":
        """Return the value that the header describes."""
        if fields.text("type") not in ITEMS:
            fields.refuse("has an unknown type")
        name, type = fields.text("name"), fields.text("type")
        return cls(name, type, fields.sizes("shape"), fields.grid())

    def __str__(self) -> str:
        return f"{self.type} {list(self.shape)}"


class Runner:
    """A function of NumPy arrays.

    Attributes:
        inputs, outputs: a Value each.
        isa: the instruction set of its kernels.

    Example: see `run`.
    """

    def __init__(self, path: PathLike, find_machine: Callable[[], Machine]) -> None:
        # The file comes first: without a plan, libraries do not matter.
        stored, machine = open_plan(path), find_machine()
        header = Fields(path, stored.header, "")
        self.isa = _choose(stored, header, machine)
        self._has_batch = header.flag("has_batch")
        self.inputs: list[Value] = header.each("inputs", Value.read)
        self.outputs: list[Value] = header.each("outputs", Value.read)
        library = machine.library(self.isa)
        pool = partial(pool_of, find_machine, self.isa)

        def part(fields: Fields) -> Part:
            return Part(
                *(stored, fields, self.isa, machine.step, machine.kinds, library, pool)
            )

        def variant(fields: Fields) -> list[Part]:
            own = fields.text("isa") == self.isa
            return fields.each("parts", part) if own else []

        self.parts = [one for parts in header.each("plans", variant) for one in parts]
        self._constants = dict(header.each("constants", lambda x: _constant(stored, x)))
        _check_names(self, stored)

    def __call__(self, *arrays: npt.ArrayLike, threads: int = 1) -> Any:
        """Return the result for NumPy arrays, or a tuple if there are several.

        Large steps are divided between up to `threads` threads, with the same bytes. An
        array with k times the images of the plan along its first axis runs as k calls,
        one on a thread, if the network treats images one by one.

        Raises:
            PlanError: an array has another type or shape, or a NaN that would become a
                code; or `threads` is not an integer of at least 1.
        """
        if not isinstance(threads, (int, np.integer)) or threads < 1:
            raise PlanError(f"threads is {threads!r}", "Use an integer of 1 or more")
        given = [np.asarray(array) for array in arrays]
        if len(given) != len(self.inputs):
            names = ", ".join(value.name for value in self.inputs)
            raise PlanError(f"{len(given)} inputs, not {len(self.inputs)}", names)
        count = self._batches(given)
        if count == 1:
            results = self._run(given, threads)
        else:
            results = self._run_batches(given, count, threads)
        return results[0] if len(results) == 1 else results

    def _batches(self, given: Sequence[Array]) -> int:
        """Return how many calls the arrays hold.

        Raises:
            PlanError: an array does not fit.
        """
        counts = {
            _batches_of(value, array)
            for value, array in zip(self.inputs, given, strict=True)
        }
        if counts - {1} and not self._has_batch:
            raise PlanError(
                "the network computes with the first axis, such as the steps of a "
                f"sequence, and the inputs hold {max(counts)} times its size",
                "Pass the size of the plan, or compile one for this size",
            )
        if len(counts) > 1:
            problem = f"the inputs hold {sorted(counts)} calls"
            raise PlanError(problem, "Pass as many images in each")
        return counts.pop() if counts else 1

    def _run(self, given: Sequence[Array], threads: int = 1) -> tuple[Array, ...]:
        names = (value.name for value in self.inputs)
        values = self._constants | dict(zip(names, given, strict=True))
        for part in self.parts:
            part(values, threads)
        return tuple(values[value.name] for value in self.outputs)

    def _run_batches(
        self, given: Sequence[Array], count: int, threads: int
    ) -> tuple[Array, ...]:
        each = [np.split(array, count) for array in given]
        calls = list(zip(*each, strict=True))
        if threads > 1:
            # Imported late: most processes run one image.
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(threads) as pool:
                found = list(pool.map(self._run, calls))
        else:
            found = [self._run(call) for call in calls]
        return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))

    def __repr__(self) -> str:
        given = ", ".join(f"{value.name}: {value}" for value in self.inputs)
        made = ", ".join(map(str, self.outputs))
        return f"Runner({given}) -> {made}, {self.isa}"


def _batches_of(value: Value, array: Array) -> int:
    wanted, shape = value.shape, array.shape
    is_whole = shape == wanted
    rest = bool(wanted) and len(shape) == len(wanted) and shape[1:] == wanted[1:]
    count = shape[0] // wanted[0] if rest and wanted[0] else 1
    fits = is_whole or (rest and count > 0 and count * wanted[0] == shape[0])
    if array.dtype != value.type or not fits:
        raise PlanError(
            f"input {value.name!r} is {array.dtype} {list(shape)}, not {value}",
            "Pass an array of that type and shape, or several along the first axis",
        )
    return count


def _choose(stored: Stored, header: Fields, machine: Machine) -> str:
    """Return the ISA of the first plan in the file that can run here."""
    if header.text("stamp") != machine.stamp:
        raise PlanError(
            f"{stored.path} was compiled for other kernels, by mdtensor "
            f"{header.text('mdtensor')}",
            "Compile the model again with the version that runs it",
        )
    names = header.each("plans", lambda fields: fields.text("isa"))
    here = [name for name in machine.isas() if name in PACKINGS]
    for name in names:
        if name in here:
            return str(name)
    raise PlanError(
        f"{stored.path} has plans for {', '.join(names)}, and this machine runs "
        f"{', '.join(here) or 'none'}",
        "Compile the model for one of them",
    )


def _constant(stored: Stored, fields: Fields) -> tuple[str, Array]:
    """Return (name, value) of a constant that a part reads as an input."""
    value = Value.read(fields)
    size = ITEMS[value.type]
    for length in value.shape:
        size *= length
    part = stored.section(fields.size("at"), size)
    return value.name, part.view(value.type).reshape(value.shape)


def _check_names(runner: Runner, stored: Stored) -> None:
    """Require that each part reads values of the type and shape that were written."""
    known = {value.name: (value.type, value.shape) for value in runner.inputs}
    known |= {
        name: (array.dtype.name, array.shape)
        for name, array in runner._constants.items()
    }
    for part in runner.parts:
        for slot in part.inputs:
            if known.get(slot.name) != (slot.type, slot.shape):
                raise damaged(stored.path, f"nothing writes the value {slot.name!r}")
        known |= {slot.name: (slot.type, slot.shape) for slot in part.outputs}
    for value in runner.outputs:
        if known.get(value.name) != (value.type, value.shape):
            raise damaged(stored.path, f"nothing writes the result {value.name!r}")


def run(path: PathLike) -> Runner:
    """Return the network in a stored plan as a function of NumPy arrays.

    Args: path: a file of `Model.compile`, or of `mdtensor compile`.

    Raises:
        PlanError: the file is not a plan for this machine and version, or is damaged.
            Every step was checked before this returns: no plan makes a kernel read or
            write memory that is not its own.

    Example:
        >>> run("no.mdt")
        Traceback (most recent call last):
        mdtensor_run.errors.PlanError: no.mdt cannot be read: No such file or ...
    """
    return Runner(path, libraries)
