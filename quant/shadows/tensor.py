"""Shadow tensors: each carries its value and the same numbers computed in float64.

    x = shadow(md.asarray([0.1, 0.2, 0.4]), min_sqnr=30)
    y = quant.quantize(x, QParams(0.01))        # ShadowQInt8Tensor
    y.value, y.reference, y.sqnr                # codes, floats, decibels

Each host type has a shadow type, `ShadowQInt8Tensor` for `QInt8Tensor`. A call runs
twice: the method of the host types computes the value, with the bytes of a call without
shadows, and float64 arguments compute the reference. The call whose result falls below
`min_sqnr` raises and names its line, so an error is found where it arises.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar, NoReturn, cast

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor import Device, DType, Tensor, cpu, leaf
from mdtensor.errors import (
    BudgetError,
    DeviceError,
    MdtensorError,
    OptionError,
    ShapeError,
    WriteError,
    describe,
    shown,
)
from mdtensor.extend import explain_wrong_calls, find_device, keep
from mdtensor.graph.calls import caller, replace, spec_of
from mdtensor.quant.generics import dequantize, quantize, requantize
from mdtensor.quant.shadows.pair import Pair, is_real, numbers_of, sqnr_of
from mdtensor.quant.sqnr import least_decibels

#: Operations that only choose how numbers are stored: the reference stays as it is.
CONVERSIONS = (quantize, dequantize, requantize)
#: Options that round a result, which the reference must not do.
ROUNDINGS = ("out", "rounding", "qparams")
#: The shadow type of each host type.
_TYPES: dict[type[Tensor], type[ShadowTensor]] = {}


class _Shadow(Device):
    """The place of tensors that carry a reference; both parts are on the host."""

    name = "shadow"

    def alloc(self, shape: tuple[int, ...], storage: np.dtype[Any]) -> Pair:
        return self.from_host(np.zeros(shape, storage))

    def from_host(self, array: npt.NDArray[Any]) -> Pair:
        return _pair_of(leaf(md.dtype(array.dtype)).wrap(array))

    def to_host(self, buffer: Pair) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = buffer.value.buffer
        return array

    def copy(self, buffer: Pair) -> Pair:
        value, reference = deepcopy(buffer.value), deepcopy(buffer.reference)
        return Pair(value, reference, buffer.min_sqnr)

    def launch(self, kernel: Callable[..., Any], *arguments: Any) -> NoReturn:
        problem = "a shadow tensor has no memory to launch a kernel on"
        raise DeviceError(problem, "Use x.value")

    def synchronize(self) -> None:
        return None

    def tensor_type(self, dtype: DType) -> type[Tensor]:
        return shadow_type(leaf(dtype))

    def adopt(self, tensor: Any) -> Any:
        return shadow(tensor)

    def implementation(self, operation: Any, types: tuple[type, ...]) -> Any:
        hosts = (t.host if issubclass(t, ShadowTensor) else t for t in types)
        # Selected now, so a call without a method raises as it does without shadows.
        selection = operation.select(*hosts)
        if operation.name in _SPECIAL:
            return _SPECIAL[operation.name]
        function = operation.function

        def run(*arguments: Any, **options: Any) -> Any:
            given = (arguments,) if operation.sequence else arguments
            return run_both(function, given, options)

        return _value_only(selection.function) if selection.method.anywhere else run


SHADOW = _Shadow()


class ShadowTensor(Tensor):
    """A tensor with a reference: the numbers that it would have without roundings."""

    __slots__ = ()
    #: The type of the value.
    host: ClassVar[Any]

    @classmethod
    def wrap(cls, buffer: Any) -> Any:
        """Return the shadow tensor of a pair."""
        return cls.of_spec(buffer, spec_of(buffer.value))

    @property
    def value(self) -> Any:
        """Return the host tensor, with the bytes of a call without shadows."""
        return self.buffer.value

    @property
    def reference(self) -> Any:
        """Return the numbers computed in float64; complex128 for complex ones."""
        return self.buffer.reference

    @property
    def min_sqnr(self) -> float | None:
        """Return the least SQNR of a result in dB; None if calls never raise."""
        least: float | None = self.buffer.min_sqnr
        return least

    @property
    def sqnr(self) -> float:
        """Return the SQNR of the value in dB: inf without an error.

        10 log10(sum of reference² / sum of (value - reference)²)
        """
        return sqnr_of(self.buffer)

    @property
    def codes(self) -> Any:
        """Return the codes of a quantized value."""
        return self.value.codes

    def __repr__(self) -> str:
        return f"Shadow{self.value!r}, sqnr={self.sqnr:.1f} dB"

    def tolist(self) -> Any:
        return self.value.tolist()

    def _scalar(self, kind: str) -> Any:
        return self.value._scalar(kind)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.value.__array__(dtype, copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self.value.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return cpu.dlpack

    def __reduce__(self) -> Any:
        return _again, (self.value, self.reference, self.min_sqnr)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()


def shadow_type(host: type[Tensor]) -> type[ShadowTensor]:
    """Return the shadow type of a concrete host type."""
    found = _TYPES.get(host)
    if found is None:
        # `dtype` is an attribute here and no argument: a shadow type is not one of
        # `leaves()`, which own the memory of their elements.
        names = {"dtype": host.dtype, "device": SHADOW, "host": host}
        names |= {"__slots__": (), "__module__": __name__}
        names["__doc__"] = f"A `{host.__name__}` with a reference."
        make: Any = type(host)
        bases = (ShadowTensor, *host.__bases__)
        found = make(f"Shadow{host.__name__}", bases, names)
        keep(found)
        _TYPES[host] = found
    return cast(type[ShadowTensor], found)


@explain_wrong_calls
def shadow(value: Any, reference: Any = None, *, min_sqnr: float | None = None) -> Any:
    """Return a tensor whose calls are also computed in float64.

    Args:
        value: a host tensor of floats or codes.
        reference: the numbers that `value` stands for, of the same shape; by default
            the numbers of `value` itself. Give the float weights for quantized ones.
        min_sqnr: the least SQNR in dB that results may have: 6 dB are one bit. Results
            hand it on, the largest of their arguments'. None to never raise.

    Returns:
        A tensor for any operation. Results that are floats or codes are shadow tensors;
        integers and bools are those of the value, so choices follow the value.

    Raises:
        OptionError: `value` is not a host tensor of floats or codes, `reference` is not
            a tensor of floats, or `min_sqnr` is not a number of decibels.
        ShapeError: the shapes differ.
        BudgetError: the SQNR of `value` itself is below `min_sqnr`. Later calls raise
            it as well, with their operation and line.

    Example:
        >>> import mdtensor as md
        >>> from mdtensor import quant
        >>> x = shadow(md.asarray([0.11, 0.26, 0.5]))
        >>> codes = quant.quantize(x, quant.QParams(0.02))
        >>> y = md.square(codes, out=quant.QParams(0.01))
        >>> y.value.codes.tolist(), [round(r, 4) for r in y.reference.tolist()]
        ([1, 7, 25], [0.0121, 0.0676, 0.25])
        >>> round(y.sqnr, 1)
        38.2

    Source: PyTorch, "Numeric Suite", shadow modules.
    """
    if isinstance(value, ShadowTensor):
        reference = value.reference if reference is None else reference
        value = value.value
    if not (isinstance(value, Tensor) and value.device is cpu and is_real(value)):
        problem = f"value is {shown(value)}, not a host tensor of floats or codes"
        raise OptionError(problem, "Integers are exact and need no shadow")
    pair = _pair_of(value, reference, least_decibels(min_sqnr))
    found = shadow_type(type(value)).of_spec(pair, spec_of(value))
    _check("shadow", [found], ())
    return found


def _again(value: Any, reference: Any, min_sqnr: float | None) -> Any:
    """Return a shadow tensor from a pickle, without a check of its error."""
    return shadow_type(type(value)).wrap(Pair(value, reference, min_sqnr))


def _pair_of(value: Any, reference: Any = None, min_sqnr: float | None = None) -> Pair:
    if reference is None:
        return Pair(value, numbers_of(value), min_sqnr)
    if not isinstance(reference, Tensor) or not reference.dtype.is_floating:
        problem = f"the reference is {shown(reference)}, not a tensor of floats"
        raise OptionError(problem, "Give the floats that were quantized")
    if reference.shape != value.shape:
        raise ShapeError(
            f"the value has shape {value.shape}, its reference {reference.shape}",
            "Give a reference of the same shape",
        )
    return Pair(value, numbers_of(reference), min_sqnr)


def with_reference(x: ShadowTensor, reference: Any) -> ShadowTensor:
    """Return the same value with another reference of its shape."""
    pair = _pair_of(x.value, reference, x.min_sqnr)
    return type(x).of_spec(pair, spec_of(x.value))


# Two calls through dispatch instead of methods for shadow types: every operation and
# type has a shadow as soon as it exists (decision 0080).
def run_both(
    function: Any,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """Return the result of a call as shadow tensors.

    Args:
        function: the operation.
        arguments: as the operation takes them, with shadow tensors.
        options: likewise.

    Raises:
        BudgetError: the SQNR of a result is below the least that an argument asks for.
        WriteError: the call writes into a tensor.
    """
    given = arguments, options
    name = function.operation.name
    if isinstance(options.get("out"), Tensor):
        raise _write_error(name, arguments)
    held: list[ShadowTensor] = []
    replace(given, ShadowTensor, held.append)
    positional, named = replace(given, ShadowTensor, lambda x: x.value)
    value = function(*positional, **named)
    if not any(is_real(x) for x in _tensors(value)):
        return value
    reference = _reference(function, arguments, options)
    limits = [x.min_sqnr for x in held if x.min_sqnr is not None]
    found = _rebuild(value, reference, max(limits, default=None))
    _check(name, [x for x in _tensors(found) if isinstance(x, ShadowTensor)], held)
    return found


def _reference(function: Any, arguments: tuple[Any, ...], options: Any) -> Any:
    """Return the result for float64 arguments, not rounded to a type or a grid."""
    kept = {n: x for n, x in options.items() if n not in ROUNDINGS}
    positional, named = replace((arguments, kept), Tensor, numbers_of)
    if function in CONVERSIONS or function is md.astype:
        return positional[0]
    if "dtype" in named:
        named["dtype"] = None
    try:
        return function(*positional, **named)
    except MdtensorError as error:
        error.add_note("while the reference of a shadow tensor is computed in float64")
        raise


def _tensors(found: Any) -> list[Any]:
    parts = found if isinstance(found, (tuple, list)) else (found,)
    return [x for x in parts if isinstance(x, Tensor)]


def _rebuild(value: Any, reference: Any, least: float | None) -> Any:
    """Return results as shadow tensors, in the form of the values."""
    if isinstance(value, (tuple, list)):
        pairs = zip(value, reference, strict=True)
        parts = [_rebuild(one, other, least) for one, other in pairs]
        is_named = hasattr(value, "_fields")
        return type(value)(*parts) if is_named else type(value)(parts)
    if not isinstance(value, Tensor) or not is_real(value):
        return value
    pair = Pair(value, reference, least)
    return shadow_type(type(value)).of_spec(pair, spec_of(value))


def _check(name: str, found: list[Any], given: Any) -> None:
    """Raise for the first result below its limit."""
    for x in found:
        if x.min_sqnr is None or x.sqnr >= x.min_sqnr:
            continue
        before = ", ".join(f"{one.sqnr:.1f}" for one in given)
        known = f"; its arguments have {before} dB" if before else ""
        raise BudgetError(
            f"{name} at {caller()} returns a result with an SQNR of {x.sqnr:.1f} dB, "
            f"less than {x.min_sqnr:g} dB{known}",
            "Choose a finer grid or more bits for this result, or keep it float",
        )


def _value_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that reads no numbers, for shadow tensors."""

    def call(*arguments: Any, **options: Any) -> Any:
        given = replace((arguments, options), ShadowTensor, lambda x: x.value)
        return function(*given[0], **given[1])

    return call


def _move(x: Any, device: Device | str) -> Any:
    """Return `x` on a device; elsewhere it has no reference."""
    return x if find_device(device) is SHADOW else x.value.to(device)


def _write_error(name: str, arguments: tuple[Any, ...]) -> WriteError:
    problem = f"{caller()} writes into a tensor with a reference, which is read-only"
    way = "Use the result of the call; or write into x.value and call shadow again"
    return WriteError(problem, way, describe(name, *arguments))


def _refuse_setitem(x: Any, **options: Any) -> NoReturn:
    raise _write_error("setitem", (x, options.get("value")))


_SPECIAL: dict[str, Callable[..., Any]] = {"to": _move, "setitem": _refuse_setitem}
