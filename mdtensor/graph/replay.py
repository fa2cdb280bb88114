"""The calls of a trace as one generated function: no dispatch, no look-ups.

    def run(v0):
        v1 = f1(v0, c1)
        v2 = f2(v1, v0); del v1
        v5, = p5(v2, v0)
        return v5

`f1` is the method that the types select, and `c1` an argument that no call returns.
`p5` is a compiled call that stands for several calls, see `join.py`. A call that is a
function of buffers, see `acts.py`, has no Python code between it and the next:

        b = a1(v0.buffer)
        v1 = new(Float32Tensor); v1.buffer = b
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from mdtensor.dispatch.settings import run_under
from mdtensor.errors import MdtensorError
from mdtensor.graph.acts import act_of
from mdtensor.graph.calls import Call, Output
from mdtensor.tensor import Tensor

_new = object.__new__
#: Stands for an argument that the caller did not give.
MISSING = object()


class Several(Protocol):
    """A function that stands for several calls, see `join.Joined`."""

    calls: tuple[Call, ...]
    #: What the function takes.
    inputs: tuple[Any, ...]
    #: A call that runs first, whose result only the function takes.
    product: Call | None

    @property
    def writes(self) -> tuple[int, ...]: ...

    def line(self, source: Source, given: Sequence[str]) -> str: ...

    def __call__(self, *tensors: Any) -> tuple[Any, ...]: ...


class Source:
    """The text of a function under construction, and the objects that it names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}

    def name(self, prefix: str, value: Any) -> str:
        """Return a new name for an object."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def expression(self, value: Any) -> str:
        """Return the expression of an argument, which may be nested."""
        if isinstance(value, Output):
            return self._output(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            parts = ", ".join(map(self.expression, value))
            return f"{self.name('t', type(value))}({parts})"
        if type(value) is tuple:
            return f"({''.join(f'{self.expression(part)}, ' for part in value)})"
        if type(value) is list:
            return f"[{', '.join(map(self.expression, value))}]"
        if type(value) is dict:
            pairs = (f"{k!r}: {self.expression(v)}" for k, v in value.items())
            return f"{{{', '.join(pairs)}}}"
        if isinstance(value, slice):
            bounds = value.start, value.stop, value.step
            return f"slice({', '.join(map(self.expression, bounds))})"
        return self.name("c", value)

    def _output(self, output: Output) -> str:
        if output.result is not None:
            return self.name("c", output.result)
        several = len(output.call.specs) > 1
        return f"v{output.call.number}" + (f"[{output.index}]" if several else "")


def with_dead(
    items: Sequence[Any], needed: Iterable[int]
) -> list[tuple[Any, list[int]]]:
    """Return items, each with the numbers of the calls whose results it reads last.

    Args:
        items: calls, and functions for several calls, in the order in which they run.
        needed: the numbers of the calls whose results are needed behind them.
    """
    written = {n for item in items for n in written_by(item)}
    alive, pairs = {*needed}, []
    # A call may run later than its step, so the last reader of a result is found
    # among the items.
    for item in reversed(items):
        sources = item.sources if isinstance(item, Call) else item.reads
        given = (x for x in sources if isinstance(x, Output))
        read = {x.call.number for x in given} & written
        pairs.append((item, sorted(read - alive)))
        alive |= read
    return pairs[::-1]


def written_by(item: Any) -> tuple[int, ...]:
    """Return the numbers of the calls whose results an item gives to later ones."""
    found: tuple[int, ...] = (item.number,) if isinstance(item, Call) else item.writes
    return found


# Looking up each node and its arguments takes longer than most calls (decision 0051).
class Replay:
    """The generated function that runs the calls of a trace.

    Args:
        inputs: the calls that stand for the inputs.
        steps: each call, or function for several calls, with the numbers of the calls
            whose results no later one reads.
        result: what the function returns, with an `Output` for each tensor.
        held: the settings under which the function will be called.
        guard: returns a line of text that runs first; it may name `rest` and `named`,
            further arguments, and tensors that are `MISSING` where there are fewer.
    """

    def __init__(
        self,
        inputs: Sequence[Call],
        steps: Sequence[tuple[Call | Several, Sequence[int]]],
        result: Any,
        held: tuple[Any, ...],
        guard: Callable[[Source], str] | None = None,
    ) -> None:
        source, given = Source(), [f"v{call.number}" for call in inputs]
        head = f"def run({', '.join(given)}):"
        if guard is not None:
            less = source.name("c", MISSING)
            heads = "".join(f"{name}={less}, " for name in given)
            head = f"def run({heads}{'/, ' if given else ''}*rest, **named):"
            source.lines.append(guard(source))
        #: The items by the lines of their text.
        self._items: dict[int, Call | Several] = {}
        for item, dead in steps:
            if isinstance(item, Call):
                lines = _lines(source, item, held)
            else:
                lines = _several(source, item, held)
            if dead:
                lines.append(f"del {', '.join(f'v{number}' for number in dead)}")
            first = 2 + len(source.lines)
            self._items |= dict.fromkeys(range(first, first + len(lines)), item)
            source.lines += lines
        source.lines.append(f"return {source.expression(result)}")
        text = "\n    ".join([head, *source.lines])
        exec(compile(text, "<trace>", "exec"), source.names)
        #: The function of one tensor for each input.
        self.run: Callable[..., Any] = source.names["run"]

    def __call__(self, tensors: Sequence[Any]) -> Any:
        """Return the result of the calls.

        Raises:
            MdtensorError: a call raises it; a note names the line of the call.
        """
        try:
            return self.run(*tensors)
        except MdtensorError as error:
            self.note(error)
            raise

    def note(self, error: MdtensorError) -> None:
        """Add the line that recorded the call to an error that `run` raised."""
        # The frame below the caller's is the generated function: a line is a call.
        frame = error.__traceback__ and error.__traceback__.tb_next
        item = self._items.get(frame.tb_lineno) if frame else None
        # The error of several calls names the one that raised it.
        call = item if isinstance(item, Call) or item is None else item.product
        if call is not None:
            error.add_note(f"recorded at {call.place}")


def _lines(source: Source, call: Call, held: tuple[Any, ...]) -> list[str]:
    """Return the lines of one call."""
    line, act = _line(source, call, held), act_of(call)
    if act is None:
        return [line]
    buffers = [
        f"{source.expression(x)}.buffer"
        for x in call.arguments
        if isinstance(x, (Output, Tensor))
    ]
    result, kind = f"v{call.number}", source.name("t", call.specs[0].type)
    return [
        "try:",
        f"    b = {source.name('a', act)}({', '.join(buffers)})",
        # The method says what is wrong.
        "except (IndexError, ValueError):",
        f"    {line}",
        "else:",
        f"    {result} = {source.name('f', _new)}({kind}); {result}.buffer = b",
    ]


def _line(source: Source, call: Call, held: tuple[Any, ...]) -> str:
    """Return the line that calls the function of one call."""
    assert call.operation is not None
    operation = call.operation.operation
    given = [*map(source.expression, call.arguments)]
    options = call.options
    if options.get("out") is not None:
        # A rounded result: the operation itself chooses the method that rounds.
        function: Callable[..., Any] = call.operation
        given = [f"[{', '.join(given)}]"] if operation.sequence else given
    else:
        function = call.select().function
        options = operation.fill(options)
    if call.settings != held:
        function = partial(run_under, call.settings, function)
    given += [f"{name}={source.expression(v)}" for name, v in options.items()]
    return f"v{call.number} = {source.name('f', function)}({', '.join(given)})"


def _several(source: Source, item: Several, held: tuple[Any, ...]) -> list[str]:
    """Return the lines that call `item`, which makes several calls at once."""
    first = item.product
    if first is None:
        return [_function(source, item)]
    return [
        *_lines(source, first, held),
        _function(source, item),
        f"del v{first.number}",
    ]


def _function(source: Source, item: Several) -> str:
    """Return the source of the function of `item`, behind its product."""
    names = [*map(source.expression, item.inputs)]
    if line := item.line(source, names):
        return line
    given = ", ".join(names)
    results = "".join(f"v{number}, " for number in item.writes)
    return f"{results}= {source.name('p', item)}({given})"
