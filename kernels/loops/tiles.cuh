// Tiles of two matrices of codes in shared memory, which tensor cores multiply.
//
// A block of 128 threads computes SIDE x SIDE sums, 64 codes of each row and column at a
// time. A warp has SIDE / 2 rows and columns of them, in pieces of 16 x 8. Sums are exact
// modulo 2**32. The operands are walks: a tile does not know what a row is.

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

// Which tile comes at a place: 8 rows of tiles of a group, column by column, so that tiles
// which are computed together read the same codes.
struct corner { int group, row, column; };
__device__ static inline corner corner_of(int at, int high, int wide) {
  const int group = at / (high * wide), inside = at % (high * wide);
  const int band = inside / (8 * wide) * 8, rows = high - band < 8 ? high - band : 8;
  return {group, band + inside % (8 * wide) % rows, inside % (8 * wide) / rows};
}

// --- shared memory -------------------------------------------------------------------

// Copy 16 bytes from global to shared memory, of which `count` are there, and zeros
// behind them. They are there after `arrive`, not before.
__device__ static inline void send(sixteen* to, const void* from, int count) {
#ifndef __CUDACC__
  mdt_emulation::send(to, from, count);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   (uint32)__cvta_generic_to_shared(to)),
               "l"(from), "r"(count)
               : "memory");
#endif
}

// End a group of copies of this thread.
__device__ static inline void seal() {
#ifndef __CUDACC__
  mdt_emulation::seal();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Wait for the groups of this thread but the last `LATER`.
template <int LATER> __device__ static inline void arrive() {
#ifndef __CUDACC__
  mdt_emulation::arrive(LATER);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
#endif
}

// Read four pieces of 8 lines of 16 bytes; the lanes 8 p, 8 p + 1, ... say where the lines
// of piece p are. A lane gets word lane % 4 of line lane / 4 of each piece.
__device__ static inline void gather(uint32 (&words)[4], const sixteen* line) {
#ifndef __CUDACC__
  mdt_emulation::ldmatrix(words, line);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"((uint32)__cvta_generic_to_shared(line))
               : "memory");
#endif
}

// Where 16 codes of a line are, of lines of 64: the places of 8 lines that are read, or of
// 2 that are written, are in different banks.
__device__ static inline int place_of(int line, int unit) {
  return line * 4 + (unit ^ (line / 2 & 3));
}

// The sums of a thread: four of each piece of 16 x 8. For zero points it adds the codes
// of one line of each operand, too.
template <int SIDE> struct totals {
  static constexpr int HIGH = SIDE / 32, WIDE = SIDE / 16;
  int32 sums[HIGH][WIDE][4];
  uint32 lines[2];
};

template <int SIDE> struct tiles {
  // The codes of both operands that are multiplied, and the next ones.
  static constexpr int TURNS = 3, WARP = SIDE / 2;
  sixteen codes[TURNS][2][SIDE * 4];

  // Where the next codes of a line are, for both operands: for this turn and the next.
  // Lines without neighbours take two turns of codes, so the third has room for it.
  __device__ int64* steps(int turn, int operand) {
    return (int64*)codes[2] + (turn * 2 + operand) * 64;
  }

  // Write where 64 codes are, from the code k on.
  template <int N>
  __device__ void tabulate(const walk<N>& f, int left, int right, int slab) {
    const int at = (int)threadIdx.x % 64, operand = (int)threadIdx.x / 64;
    const int64 k = slab * 64ll + at;
    if (k < f.count) steps(slab % 2, operand)[at] = f.at(operand ? right : left, k);
  }

  // The codes of a line added: behind the sums of warps and the steps of the next tile.
  __device__ uint32& sum_of(int operand, int64 line) {
    return ((uint32*)codes[2])[1024 + operand * SIDE + line];
  }

  // Where a warp keeps 16 rows of sums, when all codes are read.
  __device__ int32* kept() { return (int32*)codes + threadIdx.x / 32 * 16 * (WARP + 1); }

  // Keep one piece of the sums of the threads: 16 rows.
  __device__ void keep(const totals<SIDE>& t, int piece) {
    const int lane = threadIdx.x % 32;
    int32* to = kept() + lane / 4 * (WARP + 1) + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < t.HIGH; ++i) {
      // So that sums stay in registers, which have no addresses.
      if (i != piece) continue;
#pragma unroll
      for (int j = 0; j < t.WIDE; ++j)
#pragma unroll
        for (int at = 0; at < 4; ++at)
          to[at / 2 * 8 * (WARP + 1) + j * 8 + at % 2] = t.sums[i][j][at];
    }
  }

  // Add half the codes of a turn of the line of this thread.
  template <typename T>
  __device__ void add_line(int operand, int turn, int part, totals<SIDE>& t) const {
    if (threadIdx.x >= SIDE) return;
#pragma unroll
    for (int unit = part * 2; unit < part * 2 + 2; ++unit) {
      const sixteen& found = codes[turn][operand][place_of(threadIdx.x, unit)];
#pragma unroll
      for (int word = 0; word < 4; ++word)
        t.lines[operand] = add_four<T>(found.words[word], t.lines[operand]);
    }
  }

  __device__ void keep_lines(const totals<SIDE>& t) {
    if (threadIdx.x >= SIDE) return;
    sum_of(0, threadIdx.x) = t.lines[0], sum_of(1, threadIdx.x) = t.lines[1];
  }
};

