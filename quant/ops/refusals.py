"""The errors of quantized arithmetic, each with its grids and the way out."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mdtensor import (
    DeviceError,
    GridError,
    OptionError,
    PromotionError,
    Tensor,
    TensorSpec,
    cpu,
)
from mdtensor.errors import describe
from mdtensor.quant.dtypes import FLOATS, qint32
from mdtensor.quant.presets import ruled
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor

#: Operations whose third argument is a bias.
_WITH_BIAS = ("conv2d", "linear")
#: Those that round codes and a Python number to `out=`.
_WITH_NUMBERS = ("add", "sub", "mul", "div", "minimum", "maximum")


def refuse_mixed(name: str, *arguments: Any) -> NoReturn:
    """Quantized with anything that is not, or with an accumulator."""
    given = [x for x in arguments if x is not None]
    raise _mixed(name, given).within(describe(name, *given))


def refused(name: str) -> Callable[..., NoReturn]:
    """The rule of deduction of what `refuse_mixed` refuses."""

    def deduce(*specs: Any, **_: Any) -> NoReturn:
        raise _mixed(name, specs)

    return deduce


def _mixed(name: str, given: Sequence[Any]) -> PromotionError:
    """Of tensors or their specs."""
    found = _unlike(
        name, [x.type if isinstance(x, TensorSpec) else type(x) for x in given]
    )
    return PromotionError(f"{found.problem}{_grids(given)}", found.fix)


def _grids(given: Sequence[Any]) -> str:
    """`; the grids are (...) and (...)`, at the end of what is wrong."""
    grids = [x.qparams for x in given if getattr(x, "qparams", None) is not None]
    shown = " and ".join(f"({grid.describe()})" for grid in grids)
    return f"; the grid{'s are' if len(grids) > 1 else ' is'} {shown}" if grids else ""


def _unlike(name: str, kinds: Sequence[Any]) -> PromotionError:
    others = [kind for kind in kinds if not issubclass(kind, QuantizedTensor)]
    tensors = [kind for kind in others if issubclass(kind, Tensor)]
    if any(kind.dtype.is_floating for kind in tensors):
        if name in _WITH_BIAS and others == kinds[2:]:
            return PromotionError(
                "the bias is a float, codes need an accumulator",
                "Use quantize(b, QParams(x.qparams.scale * w.qparams.scale, "
                "axis=w.qparams.axis, dtype=qint32))",
            )
        return PromotionError(
            "a grid and a float have no common type",
            "Use dequantize(q), or quantize(x, q.qparams)",
        )
    if tensors:
        return PromotionError(
            "are these integers codes or numbers",
            "Use q.codes for arithmetic on codes, or QInt8Tensor(codes, qparams)",
        )
    if others:
        return _with_number(name, kinds)
    return _of_codes(name, kinds[:2])


def _with_number(name: str, kinds: Sequence[Any]) -> PromotionError:
    """Of a quantized type and a Python number."""
    if complex in kinds:
        return PromotionError(
            "a grid and a complex number have no common type", "Use dequantize(q)"
        )
    is_float = any(getattr(kind, "dtype", None) in FLOATS for kind in kinds)
    takes_out = name in _WITH_NUMBERS and not is_float
    return PromotionError(
        f"{name} with a Python number is not exact on a grid",
        "Pass out=QParams(...)" if takes_out else "Use dequantize(q)",
    )


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
        problem = "with an accumulator the result would leave 32 bits"
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
            "the result is on no grid exactly",
            "Pass out=QParams(...), to which it is rounded once",
            describe(name, *arguments),
        )
    check_out(name, out, *arguments)
    return out


def require_per_tensor(name: str, *arguments: Any) -> None:
    """Refuse grids that differ along an axis."""
    for x in arguments:
        if x.qparams.axis is not None:
            raise GridError(
                f"scales differ along axis {x.qparams.axis}",
                "Use requantize(x, out=QParams(...)) to one grid first",
                describe(name, *arguments),
            )


def ruled_per_tensor(name: str, out: QParams | None, *arguments: Any) -> Any:
    """What computes by the rule in force, one grid each; None if that is `exact`."""
    found = ruled(name, out)
    if found is not None:
        require_per_tensor(name, *arguments)
    return found
