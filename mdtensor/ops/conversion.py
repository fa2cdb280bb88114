"""Casts, moves between devices, and tensors from other objects and libraries."""

import copy as copying
from collections.abc import Callable
from functools import partial
from typing import Any, Union

import numpy as np

from mdtensor import dtypes, interop
from mdtensor.coercion import typed_array
from mdtensor.device import Device, cpu, device as find_device, devices
from mdtensor.dispatch.call_errors import explain_wrong_calls
from mdtensor.dispatch.operation import method
from mdtensor.dtypes import DType
from mdtensor.errors import (
    CastError,
    ExchangeError,
    OptionError,
    ProtocolError,
    checked,
    shown,
    type_and_shape,
)
from mdtensor.foreign import read_array, require_plain
from mdtensor.generics.conversion import (
    astype,
    reduce_precision,
    to,
    view_as_complex,
    view_as_real,
)
from mdtensor.kernels.numpy import conversion as kernel, quietly
from mdtensor.ops import steps
from mdtensor.ops.bound_calls import bound
from mdtensor.ops.choice_steps import to_float32_step
from mdtensor.ops.direct import WIDE, Act
from mdtensor.ops.operands import Dense, deduced, spec
from mdtensor.spec.options import DTypeName
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor, element, from_numpy, leaf
from mdtensor.types import ComplexTensor, FloatingTensor

#: For each casting policy: a test for values that raise, and the conversion.
POLICIES: dict[str, tuple[Callable[..., Any] | None, Callable[..., Any]]] = {
    "exact": (kernel.inexact, kernel.nearest),
    "check": (kernel.outside, kernel.nearest),
    "round": (kernel.outside, kernel.nearest),
    "saturate": (None, kernel.saturating),
    "wrap": (None, kernel.wrapping),
}


def direct_astype(
    result: TensorSpec,
    x: TensorSpec,
    dtype: object,
    /,
    *,
    copy: bool,
    device: object,
    casting: str,
) -> Act | None:
    """Return the function of buffers of `astype`; None if it counts elements."""
    before, after = x.dtype.storage, result.dtype.storage
    if x.dtype is result.dtype or x.dtype.is_complex or casting not in POLICIES:
        return None
    refuse, convert = POLICIES[casting]
    if kernel.is_exact(before, after):
        convert = kernel.nearest
    elif casting == "check" and before.kind in "iuf" and after.kind in "iu":
        return partial(_checked, after)
    elif refuse or casting == "round":
        return None
    elif casting == "wrap" and before in WIDE and after in WIDE:
        return partial(quietly, _rounded, after)
    return partial(_converted, convert, after)


def _checked(dtype: Any, x: Any) -> Any:
    # The method finds what does not fit, and says how much.
    if not kernel.fits(x, dtype):
        raise IndexError
    return quietly(x.astype, dtype)


def _rounded(dtype: Any, x: Any) -> Any:
    return x.astype(dtype)


def _converted(convert: Any, dtype: Any, x: Any) -> Any:
    return convert(x, dtype)


@method(
    astype,
    fast_path=bound(astype, direct_astype),
    prepare=to_float32_step,
    direct=direct_astype,
)
def astype(
    x: Dense,
    dtype: Union[DType, str, type, np.dtype],
    /,
    *,
    copy: bool,
    device: object,
    casting: str,
) -> Tensor:
    target: type[Tensor] = deduced(astype, x, dtype, copy=copy, device=device).type
    require_casting(x, target.dtype, casting)
    if target is type(x) and not copy:
        return x
    cast = _cast(x, target.dtype, casting)
    # Cast on the host, then move: casts have kernels on the host only.
    if target.device is cpu:
        return target.wrap(cast)
    there = checked("astype", (x, dtype), lambda: target.device.from_host(cast))
    return target.wrap(there)


def require_casting(x: Tensor, dtype: DType, casting: object) -> None:
    """Raise unless `casting` is the name of a policy."""
    if not isinstance(casting, str) or casting not in POLICIES:
        fix = f"Use {', '.join(POLICIES)}"
        raise OptionError(f"casting is {shown(casting)}", fix, _call(x, dtype))


def _call(x: Tensor, dtype: DType) -> str:
    return f"astype({type_and_shape(x)}, {dtype})"


def _cast(x: Tensor, dtype: DType, casting: str) -> Any:
    values, storage = x.buffer, dtype.storage
    # Exact casts need no check of their values.
    if x.dtype is dtype or kernel.is_exact(values.dtype, storage):
        return kernel.nearest(values, storage)
    if x.dtype.is_complex and not dtype.is_complex:
        # A complex number is true if it is not 0, as in NumPy.
        if dtype.storage.kind == "b" and casting != "exact":
            return kernel.nearest(values, storage)
        values = _real(x, dtype, casting)
    if casting == "round" and dtype.is_integer:
        values = kernel.whole(values)
    refuse, convert = POLICIES[casting]
    # A finite result has not overflowed, which one pass over it shows.
    if casting == "check" and values.dtype.kind == storage.kind == "f":
        cast = convert(values, storage)
        if np.isfinite(cast).all():
            return cast
    count = np.count_nonzero(refuse(values, storage)) if refuse else 0
    if count:
        unknown = np.count_nonzero(values != values) if dtype.is_integer else 0
        raise refusal(x, dtype, casting, int(count), int(unknown))
    return convert(values, storage)


