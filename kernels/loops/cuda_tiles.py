"""Products of two matrices of codes in CUDA C++, by tiles and tensor cores.

A block computes the sums of a tile of rows and columns, `tiles.cuh`, for one of the
groups that share neither. What is a row is a matter of the launch: an axis along which
the right operand repeats. So a convolution is such a product, whose rows are places of
the window and whose columns are channels, and nothing is copied for it. Sums are exact
modulo 2**32, and the same kernel finishes them, so the bytes are those of the loop with
one thread for each sum (`SERIAL` in `cuda.py`).
"""

from __future__ import annotations

from mdtensor.kernels.loops.bytewise import Factor, factors_of
from mdtensor.kernels.loops.cuda_values import CudaStatements, storage_type
from mdtensor.kernels.loops.ir import Loop

#: Rows and columns of the tiles that there are: for small products, and for large ones.
SIDES = (64, 128)
TILED = """\
extern "C" __global__ void __launch_bounds__(2 * {side}, 1)
    {name}({parameters}, mdt::walk<{count}> g, mdt::walk<{count}> m,
           mdt::walk<{count}> n, mdt::walk<{last}> f) {{
  __shared__ mdt::tiles<{side}> s;
  const long long high = (m.count + {side} - 1) / {side};
  const long long wide = (n.count + {side} - 1) / {side};
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (long long t = blockIdx.x; t < g.count * high * wide; t += gridDim.x) {{
    const long long group = t / (high * wide);
    const long long top = t / wide % high * {side}, first = t % wide * {side};
    mdt::int32 sums[{side} / 32][4][4] = {{}};
    mdt::copier<{a}, {side}> x(x{left} + g.at({left}, group), {left}, m, f, top);
    mdt::copier<{b}, {side}> y(x{right} + g.at({right}, group), {right}, n, f, first);
    s.tabulate(f, {left}, {right}, 0);
    __syncthreads();
    for (long long k = 0; k < f.count + 64; k += 64) {{
      // These codes are on their way while those before them are multiplied.
      x.fetch(s.steps[k / 64 % 2][0], f.count - k);
      y.fetch(s.steps[k / 64 % 2][1], f.count - k);
      if (k > 0) mdt::multiply<{a}, {b}>(s, sums);
      s.tabulate(f, {left}, {right}, k + 64);
      __syncthreads();
      x.store(s.codes[0]);
      y.store(s.codes[1]);
      __syncthreads();
    }}
{added}
    const bool across = n.jump[{last}][n.rank - 1] == 1;
#pragma unroll 1
    for (int piece = 0; piece < {side} / 32; ++piece) {{
      s.keep(sums, piece);
      __syncwarp();
#pragma unroll 1
      for (int i = 0; i < 16; ++i) {{
        const int row = across ? i : lane % 16;
        const int column = across ? lane : i * 2 + lane / 16;
        const long long r = top + warp % 2 * ({side} / 2) + piece * 16 + row;
        const long long c = first + warp / 2 * 32 + column;
        if (r >= m.count || c >= n.count) continue;
{places}
        const mdt::int32 dot = s.kept()[row * 33 + column];
{zeros}
        const mdt::int32 total = {total};
{finish}
        out[{target}] = {result};
      }}
      __syncwarp();
    }}
  }}
}}
"""
PLACE = "p{0}"


# One text for matrices, pairs of them, and convolutions (decision 0093).
def tiles_fields(loop: Loop) -> dict[str, object]:
    """Return the fields of `TILED`.

    Raises:
        ValueError: the loop is not a product of 8-bit codes, or has no such tiles.
    """
    factors = product_of(loop)
    if loop.tile not in SIDES:
        raise ValueError(f"{loop.title} has tiles of {loop.tile}. Use {SIDES}.")
    zeros = CudaStatements("        ", PLACE, "z")
    names = [None if one.zero is None else zeros.add(one.zero) for one in factors]
    finish = CudaStatements("        ", PLACE, locals=loop.locals)
    result = "total" if loop.finish is None else finish.add(loop.finish)
    last = len(loop.inputs)
    used = {**zeros.loaded, **finish.loaded, last: None}
    left, right = factors
    return {
        "side": loop.tile,
        "left": left.at,
        "right": right.at,
        "a": storage_type(left.type),
        "b": storage_type(right.type),
        "added": _added(names),
        "places": "\n".join(map(_place, used)),
        "zeros": zeros.text,
        "total": _total(names),
        "finish": finish.text,
        "target": PLACE.format(last),
        "result": result,
    }


def product_of(loop: Loop) -> tuple[Factor, Factor]:
    """Return the factors of a loop by tiles.

    Raises:
        ValueError: it is not a product of 8-bit codes.
    """
    found = factors_of(loop.value.arguments) if loop.fold == "dot" else None
    if found is None or loop.start is not None:
        raise ValueError(f"{loop.title} is not a product of codes of 8 bits.")
    return found


def _place(at: int) -> str:
    parts = f"g.at({at}, group) + m.at({at}, r) + n.at({at}, c)"
    return f"        const long long p{at} = {parts};"


def _added(zeros: list[str | None]) -> str:
    """Return what adds the codes of lines up, which zero points need."""
    lines = []
    # The rows of one operand are multiplied by the zero point of the other.
    if zeros[1] is not None:
        lines.append("    x.add_up(s.added[0]);")
    if zeros[0] is not None:
        lines.append("    y.add_up(s.added[1]);")
    return "\n".join([*lines, "    __syncthreads();"] if lines else [])


def _total(zeros: list[str | None]) -> str:
    """Return the sum without zero points."""
    if zeros == [None, None]:
        return "dot"
    rows = "0" if zeros[1] is None else "s.sum_of(0, r - top)"
    columns = "0" if zeros[0] is None else "s.sum_of(1, c - first)"
    x, y = (zero or "0" for zero in zeros)
    return f"mdt::less_zeros(dot, {rows}, {columns}, {x}, {y}, f.count)"
