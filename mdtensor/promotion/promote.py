"""Promotion of operands by the active rule set."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from math import frexp, isfinite, ldexp
from numbers import Complex, Number, Real
from types import MappingProxyType
from typing import Any

import numpy as np

from mdtensor import dtypes
from mdtensor.dispatch.settings import add_setting
from mdtensor.dtypes import DType
from mdtensor.errors import (
    CastError,
    OptionError,
    PromotionError,
    RegistrationError,
    shown,
)
from mdtensor.promotion.lattice import ARRAY_API, DEFAULT, STRICT, RuleSet
from mdtensor.promotion.tables import JAX, NUMPY, PYPTO, TORCH
from mdtensor.reloading import Origin, caller_origin, is_reload

# Python numbers as elements.

#: The integer types, from narrow to wide.
_WIDER = (
    dtypes.int8,
    dtypes.uint8,
    dtypes.int16,
    dtypes.uint16,
    dtypes.int32,
    dtypes.uint32,
    dtypes.int64,
    dtypes.uint64,
)


def fit_scalar(value: Any, target: DType) -> Any:
    """Return `value` if an element of type `target` can represent it, else raise.

    Floats and complex numbers represent every number in their range, rounded to
    nearest, and infinities and NaN.

    Raises:
        OptionError: `value` is not a number.
        CastError: `value` is finite and rounds to nothing finite; or `target` is an
            integer type and `value` is fractional, or `target` is real and `value` is
            complex.
    """
    if not isinstance(value, Number):
        raise OptionError(f"{shown(value)} is not a number", "Give a Python number")
    if not target.is_complex and _is_complex(value):
        raise CastError(f"{target} represents real numbers; cannot represent {value}")
    is_exact = target.is_integer or target.kind == "bool"
    if (is_exact and not _is_element(value, target)) or overflows(value, target):
        if target.is_integer and is_fraction(value):
            problem = f"{target} represents integers, and {shown(value)} is not one"
            way = "Round it, or use" if _is_finite(value) else "Use"
            raise CastError(problem, f"{way} astype(x, float64) first")
        wide = wider_type(target, value, value)
        raise CastError(
            f"{target} represents {target.minimum} to {target.maximum}; "
            f"cannot represent {shown(value)}",
            f"Use astype(x, {wide}) first" if wide else "Use a smaller number",
        )
    return value


def _is_finite(value: Any) -> bool:
    try:
        return isfinite(value)
    # A fraction of large integers.
    except OverflowError:
        return True


def is_fraction(value: Any) -> bool:
    """Return whether a real number is not an integer: a fraction, NaN or infinity."""
    try:
        return bool(value != int(value))
    # NaN and infinity do not have an integer.
    except (OverflowError, ValueError):
        return True


def wider_type(narrow: DType, least: Any, most: Any) -> DType | None:
    """Return the narrowest type that represents `narrow` and two numbers; else None.

    Only if no integer type does, it is a floating one, which rounds large integers.

    Example:
        >>> wider_type(dtypes.uint8, -1, 300), wider_type(dtypes.uint64, -1, -1)
        (mdtensor.int16, mdtensor.float64)
    """
    is_float = narrow.is_floating or narrow.is_complex
    for wide in () if is_float or is_fraction(least) else _WIDER:
        low, high = min(narrow.minimum, least), max(narrow.maximum, most)
        if wide.minimum <= low and high <= wide.maximum:
            return wide
    is_wide = narrow.maximum >= dtypes.float64.maximum
    fits = not (is_wide or overflows(least, dtypes.float64))
    return dtypes.float64 if fits and not overflows(most, dtypes.float64) else None


def _is_complex(value: Any) -> bool:
    return isinstance(value, Complex) and not isinstance(value, Real)


def _is_element(value: Any, target: DType) -> bool:
    return bool(target.minimum <= value <= target.maximum and value == int(value))


def overflows(value: Any, target: DType) -> bool:
    """Return whether a floating or complex type rounds a finite number to infinity."""
    if not (target.is_floating or target.is_complex):
        return False
    if _is_complex(value):
        return overflows(value.real, target) or overflows(value.imag, target)
    try:
        size = abs(float(value))
    except OverflowError:
        return True
    # The usual number returns here.
    if size <= target.maximum or not isfinite(size):
        return False
    # Halfway between the largest number and the next step, ties round to even.
    step = ldexp(1.0, frexp(target.maximum)[1] - target.digits)
    # Python integers, because float64 would round the difference of a long one.
    most = int(target.maximum) if isinstance(value, int) else target.maximum
    excess = abs(value) - most
    is_odd = target.maximum / step % 2 == 1
    return bool(excess > step / 2 or (is_odd and excess == step / 2))


def may_overflow(source: DType, target: DType) -> bool:
    """Return whether an integer of one type may be infinite in another.

    Example:
        >>> may_overflow(dtypes.int32, dtypes.float16)
        True
        >>> may_overflow(dtypes.int64, dtypes.float32)
        False
    """
    return source.is_integer and overflows(int(source.maximum), target)


def round_to_odd(value: Any, target: DType) -> Any:
    """Return `value`, or for an integer of more than 53 bits a float that rounds alike.

    The last of its 53 bits is 1 if any lower bit of `value` was 1. So rounding to the
    fewer bits of `target` finds a tie only if `value` is one.

    Source: S. Boldo, G. Melquiond, "When double rounding is odd".
    """
    if not isinstance(value, int) or -(2**53) < value < 2**53:
        return value
    has_fractions = target.is_floating or target.is_complex
    is_narrow = has_fractions and target.maximum < sys.float_info.max
    if not is_narrow:
        return value
    rest = abs(value).bit_length() - 53
    size = abs(value) >> rest
    # The sticky bit: 1 if the shift lost anything.
    size |= size << rest != abs(value)
    return ldexp(-size if value < 0 else size, rest)


# The active rule set.

_ALL = (DEFAULT, STRICT, ARRAY_API, NUMPY, JAX, TORCH, PYPTO)
#: Every rule set by its name.
RULE_SETS = MappingProxyType({rules.name: rules for rules in _ALL})

#: The rule set of this context.
_CURRENT: ContextVar[RuleSet] = ContextVar("mdtensor.promotion", default=DEFAULT)
add_setting(_CURRENT)
#: Returns the active rule set, whose identity can key a cache. Every mixed operation
#: calls it, so it is the variable's own method and not a function around it.
current: Callable[[], RuleSet] = _CURRENT.get


def promotion_rules(name: str) -> AbstractContextManager[RuleSet]:
    """Promote by the named rules inside a `with` block.

    The rules apply to this thread or asynchronous task, and to the tasks that it
    awaits; a new thread starts with the default. Comparisons do not promote, so they
    are the same under all rules, and so are the types of new tensors.

    Args:
        name: `default`, `strict` (no promotion), `array_api` (only what the standard
            defines), or `numpy`, `jax`, `torch`, `pypto` (as these libraries promote).

    Raises:
        OptionError: no rule set has this name.

    Example:
        >>> import mdtensor as md
        >>> x, y = md.asarray([1, 2], dtype=md.int32), md.asarray([0.5])
        >>> x + y
        Float32Tensor[2]([1.5, 2.5])
        >>> with md.promotion_rules("numpy"):
        ...     x + y
        Float64Tensor[2]([1.5, 2.5])
        >>> with md.promotion_rules("strict"):
        ...     x + y
        Traceback (most recent call last):
        mdtensor.errors.PromotionError: add(Int32Tensor[2], Float32Tensor[1]) ...
    """
    found = RULE_SETS.get(name) if isinstance(name, str) else None
    if found is None:
        known = ", ".join(RULE_SETS)
        raise OptionError(
            f"unknown promotion rules {shown(name)}", f"Known are {known}"
        )
    return _in_force(found)


@contextmanager
def _in_force(rules: RuleSet) -> Iterator[RuleSet]:
    token = _CURRENT.set(rules)
    try:
        yield rules
    finally:
        _CURRENT.reset(token)


Types = tuple[DType, ...]

#: Kinds of Python scalars from the lowest to the highest, the order of promotion.
_SCALARS = (bool, int, float, complex)


def promote_types(*types: Any) -> DType:
    """Return the element type to which all of `types` promote.

    By default this is the smallest common type. The order of `types` does not matter,
    except that `pypto` returns the first of float16 and bfloat16.

    Raises:
        PromotionError: the types do not have a common type.
        OptionError: no types are given, or one is not an element type.

    Example:
        >>> promote_types(dtypes.uint8, dtypes.int8)
        mdtensor.int16
        >>> promote_types(dtypes.int32, dtypes.float32)
        mdtensor.float32
    """
    if not types:
        raise OptionError("there are no types", "Give at least one", "promote_types")
    return _common_type(current(), tuple(map(dtypes.dtype, types)))


@lru_cache(maxsize=4096)
def _common_type(rules: RuleSet, types: Types) -> DType:
    different = tuple(dict.fromkeys(types))
    common = different[0] if len(different) == 1 else rules.join(different)
    if common is None:
        raise PromotionError(
            f"{' and '.join(map(str, different))} do not have a common type",
            _cast_of(different),
            rules=_rules_name(rules),
            types=different,
        )
    return common


def _cast_of(types: Types) -> str:
    common = DEFAULT.join(types)
    if common is None:
        choices = [f"astype(x, {t})" for t in reversed(types)]
        return f"Use {' or '.join(choices)} to choose one"
    return f"Use astype(x, {common}){'' if common in types else ' on each'}"


def _rules_name(rules: RuleSet) -> str:
    return "" if rules is DEFAULT else rules.name


def result_type(*arrays_and_dtypes: object) -> DType:
    """Return the element type of an operation on operands, by the active rule set.

    Args:
        arrays_and_dtypes: tensors, element types, and Python scalars. Scalars are
            weak: by default a tensor of their kind or of a higher kind keeps its type.

    Raises:
        PromotionError: a common type does not exist, or all arguments are scalars.

    Example:
        >>> result_type(dtypes.int8, 1), result_type(dtypes.int8, 1.5)
        (mdtensor.int8, mdtensor.float32)
        >>> import mdtensor as md
        >>> result_type(md.ones((2,)), "float16", 1j)
        mdtensor.complex64

    Source: array API 2024.12, `result_type`.
    """
    strong, weak = [], []
    for operand in arrays_and_dtypes:
        if is_weak(operand):
            weak.append(type(operand))
        else:
            strong.append(_dtype_of(operand))
    if weak and not strong:
        raise PromotionError("only Python scalars given", "Make one a tensor")
    if not strong:
        raise PromotionError("nothing given", "Give a tensor or an element type")
    # The cache must not hold a subclass of a number, which may end.
    kinds = sorted(set(map(_kind, weak)), key=_SCALARS.index) if weak else ()
    return _result(current(), tuple(strong), tuple(kinds))


@lru_cache(maxsize=4096)
def _result(rules: RuleSet, strong: Types, weak: tuple[type, ...]) -> DType:
    result = _common_type(rules, strong)
    for scalar in weak:
        result = _with_scalar(rules, result, scalar.__name__)
    return result


def is_weak(operand: object) -> bool:
    """Return whether `operand` is a Python number, and not NumPy's float64."""
    number = isinstance(operand, (int, float, complex))
    return number and not isinstance(operand, np.generic)


