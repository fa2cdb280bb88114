// Products of many rows by few columns: a depthwise convolution, whose rows are places.
//
// A block has 512 rows of one column. 128 codes of the column, and where the codes of a
// row are, are tabulated in shared memory, so the loop over them has no divisions.
// Neighbouring threads have neighbouring rows, whose codes are neighbours in an image.

namespace mdt {

struct taps {
  static constexpr int THREADS = 128, EACH = 4, ROWS = THREADS * EACH;
  int64 steps[THREADS];
  int32 codes[THREADS];

  // Write the codes of a column from `first` on, and where those of a row are.
  template <typename T, int N>
  __device__ void tabulate(const T* y, const walk<N>& f, int left, int right, int64 first) {
    const int64 k = first + threadIdx.x;
    if (k >= f.count) return;
    steps[threadIdx.x] = f.at(left, k);
    codes[threadIdx.x] = y[f.at(right, k)];
  }
};

// The sums of the rows of a thread. For zero points it adds the codes themselves, too.
template <typename T> struct plane {
  const T* from[taps::EACH];
  int live;
  uint32 dots[taps::EACH], lefts[taps::EACH], right;

  template <int N>
  __device__ plane(const T* x, int at, const walk<N>& rows, int64 top) {
    const int64 rest = rows.count - top;
    live = rest < taps::ROWS ? (int)((rest + taps::THREADS - 1) / taps::THREADS) : taps::EACH;
#pragma unroll
    for (int i = 0; i < taps::EACH; ++i) {
      const int64 row = top + threadIdx.x + i * taps::THREADS;
      // A row behind the last one reads the first one, and is not written.
      from[i] = x + (row < rows.count ? rows.at(at, row) : 0);
      dots[i] = lefts[i] = 0;
    }
    right = 0;
  }

  // Add the products of the tabulated codes, of which `rest` or all remain.
  template <bool ADD_LEFT, bool ADD_RIGHT> __device__ void add(const taps& s, int64 rest) {
    const int count = rest < taps::THREADS ? (int)rest : taps::THREADS;
#pragma unroll 4
    for (int k = 0; k < count; ++k) {
      const int64 step = s.steps[k];
      const int32 code = s.codes[k];
      if (ADD_RIGHT) right += (uint32)code;
#pragma unroll
      for (int i = 0; i < taps::EACH; ++i) {
        if (i >= live) continue;
        const int32 own = from[i][step];
        dots[i] += (uint32)(own * code);
        if (ADD_LEFT) lefts[i] += (uint32)own;
      }
    }
  }
};

}  // namespace mdt
