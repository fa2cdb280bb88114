"""Launches of loops on tensors, and the kinds of types that methods take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from mdtensor import dtypes
from mdtensor.device import Device
from mdtensor.errors import (
    DeviceError,
    NoMethodError,
    checked,
    describe,
    no_method_on,
    shown,
)
from mdtensor.kernels import observe
from mdtensor.kernels.loops.ir import (
    Input,
    Loop,
    UnsupportedLoopError,
    Value,
    apply,
    cast,
    load,
    scalar,
)
from mdtensor.kernels.loops.kernel import Kernel, Launch
from mdtensor.ledger import because, launched
from mdtensor.ops.operands import number
from mdtensor.rendered.pieces import in_pieces
from mdtensor.rendered.recording import (
    Blank,
    Planned,
    UnknownValueError,
    View,
    is_recording,
    record,
)
from mdtensor.tensor import Tensor, leaves

#: Kinds of element types that methods take.
BOOLS = ("bool",)
INTEGERS = ("signed integer", "unsigned integer")
FLOATS = ("real floating",)
COMPLEX = ("complex floating",)
NUMBERS = (*INTEGERS, *FLOATS)
REAL = (*BOOLS, *NUMBERS)
ALL = (*REAL, *COMPLEX)


class Operands:
    """The operands of a loop while it is written: tensors and numbers, by number."""

    def __init__(self, name: str, given: tuple[Any, ...]) -> None:
        self.name, self.given = name, given
        self.buffers: list[Any] = []
        self.inputs: list[Input] = []

    def tensor(self, x: Tensor) -> Value:
        """Return the element of a tensor."""
        at = self._append(x.buffer, Input(x.dtype.name))
        return load(at, x.dtype.name)

    def view(self, buffer: Any) -> Value:
        """Return the element of a buffer."""
        return load(self.operand(buffer), buffer.dtype.name)

    def operand(self, buffer: Any) -> int:
        """Add a buffer, and return its number."""
        return self._append(buffer, Input(buffer.dtype.name))

    def array(self, value: Any) -> Value:
        """Return a number, given as a host array without axes."""
        at = self._append(value, Input(value.dtype.name, True))
        return scalar(at, value.dtype.name)

    def number(self, value: Any, dtype: dtypes.DType) -> Value:
        """Return a Python number, rounded once to a type that can hold it."""
        found = checked(self.name, self.given, lambda: number(value, dtype))
        return self.array(found)

    def value(self, x: Any, dtype: dtypes.DType) -> Value:
        """Return an operand, a tensor or a number, converted to a type."""
        is_tensor = isinstance(x, Tensor)
        return cast(self.tensor(x), dtype.name) if is_tensor else self.number(x, dtype)

    def _append(self, x: Any, declared: Input) -> int:
        self.buffers.append(x)
        self.inputs.append(declared)
        return len(self.inputs) - 1

    def loop(self, value: Value) -> Loop:
        """Return the elementwise loop of a value."""
        return Loop(tuple(self.inputs), value, name=self.name)


def launch(
    device: Device,
    loop: Loop,
    shape: tuple[int, ...],
    buffers: Iterable[Any],
    *axes: tuple[int, ...],
) -> Any:
    """Launch a loop, and return the buffer that it will have written."""
    buffers = list(buffers)
    pieces = in_pieces(loop, buffers, *axes)
    if pieces is not None:
        found = launch(device, pieces.first, pieces.shape, buffers, *axes)
        if pieces.numbers is None:
            places = found.view(lambda array: array.reshape(-1))
            return launch(device, pieces.last, shape, [*buffers, places], *axes)
        given, along = [found, *pieces.numbers], (len(pieces.shape) - 1,)
        return launch(device, pieces.last, shape, given, along)
    if is_recording():
        return record(loop, tuple(shape), buffers, axes[0] if axes else ())
    out = device.alloc(shape, dtypes.dtype(loop.type).storage)
    device.launch(render(device, loop), *buffers, out, *axes)
    return out


def blank(device: Device, shape: tuple[int, ...], storage: Any) -> Any:
    """Return a new buffer, for `written`."""
    if is_recording():
        return Planned.of(Blank(shape, storage), shape, storage)
    return device.alloc(shape, storage)


def written(
    device: Device,
    loop: Loop,
    target: Any,
    part: View,
    buffers: Iterable[Any],
    axes: tuple[int, ...] | None = None,
) -> Any:
    """Launch a loop that writes a part of a new buffer; return the whole buffer.

    Args:
        target: a buffer that only the caller knows, from `blank` or from here.
        part: the view of an array that is written.
        axes: of a scan; None for an elementwise loop.
    """
    place = target.view(part)
    if is_recording():
        return record(loop, place.shape, list(buffers), axes or (), place)
    along = () if axes is None else (axes,)
    device.launch(render(device, loop), *buffers, place, *along)
    return target


# A device brings a renderer if its language is not CUDA C++ (decision 0077).
def render(device: Device, loop: Loop) -> Kernel:
    """Return the kernel of a loop in the language of a device.

    A device with another language than CUDA C++ has a method `render(loop)`.

    Raises:
        NoMethodError: the language lacks a function or a type of the loop.
    """
    # Here, because it loads OpenSSL, for a hash.
    from mdtensor.kernels.loops import cuda

    make: Callable[[Loop], Kernel] = getattr(device, "render", cuda.render)
    try:
        return make(loop)
    except UnsupportedLoopError as error:
        fix = 'Move the operands with to("cpu")'
        problem = f"no method for {device}: {error}"
        raise NoMethodError(problem, fix, loop.name or loop.title) from None


def renders(device: Device, function: str, type: str) -> bool:
    """Return whether the language of a device has a function of a type."""
    loop = Loop((Input(type),), apply(function, load(0, type)))
    try:
        return bool(render(device, loop))
    except NoMethodError:
        return False


def bind(
    device: Device, kernel: Any, arguments: tuple[Any, ...], language: str
) -> Launch:
    """Check the arguments of a launch, and report it to ledgers and observers.

    Args:
        device: where it will run.
        kernel: what `render` returned.
        arguments: buffers and numbers.
        language: of the text, for `which`.

    Raises:
        DeviceError: the kernel is not a text, or does not take the arguments.
    """
    if not isinstance(kernel, Kernel):
        problem = f"{device} launches kernels of {language}, not {shown(kernel)}"
        raise DeviceError(problem, "Render a loop for the device first")
    try:
        launch = kernel.bind(arguments)
    except (TypeError, ValueError) as error:
        problem = str(error).removesuffix(".")
        raise DeviceError(f"a launch on {device} does not fit: {problem}") from error
    if observe.ACTIVE:
        observe.ran(kernel.__name__, language)
    launched(device, kernel.__name__)
    return launch


def compute(spec: Any, operands: Operands, value: Value) -> Any:
    """Return the tensor of a spec, computed by an elementwise loop."""
    loop = operands.loop(cast(value, spec.dtype.name))
    return spec.type.wrap(launch(spec.type.device, loop, spec.shape, operands.buffers))


class Inputs(Protocol):
    """The operands of a loop: their element types, and their buffers."""

    inputs: list[Input]
    buffers: list[Any]


def count_true(operands: Inputs, value: Value, device: Device) -> int:
    """Return how many elements of a bool value are true. Waits for the device."""
    shape = joint_shape(operands)
    loop = Loop(tuple(operands.inputs), cast(value, "int64"), "add")
    if is_recording():
        raise UnknownValueError("the elements of a call that checks them")
    out = launch(device, loop, (), operands.buffers, tuple(range(len(shape))))
    with because(f"{_name_of(operands)} counts elements that it refuses"):
        return int(device.to_host(out))


# A count before would read all elements once more (decision 0114).
def launch_counting(
    device: Device, operands: Inputs, loop: Loop, refused: Value, shape: tuple[int, ...]
) -> tuple[Any, int]:
    """Launch an elementwise loop, and count the elements that it refuses.

    Args:
        device: where it runs.
        operands: of the loop.
        loop: writes something for refused elements, too.
        refused: a bool value.
        shape: of the result.

    Returns: the buffer, and the count. Waits for the device.
    """
    if is_recording():
        raise UnknownValueError("the elements of a call that checks them")
    inputs = (*loop.inputs, Input("uint64", is_counter=True))
    try:
        kernel = render(device, replace(loop, inputs=inputs, refused=refused))
    except NoMethodError:
        # A language without counters computes it in a pass of its own.
        count = count_true(operands, refused, device)
        return launch(device, loop, shape, operands.buffers), count
    fill = Loop((Input("uint64", True),), scalar(0, "uint64"), name="fill")
    counter = launch(device, fill, (), [np.zeros((), np.uint64)])
    out = device.alloc(shape, dtypes.dtype(loop.type).storage)
    device.launch(kernel, *operands.buffers, counter, out)
    with because(f"{_name_of(operands)} counts elements that it refuses"):
        return out, int(device.to_host(counter))


def _name_of(operands: Inputs) -> str:
    return getattr(operands, "name", "") or "a call"


def joint_shape(operands: Inputs) -> tuple[int, ...]:
    """Return the shape to which the operands broadcast."""
    sizes = [x.shape for x in operands.buffers]
    rank = max(map(len, sizes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in sizes]
    columns = zip(*padded, strict=True)
    return tuple(next((n for n in ns if n != 1), 1) for ns in columns)


def device_of(*arguments: Any) -> Device:
    """Return the device of the first tensor."""
    return next(x.device for x in arguments if isinstance(x, Tensor))


def no_method(name: str, *arguments: Any) -> NoMethodError:
    """Return the error for types that a device's method does not take."""
    call, types = describe(name, *arguments), tuple(map(type, arguments))
    return no_method_on(device_of(*arguments), call, types)


def types_of(device: Device, kinds: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the tensor types of a device with these kinds of elements."""
    return tuple(
        leaf for leaf in leaves() if leaf.device is device and leaf.dtype.kind in kinds
    )
