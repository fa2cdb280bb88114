"""Fourier transforms, written as DFT.

Complex values do not exist in files: operators have the real and imaginary parts as a
last axis of size 2 instead. So what `view_as_real` and `view_as_complex` do costs
nothing, squeezed axes are before the parts, and the real and the imaginary part are one
of the two. No other operation on complex numbers can be written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.graph import Node
from mdtensor.quant.model.onnx.write_operators import Sink, emits

#: The operations that read or write complex values and can be written.
OF_PAIRS = frozenset(
    {md.view_as_real, md.view_as_complex, md.squeeze, md.real, md.imag}
    | {md.fft.fft, md.fft.ifft, md.fft.rfft, md.fft.irfft}
)


@emits(md.view_as_real, md.view_as_complex)
def view(sink: Sink, node: Node, inputs: list[str]) -> None:
    sink.result("Identity", inputs)


@emits(md.real, md.imag)
def part(sink: Sink, node: Node, inputs: list[str]) -> None:
    """Write a part of complex numbers, which is an element of the last axis.

    The real part of real numbers is the numbers themselves.
    """
    if sink.specs[node.inputs[0]].dtype.is_complex:
        at = sink.constant(np.int64(node.operation is md.imag))
        sink.result("Gather", [*inputs, at], axis=-1)
    else:
        sink.result("Identity", inputs)


@emits(md.fft.fft, md.fft.ifft, md.fft.rfft, md.fft.irfft)
def transform(sink: Sink, node: Node, inputs: list[str]) -> None:
    options, name = node.options, node.operation.__name__
    if (norm := options.get("norm", "backward")) != "backward":
        problem = (
            f"{name} of node {node.name!r} cannot be written: it has norm={norm!r}"
        )
        raise ModelError(problem, "Use norm='backward', and divide the result")
    rank = sink.specs[node.inputs[0]].ndim
    last = sink.constant(np.array([-1], np.int64))
    x = inputs[0]
    if node.operation is md.fft.rfft:
        x = sink.emit("Unsqueeze", [x, last])
    n = options.get("n")
    given = [x, "" if n is None else sink.constant(np.int64(n))]
    given.append(sink.constant(np.int64(options.get("axis", -1) % rank)))
    is_half = node.operation in (md.fft.rfft, md.fft.irfft)
    is_inverse = node.operation in (md.fft.ifft, md.fft.irfft)
    attributes: dict[str, Any] = {
        "inverse": int(is_inverse),
        "onesided": int(is_half),
    }
    if node.operation is not md.fft.irfft:
        sink.result("DFT", given, **attributes)
        return
    # The result of this one is real.
    made = sink.emit("DFT", given, node.name, **attributes)
    sink.result("Squeeze", [made, last], "")
