"""Bytes of packed weights by ISA: what kernels read of the constants of a step.

The modules of `mdtensor.kernels.cpu` called `packing` write them; a test compares both.
"""

from collections.abc import Callable
from typing import NamedTuple

#: Columns of a panel; biases have whole panels on every ISA.
PANEL = 16


def round_up(number: int, unit: int) -> int:
    """Return the least multiple of `unit` that is at least `number`."""
    return -(-number // unit) * unit


def padded_columns(n: int) -> int:
    """Return the columns of whole panels."""
    return round_up(n, PANEL)


class Packing(NamedTuple):
    """Sizes of one ISA.

    Args:
        products: bytes of packed weights of n columns and k rows.
        columns: the same for a product of two activations, which has whole panels.
        depthwise: bytes of packed weights of c channels and a window, or of weights
            in two parts, if the ISA splits those of more than 8 bits.
        pitch: bytes from one row of k codes to the next.
        has_windows: whether products of windows of floats are compiled.
    """

    products: Callable[[int, int], int]
    columns: Callable[[int, int], int]
    depthwise: Callable[[int, int, int], tuple[int, ...]]
    pitch: Callable[[int], int]
    has_windows: bool


def _generic_products(n: int, k: int) -> int:
    return 4 * round_up(k, 4) * padded_columns(n)


def _generic_depthwise(c: int, kernel_h: int, kernel_w: int) -> tuple[int, ...]:
    return (4 * round_up(kernel_h * kernel_w, 3) * round_up(256, c),)


def _avx2_products(n: int, k: int) -> int:
    return round_up(k, 4) * round_up(n, 8)


def _avx2_columns(n: int, k: int) -> int:
    # Four bytes of each column are for the terms of rows.
    return (round_up(k, 4) + 4) * padded_columns(n)


def _avx2_depthwise(c: int, kernel_h: int, kernel_w: int) -> tuple[int, ...]:
    return (2 * (round_up(c, 8) // 8) * (kernel_h // 2 + 1) * kernel_w * 32,)


def _dot_products(n: int, k: int) -> int:
    return round_up(k, 4) * padded_columns(n)


def _word_products(n: int, k: int) -> int:
    # Weights are 16-bit words.
    return 2 * _dot_products(n, k)


def _neon_products(n: int, k: int) -> int:
    # Each column starts with the sum of its weights.
    return (round_up(k, 4) + 4) * padded_columns(n)


def _dot_depthwise(c: int, kernel_h: int, kernel_w: int) -> tuple[int, ...]:
    blocks, part = round_up(c, 64) // 64, kernel_h * (kernel_w + 3)
    return tuple(256 * blocks * (count * part + 1) for count in (1, 2))


#: The sizes of each ISA. Those with AVX-512 do not multiply windows of floats.
PACKINGS = {
    "generic": Packing(
        *(_generic_products, _generic_products, _generic_depthwise),
        *(lambda k: k, True),
    ),
    "avx2": Packing(
        *(_avx2_products, _avx2_columns, _avx2_depthwise),
        *(lambda k: round_up(k, 4), True),
    ),
    "avxvnni": Packing(
        *(_dot_products, _dot_products, _avx2_depthwise),
        *(lambda k: round_up(k, 4), True),
    ),
    "avx512": Packing(
        *(_word_products, _word_products, _avx2_depthwise),
        *(lambda k: round_up(k, 4), False),
    ),
    "vnni": Packing(
        *(_dot_products, _dot_products, _dot_depthwise),
        *(lambda k: k, False),
    ),
    "neon": Packing(
        *(_neon_products, _neon_products, _dot_depthwise),
        *(lambda k: k, True),
    ),
}