// Add the products of half the codes of a turn to the sums of a thread, and the codes
// themselves where a zero point needs it.
template <typename A, typename B, bool ADD_LEFT, bool ADD_RIGHT, int SIDE>
__device__ static inline void multiply(const tiles<SIDE>& s, int turn, int part,
                                       totals<SIDE>& t) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Pieces of the left operand: rows 0 to 7 and 8 to 15 of 16 codes, then of the next 16;
  // of the right one: two times 16 codes of 8 columns, then of the next 8.
  const int row = lane % 16, column = lane % 8 + lane / 16 * 8;
  const sixteen* left = s.codes[turn][0] + warp % 2 * (SIDE / 2) * 4;
  const sixteen* right = s.codes[turn][1] + warp / 2 * (SIDE / 2) * 4;
  const sixteen* rows = left + place_of(row, part * 2 + lane / 16);
  const sixteen* columns = right + place_of(column, part * 2 + lane / 8 % 2);
  uint32 b[totals<SIDE>::WIDE / 2][4];
#pragma unroll
  for (int j = 0; j < t.WIDE / 2; ++j) gather(b[j], columns + j * 16 * 4);
#pragma unroll
  for (int i = 0; i < t.HIGH; ++i) {
    uint32 a[4];
    gather(a, rows + i * 16 * 4);
#pragma unroll
    for (int j = 0; j < t.WIDE; ++j) {
      const uint32 pair[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
      mma<A, B>(t.sums[i][j], a, pair);
    }
  }
  if (ADD_LEFT) s.template add_line<A>(0, turn, part, t);
  if (ADD_RIGHT) s.template add_line<B>(1, turn, part, t);
}

// Whether the codes of all lines are neighbours, and begin where 16 bytes can be read.
template <typename T, int N, int M>
__device__ static inline bool is_aligned(const T* x, int at, const walk<N>& lines,
                                         const walk<M>& f) {
  uint64 starts = (uint64)x;
#pragma unroll 1
  for (int axis = 0; axis < (int)lines.rank; ++axis) starts |= (uint64)lines.jump[at][axis];
  return f.rank == 1 && f.jump[at][0] == 1 && starts % 16 == 0;
}

