"""What methods of several operands check and convert before a kernel runs."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Union

import numpy as np

from mdtensor import dtypes
from mdtensor.device import cpu
from mdtensor.dtypes import DType
from mdtensor.errors import (
    DeviceError,
    OptionError,
    PromotionError,
    ShapeError,
    checked,
    describe,
    shown,
)
from mdtensor.kernels.numpy import float16, ufunc as kernel
from mdtensor.kernels.numpy.conversion import element
from mdtensor.kernels.numpy.runtime import runner
from mdtensor.kernels.numpy.threads import LARGE
from mdtensor.promotion import (
    DEFAULT,
    RuleSet,
    current,
    fit_scalar,
    is_weak,
    result_type,
    shortened,
    with_scalar,
)
from mdtensor.spec.elementwise import (
    check_bits,
    check_fractions,
    check_number,
    one_tensor,
)
from mdtensor.spec.shapes import Dim, broadcast_shapes
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor, leaf, leaves
from mdtensor.types import (
    BoolTensor,
    ComplexTensor,
    FloatingTensor,
    LogicalTensor,
    NumericTensor,
    RealTensor,
)

# plum wants typing.Union: beartype caches `A | B` by its repr.
#: Tensors whose elements are plain numbers or truth values.
Dense = Union[NumericTensor, LogicalTensor]
#: Tensors of numbers with a fraction.
Inexact = Union[FloatingTensor, ComplexTensor]
#: What arithmetic takes: tensors and weak Python numbers.
Operand = Union[NumericTensor, LogicalTensor, int, float, complex]
#: As `Operand`, where the order of numbers matters.
Real = Union[RealTensor, LogicalTensor, int, float]

#: Host leaves of numbers that go to NumPy's ufuncs as they are.
PLAIN = frozenset(
    kind
    for kind in leaves()
    if issubclass(kind, NumericTensor)
    and kind.device is cpu
    and not kernel.is_narrow(kind.dtype.storage)
)
#: How many deductions are kept.
DEDUCTIONS = 4096
_DEDUCTIONS: dict[Any, Any] = {}
ndarray, new = np.ndarray, object.__new__


def on_host(name: str, *arguments: Any) -> None:
    """Refuse operands that do not live on one device, or not on the host.

    Raises:
        DeviceError: they do not.
    """
    for x in arguments:
        if isinstance(x, Tensor) and x.device is not cpu:
            return _refuse(name, arguments)


def _refuse(name: str, arguments: tuple[Any, ...]) -> None:
    homes = {x.device.name: x for x in arguments if isinstance(x, Tensor)}
    if len(homes) > 1:
        first, second = list(homes)[:2]
        raise DeviceError(
            f"operands are on {first} and {second}",
            "Move one with to(device)",
            describe(name, *arguments),
        )
    raise DeviceError(
        f"no method for {next(iter(homes))} yet",
        "Move the operands with to(cpu)",
        describe(name, *arguments),
    )


def spec(x: Any) -> Any:
    """A tensor without its elements; anything else as it is."""
    return TensorSpec(type(x), x.shape) if isinstance(x, Tensor) else x


def deduced(operation: Any, *arguments: Any, **options: Any) -> Any:
    """What the operation declares for the arguments: type and shape of the result.

    It is kept by rules, types, shapes and options; errors are not.

    Raises:
        MdtensorError: they do not fit each other, or do not live on the host.
    """
    try:
        given = (*arguments, *options.values())
        key = operation, current(), *options, *map(type, given), *map(_known, given)
        found = _DEDUCTIONS.get(key)
    except (TypeError, RecursionError):  # a tensor inside a tuple has no hash
        return _deduce(operation, arguments, options)
    if found is None:
        if len(_DEDUCTIONS) >= DEDUCTIONS:
            _DEDUCTIONS.clear()
        found = _DEDUCTIONS[key] = _deduce(operation, arguments, options)
    return found


def _deduce(operation: Any, arguments: Any, options: dict[str, Any]) -> Any:
    if not hasattr(operation, "operation"):
        raise OptionError(f"{shown(operation)} is no operation", "See md.operations()")
    on_host(operation.__name__, *arguments)
    _refuse_names(operation, arguments, options)
    given = tuple(x for x in arguments if x is not None)
    rule = operation.operation.rule
    return checked(
        operation.__name__, given, lambda: rule(*map(spec, arguments), **options)
    )


def _refuse_names(operation: Any, arguments: Any, options: dict[str, Any]) -> None:
    """Refuse sizes that have a name and no number: a call needs all of them."""
    for name, value in options.items():
        parts = value if isinstance(value, (tuple, list)) else (value,)
        if any(isinstance(part, Dim) for part in parts):
            raise OptionError(
                f"{name} is {shown(value)}",
                "Use integers; names are for infer",
                describe(operation.__name__, *arguments),
            )


def _known(value: Any) -> Any:
    """What deduction can see of an argument besides its type.

    1, 1.0 and True are told apart, inside a sequence as well.
    """
    if isinstance(value, Tensor):
        return value.buffer.shape
    if isinstance(value, (tuple, list)):
        return *map(type, value), *map(_known, value)
    return value


def unary(operation: Any, ufunc: Any, x: Tensor) -> Tensor:
    """A tensor of the type of x, computed by NumPy's `ufunc`.

    Raises:
        DeviceError: x does not live on the host.
    """
    if x.device is not cpu:
        on_host(operation.__name__, x)
    return x.wrap(kernel.unary(ufunc, x.buffer))


def predicate(operation: Any, ufunc: Any, x: Tensor) -> Tensor:
    """Truth values, computed by NumPy's `ufunc`.

    Raises:
        DeviceError: x does not live on the host.
    """
    on_host(operation.__name__, x)
    return x.with_dtype(dtypes.bool_).wrap(kernel.predicate(ufunc, x.buffer))


def binary(operation: Any, ufunc: np.ufunc, x1: Any, x2: Any) -> Tensor:
    """A tensor of the promoted type of numbers, computed by NumPy's `ufunc`.

    Raises:
        ShapeError, PromotionError, CastError, DeviceError: see `add`.
    """
    a, b, kind = joint_numbers(operation, x1, x2)
    if not _is_short(kind, a, b):
        found = kernel.binary(ufunc, a, b, kind.dtype.storage)
        if kind not in PLAIN:
            return kind.wrap(found)
        cast: Tensor = new(kind)
        cast.buffer = found
        return cast
    try:
        found = runner()(ufunc, a, b)  # nothing to cast
    except (LookupError, RuntimeError, ValueError):  # see quiet; or no broadcast
        a, b, kind = joint(operation, x1, x2)
        found = kernel.binary(ufunc, a, b, kind.dtype.storage)
    result: Tensor = new(kind)
    result.buffer = found if type(found) is ndarray else np.asarray(found)
    return result


def _is_short(kind: type[Tensor], a: Any, b: Any) -> bool:
    """Whether NumPy takes both as they are, and no thread would help."""
    is_same = a.dtype is b.dtype is kind.dtype.storage and kind in PLAIN
    return is_same and a.size < LARGE and b.size < LARGE


def binary_inexact(operation: Any, ufunc: np.ufunc, x1: Any, x2: Any) -> Tensor:
    """As `binary`; the promoted type is floating or complex."""
    # mypy takes the instances' lack of a hash for the classes'.
    result = _host_leaf(current(), type(x1), type(x2))  # type: ignore[arg-type]
    if result is None or not issubclass(result, (FloatingTensor, ComplexTensor)):
        joint_inexact(operation, x1, x2)
    return binary(operation, ufunc, x1, x2)


def joint_numbers(operation: Any, x1: Any, x2: Any) -> tuple[Any, Any, type[Tensor]]:
    """As `joint`; the promoted type is of numbers."""
    a, b, result = joint(operation, x1, x2)
    if result is BoolTensor:
        checked(operation.__name__, (x1, x2), partial(check_number, result.dtype))
    return a, b, result


def joint_bits(operation: Any, x1: Any, x2: Any) -> tuple[Any, Any, type[Tensor]]:
    """As `joint`; the promoted type is bool or an integer."""
    a, b, result = joint(operation, x1, x2)
    checked(operation.__name__, (x1, x2), partial(check_bits, result.dtype))
    return a, b, result


def joint_inexact(operation: Any, x1: Any, x2: Any) -> tuple[Any, Any, type[Tensor]]:
    """As `joint`; the promoted type is floating or complex."""
    a, b, result = joint(operation, x1, x2)
    checked(operation.__name__, (x1, x2), partial(check_fractions, result.dtype))
    return a, b, result


def joint(operation: Any, x1: Any, x2: Any) -> tuple[Any, Any, type[Tensor]]:
    """Buffers of two operands that broadcast, and the leaf of their promoted type.

    A Python scalar becomes a 0-d array of the promoted type.

    Raises:
        ShapeError, PromotionError, CastError, DeviceError: see `add`.
    """
    # mypy takes the instances' lack of a hash for the classes'.
    result = _host_leaf(current(), type(x1), type(x2))  # type: ignore[arg-type]
    if result is not None:
        a, b = _plain(x1, result.dtype), _plain(x2, result.dtype)
        if a is not None and b is not None and _is_joint(a.shape, b.shape):
            return a, b, result
    name = operation.__name__
    on_host(name, x1, x2)

    def rule() -> tuple[Any, Any, type[Tensor]]:
        a_shape, b_shape = getattr(x1, "shape", ()), getattr(x2, "shape", ())
        if a_shape != b_shape:
            broadcast_shapes(a_shape, b_shape)
        tensor, dtype = one_tensor(x1, x2), result_type(x1, x2)
        a, b = number(x1, dtype), number(x2, dtype)
        return a, b, tensor.with_dtype(dtype)

    return checked(name, (x1, x2), rule)


@cache
def _host_leaf(rules: RuleSet, a: type, b: type) -> type[Tensor] | None:
    """The leaf of a host tensor and another or a Python number; None if unsure.

    `rules` are those in force; they are the cache's key.
    """
    tensors = [x for x in (a, b) if issubclass(x, Tensor) and x.device is cpu]
    numbers = [x for x in (a, b) if x in (bool, int, float)]
    if not tensors or len(tensors) + len(numbers) != 2:
        return None
    try:
        dtype = result_type(*tensors)
        return leaf(with_scalar(dtype, numbers[0]) if numbers else dtype)
    except PromotionError:
        return None


def _plain(operand: Any, dtype: DType) -> Any:
    """The buffer of a tensor or of a number inside the range of `dtype`, else None."""
    if isinstance(operand, Tensor):
        return operand.buffer
    if not dtype.minimum <= operand <= dtype.maximum:
        return None
    if type(operand) is float:
        if dtype.is_integer or dtype.storage.isbuiltin == 2:  # NumPy rounds to it twice
            return None
    elif not -(2**53) <= operand <= 2**53:  # would go through float64, rounded twice
        return None
    return np.asarray(operand, dtype.storage)


def _is_joint(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether shapes are equal, or one is of a single number; others want a check."""
    return a == b or not a or not b


