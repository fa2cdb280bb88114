"""Products of two matrices of codes in CUDA C++, by tiles in shared memory.

A block of 256 threads computes 32 x 32 sums. It copies 32 codes of each of its rows and
columns into shared memory, as words of four, and each thread adds their products by
dp4a, for four rows of one column. Sums are exact modulo 2**32, so the bytes are those
of the loop with one thread for each sum (`SERIAL` in `cuda.py`).
"""

from __future__ import annotations

from mdtensor.kernels.loops.bytewise import bytes_of
from mdtensor.kernels.loops.cuda_values import CudaStatements, storage_type
from mdtensor.kernels.loops.ir import Loop

#: Rows and columns of a tile, and words of four codes of each of them at a time.
TILE, WORDS = 32, 8
#: A thread has every eighth row of a column.
EACH = TILE * TILE // (TILE * WORDS)
# Rows of nine words: eight would put a column of words into the same bank.
TILED = """\
extern "C" __global__ void {name}({parameters}, mdt::walk<{count}> w,
                                  mdt::walk<{last}> f) {{
  __shared__ unsigned left[{tile}][{words} + 1], right[{tile}][{words} + 1];
  const long long columns = w.size[w.rank - 1], rows = w.count / columns;
  const long long wide = (columns + {tile} - 1) / {tile};
  const long long tiles = wide * ((rows + {tile} - 1) / {tile});
  const int line = threadIdx.x / {words}, word = threadIdx.x % {words};
  const int column = threadIdx.x % {tile}, row = threadIdx.x / {tile};
  for (long long t = blockIdx.x; t < tiles; t += gridDim.x) {{
    const long long top = t / wide * {tile}, first = t % wide * {tile};
    mdt::int32 sums[{each}] = {{0}}, ones = 0;
    for (long long k = 0; k < f.count; k += 4 * {words}) {{
      const long long from = k + 4 * word;
{loads}
      __syncthreads();
      for (int j = 0; j < {words}; ++j) {{
        const int b = (int)right[column][j];
        ones = __dp4a(0x01010101, b, ones);
        for (int i = 0; i < {each}; ++i)
          sums[i] = __dp4a((int)(left[row + {words} * i][j]{flip}), b, sums[i]);
      }}
      __syncthreads();
    }}
    for (int i = 0; i < {each}; ++i) {{
      if (top + row + {words} * i >= rows || first + column >= columns) continue;
      const long long r = (top + row + {words} * i) * columns + first + column;
      const mdt::int32 total = mdt::add<mdt::int32>(
          sums[i], mdt::mul<mdt::int32>({lift}, ones));
{finish}
      out[w.at({last}, r)] = {result};
    }}
  }}
}}
"""
#: The words of one operand: four codes by one load where they are aligned.
LOAD = """\
      {{
        unsigned four = 0;
        if ({begin} + line < {end}) {{
          const {type}* codes = x{at} + w.at({at}, ({begin} + line){step});
          const long long s = f.jump[{at}][0];
          if (s == 1 && from + 4 <= f.count && ((unsigned long long)codes & 3) == 0)
            four = *(const unsigned*)(codes + from);
          else
            for (int i = 0; i < 4; ++i)
              if (from + i < f.count)
                four |= (unsigned)(unsigned char)codes[(from + i) * s] << 8 * i;
        }}
        {target}[line][word] = four;
      }}"""


def tiles_fields(loop: Loop) -> dict[str, object]:
    """Return the fields of `TILED`.

    Raises:
        ValueError: the loop is not a product of 8-bit codes.
    """
    code = bytes_of(loop.value.arguments) if loop.fold == "dot" else None
    if code is None or loop.start is not None:
        raise ValueError(f"{loop.title} is not a product of codes of 8 bits.")
    finish = CudaStatements("      ", "w.at({0}, r)", locals=loop.locals)
    result = "total" if loop.finish is None else finish.add(loop.finish)
    types = [storage_type(loop.inputs[at].type) for at in (code.left, code.right)]
    zero = "0" if code.zero is None else f"x{code.zero}"
    # An unsigned byte minus 128 is a signed one.
    flip, lift = ("", 0) if code.is_signed else (" ^ 0x80808080u", 128)
    rows = LOAD.format(at=code.left, type=types[0], begin="top", end="rows",
                       step=" * columns", target="left")  # fmt: skip
    columns = LOAD.format(at=code.right, type=types[1], begin="first", end="columns",
                          step="", target="right")  # fmt: skip
    return {
        "tile": TILE,
        "words": WORDS,
        "each": EACH,
        "loads": f"{rows}\n{columns}",
        "flip": flip,
        "lift": f"mdt::sub<mdt::int32>({lift}, {zero})",
        "finish": finish.text,
        "result": result,
    }