def _dtype_of(operand: object) -> DType:
    # A `DType` has an attribute `dtype` for NumPy, so it comes first.
    found = (
        operand if isinstance(operand, DType) else getattr(operand, "dtype", operand)
    )
    if isinstance(found, DType):
        return found
    return dtypes.dtype(found if isinstance(found, np.dtype) else operand)


def _kind(scalar: type) -> type:
    """Return bool, int, float or complex for a Python scalar type or its subclass."""
    # bool comes first in `_SCALARS`, because it is a subclass of int.
    return next(kind for kind in _SCALARS if issubclass(scalar, kind))


def with_scalar(tensor: DType, scalar: type) -> DType:
    """Return the common element type of a tensor and a Python scalar.

    Raises:
        PromotionError: a common type does not exist.

    Example:
        >>> with_scalar(dtypes.float16, float), with_scalar(dtypes.bool_, int)
        (mdtensor.float16, mdtensor.int64)
    """
    return _with_scalar(current(), tensor, _kind(scalar).__name__)


@lru_cache(maxsize=4096)
def _with_scalar(rules: RuleSet, tensor: DType, scalar: str) -> DType:
    result = rules.weak(tensor, scalar)
    if result is None:
        raise PromotionError(
            f"{tensor} and a Python {scalar} do not have a common type",
            _cast_for(rules, tensor, scalar),
            rules=_rules_name(rules),
            types=(tensor,),
        )
    return result


