"""Readers of Fourier transforms, and of what networks do with complex numbers."""

from __future__ import annotations

from typing import Any

import mdtensor as md
from mdtensor.quant.model.onnx.axes import LARGEST, require_between, require_count
from mdtensor.quant.model.tflite.build import Call, Reading
from mdtensor.quant.model.tflite.operators.table import integers, reads

#: Operators from complex to real numbers.
PARTS: dict[str, Any] = {"COMPLEX_ABS": md.abs, "IMAG": md.imag, "REAL": md.real}


@reads("RFFT2D")
def rfft2d(g: Reading, op: Call) -> None:
    """Read RFFT2D: of the last two axes, which are cut or filled up with zeros."""
    x = g.real(g.rows(op.operand(0)))
    rank = len(g.builder.shape(x))
    if rank < 2:
        raise op.error(f"transforms {rank} axes", "Give it two or more")
    lengths = integers(g, op, 1, "the lengths")
    require_count(op, lengths, 2, "lengths")
    for length in lengths:
        require_between(op, length, 1, LARGEST, "a length")
    g.builder.reserve(op, *g.builder.shape(x)[:-2], *lengths)
    # Sound has one row, and the transform of one row is that of its columns.
    if lengths[0] == 1 == g.builder.shape(x)[-2]:
        g.move(op, md.fft.rfft, x, n=lengths[1], axis=rank - 1)
    else:
        axes = (rank - 2, rank - 1)
        g.move(op, md.fft.rfftn, x, s=lengths, axes=axes)


@reads(*PARTS)
def part(g: Reading, op: Call) -> None:
    """Read the real or imaginary part, or the absolute value."""
    name = op.operand(0)
    is_image = g.has_image(name)
    g.move(op, PARTS[op.kind], g.form(name, is_image), is_image=is_image)
