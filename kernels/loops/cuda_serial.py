"""Serial folds and scans in CUDA C++: one thread combines the elements of a result.

It goes in ascending order, so a sum of floats has the order that its elements have. A
scan writes each sum on the way.
"""

from __future__ import annotations

from mdtensor.kernels.loops.cuda_rows import ALONG
from mdtensor.kernels.loops.cuda_values import CudaStatements, value_type
from mdtensor.kernels.loops.ir import Loop, Value

SERIAL = """\
extern "C" __global__ void {name}({parameters}, mdt::walk<{count}> w,
                                  mdt::walk<{last}> f) {{
  const long long n = f.size[f.rank - 1];
  for (long long r = blockIdx.x * (long long)blockDim.x + threadIdx.x; r < w.count;
       r += (long long)gridDim.x * blockDim.x) {{
{before}
    {type} sum = {start};
    for (long long o = 0; o < f.count; o += n) {{
{rows}
      long long j = 0;
{quads}
      for (; j < n; ++j) {{
{body}
        sum = {combined};
      }}
    }}
    const {folded} total = {total};
{finish}
    out[w.at({last}, r)] = {result};
  }}
}}
"""
#: Some elements are on their way at once, since the next one is known before the sum.
SCAN = """\
extern "C" __global__ void {name}({parameters}, mdt::walk<{count}> w,
                                  mdt::walk<{count}> f) {{
  for (long long r = blockIdx.x * (long long)blockDim.x + threadIdx.x; r < w.count;
       r += (long long)gridDim.x * blockDim.x) {{
    {type} sum = {start};
    const auto next = [&](long long i) {{
{body}
      return {element};
    }};
    const auto put = [&](long long i, {type} element) {{
      sum = mdt::{fold}<{type}>(sum, element);
      const {type} total = sum;
{finish}
      out[w.at({last}, r) + f.at({last}, i)] = {result};
    }};
    long long i = 0;
    for (; i + 7 < f.count; i += 8) {{
      {type} found[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) found[k] = next(i + k);
#pragma unroll
      for (int k = 0; k < 8; ++k) put(i + k, found[k]);
    }}
    for (; i < f.count; ++i) put(i, next(i));
  }}
}}
"""


def scan_fields(loop: Loop) -> dict[str, object]:
    """Return the fields of `SCAN`."""
    body, finish = CudaStatements("      ", ALONG), CudaStatements("      ", ALONG, "c")
    type = value_type(loop.value.type)
    element = body.add(loop.value)
    return {
        "type": type,
        "start": f"mdt::start_{loop.fold}<{type}>()",
        "fold": loop.fold,
        "body": body.text,
        "element": element,
        "result": "total" if loop.finish is None else finish.add(loop.finish),
        "finish": finish.text,
    }


def serial_fields(loop: Loop) -> dict[str, object]:
    """Return the fields of `SERIAL`."""
    type, rows = value_type(loop.value.type), []
    body, after = (
        CudaStatements("        ", "q{0} + j * s{0}"),
        CudaStatements("    ", "w.at({0}, r)"),
    )
    before = CudaStatements("    ", "w.at({0}, r)", "b")
    fold = loop.fold
    parts = loop.value.arguments if fold == "dot" else (loop.value,)
    elements = ", ".join(body.add(part) for part in parts)
    for at in body.loaded:
        place = f"w.at({at}, r) + f.at({at}, o)"
        step = f"f.jump[{at}][f.rank - 1]"
        rows.append(f"      const long long q{at} = {place}, s{at} = {step};")
    start = f"mdt::start_{'add' if fold == 'dot' else fold}<{type}>()"
    if loop.start is not None:
        start = before.add(loop.start)
    elif fold in ("add", "dot"):
        start = f"({type})0"
    return {
        "quads": _quads(parts),
        "type": type,
        "folded": type,
        "before": before.text,
        "start": start,
        "rows": "\n".join(rows),
        "body": body.text,
        "combined": f"mdt::{fold}<{type}>({elements}, sum)"
        if fold == "dot"
        else f"mdt::{fold}<{type}>(sum, {elements})",
        "total": "sum",
        "result": "total" if loop.finish is None else after.add(loop.finish),
        "finish": after.text,
    }


def _quads(parts: tuple[Value, ...]) -> str:
    """Return the loop over four bytes at a time of a product of two lines of codes.

    The first factor may be minus one zero point; the second is signed, without one.
    """
    if len(parts) != 2:
        return ""
    left, right = parts
    zero = "0"
    if left.name == "sub" and left.arguments[1].name == "scalar":
        left, zero = left.arguments[0], f"x{left.arguments[1].detail}"
    kinds = [x.arguments[0].type for x in (left, right) if x.name == "cast"]
    is_codes = kinds in (["int8", "int8"], ["uint8", "int8"]) and left.type == "int32"
    loads = [x.arguments[0] for x in (left, right)] if is_codes else []
    if not loads or any(x.name != "load" for x in loads):
        return ""
    a, b = (x.detail for x in loads)
    places = [f"x{at} + q{at}" for at in (a, b)]
    return f"""\
      if (s{a} == 1 && s{b} == 1 && mdt::aligned({", ".join(places)}))
        for (; j + 4 <= n; j += 4)
          sum = mdt::dot4({places[0]} + j, {places[1]} + j, {zero}, sum);"""
