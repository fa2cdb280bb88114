"""Codes of 4 bits, two a byte: the oracle of `kernels.numpy.int4`.

    byte[i] = code[2i] + 16 · code[2i + 1]     codes modulo 16, low nibble first

Rows are lists of Python integers.
"""


def pack(codes: list[int]) -> list[int]:
    """The bytes of a row of codes; behind an odd number of them, 0."""
    padded = [*codes, 0]
    return [padded[i] % 16 + 16 * (padded[i + 1] % 16) for i in range(0, len(codes), 2)]


def unpack(packed: list[int], count: int, signed: bool) -> list[int]:
    """The first `count` codes in a row of bytes."""
    nibbles = [half for byte in packed for half in (byte % 16, byte // 16)]
    codes = [n - 16 if signed and n > 7 else n for n in nibbles]
    return codes[:count]