def _cast_for(rules: RuleSet, tensor: DType, scalar: str) -> str:
    wider = DEFAULT.weak(tensor, scalar)
    if wider is not None and rules.weak(wider, scalar) is wider:
        return f"Use astype(x, {wider})"
    if rules.weak(tensor, "int") is tensor and scalar == "bool":
        return "Use int(value)"
    return "Make both tensors of one type"


def can_cast(from_: Any, to: Any, /) -> bool:
    """Return whether promotion can change one element type into another.

    Args:
        from_: an element type or a tensor.
        to: an element type.

    Example:
        >>> can_cast(dtypes.int8, dtypes.int16), can_cast(dtypes.int16, dtypes.int8)
        (True, False)

    Source: array API 2024.12, `can_cast`.
    """
    source, target = _dtype_of(from_), dtypes.dtype(to)
    return source is target or current().join((source, target)) is target


_ADDED: dict[str, Origin] = {}


def add_type(new: DType, *, above: Iterable[Any], below: Iterable[Any]) -> None:
    """Add your own element type to the default rules.

    Args:
        new: the element type.
        above: types that promote to `new`.
        below: types to which `new` promotes.

    Raises:
        RegistrationError: `new` is in the lattice already, a type of `above` or `below`
            is not, or `new` would change the common type of two known types.

    Example:
        >>> import mdtensor as md
        >>> md.add_type(md.int8, above=[md.bool], below=[md.int16])
        Traceback (most recent call last):
        mdtensor.errors.RegistrationError: int8 is in the lattice already. ...
    """
    if not isinstance(new, DType):
        problem, fix = f"{shown(new)} is not an element type", "Make one: DType(...)"
        raise RegistrationError(problem, fix, "add_type")
    origin = caller_origin(1)
    # The module that added the type runs again.
    if new.name in _ADDED and is_reload(_ADDED[new.name], origin):
        return
    DEFAULT.add(new, _element_types("above", above), _element_types("below", below))
    _ADDED[new.name] = origin


def _element_types(name: str, given: Any) -> list[DType]:
    """Return the element types around a new one.

    Raises:
        RegistrationError: `given` is not a list of element types.
    """
    if isinstance(given, (str, type)) or not isinstance(given, Iterable):
        fix = "Give a list of element types"
        raise RegistrationError(f"{name} is {shown(given)}", fix, "add_type")
    try:
        return [dtypes.dtype(one) for one in given]
    except OptionError as error:
        raise RegistrationError(error.problem, error.fix, "add_type") from None
