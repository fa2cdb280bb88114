"""A loop over elements that stands for several calls of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mdtensor.graph.calls import Call
from mdtensor.graph.links import shape_of
from mdtensor.graph.replay import Source
from mdtensor.kernels import observe
from mdtensor.kernels.cpu.float_calls import F32, in_a_row
from mdtensor.kernels.cpu.program.chain import Chain
from mdtensor.types import Float32Tensor

_new = object.__new__


@dataclass(frozen=True)
class Chained:
    """Calls of a trace that run as one loop over the elements.

    Args:
        chain: the loop.
        calls: the calls that it stands for; the last one has the result.
        inputs: what the loop takes, in order: results of calls, and constants.
        product: one of the calls, which runs first, in fresh memory; the loop writes
            its result there.
        place: of the result of the product among the inputs.
    """

    chain: Chain
    calls: tuple[Call, ...]
    inputs: tuple[Any, ...]
    product: Call | None = None
    place: int | None = None

    @property
    def reads(self) -> tuple[Any, ...]:
        """Return what it takes from other calls, and constants."""
        if self.product is None:
            return self.inputs
        rest = [x for i, x in enumerate(self.inputs) if i != self.place]
        return (*self.product.sources, *rest)

    @property
    def writes(self) -> tuple[int, ...]:
        """Return the number of the call whose result leaves the loop."""
        return (self.calls[-1].number,)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Return the method of a product, and the kernel of the loop and its ISA."""
        loop = f"{self.chain.kernel} on {self.chain.isa}"
        if self.product is None:
            return (loop,)
        return (self.product.select().method.location, loop)

    @property
    def runs(self) -> str:
        """Return how the calls run, in words."""
        return "one compiled call" if self.product is None else "a product in one step"

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
        if not chain.is_small or chain.dtype != F32:
            return ""
        copy, see = name("f", in_a_row), name("f", observe)
        rows = []
        for x, tensor in zip(given, self.inputs, strict=True):
            flat = "b" if len(shape_of(tensor)) == 1 else "b.reshape(-1)"
            rows.append(f"{flat} if (b := {x}.buffer).flags.carray else {copy}(b)")
        table, numbers, *rest = map(
            partial(name, "c"), (chain.table, chain.numbers, *chain.rest)
        )
        out = "out" if len(chain.shape) == 1 else "out.reshape(-1)"
        operands = ", ".join([table, numbers, *rows, *rest, "0", out])
        made = f"{name('f', np.empty)}({name('c', chain.shape)}, {name('c', F32)})"
        if self.place is not None and not chain.text:
            fresh = f"{given[self.place]}.buffer"
            made = f"{fresh} if {fresh}.flags.carray else {made}"
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
        result = _new(self.calls[-1].specs[0].type)
        result.buffer = self.chain(*[x.buffer for x in tensors], over=self.place)
        return (result,)
