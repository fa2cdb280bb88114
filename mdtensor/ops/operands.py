"""Checks and conversions of operands that methods run before a kernel.

`joint` and its kin promote and broadcast two operands; `deduced` infers the result of
any call and caches it. `fast_paths` skips both where types allow it.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, Union

import numpy as np

from mdtensor import dtypes
from mdtensor.device import cpu
from mdtensor.dispatch.classes import lives_on
from mdtensor.dtypes import DType
from mdtensor.errors import (
    DeviceError,
    DispatchError,
    OptionError,
    PromotionError,
    ShapeError,
    checked,
    describe,
    shown,
)
from mdtensor.kernels.numpy import arithmetic, runner, ufunc as kernel
from mdtensor.kernels.numpy.conversion import element
from mdtensor.kernels.numpy.float32 import PAIRS
from mdtensor.kernels.numpy.threads import LARGE
from mdtensor.promotion import (
    DEFAULT,
    RuleSet,
    current,
    fit_scalar,
    is_weak,
    overflows,
    result_type,
    round_to_odd,
    with_scalar,
)
from mdtensor.registry import refuse_devices
from mdtensor.spec.elementwise import (
    check_bits,
    check_fractions,
    check_number,
    one_tensor,
    quotient_type,
)
from mdtensor.spec.shapes import Dim, broadcast_shapes
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import ON_RELOAD, Tensor, leaf, leaves
from mdtensor.types import (
    BoolTensor,
    ComplexTensor,
    FloatingTensor,
    IntegerTensor,
    LogicalTensor,
    NumericTensor,
    RealTensor,
)

# plum needs typing.Union: beartype caches `A | B` by its repr.
#: Tensors whose elements are plain numbers or bools.
Dense = Union[NumericTensor, LogicalTensor]
#: Tensors of floating or complex numbers.
Inexact = Union[FloatingTensor, ComplexTensor]
#: Operands of arithmetic: tensors and weak Python numbers.
Operand = Union[NumericTensor, LogicalTensor, int, float, complex]
#: Operands of arithmetic on ordered numbers: as `Operand`, without complex.
Real = Union[RealTensor, LogicalTensor, int, float]

#: Host types of numbers that NumPy's ufuncs accept without a conversion.
PLAIN = frozenset(
    kind
    for kind in leaves()
    if issubclass(kind, NumericTensor)
    and kind.device is cpu
    and not kernel.is_narrow(kind.dtype.storage)
)
#: The largest number of entries in a table.
CACHE_SIZE = 4096
_INFERENCES: dict[Any, Any] = {}
_HOST_LEAVES: dict[Any, type[Tensor] | None] = {}
#: Bounds of the integers that NumPy converts to floats without rounding on the way: its
#: own types through float64, the narrow types of ml_dtypes through float32.
EXACT = (2**53, 2**24)
#: Python numbers that may stand beside real tensors.
NUMBERS = frozenset({bool, int, float})
ndarray, new = np.ndarray, object.__new__


def on_host(name: str, *arguments: Any) -> None:
    """Raise unless all tensors among the arguments are on the host.

    Raises:
        DeviceError: the tensors are on different devices.
        NoMethodError: they are on another device.
    """
    # The usual case returns here without building an error.
    for x in arguments:
        if isinstance(x, Tensor) and x.device is not cpu:
            refuse_devices(name, *arguments)


def spec(x: object) -> Any:
    """Return the spec of a tensor, or any other object unchanged."""
    return TensorSpec(type(x), x.shape) if isinstance(x, Tensor) else x


def deduced(operation: object, *arguments: Any, **options: Any) -> Any:
    """Return the result's type and shape, as the operation infers them.

    Results are cached by promotion rules, types, shapes and options; errors are not.

    Raises:
        MdtensorError: the arguments do not fit each other or are not on the host.
    """
    try:
        given = (*arguments, *options.values())
        values = *map(_cache_key, arguments), *map(_option_key, options.values())
        key = operation, current(), *options, *map(type, given), *values
        found = _INFERENCES.get(key)
    except (TypeError, RecursionError):
        # An option does not have a hash: a list inside a tuple, a 0-d tensor.
        return _deduce(operation, arguments, options)
    if found is None:
        found = _deduce(operation, arguments, options)
        keep(_INFERENCES, key, found)
    return found


def keep(table: dict[Any, Any], key: tuple[Any, ...], found: object) -> None:
    """Enter a result in a table, unless its key names a class that may end."""
    if len(table) >= CACHE_SIZE:
        # Clearing is cheaper than tracking the least recently used entry.
        table.clear()
    if all(map(lives_on, _classes_of(key))):
        table[key] = found


def _classes_of(key: object) -> Iterator[type]:
    if isinstance(key, tuple):
        for part in key:
            yield from _classes_of(part)
    elif isinstance(key, type):
        yield key


def _deduce(operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if not hasattr(operation, "operation"):
        problem = f"{shown(operation)} is not an operation"
        raise OptionError(problem, "See md.operations()")
    on_host(operation.__name__, *arguments)
    _refuse_names(operation, arguments, options)
    # An optional operand that is None would only clutter the call in an error.
    given = tuple(x for x in arguments if x is not None)
    rule = operation.operation.rule
    return checked(
        operation.__name__, given, lambda: rule(*map(spec, arguments), **options)
    )


def _refuse_names(
    operation: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """Raise if a size is a name instead of a number, which only `infer` accepts."""
    for name, value in options.items():
        parts = value if isinstance(value, (tuple, list)) else (value,)
        if any(isinstance(part, Dim) for part in parts):
            raise OptionError(
                f"{name} is {shown(value)}",
                "Use integers; names are for infer",
                describe(operation.__name__, *arguments),
            )


def _cache_key(value: object) -> Any:
    """Return all that inference can see of an argument besides its type.

    The key contains types of elements, because 1, 1.0 and True are equal as keys.
    """
    if isinstance(value, Tensor):
        return value.buffer.shape
    if isinstance(value, (tuple, list)):
        return *map(type, value), *map(_cache_key, value)
    return value


def _option_key(value: object) -> Any:
    """Return the key of an option, whose value counts, not only its shape.

    Raises:
        TypeError: the option is or contains a tensor, which does not have a hash.
    """
    if isinstance(value, (tuple, list)):
        return *map(type, value), *map(_option_key, value)
    hash(value)
    return value


def unary(
    operation: Callable[..., Any], ufunc: Callable[..., Any], x: Tensor
) -> Tensor:
    """Return `ufunc(x)` as a tensor of the type of x.

    Raises:
        DeviceError: x is not on the host.
    """
    if x.device is not cpu:
        on_host(operation.__name__, x)
    return x.wrap(kernel.unary(ufunc, x.buffer))


def predicate(
    operation: Callable[..., Any], ufunc: Callable[..., Any], x: Tensor
) -> Tensor:
    """Return `ufunc(x)` as a tensor of bools.

    Raises:
        DeviceError: x is not on the host.
    """
    on_host(operation.__name__, x)
    return x.with_dtype(dtypes.bool_).wrap(kernel.predicate(ufunc, x.buffer))


def binary(
    operation: Callable[..., Any], ufunc: np.ufunc, x1: object, x2: object
) -> Tensor:
    """Return `ufunc(x1, x2)` as a tensor of the promoted type of numbers.

    Raises:
        ShapeError, PromotionError, CastError, DeviceError: see `add`.
    """
    a, b, kind = joint_numbers(operation, x1, x2)
    if issubclass(kind, ComplexTensor) and _is_real(x1) != _is_real(x2):
        return kind.wrap(_mixed(ufunc, x1, x2, a, b, kind.dtype.storage))
    if not _is_short(kind, a, b) or ufunc in PAIRS:
        found = kernel.binary(ufunc, a, b, kind.dtype.storage)
        if kind not in PLAIN:
            return kind.wrap(found)
        cast: Tensor = new(kind)
        cast.buffer = found
        return cast
    try:
        # Both already have the result's type, so the kernel's cast is not needed.
        found = runner()(ufunc, a, b)
    except (LookupError, RuntimeError, ValueError):
        # The thread's runner is missing or in use, or the shapes do not broadcast.
        a, b, kind = joint(operation, x1, x2)
        found = kernel.binary(ufunc, a, b, kind.dtype.storage)
    result: Tensor = new(kind)
    result.buffer = found if type(found) is ndarray else np.asarray(found)
    return result


def _is_real(x: Any) -> bool:
    dtype = getattr(x, "dtype", None)
    return type(x) in (bool, int, float) if dtype is None else not dtype.is_complex


def _mixed(
    ufunc: np.ufunc, x1: object, x2: object, a: Any, b: Any, storage: Any
) -> Any:
    """Compute with a real and a complex operand; a Python number has been converted."""
    x, y = (
        c.real if _is_real(x) and c.dtype.kind == "c" else c
        for x, c in ((x1, a), (x2, b))
    )
    return arithmetic.mixed(ufunc, x, y, storage)


def _is_short(kind: type[Tensor], a: Any, b: Any) -> bool:
    """Return whether no cast is needed and several threads would not pay off."""
    is_same = a.dtype is b.dtype is kind.dtype.storage and kind in PLAIN
    return is_same and a.size < LARGE and b.size < LARGE


def binary_inexact(
    operation: Callable[..., Any], ufunc: np.ufunc, x1: object, x2: object
) -> Tensor:
    """Compute as `binary` does, if the promoted type is floating or complex."""
    result = _host_leaf(current(), type(x1), type(x2))
    if result is None or not issubclass(result, (FloatingTensor, ComplexTensor)):
        joint_inexact(operation, x1, x2)
    return binary(operation, ufunc, x1, x2)


def quotient(operation: Callable[..., Any], x1: object, x2: object) -> Tensor:
    """Compute x1 / x2 as `binary_inexact` does; also of integers."""
    result = _host_leaf(current(), type(x1), type(x2))
    if result is None or not issubclass(result, IntegerTensor):
        return binary_inexact(operation, np.divide, x1, x2)
    a, b, kind = joint(operation, x1, x2)
    rule = partial(quotient_type, kind.dtype)
    found = kind.with_dtype(checked(operation.__name__, (x1, x2), rule))
    return found.wrap(kernel.binary(np.divide, a, b, found.dtype.storage))


def joint_numbers(
    operation: Callable[..., Any], x1: object, x2: object
) -> tuple[Any, Any, type[Tensor]]:
    """Convert as `joint` does, if the promoted type is a type of numbers."""
    a, b, result = joint(operation, x1, x2)
    # Of all dense types only bool is not a type of numbers.
    if result is BoolTensor:
        checked(operation.__name__, (x1, x2), partial(check_number, result.dtype))
    return a, b, result


def joint_bits(
    operation: Callable[..., Any], x1: object, x2: object
) -> tuple[Any, Any, type[Tensor]]:
    """Convert as `joint` does, if the promoted type is bool or an integer."""
    a, b, result = joint(operation, x1, x2)
    checked(operation.__name__, (x1, x2), partial(check_bits, result.dtype))
    return a, b, result


def joint_inexact(
    operation: Callable[..., Any], x1: object, x2: object
) -> tuple[Any, Any, type[Tensor]]:
    """Convert as `joint` does, if the promoted type is floating or complex."""
    a, b, result = joint(operation, x1, x2)
    checked(operation.__name__, (x1, x2), partial(check_fractions, result.dtype))
    return a, b, result


def joint(
    operation: Callable[..., Any], x1: object, x2: object
) -> tuple[Any, Any, type[Tensor]]:
    """Return the buffers of two operands and the concrete type of their promotion.

    The buffers broadcast. A Python scalar becomes a 0-d array of the promoted type.

    Raises:
        ShapeError, PromotionError, CastError, DeviceError: see `add`.
    """
    result = _host_leaf(current(), type(x1), type(x2))
    if result is not None:
        a, b = _fast_buffer(x1, result.dtype), _fast_buffer(x2, result.dtype)
        if a is not None and b is not None and _is_joint(a.shape, b.shape):
            return a, b, result
    name = operation.__name__
    on_host(name, x1, x2)

    def rule() -> tuple[Any, Any, type[Tensor]]:
        a_shape, b_shape = getattr(x1, "shape", ()), getattr(x2, "shape", ())
        if a_shape != b_shape:
            broadcast_shapes(a_shape, b_shape)
        # The general path: it raises the exact error, or converts what the fast one
        # cannot.
        tensor, dtype = one_tensor(x1, x2), result_type(x1, x2)
        a, b = number(x1, dtype), number(x2, dtype)
        return a, b, tensor.with_dtype(dtype)

    return checked(name, (x1, x2), rule)


def _host_leaf(rules: RuleSet, a: type, b: type) -> type[Tensor] | None:
    """Return the result type of a host tensor and a host tensor or Python number.

    None means that the general path must decide. `rules` are the current promotion
    rules, which only serve as a key of the table.
    """
    key = rules, a, b
    try:
        return _HOST_LEAVES[key]
    except KeyError:
        found = _find_host_leaf(a, b)
    keep(_HOST_LEAVES, key, found)
    return found


def _find_host_leaf(a: type, b: type) -> type[Tensor] | None:
    tensors = [x for x in (a, b) if issubclass(x, Tensor) and x.device is cpu]
    numbers = [x for x in (a, b) if x in (bool, int, float)]
    if not tensors or len(tensors) + len(numbers) != 2:
        return None
    try:
        dtype = result_type(*tensors)
        return leaf(with_scalar(dtype, numbers[0]) if numbers else dtype)
    except (DeviceError, PromotionError):
        return None


ON_RELOAD.extend((_INFERENCES.clear, _HOST_LEAVES.clear))


def _fast_buffer(operand: Any, dtype: DType) -> Any:
    """Return a buffer; None for a number that NumPy would not round correctly."""
    return (
        operand.buffer if isinstance(operand, Tensor) else fast_number(operand, dtype)
    )


def fast_number(operand: Any, dtype: DType) -> Any:
    """Return a 0-d array; None for a number that NumPy would not round correctly."""
    if not dtype.minimum <= operand <= dtype.maximum:
        return None
    is_foreign = dtype.storage.isbuiltin == 2
    if type(operand) is float:
        # NumPy rounds twice on the way to the narrow types of ml_dtypes.
        if dtype.is_integer or is_foreign:
            return None
    elif not -EXACT[is_foreign] <= operand <= EXACT[is_foreign]:
        # Larger integers would go through a float and be rounded twice.
        return None
    return np.asarray(operand, dtype.storage)


def _is_joint(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Return whether shapes broadcast."""
    return a == b or not a or not b or _broadcasts(a, b)


