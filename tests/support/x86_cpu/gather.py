"""Gathers and scatters that the CPU of Bochs does not know.

It takes V', the fifth bit of an index register, for a register that these instructions
do not have, and refuses them. They run with their index in one of the first registers.
Source: Intel SDM volume 2, 2.7.1, table 2-36; VPGATHERDD; VPSCATTERDD.
"""

from typing import NamedTuple

#: Second opcode bytes, in the map 0F 38.
OPCODES = {*range(0x90, 0x94), *range(0xA0, 0xA4)}
EVEX, MAP, MAP_0F38 = 0x62, 0b111, 2
#: Bits that are stored inverted.
HIGH_REGISTER, HIGH_INDEX, HIGHEST_REGISTER, HIGHEST_INDEX = 0x80, 0x40, 0x10, 0x08
#: Bytes of a displacement by `mod`, and those without a base register.
MORE, NO_BASE = {0: 0, 1: 1, 2: 4}, 5
NEEDS_SIB = 4


class Gather(NamedTuple):
    """An instruction with another index.

    Attributes:
        code: its bytes.
        index: the register that holds the index.
        spare: the register that the bytes name in its place.
    """

    code: bytes
    index: int
    spare: int


def gather_before(code):
    """Return the Gather at the end of bytes, or None."""
    for more in sorted(MORE.values()):
        found = _gather(code[len(code) - 7 - more :])
        if found and len(found.code) == 7 + more:
            return found
    return None


def _gather(code):
    """Return the Gather that bytes are, or None."""
    first, registers, _, index, opcode, address, sib = code[:7]
    mode, low = address >> 6, address & 7
    if first != EVEX or registers & MAP != MAP_0F38 or opcode not in OPCODES:
        return None
    if index & HIGHEST_INDEX or low != NEEDS_SIB or mode not in MORE:
        return None
    more = 4 if mode == 0 and sib & 7 == NO_BASE else MORE[mode]
    held = 16 + 8 * (not registers & HIGH_INDEX) + (sib >> 3 & 7)
    data = 16 * (not registers & HIGHEST_REGISTER) + 8 * (not registers & HIGH_REGISTER)
    spare = 1 if data + (address >> 3 & 7) == 0 else 0
    made = bytearray(code[: 7 + more])
    made[1], made[3] = registers | HIGH_INDEX, index | HIGHEST_INDEX
    made[6] = sib & 0b11000111 | spare << 3
    return Gather(bytes(made), held, spare)
