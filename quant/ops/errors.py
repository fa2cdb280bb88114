"""Errors of quantized operations; each names the grids and a fix that works."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NoReturn

import mdtensor as md
from mdtensor import (
    BoolTensor,
    CastError,
    DeviceError,
    DispatchError,
    Float32Tensor,
    GridError,
    MdtensorError,
    OptionError,
    PromotionError,
    ShapeError,
    Tensor,
    TensorSpec,
    UInt8Tensor,
    dtype,
    leaf,
)
from mdtensor.errors import checked, describe, grids
from mdtensor.quant.deduction import check_integers
from mdtensor.quant.dtypes import FLOATS, qint32
from mdtensor.quant.grids.combine import check_one_scale
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor

# An error suggests a fix only if the call has a method afterwards.
#
# A fix changes the types of operands: `dequantize(q)` replaces codes by float32. Shape
# rules decide whether the changed call works, so an error does not compute anything.

#: Shapes to try a fix with: matrices for products, images for convolutions.
SHAPES = ((2, 2), (2, 2, 2, 2))
#: Types of the arguments that come before the operands.
BEFORE = {"where": (BoolTensor,)}
#: A class of tensors or numbers, such as QInt8Tensor or float.
Kind = type[Any]
#: The text of a fix, and what it makes of the type of an argument and of the codes.
Change = tuple[str, Callable[[Kind, Kind], Kind]]


def is_codes(kind: Kind) -> bool:
    """Return whether `kind` is a class of quantized tensors."""
    return issubclass(kind, QuantizedTensor)


def _code_type(kind: Kind, _: Kind) -> Kind:
    """Return the type of `q.codes` if `kind` is quantized, else `kind`."""
    if not is_codes(kind):
        return kind
    return UInt8Tensor if kind.dtype in FLOATS else leaf(dtype(kind.dtype.storage.name))


def _number_type(kind: Kind, _: Kind) -> Kind:
    """Return the type of `dequantize(q)` if `kind` is quantized, else `kind`."""
    return Float32Tensor if is_codes(kind) else kind


DEQUANTIZE: Change = ("dequantize(q)", _number_type)
QUANTIZE: Change = (
    "quantize(x, q.qparams)",
    lambda kind, codes: kind if is_codes(kind) else codes,
)
QUANTIZE_NUMBER: Change = ("quantize(asarray(float(c)), q.qparams)", QUANTIZE[1])
CODES: Change = ("q.codes for arithmetic on codes", _code_type)
WRAP: Change = ("type(q)(codes, q.qparams)", QUANTIZE[1])
FLOATS_BOTH: Change = (
    "dequantize(q) with astype(x, float32)",
    lambda *_: Float32Tensor,
)
MAGNITUDES: Change = (
    "dequantize(q), and abs(x) of the complex operand",
    FLOATS_BOTH[1],
)


def suggest(name: str, kinds: Sequence[Kind], *changes: Change) -> str:
    """Return a fix such as `Use dequantize(q), or q.codes`; '' if nothing helps.

    Args:
        name: the name of the operation.
        kinds: the types of the operands of the call that raises.
        changes: candidates, in the order of the text. The fix has those that make the
            call valid.
    """
    codes = next(filter(is_codes, kinds))
    found = [
        words
        for words, change in changes
        if _has_result(name, [change(kind, codes) for kind in kinds])
    ]
    return f"Use {', or '.join(found)}" if found else ""


def _has_result(name: str, kinds: Sequence[Any]) -> bool:
    """Return whether operands of these types have a result, for some shapes."""
    try:
        kinds = (*BEFORE.get(name, ()), *kinds)
        deduce = getattr(md, name).select(*kinds).deduce
        for shape in SHAPES:
            with suppress(ShapeError):
                deduce(*(_make_example(kind, shape) for kind in kinds))
    except (DeviceError, DispatchError, PromotionError, CastError):
        return False
    # Grids and `out=` belong to the example, not to the call of the user.
    except MdtensorError:
        return True
    return True


@cache
def _make_example(kind: Any, shape: tuple[int, ...]) -> object:
    """Return a spec of a tensor type, or the number 1 of a Python type."""
    return kind.spec(shape) if issubclass(kind, Tensor) else kind(1)


#: Operations whose third argument is a bias.
_WITH_BIAS = ("conv2d", "linear")
#: Operations that round the result of codes and a Python number to `out=`.
_WITH_NUMBERS = ("add", "sub", "mul", "div", "minimum", "maximum")


def refuse_operands(name: str, *arguments: object) -> NoReturn:
    """Raise the error of operands that do not go together.

    Args:
        name: the name of the operation.
        arguments: one or more are quantized; None is a missing bias.

    Raises:
        PromotionError: always.
    """
    given = [x for x in arguments if x is not None]
    raise _operands_error(name, arguments).within(describe(name, *given))


def refusal_rule(name: str) -> Callable[..., NoReturn]:
    """Return the shape rule of a method that only raises, by `refuse_operands`."""

    def deduce(*specs: object, **_: object) -> NoReturn:
        raise _operands_error(name, specs)

    # `Method.is_refusal` reads this: `which` must know that the call fails without
    # running it.
    deduce.is_refusal = True  # type: ignore[attr-defined]
    return deduce


def _operands_error(name: str, given: Sequence[object]) -> PromotionError:
    """Return the error of tensors or specs, with the grids in its text."""
    operands = given[len(BEFORE.get(name, ())) :]
    kinds = [x.type if isinstance(x, TensorSpec) else type(x) for x in operands]
    found = _error_for_kinds(name, [kind for kind in kinds if kind is not type(None)])
    return PromotionError(f"{found.problem}{grids(given)}", found.fix)


def _error_for_kinds(name: str, kinds: Sequence[Kind]) -> PromotionError:
    others = [kind for kind in kinds if not is_codes(kind)]
    tensors = [kind for kind in others if issubclass(kind, Tensor)]
    if complex in others or any(kind.dtype.is_complex for kind in tensors):
        problem = "quantized and complex operands do not have a common type"
        # A complex number is not ordered, so for `less` only its magnitude helps.
        fix = suggest(name, kinds, DEQUANTIZE) or suggest(name, kinds, MAGNITUDES)
        return PromotionError(problem, fix)
    if any(kind.dtype.is_floating for kind in tensors):
        return _float_error(name, kinds, is_bias=others == kinds[2:])
    if any(kind.dtype.is_integer for kind in tensors):
        if name in _WITH_BIAS and others == kinds[2:]:
            return _bias_error("of integers", "QInt32Tensor")
        fix = suggest(name, kinds, CODES, WRAP) or suggest(name, kinds, FLOATS_BOTH)
        problem = "it is ambiguous whether the integers are codes or real values"
        return PromotionError(problem, fix)
    if tensors:
        problem = "bools are not numbers"
        return PromotionError(problem, suggest(name, kinds, FLOATS_BOTH))
    return _number_error(name, kinds) if others else _codes_error(name, kinds[:2])


def _float_error(name: str, kinds: Sequence[Kind], is_bias: bool) -> PromotionError:
    if name in _WITH_BIAS and is_bias:
        return _bias_error("a float", "quantize")
    problem = "quantized and float operands do not have a common type"
    return PromotionError(problem, suggest(name, kinds, DEQUANTIZE, QUANTIZE))


def _bias_error(given: str, make: str) -> PromotionError:
    """Return the error of a bias that is not an accumulator.

    Args:
        given: the kind of bias, in words.
        make: the name of the function that makes an accumulator of a bias and a grid.
    """
    return PromotionError(
        f"the bias must be a QInt32Tensor, but is {given}",
        f"Use {make}(b, QParams(x.qparams.scale * w.qparams.scale, "
        "axis=w.qparams.axis, dtype=qint32))",
    )


def _number_error(name: str, kinds: Sequence[Kind]) -> PromotionError:
    is_float = any(is_codes(kind) and kind.dtype in FLOATS for kind in kinds)
    fix = "Pass out=QParams(...)"
    # 8-bit floats round only in quantize and requantize, so `out=` does not help them.
    if is_float or name not in _WITH_NUMBERS:
        fix = suggest(name, kinds, QUANTIZE_NUMBER, DEQUANTIZE)
    problem = f"the result of {name} with a Python number needs a grid"
    return PromotionError(problem, fix)


def _codes_error(name: str, kinds: Sequence[Kind]) -> PromotionError:
    """Return the error for operands with different quantized types."""
    dtypes = [kind.dtype for kind in kinds]
    if all(dtype in FLOATS for dtype in dtypes):
        problem = f"the result of {name} for 8-bit floats is not exact on any grid"
        fix = "Use dequantize(x), and quantize the result"
    elif any(dtype in FLOATS for dtype in dtypes):
        problem = "8-bit floats and integer codes do not have a common type"
        fix = "Use requantize(x, out=QParams(...)) to give both one type"
    elif qint32 in dtypes:
        problem = f"{name} takes codes of at most 16 bits, not accumulators"
        fix = "Use requantize(acc, out=QParams(...)) first"
    else:
        problem = "the bias must be an accumulator"
        fix = "Use a QInt32Tensor with the scale of x times the scale of w"
    return PromotionError(problem, fix)


def check_out(name: str, out: object, *arguments: object) -> None:
    """Check that `out` is one grid of integers for the whole result.

    Raises:
        OptionError: `out` is not a QParams.
        GridError: `out` has scales along an axis, or 8-bit floats.
    """
    if not isinstance(out, QParams):
        raise OptionError(
            f"out is a {type(out).__name__}",
            "Pass out=QParams(...)",
            describe(name, *arguments),
        )
    checked(name, arguments, lambda: check_integers(out))
    if out.axis is not None:
        raise GridError(
            f"out has scales along axis {out.axis}",
            "Pass out=QParams(...) with one scale",
            describe(name, *arguments),
        )


def require_out(name: str, out: object, *arguments: object) -> QParams:
    """Return `out`, checked, for an operation whose exact result fits no grid.

    Raises:
        GridError: `out` is None, or is not one grid of integers.
        OptionError: `out` is not a QParams.
    """
    if out is None:
        raise GridError(
            f"no grid represents the result exactly{grids(arguments)}",
            "Pass out=QParams(...); the result is rounded to it, once",
            describe(name, *arguments),
        )
    check_out(name, out, *arguments)
    assert isinstance(out, QParams)
    return out


def require_per_tensor(
    name: str, *xs: QuantizedTensor, others: Sequence[QuantizedTensor] = ()
) -> None:
    """Check that each of `xs` has one scale.

    Args:
        name: the name of the operation.
        xs: quantized tensors.
        others: tensors that the error names too; they may have scales along an axis.

    Raises:
        GridError: scales differ along an axis.
    """
    checked(name, (*xs, *others), lambda: check_one_scale(*xs, others=others))
