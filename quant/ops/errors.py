"""The errors of quantized arithmetic, each with its grids and the way out."""

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
    cpu,
    dtype,
    leaf,
)
from mdtensor.errors import checked, describe, grids
from mdtensor.quant.deduction import check_integers
from mdtensor.quant.dtypes import FLOATS, qint32
from mdtensor.quant.grids.combine import check_one_scale
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor

# The ways out that an error names: those alone after which a method is found.
#
# A way brings other types: `dequantize(q)` has float32 where codes were. Methods and
# their deduction are asked whether they take these; nothing is computed.

#: Of matrices, and of images.
SHAPES = ((2, 2), (2, 2, 2, 2))
#: What stands before the operands of an operation and is none.
BEFORE = {"where": (BoolTensor,)}
#: In words, and what becomes of the type of an argument.
Way = tuple[str, Callable[[Any, Any], Any]]


def is_codes(kind: Any) -> bool:
    return issubclass(kind, QuantizedTensor)


def _codes(kind: Any, _: Any) -> Any:
    """The type of `q.codes`."""
    if not is_codes(kind):
        return kind
    return UInt8Tensor if kind.dtype in FLOATS else leaf(dtype(kind.dtype.storage.name))


def _numbers(kind: Any, _: Any) -> Any:
    return Float32Tensor if is_codes(kind) else kind


DEQUANTIZE: Way = ("dequantize(q)", _numbers)
QUANTIZE: Way = (
    "quantize(x, q.qparams)",
    lambda kind, codes: kind if is_codes(kind) else codes,
)
QUANTIZE_NUMBER: Way = ("quantize(asarray(float(c)), q.qparams)", QUANTIZE[1])
CODES: Way = ("q.codes for arithmetic on codes", _codes)
WRAP: Way = ("type(q)(codes, q.qparams)", QUANTIZE[1])
FLOATS_BOTH: Way = ("dequantize(q) beside astype(x, float32)", lambda *_: Float32Tensor)
MAGNITUDES: Way = ("dequantize(q) beside abs(x)", FLOATS_BOTH[1])


def advise(name: str, kinds: Sequence[Any], *ways: Way) -> str:
    """`Use dequantize(q), or quantize(x, q.qparams)`: those that lead on."""
    codes = next(filter(is_codes, kinds))
    found = [
        words
        for words, change in ways
        if _is_taken(name, [change(kind, codes) for kind in kinds])
    ]
    return f"Use {', or '.join(found)}" if found else ""


def _is_taken(name: str, kinds: Sequence[Any]) -> bool:
    """Whether arguments of these types have a result, for some shapes and grids."""
    try:
        kinds = (*BEFORE.get(name, ()), *kinds)
        deduce = getattr(md, name).select(*kinds).deduce
        for shape in SHAPES:
            with suppress(ShapeError):
                deduce(*(_example(kind, shape) for kind in kinds))
    except (DispatchError, PromotionError, CastError):
        return False
    except MdtensorError:  # of grids, or `out=`, which are not those of the call
        return True
    return True


@cache
def _example(kind: Any, shape: tuple[int, ...]) -> Any:
    return kind.spec(shape) if issubclass(kind, Tensor) else kind(1)


#: Operations whose third argument is a bias.
_WITH_BIAS = ("conv2d", "linear")
#: Those that round codes and a Python number to `out=`.
_WITH_NUMBERS = ("add", "sub", "mul", "div", "minimum", "maximum")


def refuse_mixed(name: str, *arguments: Any) -> NoReturn:
    """Quantized with anything that is not, or with an accumulator."""
    given = [x for x in arguments if x is not None]
    raise _mixed(name, arguments).within(describe(name, *given))


def refused(name: str) -> Callable[..., NoReturn]:
    """Return the rule of a method that only refuses, by `refuse_mixed`.

    `Method.is_refusal` reads from it that the method does nothing else.
    """

    def deduce(*specs: Any, **_: Any) -> NoReturn:
        raise _mixed(name, specs)

    deduce.is_refusal = True  # type: ignore[attr-defined]
    return deduce


def _mixed(name: str, given: Sequence[Any]) -> PromotionError:
    """Of tensors or their specs."""
    operands = given[len(BEFORE.get(name, ())) :]
    kinds = [x.type if isinstance(x, TensorSpec) else type(x) for x in operands]
    found = _unlike(name, [kind for kind in kinds if kind is not type(None)])
    return PromotionError(f"{found.problem}{grids(given)}", found.fix)


