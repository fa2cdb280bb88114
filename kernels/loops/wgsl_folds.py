"""Folds in WGSL: blocks of threads, single threads, and scans, as in `cuda.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.kernels.loops.bytewise import Bytes, bytes_of
from mdtensor.kernels.loops.ir import FLOATS, Fold, Loop
from mdtensor.kernels.loops.wgsl_memory import inner, outer, rows
from mdtensor.kernels.loops.wgsl_scalars import (
    function,
    literal,
    register_type,
    word,
    wrapped,
)
from mdtensor.kernels.loops.wgsl_values import WgslStatements

HEAD = """\
@compute @workgroup_size({threads})
fn main(@builtin(workgroup_id) block: vec3<u32>,
        @builtin(local_invocation_index) lane: u32,
        @builtin(num_workgroups) blocks: vec3<u32>) {{
  zero = bitcast<u32>(p[0]);
{known}
"""
#: Between two lines no thread waits: only the first one reads partial[0] and writes it.
FOLD = (
    """\
var<workgroup> partial: array<{type}, {threads}>;
"""
    + HEAD
    + """\
  for (var r = i32(block.x); r < wcount; r += i32(blocks.x)) {{
{rows}
    var sum = {start};
    {bounds}
    for (var j = first_i + i32(lane); j < end_i; j += {threads}) {{
      let i = {index};
{body}
      sum = {combined};
    }}
    partial[lane] = sum;
    workgroupBarrier();
    for (var n = {threads}u / 2u; n > 0u; n /= 2u) {{
      if (lane < n) {{ let sum = partial[lane]; partial[lane] = {joined}; }}
      workgroupBarrier();
    }}
    if (lane == 0u) {{
      let total = {total};
{finish}
      store({target}, {result});
    }}
  }}
}}
"""
)
#: The elements that a block folds: a whole line, one of each piece, or one piece.
LINE = "let first_i = 0; let end_i = fcount;"
AMONG = "let first_i = 0; let end_i = (fcount + {0} - 1) / {0};"
PIECE = """\
let first_i = r % ((fcount + {0} - 1) / {0}) * {0};
    let end_i = min(fcount - first_i, {0}) + first_i;"""
SERIAL = """\
{before}
    var sum = {start};
{rows}
    let n = p[{f} + 1 + frank];
    for (var o = 0; o < fcount; o += n) {{
{lines}
      var j = 0;
{quads}
      for (; j < n; j++) {{
{body}
        sum = {combined};
      }}
    }}
    let total = sum;
{finish}
    store({target}, {result});"""
SCAN = """\
{rows}
    var sum = {start};
    for (var i = 0; i < fcount; i++) {{
{body}
      sum = {combined};
      let total = sum;
{finish}
      store(q{last} + place(frank, f{last}, {f}, {last}, i), {result});
    }}"""
#: An element and its place; the first of several equal ones wins, and NaN before all.
FIRST = """\
struct Place {{ value: {type}, at: i32 }}
fn first(x: Place, y: Place) -> Place {{
  if (x.at < 0) {{ return y; }}
  if (y.at < 0) {{ return x; }}
  let nx = {is_nan_x};
  let ny = {is_nan_y};
  if (nx != ny) {{ if (nx) {{ return x; }} return y; }}
  if (nx || {equal}(x.value, y.value)) {{ if (x.at < y.at) {{ return x; }} return y; }}
  if ({wins}) {{ return x; }}
  return y;
}}
"""


def block(loop: Loop, fields: dict[str, Any]) -> str:
    """Return the text of a fold by the threads of a block."""
    text = FOLD.format(**fields, **_block(loop, fields))
    return _first(loop) + text if loop.fold in ("argmax", "argmin") else text


def serial(loop: Loop, fields: dict[str, Any]) -> str:
    """Return the statements of one thread that combines all elements of a result."""
    return SERIAL.format(**fields, **_serial(loop, fields))


def scan(loop: Loop, fields: dict[str, Any]) -> str:
    """Return the statements of one thread that writes each sum on the way."""
    return SCAN.format(**fields, **_scan(loop, fields))


def start_of(loop: Loop | Fold) -> str:
    """Return the value that a fold starts from; -0 leaves every float as it is."""
    type = loop.value.type
    is_float = type in FLOATS
    info: Any = None if is_float or type == "bool" else np.iinfo(type)
    starts = {"add": -0.0 if is_float else 0, "dot": 0, "mul": 1, "bit_or": 0}
    if loop.fold == "maximum":
        return literal(-np.inf if is_float else info.min if info else 0, type)
    if loop.fold == "minimum":
        return literal(np.inf if is_float else info.max if info else 1, type)
    if loop.fold == "bit_and":
        return literal(1 if type == "bool" else info.max if info.min == 0 else -1, type)
    return literal(starts[str(loop.fold)], type)


def combine(loop: Loop | Fold, element: str) -> str:
    """Return the sum so far and an element."""
    type = loop.value.type
    return wrapped(type, f"{function(str(loop.fold), type)}(sum, {element})")


def _block(loop: Loop, fields: dict[str, Any]) -> dict[str, str]:
    """Return the fields of `FOLD`."""
    type = loop.value.type
    body = WgslStatements("      ", inner(fields), locals=loop.locals)
    finish = WgslStatements("      ", outer(fields), locals=loop.locals)
    element = body.add(loop.value)
    result = "total" if loop.finish is None else finish.add(loop.finish)
    common = {"body": body.text, "finish": finish.text, "result": result}
    common |= _bounds(loop)
    common["rows"] = rows(body.loaded, fields, "    ")
    if loop.fold in ("argmax", "argmin"):
        start = f"Place({literal(0, type)}, -1)"
        combined = f"first(sum, Place({element}, i))"
        joined, total = "first(sum, partial[lane + n])", "i64_i32(partial[0].at)"
        made = {"type": "Place", "start": start, "combined": combined}
        return {**common, **made, "joined": joined, "total": total}
    total = total_of(loop, "partial[0]")
    made = {"type": register_type(type), "start": start_of(loop), "total": total}
    joined = combine(loop, "partial[lane + n]")
    return {**common, **made, "combined": combine(loop, element), "joined": joined}


def _bounds(loop: Loop) -> dict[str, str]:
    """Return which elements a block folds, and where the j-th of them is."""
    text = AMONG if loop.is_among else PIECE if loop.piece else LINE
    at = len(loop.inputs) - 1
    place = f"bitcast<i32>(load{at}(b{at} + r * end_i + j).x)"
    index = place if loop.is_among else "j"
    return {"bounds": text.format(loop.piece), "index": index}


def total_of(fold: Loop | Fold, first: str) -> str:
    """Return the result of a block's fold."""
    if fold.fold == "add" and fold.value.type in FLOATS:
        # The sum of nothing is 0; the fold starts from -0.
        return f"select({literal(0, fold.value.type)}, {first}, fcount != 0)"
    return first


