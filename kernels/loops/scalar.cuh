// Functions of scalars that rendered loops call, in CUDA C++ for every compiler.
//
// Integers wrap: they are computed as unsigned integers, so nothing is undefined. Floats
// are computed in their own type; compile without contraction (--fmad=false,
// -ffp-contract=off). NaN goes through maximum and minimum, and -0 is below 0 there.
// half and bfloat are storage: a cast widens them to float, or rounds once, half to even.
// C's functions give exp, log, sin and so on within the bounds of their library.

#define MDT_FN template <typename T> __device__ static inline

namespace mdt {

typedef signed char int8;
typedef short int16;
typedef int int32;
typedef long long int64;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;

struct half { uint16 bits; };
struct bfloat { uint16 bits; };
template <typename T> struct complex { T re, im; };

// --- types ---------------------------------------------------------------------------

// What integers are computed in, and the range of a type.
template <typename T> struct type;
#define MDT_INTEGER(T, U, LEAST, MOST, BITS)                                           \
  template <> struct type<T> {                                                         \
    typedef U wide;                                                                    \
    static constexpr bool is_integer = true, is_signed = (LEAST) != 0;                  \
    static constexpr int bits = BITS;                                                  \
    static constexpr T least = LEAST, most = MOST;                                     \
  };
MDT_INTEGER(bool, uint32, 0, 1, 1)
MDT_INTEGER(int8, uint32, -128, 127, 8)
MDT_INTEGER(int16, uint32, -32768, 32767, 16)
MDT_INTEGER(int32, uint32, -2147483647 - 1, 2147483647, 32)
MDT_INTEGER(int64, uint64, -9223372036854775807LL - 1, 9223372036854775807LL, 64)
MDT_INTEGER(uint8, uint32, 0, 255, 8)
MDT_INTEGER(uint16, uint32, 0, 65535, 16)
MDT_INTEGER(uint32, uint32, 0, 4294967295u, 32)
MDT_INTEGER(uint64, uint64, 0, 18446744073709551615ull, 64)
// Floats: the largest number, and the first that rounds beyond it.
#define MDT_FLOAT(T, MOST, BEYOND)                                                     \
  template <> struct type<T> {                                                         \
    static constexpr bool is_integer = false, is_signed = true;                        \
    __device__ static double most() { return MOST; }                                   \
    __device__ static double beyond() { return BEYOND; }                               \
  };
MDT_FLOAT(half, 65504.0, 65520.0)
MDT_FLOAT(bfloat, 0x1.fep127, 0x1.ffp127)
MDT_FLOAT(float, 0x1.fffffep127, 0x1.ffffffp127)
MDT_FLOAT(double, 0x1.fffffffffffffp1023, 1.0 / 0.0)

template <typename A, typename B> struct same { static constexpr bool value = false; };
template <typename A> struct same<A, A> { static constexpr bool value = true; };
template <typename A> struct is_narrow {
  static constexpr bool value = same<A, half>::value || same<A, bfloat>::value;
};

template <typename To, typename From> __device__ static inline To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From), "sizes of bits differ");
  To y;
  memcpy(&y, &x, sizeof(y));
  return y;
}

// --- narrow floats -------------------------------------------------------------------

__device__ static inline float widen(bfloat x) { return bits_as<float>((uint32)x.bits << 16); }

__device__ static inline float widen(half x) {
  const uint32 sign = (uint32)(x.bits & 0x8000u) << 16, rest = x.bits & 0x7fffu;
  if (rest >= 0x7c00u) return bits_as<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // Below the normal numbers: rest is a multiple of 2**-24, which float holds exactly.
  if (rest < 0x400u) return bits_as<float>(sign | bits_as<uint32>((float)rest * 0x1p-24f));
  return bits_as<float>(sign | ((rest << 13) + (112u << 23)));
}
__device__ static inline float widen(float x) { return x; }
__device__ static inline double widen(double x) { return x; }