def number(operand: Any, dtype: DType) -> Any:
    """The buffer of a tensor, or a Python number as a 0-d array of `dtype`."""
    if isinstance(operand, Tensor):
        return operand.buffer
    value = shortened(fit_scalar(operand, dtype), dtype)
    return element(value, dtype.storage)


def measured(operation: Any, *operands: Any) -> list[Any]:
    """Buffers to compare as they are; a Python number takes the promoted type.

    Raises:
        CastError: that type cannot hold the number.
    """

    def rule() -> list[Any]:
        weak = any(map(is_weak, operands))
        # What is neither tensor nor weak is NumPy's float64, which passes as a float.
        joint = result_type(*operands) if weak else dtypes.float64
        return [number(x, joint) for x in operands]

    return checked(operation.__name__, operands, rule)


def compared(operation: Any, x1: Any, x2: Any) -> tuple[Any, Any]:
    """Operands to compare; a float scalar meets floats in their type.

    An integer scalar is not rounded; among floats, up to 64 bits.
    """
    if _is_alike(x1, x2):
        return x1.buffer, x2.buffer
    name = operation.__name__
    on_host(name, x1, x2)
    if not (isinstance(x1, Tensor) or isinstance(x2, Tensor)):
        checked(name, (x1, x2), lambda: one_tensor(x1, x2))
    a, b = _compared(x1, x2), _compared(x2, x1)
    shapes = [getattr(x, "shape", ()) for x in (a, b)]
    checked(name, (x1, x2), lambda: broadcast_shapes(*shapes))
    return a, b


