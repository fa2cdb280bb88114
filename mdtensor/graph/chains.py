"""Neighbouring elementwise calls of float32, joined into one loop over their elements.

    calls     mul(%0, %1), add(%3, %2), hardswish(%4)
    joined    one loop, which reads %0, %1 and %2 and writes the result of hardswish

    calls     max(%0), sub(%0, %1), exp(%2), sum(%3), div(%3, %4)
    joined    one loop over rows, which stay in the caches: a softmax

Reductions of the last axis that keep it take part if what follows has the shape of what
they reduce. A block then is whole rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np

from mdtensor.graph.calls import Call, Output
from mdtensor.graph.links import Link, link_of, shape_of
from mdtensor.graph.replay import Source
from mdtensor.kernels import observe
from mdtensor.kernels.cpu.float_calls import F32, in_a_row
from mdtensor.kernels.cpu.generic import opcodes as ops
from mdtensor.kernels.cpu.program.chain import Chain
from mdtensor.kernels.cpu.program.elementwise import (
    Elementwise,
    Formula,
    Instruction,
    walk,
)
from mdtensor.types import Float32Tensor

_new = object.__new__
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

    runs: ClassVar[str] = "one compiled call"

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the text of the generated loop; no text for an interpreted one."""
        text: str = self.chain.text
        return (text,) if text else ()

    def generate(self) -> None:
        """Compile a loop of its own, see `Chain.generate`."""
        self.chain.generate()

    # The call of another function takes as long as a few elements (decision 0068).
    def line(self, source: Source, given: Sequence[str]) -> str:
        """Return statements that set the result; no text for a large one.

        Args: given: the expressions of the tensors that the loop reads.
        """
        chain, name, result = self.chain, source.name, f"v{self.calls[-1].number}"
        if not chain.is_small:
            return ""
        copy, see = name("f", in_a_row), name("f", observe)
        rows = []
        for x, tensor in zip(given, self.reads, strict=True):
            flat = "b" if len(shape_of(tensor)) == 1 else "b.reshape(-1)"
            rows.append(f"{flat} if (b := {x}.buffer).flags.carray else {copy}(b)")
        table, numbers, *rest = map(
            partial(name, "c"), (chain.table, chain.numbers, *chain.rest)
        )
        out = "out" if len(chain.shape) == 1 else "out.reshape(-1)"
        operands = ", ".join([table, numbers, *rows, *rest, "0", out])
        made = f"{name('f', np.empty)}({name('c', chain.shape)}, {name('c', F32)})"
        return "; ".join(
            (
                f"out = {made}",
                f"{name('f', chain.call)}({operands})",
                f"{see}.ACTIVE and {name('f', chain.report)}()",
                f"{result} = {name('f', _new)}({name('t', Float32Tensor)})",
                f"{result}.buffer = out",
            )
        )

    def __call__(self, *tensors: Any) -> tuple[Any]:
        """Return the result."""
        result = _new(Float32Tensor)
        result.buffer = self.chain(*[x.buffer for x in tensors])
        return (result,)


class Group:
    """Links that may run as one loop; the last one has the result.

    Args:
        last: the link with the result.
        rows: the numbers of links with one value for each row, see `_rows`.
    """

    def __init__(self, last: Link, rows: set[int]) -> None:
        self.shape, self._rows = last.shape, rows
        self.links: tuple[Link, ...] = (last,)

    def take(self, link: Link) -> bool:
        """Add a link that only links of the group read; return whether it fits."""
        if not self._has_domain(link):
            return False
        links = (link, *self.links)
        found = _formula(links)
        if found is None or len(found[0].instructions) > MOST_INSTRUCTIONS:
            return False
        if found[0].registers > MOST_REGISTERS:
            return False
        self.links = links
        return True

    def _has_domain(self, link: Link) -> bool:
        """Return whether the instructions of a link run over the shape of the group."""
        # A loop writes as many elements as it computes.
        if self.links[-1].reduces:
            return False
        if link.call.number in self._rows and not link.reduces:
            return link.shape == (*self.shape[:-1], 1)
        return link.domain == self.shape

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
        tuple(walk(shape_of(x), shape) for x in reads.values()),
        tuple((array, walk((), shape)) for array in constants),
        prod(shape),
        shape[-1] if any(link.reduces for link in links) else 0,
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
    readers, rows = _readers(items, links), _rows(links)
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
        groups[number] = Group(links[number], rows)
    return [x for item in items for x in _replaced(item, groups)]


def _rows(links: dict[int, Link]) -> set[int]:
    """Return the numbers of reductions, and of links that compute with them alone.

    Their results have one element for each row, which a loop repeats along its row.
    """
    found: set[int] = set()
    for number, link in links.items():
        is_narrow = link.shape[-1:] == (1,)
        reads = {_number(x) for x in link.tensors}
        if link.reduces or (is_narrow and reads & found):
            found.add(number)
    return found


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
