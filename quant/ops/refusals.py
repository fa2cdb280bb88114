"""The errors of quantized arithmetic, each with both grids and the way out."""

from collections.abc import Iterable
from typing import Any, NoReturn

from mdtensor import GridError, PromotionError, Tensor
from mdtensor.errors import describe
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QInt32Tensor, QuantizedTensor


def refuse_mixed(name: str, *arguments: Any) -> NoReturn:
    """Quantized with anything that is not."""
    others = [x for x in arguments if not isinstance(x, QuantizedTensor)]
    call = describe(name, *arguments)
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
    if any(isinstance(x, QInt32Tensor) for x in arguments):
        raise PromotionError(
            "the product of an accumulator would leave 32 bits",
            "Use requantize(acc, out=QParams(...)) first",
            call,
        )
    raise PromotionError(
        f"{name} with a Python number is not exact on a grid",
        "Use mul(q, c) with c > 0, or quantize the number",
        call,
    )


def refuse_unlike(name: str, *arguments: Any) -> NoReturn:
    """Grids that differ, and no `out=` to bring them together."""
    grids = " and ".join(f"({x.qparams.describe()})" for x in arguments)
    raise GridError(
        f"the grids differ: {grids}",
        "Pass out=QParams(...), or requantize one to the grid of the other",
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


def check_accumulator(name: str, bounds: Iterable[int], *arguments: Any) -> None:
    """Refuse sums of products that could leave 32 bits."""
    worst = max(bounds, default=0)
    if worst >= 2**31:
        raise GridError(
            f"a sum could reach {worst}, beyond 2**31 - 1",
            "Split the inner axis, or use smaller weights",
            describe(name, *arguments),
        )
