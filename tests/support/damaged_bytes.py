"""Damaged files of any format: bytes changed, cut or doubled, and texts replaced."""

import random

#: Numbers at which readers go wrong, as they stand in binary headers.
NUMBERS = [0, 1, 2, 7, 2**7, 2**8 - 1, 2**16 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]
#: Texts of headers: JSON of safetensors, a literal of .npy, names of types.
TEXTS = [
    *(b"", b"\0", b"\xff\xfe", b"-1", b"1e999", b"NaN", b"null", b"true", b"{}", b"[]"),
    *(b"9" * 30, b"[" * 3000, b"(" * 400, b"'<f4'", b"'|O'", b"'<U9'", b"'<M8[s]'"),
    *(b'"F32"', b'"F64"', b'"I4"', b'"__metadata__"', b"True", b"(2, 3)", b"(-1,)"),
]


def mutate(whole: bytes, rng: random.Random) -> bytes:
    """Change a file at one to three places."""
    data = bytearray(whole)
    for _ in range(rng.randint(1, 3)):
        # Headers come first, and are where a reader decides.
        near = min(len(data), rng.choice([8, 64, 400, len(data)]))
        at = rng.randint(0, max(near - 1, 0))
        match rng.randrange(7):
            case 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                data[at : at + 1] = rng.choice(b"0123456789{}[](),:\"' ab\0").to_bytes()
            case 2:
                size = rng.choice([1, 2, 4, 8])
                number = rng.choice(NUMBERS) % 256**size
                data[at : at + size] = number.to_bytes(size, "little")
            case 3:
                end = min(len(data), at + rng.randint(0, 12))
                data[at:end] = rng.choice(TEXTS)
            case 4:
                del data[at : at + rng.choice([1, 4, 8, 40])]
            case 5:
                del data[rng.randint(0, len(data)) :]
            case _:
                end = at + rng.randint(1, 40)
                data[at:at] = data[at:end]
    return bytes(data)
