"""4-bit codes, two in each byte.

    byte[..., i] = code[..., 2i] + 16 · code[..., 2i + 1]     codes modulo 16

The low nibble comes first, along the last axis; after an odd number of codes the high
nibble is 0. An array without axes takes one byte.

    pack      int8 or uint8 [..., n] to uint8 [..., ceil(n / 2)]; any strides
    unpack    uint8 [..., ceil(n / 2)] to int8 or uint8 [..., n]
    choose    one code of each byte

All write new memory.

Source: ONNX, "int4" in docs/docsgen/source/technical.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_BYTES = np.arange(256, dtype=np.uint8)
#: Both codes of each byte.
UNSIGNED = np.stack([_BYTES & 15, _BYTES >> 4], axis=1)
SIGNED = ((UNSIGNED ^ 8) - np.uint8(8)).view(np.int8)


def pack(codes: Array) -> Array:
    """Pack the lower 4 bits of each code into bytes."""
    nibbles = np.asarray(codes.astype(np.uint8) & 15)
    if not codes.ndim:
        return nibbles
    low, high = nibbles[..., ::2], nibbles[..., 1::2]
    packed = np.array(low)
    packed[..., : high.shape[-1]] |= high << 4
    return packed


def unpack(packed: Array, shape: tuple[int, ...], signed: bool) -> Array:
    """Unpack codes of `shape`; int8 if `signed`, else uint8."""
    # One look-up gives both codes of a byte, the sign included.
    # NumPy has at most 64 axes, so the pairs cannot always have one more than bytes.
    pairs = (SIGNED if signed else UNSIGNED)[packed.reshape(-1)]
    if not shape:
        return np.asarray(pairs[0, 0])
    rows = pairs.reshape(*packed.shape[:-1], 2 * packed.shape[-1])
    return np.ascontiguousarray(rows[..., : shape[-1]])


def choose(packed: Array, high: Array, signed: bool) -> Array:
    """Unpack one code of each byte: the second where `high` is 1, else the first."""
    codes = np.where(high, packed >> 4, packed & 15)
    return (SIGNED if signed else UNSIGNED)[:, 0][codes]
