"""The renderer of loops to CUDA C++.

An elementwise kernel has one thread for each element, and each thread steps over the
grid. A fold has one block for each element of the result: a thread combines every 64th
element, and the block combines its 64 partial results as a tree in shared memory. So
the order of sums depends on the count only, and on no launch. With pieces it has one
block for each piece of a line. A serial fold has one
thread for each element of the result, which combines the elements in ascending order.
A loop with folds before has one block for each row: it folds in the same order, and
then computes the elements of the row.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path

from mdtensor.kernels.loops.cuda_rows import (
    ALONG,
    ROW,
    ROWS,
    rows_fields,
    total_of,
    tree_of,
)
from mdtensor.kernels.loops.cuda_serial import (
    SCAN,
    SERIAL,
    scan_fields,
    serial_fields,
)
from mdtensor.kernels.loops.cuda_tiles import TEXTS, product_of, tiles_fields
from mdtensor.kernels.loops.cuda_values import CudaStatements, storage_type, value_type
from mdtensor.kernels.loops.cuda_weights import TEXT, WEIGHED, weights_fields
from mdtensor.kernels.loops.ir import Input, Loop
from mdtensor.kernels.loops.kernel import FOLDING, Kernel
from mdtensor.kernels.loops.weights import weights_of

#: The functions that texts call; a compiler reads them before the text.
SCALARS = "\n".join(
    Path(__file__).with_name(name).read_text()
    for name in ("scalar.cuh", "tiles.cuh", "slices.cuh", "planes.cuh", "weights.cuh")
)
ELEMENTWISE = """\
extern "C" __global__ void {name}({parameters}, mdt::walk<{count}> w) {{
{before}
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < w.count;
       i += (long long)gridDim.x * blockDim.x) {{
    const mdt::places<{count}> p = w.all(i);
{body}
    out[p.at[{last}]] = {result};
{during}
  }}
{after}
}}
"""
#: Between two lines no thread waits: only the first one reads partial[0] and writes it.
FOLD = """\
extern "C" __global__ void {name}({parameters}, mdt::walk<{count}> w,
                                  mdt::walk<{last}> f) {{
  __shared__ {type} partial[{threads}];
  for (long long r = blockIdx.x; r < w.count; r += gridDim.x) {{
    {type} sum = {start};
    {bounds}
    long long j = first + threadIdx.x;
    const auto next = [&](long long i) {{
{body}
      return {element};
    }};
{several}
    for (; j < end; j += {threads}) sum = mdt::{fold}(sum, next({index}));
{tree}
    if (threadIdx.x == 0) {{
      const {folded} total = {total};
{finish}
      out[w.at({last}, r)] = {result};
    }}
  }}
}}
"""

#: The elements that a block folds: a whole line, one of each piece, or one piece.
LINE = "const long long first = 0, end = f.count;"
AMONG = "const long long first = 0, end = (f.count + {0} - 1) / {0};"
PIECE = """\
const long long pieces = (f.count + {0} - 1) / {0}, first = r % pieces * {0};
    const long long end = f.count - first < {0} ? f.count : first + {0};"""
#: Elements of a piece: some are on their way at once, and none changes its turn.
SEVERAL = """\
    for (; j + 3 * {threads} < end; j += 4 * {threads}) {{
      {type} found[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) found[k] = next(j + k * {threads});
#pragma unroll
      for (int k = 0; k < 4; ++k) sum = mdt::{fold}(sum, found[k]);
    }}"""


# Shapes are arguments, so a text is compiled once for its types (decision 0063).
@cache
def render(loop: Loop) -> Kernel:
    """Return the kernel of a loop; its name ends with a hash of its text."""
    last = len(loop.inputs)
    fields = {"parameters": _parameters(loop), "count": last + 1, "last": last}
    if loop.before:
        text = ROWS.format(name="{name}", **fields, **rows_fields(loop, last))
    elif loop.fold is None:
        text = ELEMENTWISE.format(name="{name}", **fields, **_elementwise(loop))
    elif loop.is_scan:
        text = SCAN.format(name="{name}", **fields, **scan_fields(loop))
    elif loop.tile == WEIGHED:
        text = TEXT.format(name="{name}", **fields, **weights_fields(loop))
    elif loop.tile:
        given = tiles_fields(loop)
        text = TEXTS[loop.tile].format(name="{name}", **fields, **given)
    elif loop.is_serial:
        text = SERIAL.format(name="{name}", **fields, **serial_fields(loop))
    else:
        text = FOLD.format(name="{name}", **fields, **_fold(loop))
    # One symbol for each text, since many texts can be in one library.
    name = f"{loop.title}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    text = text.replace("{name}", name)
    fold = loop.fold, loop.is_serial, loop.is_scan
    factors = _factors(loop) if loop.tile else ()
    rows = bool(loop.before), loop.is_row
    kernel = Kernel(name, text, loop.inputs, loop.type, *fold, loop.title, *rows)
    piece = 0 if loop.is_among else loop.piece
    return replace(kernel, tile=loop.tile, factors=factors, piece=piece)


def _factors(loop: Loop) -> tuple[int, ...]:
    """Return the numbers of the operands that tiles multiply."""
    if loop.tile == WEIGHED:
        left, weights = weights_of(loop)
        return left.detail, weights.codes
    return tuple(x.at for x in product_of(loop))


def _parameters(loop: Loop) -> str:
    def shown_as(x: Input) -> str:
        return f"{'' if x.is_counter else 'const '}{storage_type(x.type)}*"

    shown = [
        f"{storage_type(x.type) if x.is_number else shown_as(x)} x{i}"
        for i, x in enumerate(loop.inputs)
    ]
    return ", ".join([*shown, f"{storage_type(loop.type)}* out"])


def _elementwise(loop: Loop) -> dict[str, object]:
    """Return the fields of `ELEMENTWISE`."""
    lines = CudaStatements("    ", "p.at[{0}]", locals=loop.locals)
    result, before, during, after = lines.add(loop.value), "", "", ""
    if loop.refused is not None:
        before = "  unsigned long long refused = 0;"
        during = f"    refused += {lines.add(loop.refused)};"
        # A thread that refused nothing touches no counter.
        counter = f"(unsigned long long*)x{len(loop.inputs) - 1}"
        after = f"  if (refused) atomicAdd({counter}, refused);"
    counted = {"before": before, "during": during, "after": after}
    return {"body": lines.text, "result": result, **counted}


def _fold(loop: Loop) -> dict[str, object]:
    """Return the fields of `FOLD`."""
    type, folded = value_type(loop.value.type), value_type(loop.folded)
    body = CudaStatements("      ", ALONG, locals=loop.locals)
    finish = CudaStatements("      ", ROW, locals=loop.locals)
    element, start = body.add(loop.value), f"mdt::start_{loop.fold}<{type}>()"
    is_place = loop.fold in ("argmax", "argmin")
    total = "partial[0].at" if is_place else total_of(loop)
    if is_place:
        element, start = f"mdt::place<{type}>{{{element}, i}}", "{0, -1}"
    function = f"{loop.fold}{'' if is_place else f'<{type}>'}"
    result = "total" if loop.finish is None else finish.add(loop.finish)
    several = loop.piece and not loop.is_among
    held = f"mdt::place<{type}>" if is_place else type
    fields = {"type": held, "fold": function, "threads": FOLDING}
    return {
        **fields,
        "several": SEVERAL.format(**fields) if several else "",
        "folded": folded,
        "bounds": _bounds(loop),
        "index": f"x{len(loop.inputs) - 1}[r * end + j]" if loop.is_among else "j",
        "start": start,
        "body": body.text,
        "element": element,
        "tree": tree_of(function, 4),
        "total": total,
        "finish": finish.text,
        "result": result,
    }


def _bounds(loop: Loop) -> str:
    """Return the statement that says which elements a block folds."""
    text = AMONG if loop.is_among else PIECE if loop.piece else LINE
    return text.format(loop.piece)