def _is_alike(x1: Any, x2: Any) -> bool:
    """Whether two tensors of the host have one type and one shape."""
    kind = type(x1)
    if kind is not type(x2) or not (kind in PLAIN or issubclass(kind, Tensor)):
        return False
    return kind.device is cpu and bool(x1.buffer.shape == x2.buffer.shape)


def _compared(operand: Any, other: Any) -> Any:
    if isinstance(operand, Tensor):
        return operand.buffer
    if isinstance(operand, int):
        return _compared_integer(operand, other.dtype)
    is_complex = isinstance(operand, complex)
    wide = dtypes.complex128 if is_complex else dtypes.float64
    if is_weak(operand) and (other.dtype.is_floating or other.dtype.is_complex):
        # Comparisons are the same under all rules.
        wide = DEFAULT.weak(other.dtype, "complex" if is_complex else "float") or wide
    return number(operand, wide)


def _compared_integer(value: int, other: DType) -> Any:
    if not (other.is_floating or other.is_complex):
        return int(value)
    if abs(value) <= min(2**other.digits, other.maximum):
        return np.asarray(value, other.storage)
    for dtype in (dtypes.int64, dtypes.uint64):
        if dtype.minimum <= value <= dtype.maximum:
            return np.asarray(value, dtype.storage)
    # An object of Python's own compares exactly with floats, one by one.
    return np.asarray(int(value), object)


