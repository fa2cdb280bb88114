"""What a layer of a network does to each number, and softmax."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch import generic
from mdtensor.generics.rules.elementwise import along, same


@generic(deduce=same)
def relu(x: Any, /, *, out: Any = None) -> Any:
    """max(x, 0); NaN stays NaN.

    Args:
        x: any shape.
        out: grid of a quantized result; without it the grid of `x`.

    Example:
        >>> import mdtensor as md
        >>> md.relu(md.asarray([-1.0, 2.0])).tolist()
        [0.0, 2.0]

    Source: ONNX `Relu`.
    """


@generic(deduce=same)
def relu6(x: Any, /, *, out: Any = None) -> Any:
    """min(max(x, 0), 6).

    Args:
        x: any shape.
        out: grid of a quantized result; without it the grid of `x`.

    Example:
        >>> import mdtensor as md
        >>> md.relu6(md.asarray([-1.0, 2.0, 8.0])).tolist()
        [0.0, 2.0, 6.0]

    Source: PyTorch, `torch.nn.functional.relu6`.
    """


@generic(deduce=same)
def hardsigmoid(
    x: Any, /, *, alpha: float = 1 / 6, beta: float = 0.5, out: Any = None
) -> Any:
    """min(max(alpha · x + beta, 0), 1).

    Args:
        x: any shape, floating or quantized.
        alpha, beta: slope and offset. PyTorch has 1/6, ONNX defaults to 0.2.
        out: grid of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.hardsigmoid(md.asarray([-3.0, 0.0, 3.0])).tolist()
        [0.0, 0.5, 1.0]

    Source: ONNX `HardSigmoid`; PyTorch, `torch.nn.functional.hardsigmoid`.
    """


@generic(deduce=same)
def hardswish(x: Any, /, *, out: Any = None) -> Any:
    """x · min(max(x + 3, 0), 6) / 6.

    Args:
        x: any shape, floating or quantized.
        out: grid of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.hardswish(md.asarray([-4.0, 0.0, 3.0])).tolist()
        [-0.0, 0.0, 3.0]

    Source: ONNX `HardSwish`; Howard et al. 2019, "Searching for MobileNetV3".
    """


@generic(deduce=same)
def sigmoid(x: Any, /, *, out: Any = None) -> Any:
    """1 / (1 + exp(-x)), without overflow.

    Args:
        x: any shape, floating or quantized.
        out: grid of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.sigmoid(md.asarray([0.0])).tolist()
        [0.5]

    Source: ONNX `Sigmoid`.
    """


@generic(deduce=along)
def softmax(x: Any, /, *, axis: int = -1, out: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along `axis`, shifted by the maximum against overflow.

    Args:
        x: any shape, floating or quantized.
        axis: the axis that sums to one.
        out: grid of a quantized result, to which the exact quotient rounds once.

    Example:
        >>> import mdtensor as md
        >>> md.softmax(md.asarray([0.0, 0.0])).tolist()
        [0.5, 0.5]

    Source: ONNX `Softmax`.
    """
