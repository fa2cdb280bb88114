"""What a trace runs, as data: one line for each step."""

from __future__ import annotations

from dataclasses import dataclass

from mdtensor.spec.spec import TensorSpec


@dataclass(frozen=True)
class PlannedCalls:
    """One line of a plan: calls that run together, and the code that runs them.

    Args:
        calls: the names of the operations, in order.
        runs: how they run, in words: `call`, `one compiled call`, `a product` ...
        code: the method of a call, or the kernels with their ISA.
        results: the specs of what the last one returns.
    """

    calls: tuple[str, ...]
    runs: str
    code: str
    results: tuple[TensorSpec, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.calls)}  {self.runs}  {self.code}"