def _first(loop: Loop) -> str:
    """Return how the fold chooses one of two places."""
    type = loop.value.type
    is_float = type in FLOATS
    pair = "(y.value, x.value)" if loop.fold == "argmax" else "(x.value, y.value)"
    tests = {
        f"is_nan_{x}": f"isnan_{word(type)}({x}.value)" if is_float else "false"
        for x in "xy"
    }
    wins = f"{function('less', type)}{pair}"
    equal = function("equal", type)
    return FIRST.format(type=register_type(type), wins=wins, equal=equal, **tests)


def _scan(loop: Loop, fields: dict[str, Any]) -> dict[str, str]:
    """Return the fields of `SCAN`."""
    place = inner(fields)
    body = WgslStatements("      ", place)
    finish = WgslStatements("      ", place, "c")
    combined = combine(loop, body.add(loop.value))
    result = "total" if loop.finish is None else finish.add(loop.finish)
    texts = {"body": body.text, "finish": finish.text}
    texts["rows"] = rows(range(fields["last"] + 1), fields, "    ")
    return {**texts, "start": start_of(loop), "combined": combined, "result": result}


def _serial(loop: Loop, fields: dict[str, Any]) -> dict[str, str]:
    """Return the fields of `SERIAL`."""
    type, first = loop.value.type, outer(fields)
    body = WgslStatements("        ", "a{0} + j * s{0}")
    # Not "b", since b0 is where the elements of operand 0 begin.
    before, after = WgslStatements("    ", first, "e"), WgslStatements("    ", first)
    parts = loop.value.arguments if loop.fold == "dot" else (loop.value,)
    elements, lines = [body.add(part) for part in parts], []
    for at in body.loaded:
        jump = "p[{f} + 9 + 8 * {at} + frank]".format(at=at, **fields)
        begin = "q{at} + steps({f}, {at}, o)".format(at=at, **fields)
        lines.append(f"      let s{at} = {jump};\n      let a{at} = {begin};")
    start = start_of(loop) if loop.start is None else before.add(loop.start)
    if loop.start is None and loop.fold == "add":
        start = literal(0, type)
    code = bytes_of(parts) if loop.fold == "dot" else None
    result = "total" if loop.finish is None else after.add(loop.finish)
    return {
        "before": before.text,
        "start": start,
        "rows": rows(body.loaded, fields, "    "),
        "lines": "\n".join(lines),
        "quads": "" if code is None else _quads(code),
        "body": body.text,
        "combined": _product(type, elements)
        if loop.fold == "dot"
        else combine(loop, elements[0]),
        "finish": after.text,
        "result": result,
    }


def _product(type: str, elements: list[str]) -> str:
    """Return the sum and a product; a float product is added with one rounding."""
    pair = ", ".join(elements)
    if word(type) == "f32":
        return f"dot_f32({pair}, sum)"
    product = wrapped(type, f"{function('mul', type)}({pair})")
    return wrapped(type, f"{function('add', type)}({product}, sum)")


def _quads(code: Bytes) -> str:
    """Return the loop over four bytes at a time of a product of two lines of codes."""
    a, b = code.left, code.right
    zero = "0" if code.zero is None else f"p[{2 + 2 * code.zero}]"
    # An unsigned byte minus 128 is a signed one.
    flip, lift = (
        ("", f"-{zero}") if code.is_signed else (" ^ 0x80808080u", f"128 - {zero}")
    )
    left, right = (f"m{at}[(a{at} + j) / 4]" for at in (a, b))
    return f"""\
      if (s{a} == 1 && s{b} == 1 && ((a{a} | a{b}) & 3) == 0) {{
        for (; j + 4 <= n; j += 4) {{
          sum = dot4({left}{flip}, {right}, {lift}, sum);
        }}
      }}"""
