// Products of a few rows of floats with quantized weights, which are read once.
//
// A block has the sums of up to 4 rows and one column. A thread reads 16 bytes of the
// column at a time, 32 codes of 4 bits or 16 of 8, of every 128 such pieces, and converts
// a code once for all rows. It adds products in ascending order, each with one rounding.
// Then the threads of a warp add their sums by halves, and the warps in ascending order.
// So the order depends on the number of codes only, and not on rows or on where they are.

namespace mdt {

// The codes of a column, the least bits of a byte first, and their scales and zero points.
template <int BITS, bool IS_SIGNED> struct column {
  static constexpr int CODES = 128 / BITS, EACH = 32 / BITS;
  static constexpr uint32 SIGN = IS_SIGNED ? 1u << (BITS - 1) : 0;
  static constexpr uint32 SIGNS = SIGN * (BITS == 4 ? 0x11111111u : 0x01010101u);
  const uint8* bytes;
  const float* scales;
  // Null for zero points of 0.
  const int32* zeros;
  // Codes that share a scale. A row has fewer than 2**31.
  int32 size;
  float scale, base;

  // Take the scale of a block, and what a code with its sign turned is above 0.
  __device__ void enter(uint32 block) {
    scale = scales[block];
    base = 8388608.0f + (float)((zeros ? zeros[block] : 0) + (int32)SIGN);
  }

  // A code is the last bits of a float of 2**23 or more, so the difference is exact.
  __device__ float number(uint32 turned) const {
    return (bits_as<float>(0x4b000000u | turned) - base) * scale;
  }

  __device__ uint32 turned(uint32 k) const {
    if constexpr (BITS == 8) return bytes[k] ^ SIGN;
    else return ((bytes[k / 2] >> k % 2 * 4) & 15u) ^ SIGN;
  }
};

// Some neighbouring elements, read at once as far as 16 bytes go.
template <typename X, int N> struct alignas(N * sizeof(X) < 16 ? N * sizeof(X) : 16) lot {
  X at[N];
};

// The sums of a block, of type T, for rows of X.
template <typename X, typename T> struct weighing {
  static constexpr int THREADS = 128, ROWS = 4, WARPS = 4;
  const X* from[ROWS];
  int live;
  T sums[ROWS];

  template <int N>
  __device__ weighing(const X* x, int at, const walk<N>& rows, uint32 top) {
    live = rows.count - top < ROWS ? (int)(rows.count - top) : ROWS;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      // There are fewer than 2**31 rows, so nothing is divided by calls.
      from[i] = i < live ? x + rows.template place<uint32>(at, (uint32)top + i) : x;
      sums[i] = T(0);
    }
  }

  // Whether 16 bytes of all rows can be read at once, and their codes share scales.
  template <int BITS, bool IS_SIGNED, int N>
  __device__ bool is_dense(const column<BITS, IS_SIGNED>& y, int at, const walk<N>& f) const {
    uint64 starts = (uint64)y.bytes;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) starts |= i < live ? (uint64)from[i] : 0;
    typedef column<BITS, IS_SIGNED> codes;
    const bool is_line = f.jump[at][0] == 1;
    const bool is_whole = f.count % codes::CODES == 0 && y.size % codes::EACH == 0;
    return is_line && is_whole && starts % 16 == 0;
  }

  template <int BITS, bool IS_SIGNED>
  __device__ void add_dense(column<BITS, IS_SIGNED>& y, uint32 count) {
    constexpr int CODES = column<BITS, IS_SIGNED>::CODES, EACH = column<BITS, IS_SIGNED>::EACH;
    const uint32 size = (uint32)y.size;
    for (uint32 k = threadIdx.x * CODES; k < count; k += THREADS * CODES) {
      const sixteen codes = *(const sixteen*)(y.bytes + k / 8 * BITS);
      uint32 block = k / size, rest = (block + 1) * size - k;
      y.enter(block);
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        if (word && !rest) y.enter(++block), rest = size;
        rest -= EACH;
        const uint32 turned = codes.words[word] ^ y.SIGNS;
        T numbers[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i)
          numbers[i] = (T)y.number(turned >> i * BITS & ((1u << BITS) - 1));
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
          if (row >= live) continue;
          const lot<X, EACH> x = *(const lot<X, EACH>*)(from[row] + k + word * EACH);
#pragma unroll
          for (int i = 0; i < EACH; ++i)
            sums[row] = dot<T>(wrap<T>(x.at[i]), numbers[i], sums[row]);
        }
      }
    }
  }

  // Add the same products in the same order, one by one.
  template <int BITS, bool IS_SIGNED, int N>
  __device__ void add_sparse(column<BITS, IS_SIGNED>& y, int at, const walk<N>& f) {
    constexpr int CODES = column<BITS, IS_SIGNED>::CODES;
    const uint32 count = (uint32)f.count, size = (uint32)y.size;
    for (uint32 first = threadIdx.x * CODES; first < count; first += THREADS * CODES)
#pragma unroll 1
      for (uint32 k = first; k < first + CODES && k < count; ++k) {
        y.enter(k / size);
        const T number = (T)y.number(y.turned(k));
        // Columns are one axis.
        const int64 step = (int64)k * f.jump[at][0];
#pragma unroll
        for (int row = 0; row < ROWS; ++row)
          if (row < live) sums[row] = dot<T>(wrap<T>(from[row][step]), number, sums[row]);
      }
  }

  // Add the sums of each warp, and keep them.
  __device__ void keep(T (&kept)[WARPS][ROWS]) {
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
#pragma unroll
      for (int half = 16; half; half /= 2)
        sums[row] += __shfl_down_sync(0xffffffffu, sums[row], half);
      if (threadIdx.x % 32 == 0) kept[threadIdx.x / 32][row] = sums[row];
    }
  }
};

}  // namespace mdt
