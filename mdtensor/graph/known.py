"""Recorded calls that run, and the graphs that are known from earlier runs.

At first, calls run one by one. Once graphs of the same content have run so often that
joining them pays, they are joined, and the result is kept. With large tensors this is
the first time.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any

from mdtensor.audited import LOGS
from mdtensor.dispatch.introspect import is_watched
from mdtensor.dispatch.operation import Operation
from mdtensor.errors import MdtensorError, OptionError
from mdtensor.graph.calls import IN_BLOCK, Call, Output, pending
from mdtensor.graph.content import Content
from mdtensor.graph.folding import Steady, constant_calls
from mdtensor.graph.realized import Realized

#: Graphs that are kept, the ones of the latest use.
MOST = 256
#: Seconds that a joined graph saves for each call, and for each element of a result.
SAVED_BY_CALL, SAVED_BY_ELEMENT = 25e-6, 0.4e-9
#: Seconds that joining takes for each call, and loading the compiler, once a process.
JOINING, LOADING = 0.6e-3, 1.3
#: Runs in which joining has to pay.
MOST_RUNS = 1000
#: Graphs by their keys.
_KNOWN: OrderedDict[Any, _Known] = OrderedDict()
_LOCK = Lock()


class _Known:
    """A graph that was realized, and how often; joined once that pays."""

    def __init__(self) -> None:
        self._runs, self._steady = 0, Steady()
        self._graph: Realized | None = None

    def joined(self, content: Content) -> Realized | None:
        """Return the joined calls; None as long as joining them does not pay."""
        # What stays the same shows in the second run.
        is_first = self._runs < 2
        if self._graph is None or is_first:
            self._runs += 1
            self._steady.note(content.leaves)
            places = self._steady.places
            pays = self._runs * _saved(content.calls) >= _cost(content.calls)
            if pays and (self._graph is None or constant_calls(content, places)):
                self._graph = Realized(content, places)
        return self._graph


def _saved(calls: Sequence[Call]) -> float:
    """Return the seconds that each run of joined calls is expected to save."""
    elements = sum(Output(call).size for call in calls)
    return len(calls) * SAVED_BY_CALL + elements * SAVED_BY_ELEMENT


def _cost(calls: Sequence[Call]) -> float:
    """Return the seconds that joining is expected to take."""
    is_loaded = "numba" in sys.modules
    return len(calls) * JOINING + (0 if is_loaded else LOADING)


# Loading the compiler takes longer than most graphs ever save (decision 0092).
def _may_pay(calls: Sequence[Call]) -> bool:
    """Return whether joining pays in `MOST_RUNS`; to know a graph again takes time."""
    return len(calls) > 1 and MOST_RUNS * _saved(calls) >= _cost(calls)


def run(outputs: Sequence[Output]) -> None:
    """Run the calls that `outputs` need; these keep their results.

    Raises:
        MdtensorError: a call raises it; a note names the line that recorded the call.
        TraceError: an output depends on an input of a trace.
    """
    calls = pending(outputs)
    token = IN_BLOCK.set(False)
    try:
        if not _run_known(calls, outputs):
            _run_each(calls)
    finally:
        IN_BLOCK.reset(token)


def _run_known(calls: list[Call], outputs: Sequence[Output]) -> bool:
    """Run calls as the graph that is known for their content; return whether it did."""
    # Watchers and audits see single calls.
    is_seen = is_watched() or LOGS.get() or not all(map(_is_plain, calls))
    if is_seen or not _may_pay(calls):
        return False
    try:
        content = _content(calls, outputs)
        found = _known(content).joined(content)
        results = None if found is None else found.run(content.leaves)
    except (TypeError, MdtensorError):
        # An argument that no key knows. Or a call raises: alone, it names its line.
        return False
    if found is None or results is None:
        return False
    for place, result in zip(found.places, results, strict=True):
        calls[place].finish(result)
    return True


def _content(calls: Sequence[Call], outputs: Sequence[Output]) -> Content:
    asked = {output.call.number for output in outputs}
    return Content(calls, [call for call in calls if call.number in asked])


def _is_plain(call: Call) -> bool:
    """Return whether a call runs where tensors are, and nothing sees it run."""
    place = call.specs[0].type.device
    return getattr(place, "implementation", None) is None


def _known(content: Content) -> _Known:
    """Return the graph of a content."""
    key = Operation.changes, content.key
    with _LOCK:
        found = _KNOWN.get(key)
        if found is None:
            found = _KNOWN[key] = _Known()
            if len(_KNOWN) > MOST:
                _KNOWN.popitem(last=False)
        _KNOWN.move_to_end(key)
    return found


def _run_each(calls: list[Call]) -> None:
    """Run calls one by one; each keeps its results."""
    calls.reverse()
    # A result that only calls of this list need is freed when the last one has run: it
    # drops its arguments, and nothing else holds the call.
    while calls:
        calls.pop().keep()


def explain(*tensors: Any) -> str:
    """Return what `realize` runs for these tensors once their calls are joined.

    Nothing is computed. There is a line for each step. Calls are joined at once if
    their tensors are large, and else when graphs of the same content have run often.

    Raises:
        OptionError: the calls cannot be joined: an argument is known by no key.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([1.0, 2.0]).to("lazy")
        >>> md.graph.explain(md.relu(x * 2 + 1)).partition("  ")[0]
        'mul, add, relu'
    """
    from mdtensor.graph.join import explain as lines

    outputs = [x.buffer for x in tensors if isinstance(getattr(x, "buffer", 0), Output)]
    calls = pending(outputs)
    try:
        return lines(Realized(_content(calls, outputs)).items)
    except TypeError as error:
        problem = "an argument of a recorded call cannot be hashed"
        raise OptionError(
            problem, "Use tensors, numbers and texts", "explain"
        ) from error
