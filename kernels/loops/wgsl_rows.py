"""Loops with folds before, in WGSL: a block folds a row, then computes it.

As in `cuda_rows.py`, each fold has the order of a fold alone.
"""

from __future__ import annotations

from typing import Any

from mdtensor.kernels.loops.ir import Fold, Loop
from mdtensor.kernels.loops.wgsl_folds import HEAD, combine, start_of, total_of
from mdtensor.kernels.loops.wgsl_memory import inner, outer, rows
from mdtensor.kernels.loops.wgsl_scalars import register_type
from mdtensor.kernels.loops.wgsl_values import WgslStatements

#: A loop with folds before, and one of these folds; each thread has its result.
ROWS = (
    """\
{partials}
"""
    + HEAD
    + """\
  for (var r = i32(block.x); r < wcount; r += i32(blocks.x)) {{
{rows}
{before}
{each}
{body}
      store({place}, {result});
    }}
  }}
}}
"""
)
BEFORE = """\
    var t{at}: {type};
    {{
      var sum = {start};
      for (var i = i32(lane); i < fcount; i += {threads}) {{
{body}
        sum = {combined};
      }}
      partial{at}[lane] = sum;
      workgroupBarrier();
      for (var n = {threads}u / 2u; n > 0u; n /= 2u) {{
        if (lane < n) {{
          let sum = partial{at}[lane];
          partial{at}[lane] = {joined};
        }}
        workgroupBarrier();
      }}
      let total = {total};
{finish}
      t{at} = {result};
      workgroupBarrier();
    }}"""


def rows_text(loop: Loop, fields: dict[str, Any]) -> str:
    """Return the text of a loop with folds before."""
    place = outer(fields) if loop.is_row else inner(fields)
    body = WgslStatements("      ", place, locals=loop.locals)
    result = body.add(loop.value)
    each = "for (var i = i32(lane); i < fcount; i += {threads}) {{".format(**fields)
    types = enumerate(register_type(fold.value.type) for fold in loop.before)
    head = "var<workgroup> partial{}: array<{}, {}>;"
    made = {
        "partials": "\n".join(head.format(*one, fields["threads"]) for one in types),
        "rows": rows(range(fields["last"] + (not loop.is_row)), fields, "    "),
        "before": "\n".join(
            _before(loop, at, fold, fields) for at, fold in enumerate(loop.before)
        ),
        "each": f"    {'if (lane == 0u) {' if loop.is_row else each}",
        "body": body.text,
        "place": place.format(fields["last"]),
    }
    return ROWS.format(**fields, **made, result=result)


def _before(loop: Loop, at: int, fold: Fold, fields: dict[str, Any]) -> str:
    """Return the text of a fold before."""
    body = WgslStatements("        ", inner(fields), locals=loop.locals)
    finish = WgslStatements("      ", outer(fields), locals=loop.locals)
    element = body.add(fold.value)
    result = "total" if fold.finish is None else finish.add(fold.finish)
    return BEFORE.format(
        at=at,
        type=register_type(fold.type),
        threads=fields["threads"],
        start=start_of(fold),
        body=body.text,
        combined=combine(fold, element),
        joined=combine(fold, f"partial{at}[lane + n]"),
        total=total_of(fold, f"partial{at}[0]"),
        finish=finish.text,
        result=result,
    )
