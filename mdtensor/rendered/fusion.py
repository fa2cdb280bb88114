"""Recorded launches, joined into fewer ones with the same bytes.

    recorded    mul(x, 2), add(%0, y), relu(%1)          one launch writes relu's result
    recorded    max(x), exp(x - %0), sum(%1), %1 / %2    one launch over rows: a softmax

A launch that only one other reads becomes a value of it: the loop computes the element
where it read it, also through views. Folds of rows become folds before, see `Loop`. So
each element is the result of the same functions in the same order, and each sum is
taken in the device's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Fold, Input, Loop, Value
from mdtensor.kernels.loops.walk import jumps_of
from mdtensor.rendered.memory import reshaped
from mdtensor.rendered.recording import Planned, Recorded, View

#: Launches that become one, and arrays that it reads: WebGPU binds 8 buffers.
MOST_LAUNCHES, MOST_ARRAYS = 48, 6
#: Elements of a row whose block computes them all after its folds.
LONGEST_ROW = 8192
#: Folds whose results are values; those of places stand alone.
BEFORE = ("add", "mul", "maximum", "minimum", "bit_and", "bit_or")
#: Functions that a small operand is computed by again, and how many of them.
CHEAP = frozenset(("load", "scalar", "number", "cast", "select", *ir.TESTS))
CHEAP |= frozenset(("add", "sub", "mul", "neg", "abs", "maximum", "minimum", "bit_not"))
MOST_CHEAP = 8
#: Words of the name of a kernel.
MOST_WORDS = 4

Path = tuple[View, ...]


@dataclass(frozen=True)
class Operand:
    """What a launch reads.

    Args:
        source: the number of an argument, a launch that wrote it, or a buffer or number
            that exists.
        path: the views that lead to it.
    """

    source: Any
    path: Path = ()


@dataclass(frozen=True)
class Fused:
    """One launch for several recorded ones.

    Args:
        record: the last of them, whose result it writes.
        loop: what it computes.
        operands: what it reads.
        axes: of its folds.
    """

    record: Recorded
    loop: Loop
    operands: tuple[Operand, ...]
    axes: tuple[int, ...] = ()


class RefusedError(Exception):
    """The launches cannot be one."""


# Loops are data, so an operation needs no code to be joined (decision 0085).
def fuse(records: Sequence[Recorded], leaving: Iterable[Recorded]) -> list[Fused]:
    """Return launches that write the results of `leaving`, in an order that can run.

    Args:
        records: launches in their order.
        leaving: those whose results are read by others than launches.
    """
    readers: dict[int, list[Recorded]] = {}
    for record in records:
        for source in _sources(record):
            readers.setdefault(id(source), []).append(record)
    outside, groups = {id(one) for one in leaving}, dict[int, _Group]()
    rows = _rows(records)
    for record in reversed(records):
        owners = {
            id(g): g for r in readers.get(id(record), ()) if (g := _of(groups, r))
        }
        if id(record) in outside:
            groups[id(record)] = _Group(record, rows)
        elif len(owners) == 1 and next(iter(owners.values())).take(record):
            groups[id(record)] = next(iter(owners.values()))
        elif owners:
            groups[id(record)] = _Group(record, rows)
    mine = (_of(groups, record) for record in records)
    pairs = zip(records, mine, strict=True)
    return [group.fused for record, group in pairs if group and group.root is record]


def _of(groups: dict[int, _Group], record: Recorded) -> _Group | None:
    return groups.get(id(record))


def _rows(records: Sequence[Recorded]) -> set[int]:
    """Return the identities of folds, and of what computes with their results alone."""
    found: set[int] = set()
    for record in records:
        sizes = [x.result.size for x in _sources(record) if id(x) in found]
        is_fold = record.is_fold and not record.is_alone
        if is_fold or record.result.size in sizes:
            found.add(id(record))
    return found


def _sources(record: Recorded) -> list[Recorded]:
    read = (*record.operands, record.into)
    found = (x.source for x in read if isinstance(x, Planned))
    return [x for x in found if isinstance(x, Recorded)]


class _Group:
    """Launches that are one; the last one has the result."""

    def __init__(self, root: Recorded, rows: set[int]) -> None:
        self.root, self._rows = root, rows
        self.members: tuple[Recorded, ...] = (root,)
        self.fused = Fused(root, root.loop, _plain(root), root.axes)

    def take(self, record: Recorded) -> bool:
        """Add a launch that only launches of the group read; return whether it fits."""
        members = (record, *self.members)
        if len(members) > MOST_LAUNCHES or record.is_alone or self.root.is_alone:
            return False
        try:
            self.fused = _Builder(members, self._rows).fused()
        except RefusedError:
            return False
        self.members = members
        return True


def _plain(record: Recorded) -> tuple[Operand, ...]:
    """Return the operands of one launch."""
    return tuple(
        Operand(x.source, x.path) if isinstance(x, Planned) else Operand(x)
        for x in record.operands
    )


class _Builder:
    """The loop of several launches while it is written.

    Args:
        members: the launches in their order; the last one has the result.
        rows: see `_rows`.
    """

    def __init__(self, members: tuple[Recorded, ...], rows: set[int]) -> None:
        self._root, self._members, self._rows = members[-1], members, rows
        self._own = {id(one) for one in members}
        self._folds = [one for one in members if one.is_fold]
        first = self._folds[0] if self._folds else self._root
        self._domain, self._axes = first.domain, first.axes
        self._kept = tuple(
            1 if axis in self._axes else n for axis, n in enumerate(self._domain)
        )
        self._inputs: list[Input] = []
        self._operands: list[Operand] = []
        self._known: dict[Any, Value] = {}
        self._locals: list[Value] = []
        self._shapes: list[tuple[int, ...]] = []

    def fused(self) -> Fused:
        """Return the launch.

        Raises:
            RefusedError: the launches cannot be one.
        """
        loop = self._loop()
        if sum(not one.is_number for one in self._inputs) > MOST_ARRAYS:
            raise RefusedError("too many arrays")
        # A launch finds its rows by the arrays that it reads.
        if self._folds and np.broadcast_shapes(*self._shapes) != self._domain:
            raise RefusedError("no array has all rows")
        # Names and locals are known at the end.
        loop = replace(
            loop,
            inputs=tuple(self._inputs),
            name=_name(self._members),
            locals=tuple(self._locals),
        )
        return Fused(self._root, loop, tuple(self._operands), self._axes)

    def _loop(self) -> Loop:
        """Return the loop without its operands and local values."""
        root = self._root
        if any(one.loop.is_among for one in self._folds):
            # It has a table of places that no value names.
            raise RefusedError("a fold of elements at places")
        if not self._folds:
            return Loop((), self._value_of(root, ()))
        if self._folds == [root]:
            value = self._value_of(root, ())
            return replace(root.loop, value=value, finish=self._finish(root))
        self._require_rows()
        before = tuple(map(self._fold, self._folds))
        if root.is_fold:
            value = ir.folded(len(before) - 1, before[-1].type)
            return Loop((), value, before=before, is_row=True)
        is_row = root.shape != self._domain
        path = (partial(reshaped, self._kept),) if is_row else ()
        return Loop((), self._value_of(root, path), before=before, is_row=is_row)

    def _require_rows(self) -> None:
        """Raise unless all folds are of the same rows, and the result belongs to them.

        Raises:
            RefusedError: they are not.
        """
        for one in self._folds:
            same = one.domain == self._domain and one.axes == self._axes
            # A block has the fold of a piece, not that of its row.
            if not same or one.loop.piece or one.loop.fold not in BEFORE:
                raise RefusedError("folds of other rows, or of places")
        root = self._root
        if root.is_fold:
            return
        if root.shape != self._domain:
            if prod(root.shape) != prod(self._kept):
                raise RefusedError("neither a row nor one element for it")
        elif prod(self._domain[axis] for axis in self._axes) > LONGEST_ROW:
            raise RefusedError("a long row has more than one block")

    def _fold(self, record: Recorded) -> Fold:
        assert record.loop.fold is not None
        value = self._value_of(record, ())
        return Fold(value, record.loop.fold, self._finish(record))

    def _finish(self, record: Recorded) -> Value | None:
        finish = record.loop.finish
        return None if finish is None else self._replaced(finish, record, ())

    def _value_of(self, record: Recorded, path: Path) -> Value:
        return self._replaced(record.loop.value, record, path)

    def _replaced(self, value: Value, record: Recorded, path: Path) -> Value:
        """Return a value of a launch as one of the loop.

        Args: path: from arrays of the domain of the launch to those of the loop.
        """
        arguments = tuple(self._replaced(x, record, path) for x in value.arguments)
        if value.name == "load":
            return self._element(record.operands[value.detail], record, path)
        if value.name in ("gather", "scalar"):
            number = self._whole(record, value.detail)
            return replace(value, arguments=arguments, detail=number)
        return replace(value, arguments=arguments)

    def _whole(self, record: Recorded, number: int) -> int:
        """Return the number of a table or a number."""
        x, declared = record.operands[number], record.loop.inputs[number]
        if isinstance(x, Planned) and id(x.source) in self._own:
            raise RefusedError("a table is not written where it is read")
        made = Operand(x.source, x.path) if isinstance(x, Planned) else Operand(x)
        key = id(x) if not declared.is_number else (declared.type, x.tobytes())
        return self._number((declared, key), declared, made)

    def _number(self, key: Any, declared: Input, operand: Operand) -> int:
        if key not in self._known:
            self._known[key] = ir.load(len(self._inputs), declared.type)
            self._inputs.append(declared)
            self._operands.append(operand)
        number: int = self._known[key].detail
        return number

    def _element(self, x: Any, reader: Recorded, path: Path) -> Value:
        """Return the element of an operand of a launch."""
        is_planned = isinstance(x, Planned)
        source, own = (x.source, x.path) if is_planned else (x, ())
        if path:
            own = (*own, partial(np.broadcast_to, shape=reader.domain), *path)
        is_inner = id(source) in self._own
        base = _array(x, source)
        array = walked(own, base)
        if array.size and not np.may_share_memory(array, base):
            raise RefusedError("a view of it would copy")
        if _layout(array, array) == _layout(base, base):
            own = ()
        name = ("argument", source) if isinstance(source, int) else id(source)
        key = (name, is_inner, *_layout(array, base))
        if not is_inner:
            declared = Input(array.dtype.name)
            self._shapes.append(array.shape)
            at = self._number(key, declared, Operand(source, own))
            return ir.load(at, declared.type)
        if key not in self._known:
            self._known[key] = self._inner(source, array, own)
        return self._known[key]

    def _inner(self, record: Recorded, array: Any, path: Path) -> Value:
        """Return the element that a launch of the group computes.

        Args:
            array: what the reader reads of its result.
            path: the views that lead there.
        """
        if array.dtype != record.result.dtype:
            raise RefusedError("its bytes are read as another type")
        if record.is_fold:
            return self._of_row(record, array)
        is_whole = record.result.size >= prod(self._domain)
        is_row = id(record) in self._rows
        value = self._value_of(record, path)
        # Otherwise each repetition of an element would be computed.
        if not (is_whole or is_row or _is_cheap(value)):
            raise RefusedError("it is smaller than what reads it")
        if _is_copy(value):
            return value
        self._locals.append(value)
        return ir.local(len(self._locals) - 1, value.type)

    def _of_row(self, record: Recorded, array: Any) -> Value:
        """Return the result of a fold, which is read once for each row."""
        base = record.result.elements
        whole = base.reshape(self._kept)
        try:
            is_row = jumps_of(array, self._domain) == jumps_of(whole, self._domain)
        except ValueError:
            is_row = False
        if not is_row or _layout(array, base)[-1]:
            raise RefusedError("a row reads the fold of another one")
        at = next(i for i, one in enumerate(self._folds) if one is record)
        finish = record.loop.finish
        type = record.loop.value.type if finish is None else finish.type
        return ir.folded(at, type)


def _array(x: Any, source: Any) -> Any:
    """Return an array of the shape and type of a whole source."""
    if isinstance(source, Recorded):
        return source.result.elements
    return x.whole if isinstance(x, Planned) else np.empty(x.shape, x.dtype)


def _layout(array: Any, base: Any) -> tuple[Any, ...]:
    """Return shape and strides of a view, and the bytes before its first element."""
    sizes = zip(array.shape, array.strides, strict=True)
    steps = tuple(0 if n == 1 else step for n, step in sizes)
    first = array.ctypes.data - base.ctypes.data if array.size else 0
    return array.shape, steps, first


def _is_copy(value: Value) -> bool:
    """Return whether a value is an element as it is, or converted."""
    while value.name == "cast":
        (value,) = value.arguments
    return value.name == "load"


def _is_cheap(value: Value) -> bool:
    """Return whether computing a value again takes no longer than reading it."""
    waiting, count = [value], 0
    while waiting:
        one = waiting.pop()
        waiting += one.arguments
        count += 1
        is_known = one.name in CHEAP or one.name.startswith("exact_")
        if not is_known or count > MOST_CHEAP:
            return False
    return True


def walked(path: Path, array: Any) -> Any:
    """Return the view at the end of a path; what shares nothing if there is none."""
    found = array
    for view in path:
        made = view(found)
        if made.size and not np.may_share_memory(made, array):
            return np.empty(1, array.dtype)
        found = made
    return found


def _name(members: Sequence[Recorded]) -> str:
    """Return the name of several launches: `mul_add_relu`, `exp_add_and_9_more`."""
    every = [one.loop.word for one in members]
    every = [word for word in every if word != "copy"] or every
    words = [every[0], *(b for a, b in pairwise(every) if a != b)]
    if len(words) > MOST_WORDS:
        rest = len(words) - MOST_WORDS + 1
        words = [*words[: MOST_WORDS - 1], f"and_{rest}_more"]
    return "_".join(words)
