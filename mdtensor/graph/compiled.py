"""Compiled functions, which trace at the first call and then run the trace.

A call with new types, shapes, grids, other arguments or settings traces the function;
later calls run the calls of the trace alone.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

from mdtensor.device import Device, cpu, device as find_device
from mdtensor.dispatch.call_errors import explain_wrong_calls
from mdtensor.dispatch.settings import settings
from mdtensor.errors import (
    DeviceError,
    MdtensorError,
    OptionError,
    TraceError,
    describe,
    shown,
)
from mdtensor.graph.automatic import Placed
from mdtensor.graph.calls import Call, replace, visit
from mdtensor.graph.fixed import only_given
from mdtensor.graph.freeze import Frozen
from mdtensor.graph.guards import ARRAYS, guard
from mdtensor.graph.keys import is_dead
from mdtensor.graph.lazy import LAZY, LazyTensor, realize
from mdtensor.graph.planned import PlannedCalls
from mdtensor.graph.replay import Replay
from mdtensor.graph.search import Found
from mdtensor.graph.searched import search_trace
from mdtensor.graph.trace import Trace, input_spec, placeholder, traced
from mdtensor.spec.options import flag
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor

Key = tuple[Any, ...]
#: The name for the device that is expected to be the fastest.
AUTO = "auto"


class Compiled:
    """A function that `compile` made; it calls its traces."""

    def __init__(
        self,
        function: Callable[..., Any],
        generate: bool = False,
        device: Device | None = None,
        is_automatic: bool = False,
    ) -> None:
        functools.update_wrapper(self, function)
        self._name: str = getattr(function, "__name__", "compiled")
        self._function, self._generates = function, generate
        self._device, self._is_automatic = device, is_automatic
        self._traces: dict[Any, Trace | Placed] = {}
        #: What searches found, by the keys of traces.
        self._ways: dict[Any, str] = {}
        #: The trace of the last call that looked one up, and the code of one that was
        #: looked up twice in a row, which runs if its guard accepts the call.
        self._last: Trace | Placed | None = None
        self._guarded: Replay | None = None

    @property
    def traces(self) -> tuple[Trace, ...]:
        """Return the traces so far, one for each kind of call."""
        known = self._traces.values()
        return tuple(x.trace if isinstance(x, Placed) else x for x in known)

    @property
    def placements(self) -> tuple[Placed, ...]:
        """Return what `device="auto"` chose, one for each trace.

        Each has `choices`: the expected time of each device, or why it cannot run.
        """
        return tuple(x for x in self._traces.values() if isinstance(x, Placed))

    @property
    def device(self) -> Device | None:
        """Return the device that the function was compiled for; None for any."""
        return self._device

    # The key of a call takes longer to make than few numbers to add (decision 0068).
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        guarded = self._guarded
        if guarded is None:
            return self._look_up(arguments, options)
        try:
            return guarded.run(*arguments, **options)
        except MdtensorError as error:
            guarded.note(error)
            raise

    def _look_up(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run the trace of a call, which its key finds."""
        arguments = only_given(arguments)
        found, tensors, _ = self._find(arguments, options)
        if found is not self._last:
            self._last = found
        elif isinstance(found, Trace) and self._takes(arguments, options, found):
            self._guarded = found.guarded(self._look_up)
        return found.run(tensors)

    def _takes(
        self, arguments: tuple[Any, ...], options: dict[str, Any], found: Trace
    ) -> bool:
        """Return whether the arguments of a call are the inputs of its trace."""
        # A function has no state, but the object of a bound method has.
        is_plain = type(self._function) is FunctionType and not options
        kinds = (*map(type, arguments),)
        return is_plain and kinds == tuple(spec.type for spec in found.inputs)

    def _find(
        self, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[Trace | Placed, list[Tensor], Key]:
        """Return the trace of a call, its tensors, and the key of the trace."""
        tensors: list[Tensor] = []
        key: list[Any] = [settings()]
        if type(self._function) is not FunctionType:
            guard(self._function, tensors, key)
        for value in arguments:
            guard(value, tensors, key)
        if options:
            # Names, where an argument would begin with its type: a dict as the last
            # argument makes another key.
            key += options
            for value in options.values():
                guard(value, tensors, key)
        whole = tuple(key)
        found = self._known(whole)
        if found is None or not found.is_current:
            self._drop_dead()
            made = self._trace(arguments, options)
            if whole in self._ways:
                made = made.as_way(self._ways[whole])
            found = Placed(made, self._name) if self._is_automatic else made
            self._traces[whole] = found
        return found, tensors, whole

    def _drop_dead(self) -> None:
        """Drop the traces of objects that are gone."""
        for key in [key for key in list(self._traces) if is_dead(key)]:
            self._traces.pop(key, None)
            self._ways.pop(key, None)

    def _known(self, key: Key) -> Trace | Placed | None:
        try:
            return self._traces.get(key)
        except TypeError as error:
            problem = "an argument of a compiled function cannot be hashed"
            fix = "Use tensors, numbers, texts, tuples, lists and dicts"
            raise OptionError(problem, fix, self._name) from error

    def _trace(self, arguments: Any, options: Any, kinds: Any = ARRAYS) -> Trace:
        calls: list[Call] = []

        def hold(x: Any) -> LazyTensor:
            spec = input_spec(x)
            # Once for each trace: a call finds its trace by types, so by devices, too.
            self._require_device(spec, arguments)
            calls.append(Call(None, (), {}, (spec,)))
            return placeholder(calls[-1])

        given, named = replace((arguments, options), kinds, hold)
        try:
            made = traced(calls, lambda: self._function(*given, **named))
        except TraceError as error:
            raise error.within(describe(self._name, *arguments)) from None
        made.generates = self._generates
        return made

    def _require_device(self, spec: TensorSpec, arguments: Any) -> None:
        """Raise if a tensor is not on the device of the function.

        Raises:
            DeviceError: it is on another one.
        """
        place, found = self._device, spec.type.device
        if place is None or found is place:
            return
        problem = f"{spec} is on {found}, the function is compiled for {place}"
        fix = f'Move it with to("{place}")'
        raise DeviceError(problem, fix, describe(self._name, *arguments))

    def explain(self, *arguments: Any, **options: Any) -> str:
        """Return what a call runs from its second time on, a line for each step.

        The call is traced if it has not been, and does not run. A `TensorSpec` may
        stand for a tensor. With `device="auto"`, lines for the devices come first.

        Args: arguments, options: as for a call.

        Raises:
            TraceError: the function reads the value of a tensor.

        Example:
            >>> import mdtensor as md
            >>> act = md.compile(lambda x: md.relu(x * 2))
            >>> print(act.explain(md.ones(1000)).split("  ")[:2])
            ['mul, relu', 'one compiled call']
        """
        return self._planned(arguments, options).explain()

    def plan(self, *arguments: Any, **options: Any) -> tuple[PlannedCalls, ...]:
        """Return the lines of `explain` as data; it takes the same arguments.

        Example:
            >>> import mdtensor as md
            >>> act = md.compile(lambda x: md.relu(x * 2))
            >>> [line.calls for line in act.plan(md.ones(1000))]
            [('mul', 'relu')]
        """
        return self._planned(arguments, options).plan()

    def _planned(self, arguments: Any, options: Any) -> Trace | Placed:
        """Return the trace of a call; with specs, one that no call finds."""
        specs: list[TensorSpec] = []
        visit((arguments, options), TensorSpec, specs.append)
        if not specs:
            return self._find(arguments, options)[0]
        given, more = self._specs(arguments, options)
        made = self._trace(given, more, TensorSpec)
        return Placed(made, self._name) if self._is_automatic else made

    @staticmethod
    def _specs(arguments: Any, options: Any) -> Any:
        """Return the arguments with a spec for each tensor."""
        return replace((arguments, options), (*ARRAYS, TensorSpec), input_spec)

    def kernels(self) -> tuple[str, ...]:
        """Return the texts of the loops that were generated, one for each loop.

        Calls on a device are joined into loops of its language. On the CPU, loops are
        generated with `generate=True`.

        Example:
            >>> import mdtensor as md
            >>> act = md.compile(lambda x: md.relu(x * 2), generate=True)
            >>> act(md.asarray([-1.0, 2.0])).tolist()
            [0.0, 4.0]
            >>> print(act.kernels()[0].partition("for ")[2])
            i in range(np.uintp(len(out))):
                    j = first + i
                    v4 = np.float32(x0[j] * low0)
                    out[i] = activate(v4, RELU, low1, high1)
            <BLANKLINE>
        """
        items = [item for trace in self.traces for item in trace.items()]
        return tuple(t for one in items if not isinstance(one, Call) for t in one.texts)

    def search(self, *arguments: Any, seconds: float = 5.0, **options: Any) -> Found:
        """Find the fastest way to run a call, and run it so from now on.

        The ways are the joined calls, each call for itself, and the joined calls with
        generated loops. Each must give the bytes of single calls, on these tensors and
        on special and random numbers, and must gain more than the noise. The result is
        kept on disk, by the calls and the CPU.

        Args:
            arguments, options: as for a call; the tensors are what is timed.
            seconds: no way is begun later than this.

        Returns:
            What was found. Printed, it has a line for each way: its time, or why it was
            rejected.

        Raises:
            OptionError: `seconds` is not a number above 0, or `device` is "auto".
            MdtensorError: as a call.

        Example:
            >>> import mdtensor as md
            >>> act = md.compile(lambda x: md.relu(x * 2 + 1))
            >>> act.search(md.asarray([1.0, 2.0])).default
            'joined'

        Source: zyx, "search"; TVM, "AutoTVM".
        """
        is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not (is_number and seconds > 0):
            problem = f"seconds is {shown(seconds)}, not a number above 0"
            raise OptionError(problem, "Use seconds=5.0", "search")
        if self._is_automatic:
            problem = 'a function with device="auto" runs on several devices'
            raise OptionError(problem, "Name the device in compile", "search")
        trace, tensors, key = self._find(arguments, options)
        assert isinstance(trace, Trace)
        found = search_trace(trace, [*map(realize, tensors)], seconds)
        self._ways[key], self._traces[key] = found.best, trace.as_way(found.best)
        self._last = self._guarded = None
        return found

    def freeze(self, *arguments: Any, **options: Any) -> Frozen:
        """Return the function for tensors of fixed types and shapes.

        A call of it compares types and shapes, and runs the kernels: no key is made and
        no trace is looked up. It takes the tensors among `arguments` alone, in order;
        other arguments keep the values given here, and settings such as promotion
        rules those of this moment. If you write into a tensor that the function reads
        from outside, or add a method, the next call traces the function again.

        Args:
            arguments, options: as for a call; a `TensorSpec` may stand for a tensor.

        Raises:
            TraceError: the function reads the value of a tensor.
            OptionError: a size of a spec is unknown, or `device` is "auto".

        Example:
            >>> import mdtensor as md
            >>> double = md.compile(lambda x, by: x * by)
            >>> frozen = double.freeze(md.TensorSpec(md.Float32Tensor, (2,)), 2.0)
            >>> frozen
            <frozen <lambda>(Float32Tensor[2])>
            >>> frozen(md.asarray([1.0, 3.0])).tolist()
            [2.0, 6.0]
        """
        if self._is_automatic:
            problem = 'a function with device="auto" is not frozen: it may move tensors'
            raise OptionError(problem, "Name the device in compile", self._name)
        given, more = self._specs(arguments, options)
        return Frozen(partial(self._trace, given, more, TensorSpec), self._name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind `self`, so that methods can be compiled."""
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        place = f" for {self._device}" if self._device else ""
        place = f" for {AUTO}" if self._is_automatic else place
        return f"<compiled {self._name}{place}, {len(self._traces)} traces>"


@explain_wrong_calls
def compile(
    function: Callable[..., Any],
    /,
    *,
    generate: bool = False,
    device: Device | str | None = None,
) -> Compiled:
    """Return a function that runs the calls of `function` without its Python code.

    The first call with new types, shapes or grids of tensors, other values of other
    arguments, or other settings such as promotion rules, traces the function. Later
    calls only run the operations of the trace.

    Args:
        function: takes tensors, NumPy arrays and hashable values, also in tuples, lists
            and dicts, and returns tensors likewise. It must not have side effects. The
            host tensors that it reads from outside are constants of the trace; if you
            write into one, the function is traced again.

        generate: compile a loop of its own for each chain of elementwise float32 calls,
            at the second call of a trace, or take it from the cache on disk. It
            replaces the interpreter of chains if both give the same bytes for special
            and for random numbers, and takes half of its time.

        device: where every tensor among the arguments has to be, or the name of that
            device. Nothing is moved: a tensor or an array elsewhere raises. By default
            the calls run where the tensors are, with a trace for each device. With
            "auto", they run on the device that is expected to be the fastest, of those
            that have the types, the methods and the memory. Tensors are copied there,
            and results back.

    Raises:
        AllocationError: at a call, no device has the memory, with `device="auto"`.
        TraceError: the function reads the value of a tensor, as in `if x > 0`. The
            error names the line.
        OptionError: `function` is not a function, `generate` is not a bool, or it is
            True for a device other than the CPU.
        DeviceError: there is no such device, it computes nothing itself, or, at a call,
            a tensor is on another one.

    Example:
        >>> import mdtensor as md
        >>> @md.compile
        ... def normalize(x, scale=2.0):
        ...     return (x - md.mean(x)) * scale
        >>> normalize(md.asarray([1.0, 3.0])).tolist()
        [-2.0, 2.0]
        >>> normalize(md.asarray([1.0, 5.0])).tolist(), len(normalize.traces)
        ([-4.0, 4.0], 1)

    Source: JAX, "jit"; PyTorch, "torch.compile"; zyx.
    """
    if not callable(function) or inspect.isclass(function):
        problem = f"{shown(function)} is not a function"
        raise OptionError(problem, "Give a function of tensors", "compile")
    is_automatic = device == AUTO
    place = None if device is None or is_automatic else find_device(device)
    if place is LAZY:
        problem = "a compiled function cannot run on lazy, which computes nothing"
        raise DeviceError(
            problem, "Leave out device=, and pass lazy tensors", "compile"
        )
    if flag(generate, "generate") and (is_automatic or place not in (None, cpu)):
        problem = f"generate=True makes loops for the CPU, not for {device}"
        raise OptionError(problem, "Leave out generate= or device=", "compile")
    return Compiled(function, generate, place, is_automatic)
