"""Readers of Fourier transforms.

DFT is a fast transform in float64. STFT is a convolution with cosines and sines: a
transform of frames is a layer like others, which runs in a compiled step and can be
quantized.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor.quant.model.onnx.axes import LARGEST, normalize_axis, require_between
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import number, reads

Array = npt.NDArray[Any]
HALF = "Use onesided=1 for real numbers, or for the inverse of complex ones"


def waves(length: int, bins: int, parts: int) -> Array:
    """Return what each number of a signal adds to each number of its transform.

    Args:
        length: the number of samples of a transform.
        bins: the number of frequencies.
        parts: 1 for real samples, 2 for pairs of real and imaginary part.

    Returns:
        float64 [length, parts, bins, 2], of exact multiples of a turn.
    """
    turns = np.outer(np.arange(length), np.arange(bins)) % length
    angles = 2 * np.pi / length * turns
    cosines, sines = np.cos(angles), -np.sin(angles)
    of_real = np.stack([cosines, sines], axis=-1)
    of_imaginary = np.stack([-sines, cosines], axis=-1)
    return np.stack([of_real, of_imaginary][:parts], axis=1)


@reads("DFT")
def dft(g: Builder, op: Operator) -> None:
    """Read DFT along one axis, of real or complex numbers; the inverse divides by n.

    One side holds the frequencies up to the half; the other one is its conjugate.
    """
    shape = g.shape(op.inputs[0])
    parts, axis = _parts(op, shape), _axis(g, op, len(shape))
    is_inverse, is_half = (bool(op.get(n, 0)) for n in ("inverse", "onesided"))
    if is_half and (parts == 2) != is_inverse:
        problem = f"has onesided=1, inverse={int(is_inverse)} for {parts} parts"
        raise op.error(problem, HALF)
    options = {"axis": axis, "n": _length(g, op, shape[axis], is_inverse and is_half)}
    # Waves cancel out: in float32, more than a rounding would be left of them.
    x = g.step(op, "wide", md.astype, op.inputs[0], md.float64)
    if is_half and not is_inverse:
        x = g.step(op, "real", md.squeeze, x, axis=-1)
        y = g.step(op, "spectrum", md.fft.rfft, x, **options)
    else:
        if parts == 1:
            widths = (*[(0, 0)] * (len(shape) - 1), (0, 1))
            x = g.step(op, "both", md.pad, x, pad_width=widths)
        x = g.step(op, "pairs", md.view_as_complex, x)
        transform: Any = md.fft.ifft if is_inverse else md.fft.fft
        if is_half:
            transform = md.fft.irfft
        y = g.step(op, "spectrum", transform, x, **options)
    if is_half and is_inverse:
        y = g.step(op, "parts", md.expand_dims, y, axis=-1)
    else:
        y = g.step(op, "parts", md.view_as_real, y)
    g.call(op, md.astype, y, g.specs[str(op.inputs[0])].dtype)


def _length(g: Builder, op: Operator, size: int, is_full: bool) -> int | None:
    """Return the length of a DFT; None for the size of the axis where that is open.

    Args:
        size: of the axis.
        is_full: the axis holds one half of the frequencies, and the result all.
    """
    length = 2 * (size - 1) if is_full and size >= 0 else size
    if op.input(1) is not None:
        length = int(number(g, op, 1, "dft_length"))
        g.reserve(op, max(length, 0))
    elif size < 0:
        return None
    require_between(op, length, 1, LARGEST, "dft_length")
    return length


def _axis(g: Builder, op: Operator, rank: int) -> int:
    """Return the axis of a DFT, which operator set 20 made an input.

    Raises:
        ModelError: the axis does not exist, or is that of real and imaginary parts.
    """
    axis = op.get("axis", 1)
    if op.opset >= 20:
        axis = -2 if op.input(2) is None else number(g, op, 2, "axis")
    axis = normalize_axis(op, int(axis), rank)
    if axis == rank - 1:
        problem = f"transforms axis {axis}, which holds real and imaginary parts"
        raise op.error(problem, "Use another axis")
    return axis


@reads("STFT")
def stft(g: Builder, op: Operator) -> None:
    """Read STFT: a convolution whose filters are waves, times the window."""
    signal = op.inputs[0]
    shape = g.shape(signal)
    if len(shape) == 2:
        # ONNX Runtime takes real signals without an axis for their parts.
        signal = g.step(op, "real", md.expand_dims, signal, axis=2)
        shape = g.shape(signal)
    if len(shape) != 3:
        raise op.error(f"has a signal of {len(shape)} axes", "Use [batch, samples, 1]")
    if shape[1] < 0:
        raise op.size_error("cuts a dynamic size into frames")
    parts = _parts(op, shape)
    step = int(number(g, op, 1, "frame_step"))
    require_between(op, step, 1, LARGEST, "frame_step")
    window = _window(g, op, shape[1])
    length = len(window)
    is_half = bool(op.get("onesided", 1))
    if is_half and parts == 2:
        raise op.error("has onesided=1 for complex numbers", "Use onesided=0")
    bins = length // 2 + 1 if is_half else length
    g.reserve(op, length, parts, bins, 2)
    factors = waves(length, bins, parts) * window[:, None, None, None]
    filters = factors.transpose(2, 3, 1, 0).reshape(bins * 2, parts, length)
    w = g.new_constant(op, "waves", _stored(g, op, filters))
    x = g.step(op, "channels", md.permute_dims, signal, axes=(0, 2, 1))
    y = g.step(op, "frames", md.conv1d, x, w, None, stride=step)
    y = g.step(op, "rows", md.permute_dims, y, axes=(0, 2, 1))
    frames = 1 + (shape[1] - length) // step
    g.call(op, md.reshape, y, shape=(shape[0], frames, bins, 2))


def _window(g: Builder, op: Operator, samples: int) -> Array:
    """Return the window in float64: ones, if the file only has its length.

    Raises:
        ModelError: there is neither, or they differ, or no frame fits the samples.
    """
    found = None
    if op.input(2) is not None:
        found = g.array(op.input(2))
        if found is None or found.ndim != 1:
            more = " if it is computed from sizes"
            raise op.size_error("needs the window as a constant", more)
    elif op.input(3) is None:
        raise op.error("has neither a window nor a frame_length", "Export it with one")
    length = len(found) if found is not None else 0
    if op.input(3) is not None:
        length = int(number(g, op, 3, "frame_length"))
    require_between(op, length, 1, samples, "frame_length")
    if found is not None and len(found) != length:
        problem = f"has a window of {len(found)} elements, and frame_length={length}"
        raise op.error(problem, "Use one length")
    return np.ones(length) if found is None else found.astype(np.float64)


def _parts(op: Operator, shape: tuple[int, ...]) -> int:
    """Return the size of the last axis: 1 for real numbers, 2 for complex ones.

    Raises:
        ModelError: it has another size.
    """
    if len(shape) < 2 or shape[-1] not in (1, 2):
        raise op.error(
            f"transforms numbers of shape {shape}",
            "The last axis holds the real part, or real and imaginary part",
        )
    return shape[-1]


def _stored(g: Builder, op: Operator, factors: Array) -> Array:
    """Return the factors in the element type of the signal, each rounded once."""
    found: Array = factors.astype(g.specs[str(op.inputs[0])].dtype.storage)
    return np.ascontiguousarray(found)
