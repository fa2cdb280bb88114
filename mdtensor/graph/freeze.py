"""Frozen functions: one trace behind a guard, for tensors of fixed types and shapes.

A call of a compiled function makes a key of all its arguments and looks a trace up. A
frozen function compares types and shapes in its generated code, and goes on to the
kernels there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.dispatch.settings import settings, using
from mdtensor.errors import MdtensorError, OptionError, shown
from mdtensor.graph.fixed import guard_of, only_given
from mdtensor.graph.lazy import host_spec
from mdtensor.graph.planned import PlannedCalls
from mdtensor.graph.trace import Trace
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor, from_numpy


# A key and a look-up take longer than the kernel of few elements (decision 0068).
class Frozen:
    """A function that `Compiled.freeze` made.

    Args:
        make: traces the function.
        name: of the function, for errors.
    """

    __slots__ = ("_held", "_make", "_name", "_replay", "_run", "_trace")

    def __init__(self, make: Callable[[], Trace], name: str) -> None:
        self._make, self._name, self._held = make, name, settings()
        self._bind()

    def _bind(self) -> None:
        """Trace the function, and generate its code."""
        # Calls run under the first settings, whatever surrounds the caller.
        with using(self._held):
            found = self._trace = self._make()
        guard = guard_of(found, self._other)
        self._replay = found.replay(found.items(), self._held, guard)
        self._run = self._replay.run

    def __call__(self, *tensors: Any) -> Any:
        """Return the results for tensors of the frozen types and shapes.

        Raises:
            OptionError: there are more or fewer tensors, or others.
            MdtensorError: a call raises it; a note names the line of the call.
        """
        try:
            return self._run(*tensors)
        except MdtensorError as error:
            self._replay.note(error)
            raise

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Return the specs of the tensors that a call takes."""
        return self._trace.inputs

    @property
    def trace(self) -> Trace:
        """Return the calls that run."""
        return self._trace

    def explain(self) -> str:
        """Return what a call runs, as `Trace.explain` does."""
        return self._trace.explain()

    def plan(self) -> tuple[PlannedCalls, ...]:
        """Return what a call runs, as `Trace.plan` does."""
        return self._trace.plan()

    def _other(self, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Run the calls on arrays, after changes, or for observers; or raise."""
        given = (*only_given(given), *named.values())
        for x in given:
            if not isinstance(x, (Tensor, np.ndarray)):
                self._refuse(", ".join(map(shown, given)))
        tensors = [x if isinstance(x, Tensor) else from_numpy(x) for x in given]
        specs = tuple(map(host_spec, tensors))
        if named or specs != self.inputs:
            self._refuse(", ".join(map(_text, specs)))
        if not self._trace.is_current:
            self._bind()
        elif settings() != self._held:
            with using(self._held):
                return self._run(*tensors)
        return self._trace(*tensors)

    def _refuse(self, got: str) -> None:
        """Raise for tensors other than the frozen ones.

        Raises:
            OptionError: always.
        """
        want = ", ".join(map(_text, self.inputs))
        raise OptionError(
            f"the frozen {self._name} takes {want}, got {got or 'nothing'}",
            "Freeze it for these as well, or call the compiled function",
            self._name,
        )

    def __repr__(self) -> str:
        return f"<frozen {self._name}({', '.join(map(str, self.inputs))})>"


def _text(spec: TensorSpec) -> str:
    """Return type and shape, and the grid of codes."""
    return f"{spec}" if spec.qparams is None else f"{spec} of {spec.qparams}"
