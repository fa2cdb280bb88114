"""softmax and log_softmax."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.spec.elementwise import along


@generic(deduce=along, category="activation")
def softmax(x: Any, /, *, axis: int = -1, out: Any = None, rounding: Any = None) -> Any:
    """Return exp(x) / sum(exp(x)) along `axis`, shifted to avoid overflow.

    Args:
        x: any shape, floating or quantized.
        axis: the axis that sums to one.
        out, rounding: grid and rounding rule of a quantized result; the exact
            quotient rounds once.

    Example:
        >>> import mdtensor as md
        >>> md.softmax(md.asarray([0.0, 0.0])).tolist()
        [0.5, 0.5]

    Source: ONNX `Softmax`.
    """


@generic(deduce=along, category="activation")
def log_softmax(x: Any, /, *, axis: int = -1) -> Any:
    """Return log(softmax(x)) along `axis`, without underflow.

    Args:
        x: any shape, floating.
        axis: the axis whose exponentials sum to one.

    Example:
        >>> import mdtensor as md
        >>> md.log_softmax(md.asarray([0.0, 1000.0])).tolist()
        [-1000.0, 0.0]

    Source: ONNX `LogSoftmax`; PyTorch, `torch.nn.functional.log_softmax`.
    """
