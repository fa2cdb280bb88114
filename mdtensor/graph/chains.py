"""Neighbouring elementwise calls of float32, joined into one loop over their elements.

    calls     mul(%0, %1), add(%3, %2), hardswish(%4)
    joined    one loop, which reads %0, %1 and %2 and writes the result of hardswish

Only operations are joined whose instruction has the bytes of NumPy's function: they
round once, as IEEE 754 says. Polynomials such as exp do not, so a chain ends there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mdtensor.dtypes import float32
from mdtensor.errors import MdtensorError, OptionError
from mdtensor.generics.arithmetic import pow
from mdtensor.graph.calls import Call, Output, spec_of
from mdtensor.kernels.cpu.generic import opcodes as ops
from mdtensor.kernels.cpu.program.chain import Chain
from mdtensor.kernels.cpu.program.elementwise import (
    Elementwise,
    Formula,
    Instruction,
    walk,
)
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor
from mdtensor.types import Float32Tensor

#: Instructions with the bytes of NumPy's functions.
EXACT = frozenset(
    (
        *(ops.RELU, ops.CLAMP, ops.LEAKY_RELU),
        *(ops.HARDSIGMOID, ops.HARDSWISH),
        *(ops.ADD, ops.SUB, ops.MUL, ops.DIV, ops.MAXIMUM, ops.MINIMUM),
        *(ops.NEGATIVE, ops.ABS, ops.SQRT, ops.SQUARE, ops.RECIPROCAL),
        *(ops.ADD_NUMBER, ops.MUL_NUMBER, ops.DIV_NUMBER),
        *(ops.SUB_FROM, ops.DIV_INTO),
    )
)
#: Operations whose instructions are exact, but whose NumPy function is not.
INEXACT = (pow,)
#: The most instructions of a chain, and values of it at a time: a block of each stays
#: in the first cache.
MOST_INSTRUCTIONS, MOST_REGISTERS = 64, 5


@dataclass(frozen=True)
class Chained:
    """Calls of a trace that run as one loop over the elements.

    Args:
        chain: the loop.
        calls: the calls that it stands for; the last one has the result.
        reads: what it takes, in order: results of other calls, and constants.
    """

    chain: Chain
    calls: tuple[Call, ...]
    reads: tuple[Any, ...]

    @property
    def writes(self) -> tuple[int, ...]:
        """Return the number of the call whose result leaves the loop."""
        return (self.calls[-1].number,)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Return the kernel and its ISA."""
        return (f"{self.chain.kernel} on {self.chain.isa}",)

    def __call__(self, *tensors: Any) -> tuple[Any]:
        """Return the result."""
        return (Float32Tensor.wrap(self.chain(*[x.buffer for x in tensors])),)