def _unlike(name: str, kinds: Sequence[Any]) -> PromotionError:
    others = [kind for kind in kinds if not is_codes(kind)]
    tensors = [kind for kind in others if issubclass(kind, Tensor)]
    if complex in others or any(kind.dtype.is_complex for kind in tensors):
        problem = "a grid and a complex number have no common type"
        fix = advise(name, kinds, DEQUANTIZE) or advise(name, kinds, MAGNITUDES)
        return PromotionError(problem, fix)
    if any(kind.dtype.is_floating for kind in tensors):
        return _of_floats(name, kinds, is_bias=others == kinds[2:])
    if any(kind.dtype.is_integer for kind in tensors):
        if name in _WITH_BIAS and others == kinds[2:]:
            return _of_bias("of integers", "QInt32Tensor")
        fix = advise(name, kinds, CODES, WRAP) or advise(name, kinds, FLOATS_BOTH)
        return PromotionError("are these integers codes or numbers", fix)
    if tensors:
        problem = "a truth value is no number"
        return PromotionError(problem, advise(name, kinds, FLOATS_BOTH))
    return _of_a_number(name, kinds) if others else _of_codes(name, kinds[:2])


def _of_floats(name: str, kinds: Sequence[Any], is_bias: bool) -> PromotionError:
    if name in _WITH_BIAS and is_bias:
        return _of_bias("a float", "quantize")
    problem = "a grid and a float have no common type"
    return PromotionError(problem, advise(name, kinds, DEQUANTIZE, QUANTIZE))


def _of_bias(given: str, make: str) -> PromotionError:
    """Of a bias that is no accumulator; `make` takes it and the grid it needs."""
    return PromotionError(
        f"the bias is {given}, codes need an accumulator",
        f"Use {make}(b, QParams(x.qparams.scale * w.qparams.scale, "
        "axis=w.qparams.axis, dtype=qint32))",
    )


def _of_a_number(name: str, kinds: Sequence[Any]) -> PromotionError:
    is_float = any(is_codes(kind) and kind.dtype in FLOATS for kind in kinds)
    fix = "Pass out=QParams(...)"
    if is_float or name not in _WITH_NUMBERS:
        fix = advise(name, kinds, QUANTIZE_NUMBER, DEQUANTIZE)
    return PromotionError(f"{name} with a Python number has no grid to lie on", fix)


def _of_codes(name: str, kinds: Sequence[Any]) -> PromotionError:
    """Of two quantized types; if nothing is wrong with them, of a third one."""
    dtypes = [kind.dtype for kind in kinds]
    if all(dtype in FLOATS for dtype in dtypes):
        problem = f"{name} of scaled floats is on no grid exactly"
        fix = "Use dequantize(x), and quantize the result"
    elif any(dtype in FLOATS for dtype in dtypes):
        problem = "a grid of floats and one of integers have no common type"
        fix = "Use requantize(x, out=QParams(...)) to bring both to one"
    elif qint32 in dtypes:
        problem = f"{name} takes codes of 16 bits or fewer, no accumulators"
        fix = "Use requantize(acc, out=QParams(...)) first"
    else:
        problem = "the bias is no accumulator"
        fix = "Use a QInt32Tensor with the scale of x times the scale of w"
    return PromotionError(problem, fix)


def require_host(name: str, x: Tensor) -> None:
    """Refuse a tensor of another device: grids are on the host so far."""
    if x.device is not cpu:
        raise DeviceError(
            f"no method for {x.device} yet",
            "Move the operands with to(cpu)",
            describe(name, x),
        )


def check_out(name: str, out: Any, *arguments: Any) -> None:
    """Refuse to round to anything but one grid for the whole result."""
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


def require_out(name: str, out: QParams | None, *arguments: Any) -> QParams:
    """`out`, which an operation without an exact result on a grid needs."""
    if out is None:
        raise GridError(
            f"the result is on no grid exactly{grids(arguments)}",
            "Pass out=QParams(...), to which it is rounded once",
            describe(name, *arguments),
        )
    check_out(name, out, *arguments)
    return out


def require_per_tensor(name: str, *xs: Any, beside: Sequence[Any] = ()) -> None:
    """Refuse grids that differ along an axis; those `beside` may."""
    checked(name, (*xs, *beside), lambda: check_one_scale(*xs, others=beside))
