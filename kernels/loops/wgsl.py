"""The renderer of loops to WGSL, the language of WebGPU.

It has the loops of `cuda.py`, with the same order of sums. An operand is a binding; the
last binding holds numbers, the first elements of buffers, and walks:

    p[0]                       0, which compilers do not know
    p[2 + 2 k], p[3 + 2 k]     operand k: a number, or the place of its first element
    p[walk ...]                see `walk.py`

WGSL lacks many functions and types: `render` raises `UnsupportedLoopError` for them.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache
from typing import Any

from mdtensor.kernels.loops import wgsl_folds
from mdtensor.kernels.loops.ir import Loop, UnsupportedLoopError
from mdtensor.kernels.loops.kernel import FOLDING, THREADS, Kernel
from mdtensor.kernels.loops.walk import AXES
from mdtensor.kernels.loops.wgsl_memory import STEPS, ZERO, known, operands, outer
from mdtensor.kernels.loops.wgsl_rows import rows_text
from mdtensor.kernels.loops.wgsl_scalars import ALIASES, used
from mdtensor.kernels.loops.wgsl_values import WgslStatements

#: One thread for each element, or for each result; further ones are steps of the grid.
EACH = (
    wgsl_folds.HEAD
    + """\
  for (var r = i32(block.x * {threads}u + lane); r < wcount;
       r += i32(blocks.x * {threads}u)) {{
{inside}
  }}
}}
"""
)
ELEMENTWISE = """\
{body}
    store({target}, {result});"""


# Shapes are arguments, and types that WGSL lacks are pairs of words (decision 0077).
@cache
def render(loop: Loop) -> Kernel:
    """Return the kernel of a loop; its name ends with a hash of its text.

    Raises:
        UnsupportedLoopError: WGSL kernels lack a function or a type of the loop.
    """
    if loop.tile:
        raise UnsupportedLoopError("WGSL kernels do not have tiles")
    if loop.refused is not None:
        raise UnsupportedLoopError("WGSL kernels do not count refused elements")
    text = operands(loop) + STEPS + _body(loop)
    text = ALIASES + ZERO + used(text) + text
    name = f"{loop.title}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    fold = loop.fold, loop.is_serial, loop.is_scan
    rows = bool(loop.before), loop.is_row
    kernel = Kernel(name, text, loop.inputs, loop.type, *fold, loop.title, *rows)
    return replace(kernel, piece=0 if loop.is_among else loop.piece)


def _body(loop: Loop) -> str:
    """Return the function that the threads run."""
    count = len(loop.inputs) + 1
    walk = 2 + 2 * count
    fields: dict[str, Any] = {"w": walk, "f": walk + 2 + AXES * (1 + count)}
    fields |= {"last": count - 1, "threads": THREADS, "known": known("w", walk, count)}
    fields["target"] = outer(fields).format(count - 1)
    if loop.fold is not None or loop.before:
        has_out = loop.is_scan or (bool(loop.before) and not loop.is_row)
        fields["known"] += known("f", fields["f"], count if has_out else count - 1)
    if loop.before:
        return rows_text(loop, {**fields, "threads": FOLDING})
    if loop.fold is not None and not (loop.is_serial or loop.is_scan):
        return wgsl_folds.block(loop, {**fields, "threads": FOLDING})
    if loop.is_scan:
        inside = wgsl_folds.scan(loop, fields)
    elif loop.is_serial:
        inside = wgsl_folds.serial(loop, fields)
    else:
        lines = WgslStatements("    ", outer(fields), locals=loop.locals)
        result = lines.add(loop.value)
        inside = ELEMENTWISE.format(body=lines.text, result=result, **fields)
    return EACH.format(inside=inside, **fields)
