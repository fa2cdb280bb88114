"""Operands in WGSL: bindings, and functions that load and store an element.

Elements of 8 and 16 bits are packed in words, and 64-bit numbers are two words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mdtensor.kernels.loops.ir import Loop
from mdtensor.kernels.loops.wgsl_scalars import register_type, word

#: p[0], which is 0: see `keep` in `scalar.wgsl`.
ZERO = "var<private> zero: u32;\n"
STEPS = """\
fn steps(walk: i32, operand: i32, index: i32) -> i32 {
  var i = index;
  var at = 0;
  let jumps = walk + 10 + 8 * operand;
  for (var axis = p[walk + 1] - 1; axis > 0; axis--) {
    let n = p[walk + 2 + axis];
    at += i % n * p[jumps + axis];
    i /= n;
  }
  return at + i * p[jumps];
}
// The same, for a walk of one axis without a look at memory.
fn place(rank: i32, jump: i32, walk: i32, operand: i32, index: i32) -> i32 {
  if (rank == 1) { return index * jump; }
  return steps(walk, operand, index);
}
"""


def operands(loop: Loop) -> str:
    """Return the bindings, and the functions that load and store an element."""
    lines, buffers = [], 0
    for at, one in enumerate(loop.inputs):
        if not one.is_number:
            head = f"@group(0) @binding({buffers}) var<storage, read>"
            lines.append(f"{head} m{at}: array<u32>;\n{_load(at, one.type)}")
            buffers += 1
    bits = np.dtype(loop.type).itemsize * 8
    items = "array<atomic<u32>>" if bits < 32 else "array<u32>"
    head = f"@group(0) @binding({buffers}) var<storage, read_write>"
    lines.append(f"{head} out: {items};\n{_store(loop.type)}")
    head = f"@group(0) @binding({buffers + 1}) var<storage, read>"
    lines.append(f"{head} p: array<i32>;\n")
    return "".join(lines)


def _load(at: int, type: str) -> str:
    bits, kind = np.dtype(type).itemsize * 8, word(type)
    head = f"fn load{at}(i: i32) -> {register_type(type)} {{ return"
    if bits == 64:
        return f"{head} Pair(m{at}[2 * i], m{at}[2 * i + 1]); }}\n"
    if bits == 32:
        return f"{head} bitcast<{kind}>(m{at}[i]); }}\n"
    per = 32 // bits
    whole = f"m{at}[i / {per}]"
    if kind == "i32":
        whole = f"bitcast<i32>({whole})"
    part = f"extractBits({whole}, u32(i % {per}) * {bits}u, {bits}u)"
    if kind == "f32":
        part = f"widen_half({part})"
    return f"{head} {part}{' != 0u' if kind == 'bool' else ''}; }}\n"


def _store(type: str) -> str:
    bits, kind = np.dtype(type).itemsize * 8, word(type)
    head = f"fn store(i: i32, value: {register_type(type)}) {{"
    if bits == 64:
        return f"{head} out[2 * i] = value.x; out[2 * i + 1] = value.y; }}\n"
    if bits == 32:
        return f"{head} out[i] = bitcast<u32>(value); }}\n"
    per = 32 // bits
    # Neighbours in a word belong to other threads, or to other tensors: each thread
    # changes its own bits only, so that their order does not matter.
    item = "u32(value)" if kind in ("bool", "u32") else "bitcast<u32>(value)"
    if kind == "f32":
        item = "half_bits(value)"
    return (
        f"{head}\n  let shift = u32(i % {per}) * {bits}u;\n"
        f"  let own = {2**bits - 1}u << shift;\n"
        f"  atomicAnd(&out[i / {per}], ~own);\n"
        f"  atomicOr(&out[i / {per}], ({item} << shift) & own);\n}}\n"
    )


def known(letter: str, walk: int, count: int) -> str:
    """Return statements that read what a walk says of each operand, before its loop.

    Args:
        letter: begins the names: w for results, f for the elements of a fold.
        walk: where the walk is.
        count: of operands in it.
    """
    lines = [f"  let {letter}rank = p[{walk + 1}];\n  let {letter}count = p[{walk}];\n"]
    for at in range(count):
        lines.append(f"  let {letter}{at} = p[{walk + 10 + 8 * at}];\n")
        if letter == "w":
            lines.append(f"  let b{at} = p[{2 + 2 * at}];\n")
    return "".join(lines)


def outer(fields: dict[str, Any]) -> str:
    """Return where the element of operand `{0}` for result r is."""
    return "b{{0}} + place(wrank, w{{0}}, {w}, {{0}}, r)".format(**fields)


def inner(fields: dict[str, Any]) -> str:
    """Return where the element of operand `{0}` for result r and fold step i is."""
    return "q{{0}} + place(frank, f{{0}}, {f}, {{0}}, i)".format(**fields)


def rows(loaded: Iterable[int], fields: dict[str, Any], indent: str) -> str:
    """Return statements that say where the elements for result r begin."""
    place = outer(fields)
    return "\n".join(f"{indent}let q{at} = {place.format(at)};" for at in loaded)