@lru_cache(CACHE_SIZE)
def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        broadcast_shapes(a, b)
    except ShapeError:
        return False
    return True


def number(operand: object, dtype: DType) -> Any:
    """Return the buffer of a tensor, or a Python number as a 0-d array of `dtype`."""
    if isinstance(operand, Tensor):
        return operand.buffer
    value = round_to_odd(fit_scalar(operand, dtype), dtype)
    return element(value, dtype.storage)


def exact_buffers(operation: Callable[..., Any], *operands: Any) -> list[Any]:
    """Return the buffers for an exact comparison; Python numbers are promoted.

    Raises:
        CastError: the promoted type cannot hold the number.
    """

    def rule() -> list[Any]:
        weak = any(map(is_weak, operands))
        # Without weak operands the only number is NumPy's float64, a subclass of float.
        joint = result_type(*operands) if weak else dtypes.float64
        return [number(x, joint) for x in operands]

    return checked(operation.__name__, operands, rule)


def comparison_buffers(
    operation: Callable[..., Any], x1: Any, x2: Any
) -> tuple[Any, Any]:
    """Return the buffers of two operands to compare; round a float to the other type.

    An integer scalar is not rounded, against floats up to 64 bits.
    """
    if _is_alike(x1, x2):
        return x1.buffer, x2.buffer
    name = operation.__name__
    on_host(name, x1, x2)
    if not (isinstance(x1, Tensor) or isinstance(x2, Tensor)):
        checked(name, (x1, x2), lambda: one_tensor(x1, x2))
    a, b = comparison_operand(x1, x2), comparison_operand(x2, x1)
    shapes = [getattr(x, "shape", ()) for x in (a, b)]
    checked(name, (x1, x2), lambda: broadcast_shapes(*shapes))
    return a, b


