"""The errors of quantized arithmetic, each with its grids and the way out."""

from typing import Any, NoReturn

from mdtensor import (
    DeviceError,
    GridError,
    OptionError,
    PromotionError,
    Tensor,
    cpu,
)
from mdtensor.errors import describe
from mdtensor.quant.dtypes import qint32
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor


def refuse_mixed(name: str, *arguments: Any) -> NoReturn:
    """Quantized with anything that is not, or with an accumulator."""
    others = [x for x in arguments if not isinstance(x, (QuantizedTensor, type(None)))]
    call = describe(name, *(x for x in arguments if x is not None))
    if any(isinstance(x, Tensor) and x.dtype.is_floating for x in others):
        raise PromotionError(
            "a grid and a float have no common type",
            "Use dequantize(q), or quantize(x, q.qparams)",
            call,
        )
    if any(isinstance(x, Tensor) for x in others):
        raise PromotionError(
            "are these integers codes or numbers",
            "Use q.codes for arithmetic on codes, or QInt8Tensor(codes, qparams)",
            call,
        )
    if others:
        raise PromotionError(
            f"{name} with a Python number is not exact on a grid",
            "Use mul(q, c) with c > 0, or quantize the number",
            call,
        )
    refuse_accumulator(call, *arguments)


def refuse_accumulator(call: str, *arguments: Any) -> NoReturn:
    """What leaves 32 bits; or, in the third place, a bias that is none."""
    if any(x.dtype is qint32 for x in arguments[:2]):
        raise PromotionError(
            "with an accumulator the result would leave 32 bits",
            "Use requantize(acc, out=QParams(...)) first",
            call,
        )
    raise PromotionError(
        "the bias is no accumulator",
        "Use a QInt32Tensor with the scale of x times the scale of w",
        call,
    )


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