def refusal(
    x: Tensor, dtype: DType, casting: str, count: int, unknown: int
) -> CastError:
    """Return the error for `count` values that do not fit, `unknown` of them NaN."""
    if unknown:
        problem = f"{unknown} of {x.size} values are NaN, which {dtype} lacks"
        fix = 'Replace them first, or use casting="saturate", which makes them 0'
        return CastError(problem, fix, _call(x, dtype))
    problem, fix = _cast_error(casting, dtype)
    head = f"{count} of {x.size} values {problem}"
    return CastError(head, fix, _call(x, dtype))


def _cast_error(casting: str, dtype: DType) -> tuple[str, str]:
    if casting == "exact":
        fix = 'Use casting="round" to round them'
        if dtype.is_integer:
            fix += ', or casting="check" to cut fractions off'
        return f"are not exactly {dtype}", fix
    return (
        f"are out of range; {dtype} represents {dtype.minimum} to {dtype.maximum}",
        'Use casting="saturate" or "wrap", or a wider type',
    )


def _real(x: Tensor, dtype: DType, casting: str) -> Any:
    """Return the real parts of complex numbers whose imaginary parts are 0."""
    fix, call = "Use real(x) or abs(x) first", _call(x, dtype)
    if casting in ("saturate", "wrap"):
        problem = f"casting={casting!r} does not apply to complex numbers"
        raise CastError(problem, fix, call)
    count = np.count_nonzero(x.buffer.imag)
    if count:
        problem = f"{count} of {x.size} values have an imaginary part"
        raise CastError(problem, fix, call)
    return x.buffer.real


@method(reduce_precision, prepare=steps.reduce_precision_step)
def reduce_precision(
    x: FloatingTensor, dtype: Union[DType, str, type, np.dtype], /
) -> Tensor:
    deduced(reduce_precision, x, dtype)
    narrow, own = dtypes.dtype(dtype).storage, x.dtype.storage
    return x.wrap(kernel.nearest(kernel.nearest(x.buffer, narrow), own))


@method(view_as_real)
def view_as_real(x: ComplexTensor, /) -> Tensor:
    result: type[Tensor] = deduced(view_as_real, x).type
    return result.wrap(kernel.as_pairs(x.buffer))


@method(view_as_complex)
def view_as_complex(x: FloatingTensor, /) -> Tensor:
    result: type[Tensor] = deduced(view_as_complex, x).type
    return result.wrap(kernel.of_pairs(x.buffer))


@method(to, anywhere=True)
def to(x: Dense, device: Union[Device, str], /) -> Tensor:
    rule = to.operation.rule
    target: type[Tensor] = checked(
        "to", (x, device), lambda: rule(spec(x), device).type
    )
    if target is type(x):
        return x
    adopted: Tensor | None = target.device.adopt(x)
    if adopted is not None:
        return adopted
    # A device copies from and to the host only, so a move takes two steps.
    host = x.device.to_host(x.buffer)
    there = checked("to", (x, device), lambda: target.device.from_host(host))
    return target.wrap(there)


# Tensors from values, arrays and arrays of other libraries.

#: DLPack's number for the memory of the host.
HOST = 1
#: Types without memory to share.
_VALUES = frozenset({list, tuple, bool, int, float, complex})


@explain_wrong_calls
def asarray(
    obj: object,
    /,
    *,
    dtype: DTypeName | None = None,
    device: Device | str | None = None,
    copy: bool | None = None,
) -> Any:
    """Convert `obj` to a tensor.

    Args:
        obj: Python numbers, nested sequences of them, a NumPy array or scalar, a
            buffer, anything with `__dlpack__`, or a tensor. Sequences may hold NumPy
            scalars, arrays and tensors.
        dtype: element type. By default the type of an array; for a sequence the common
            type of its arrays and NumPy scalars, where Python numbers are weak; for
            Python numbers alone bool, int64 (uint64 from 2**63), float32 or complex64.
        device: by default the device of `obj`, or cpu.
        copy: None shares the memory of arrays and tensors if possible, True copies,
            False never copies.

    Raises:
        CastError: a value does not fit `dtype`, an array has masked elements or a unit;
            nothing is rounded silently except Python floats to the nearest element.
        ShapeError: a sequence is ragged.
        PromotionError: the types in a sequence do not have a common type.
        OptionError: `copy` is False, but the memory cannot be shared.

    Example:
        >>> import mdtensor as md
        >>> md.asarray([1, 2]), md.asarray([1.0]), md.asarray([300], dtype=md.int16)
        (Int64Tensor[2]([1, 2]), Float32Tensor[1]([1.]), Int16Tensor[1]([300]))

    Source: array API 2024.12, `asarray`.
    """
    # The usual call first: an array is shared.
    is_array = type(obj) is np.ndarray and obj.dtype.isnative
    if is_array and dtype is None and device is None and copy is None:
        return from_numpy(obj)
    if copy is not None and not isinstance(copy, (bool, np.bool_)):
        call, given = f"asarray({type(obj).__name__})", type(copy).__name__
        raise OptionError(f"copy is a {given}", "Use None, True or False", call)
    wanted = None if dtype is None else dtypes.dtype(dtype)
    source = None if type(obj) in _VALUES else _share(obj)
    made = (
        _tensor_of_values(obj, wanted)
        if source is None
        else _cast_array(source, wanted)
    )
    made = made if device is None else to(made, find_device(device))
    # Any conversion or move has made a new buffer by now.
    if copy is False and made is not source:
        call = f"asarray({type(obj).__name__})"
        raise OptionError("the result needs a copy", "Use copy=None", call)
    return copying.deepcopy(made) if copy and made is source else made


