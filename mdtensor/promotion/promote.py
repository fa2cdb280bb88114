"""What operands become under the rules in force."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from mdtensor import dtypes
from mdtensor.dtypes import DType
from mdtensor.errors import OptionError, PromotionError, RegistrationError, shown
from mdtensor.promotion.current import current
from mdtensor.promotion.lattice import DEFAULT
from mdtensor.promotion.ruleset import RuleSet

Types = tuple[DType, ...]

#: Kinds of Python scalars from the lowest, the order in which they are met.
_SCALARS = (bool, int, float, complex)


def promote_types(*types: Any) -> DType:
    """The element type to which all of `types` promote.

    The smallest one by default; order never matters, except that `pypto` takes the
    first of float16 and bfloat16.

    Raises:
        PromotionError: there is none.

    Example:
        >>> promote_types(dtypes.uint8, dtypes.int8)
        mdtensor.int16
        >>> promote_types(dtypes.int32, dtypes.float32)
        mdtensor.float32
    """
    return _promoted(current(), tuple(map(dtypes.dtype, types)))


@lru_cache(maxsize=4096)
def _promoted(rules: RuleSet, types: Types) -> DType:
    different = tuple(dict.fromkeys(types))
    common = different[0] if len(different) == 1 else rules.join(different)
    if common is None:
        raise PromotionError(
            f"{' and '.join(map(str, different))} have no common type",
            _cast_of(different),
            rules=_shown(rules),
            types=different,
        )
    return common


def _cast_of(types: Types) -> str:
    common = DEFAULT.join(types)
    if common is None:
        choices = [f"astype(x, {t})" for t in reversed(types)]
        return f"Use {' or '.join(choices)} to choose one"
    return f"Use astype(x, {common}){'' if common in types else ' on each'}"


def _shown(rules: RuleSet) -> str:
    return "" if rules is DEFAULT else rules.name


def result_type(*arrays_and_dtypes: object) -> DType:
    """The element type of an operation on operands, under the rules in force.

    Args:
        arrays_and_dtypes: tensors, element types, and Python scalars. Scalars are
            weak: by default they give way to any tensor of their kind or of a higher
            one.

    Raises:
        PromotionError: there is no common type, or no tensor or type is given.

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
    return _result(current(), tuple(strong), tuple(weak))


@lru_cache(maxsize=4096)
def _result(rules: RuleSet, strong: Types, weak: tuple[type, ...]) -> DType:
    result = _promoted(rules, strong)
    for scalar in sorted({_kind(kind) for kind in weak}, key=_SCALARS.index):
        result = _with_scalar(rules, result, scalar.__name__)
    return result


def is_weak(operand: object) -> bool:
    """Whether it is a Python number; NumPy's float64 only looks like one."""
    number = isinstance(operand, (int, float, complex))
    return number and not isinstance(operand, np.generic)


def _dtype_of(operand: object) -> DType:
    found = getattr(operand, "dtype", operand)
    if isinstance(found, DType):
        return found
    return dtypes.dtype(found if isinstance(found, np.dtype) else operand)


def _kind(scalar: type) -> type:
    """The kind of a Python scalar; a bool is an int as well."""
    return next(kind for kind in _SCALARS if issubclass(scalar, kind))


def with_scalar(tensor: DType, scalar: type) -> DType:
    """The element type of a tensor of type `tensor` that meets a Python scalar.

    Raises:
        PromotionError: there is none.

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
            f"{tensor} and a Python {scalar} have no common type",
            _cast_for(rules, tensor, scalar),
            rules=_shown(rules),
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
    """Whether promotion alone leads from one element type to another.

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


def add_type(new: DType, *, above: Iterable[Any], below: Iterable[Any]) -> None:
    """Let an element type of your own take part in the default rules.

    Args:
        new: the element type.
        above: what becomes `new` when it meets it.
        below: what `new` becomes when it meets it.

    Raises:
        RegistrationError: `new` is there already, a type around it is not, or types
            of the lattice would become something else when they meet.

    Example:
        >>> import mdtensor as md
        >>> md.add_type(md.int8, above=[md.bool], below=[md.int16])
        Traceback (most recent call last):
        mdtensor.errors.RegistrationError: int8 is in the lattice already. It ...
    """
    if not isinstance(new, DType):
        problem, fix = f"{shown(new)} is no element type", "Make one: DType(...)"
        raise RegistrationError(problem, fix, "add_type")
    DEFAULT.add(new, _listed("above", above), _listed("below", below))


def _listed(name: str, given: Any) -> list[DType]:
    """The element types around a new one.

    Raises:
        RegistrationError: no list of them.
    """
    if isinstance(given, (str, type)) or not isinstance(given, Iterable):
        fix = "Give a list of element types"
        raise RegistrationError(f"{name} is {shown(given)}", fix, "add_type")
    try:
        return [dtypes.dtype(one) for one in given]
    except OptionError as error:
        raise RegistrationError(error.problem, error.fix, "add_type") from None
