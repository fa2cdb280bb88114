// Products of few rows: eight warps share the codes of 16 x 16 sums.
//
// Each warp reads every eighth 64 codes of 16 rows and 16 columns straight into the
// fragments of tensor cores, and their sums are added in shared memory. So a matrix is
// read once, by as many blocks as it has 16 columns. The order of sums does not matter:
// they are exact modulo 2**32.

namespace mdt {

struct slices {
  static constexpr int SIDE = 16, WARPS = 8;
  int32 sums[WARPS][SIDE][SIDE + 1];
  // The codes of a line added, in four parts for each warp.
  uint32 added[2][SIDE][WARPS * 4];

  __device__ int32 dot_of(int64 row, int64 column) const {
    uint32 sum = 0;
    for (int warp = 0; warp < WARPS; ++warp) sum += (uint32)sums[warp][row][column];
    return (int32)sum;
  }
  __device__ uint32 sum_of(int operand, int64 line) const {
    uint32 sum = 0;
    for (int part = 0; part < WARPS * 4; ++part) sum += added[operand][line][part];
    return sum;
  }
};

// What a thread reads of one operand: 16 codes of the lines lane / 4 and lane / 4 + 8. Any
// order of codes does, as long as both operands have the same.
template <typename T> struct reader {
  const T* from[2];
  bool is_dense;
  uint32 sums[2];

  template <int N, int M>
  __device__ reader(const T* x, int at, const walk<N>& lines, const walk<M>& f, int64 first) {
    is_dense = f.count % 16 == 0 && is_aligned(x, at, lines, f);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int64 line = first + threadIdx.x % 32 / 4 + i * 8;
      from[i] = line < lines.count ? x + lines.at(at, line) : nullptr;
      sums[i] = 0;
    }
  }

  template <bool IS_DENSE, int M>
  __device__ sixteen read(int i, int at, const walk<M>& f, int64 k) const {
    sixteen found = {{0, 0, 0, 0}};
    if constexpr (IS_DENSE) {
      if (from[i] && k < f.count) found = *(const sixteen*)(from[i] + k);
    } else if (from[i]) {
#pragma unroll
      for (int word = 0; word < 4; ++word)
#pragma unroll 1
        for (int at_word = 0; at_word < 4; ++at_word) {
          const int64 code = k + word * 4 + at_word;
          if (code >= f.count) break;
          found.words[word] |= (uint32)(uint8)from[i][f.at(at, code)] << at_word * 8;
        }
    }
    return found;
  }

  __device__ void add(int i, const sixteen& codes) {
#pragma unroll
    for (int word = 0; word < 4; ++word) sums[i] = add_four<T>(codes.words[word], sums[i]);
  }
};

// Add the products of the codes of this warp, and keep their sums.
template <bool ADD_LEFT, bool ADD_RIGHT, bool IS_DENSE, typename A, typename B, int N>
__device__ static inline void add_slices(slices& s, reader<A>& x, reader<B>& y,
                                         const walk<N>& f, int left, int right) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int32 sums[2][4] = {};
#pragma unroll(IS_DENSE ? 4 : 1)
  for (int64 slab = warp * 64; slab < f.count; slab += slices::WARPS * 64) {
    const int64 k = slab + lane % 4 * 16;
    sixteen a[2], b[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      a[i] = x.template read<IS_DENSE>(i, left, f, k);
      b[i] = y.template read<IS_DENSE>(i, right, f, k);
      if (ADD_LEFT) x.add(i, a[i]);
      if (ADD_RIGHT) y.add(i, b[i]);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int word = j / 2 * 2;
      const uint32 rows[4] = {a[0].words[word], a[1].words[word], a[0].words[word + 1],
                              a[1].words[word + 1]};
      const uint32 columns[2] = {b[j % 2].words[word], b[j % 2].words[word + 1]};
      mma<A, B>(sums[j % 2], rows, columns);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int line = lane / 4 + i * 8, part = warp * 4 + lane % 4;
    if (ADD_LEFT) s.added[0][line][part] = x.sums[i];
    if (ADD_RIGHT) s.added[1][line][part] = y.sums[i];
#pragma unroll
    for (int at = 0; at < 4; ++at)
      s.sums[warp][lane / 4 + at / 2 * 8][i * 8 + lane % 4 * 2 + at % 2] = sums[i][at];
  }
}

}  // namespace mdt