// What a thread copies of one operand: 16 codes of a line, SIDE / 32 times.
template <typename T, int SIDE> struct copier {
  static constexpr int COUNT = SIDE / 32;
  const T* from[COUNT];
  bool is_dense, is_near;
  // A bit for each line that is not behind the last one.
  uint32 inside = 0;
  sixteen codes[COUNT];

  // Neighbouring threads read along a line, if its codes are neighbours, or across lines.
  __device__ int line(int i) const {
    const int number = (int)threadIdx.x + i * 128;
    return is_near ? number / 4 : number % SIDE;
  }
  __device__ int unit(int i) const {
    const int number = (int)threadIdx.x + i * 128;
    return is_near ? number % 4 : number / SIDE;
  }

  __device__ bool is_inside(int i) const { return inside >> i & 1; }

  template <int N, int M>
  __device__ copier(const T* x, int at, const walk<N>& lines, const walk<M>& f, int64 first) {
    const int64 last = f.jump[at][f.rank - 1];
    is_near = last == 1 && f.size[f.rank - 1] >= 16;
    is_dense = is_aligned(x, at, lines, f);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const int64 number = first + line(i);
      from[i] = x + (number < lines.count ? lines.at(at, number) : 0);
      inside |= (uint32)(number < lines.count) << i;
    }
  }

  // Copy the next codes of dense lines, of which `rest` remain, while others go on.
  __device__ void send(sixteen* to, int64 k, int rest) const {
    const int unit = threadIdx.x % 4, line = threadIdx.x / 4;
    const int there = rest - 16 * unit, count = there < 0 ? 0 : there < 16 ? there : 16;
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      mdt::send(to + place_of(line, unit) + i * 32 * 4, from[i] + k + 16 * unit,
                is_inside(i) ? count : 0);
  }

  // Read the next codes, of which `rest` remain: zeros behind the last one.
  __device__ void fetch(const int64* steps, int rest) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      codes[i] = read(from[i], steps + 16 * unit(i), is_inside(i) ? rest - 16 * unit(i) : 0);
  }

  __device__ sixteen read(const T* row, const int64* steps, int rest) const {
    sixteen found = {{0, 0, 0, 0}};
    const T* first = row + (rest > 0 ? steps[0] : 0);
    if (rest >= 16 && is_near && steps[15] - steps[0] == 15 && ((uint64)first & 3) == 0) {
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

  __device__ void store(sixteen* to) const {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) to[place_of(line(i), unit(i))] = codes[i];
  }
};

__device__ static inline int rest_of(int64 count, int slab) {
  const int64 rest = count - slab * 64ll;
  return rest < 64 ? (int)rest : 64;
}

// Add all products of a tile whose lines are dense. Two turns of codes are on their way
// while a third is multiplied.
template <bool ADD_LEFT, bool ADD_RIGHT, typename A, typename B, int SIDE>
__device__ static inline void add_dense(tiles<SIDE>& s, const copier<A, SIDE>& x,
                                        const copier<B, SIDE>& y, int64 count,
                                        totals<SIDE>& t) {
  constexpr int TURNS = tiles<SIDE>::TURNS;
  const int slabs = (int)((count + 63) / 64);
  int turn = 1, free = 0;
#pragma unroll 1
  for (int next = 0; next < slabs + TURNS - 1; ++next) {
    arrive<TURNS - 2>();
    // The codes of all threads are there, and those of the turn before are multiplied.
    __syncthreads();
    if (next < slabs) {
      const int rest = rest_of(count, next);
      x.send(s.codes[free][0], next * 64ll, rest);
      y.send(s.codes[free][1], next * 64ll, rest);
    }
    // Also an empty group is one.
    seal();
    if (next >= TURNS - 1)
#pragma unroll
      for (int part = 0; part < 2; ++part)
        multiply<A, B, ADD_LEFT, ADD_RIGHT>(s, turn, part, t);
    free = turn;
    turn = turn == TURNS - 1 ? 0 : turn + 1;
  }
}

// Add all products of a tile of any lines. The next codes are on their way to registers
// while these are multiplied.
template <bool ADD_LEFT, bool ADD_RIGHT, typename A, typename B, int SIDE, int N>
__device__ static inline void add_sparse(tiles<SIDE>& s, copier<A, SIDE>& x,
                                         copier<B, SIDE>& y, const walk<N>& f, int left,
                                         int right, totals<SIDE>& t) {
  const int slabs = (int)((f.count + 63) / 64);
  s.tabulate(f, left, right, 0);
#pragma unroll 1
  for (int slab = -1; slab < slabs; ++slab) {
    const int next = slab + 1, turn = next % 2, rest = rest_of(f.count, next);
    __syncthreads();
    // One operand after the other, since each takes registers.
    x.fetch(s.steps(turn, 0), rest);
    if (slab >= 0) multiply<A, B, ADD_LEFT, ADD_RIGHT>(s, 1 - turn, 0, t);
    x.store(s.codes[turn][0]);
    y.fetch(s.steps(turn, 1), rest);
    s.tabulate(f, left, right, next + 1);
    if (slab >= 0) multiply<A, B, ADD_LEFT, ADD_RIGHT>(s, 1 - turn, 1, t);
    y.store(s.codes[turn][1]);
  }
}

}  // namespace mdt
