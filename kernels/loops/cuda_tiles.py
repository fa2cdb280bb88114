"""Products of two matrices of codes in CUDA C++, by tiles and tensor cores.

A block computes the sums of a tile of rows and columns, `tiles.cuh`, for one of the
groups that share neither. What is a row is a matter of the launch: an axis along which
the right operand repeats. So a convolution is such a product, whose rows are places of
the window and whose columns are channels, and nothing is copied for it. Sums are exact
modulo 2**32, and the same kernel finishes them, so the bytes are those of the loop with
one thread for each sum (`SERIAL` in `cuda.py`).

A product with few columns, such as a depthwise convolution, has nothing that tensor
cores could share. Its block computes up to 512 rows of one column of one group: a table
has the codes of the column, and where the codes of a row are, `planes.cuh`.
"""

from __future__ import annotations

from mdtensor.kernels.loops.bytewise import Factor, factors_of
from mdtensor.kernels.loops.cuda_values import CudaStatements, storage_type
from mdtensor.kernels.loops.ir import Loop

#: Rows and columns of the tiles that there are: for few columns, for few rows, and for
#: small and large products.
PLANE, SLICE, SIDES = 1, 16, (64, 128)
TILED = """\
extern "C" __global__ void __launch_bounds__(128, 2)
    {name}({parameters}, mdt::walk<{count}> g, mdt::walk<{count}> m,
           mdt::walk<{count}> n, mdt::walk<{last}> f) {{
  __shared__ mdt::tiles<{side}> s;
  const int high = (m.count + {side} - 1) / {side};
  const int wide = (n.count + {side} - 1) / {side};
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const mdt::corner at = mdt::corner_of(blockIdx.x, high, wide);
  const int group = at.group;
  const long long top = at.row * {side}ll, first = at.column * {side}ll;
  mdt::copier<{a}, {side}> x(x{left} + g.at({left}, group), {left}, m, f, top);
  mdt::copier<{b}, {side}> y(x{right} + g.at({right}, group), {right}, n, f, first);
  mdt::totals<{side}> sums = {{}};
  if (x.is_dense && y.is_dense)
    mdt::add_dense<{adds}>(s, x, y, f.count, sums);
  else
    mdt::add_sparse<{adds}>(s, x, y, f, {left}, {right}, sums);
  __syncthreads();
{added}
  const bool across = n.jump[{last}][n.rank - 1] == 1;
#pragma unroll 1
  for (int piece = 0; piece < {side} / 32; ++piece) {{
    s.keep(sums, piece);
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < {side} / 4; ++i) {{
      const int row = across ? i % 16 : lane % 16;
      const int column = across ? i / 16 * 32 + lane : i * 2 + lane / 16;
      const long long r = top + warp % 2 * s.WARP + piece * 16 + row;
      const long long c = first + warp / 2 * s.WARP + column;
      if (r >= m.count || c >= n.count) continue;
{places}
      const mdt::int32 dot = s.kept()[row * (s.WARP + 1) + column];
{zeros}
      const mdt::int32 total = {total};
{finish}
      out[{target}] = {result};
    }}
    __syncwarp();
  }}
}}
"""
SLICED = """\
extern "C" __global__ void __launch_bounds__(256, 2)
    {name}({parameters}, mdt::walk<{count}> g, mdt::walk<{count}> m,
           mdt::walk<{count}> n, mdt::walk<{last}> f) {{
  __shared__ mdt::slices s;
  const int high = (m.count + 15) / 16, wide = (n.count + 15) / 16;
  const mdt::corner at = mdt::corner_of(blockIdx.x, high, wide);
  const int group = at.group;
  const long long top = at.row * 16ll, first = at.column * 16ll;
  mdt::reader<{a}> x(x{left} + g.at({left}, group), {left}, m, f, top);
  mdt::reader<{b}> y(x{right} + g.at({right}, group), {right}, n, f, first);
  if (x.is_dense && y.is_dense)
    mdt::add_slices<{adds}, true>(s, x, y, f, {left}, {right});
  else
    mdt::add_slices<{adds}, false>(s, x, y, f, {left}, {right});
  __syncthreads();
  const int row = threadIdx.x / 16, column = threadIdx.x % 16;
  const long long r = top + row, c = first + column;
  if (r < m.count && c < n.count) {{
{places}
    const mdt::int32 dot = s.dot_of(row, column);
{zeros}
    const mdt::int32 total = {total};
{finish}
    out[{target}] = {result};
  }}
}}
"""
PLANED = """\
extern "C" __global__ void __launch_bounds__(128)
    {name}({parameters}, mdt::walk<{count}> g, mdt::walk<{count}> m,
           mdt::walk<{count}> n, mdt::walk<{last}> f) {{
  __shared__ mdt::taps s;
  const long long high = (m.count + mdt::taps::ROWS - 1) / mdt::taps::ROWS;
  const long long c = blockIdx.x / high % n.count, group = blockIdx.x / high / n.count;
  const long long top = blockIdx.x % high * mdt::taps::ROWS;
  mdt::plane<{a}> x(x{left} + g.at({left}, group), {left}, m, top);
  const {b}* y = x{right} + g.at({right}, group) + n.at({right}, c);
  for (long long k = 0; k < f.count; k += mdt::taps::THREADS) {{
    // The codes before are multiplied.
    __syncthreads();
    s.tabulate(y, f, {left}, {right}, k);
    __syncthreads();
    x.template add<{adds}>(s, f.count - k);
  }}
#pragma unroll
  for (int i = 0; i < mdt::taps::EACH; ++i) {{
    const long long r = top + threadIdx.x + i * mdt::taps::THREADS;
    if (r < m.count) {{
{places}
      const mdt::int32 dot = (mdt::int32)x.dots[i];
{zeros}
      const mdt::int32 total = {total};
{finish}
      out[{target}] = {result};
    }}
  }}
}}
"""
#: The text of each kind of tiles.
TEXTS = {PLANE: PLANED, SLICE: SLICED, **dict.fromkeys(SIDES, TILED)}
PLACE = "p{0}"


