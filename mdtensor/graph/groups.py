"""Groups of elementwise calls that may run as one loop, and the formula of a group."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mdtensor.dtypes import float32
from mdtensor.graph.calls import Call, Output
from mdtensor.graph.chained import Chained
from mdtensor.graph.links import ROUNDINGS, Link, shape_of
from mdtensor.kernels.cpu.generic import opcodes as ops
from mdtensor.kernels.cpu.program.chain import Chain
from mdtensor.kernels.cpu.program.elementwise import (
    Elementwise,
    Formula,
    Instruction,
    walk,
)

#: The most instructions of a chain, and values of it at a time: a block of each stays
#: in the first cache.
MOST_INSTRUCTIONS, MOST_REGISTERS = 64, 5
#: Calls of more narrow floats than this are faster alone, if there are only a few: they
#: convert in registers.
MOST_NARROW, FEW = 1 << 16, 5
#: A loop of one call of float32 saves its Python code, up to this many elements, unless
#: it is one of NumPy's functions, whose call is as short.
MOST_ALONE = 1 << 12
OF_NUMPY = frozenset(
    (
        *(ops.ADD, ops.SUB, ops.MUL, ops.DIV, ops.MAXIMUM, ops.MINIMUM, ops.RELU),
        *(ops.ADD_NUMBER, ops.MUL_NUMBER, ops.DIV_NUMBER, ops.SUB_FROM, ops.DIV_INTO),
        *(ops.NEGATIVE, ops.ABS, ops.SQRT, ops.SQUARE, ops.RECIPROCAL),
    )
)


class Group:
    """Links that may run as one loop; the last one has the result.

    Args:
        last: the link with the result.
        rows: the numbers of links with one value for each row, see `_rows`.
    """

    def __init__(self, last: Link, rows: set[int]) -> None:
        self.shape, self._rows, self._dtype = last.shape, rows, last.dtype
        self.links: tuple[Link, ...] = (last,)
        #: The product whose result the loop overwrites.
        self.product: Call | None = None

    def take(self, link: Link) -> bool:
        """Add a link that only links of the group read; return whether it fits."""
        if link.dtype is not self._dtype or not self._has_domain(link):
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

    def take_product(self, product: Call) -> bool:
        """Let the loop overwrite the result of a product; return whether it can."""
        spec = product.specs[0]
        is_same = spec.type.dtype is self._dtype and spec.shape == self.shape
        if self.product is not None or self.links[-1].reduces or not is_same:
            return False
        self.product = product
        return True

    @property
    def pays(self) -> bool:
        """Return whether a loop saves time."""
        if self._dtype in ROUNDINGS and prod(self.shape) > MOST_NARROW:
            return len(self.links) > FEW
        if len(self.links) > 1 or self.product is not None:
            return True
        is_short = prod(self.shape) <= MOST_ALONE and not self.links[0].reduces
        if self._dtype is not float32 or not is_short:
            return False
        step = self.links[0].step
        return not OF_NUMPY.issuperset(one.operation for one in step.instructions)

    def joined(self) -> Chained:
        """Return the loop of all links."""
        found = _formula(self.links)
        assert found is not None
        formula, reads = found
        calls = tuple(link.call for link in self.links)
        if self.product is None:
            return Chained(self._chain(formula), calls, reads)
        place = [number_of(x) for x in reads].index(self.product.number)
        # Narrow floats are read into other memory, piece by piece.
        is_narrow = self._dtype in ROUNDINGS
        chain = self._chain(formula if is_narrow else _buffered(formula, place))
        return Chained(chain, (self.product, *calls), reads, self.product, place)

    def _chain(self, formula: Formula) -> Chain:
        made = formula.instructions
        # The result becomes narrow behind the last instruction, which rounds it.
        if len(made) > 1 and made[-1].operation == ROUNDINGS.get(self._dtype):
            formula = formula._replace(instructions=made[:-1])
        return Chain(formula, self.shape, self._dtype.storage)


def _buffered(formula: Formula, place: int) -> Formula:
    """Return a formula whose last instruction does not read input `place`.

    An instruction that writes what it reads does not become vectors, so the block is
    written to a register, and then copied.
    """
    instructions = formula.instructions
    if place not in instructions[-1].reads:
        return formula
    copy = Instruction(ops.KEEP, ops.INPUTS + len(instructions) - 1)
    return formula._replace(instructions=(*instructions, copy))


def _formula(links: Sequence[Link]) -> tuple[Formula, tuple[Any, ...]] | None:
    """Return the formula of links in order, and the tensors that it reads.

    It is None if there are too many tensors.
    """
    own = {link.call.number for link in links}
    reads: dict[Any, Any] = {}
    for link in links:
        for x in link.tensors:
            if number_of(x) not in own:
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
            results[x.call.number] if number_of(x) in own else places[_key(x)]
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


def number_of(x: Any) -> int | None:
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
