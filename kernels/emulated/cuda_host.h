// CUDA C++ on the CPU: one text for NVRTC and for g++.
//
// A launch runs its blocks one after another on the calling thread. Without barriers the
// threads of a block are a loop. With barriers each thread is a fiber: it runs until it
// waits at a barrier, and goes on when all threads of the block wait at the same one. The
// 32 threads of a warp that meet go on together, ahead of other warps, as far as no barrier
// of the block stops them.
//
// Threads run in ascending, descending or random order (0, 1, 2), a new random order
// for each interval between barriers. A result that depends on the order is a race.
//
// It cannot show: races between blocks, the order of memory, coalescing, or the rounding
// of a GPU's exp and sin. Shared memory keeps what the block before left in it.

#include <math.h>
#include <string.h>
#include <stdlib.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __shared__ static
#define __align__(BYTES) __attribute__((aligned(BYTES)))
#define __launch_bounds__(...)

// No two threads run at once.
static inline unsigned long long atomicAdd(unsigned long long* to, unsigned long long n) {
  const unsigned long long before = *to;
  *to = before + n;
  return before;
}

struct mdt_index { unsigned x, y, z; };
static mdt_index threadIdx, blockIdx, blockDim, gridDim;

namespace mdt_emulation {

enum { RUNNING, WAITING, MEETING, DONE };
enum { OK = 0, DIVERGENT = 1, UNDECLARED = 2, TRAPPED = 3, NO_MEMORY = 4 };
enum { STACK = 64 << 10, WARP = 32, WARPS = 32 };

struct fiber { ucontext_t context; int state, line, turn, copies, groups; };

static ucontext_t scheduler;
static fiber* fibers;
static char* stacks;
static void (*body)(void**);
static void** given;
static bool has_fibers;
static int failed;
static unsigned current;
static unsigned long long random_state;

static unsigned random_below(unsigned n) {
  random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
  return (unsigned)((random_state >> 33) % n);
}

static void arrange(unsigned* order, unsigned n, int kind) {
  for (unsigned i = 0; i < n; ++i) order[i] = kind == 1 ? n - 1 - i : i;
  if (kind != 2) return;
  for (unsigned i = n; i > 1; --i) {
    const unsigned j = random_below(i), kept = order[i - 1];
    order[i - 1] = order[j];
    order[j] = kept;
  }
}

static void leave(int state) {
  fibers[current].state = state;
  swapcontext(&fibers[current].context, &scheduler);
}

static void enter() {
  body(given);
  leave(DONE);
}

static void wait_at(int line, int state) {
  if (!has_fibers) {
    failed = UNDECLARED;
    return;
  }
  fibers[current].line = line;
  leave(state);
}

static void trap() {
  failed = TRAPPED;
  if (has_fibers) leave(DONE);
}

static void start(unsigned n) {
  for (unsigned i = 0; i < n; ++i) {
    fiber& one = fibers[i];
    getcontext(&one.context);
    one.context.uc_stack.ss_sp = stacks + (size_t)i * STACK;
    one.context.uc_stack.ss_size = STACK;
    one.context.uc_link = 0;
    makecontext(&one.context, enter, 0);
    one.state = RUNNING, one.turn = 0, one.copies = 0, one.groups = 0;
  }
}

static void resume(unsigned thread) {
  current = thread, threadIdx.x = thread;
  fibers[thread].state = RUNNING;
  swapcontext(&scheduler, &fibers[thread].context);
}

// Require that threads have one state, and wait at one line; return the state.
static int common(unsigned from, unsigned to) {
  const int state = fibers[from].state, line = fibers[from].line;
  for (unsigned i = from; i < to; ++i)
    if (fibers[i].state != state || (state != DONE && fibers[i].line != line))
      failed = DIVERGENT;
  return state;
}

// Run the warp of a thread that meets the others, until it waits for other warps.
static void run_warp(unsigned thread, unsigned n, int kind) {
  const unsigned from = thread / WARP * WARP, to = from + WARP < n ? from + WARP : n;
  unsigned order[WARP];
  for (unsigned i = from; i < to && !failed; ++i)
    if (fibers[i].state == RUNNING) resume(i);
  while (!failed && common(from, to) == MEETING && !failed) {
    arrange(order, to - from, kind);
    for (unsigned i = 0; i < to - from && !failed; ++i) resume(from + order[i]);
  }
}

// Run all threads of a block to their next barrier, until all are done.
static void run_fibers(unsigned n, int kind, unsigned* order) {
  start(n);
  for (int state = RUNNING; state != DONE && !failed;) {
    arrange(order, n, kind);
    for (unsigned i = 0; i < n; ++i) fibers[i].state = RUNNING;
    for (unsigned i = 0; i < n && !failed; ++i) {
      if (fibers[order[i]].state != RUNNING) continue;
      resume(order[i]);
      if (fibers[order[i]].state == MEETING) run_warp(order[i], n, kind);
    }
    if (!failed) state = common(0, n);
  }
}

static int launch(void (*kernel)(void**), void** arguments, unsigned grid, unsigned block,
                  bool barriers, int kind, unsigned long long seed) {
  unsigned* order = (unsigned*)malloc(sizeof(unsigned) * (block + (size_t)grid));
  fibers = barriers ? (fiber*)malloc(sizeof(fiber) * block) : 0;
  stacks = barriers ? (char*)malloc((size_t)STACK * block) : 0;
  failed = order && (!barriers || (fibers && stacks)) ? OK : NO_MEMORY;
  body = kernel, given = arguments, has_fibers = barriers, random_state = seed;
  gridDim = {grid, 1, 1}, blockDim = {block, 1, 1};
  if (!failed) arrange(order + block, grid, kind);
  for (unsigned b = 0; b < grid && !failed; ++b) {
    blockIdx = {order[block + b], 0, 0}, threadIdx = {0, 0, 0};
    if (barriers) run_fibers(block, kind, order);
    else {
      arrange(order, block, kind);
      for (unsigned i = 0; i < block && !failed; ++i) threadIdx.x = order[i], kernel(arguments);
    }
  }
  free(order), free(fibers), free(stacks);
  return failed;
}

// Call a kernel with arguments by pointer, as cuLaunchKernel does.
template <int... I> struct places {};
template <typename... A, int... I>
static void call(void (*kernel)(A...), void** arguments, places<I...>) {
  kernel(*(A*)arguments[I]...);
}
template <typename... A> static void unpack(void (*kernel)(A...), void** arguments) {
  call(kernel, arguments, places<__integer_pack(sizeof...(A))...>());
}

}  // namespace mdt_emulation

