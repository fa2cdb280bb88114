"""Elementwise functions of 8-bit codes: look up what the host computes for every code.

    out[i] = table[code(x[i])]                  256 entries
    out[i] = table[code(x1[i]), code(x2[i])]    65,536 entries

The host's own method computes the table, so every rounding rule has the same bytes, and
a new operation on codes runs on devices without code for it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Union

import numpy as np

import mdtensor as md
from mdtensor import Device, MdtensorError, Tensor, TensorSpec, cpu
from mdtensor.extend import infer, launch, remembered
from mdtensor.kernels.loops.ir import Value, apply, cast, gather, number
from mdtensor.kernels.observe import observe_kernels
from mdtensor.quant.ops.bound import key_of
from mdtensor.quant.qparams import QParams
from mdtensor.quant.rendered.rounding import Inputs
from mdtensor.quant.rendered.types import NARROW, add, no_method, types_on
from mdtensor.quant.tensor import QInt8Tensor, QuantizedTensor

#: Families of elementwise operations.
FAMILIES = ("activation", "arithmetic", "comparison", "math")
CODES = 256


def register(device: Device) -> None:
    """Add a method for each elementwise operation that the host has for 8-bit codes."""
    here: Any = Union[types_on(device, NARROW)]
    numbers: Any = Union[int, float]
    for call in md.operations().values():
        for kinds in _kinds(call.operation):
            names = [here if kind is QInt8Tensor else numbers for kind in kinds]
            run = binary if kinds == (QInt8Tensor, QInt8Tensor) else unary
            add(device, call, tuple(names), _accepting(call, run))


def _kinds(operation: Any) -> Iterator[tuple[type, ...]]:
    """Yield the types of calls that are functions of the codes of one place."""
    named = operation.category in FAMILIES and "axis" not in operation.options
    if not named or operation.sequence:
        return
    one = (QInt8Tensor,)
    two = [(*one, *one), (*one, float), (float, *one)]
    known: dict[int, list[tuple[Any, ...]]] = {1: [one], 2: two}
    for kinds in known.get(len(operation.dispatched), []):
        found = operation.find(kinds)
        if found is None or found.method.is_refusal:
            continue
        if _is_elementwise(found, kinds):
            yield kinds


def _is_elementwise(selection: Any, kinds: tuple[Any, ...]) -> bool:
    """Return whether shapes broadcast; the slopes of prelu, for one, do not."""
    shapes = iter(((2, 1, 3), (4, 1)))
    given = [k.spec(next(shapes)) if k is QInt8Tensor else 1.0 for k in kinds]
    wanted = (2, 4, 3) if kinds.count(QInt8Tensor) == 2 else (2, 1, 3)
    out = {"out": QParams(1.0)} if "out" in selection.operation.options else {}
    try:
        return bool(selection.deduce(*given, **out).shape == wanted)
    except MdtensorError:
        return False


def _accepting(call: Any, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method; it names `out` where the operation does."""
    if "out" not in call.operation.options:
        return partial(run, call)

    def rounding(*tensors: Any, out: QParams | None = None, **options: Any) -> Any:
        more = options if out is None else {**options, "out": out}
        return run(call, *tensors, **more)

    return rounding


# The host's method fills the table, so no operation and no rounding rule is written
# twice (decision 0071).
def unary(operation: Any, /, *given: Any, **options: Any) -> Any:
    """Return a function of one tensor of codes, and of numbers."""
    (x,) = (a for a in given if isinstance(a, Tensor))
    spec = infer(operation, *given, **options)
    host = tuple(_every_code(a) if a is x else a for a in given)
    inputs = Inputs(x.device)
    at = _index(inputs, x)
    return _look_up(operation, spec, host, options, inputs, at, given)


def binary(operation: Any, /, *given: Any, **options: Any) -> Any:
    """Return a function of two tensors of codes."""
    spec = infer(operation, *given, **options)
    a, b = map(_every_code, given)
    shape = (CODES, CODES)
    # Some rounding rules refuse to broadcast.
    host = (
        a.from_codes(np.broadcast_to(a.buffer[:, None], shape).copy(), a.qparams),
        b.from_codes(np.broadcast_to(b.buffer, shape).copy(), b.qparams),
    )
    inputs = Inputs(given[0].device)
    row, column = (_index(inputs, x) for x in given)
    at = apply("add", apply("mul", row, number(CODES, "int32")), column)
    return _look_up(operation, spec, host, options, inputs, at, given)


def _every_code(x: Any) -> Any:
    """Return a host tensor of all codes on the grid of x, the least one first."""
    if x.qparams.axis is not None:
        raise no_method("a function of codes with several scales", x)
    info = np.iinfo(x.dtype.storage)
    codes = np.arange(info.min, info.max + 1).astype(x.dtype.storage)
    kind: Any = type(x).with_device(cpu)
    return kind.from_codes(codes, x.qparams.replace(narrow_range=False))


def _index(inputs: Inputs, x: Any) -> Value:
    """Return the place of a code among all codes."""
    code = cast(inputs.element(x.buffer), "int32")
    least = np.iinfo(x.dtype.storage).min
    return apply("sub", code, number(least, "int32")) if least else code


def _look_up(
    operation: Any,
    spec: TensorSpec,
    host: tuple[Any, ...],
    options: dict[str, Any],
    inputs: Inputs,
    at: Value,
    given: tuple[Any, ...],
) -> Any:
    """Return the tensor of a spec: at each place the entry of the host's results."""
    name = operation.operation.name
    filled = operation.operation.fill(options)
    numbers = tuple(a for a in host if not isinstance(a, QuantizedTensor))
    tensors = tuple(a for a in host if isinstance(a, QuantizedTensor))
    places = tuple(isinstance(a, QuantizedTensor) for a in host)
    key = key_of(operation, tensors, {**filled, "numbers": numbers, "places": places})

    def make() -> Any:
        # The kernels of the host are not those of the call.
        with observe_kernels():
            try:
                found = operation(*host, **options)
            except MdtensorError as error:
                # Nobody knows which codes there are, so each needs a result.
                raise no_method(name, *given) from error
        codes = getattr(found, "codes", found).buffer
        flat = np.ascontiguousarray(codes.reshape(-1))
        return inputs.device.from_host(flat), getattr(found, "rounding", None)

    table, rule = remembered(inputs.device, key, make)
    entry = gather(inputs.add(table, is_table=True), table.dtype.name, at)
    loop = inputs.loop(name, entry)
    buffer = launch(inputs.device, loop, spec.shape, inputs.buffers)
    if spec.qparams is None:
        return spec.type.wrap(buffer)
    return spec.type.wrap(buffer, spec.qparams.rounded(rule))
