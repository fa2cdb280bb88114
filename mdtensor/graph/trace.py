"""Traces: a function as the list of calls that it makes, to run again without Python.

`trace` runs a function once, on lazy tensors without values.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from mdtensor.audited import LOGS
from mdtensor.device import cpu
from mdtensor.dispatch.call_errors import explain_wrong_calls
from mdtensor.dispatch.introspect import watching
from mdtensor.dispatch.operation import Operation
from mdtensor.dispatch.settings import default_settings, settings, using
from mdtensor.errors import OptionError, shown
from mdtensor.graph.acts import has_buffer
from mdtensor.graph.calls import Call, Output, replace, spec_of, visit
from mdtensor.graph.fixed import guard_of
from mdtensor.graph.guards import ARRAYS
from mdtensor.graph.keys import is_object, parts_of
from mdtensor.graph.known import run
from mdtensor.graph.lazy import LazyTensor, host_spec, lazy_type, record_options
from mdtensor.graph.planned import PlannedCalls
from mdtensor.graph.reads import Reads, note, note_all, reads
from mdtensor.graph.replay import Replay, Source, with_dead
from mdtensor.graph.writes import watch
from mdtensor.spec.shapes import DYNAMIC
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor, from_numpy

Guard = Callable[[Source], str]
#: The ways to run a trace: whether calls are joined, and loops are generated.
WAYS = {"joined": (True, False), "calls": (False, False), "generated": (True, True)}


@dataclass(frozen=True)
class Step:
    """One call of a trace.

    Args:
        call: the call.
        dead: the numbers of the calls whose results no later step reads.
    """

    call: Call
    dead: tuple[int, ...]


@dataclass(eq=False)
class Trace:
    """The calls of a function for inputs of fixed types and shapes.

    Args:
        inputs: the specs of the tensors that the function took.
        steps: the calls whose results the function returned, in their order. Equal
            calls are one, and unused ones are left out.
        result: what the function returned, with an `Output` for each lazy tensor.

    Example:
        >>> import mdtensor as md
        >>> def scale(x):
        ...     return md.exp(x) * md.exp(x)
        >>> print(md.trace(scale, md.TensorSpec(md.Float32Tensor, (2,))))
        %0 = input  Float32Tensor[2]
        %1 = exp(%0)  Float32Tensor[2]
        %2 = mul(%1, %1)  Float32Tensor[2]
        return %2
    """

    inputs: tuple[TensorSpec, ...]
    steps: tuple[Step, ...]
    result: Any
    #: Whether a host tensor that the trace holds was written after the trace.
    is_stale: bool = False
    _inputs: tuple[Call, ...] = field(default=(), repr=False)
    _settings: tuple[Any, ...] = field(default_factory=settings, repr=False)
    _replayed: Callable[..., Any] | None = field(default=None, repr=False)
    _is_joined: bool = field(default=False, repr=False)
    _items: list[Any] | None = field(default=None, repr=False)
    _guarded: Replay | None = field(default=None, repr=False)
    #: Whether its loops are compiled each for itself.
    generates: bool = field(default=False, repr=False)
    #: Whether neighbouring calls are joined.
    joins: bool = True
    #: How many loops were generated for this way.
    loops: int = 0
    _changes: int = field(default_factory=lambda: Operation.changes, repr=False)
    _reads: Reads = field(default_factory=dict, repr=False)

    def __call__(self, *tensors: Any) -> Any:
        """Run the calls on tensors of the specs `inputs`, which may be lazy.

        Raises:
            OptionError: the tensors do not have these specs.
            MdtensorError: a call raises it; a note names the line of the call.
        """
        tensors = tuple(x if isinstance(x, Tensor) else from_numpy(x) for x in tensors)
        given = tuple(map(host_spec, tensors))
        if given != self.inputs:
            want, got = (", ".join(map(str, specs)) for specs in (self.inputs, given))
            raise OptionError(f"the trace takes {want}, got {got}", "Trace it anew")
        with using(self._settings):
            return self.run(tensors)

    def run(self, tensors: Any) -> Any:
        """Run the calls on tensors under the present settings, without checks."""
        # The generated function has the methods of the host, and nobody sees its calls.
        if Operation.observe is not None:
            return self._run_calls(tensors)
        # `any` would take ten times as long.
        for x in tensors:
            # Lazy and shadow tensors see each call.
            if x.device is not cpu and getattr(x.device, "implementation", None):
                return self._run_calls(tensors)
        if self._replayed is None:
            calls = [step.call for step in self.steps]
            self._replayed = self.replay(calls, self._settings)
        elif not self._is_joined:
            # A trace that runs only once does not pay for compiled calls.
            self._is_joined = True
            self._replayed = self.replay(self._kept_items(), self._settings)
        return self._replayed(tensors)

    def guarded(self, other: Callable[..., Any]) -> Replay | None:
        """Return the code of joined calls for tensors of the host, behind a guard.

        Args: other: gets the arguments that the guard refuses, see `fixed.py`.

        Returns: None before the calls are joined, and for other tensors.
        """
        kinds = [spec.type for spec in self.inputs]
        if not self._is_joined or not all(map(has_buffer, kinds)):
            return None
        if self._guarded is None:
            guard = guard_of(self, other)
            self._guarded = self.replay(self._kept_items(), self._settings, guard)
        return self._guarded

    def _kept_items(self) -> list[Any]:
        """Return `items()`, made once: a generated loop is compiled once."""
        if self._items is None:
            self._items = self.items()
        return self._items

    def items(self) -> list[Any]:
        """Return the calls, with neighbours joined into compiled calls."""
        calls = [step.call for step in self.steps]
        # Steps round as the default settings say, and an audit counts single calls.
        is_plain = self._settings == default_settings() and not LOGS.get()
        if not is_plain or not self.joins:
            return [*calls]
        # It loads numba.
        from mdtensor.graph.join import join

        outputs: list[Output] = []
        visit(self.result, Output, outputs.append)
        found = [*join(calls, outputs, self._settings)]
        if self.generates:
            for item in found:
                if not isinstance(item, Call):
                    item.generate()
        return found

    def as_way(self, way: str) -> Trace:
        """Return a trace of the same calls that runs in one of `WAYS`."""
        joins, generates = WAYS[way]
        made = copy(self)
        made.joins, made.generates = joins, generates
        made._guarded, made._items = None, made.items()
        items = made._items
        made.loops = sum(
            bool(getattr(item, "chain", None) and item.texts) for item in items
        )
        made._replayed, made._is_joined = made.replay(items, made._settings), True
        for step in self.steps:
            watch(made, (x.buffer for x in step.call.tensors()))
        read = (owner() for owner in self._reads.values())
        watch(made, (owner for owner in read if owner is not None))
        return made

    def replay(self, items: list[Any], held: Any, guard: Guard | None = None) -> Replay:
        """Return the generated function of calls and joined calls, see `Replay`."""
        outputs: list[Output] = []
        visit(self.result, Output, outputs.append)
        needed = {output.call.number for output in outputs}
        return Replay(self._inputs, with_dead(items, needed), self.result, held, guard)

    def explain(self) -> str:
        """Return what a repeated call runs: a line for each call of a function.

        Neighbouring calls of quantized tensors are one compiled call, and neighbouring
        elementwise calls of float32 are one loop. Neighbouring calls on a device are
        one launch, or a few.

        Example:
            >>> import mdtensor as md
            >>> from mdtensor import quant
            >>> grid = quant.QParams(0.05, dtype=quant.qint8)
            >>> x = md.TensorSpec(md.Float32Tensor, (1000,))
            >>> found = md.trace(lambda x: md.relu(quant.quantize(x, grid)), x)
            >>> found.explain().split("  ")[:2]
            ['quantize, relu', 'one compiled call']
        """
        from mdtensor.graph.join import explain

        return explain(self.items())

    def plan(self) -> tuple[PlannedCalls, ...]:
        """Return the lines of `explain` as data: calls, how they run, code, results.

        Example:
            >>> import mdtensor as md
            >>> x = md.TensorSpec(md.Float32Tensor, (1000,))
            >>> (line,) = md.trace(lambda x: md.relu(x * 2), x).plan()
            >>> line.calls, line.runs, line.results
            (('mul', 'relu'), 'one compiled call', (TensorSpec(Float32Tensor[1000]),))
        """
        from mdtensor.graph.join import plan

        return plan(self.items())

    @property
    def placeholders(self) -> tuple[Call, ...]:
        """Return the calls that stand for the inputs."""
        return self._inputs

    @property
    def settings(self) -> tuple[Any, ...]:
        """Return the settings under which the function was traced."""
        return self._settings

    @property
    def changes(self) -> int:
        """Return how often methods had changed when the function was traced."""
        return self._changes

    @property
    def is_current(self) -> bool:
        """Return whether the function would make these calls again."""
        return not self.is_stale and self._changes == Operation.changes

    def _run_calls(self, tensors: Any) -> Any:
        """Run each call as the function made it, so that it can be recorded."""
        note_all(self._reads)
        pairs = zip(self._inputs, tensors, strict=True)
        known: dict[int, Any] = {call.number: (x,) for call, x in pairs}

        def value(output: Output) -> Any:
            found: Any = known.get(output.call.number, output.call.results)
            return found[output.index]

        for step in self.steps:
            known[step.call.number] = step.call.run(value)
            for number in step.dead:
                del known[number]
        return replace(self.result, Output, value)

    def before_write(self, owner: Any) -> None:
        """Mark the trace: it holds a tensor that will be written."""
        self.is_stale, self._replayed, self._is_joined = True, None, False
        self._items = self._guarded = None

    def __str__(self) -> str:
        names = {call.number: f"%{i}" for i, call in enumerate(self._inputs)}
        lines = [f"{names[c.number]} = input  {c.specs[0]}" for c in self._inputs]
        for step in self.steps:
            call = step.call
            names[call.number] = f"%{len(names)}"
            specs = ", ".join(map(str, call.specs))
            lines.append(f"{names[call.number]} = {_text(call, names)}  {specs}")
        shown = replace(self.result, Output, lambda output: _Name(_name(output, names)))
        return "\n".join([*lines, f"return {shown}"])


class _Name(str):
    """A text whose repr has no quotes."""

    def __repr__(self) -> str:
        return str(self)


def _name(output: Output, names: dict[int, str]) -> str:
    if output.call.number not in names:
        return str(output.spec)
    several = len(output.call.specs) > 1
    return names[output.call.number] + (f".{output.index}" if several else "")


def _text(call: Call, names: dict[int, str]) -> str:
    """Return the text of a call, with tensors by name, or by their spec."""

    def text(value: Any) -> str:
        value = replace(value, Output, lambda output: _Name(_name(output, names)))
        return f"{replace(value, Tensor, lambda x: _Name(spec_of(x)))}"

    assert call.operation is not None
    defaults = call.operation.operation.options
    options = [
        f"{k}={text(v)}" for k, v in call.options.items() if v is not defaults[k]
    ]
    given = [text(argument) for argument in call.arguments if argument is not None]
    return f"{call.name}({', '.join([*given, *options])})"


@explain_wrong_calls
def trace(function: Callable[..., Any], /, *specs: Any) -> Trace:
    """Return the calls that `function` makes for tensors of these specs.

    The function runs once, on lazy tensors without values. Python code that depends on
    types, shapes and grids runs as usual; the trace holds what it chose.

    Args:
        function: takes tensors, and returns a tensor, or nested tuples, lists and
            dicts of tensors.
        specs: a `TensorSpec` for each argument; a tensor stands for its spec.

    Raises:
        TraceError: the function reads the value of a tensor; the error names the line.
        OptionError: `function` is not a function, an argument is neither a spec nor a
            tensor, or a size is unknown.

    Example:
        >>> import mdtensor as md
        >>> found = md.trace(lambda x: md.relu(x + 1), md.asarray([1.0, -2.0]))
        >>> [step.call.name for step in found.steps]
        ['add', 'relu']
        >>> found(md.asarray([-3.0, 3.0])).tolist()
        [0.0, 4.0]

    Source: JAX, "make_jaxpr"; zyx.
    """
    if not callable(function):
        problem = f"trace takes a function, got {shown(function)}"
        raise OptionError(problem, "Use linalg.trace(x) for the sum of a diagonal")
    for x in specs:
        if not isinstance(x, (Tensor, TensorSpec)):
            problem = f"an argument of trace is {shown(x)}"
            raise OptionError(problem, "Use TensorSpec(Float32Tensor, shape)")
    calls = [Call(None, (), {}, (input_spec(x),)) for x in specs]
    return traced(calls, lambda: function(*map(placeholder, calls)))


def input_spec(x: Any) -> TensorSpec:
    """Return the spec of an input: of a tensor, an array, or a spec itself.

    Raises:
        OptionError: a size is unknown.
    """
    if not isinstance(x, TensorSpec):
        return host_spec(x if isinstance(x, Tensor) else from_numpy(x))
    if DYNAMIC in map(int, x.shape):
        raise OptionError(f"{x} has an unknown size", "Trace one shape, or compile")
    return x


def placeholder(call: Call) -> LazyTensor:
    spec = call.specs[0]
    return lazy_type(spec.type).of_spec(Output(call), spec)


def traced(calls: list[Call], function: Callable[[], Any]) -> Trace:
    """Return the trace of a function of placeholders for the inputs `calls`."""
    changes = Operation.changes
    # Calls with a lazy tensor in an option alone are dispatched to the host.
    with watching(record_options), reads() as found:
        made = _trace_of(tuple(calls), function())
        # A constant result is handed out, and then may be written.
        note(made.result)
    made._reads, made._changes = found, changes
    watch(made, (owner for x in found.values() if (owner := x()) is not None))
    return made


def _trace_of(inputs: tuple[Call, ...], result: Any) -> Trace:
    """Return the trace of a result of placeholders for `inputs`."""
    result = _separate(result)
    _refuse_result(result)
    held = replace(result, LazyTensor, lambda x: x.buffer)
    outputs: list[Output] = []
    visit(held, Output, outputs.append)
    calls = _needed(outputs, {call.number for call in inputs})
    made = Trace(
        tuple(call.specs[0] for call in inputs),
        _steps(calls, outputs),
        held,
        _inputs=inputs,
    )
    for call in calls:
        watch(made, (x.buffer for x in call.tensors()))
    return made


def _separate(result: Any) -> Any:
    """Return a result in which no two tensors are one result of a call.

    Equal calls are one, but eager ones return a tensor each, which can be written.
    """
    known: dict[tuple[int, int], LazyTensor] = {}

    def separate(x: LazyTensor) -> LazyTensor:
        call = x.buffer.call
        first = known.setdefault((call.number, x.buffer.index), x)
        if first is x or call.operation is None or call.results is not None:
            return x
        again = Call(call.operation, call.arguments, call.options, call.specs)
        again.settings, again.place = call.settings, call.place
        return type(x).of_spec(Output(again, x.buffer.index), x.buffer.spec)

    return replace(result, LazyTensor, separate)


def _refuse_result(result: Any) -> None:
    """Raise if a result is an object that may hide tensors, or runs later.

    Raises:
        OptionError: it is.
    """
    parts = parts_of(result)
    for part in () if parts is None else parts:
        _refuse_result(part)
    is_leaf = parts is None and not isinstance(result, ARRAYS)
    if is_leaf and (type(result).__hash__ is None or is_object(result)):
        problem = f"a traced function returns a {type(result).__name__}"
        raise OptionError(problem, "Return tensors in tuples, lists and dicts")


def _needed(outputs: list[Output], inputs: set[int]) -> list[Call]:
    """Return the calls that depend on inputs; run the others, which are constant."""
    found: dict[int, Call] = {}
    stack = [output.call for output in outputs]
    while stack:
        call = stack.pop()
        if call.number not in found and call.results is None:
            found[call.number] = call
            stack += [source.call for source in call.sources]
    depends, calls = set(inputs), []
    for call in (found[number] for number in sorted(found) if number not in inputs):
        if any(source.call.number in depends for source in call.sources):
            depends.add(call.number)
            calls.append(call)
    constants = [
        source
        for call in calls
        for source in call.sources
        if source.call.number not in depends
    ]
    run([*constants, *(o for o in outputs if o.call.number not in depends)])
    return calls


def _steps(calls: list[Call], outputs: list[Output]) -> tuple[Step, ...]:
    """Return a step for each call, with the results that are dead after it."""
    needed = {output.call.number for output in outputs}
    mine = {call.number for call in calls}
    steps = []
    for call in reversed(calls):
        read = {source.call.number for source in call.sources} & mine
        steps.append(Step(call, tuple(sorted(read - needed))))
        needed |= read
    return tuple(steps[::-1])