@dataclass(frozen=True)
class Link:
    """A call as instructions on its tensors.

    Args:
        call: the call.
        step: its instructions; value i is tensor i.
        tensors: its arguments that are tensors.
    """

    call: Call
    step: Elementwise
    tensors: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the result."""
        return self.call.specs[0].shape


# Only IEEE 754 may decide a result, or bytes would not be NumPy's (decision 0062).
def link_of(call: Call) -> Link | None:
    """Return a call as a Link; None if it has other bytes than its instructions.

    Its tensors must be broadcast along at most four separate axes.
    """
    spec = call.specs[0]
    is_whole = len(call.specs) == 1 and 0 not in spec.shape
    if not is_whole or spec.type.dtype is not float32 or call.operation in INEXACT:
        return None
    tensors = tuple(x for x in call.arguments if isinstance(x, (Output, Tensor)))
    try:
        step = _step(call)
        for x in tensors:
            walk(_shape(x), spec.shape)
    except (MdtensorError, ValueError):
        return None
    is_exact = isinstance(step, Elementwise) and all(
        one.operation in EXACT for one in step.instructions
    )
    return Link(call, step, tensors) if is_exact else None


def _step(call: Call) -> Any:
    """Return the step of a call.

    Raises:
        OptionError: the selected method does not have one for these arguments.
    """
    selection = call.select()
    prepare = selection.method.prepare
    if prepare is None:
        raise OptionError(f"{selection.method} does not have a compiled step")
    declared = selection.operation
    parameters = declared.signature.parameters
    omitted = declared.dispatched[len(call.arguments) :]
    given = [_row(x) for x in call.arguments]
    given += [parameters[name].default for name in omitted]
    return prepare(*given, **declared.fill(dict(call.options)))


def _row(x: Any) -> Any:
    """Return a tensor as the spec of a row: walks broadcast it, not the step."""
    if isinstance(x, (Output, Tensor)):
        spec = x.spec if isinstance(x, Output) else spec_of(x)
        return TensorSpec(spec.type, (2,), spec.qparams)
    return x


def _shape(x: Any) -> tuple[int, ...]:
    return x.spec.shape if isinstance(x, Output) else x.shape


class Group:
    """Links that may run as one loop; the last one has the result.

    Args:
        last: the link with the result.
    """

    def __init__(self, last: Link) -> None:
        self.shape = last.shape
        self.links: tuple[Link, ...] = (last,)

    def take(self, link: Link) -> bool:
        """Add a link that only links of the group read; return whether it fits."""
        if link.shape != self.shape:
            return False
        links = (link, *self.links)
        found = _formula(links)
        if found is None or len(found[0].instructions) > MOST_INSTRUCTIONS:
            return False
        if found[0].registers > MOST_REGISTERS:
            return False
        self.links = links
        return True

    def joined(self) -> Chained:
        """Return the loop of all links."""
        found = _formula(self.links)
        assert found is not None
        formula, reads = found
        calls = tuple(link.call for link in self.links)
        return Chained(Chain(formula, self.shape), calls, reads)


def _formula(links: Sequence[Link]) -> tuple[Formula, tuple[Any, ...]] | None:
    """Return the formula of links in order, and the tensors that it reads.

    It is None if there are too many tensors.
    """
    own = {link.call.number for link in links}
    reads: dict[Any, Any] = {}
    for link in links:
        for x in link.tensors:
            if _number(x) not in own:
                reads.setdefault(_key(x), x)
    if len(reads) > ops.INPUTS:
        return None
    places = {key: i for i, key in enumerate(reads)}
    results: dict[int, int] = {}
    instructions: list[Instruction] = []
    # Tensors are inputs, so that constants are single numbers.
    constants: list[Any] = []
    for link in links:
        given = [
            results[x.call.number] if _number(x) in own else places[_key(x)]
            for x in link.tensors
        ]
        instructions += _moved(link.step, given, len(instructions), len(constants))
        constants += link.step.arrays
        results[link.call.number] = ops.INPUTS + len(instructions) - 1
    shape = links[-1].shape
    formula = Formula(
        tuple(instructions),
        tuple(walk(_shape(x), shape) for x in reads.values()),
        tuple((array, walk((), shape)) for array in constants),
        prod(shape),
    )
    return formula, tuple(reads.values())


def _number(x: Any) -> int | None:
    """Return the number of the call that returns a tensor; None for a constant."""
    return x.call.number if isinstance(x, Output) and x.result is None else None


def _key(x: Any) -> Any:
    """Return a key that is equal for one tensor."""
    if isinstance(x, Output):
        return x.call.number, x.index
    return id(x)


def _moved(
    step: Elementwise, given: list[int], instructions: int, constants: int
) -> list[Instruction]:
    """Return the instructions of a step behind other instructions and constants.

    Args: given: the value that each input of the step is.
    """

    def value(x: int) -> int:
        if x < 0:
            return x - constants
        return given[x] if x < len(given) else x + instructions

    return [
        one._replace(first=value(one.first), second=value(one.reads[-1]))
        for one in step.instructions
    ]


def chained(items: Sequence[Any], needed: Iterable[int]) -> list[Any]:
    """Return items in order, with elementwise calls joined into loops.

    Args:
        items: calls, and others that stand for several calls and have `reads`.
        needed: the numbers of the calls whose results other items read.
    """
    links = {
        item.number: link
        for item in items
        if isinstance(item, Call) and (link := link_of(item)) is not None
    }
    readers = _readers(items, links)
    outside, groups = set(needed), dict[int, Group]()
    for number in reversed(links):
        owners = {
            id(groups[r]): groups[r] for r in readers.get(number, ()) if r is not None
        }
        is_inner = number not in outside and None not in readers.get(number, [None])
        if is_inner and len(owners) == 1:
            (group,) = owners.values()
            if group.take(links[number]):
                groups[number] = group
                continue
        groups[number] = Group(links[number])
    return [x for item in items for x in _replaced(item, groups)]


def _readers(
    items: Sequence[Any], links: dict[int, Link]
) -> dict[int, list[int | None]]:
    """Return which links read the result of each call; None stands for other items."""
    found: dict[int, list[int | None]] = {}
    for item in items:
        is_call = isinstance(item, Call)
        reader = item.number if is_call and item.number in links else None
        sources = item.sources if is_call else item.reads
        for source in sources:
            if isinstance(source, Output):
                found.setdefault(source.call.number, []).append(reader)
    return found


def _replaced(item: Any, groups: dict[int, Group]) -> Iterable[Any]:
    """Yield what runs in the place of an item: a group runs where its last call did."""
    group = groups.get(item.number) if isinstance(item, Call) else None
    if group is None or len(group.links) == 1:
        yield item
    elif group.links[-1].call is item:
        yield group.joined()