# Fast paths for calls whose operands share one host tensor type.


# Host tensors of one type skip promotion, since that took longer than adding small
# arrays (decision 0007).
def fast_path(
    general: Any, operation: Any, ufunc: np.ufunc, result: type[Tensor] | None = None
) -> Callable[..., Any]:
    """Return the `fast_path=` of a method that is `general(operation, ufunc, ...)`.

    Args:
        result: type of the result; by default the type of the operands.
    """

    def choose(kind: type[Tensor], *others: type[Tensor]) -> Any:
        if any(other is not kind for other in others):
            return None
        compute = partial(general, operation, ufunc)
        if kind in PLAIN:
            return (_pair if others else _single)(compute, ufunc, result or kind)
        on_host = issubclass(kind, Tensor) and kind.device is cpu
        is_narrow = on_host and float16.is_narrow(kind.dtype.storage)
        return _narrow(compute, ufunc, result or kind) if others and is_narrow else None

    return choose


def _single(general: Any, ufunc: np.ufunc, kind: Any) -> Callable[..., Any]:
    def run(x: Any, /) -> Any:
        if (a := x.buffer).size >= LARGE:
            return general(x)
        try:
            found = runner()(ufunc, a)
        except (LookupError, RuntimeError):  # see quiet
            return general(x)
        result = new(kind)
        result.buffer = found if type(found) is np.ndarray else np.asarray(found)
        return result

    return run


def _pair(general: Any, ufunc: np.ufunc, kind: Any) -> Callable[..., Any]:
    def run(x1: Any, x2: Any, /) -> Any:
        if (a := x1.buffer).size >= LARGE:
            return general(x1, x2)
        try:
            found = runner()(ufunc, a, x2.buffer)
        except (LookupError, RuntimeError, ValueError):  # see quiet; or no broadcast
            return general(x1, x2)
        result = new(kind)
        result.buffer = found if type(found) is np.ndarray else np.asarray(found)
        return result

    return run


def _narrow(general: Any, ufunc: np.ufunc, kind: Any) -> Callable[..., Any]:
    def run(x1: Any, x2: Any, /) -> Any:
        a, b = x1.buffer, x2.buffer
        if a.shape != b.shape:
            return general(x1, x2)
        result = new(kind)
        result.buffer = float16.binary(ufunc, a, b)
        return result

    return run


# Results of a size that the arguments only name: they may not fit into memory.


def allocated(make: Callable[[], Any], name: str, *arguments: Any) -> Any:
    """`make()`, an array; the operation `name` is called with `arguments`.

    Raises:
        ShapeError: there is not enough memory, or not as many addresses.
    """
    try:
        return make()
    except (MemoryError, OverflowError, ValueError):
        problem, call = (
            "the result does not fit into memory",
            describe(name, *arguments),
        )
        raise ShapeError(problem, "Ask for fewer elements", call) from None
