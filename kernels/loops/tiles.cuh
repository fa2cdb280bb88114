// Tiles of two matrices of codes in shared memory, which tensor cores multiply.
//
// A block of 2 * SIDE threads computes SIDE x SIDE sums, 64 codes of each row and column
// at a time. A warp has SIDE / 2 rows and 32 columns of them, in pieces of 16 x 8. Sums are
// exact modulo 2**32. The operands are walks: a tile does not know what a row is.

namespace mdt {

// sums += left . right, of the 16 x 8 sums of a warp and rows of 32 codes. The fragments
// are those of PTX: cuda_host.h says which thread has what.
template <typename A, typename B>
__device__ static inline void mma(int32 (&sums)[4], const uint32 (&a)[4], const uint32 (&b)[2]) {
#ifndef __CUDACC__
  mdt_emulation::mma<A, B>(sums, a, b);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MDT_MMA(LEFT, RIGHT)                                                           \
  asm("mma.sync.aligned.m16n8k32.row.col.s32." LEFT "." RIGHT ".s32 "                  \
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                \
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])                     \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (same<A, int8>::value && same<B, int8>::value) MDT_MMA("s8", "s8");
  else if constexpr (same<A, int8>::value) MDT_MMA("s8", "u8");
  else if constexpr (same<B, int8>::value) MDT_MMA("u8", "s8");
  else MDT_MMA("u8", "u8");
#undef MDT_MMA
#else
  __trap();
#endif
}

// Four codes added to a sum.
template <typename T> __device__ static inline uint32 add_four(uint32 codes, uint32 sum) {
  if constexpr (same<T, int8>::value) return (uint32)__dp4a(0x01010101, (int)codes, (int)sum);
  else return __dp4a(0x01010101u, codes, sum);
}

// The sum of (a - x) (b - y) over `count` pairs, from those of a b, of a and of b.
__device__ static inline int32 less_zeros(int32 dot, uint32 a, uint32 b, int32 x, int32 y,
                                          int64 count) {
  return (int32)((uint32)dot - (uint32)x * b - (uint32)y * a +
                 (uint32)count * (uint32)x * (uint32)y);
}

struct __align__(16) sixteen { uint32 words[4]; };

template <int SIDE> struct tiles {
  // Lines of 20 words, 16 of them used: the words that a warp reads are in 32 banks.
  __align__(16) uint32 codes[2][SIDE][20];
  // Where the next codes of a line are, for both operands: for this turn and the next.
  int64 steps[2][2][64];
  // The codes of a line added, in four parts.
  uint32 added[2][SIDE][4];

  // Write where 64 codes are, from the code k on.
  template <int N>
  __device__ void tabulate(const walk<N>& f, int left, int right, int64 k) {
    const int turn = (int)(k / 64 % 2), at = (int)threadIdx.x % 64;
    if (threadIdx.x >= 128 || k + at >= f.count) return;
    const int operand = (int)threadIdx.x / 64;
    steps[turn][operand][at] = f.at(operand ? right : left, k + at);
  }

  __device__ uint32 sum_of(int operand, int64 line) const {
    const uint32* parts = added[operand][line];
    return parts[0] + parts[1] + parts[2] + parts[3];
  }

  // Where a warp keeps 16 x 32 sums, when all codes are read.
  __device__ int32* kept() { return (int32*)codes + threadIdx.x / 32 * 16 * 33; }

  // Keep one piece of the sums of the threads: 16 rows.
  __device__ void keep(const int32 (&sums)[SIDE / 32][4][4], int piece) {
    const int lane = threadIdx.x % 32;
    int32* to = kept() + lane / 4 * 33 + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < SIDE / 32; ++i) {
      // So that sums stay in registers, which have no addresses.
      if (i != piece) continue;
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int at = 0; at < 4; ++at) to[at / 2 * 8 * 33 + j * 8 + at % 2] = sums[i][j][at];
    }
  }
};

// Add the products of the codes of a tile to the sums of a thread.
template <typename A, typename B, int SIDE>
__device__ static inline void multiply(const tiles<SIDE>& s, int32 (&sums)[SIDE / 32][4][4]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint32(*left)[20] = s.codes[0] + warp % 2 * (SIDE / 2) + lane / 4;
  const uint32(*right)[20] = s.codes[1] + warp / 2 * 32 + lane / 4;
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const int word = part * 8 + lane % 4;
    uint32 b[4][2];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      b[j][0] = right[8 * j][word], b[j][1] = right[8 * j][word + 4];
#pragma unroll
    for (int i = 0; i < SIDE / 32; ++i) {
      const uint32(*row)[20] = left + 16 * i;
      const uint32 a[4] = {row[0][word], row[8][word], row[0][word + 4], row[8][word + 4]};
#pragma unroll
      for (int j = 0; j < 4; ++j) mma<A, B>(sums[i][j], a, b[j]);
    }
  }
}

// What a thread copies of one operand: 16 codes of a line, twice.
template <typename T, int SIDE> struct copier {
  const T* from[2];
  int line[2], unit[2];
  bool is_inside[2], is_dense;
  sixteen codes[2];
  uint32 sums[2];

  // Neighbouring threads read along a line, if its codes are neighbours, or across lines.
  template <int N, int M>
  __device__ copier(const T* x, int at, const walk<N>& lines, const walk<M>& f, int64 first) {
    is_dense = f.jump[at][f.rank - 1] == 1 && f.size[f.rank - 1] >= 16;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int number = (int)threadIdx.x + i * 2 * SIDE;
      line[i] = is_dense ? number / 4 : number % SIDE;
      unit[i] = is_dense ? number % 4 : number / SIDE;
      is_inside[i] = first + line[i] < lines.count;
      from[i] = x + (is_inside[i] ? lines.at(at, first + line[i]) : 0);
      sums[i] = 0;
    }
  }

  // Read the next codes, of which `rest` remain: zeros behind the last one.
  __device__ void fetch(const int64* steps, int64 rest) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      codes[i] = read(from[i], steps + 16 * unit[i], is_inside[i] ? rest - 16 * unit[i] : 0);
  }

  __device__ sixteen read(const T* row, const int64* steps, int64 rest) const {
    sixteen found = {{0, 0, 0, 0}};
    const T* first = row + (rest > 0 ? steps[0] : 0);
    if (rest >= 16 && is_dense && steps[15] - steps[0] == 15 && ((uint64)first & 3) == 0) {
      if (((uint64)first & 15) == 0) return *(const sixteen*)first;
#pragma unroll
      for (int word = 0; word < 4; ++word) found.words[word] = ((const uint32*)first)[word];
      return found;
    }
#pragma unroll
    for (int at = 0; at < 16; ++at)
      if (at < rest) found.words[at / 4] |= (uint32)(uint8)row[steps[at]] << at % 4 * 8;
    return found;
  }

  __device__ void store(uint32 (*to)[20]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      *(sixteen*)(to[line[i]] + 4 * unit[i]) = codes[i];
#pragma unroll
      for (int word = 0; word < 4; ++word) sums[i] = add_four<T>(codes[i].words[word], sums[i]);
    }
  }

  __device__ void add_up(uint32 (*to)[4]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) to[line[i]][unit[i]] = sums[i];
  }
};

}  // namespace mdt