def _is_alike(x1: Any, x2: Any) -> bool:
    """Return whether both are host tensors of the same type and shape."""
    kind = type(x1)
    if kind is not type(x2) or not (kind in PLAIN or issubclass(kind, Tensor)):
        return False
    return kind.device is cpu and bool(x1.buffer.shape == x2.buffer.shape)


def comparison_operand(operand: object, other: Any) -> Any:
    """Return the buffer of a tensor, or a number to compare exactly with `other`."""
    if isinstance(operand, Tensor):
        return operand.buffer
    if isinstance(operand, int):
        return _comparison_integer(operand, other.dtype)
    is_complex = isinstance(operand, complex)
    wide = dtypes.complex128 if is_complex else dtypes.float64
    if is_weak(operand) and (other.dtype.is_floating or other.dtype.is_complex):
        # The default rules, because comparisons are the same under all rules.
        weak = DEFAULT.weak(other.dtype, "complex" if is_complex else "float")
        # A number beyond the type is larger than all its elements, but not infinite.
        wide = weak if weak and not overflows(operand, weak) else wide
    return number(operand, wide)


def _comparison_integer(value: int, other: DType) -> Any:
    if not (other.is_floating or other.is_complex):
        return int(value)
    if abs(value) <= min(2**other.digits, other.maximum):
        return np.asarray(value, other.storage)
    for dtype in (dtypes.int64, dtypes.uint64):
        if dtype.minimum <= value <= dtype.maximum:
            return np.asarray(value, dtype.storage)
    # Python's integers compare exactly with floats, but one by one.
    return np.asarray(int(value), object)


# Results whose size depends on the values of arguments may not fit into memory.


def allocate(make: Callable[[], Any], name: str, *arguments: Any) -> Any:
    """Return the array of `make()`, for a call of `name` with `arguments`.

    Raises:
        ShapeError: the array does not fit into memory.
    """
    try:
        return make()
    except (MemoryError, OverflowError, ValueError):
        problem, call = (
            "the result does not fit into memory",
            describe(name, *arguments),
        )
        raise ShapeError(problem, "Ask for fewer elements", call) from None


def not_real(x: Any, name: str) -> DispatchError:
    """Return the error for a tensor whose elements are not real numbers."""
    if hasattr(type(x), "ways"):
        fix = f"Use {' or '.join(words for words, _ in type(x).ways())}"
    elif x.dtype.is_complex:
        fix = "Use real(x), imag(x) or abs(x)"
    else:
        fix = "Use astype(x, int64)" if x.dtype.kind == "bool" else ""
    return DispatchError(f"{name} is not defined for {x.dtype}", fix, describe(name, x))