def _cast_array(x: Tensor, dtype: DType | None) -> Any:
    return x if dtype in (None, x.dtype) else astype(x, dtype)


def _tensor_of_values(values: object, dtype: DType | None) -> Any:
    """Convert Python values, or an array in foreign byte order, to a tensor."""
    if isinstance(values, np.ndarray):
        return _cast_array(from_numpy(values), dtype)
    found, buffer = typed_array(values, element(dtype, None))
    return leaf(found).wrap(buffer)


def _share(obj: Any) -> Tensor | None:
    """Return a tensor that shares the memory of `obj`, or None if that fails."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, (np.ndarray, np.generic)):
        # Element types are in native byte order, so another order must be converted.
        return from_numpy(obj) if obj.dtype.isnative else None
    require_plain(obj)
    if hasattr(obj, "__dlpack__"):
        return _import_dlpack(obj)
    if hasattr(type(obj), "__cuda_array_interface__"):
        return _import_from(find_device("cuda"), obj, f"asarray({type(obj).__name__})")
    if hasattr(obj, "__array__") or hasattr(obj, "__array_interface__"):
        return _share(read_array(obj))
    try:
        # Other objects may still have a buffer, such as bytes and array.array.
        return from_numpy(memoryview(obj))
    except TypeError:
        return None


@explain_wrong_calls
def from_dlpack(
    x: object, /, *, device: Device | str | None = None, copy: bool | None = None
) -> Any:
    """Return a tensor that shares the memory of another library's array.

    Args:
        x: an array with `__dlpack__`, in the memory of the host or of a GPU.
        device: where the tensor lives; by default where `x` is.
        copy: as in `asarray`.

    Raises:
        ExchangeError: the memory of `x` cannot be shared.
        DeviceError: `x` is on a GPU, and CUDA cannot be used here.
        OptionError: `copy` is False, but `device` is another device.
        ProtocolError: `x` does not have `__dlpack__`.

    Example:
        >>> import mdtensor as md, numpy as np
        >>> md.from_dlpack(np.asarray([1, 2], np.int8)).tolist()
        [1, 2]

    Source: array API 2024.12, `from_dlpack`.
    """
    if not hasattr(x, "__dlpack__"):
        call = f"from_dlpack({type(x).__name__})"
        raise ProtocolError("the array does not have __dlpack__", "Use asarray", call)
    shared = x if isinstance(x, Tensor) else _import_dlpack(x)
    return asarray(shared, device=device, copy=copy)


def _import_dlpack(x: object) -> Tensor:
    call = f"from_dlpack({type(x).__name__})"
    # A class also has the attribute __dlpack__, but is not an array.
    if isinstance(x, type):
        raise ProtocolError(
            f"expected an array, got the class {x.__name__}", "Pass an instance", call
        )
    checked("from_dlpack", (x,), lambda: require_plain(x))
    kind, number = getattr(x, "__dlpack_device__", lambda: (HOST, 0))()
    place = next((d for d in devices() if d.dlpack == (int(kind), number)), None)
    if kind != HOST and not (place is not None and place.shares_memory):
        problem = f"the array is on DLPack's device ({int(kind)}, {number})"
        raise ExchangeError(problem, "Move it to the host first", call)
    if kind != HOST:
        return _import_from(place, x, call)
    try:
        array = interop.import_array(x)
    except (BufferError, RuntimeError, TypeError, AttributeError) as error:
        raise _unshared(error, call) from error
    return from_numpy(array)


def _import_from(place: Any, x: object, call: str) -> Tensor:
    """Return a tensor in the memory that an array has on a device."""
    try:
        buffer, dtype = interop.import_from(place, x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise _unshared(error, call) from error
    return leaf(dtype, place).wrap(buffer)


def _unshared(error: Exception, call: str) -> ExchangeError:
    problem = f"the memory of the array cannot be shared: {str(error).rstrip('.')}"
    return ExchangeError(problem, "", call)
