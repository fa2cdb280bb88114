"""Sorting along an axis by merges of runs, stable: a launch for each doubling.

    runs of 1 -> runs of 2 -> runs of 4 -> ...      of the indices that sort x

A thread finds its own element of a merged run: a binary search counts those of the
first run that come before it. So a launch writes each place once, reads what the last
one wrote, and waits for no other thread. NaN comes last, or first if descending; equal
elements keep their order, as on the host. A line of n elements takes about n · log₂² n
comparisons.

Source: S. Odeh, O. Green, Z. Mwassi, O. Shmueli, Y. Birk, "Merge Path", 2012.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mdtensor.device import Device
from mdtensor.generics import sorting
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Input, Loop, Value, apply, gather, load, select
from mdtensor.rendered.launches import (
    NUMBERS,
    Operands,
    compute,
    launch,
    no_method,
)
from mdtensor.rendered.methods import unary
from mdtensor.spec.shapes import normalize_axis
from mdtensor.tensor import Tensor

#: The longest axis: places are int32, and so is the end of two runs.
MOST = 2**30
#: Texts have a multiple of so many turns of the search, so few texts serve all runs.
TURNS = 4


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    unary(device, sorting.argsort, NUMBERS, partial(_sorted, sorting.argsort))
    unary(device, sorting.sort, NUMBERS, partial(_sorted, sorting.sort))


def _sorted(
    operation: Any, x: Tensor, /, *, axis: int, descending: bool, stable: bool
) -> Any:
    options = {"axis": axis, "descending": descending, "stable": stable}
    spec = infer(operation, x, **options)
    at = normalize_axis(axis, x.ndim)
    if x.shape[at] > MOST:
        raise no_method(operation.__name__, x)
    # Neighbors in memory, whatever the axis: a search reads far from its place.
    lines = _copied(x.buffer.view(lambda array: np.moveaxis(array, at, -1)), x.device)
    order = _order(x, lines, descending)
    back = partial(np.moveaxis, source=-1, destination=at)
    operands = Operands(operation.__name__, (x,))
    place = operands.view(order.view(back))
    if operation is sorting.argsort:
        return compute(spec, operands, place)
    firsts = operands.operand(lines.view(lambda array: back(array[..., :1])))
    return compute(spec, operands, gather(firsts, x.dtype.name, place))


def _copied(lines: Any, device: Device) -> Any:
    name = lines.dtype.name
    loop = Loop((Input(name),), load(0, name), name="lines")
    return launch(device, loop, lines.shape, [lines])


# Elementwise with gathers, so both languages have it (decision 0109).
def _order(x: Tensor, lines: Any, descending: bool) -> Any:
    """Return the int32 indices that sort each line."""
    device, size = x.device, lines.shape[-1]
    own = ir.cast(ir.position(), "int32")
    places = launch(device, Loop((), own, name="places"), (size,), [])
    order = places.view(lambda array: np.broadcast_to(array, lines.shape))
    run = 1
    while run < size:
        operands = Operands("merge", (x,))
        merge = _Merge(operands, lines, order, places, run, descending)
        loop = Loop(
            tuple(operands.inputs), merge.found, name="merge", locals=merge.locals
        )
        order = launch(device, loop, lines.shape, operands.buffers)
        run *= 2
    return order


class _Merge:
    """The index that a place has after pairs of runs of a line are merged.

    Args:
        operands: of the loop.
        lines: the elements, lines along the last axis.
        order: the indices that sort each run.
        places: 0, 1, 2 ... of a line.
        run: how long the runs are; the last one may be shorter, or missing.
        descending: whether larger elements come first.
    """

    def __init__(
        self,
        operands: Operands,
        lines: Any,
        order: Any,
        places: Any,
        run: int,
        descending: bool,
    ) -> None:
        self._known: list[Value] = []
        self._type, self._descending = lines.dtype.name, descending
        firsts = [x.view(lambda array: array[..., :1]) for x in (lines, order)]
        self._lines, self._order = map(operands.operand, firsts)
        length, size = (
            operands.array(np.array(n, np.int32)) for n in (run, lines.shape[-1])
        )
        own = operands.view(places)
        self._end = _sub(size, _number(1))
        start = self._keep(
            _sub(own, apply("remainder", own, apply("add", length, length)))
        )
        middle = self._keep(_least(apply("add", start, length), size))
        end = _least(apply("add", middle, length), size)
        self.found = self._merged(start, middle, end, _sub(own, start), run)

    @property
    def locals(self) -> tuple[Value, ...]:
        return tuple(self._known)

    def _merged(
        self, start: Value, middle: Value, end: Value, own: Value, run: int
    ) -> Value:
        """Return the index that belongs at a place of two runs.

        Args:
            start: of the first run.
            middle: its end, where the second one starts.
            end: of the second one.
            own: how many elements of both come before the place.
            run: the length of the first run, for the number of turns.
        """
        keep = self._keep
        own, left, right = map(keep, (own, _sub(middle, start), _sub(end, middle)))
        # Between these bounds is how many of the first run come before the place.
        low = keep(apply("maximum", _sub(own, right), _number(0)))
        high = keep(_least(own, left))
        for _ in range(-(-run.bit_length() // TURNS) * TURNS):
            half = keep(
                apply("shift_right", apply("add", low, high), _number(1)),
            )
            first = self._element(self._index(apply("add", start, half)))
            last = _sub(apply("add", middle, own), apply("add", half, _number(1)))
            second = self._element(self._index(last))
            ends = apply("bit_not", apply("less", low, high))
            more = keep(_neither(ends, _is_before(second, first, self._descending)))
            low, high = (
                keep(select(more, apply("add", half, _number(1)), low)),
                keep(select(more, high, half)),
            )
        rest = keep(_sub(own, low))
        first = self._index(apply("add", start, low))
        second = self._index(apply("add", middle, rest))
        elements = self._element(second), self._element(first)
        before = apply(
            "bit_and",
            apply("less", rest, right),
            _is_before(*elements, self._descending),
        )
        ends = apply("bit_not", apply("less", low, left))
        return select(_neither(ends, before), first, second)

    def _keep(self, value: Value) -> Value:
        """Make a local value, so that trees stay small."""
        self._known.append(value)
        return ir.local(len(self._known) - 1, value.type)

    def _index(self, place: Value) -> Value:
        """Return the index at a place; a search that has ended may be past the end."""
        return self._keep(gather(self._order, "int32", _least(place, self._end)))

    def _element(self, index: Value) -> Value:
        return self._keep(gather(self._lines, self._type, index))


def _number(value: int) -> Value:
    return ir.number(value, "int32")


def _sub(a: Value, b: Value) -> Value:
    return apply("sub", a, b)


def _least(a: Value, b: Value) -> Value:
    return apply("minimum", a, b)


def _neither(a: Value, b: Value) -> Value:
    return apply("bit_not", apply("bit_or", a, b))


def _is_before(a: Value, b: Value, descending: bool) -> Value:
    """Return whether a comes before b, and does not tie with it."""
    first, second = (b, a) if descending else (a, b)
    less = apply("less", first, second)
    if a.type not in ir.FLOATS:
        return less
    known = apply("bit_not", apply("isnan", first))
    return apply("bit_or", less, apply("bit_and", known, apply("isnan", second)))