#define __syncthreads() mdt_emulation::wait_at(__LINE__, mdt_emulation::WAITING)
#define __syncwarp() mdt_emulation::wait_at(__LINE__, mdt_emulation::MEETING)
#define __trap() mdt_emulation::trap()

// Four products of signed bytes, added modulo 2**32.
static inline int __dp4a(int a, int b, int c) {
  unsigned sum = (unsigned)c;
  for (int i = 0; i < 32; i += 8)
    sum += (unsigned)((signed char)(a >> i) * (signed char)(b >> i));
  return (int)sum;
}

static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 255u) * (b >> i & 255u);
  return c;
}

namespace mdt_emulation {

struct fragments { unsigned a[4], b[2]; };
// Two for each thread: one that others still read, while it gives the next.
static fragments given_to_warp[2][WARPS * WARP];

template <typename T> static inline int byte_of(unsigned word, int at) {
  return (T)(unsigned char)(word >> 8 * at);
}

// mma.sync.m16n8k32: the 16 x 8 sums of a warp, plus the products of rows of 32 bytes.
// With g = lane / 4 and q = lane % 4 a thread gives the words q and q + 4 of the rows g and
// g + 8 of the left matrix, and of the column g of the right one; it has the sums of the
// columns 2 q and 2 q + 1 in the rows g and g + 8 (PTX ISA, "Matrix Fragments for
// mma.m16n8k32").
template <typename A, typename B>
static inline void mma(int (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  if (!has_fibers) return wait_at(__LINE__, MEETING);
  const unsigned lane = threadIdx.x % WARP;
  const int turn = fibers[current].turn ^= 1;
  fragments* const warp = given_to_warp[turn] + (threadIdx.x - lane);
  memcpy(warp[lane].a, a, sizeof(a)), memcpy(warp[lane].b, b, sizeof(b));
  wait_at(__LINE__, MEETING);
  for (unsigned at = 0; at < 4; ++at) {
    const unsigned row = lane / 4 * 4, column = (lane % 4 * 2 + at % 2) * 4;
    unsigned sum = (unsigned)sums[at];
    for (unsigned word = 0; word < 8; ++word) {
      const unsigned x = warp[row + word % 4].a[word / 4 * 2 + at / 2];
      const unsigned y = warp[column + word % 4].b[word / 4];
      for (int i = 0; i < 4; ++i) sum += (unsigned)(byte_of<A>(x, i) * byte_of<B>(y, i));
    }
    sums[at] = (int)sum;
  }
}

// Each thread gives 8 bytes at most, and gets those of the lane `by` above, or its own.
static unsigned long long lanes[2][WARPS * WARP];

template <typename T> static inline T shuffled_down(T value, unsigned by) {
  static_assert(sizeof(T) <= 8, "a lane has 8 bytes");
  if (!has_fibers) return wait_at(__LINE__, MEETING), value;
  unsigned long long* const given = lanes[fibers[current].turn ^= 1];
  memcpy(&given[threadIdx.x], &value, sizeof(T));
  wait_at(__LINE__, MEETING);
  const bool is_inside = threadIdx.x % WARP + by < WARP;
  memcpy(&value, &given[threadIdx.x + (is_inside ? by : 0)], sizeof(T));
  return value;
}

// ldmatrix: a thread gives the place of a line of 16 bytes, and gets a word of four lines.
static const void* lines_of_warp[2][WARPS * WARP];

static inline void ldmatrix(unsigned (&words)[4], const void* line) {
  if (!has_fibers) return wait_at(__LINE__, MEETING);
  const unsigned lane = threadIdx.x % WARP;
  const void** const warp = lines_of_warp[fibers[current].turn ^= 1] + (threadIdx.x - lane);
  warp[lane] = line;
  wait_at(__LINE__, MEETING);
  for (unsigned piece = 0; piece < 4; ++piece)
    memcpy(&words[piece], (const char*)warp[piece * 8 + lane / 4] + lane % 4 * 4, 4);
}

// cp.async: between its start and the end of the wait for it, a copy has any bytes. So
// it spoils them at once, and copies when the thread waits.
struct copy { void* to; const void* from; int count, group; };
enum { COPIES = 64 };
static copy copies[WARPS * WARP][COPIES];

static inline void send(void* to, const void* from, int count) {
  fiber& one = fibers[current];
  if (one.copies == COPIES) return trap();
  memset(to, 0xA5, 16);
  copies[current][one.copies++] = {to, from, count, one.groups};
}

static inline void seal() { ++fibers[current].groups; }

static inline void arrive(int later) {
  fiber& one = fibers[current];
  int left = 0;
  for (int i = 0; i < one.copies; ++i) {
    const copy& next = copies[current][i];
    if (next.group >= one.groups - later) {
      copies[current][left++] = next;
      continue;
    }
    memset(next.to, 0, 16);
    if (next.count) memcpy(next.to, next.from, next.count);
  }
  one.copies = left;
}

}  // namespace mdt_emulation

#define __shfl_down_sync(WARP, VALUE, BY) mdt_emulation::shuffled_down(VALUE, BY)

// The entry of a kernel for the emulated device.
#define MDT_EMULATED(KERNEL, BARRIERS)                                                 \
  extern "C" int KERNEL##_launch(void** arguments, unsigned grid, unsigned block, int order, \
                                 unsigned long long seed) {                            \
    return mdt_emulation::launch([](void** a) { mdt_emulation::unpack(KERNEL, a); },   \
                                 arguments, grid, block, BARRIERS, order, seed);       \
  }