__device__ static inline bfloat round_to(float x, bfloat) {
  const uint32 bits = bits_as<uint32>(x);
  if (x != x) return bfloat{(uint16)(bits >> 16 | 0x40u)};
  return bfloat{(uint16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

__device__ static inline half round_to(float x, half) {
  const uint32 bits = bits_as<uint32>(x), sign = bits >> 16 & 0x8000u;
  const uint32 size = bits & 0x7fffffffu;
  if (x != x) return half{(uint16)(sign | 0x7e00u | (size >> 13 & 0x1ffu))};
  if (size >= 0x477ff000u) return half{(uint16)(sign | 0x7c00u)};
  // Below 2**-14 the sum rounds at the right place: its last bit is 2**-24.
  if (size < 0x38800000u) {
    const float moved = bits_as<float>(size) + 0.5f;
    return half{(uint16)(sign | (bits_as<uint32>(moved) - 0x3f000000u))};
  }
  return half{(uint16)(sign | (size - (112u << 23) + 0xfffu + (size >> 13 & 1u)) >> 13)};
}

// Round to the neighbour whose last bit is 1, so that a second rounding cannot go wrong.
__device__ static inline float to_odd(double x) {
  const float y = (float)x;
  const uint32 bits = bits_as<uint32>(y);
  if (x != x || (double)y == x || (bits & 1u)) return y;
  const bool is_large = fabs((double)y) > fabs(x);
  return bits_as<float>(bits + (is_large ? -1u : 1u));
}
__device__ static inline double to_odd(uint64 x) {
  return x >> 53 ? (double)(x >> 11 | ((x & 0x7ffu) != 0)) * 2048.0 : (double)x;
}
template <typename I> __device__ static inline double whole_to_odd(I x) {
  return x < 0 ? -to_odd(0 - (uint64)x) : to_odd((uint64)x);
}

// --- casts ---------------------------------------------------------------------------

// Integers modulo the values of the type; NaN and infinities become 0.
template <typename To> __device__ static inline To whole(double x) {
  if (!(fabs(x) < 1.0 / 0.0)) return 0;
  const double rest = fmod(trunc(x), 18446744073709551616.0);
  const uint64 size = (uint64)fabs(rest);
  return (To)(rest < 0 ? 0 - size : size);
}

template <typename To, typename From> __device__ static inline To wrap(From x) {
  if constexpr (same<To, From>::value) return x;
  else if constexpr (is_narrow<From>::value) return wrap<To>(widen(x));
  else if constexpr (same<To, bool>::value) return x != (From)0;
  else if constexpr (type<To>::is_integer && type<From>::is_integer)
    return (To)(typename type<To>::wide)x;
  else if constexpr (type<To>::is_integer) return whole<To>((double)x);
  else if constexpr (!is_narrow<To>::value) return (To)x;
  else if constexpr (same<From, float>::value) return round_to(x, To{});
  else if constexpr (same<From, double>::value) return round_to(to_odd(x), To{});
  else return round_to(to_odd(whole_to_odd(x)), To{});
}

// Complex numbers are converted part by part; a real number gets the part 0.
template <typename To, typename From> __device__ static inline complex<To> wrap_parts(From x) {
  return complex<To>{wrap<To>(x), To(0)};
}
template <typename To, typename P> __device__ static inline complex<To> wrap_parts(complex<P> x) {
  return complex<To>{wrap<To>(x.re), wrap<To>(x.im)};
}
template <typename P> __device__ static inline bool is_true(complex<P> x) {
  return x.re != 0 || x.im != 0;
}

// Whether x, truncated or rounded, is below (-1) or above (1) the numbers of a type;
// 2 for NaN that an integer type lacks.
template <typename To, typename From> __device__ static inline int beyond(From x) {
  if constexpr (is_narrow<From>::value) return beyond<To>(widen(x));
  else if constexpr (same<To, bool>::value) return 0;
  else if constexpr (type<To>::is_integer && type<From>::is_integer) {
    if (type<From>::is_signed && x < (From)0)
      return !type<To>::is_signed || (int64)x < (int64)type<To>::least ? -1 : 0;
    return (uint64)x > (uint64)type<To>::most ? 1 : 0;
  } else if constexpr (type<To>::is_integer) {
    const double t = trunc((double)x);
    if (t != t) return 2;
    if (t < (double)type<To>::least) return -1;
    constexpr int bits = type<To>::bits - type<To>::is_signed;
    return t >= 2.0 * (double)(1ull << (bits - 1)) ? 1 : 0;
  } else {
    // A float of 64 bits or an integer: the latter are below the bounds of all but half.
    const double t = (double)x, size = fabs(t);
    if (!(size >= type<To>::beyond()) || size == 1.0 / 0.0) return 0;
    return t < 0 ? -1 : 1;
  }
}

template <typename To, typename From> __device__ static inline To saturate(From x) {
  const int side = beyond<To>(x);
  if (side == 0) return wrap<To>(x);
  if constexpr (type<To>::is_integer)
    return side == 2 ? (To)0 : side < 0 ? type<To>::least : type<To>::most;
  else return wrap<To>(side < 0 ? -type<To>::most() : type<To>::most());
}

template <typename To, typename From> __device__ static inline bool outside(From x) {
  return beyond<To>(x) != 0;
}

template <typename To, typename From> __device__ static inline bool inexact(From x) {
  if constexpr (is_narrow<From>::value) return inexact<To>(widen(x));
  else if constexpr (same<To, bool>::value) return x != (From)0 && x != (From)1;
  else if constexpr (type<To>::is_integer && type<From>::is_integer)
    return beyond<To>(x) != 0;
  else if constexpr (type<To>::is_integer)
    return beyond<To>(x) != 0 || (double)x != trunc((double)x);
  else if constexpr (type<From>::is_integer) {
    const auto y = widen(wrap<To>(x));
    return beyond<From>(y) != 0 || wrap<From>(y) != x;
  } else return x == x && (double)widen(wrap<To>(x)) != (double)x;
}

// --- arithmetic ----------------------------------------------------------------------

#define MDT_WHOLE(NAME, OP)                                                            \
  MDT_FN T NAME(T x, T y) {                                                            \
    if constexpr (type<T>::is_integer) {                                               \
      typedef typename type<T>::wide U;                                                \
      return (T)((U)x OP (U)y);                                                        \
    } else return x OP y;                                                              \
  }
MDT_WHOLE(add, +)
MDT_WHOLE(sub, -)
MDT_WHOLE(mul, *)
template <typename P> __device__ static inline complex<P> add(complex<P> x, complex<P> y) {
  return complex<P>{x.re + y.re, x.im + y.im};
}
template <typename P> __device__ static inline complex<P> sub(complex<P> x, complex<P> y) {
  return complex<P>{x.re - y.re, x.im - y.im};
}
MDT_FN T div(T x, T y) { return x / y; }
MDT_FN T neg(T x) {
  if constexpr (type<T>::is_integer) return sub<T>(0, x);
  else return -x;
}
template <typename P> __device__ static inline complex<P> neg(complex<P> x) {
  return complex<P>{-x.re, -x.im};
}
template <typename P> __device__ static inline complex<P> conj(complex<P> x) {
  return complex<P>{x.re, -x.im};
}
template <typename P> __device__ static inline P real(complex<P> x) { return x.re; }
template <typename P> __device__ static inline P imag(complex<P> x) { return x.im; }

MDT_FN T abs(T x) {
  if constexpr (type<T>::is_integer) return type<T>::is_signed && x < (T)0 ? neg<T>(x) : x;
  else return (T)fabs(x);
}
MDT_FN T sign(T x) { return x > (T)0 ? (T)1 : x < (T)0 ? (T)-1 : x == (T)0 ? (T)0 : x; }
MDT_FN bool signbit(T x) {
  if constexpr (sizeof(T) == 4) return bits_as<uint32>(x) >> 31;
  else return bits_as<uint64>(x) >> 63;
}
MDT_FN T maximum(T x, T y) {
  if constexpr (type<T>::is_integer) return x > y ? x : y;
  else return x != x ? x : y != y ? y : x > y || (x == y && signbit(y)) ? x : y;
}
MDT_FN T minimum(T x, T y) {
  if constexpr (type<T>::is_integer) return x < y ? x : y;
  else return x != x ? x : y != y ? y : x < y || (x == y && signbit(x)) ? x : y;
}

// Quotients of integers round down, and so do quotients of floats.
MDT_FN T remainder(T x, T y) {
  if constexpr (type<T>::is_integer) {
    // -1 is apart: the quotient of the least number does not fit.
    if (y == 0 || (type<T>::is_signed && y == (T)-1)) return 0;
    const T rest = x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? (T)(rest + y) : rest;
  } else {
    const T rest = sizeof(T) == 4 ? (T)fmodf(x, y) : (T)fmod(x, y);
    if (rest == 0) return (T)copysign(0.0, (double)y);
    return (y < 0) != (rest < 0) ? rest + y : rest;
  }
}
MDT_FN T floor_divide(T x, T y) {
  if constexpr (type<T>::is_integer) {
    if (y == 0) return 0;
    if (type<T>::is_signed && y == (T)-1) return neg<T>(x);
    const T quotient = x / y, rest = x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? (T)(quotient - 1) : quotient;
  } else {
    const T quotient = x / y;
    if (y == 0 || !(fabs((double)x) < 1.0 / 0.0) || !(fabs((double)y) < 1.0 / 0.0))
      return (T)floor(quotient);
    T rest = sizeof(T) == 4 ? (T)fmodf(x, y) : (T)fmod(x, y), exact = (x - rest) / y;
    if (rest != 0 && (y < 0) != (rest < 0)) exact -= (T)1;
    if (exact == 0) return (T)copysign(0.0, (double)quotient);
    const T below = (T)floor(exact);
    return exact - below > (T)0.5 ? below + (T)1 : below;
  }
}
MDT_FN T pow(T x, T y) {
  if constexpr (type<T>::is_integer) {
    T result = 1;
    for (; y > 0; y = (T)(y >> 1)) {
      if (y & 1) result = mul<T>(result, x);
      x = mul<T>(x, x);
    }
    return result;
  } else return sizeof(T) == 4 ? (T)powf(x, y) : (T)::pow((double)x, (double)y);
}

// --- bits ----------------------------------------------------------------------------

MDT_FN T bit_and(T x, T y) { return (T)(x & y); }
MDT_FN T bit_or(T x, T y) { return (T)(x | y); }
MDT_FN T bit_xor(T x, T y) { return (T)(x ^ y); }
MDT_FN T bit_not(T x) { return same<T, bool>::value ? (T)!x : (T)~x; }
MDT_FN T shift_left(T x, T y) {
  typedef typename type<T>::wide U;
  return (uint64)y >= (uint64)type<T>::bits ? (T)0 : (T)((U)x << (U)y);
}
MDT_FN T shift_right(T x, T y) {
  if ((uint64)y >= (uint64)type<T>::bits) return type<T>::is_signed && x < 0 ? (T)-1 : (T)0;
  return (T)(x >> y);
}

// --- comparisons ---------------------------------------------------------------------

MDT_FN bool equal(T x, T y) { return x == y; }
MDT_FN bool not_equal(T x, T y) { return x != y; }
MDT_FN bool less(T x, T y) { return x < y; }
MDT_FN bool less_equal(T x, T y) { return x <= y; }
template <typename P> __device__ static inline bool equal(complex<P> x, complex<P> y) {
  return x.re == y.re && x.im == y.im;
}
template <typename P> __device__ static inline bool not_equal(complex<P> x, complex<P> y) {
  return !equal(x, y);
}

// -1, 0 or 1: the exact order of a whole number and a double; 2 if they have none.
template <typename I> __device__ static inline int order(I x, double y) {
  if (y != y) return 2;
  constexpr double above = 2.0 * (double)(1ull << (type<I>::bits - 1 - type<I>::is_signed));
  if (y >= above) return -1;
  if (y < (type<I>::is_signed ? -above : 0.0)) return 1;
  const double down = floor(y);
  const I whole = (I)down;
  return x < whole ? -1 : x > whole ? 1 : y > down ? -1 : 0;
}
__device__ static inline int order(double x, double y) {
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}
__device__ static inline int order(int64 x, int64 y) { return x < y ? -1 : x > y; }
__device__ static inline int order(uint64 x, uint64 y) { return x < y ? -1 : x > y; }
__device__ static inline int order(int64 x, uint64 y) { return x < 0 ? -1 : order((uint64)x, y); }
__device__ static inline int order(uint64 x, int64 y) { return -order(y, x); }
template <typename I> __device__ static inline int order(double x, I y) {
  const int found = order(y, x);
  return found == 2 ? 2 : -found;
}

// Every real number is exactly one of these three types.
MDT_FN auto exact(T x) {
  if constexpr (is_narrow<T>::value || !type<T>::is_integer) return (double)widen(x);
  else if constexpr (same<T, uint64>::value) return (uint64)x;
  else return (int64)x;
}
template <typename A, typename B> __device__ static inline bool exact_equal(A x, B y) {
  return order(exact(x), exact(y)) == 0;
}
template <typename A, typename B> __device__ static inline bool exact_not_equal(A x, B y) {
  return order(exact(x), exact(y)) != 0;
}
template <typename A, typename B> __device__ static inline bool exact_less(A x, B y) {
  return order(exact(x), exact(y)) == -1;
}
template <typename A, typename B> __device__ static inline bool exact_less_equal(A x, B y) {
  const int found = order(exact(x), exact(y));
  return found == -1 || found == 0;
}

// --- functions of floats ---------------------------------------------------------------

MDT_FN bool isnan(T x) { return x != x; }
MDT_FN bool isinf(T x) { return fabs((double)x) == 1.0 / 0.0; }
MDT_FN bool isfinite(T x) { return fabs((double)x) < 1.0 / 0.0; }
#define MDT_MATH(NAME)                                                                 \
  MDT_FN T NAME(T x) { return sizeof(T) == 4 ? (T)::NAME##f((float)x) : (T)::NAME((double)x); }
MDT_MATH(floor) MDT_MATH(ceil) MDT_MATH(trunc) MDT_MATH(rint) MDT_MATH(sqrt)
MDT_MATH(exp) MDT_MATH(expm1) MDT_MATH(log) MDT_MATH(log1p) MDT_MATH(log2) MDT_MATH(log10)
MDT_MATH(sin) MDT_MATH(cos) MDT_MATH(tan) MDT_MATH(asin) MDT_MATH(acos) MDT_MATH(atan)
MDT_MATH(sinh) MDT_MATH(cosh) MDT_MATH(tanh) MDT_MATH(asinh) MDT_MATH(acosh) MDT_MATH(atanh)
MDT_MATH(erf)
MDT_MATH(erfc)
#define MDT_MATH2(NAME)                                                                \
  MDT_FN T NAME(T x, T y) {                                                            \
    return sizeof(T) == 4 ? (T)::NAME##f((float)x, (float)y) : (T)::NAME((double)x, (double)y); \
  }
MDT_MATH2(atan2) MDT_MATH2(hypot) MDT_MATH2(copysign)
MDT_FN T logaddexp(T x, T y) {
  if (x == y) return x + (T)0.693147180559945309417232121458176568;
  const T most = maximum(x, y), gap = x - y;
  if (gap != gap) return gap;
  return most + log1p<T>(exp<T>(gap > 0 ? -gap : gap));
}

// --- exact rounding of codes -------------------------------------------------------

// The product, with 1 as its last bit if it is not exact: it can be rounded again.
MDT_FN T mul_odd(T a, T b) {
  const T product = a * b, rest = ::fma(a, b, -product);
  const uint64 bits = bits_as<uint64>(product);
  if (rest == 0 || rest != rest || (bits & 1)) return product;
  return bits_as<T>(bits + ((rest > 0) == (product > 0) ? 1 : -1));
}

// (high + low) / unit as a whole number, rounded half to even, for a |low| of at most the
// last place of high. Far from a tie the quotient decides. Near one its exact distance
// does: multiples of a half and a unit of 24 bits have an exact product.
MDT_FN T nearest(T high, T low, T unit) {
  const T quotient = high / unit, near = ::rint(quotient);
  if (fabs(fabs(quotient - near) - 0.5) > fabs(quotient) * 0x1p-49) return near;
  const T middle = near + (quotient > near ? 0.5 : -0.5);
  const T gap = (high - middle * unit) + low, down = middle - 0.5;
  if (gap != 0) return gap < 0 ? down : down + 1;
  return fmod(down, 2.0) == 0 ? down : down + 1;
}
MDT_FN T rescale(T steps, T scale, T unit) {
  const T product = steps * scale;
  return nearest<T>(product, ::fma(steps, scale, -product), unit);
}
MDT_FN T rescale_sum(T a, T b, T unit) {
  const T sum = a + b, part = sum - a;
  return nearest<T>(sum, (a - (sum - part)) + (b - part), unit);
}

// --- folds ---------------------------------------------------------------------------

// An element and its place; the first of several equal ones wins, and NaN before all.
template <typename T> struct place { T value; int64 at; };
template <typename T, bool largest> __device__ static inline place<T> first(place<T> x, place<T> y) {
  if (x.at < 0 || y.at < 0) return x.at < 0 ? y : x;
  const bool nx = x.value != x.value, ny = y.value != y.value;
  const bool wins = nx != ny ? nx : largest ? x.value > y.value : x.value < y.value;
  const bool ties = nx == ny && (nx || x.value == y.value);
  return wins || (ties && x.at < y.at) ? x : y;
}
MDT_FN place<T> argmax(place<T> x, place<T> y) { return first<T, true>(x, y); }
MDT_FN place<T> argmin(place<T> x, place<T> y) { return first<T, false>(x, y); }

// The sum and a product, of floats rounded once.
MDT_FN T dot(T a, T b, T sum) {
  if constexpr (type<T>::is_integer) return add<T>(mul<T>(a, b), sum);
  else return sizeof(T) == 4 ? (T)::fmaf((float)a, (float)b, (float)sum)
                             : (T)::fma((double)a, (double)b, (double)sum);
}

// Four products of bytes, of which the second are signed: sum + Σ (a - zero) · b.
__device__ static inline bool aligned(const void* a, const void* b) {
  return (((uint64)a | (uint64)b) & 3) == 0;
}
template <typename A>
__device__ static inline int32 dot4(const A* a, const int8* b, int32 zero, int32 sum) {
  // One load each; a copy of bytes would be four, since nothing else says `aligned`.
  const uint32 x = *(const uint32*)a, y = *(const uint32*)b;
  // An unsigned byte minus 128 is a signed one.
  const int32 lift = same<A, int8>::value ? 0 : 128;
  sum = __dp4a((int)(lift ? x ^ 0x80808080u : x), (int)y, sum);
  if (lift == zero) return sum;
  return add<int32>(sum, mul<int32>(lift - zero, __dp4a(0x01010101, (int)y, 0)));
}

// The value that a fold starts from; -0 leaves every float as it is.
MDT_FN T start_add() { return type<T>::is_integer ? (T)0 : (T)-0.0; }
MDT_FN T start_mul() { return (T)1; }
MDT_FN T start_maximum() {
  if constexpr (type<T>::is_integer) return type<T>::least;
  else return (T)(-1.0 / 0.0);
}
MDT_FN T start_minimum() {
  if constexpr (type<T>::is_integer) return type<T>::most;
  else return (T)(1.0 / 0.0);
}
MDT_FN T start_bit_and() { return (T)~(T)0; }
MDT_FN T start_bit_or() { return (T)0; }

// --- where elements are ----------------------------------------------------------------

// Places of N operands, in elements.
template <int N> struct places {
  int64 at[N];
};

// Axes of a walk over elements, with the jump of each operand along each axis.
template <int N> struct walk {
  int64 count, rank, size[8], jump[N][8];

  // Divisions of 64 bits take five times as long as those of 32, and unrolled they take
  // most of the time to compile.
  __device__ bool is_short() const { return count <= 0x7fffffff; }

  __device__ int64 at(int operand, int64 i) const {
    return is_short() ? place<uint32>(operand, (uint32)i) : place<int64>(operand, i);
  }

  template <typename I> __device__ int64 place(int operand, I i) const {
    int64 found = 0;
#pragma unroll 1
    for (int axis = (int)rank - 1; axis > 0; --axis) {
      const I outer = i / (I)size[axis];
      found += (int64)(i - outer * (I)size[axis]) * jump[operand][axis];
      i = outer;
    }
    return found + (int64)i * jump[operand][0];
  }

  // The places of all operands, with one division for each axis.
  __device__ places<N> all(int64 i) const {
    return is_short() ? every<uint32>((uint32)i) : every<int64>(i);
  }

  template <typename I> __device__ places<N> every(I i) const {
    places<N> found = {};
#pragma unroll 1
    for (int axis = (int)rank - 1; axis > 0; --axis) {
      const I outer = i / (I)size[axis];
      const int64 along = (int64)(i - outer * (I)size[axis]);
#pragma unroll
      for (int operand = 0; operand < N; ++operand)
        found.at[operand] += along * jump[operand][axis];
      i = outer;
    }
#pragma unroll
    for (int operand = 0; operand < N; ++operand)
      found.at[operand] += (int64)i * jump[operand][0];
    return found;
  }
};

}  // namespace mdt