# One text for matrices, pairs of them, and convolutions (decision 0093).
def tiles_fields(loop: Loop) -> dict[str, object]:
    """Return the fields of the texts.

    Raises:
        ValueError: the loop is not a product of 8-bit codes, or has no such tiles.
    """
    factors = product_of(loop)
    if loop.tile not in TEXTS:
        sides = tuple(TEXTS)
        raise ValueError(f"{loop.title} has tiles of {loop.tile}. Use {sides}.")
    zeros = CudaStatements("      ", PLACE, "z")
    names = [None if one.zero is None else zeros.add(one.zero) for one in factors]
    finish = CudaStatements("      ", PLACE, locals=loop.locals)
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
        # The rows of one operand are multiplied by the zero point of the other.
        "adds": ", ".join(str(name is not None).lower() for name in names[::-1]),
        "added": _added(names),
        "places": "\n".join(map(place_of, used)),
        "zeros": zeros.text,
        "total": _total(names, *_SUMS[loop.tile == PLANE]),
        "finish": finish.text,
        "target": PLACE.format(last),
        "result": result,
    }


# Few columns have a table, and no tensor cores (decision 0114).
def product_of(loop: Loop) -> tuple[Factor, Factor]:
    """Return the factors of a loop by tiles.

    Raises:
        ValueError: it is not a product of 8-bit codes.
    """
    found = factors_of(loop.value.arguments) if loop.fold == "dot" else None
    if found is None or loop.start is not None:
        raise ValueError(f"{loop.title} is not a product of codes of 8 bits.")
    return found


def place_of(at: int, look: str = "at") -> str:
    """Return the statement that says where an operand of a sum is: `p0`, `p1`.

    Args: look: the function of `walk` that finds a place.
    """
    parts = f"g.{look}({at}, group) + m.{look}({at}, r) + n.{look}({at}, c)"
    return f"      const long long p{at} = {parts};"


def _added(zeros: list[str | None]) -> str:
    """Return what adds the codes of lines up, which zero points need."""
    return "" if zeros == [None, None] else "  s.keep_lines(sums);\n  __syncthreads();"


#: Where the added codes of a row and of a column are: in shared memory, or in a thread.
_SUMS = (
    ("s.sum_of(0, r - top)", "s.sum_of(1, c - first)"),
    ("x.lefts[i]", "x.right"),
)


def _total(zeros: list[str | None], row: str, column: str) -> str:
    """Return the sum without zero points."""
    if zeros == [None, None]:
        return "dot"
    rows = "0" if zeros[1] is None else row
    columns = "0" if zeros[0] is None else column
    x, y = (zero or "0" for zero in zeros)
    return f"mdt::less_zeros(dot, {rows}, {columns}, {x}, {y}, f.count)"
