"""Loops with folds before, in CUDA C++: a block folds a row, then computes it.

Each fold has the order of a fold alone (`cuda.py`), so a softmax in one launch has the
bytes of its four. What several folds and the result need of an element is computed
again for each of them.
"""

from __future__ import annotations

from textwrap import indent

from mdtensor.kernels.loops.cuda_values import CudaStatements, value_type
from mdtensor.kernels.loops.ir import Fold, Loop
from mdtensor.kernels.loops.kernel import FOLDING

#: A loop with folds before, and one of these folds; each thread has its result.
ROWS = """\
extern "C" __global__ void {name}({parameters}, mdt::walk<{count}> w,
                                  mdt::walk<{inner}> f) {{
  for (long long r = blockIdx.x; r < w.count; r += gridDim.x) {{
{before}
{each}
{body}
      out[{target}] = {result};
    }}
  }}
}}
"""
#: How a block combines the partial results of its threads, with the sum of each.
TREE = """\
partial[threadIdx.x] = sum;
__syncthreads();
for (unsigned n = {threads} / 2; n > 0; n /= 2) {{
  if (threadIdx.x < n)
    partial[threadIdx.x] =
        mdt::{fold}(partial[threadIdx.x], partial[threadIdx.x + n]);
  __syncthreads();
}}"""
BEFORE = """\
    {type} t{at};
    {{
      __shared__ {value} partial[{threads}];
      {value} sum = {start};
      for (long long i = threadIdx.x; i < f.count; i += {threads}) {{
{body}
        sum = mdt::{fold}(sum, {element});
      }}
{tree}
      const {value} total = {total};
{finish}
      t{at} = {result};
      __syncthreads();
    }}"""
#: Where an element of operand {0} is: of the row, and on the way along it.
ROW, ALONG = "w.at({0}, r)", "w.at({0}, r) + f.at({0}, i)"


def tree_of(function: str, spaces: int) -> str:
    """Return the lines that combine the partial results of a block by a function."""
    return indent(TREE.format(threads=FOLDING, fold=function), " " * spaces)


def total_of(fold: Loop | Fold) -> str:
    """Return the result of a block's fold."""
    type = value_type(fold.value.type)
    if fold.fold == "add" and "complex" not in type:
        # The sum of nothing is 0; the fold starts from -0.
        return f"f.count ? partial[0] : ({type})0"
    return "partial[0]"


def rows_fields(loop: Loop, last: int) -> dict[str, object]:
    """Return the fields of `ROWS`."""
    place = ROW if loop.is_row else ALONG
    body = CudaStatements("      ", place, locals=loop.locals)
    result = body.add(loop.value)
    each = f"for (long long i = threadIdx.x; i < f.count; i += {FOLDING})"
    return {
        "before": "\n".join(
            _before(loop, at, fold) for at, fold in enumerate(loop.before)
        ),
        "each": f"    {'if (threadIdx.x == 0)' if loop.is_row else each} {{",
        "inner": last if loop.is_row else last + 1,
        "body": body.text,
        "target": place.format(last),
        "result": result,
    }


def _before(loop: Loop, at: int, fold: Fold) -> str:
    """Return the text of a fold before."""
    type = value_type(fold.value.type)
    body = CudaStatements("        ", ALONG, locals=loop.locals)
    finish = CudaStatements("      ", ROW, locals=loop.locals)
    element = body.add(fold.value)
    result = "total" if fold.finish is None else finish.add(fold.finish)
    return BEFORE.format(
        at=at,
        type=value_type(fold.type),
        value=type,
        threads=FOLDING,
        start=f"mdt::start_{fold.fold}<{type}>()",
        fold=f"{fold.fold}<{type}>",
        body=body.text,
        element=element,
        tree=tree_of(f"{fold.fold}<{type}>", 6),
        total=total_of(fold),
        finish=finish.text,
        result=result,
    )
