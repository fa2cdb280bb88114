// CUDA C++ on the CPU: one text for NVRTC and for g++.
//
// A launch runs its blocks one after another on the calling thread. Without barriers the
// threads of a block are a loop. With barriers each thread is a fiber: it runs until it
// waits at a barrier, and goes on when all threads of the block wait at the same one.
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

struct mdt_index { unsigned x, y, z; };
static mdt_index threadIdx, blockIdx, blockDim, gridDim;

namespace mdt_emulation {

enum { RUNNING, WAITING, DONE };
enum { OK = 0, DIVERGENT = 1, UNDECLARED = 2, TRAPPED = 3, NO_MEMORY = 4 };
enum { STACK = 64 << 10, MOST = 1024 };

struct fiber { ucontext_t context; int state, line; };

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

static void wait_at(int line) {
  if (!has_fibers) {
    failed = UNDECLARED;
    return;
  }
  fibers[current].line = line;
  leave(WAITING);
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
    one.state = RUNNING;
  }
}

// Run all threads of a block to their next barrier, until all are done.
static void run_fibers(unsigned n, int kind, unsigned* order) {
  start(n);
  for (unsigned done = 0; done < n && !failed;) {
    arrange(order, n, kind);
    int line = -1;
    done = 0;
    for (unsigned i = 0; i < n && !failed; ++i) {
      current = order[i];
      threadIdx.x = current;
      swapcontext(&scheduler, &fibers[current].context);
      if (fibers[current].state == DONE) ++done;
      else if (line < 0) line = fibers[current].line;
      else if (line != fibers[current].line) failed = DIVERGENT;
    }
    if (done && done < n && !failed) failed = DIVERGENT;
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

#define __syncthreads() mdt_emulation::wait_at(__LINE__)
#define __trap() mdt_emulation::trap()

// Four products of signed bytes, added modulo 2**32.
static inline int __dp4a(int a, int b, int c) {
  unsigned sum = (unsigned)c;
  for (int i = 0; i < 32; i += 8)
    sum += (unsigned)((signed char)(a >> i) * (signed char)(b >> i));
  return (int)sum;
}

// The entry of a kernel for the emulated device.
#define MDT_EMULATED(KERNEL, BARRIERS)                                                 \
  extern "C" int KERNEL##_launch(void** arguments, unsigned grid, unsigned block, int order, \
                                 unsigned long long seed) {                            \
    return mdt_emulation::launch([](void** a) { mdt_emulation::unpack(KERNEL, a); },   \
                                 arguments, grid, block, BARRIERS, order, seed);       \
  }
