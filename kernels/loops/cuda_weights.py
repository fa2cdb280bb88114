"""Products of floats with quantized weights in CUDA C++, `weights.cuh`.

The weights of a column are read once for four rows, 16 bytes at a time, and stay codes
in memory. For a single row that is nearly all that a product reads. The sum of a column
has an order that its length alone decides, so alignment changes no byte.
"""

from __future__ import annotations

from mdtensor.kernels.loops.cuda_tiles import PLACE, place_of
from mdtensor.kernels.loops.cuda_values import CudaStatements, storage_type, value_type
from mdtensor.kernels.loops.ir import Loop
from mdtensor.kernels.loops.weights import weights_of

#: The tile of such a product: its rows. It has one column.
WEIGHED = 4
# Two blocks at once leave 255 registers to a thread. Without this number the compiler
# takes 72 and spills (decision 0122).
TEXT = """\
extern "C" __global__ void __launch_bounds__(128, 2)
    {name}({parameters}, mdt::walk<{count}> g, mdt::walk<{count}> m,
           mdt::walk<{count}> n, mdt::walk<{last}> f) {{
  __shared__ {type} kept[4][4];
  const unsigned high = ((unsigned)m.count + 3) / 4, wide = (unsigned)n.count;
  const unsigned c = blockIdx.x / high % wide, group = blockIdx.x / high / wide;
  const unsigned top = blockIdx.x % high * 4;
  mdt::weighing<{left}, {type}> x(x{at} + g.place<unsigned>({at}, group), {at}, m, top);
  mdt::column<{bits}, {is_signed}> y = {{
      (const mdt::uint8*)x{codes} + n.place<unsigned>({codes}, c),
      x{scale} + n.place<unsigned>({scale}, c), {zeros}, x{size}}};
  if (x.is_dense(y, {at}, f))
    x.add_dense(y, (unsigned)f.count);
  else
    x.add_sparse(y, {at}, f);
  x.keep(kept);
  __syncthreads();
  const unsigned r = top + threadIdx.x;
  if (threadIdx.x < 4 && r < m.count) {{
{places}
    {type} total = kept[0][threadIdx.x];
    for (int warp = 1; warp < 4; ++warp) total += kept[warp][threadIdx.x];
{finish}
    out[{target}] = {result};
  }}
}}
"""


# A text of its own, since a loop over bytes reads one at a time (decision 0122).
def weights_fields(loop: Loop) -> dict[str, object]:
    """Return the fields of the text.

    Raises:
        ValueError: the loop is not a product with quantized weights.
    """
    left, weights = weights_of(loop)
    finish = CudaStatements("    ", PLACE, locals=loop.locals)
    result = "total" if loop.finish is None else finish.add(loop.finish)
    last, zero = len(loop.inputs), weights.zero
    # There are fewer than 2**31 results; 64-bit divisions are calls, which spill.
    places = [place_of(at, "place<unsigned>") for at in (*finish.loaded, last)]
    return {
        "type": value_type(loop.value.type),
        "left": storage_type(left.type),
        "at": left.detail,
        "bits": weights.bits,
        "is_signed": str(weights.is_signed).lower(),
        "codes": weights.codes,
        "scale": weights.scale,
        "zeros": "nullptr"
        if zero is None
        else f"x{zero} + n.place<unsigned>({zero}, c)",
        "size": weights.size,
        "places": "\n".join(places),
        "finish": finish.text,
        "target": PLACE.format(last),
        "result": result,
    }
