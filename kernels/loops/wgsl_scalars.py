"""The functions of `scalar.wgsl`, by name, and the numbers that WGSL computes with.

WGSL has i32, u32, f32 and bool. Narrow integers are computed in 32 bits and wrapped,
64-bit integers and float64 are pairs of words. A text holds the functions that it
calls, and no others: each one that is there costs time to compile.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mdtensor.kernels.loops.ir import UnsupportedLoopError

ALIASES = "alias Pair = vec2<u32>;\nalias Wide = vec4<u32>;\n"
#: The word for a type in names of functions; bfloat16 and complex numbers have none.
#: A float16 is a float32 that has its value: loads widen it, and casts round to it.
WORDS = {"bool": "bool", "float16": "f32", "float32": "f32", "float64": "f64"}
WORDS |= dict.fromkeys(("int8", "int16", "int32"), "i32")
WORDS |= dict.fromkeys(("uint8", "uint16", "uint32"), "u32")
WORDS |= {"int64": "i64", "uint64": "u64"}
PAIRS = ("i64", "u64", "f64")


def word(type: str) -> str:
    """Return the word for an element type.

    Raises:
        UnsupportedLoopError: there is none.
    """
    if type not in WORDS:
        raise UnsupportedLoopError(f"WGSL kernels do not compute {type}")
    return WORDS[type]


def register_type(type: str) -> str:
    """Return the WGSL type that values of an element type have."""
    return "Pair" if word(type) in PAIRS else word(type)


def function(name: str, type: str) -> str:
    """Return the name of a function of an element type.

    Raises:
        UnsupportedLoopError: WGSL kernels do not have it.
    """
    found = f"{name}_{word(type)}"
    if found not in _functions():
        raise UnsupportedLoopError(f"WGSL kernels do not have {name} of {type}")
    return found


def wrapped(type: str, expression: str) -> str:
    """Return a number of 32 bits modulo the number of values of a narrow type."""
    bits = np.dtype(type).itemsize * 8
    is_narrow = word(type) in ("i32", "u32") and bits < 32
    return f"extractBits({expression}, 0u, {bits}u)" if is_narrow else expression


def literal(value: Any, type: str) -> str:
    """Return a constant by its bits: WGSL has no words for NaN and infinities."""
    if type == "bool":
        return "true" if value else "false"
    bits = np.array(value, np.dtype(type))
    if word(type) in PAIRS:
        low, high = bits.reshape(1).view(np.uint32)
        return f"Pair({low}u, {high}u)"
    if word(type) == "f32":
        single = int(bits.astype(np.float32).view(np.uint32))
        return f"from_bits({single}u)"
    unsigned = int(bits) & 0xFFFFFFFF
    return f"{unsigned}u" if word(type) == "u32" else f"bitcast<i32>({unsigned}u)"


def used(text: str) -> str:
    """Return the functions that a text calls, and those that these call, in order."""
    known, waiting = _functions(), [text]
    found: set[str] = set()
    while waiting:
        names = set(re.findall(r"\w+", waiting.pop())) & known.keys()
        waiting += [known[name] for name in names - found]
        found |= names
    return "".join(code for name, code in known.items() if name in found)


@cache
def _functions() -> dict[str, str]:
    """Return all functions and structures by name."""
    source = Path(__file__).with_name("scalar.wgsl").read_text()
    source = re.sub(r"^ *// .*\n", "", source, flags=re.M)
    found, words = {}, [""]
    for part in re.split(r"^(?=//: |fn |struct )", source, flags=re.M)[1:]:
        if part.startswith("//:"):
            words = part[3:].split()
            continue
        for one in words:
            code = _typed(part, one)
            found[code.split()[1].partition("(")[0]] = code
        words = [""]
    return found


def _typed(code: str, word: str) -> str:
    """Return a function with a word in place of T."""
    if not word:
        return code
    code = re.sub(r"(?<=_)T(?=\W|_)|\bT(?=_)", word, code)
    return re.sub(r"\bT\b", "Pair" if word in PAIRS else word, code)
