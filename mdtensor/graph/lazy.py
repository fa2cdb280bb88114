"""Lazy tensors: their calls are recorded, and run when somebody reads a result.

Each host type has a lazy type, `LazyFloat32Tensor` for `Float32Tensor`, made when it is
first needed. A call that gets a lazy tensor selects its method by the host types and
infers the result, so errors of types and shapes come at once. The method itself runs
when a value is read: by `realize`, `tolist`, `item`, `bool`, NumPy, or a print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, ClassVar, NoReturn, cast
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from mdtensor import dtypes
from mdtensor.device import Device, cpu, device as find_device
from mdtensor.dispatch.call_errors import explain_wrong_calls
from mdtensor.dispatch.classes import keep
from mdtensor.dispatch.introspect import watching
from mdtensor.dispatch.method import Implementation, Selection
from mdtensor.dispatch.operation import Operation, no_rule
from mdtensor.dispatch.settings import settings
from mdtensor.errors import DeviceError, TraceError, WriteError, checked, describe
from mdtensor.graph.calls import (
    IN_BLOCK,
    Call,
    Output,
    caller,
    pending,
    replace,
    spec_of,
    visit,
)
from mdtensor.graph.inferred import Inferred
from mdtensor.graph.known import run
from mdtensor.graph.reads import note
from mdtensor.graph.writes import watch
from mdtensor.spec.shapes import DYNAMIC
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor, leaf

#: The lazy type of each host type.
_TYPES: dict[type[Tensor], type[LazyTensor]] = {}
#: Calls that have not run, by what they compute: equal calls become one.
_RECORDED: WeakValueDictionary[Any, Call] = WeakValueDictionary()


class _Lazy(Device):
    """The place of values that are not computed yet."""

    name = "lazy"

    def alloc(self, shape: tuple[int, ...], storage: np.dtype[Any]) -> Any:
        return self.from_host(np.empty(shape, storage))

    def from_host(self, array: npt.NDArray[Any]) -> Output:
        return _output_of(leaf(dtypes.dtype(array.dtype)).wrap(array))

    def to_host(self, buffer: Output) -> npt.NDArray[Any]:
        run([buffer])
        array: npt.NDArray[Any] = buffer.result.buffer
        return array

    def launch(self, kernel: Callable[..., Any], *arguments: Any) -> NoReturn:
        fix = "Move the tensors with to('cpu')"
        raise DeviceError("a lazy tensor has no memory to launch a kernel on", fix)

    def synchronize(self) -> None:
        return None

    def tensor_type(self, dtype: dtypes.DType) -> type[Tensor]:
        return lazy_type(leaf(dtype))

    def adopt(self, tensor: Any) -> Any:
        return lazy_of(tensor)

    def implementation(self, operation: Any, types: tuple[type, ...]) -> Implementation:
        hosts = (t.host if issubclass(t, LazyTensor) else t for t in types)
        return recorder(operation.select(*hosts))


LAZY = _Lazy()


class LazyTensor(Tensor):
    """A tensor whose elements are computed when they are read.

    Its buffer is an `Output`. Type, shape and grid are known at once.
    """

    __slots__ = ()
    #: The type of the tensor once it is computed.
    host: ClassVar[Any]

    @classmethod
    def wrap(cls, buffer: Any) -> Any:
        """Return the lazy tensor of an output of the host type."""
        if buffer.spec.type is not cls.host:
            problem = f"a lazy {buffer.spec.type.__name__} has no codes in memory yet"
            raise DeviceError(problem, "Use realize(x)")
        return cls.of_spec(buffer, buffer.spec)

    def __repr__(self) -> str:
        try:
            return f"Lazy{realize(self)!r}"
        except TraceError:
            return f"{type(self).__name__}{list(self.shape)}(traced)"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return realize(self).__array__(dtype, copy)

    def __dlpack__(self, **options: Any) -> Any:
        return realize(self).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return cpu.dlpack

    def __reduce__(self) -> Any:
        """Pickle and copy the host tensor; another process has no calls of ours."""
        return realize(self).__reduce__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return realize(self).__reduce_ex__(protocol)


class _Rounding:
    """The rounding rule of a lazy tensor: that of its result, which no spec has."""

    def __get__(self, x: Any, owner: Any = None) -> Any:
        return self if x is None else realize(x).rounding

    def __set__(self, x: Any, rule: object) -> None:
        """Ignore the rule of the spec."""


def lazy_type(host: type[Tensor]) -> type[LazyTensor]:
    """Return the lazy type of a concrete host type."""
    found = _TYPES.get(host)
    if found is None:
        # `dtype` is an attribute here and no argument: a lazy type is not one of
        # `leaves()`, which own the memory of their elements.
        names: dict[str, Any] = {"dtype": host.dtype, "device": LAZY, "host": host}
        names |= {"__slots__": (), "__module__": __name__}
        if hasattr(host, "rounding"):
            names["rounding"] = _Rounding()
        names["__doc__"] = f"A tensor whose result is a `{host.__name__}`."
        bases = (LazyTensor, *host.__bases__)
        metaclass: Any = type(host)
        found = metaclass(f"Lazy{host.__name__}", bases, names)
        keep(found)
        _TYPES[host] = found
    return cast(type[LazyTensor], found)


def lazy_of(x: Tensor) -> LazyTensor:
    """Return `x` as a lazy tensor; its memory is shared until it is written."""
    note(x)
    return x if isinstance(x, LazyTensor) else _wrap(_output_of(x))


def _output_of(x: Tensor) -> Output:
    call = Call(None, (), {}, (spec_of(x),), (x,))
    watch(call, (x.buffer,))
    return Output(call)


def _wrap(output: Output) -> LazyTensor:
    return lazy_type(output.spec.type).of_spec(output.handed_out(), output.spec)


def host_spec(x: Any) -> TensorSpec:
    """Return the spec of a tensor once it is computed."""
    spec: TensorSpec = x.buffer.spec if isinstance(x, LazyTensor) else spec_of(x)
    return spec


@explain_wrong_calls
def realize(*tensors: Any) -> Any:
    """Compute lazy tensors together, and return them on the host.

    A call that several of them need runs once. Host tensors are returned as they are.

    Raises:
        MdtensorError: a call raises it; a note names the line that recorded the call.
        TraceError: a tensor depends on an input of `trace` or `compile`.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([1.0, 2.0]).to("lazy")
        >>> y = md.exp(x) * 0
        >>> type(y).__name__
        'LazyFloat32Tensor'
        >>> md.realize(y)
        Float32Tensor[2]([0., 0.])

    Source: zyx, "realize"; MLX, "Lazy Evaluation".
    """
    run([x.buffer for x in tensors if isinstance(x, LazyTensor)])
    found: list[Any] = []
    for x in tensors:
        result = x.buffer.result if isinstance(x, LazyTensor) else x
        # Equal calls are one, and eager calls would not share their results.
        is_shared = x is not result and any(result is other for other in found)
        found.append(deepcopy(result) if is_shared else result)
    return found[0] if len(found) == 1 else tuple(found)


@explain_wrong_calls
@contextmanager
def lazy() -> Iterator[None]:
    """Record the calls of a `with` block: their results are lazy tensors.

    The block applies to this thread or asynchronous task. Other threads run as usual, a
    little slower.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([1.0, 2.0])
        >>> with md.lazy():
        ...     y = md.sum(x * x)
        >>> type(y).__name__, y.shape
        ('LazyFloat32Tensor', ())
        >>> float(y)
        5.0

    Source: zyx; JAX, "Asynchronous dispatch".
    """
    with watching(_record_in_blocks):
        token = IN_BLOCK.set(True)
        try:
            yield
        finally:
            IN_BLOCK.reset(token)


def _record_in_blocks(selection: Selection, function: Implementation) -> Implementation:
    """Return `function`, or in a `lazy` block its recorder."""
    takes_tensors = any(issubclass(t, Tensor) for t in selection.types)
    if not takes_tensors or selection.method.anywhere:
        return function
    is_write = selection.operation.name == "setitem"
    record = _writer(function) if is_write else recorder(selection)

    def call(*arguments: Any, **options: Any) -> Any:
        run_or_record = record if IN_BLOCK.get() else function
        return run_or_record(*arguments, **options)

    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


# It has nothing to record while calls run.
_record_in_blocks.only_records = True  # type: ignore[attr-defined]


# The host types choose the method, so no operation has methods for lazy types
# (decision 0051).
def recorder(selection: Selection) -> Implementation:
    """Return a function that records the calls of a selection."""
    operation = selection.operation
    if operation.name == "setitem":
        return _refuse_setitem
    if operation.name == "to":
        return _move
    # These methods read type and shape only, or move the tensor.
    if selection.method.anywhere:
        return selection.function
    # Without a shape rule the result is known only once the method has run.
    if selection.method.deduce is None and operation.rule is no_rule:
        return lambda *given, **options: _run_now(operation, given, options)

    infer = Inferred(selection)

    def record(*arguments: Any, **options: Any) -> Any:
        # The shape rule and the method both read them.
        options = replace(options, Iterator, tuple)
        if isinstance(options.get("out"), Tensor):
            return _write(operation, arguments, options)
        given = replace(arguments, Tensor, host_spec)
        wanted = replace(options, Tensor, host_spec)
        found = checked(operation.name, arguments, lambda: infer(given, wanted))
        specs = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if not all(map(_is_known, specs)):
            return _run_now(operation, arguments, options)
        return _rebuild(found, _outputs(operation, arguments, options, specs))

    return record


def record_options(selection: Selection, function: Implementation) -> Implementation:
    """Return `function`, or for a call with lazy options its recorder."""

    def call(*arguments: Any, **options: Any) -> Any:
        found: list[Any] = []
        visit(options, LazyTensor, found.append)
        run_or_record = recorder(selection) if found else function
        return run_or_record(*arguments, **options)

    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


def _writer(function: Implementation) -> Implementation:
    """Return `function`, which writes into a host tensor, for lazy values and keys."""

    def write(x: Tensor, **options: Any) -> Any:
        return function(x, **replace(options, LazyTensor, realize))

    return write


def _refuse_setitem(x: Any, *, key: object, value: object) -> NoReturn:
    way = "Make a new tensor: where(mask, value, x), concat, or x = x + y for x += y"
    call = describe("setitem", x, value)
    if isinstance(x, LazyTensor):
        raise _write_error(x, way, call)
    # Only in a traced function; elsewhere the method realizes the key and the value.
    problem = f"{caller()} writes into a host tensor what has no value while tracing"
    raise WriteError(problem, way, call)


def _write_error(x: LazyTensor, way: str, call: str) -> WriteError:
    """Return the error of a write into `x`, with the line and what works instead."""
    try:
        pending([x.buffer])
    except TraceError:
        problem = f"{caller()} writes into a traced tensor, which is read-only"
        more = "Or write before or after the traced function"
    else:
        problem = f"{caller()} writes into a lazy tensor, which is read-only"
        more = "Or write into a host tensor: x = realize(x)"
    return WriteError(problem, f"{way}. {more}", call)


def _move(x: Any, device: Device | str) -> Any:
    return x if find_device(device) is LAZY else realize(x).to(device)


def _is_known(spec: Any) -> bool:
    """Return whether `spec` is the spec of a tensor with known sizes."""
    return isinstance(spec, TensorSpec) and DYNAMIC not in map(int, spec.shape)


def _run_now(operation: Operation, arguments: Any, options: Any) -> Any:
    """Run a call whose result depends on values; its results are lazy, too."""
    hosts, named = replace((tuple(arguments), options), LazyTensor, realize)
    token = IN_BLOCK.set(False)
    try:
        given = (hosts,) if operation.sequence else hosts
        found = operation.function(*given, **named)
    finally:
        IN_BLOCK.reset(token)
    return replace(found, Tensor, lazy_of)


def _write(operation: Operation, arguments: Any, options: Any) -> Any:
    """Run a call that writes its result into the tensor `out=`, and return `out`."""
    out = options["out"]
    if isinstance(out, LazyTensor):
        way = f"Omit out= and use the result: x = {operation.name}(...)"
        raise _write_error(out, way, describe(operation.name, *arguments))
    _run_now(operation, arguments, options)
    return out


def _outputs(
    operation: Operation, arguments: Any, options: Any, specs: tuple[Any, ...]
) -> list[LazyTensor]:
    """Return the results of a new call, or of the equal one that has not run."""
    given = tuple(arguments), options
    sources: list[Output] = []

    def hold(x: LazyTensor) -> Output:
        sources.append(x.buffer.again())
        return sources[-1]

    held, named = replace(given, LazyTensor, hold)
    # Two operations may have one name.
    key = id(operation), _key((held, named)), settings()
    call = _RECORDED.get(key)
    if call is None or call.results is not None or call.has_copies:
        _RECORDED[key] = call = Call(
            operation.function, held, named, specs, sources=tuple(sources)
        )
        watch(call, (x.buffer for x in call.tensors()))
    return [_wrap(Output(call, i)) for i in range(len(specs))]


def _rebuild(found: Any, results: list[LazyTensor]) -> Any:
    """Return results in the form of the inferred specs: one, or a named tuple."""
    if isinstance(found, TensorSpec):
        return results[0]
    return type(found)(*results) if hasattr(found, "_fields") else type(found)(results)


def _key(value: Any) -> Any:
    """Return a hashable value that is equal for arguments of equal calls."""
    if isinstance(value, Output):
        return value.call.number, value.index
    if isinstance(value, (tuple, list)):
        return type(value), *map(_key, value)
    if isinstance(value, dict):
        return tuple((name, _key(value[name])) for name in sorted(value))
    if isinstance(value, slice):
        return _key((slice, value.start, value.stop, value.step))
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        # The repr tells -0.0 from 0.0, and finds a NaN again.
        return type(value), repr(value)
    # A tensor or a grid: the call keeps it alive, so its number stays its own.
    return id(value)
