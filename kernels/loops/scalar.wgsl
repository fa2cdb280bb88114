// Functions of scalars in WGSL; `wgsl.py` copies the ones that a kernel calls.
//
// A function is named by what it does and its type: add_i32. Under a line `//: i32 u32`
// it is written once for each of these types, in place of T. Numbers of 64 bits are two
// words, the low one first: integers, or the bits of a float64. WGSL has neither type, so
// they are computed by integers of 32 bits, with one rounding to nearest even. WGSL may
// assume that no float is NaN, so NaN is tested by its bits.

// --- integers ------------------------------------------------------------------------

//: i32 u32 f32
fn add_T(x: T, y: T) -> T { return x + y; }
//: i32 u32 f32
fn sub_T(x: T, y: T) -> T { return x - y; }
//: i32 u32
fn mul_T(x: T, y: T) -> T { return x * y; }
fn div_f32(x: f32, y: f32) -> f32 { return x / y; }
//: i32 f32
fn neg_T(x: T) -> T { return -x; }
fn neg_u32(x: u32) -> u32 { return 0u - x; }
//: i32 u32 f32
fn abs_T(x: T) -> T { return abs(x); }
//: i32
fn sign_T(x: T) -> T { return sign(x); }
fn sign_u32(x: u32) -> u32 { return min(x, 1u); }
//: i32 u32
fn maximum_T(x: T, y: T) -> T { return max(x, y); }
//: i32 u32
fn minimum_T(x: T, y: T) -> T { return min(x, y); }
//: i32 u32
fn equal_T(x: T, y: T) -> bool { return x == y; }
//: i32 u32
fn less_T(x: T, y: T) -> bool { return x < y; }
//: i32 u32 f32 i64 f64 bool
fn not_equal_T(x: T, y: T) -> bool { return !equal_T(x, y); }
//: i32 u32 f32 i64 f64 bool
fn less_equal_T(x: T, y: T) -> bool { return less_T(x, y) || equal_T(x, y); }
//: i32 u32
fn bit_and_T(x: T, y: T) -> T { return x & y; }
//: i32 u32
fn bit_or_T(x: T, y: T) -> T { return x | y; }
//: i32 u32
fn bit_xor_T(x: T, y: T) -> T { return x ^ y; }
//: i32 u32
fn bit_not_T(x: T) -> T { return ~x; }
fn shift_left_i32(x: i32, y: i32) -> i32 { return select(x << u32(y & 31), 0, u32(y) > 31u); }
fn shift_left_u32(x: u32, y: u32) -> u32 { return select(x << (y & 31u), 0u, y > 31u); }
fn shift_right_i32(x: i32, y: i32) -> i32 { return x >> select(u32(y), 31u, u32(y) > 31u); }
fn shift_right_u32(x: u32, y: u32) -> u32 { return select(x >> (y & 31u), 0u, y > 31u); }
// A quotient by 0 is 0; the caller has raised before.
fn remainder_i32(x: i32, y: i32) -> i32 {
  if (y == 0 || y == -1) { return 0; }
  let rest = x % y;
  return select(rest, rest + y, rest != 0 && (rest < 0) != (y < 0));
}
fn remainder_u32(x: u32, y: u32) -> u32 {
  if (y == 0u) { return 0u; }
  return x % y;
}
fn floor_divide_i32(x: i32, y: i32) -> i32 {
  if (y == 0) { return 0; }
  if (y == -1) { return -x; }
  let quotient = x / y;
  let rest = x % y;
  return select(quotient, quotient - 1, rest != 0 && (rest < 0) != (y < 0));
}
fn floor_divide_u32(x: u32, y: u32) -> u32 {
  if (y == 0u) { return 0u; }
  return x / y;
}
//: i32 u32
fn pow_T(base: T, exponent: T) -> T {
  var x = base;
  var y = exponent;
  var result = T(1);
  while (y > T(0)) {
    if ((y & T(1)) != T(0)) { result = result * x; }
    x = x * x;
    y = y >> 1u;
  }
  return result;
}

// --- bools ---------------------------------------------------------------------------

fn bit_and_bool(x: bool, y: bool) -> bool { return x && y; }
fn bit_or_bool(x: bool, y: bool) -> bool { return x || y; }
fn bit_xor_bool(x: bool, y: bool) -> bool { return x != y; }
fn bit_not_bool(x: bool) -> bool { return !x; }
fn equal_bool(x: bool, y: bool) -> bool { return x == y; }
fn less_bool(x: bool, y: bool) -> bool { return !x && y; }
fn add_bool(x: bool, y: bool) -> bool { return x || y; }
fn mul_bool(x: bool, y: bool) -> bool { return x && y; }
fn maximum_bool(x: bool, y: bool) -> bool { return x || y; }
fn minimum_bool(x: bool, y: bool) -> bool { return x && y; }

// --- float32 -------------------------------------------------------------------------

// WGSL lets a compiler reorder and fuse operations of floats. It does not know that
// `zero`, an argument of the launch, is 0, so it computes x, and rounds it once.
fn keep(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ zero); }
fn mul_f32(x: f32, y: f32) -> f32 { return keep(x * y); }
// The first 12 digits of x.
fn high_f32(x: f32) -> f32 {
  let c = keep(4097.0 * x);
  return keep(c - keep(c - x));
}
// What rounding a + b to `sum` has lost.
fn lost_f32(a: f32, b: f32, sum: f32) -> f32 {
  let other = keep(sum - a);
  return keep(keep(a - keep(sum - other)) + keep(b - other));
}
// x · y + z, rounded once: the product and the sum in two parts each, the last part of
// both rounded to odd; exact if no part of the product is below 2^-149.
// Source: Boldo, Melquiond, "Emulation of a FMA and correctly rounded sums", 2008.
fn fma_f32(x: f32, y: f32, z: f32) -> f32 {
  let product = keep(x * y);
  let sum = keep(product + z);
  if (!isfinite_f32(sum) || !(max(abs(x), abs(y)) < 1e30)) { return sum; }
  let a = high_f32(x);
  let b = high_f32(y);
  let c = keep(x - a);
  let d = keep(y - b);
  let rest = keep(keep(keep(keep(a * b) - product) + keep(a * d)) + keep(c * b));
  let low = keep(rest + keep(c * d));
  let part = lost_f32(product, z, sum);
  var tail = keep(part + low);
  let gone = lost_f32(part, low, tail);
  let bits = bitcast<u32>(tail);
  if (gone != 0.0 && (bits & 1u) == 0u) {
    tail = from_bits(select(bits - 1u, bits + 1u, (gone > 0.0) == (tail > 0.0)));
  }
  return sum + tail;
}
fn from_bits(bits: u32) -> f32 { return bitcast<f32>(bits); }
fn isnan_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn isinf_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }
fn isfinite_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u; }
fn signbit_f32(x: f32) -> bool { return (bitcast<u32>(x) >> 31u) != 0u; }
fn equal_f32(x: f32, y: f32) -> bool { return x == y && !isnan_f32(x) && !isnan_f32(y); }
fn less_f32(x: f32, y: f32) -> bool { return x < y && !isnan_f32(x) && !isnan_f32(y); }
fn maximum_f32(x: f32, y: f32) -> f32 {
  if (isnan_f32(x)) { return x; }
  if (isnan_f32(y)) { return y; }
  return select(y, x, x > y || (x == y && signbit_f32(y)));
}
fn minimum_f32(x: f32, y: f32) -> f32 {
  if (isnan_f32(x)) { return x; }
  if (isnan_f32(y)) { return y; }
  return select(y, x, x < y || (x == y && signbit_f32(x)));
}
fn sign_f32(x: f32) -> f32 { return select(sign(x), x, isnan_f32(x)); }
fn copysign_f32(x: f32, y: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(y) & 0x80000000u));
}
// Rounded to whole numbers by the bits: builtins lose the sign of a zero.
fn trunc_f32(x: f32) -> f32 {
  if (!(abs(x) < 8388608.0)) { return x; }
  return copysign_f32(f32(i32(x)), x);
}
fn floor_f32(x: f32) -> f32 {
  let t = trunc_f32(x);
  return select(t, t - 1.0, t > x);
}
fn ceil_f32(x: f32) -> f32 {
  let t = trunc_f32(x);
  return copysign_f32(select(t, t + 1.0, t < x), x);
}
fn rint_f32(x: f32) -> f32 {
  if (!(abs(x) < 8388608.0)) { return x; }
  let t = i32(x);
  let rest = abs(x - f32(t));
  let up = rest > 0.5 || (rest == 0.5 && (t & 1) != 0);
  return copysign_f32(f32(t + select(0, select(1, -1, x < 0.0), up)), x);
}
fn sqrt_f32(x: f32) -> f32 {
  if (signbit_f32(x) && x != 0.0) { return from_bits(0x7fc00000u); }
  return select(sqrt(x), x, x == 0.0);
}
// exp, log, tanh and erf are the functions of the host, in float_functions.py: each
// operation rounds once, so they have its bytes.
fn power_of_two(n: f32) -> f32 { return bitcast<f32>((i32(n) + 127) << 23u); }
fn power_f32(x: f32, n: f32) -> f32 {
  let r = fma_f32(n, 2.12194440e-4, fma_f32(n, -0.693359375, x));
  let z = r * r;
  var p = fma_f32(fma_f32(1.9875691500e-4, r, 1.3981999507e-3), z,
                  fma_f32(8.3334519073e-3, r, 4.1665795894e-2));
  p = fma_f32(p, z, fma_f32(1.6666665459e-1, r, 5.0000001201e-1));
  return fma_f32(p, z, r) + 1.0;
}
fn exp_f32(x: f32) -> f32 {
  if (isnan_f32(x)) { return x; }
  let z = clamp(x, -104.0, 89.0);
  let n = rint_f32(z * 1.44269504088896341);
  let half = rint_f32(n * 0.5);
  return power_f32(z, n) * power_of_two(half) * power_of_two(n - half);
}
fn exp_normal(x: f32) -> f32 {
  let z = clamp(x, -104.0, 89.0);
  let n = rint_f32(z * 1.44269504088896341);
  return power_f32(z, n) * power_of_two(n);
}
fn log_f32(x: f32) -> f32 {
  if (isnan_f32(x) || x < 0.0) { return from_bits(0x7fc00000u); }
  if (x == 0.0 || isinf_f32(x)) { return select(x, from_bits(0xff800000u), x == 0.0); }
  let is_small = x < 1.1754943508222875e-38;
  let offset = bitcast<i32>(select(x, x * 33554432.0, is_small)) - 0x3f3504f3;
  let exponent = f32(offset >> 23u) - select(0.0, 25.0, is_small);
  let r = bitcast<f32>((offset & 0x7fffff) + 0x3f3504f3) - 1.0;
  let z = r * r;
  var p = fma_f32(7.0376836292e-2, r, -1.1514610310e-1);
  p = fma_f32(p, r, 1.1676998740e-1);
  p = fma_f32(p, r, -1.2420140846e-1);
  p = fma_f32(p, r, 1.4249322787e-1);
  p = fma_f32(p, r, -1.6668057665e-1);
  p = fma_f32(p, r, 2.0000714765e-1);
  p = fma_f32(p, r, -2.4999993993e-1);
  p = fma_f32(p, r, 3.3333331174e-1);
  let y = fma_f32(-0.5, z, fma_f32(exponent, -2.12194440e-4, keep(p * r) * z));
  return fma_f32(exponent, 0.693359375, r + y);
}
fn tanh_f32(x: f32) -> f32 {
  if (isnan_f32(x) || x == 0.0) { return x; }
  if (abs(x) >= 0.625) {
    return copysign_f32(1.0 - 2.0 / (exp_normal(abs(x) + abs(x)) + 1.0), x);
  }
  let z = x * x;
  var p = fma_f32(-5.70498872745e-3, z, 2.06390887954e-2);
  p = fma_f32(p, z, -5.37397155531e-2);
  p = fma_f32(p, z, 1.33314422036e-1);
  p = fma_f32(p, z, -3.33332819422e-1);
  return fma_f32(p * z, x, x);
}
fn erf_f32(x: f32) -> f32 {
  if (isnan_f32(x)) { return x; }
  let a = min(abs(x), 4.0);
  let z = a * a;
  if (a >= 0.92) {
    var q = fma_f32(fma_f32(-0.000198220063, a, 0.00306549389), z,
                    fma_f32(-0.0223152265, a, 0.104113705));
    q = fma_f32(q, z, fma_f32(0.636976063, a, 1.12779725));
    return copysign_f32(1.0 - exp_normal(-fma_f32(q, a, 0.000166444384)), x);
  }
  let w = z * z;
  var p = fma_f32(fma_f32(8.3823863e-05, z, -0.000814559637), w,
                  fma_f32(0.00520128617, z, -0.0268594995));
  p = fma_f32(p, w, fma_f32(0.112836972, z, -0.376126349));
  return fma_f32(fma_f32(p, z, 0.128379166), x, x);
}
fn log2_f32(x: f32) -> f32 {
  if (!(x > 0.0) || isinf_f32(x)) { return log_f32(x); }
  let is_small = x < 1.1754943508222875e-38;
  let offset = bitcast<i32>(select(x, x * 33554432.0, is_small)) - 0x3f3504f3;
  let exponent = f32(offset >> 23u) - select(0.0, 25.0, is_small);
  return exponent + log_f32(bitcast<f32>((offset & 0x7fffff) + 0x3f3504f3)) * 1.44269504;
}
fn log10_f32(x: f32) -> f32 { return log_f32(x) * 0.4342944819; }
fn expm1_f32(x: f32) -> f32 {
  let u = keep(exp_f32(x));
  if (u == 1.0 || isnan_f32(x)) { return x; }
  if (u - 1.0 == -1.0) { return -1.0; }
  return select((u - 1.0) * (x / log_f32(u)), u, isinf_f32(u));
}
fn log1p_f32(x: f32) -> f32 {
  let u = keep(1.0 + x);
  if (u == 1.0 || isnan_f32(x)) { return x; }
  let found = log_f32(u);
  return select(found * (x / (u - 1.0)), found, !(u > 0.0) || u > 1e7);
}
fn asinh_f32(x: f32) -> f32 {
  if (!isfinite_f32(x)) { return x; }
  if (abs(x) < 1e15) { return asinh(x); }
  return copysign_f32(log(abs(x)) + 0.69314718, x);
}
fn acosh_f32(x: f32) -> f32 {
  if (isnan_f32(x) || x < 1.0) { return from_bits(0x7fc00000u); }
  if (x < 1e15) { return acosh(x); }
  return log(x) + 0.69314718;
}
//: sin cos tan asin acos atan sinh cosh atanh
fn T_f32(x: f32) -> f32 { return select(T(x), x, isnan_f32(x)); }
fn dot_f32(a: f32, b: f32, sum: f32) -> f32 { return fma_f32(a, b, sum); }
fn atan2_f32(y: f32, x: f32) -> f32 {
  if (isnan_f32(x) || isnan_f32(y)) { return from_bits(0x7fc00000u); }
  return atan2(y, x);
}
fn hypot_f32(x: f32, y: f32) -> f32 {
  if (isinf_f32(x) || isinf_f32(y)) { return from_bits(0x7f800000u); }
  let most = maximum_f32(abs(x), abs(y));
  let share = minimum_f32(abs(x), abs(y)) / most;
  return select(most * sqrt(1.0 + share * share), most, most == 0.0);
}
fn pow_f32(x: f32, y: f32) -> f32 {
  if (y == 0.0 || x == 1.0) { return 1.0; }
  let is_whole = rint_f32(y) == y;
  let has_root = is_whole || !(x < 0.0) || isinf_f32(x);
  if (isnan_f32(x) || isnan_f32(y) || !has_root) { return from_bits(0x7fc00000u); }
  let is_odd = is_whole && !isinf_f32(y) && rint_f32(y * 0.5) != y * 0.5;
  var found = select(pow(abs(x), y), 1.0, abs(x) == 1.0);
  if (x == 0.0) { found = select(from_bits(0x7f800000u), 0.0, y > 0.0); }
  return select(found, -found, is_odd && signbit_f32(x));
}
fn logaddexp_f32(x: f32, y: f32) -> f32 {
  if (x == y) { return x + 0.69314718; }
  return maximum_f32(x, y) + log1p_f32(exp_f32(-abs(x - y)));
}

// --- float16 -------------------------------------------------------------------------

// The number with these 16 bits. Few devices have the type f16, so the bits are computed.
fn widen_half(bits: u32) -> f32 {
  let sign = (bits & 0x8000u) << 16u;
  let rest = bits & 0x7fffu;
  if (rest >= 0x7c00u) { return from_bits(sign | 0x7f800000u | ((rest & 0x3ffu) << 13u)); }
  // Below the normal numbers: a multiple of 2^-24.
  if (rest < 0x400u) { return from_bits(sign | bitcast<u32>(f32(rest) * 0x1p-24f)); }
  return from_bits(sign | ((rest << 13u) + (112u << 23u)));
}
// The bits of the nearest float16, ties to even; of NaN its first ten.
fn half_bits(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let sign = (bits >> 16u) & 0x8000u;
  let size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) {
    let part = (size >> 13u) & 0x3ffu;
    return sign | 0x7c00u | select(part, 0x200u, part == 0u);
  }
  if (size >= 0x477ff000u) { return sign | 0x7c00u; }
  if (size >= 0x38800000u) {
    return sign | ((size - (112u << 23u) + 0xfffu + ((size >> 13u) & 1u)) >> 13u);
  }
  let shift = 126u - (size >> 23u);
  if (shift > 24u) { return sign; }
  let digits = (size & 0x7fffffu) | 0x800000u;
  let kept = digits >> shift;
  let rest = digits & ((1u << shift) - 1u);
  let tie = 1u << (shift - 1u);
  return sign | (kept + u32(rest > tie || (rest == tie && (kept & 1u) == 1u)));
}
fn round_half(x: f32) -> f32 {
  if (isnan_f32(x)) { return from_bits(bitcast<u32>(x) | 0x400000u); }
  return widen_half(half_bits(x));
}
fn is_beyond_half(x: f32) -> bool { return isfinite_f32(x) && isinf_f32(round_half(x)); }
fn is_not_half(x: f32) -> bool { return !isnan_f32(x) && !equal_f32(round_half(x), x); }
fn saturate_half(x: f32) -> f32 {
  return select(round_half(x), select(65504.0, -65504.0, signbit_f32(x)), is_beyond_half(x));
}

// --- 64-bit integers -----------------------------------------------------------------

fn add_i64(x: Pair, y: Pair) -> Pair {
  let low = x.x + y.x;
  return Pair(low, x.y + y.y + u32(low < x.x));
}
fn sub_i64(x: Pair, y: Pair) -> Pair { return Pair(x.x - y.x, x.y - y.y - u32(x.x < y.x)); }
fn neg_i64(x: Pair) -> Pair { return sub_i64(Pair(0u, 0u), x); }
fn abs_i64(x: Pair) -> Pair { return select(x, neg_i64(x), (x.y >> 31u) != 0u); }
fn mul_words(a: u32, b: u32) -> Pair {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let middle = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let other = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
  return Pair(a * b, (a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u));
}
fn mul_i64(x: Pair, y: Pair) -> Pair {
  let low = mul_words(x.x, y.x);
  return Pair(low.x, low.y + x.x * y.y + x.y * y.x);
}
fn equal_i64(x: Pair, y: Pair) -> bool { return all(x == y); }
fn less_u64(x: Pair, y: Pair) -> bool { return x.y < y.y || (x.y == y.y && x.x < y.x); }
fn less_i64(x: Pair, y: Pair) -> bool {
  return less_u64(Pair(x.x, x.y ^ 0x80000000u), Pair(y.x, y.y ^ 0x80000000u));
}
fn maximum_i64(x: Pair, y: Pair) -> Pair { return select(x, y, less_i64(x, y)); }
fn minimum_i64(x: Pair, y: Pair) -> Pair { return select(x, y, less_i64(y, x)); }
fn clamp_i64(x: Pair, low: Pair, high: Pair) -> Pair {
  return minimum_i64(maximum_i64(x, low), high);
}
fn i64_i32(x: i32) -> Pair { return Pair(bitcast<u32>(x), select(0u, 0xffffffffu, x < 0)); }
fn i64_u32(x: u32) -> Pair { return Pair(x, 0u); }
fn i64_bool(x: bool) -> Pair { return Pair(u32(x), 0u); }

// --- 128-bit integers ----------------------------------------------------------------

fn add_wide(x: Wide, y: Wide) -> Wide {
  let low = add_i64(x.xy, y.xy);
  let high = add_i64(x.zw, y.zw);
  return Wide(low, add_i64(high, Pair(u32(less_u64(low, x.xy)), 0u)));
}
fn sub_wide(x: Wide, y: Wide) -> Wide {
  let high = sub_i64(x.zw, y.zw);
  return Wide(sub_i64(x.xy, y.xy), sub_i64(high, Pair(u32(less_u64(x.xy, y.xy)), 0u)));
}
fn less_wide(x: Wide, y: Wide) -> bool {
  return less_u64(x.zw, y.zw) || (all(x.zw == y.zw) && less_u64(x.xy, y.xy));
}
fn mul_wide(x: Pair, y: Pair) -> Wide {
  let a = mul_words(x.x, y.y);
  let b = mul_words(x.y, y.x);
  let ends = Wide(mul_words(x.x, y.x), mul_words(x.y, y.y));
  return add_wide(ends, add_wide(Wide(0u, a, 0u), Wide(0u, b, 0u)));
}
fn left_wide(x: Wide, n: i32) -> Wide {
  var y = select(x, Wide(0u), n >= 128);
  if ((n & 64) != 0) { y = Wide(0u, 0u, y.xy); }
  if ((n & 32) != 0) { y = Wide(0u, y.xyz); }
  let k = u32(n & 31);
  if (k == 0u) { return y; }
  return (y << vec4<u32>(k)) | (Wide(0u, y.xyz) >> vec4<u32>(32u - k));
}
fn right_wide(x: Wide, n: i32) -> Wide {
  var y = select(x, Wide(0u), n >= 128);
  if ((n & 64) != 0) { y = Wide(y.zw, 0u, 0u); }
  if ((n & 32) != 0) { y = Wide(y.yzw, 0u); }
  let k = u32(n & 31);
  if (k == 0u) { return y; }
  return (y >> vec4<u32>(k)) | (Wide(y.yzw, 0u) << vec4<u32>(32u - k));
}
fn length_wide(x: Wide) -> i32 {
  if (x.w != 0u) { return 128 - i32(countLeadingZeros(x.w)); }
  if (x.z != 0u) { return 96 - i32(countLeadingZeros(x.z)); }
  if (x.y != 0u) { return 64 - i32(countLeadingZeros(x.y)); }
  return 32 - i32(countLeadingZeros(x.x));
}
// x / y, with the last bit 1 if the quotient is not exact and `is_odd`, else rounded.
fn quotient_wide(x: Wide, y: Wide, is_odd: bool) -> Wide {
  var rest = x;
  var found = Wide(0u);
  for (var k = length_wide(x) - length_wide(y); k >= 0; k--) {
    let part = left_wide(y, k);
    found = left_wide(found, 1);
    if (!less_wide(rest, part)) {
      rest = sub_wide(rest, part);
      found.x |= 1u;
    }
  }
  if (is_odd) { found.x |= u32(any(rest != Wide(0u))); return found; }
  let twice = left_wide(rest, 1);
  let up = less_wide(y, twice) || (all(twice == y) && (found.x & 1u) != 0u);
  return add_wide(found, Wide(u32(up), 0u, 0u, 0u));
}

// --- float64, by its bits ------------------------------------------------------------

// (-1)^sign · digits · 2^exponent; infinities and NaN are `special`, NaN has digits.
struct Float { sign: u32, exponent: i32, digits: Pair, special: bool }
fn parts_f32(x: f32) -> Float {
  let bits = bitcast<u32>(x);
  let e = (bits >> 23u) & 255u;
  let hidden = select(0x800000u, 0u, e == 0u || e == 255u);
  let digits = Pair((bits & 0x7fffffu) | hidden, 0u);
  return Float(bits >> 31u, i32(max(e, 1u)) - 150, digits, e == 255u);
}
fn parts_f64(x: Pair) -> Float {
  let e = (x.y >> 20u) & 2047u;
  let hidden = select(0x100000u, 0u, e == 0u || e == 2047u);
  let digits = Pair(x.x, (x.y & 0xfffffu) | hidden);
  return Float(x.y >> 31u, i32(max(e, 1u)) - 1075, digits, e == 2047u);
}
// digits · 2^exponent with at most `most` digits and an exponent of `least` or more, as
// digits + (exponent - least) · 2^(most - 1): the layout of floats. Rounds half to even,
// or to odd digits.
fn packed(digits: Wide, exponent: i32, most: i32, least: i32, is_odd: bool) -> Pair {
  if (all(digits == Wide(0u))) { return Pair(0u, 0u); }
  let shift = max(length_wide(digits) - most, least - exponent);
  var kept = left_wide(digits, max(-shift, 0));
  if (shift > 0) {
    kept = right_wide(digits, shift);
    let rest = sub_wide(digits, left_wide(kept, shift));
    let half = left_wide(Wide(1u, 0u, 0u, 0u), shift - 1);
    let up = less_wide(half, rest) || (all(half == rest) && (kept.x & 1u) != 0u);
    if (is_odd) { kept.x |= u32(any(rest != Wide(0u))); }
    else { kept = add_wide(kept, Wide(u32(up), 0u, 0u, 0u)); }
  }
  let power = u32(max(exponent + shift - least, 0));
  return add_i64(kept.xy, left_wide(Wide(power, 0u, 0u, 0u), most - 1).xy);
}
fn pack_f64(sign: u32, digits: Wide, exponent: i32, is_odd: bool) -> Pair {
  var bits = packed(digits, exponent, 53, -1074, is_odd);
  if (bits.y >= 0x7ff00000u || exponent > 1100) { bits = Pair(0u, 0x7ff00000u); }
  return Pair(bits.x, bits.y | (sign << 31u));
}
fn pack_f32(sign: u32, digits: Wide, exponent: i32) -> f32 {
  let bits = packed(digits, exponent, 24, -149, false);
  let fits = bits.y == 0u && bits.x < 0x7f800000u && exponent < 200;
  return bitcast<f32>(select(0x7f800000u, bits.x, fits) | (sign << 31u));
}
// The exact rest of x / y, with the sign of x.
fn fmod_f32(x: f32, y: f32) -> f32 {
  if (!isfinite_f32(x) || isnan_f32(y) || y == 0.0) { return from_bits(0x7fc00000u); }
  if (abs(x) < abs(y)) { return x; }
  let a = parts_f32(x);
  let b = parts_f32(y);
  var rest = a.digits.x % b.digits.x;
  for (var k = b.exponent; k < a.exponent; k++) {
    rest = rest << 1u;
    if (rest >= b.digits.x) { rest -= b.digits.x; }
  }
  return pack_f32(a.sign, Wide(rest, 0u, 0u, 0u), b.exponent);
}
fn remainder_f32(x: f32, y: f32) -> f32 {
  let rest = fmod_f32(x, y);
  if (rest == 0.0) { return copysign_f32(0.0, y); }
  return select(rest, rest + y, (y < 0.0) != (rest < 0.0));
}
fn floor_divide_f32(x: f32, y: f32) -> f32 {
  let quotient = x / y;
  if (y == 0.0 || !isfinite_f32(x) || !isfinite_f32(y)) { return floor_f32(quotient); }
  let rest = fmod_f32(x, y);
  let whole = keep(x - rest) / y;
  let exact = select(whole, whole - 1.0, rest != 0.0 && (y < 0.0) != (rest < 0.0));
  if (exact == 0.0) { return copysign_f32(0.0, quotient); }
  let below = floor_f32(exact);
  return select(below, below + 1.0, keep(exact - below) > 0.5);
}
fn f64_i64(x: Pair) -> Pair { return pack_f64(x.y >> 31u, Wide(abs_i64(x), 0u, 0u), 0, false); }
fn f64_i32(x: i32) -> Pair { return f64_i64(i64_i32(x)); }
fn f64_u32(x: u32) -> Pair { return f64_i64(i64_u32(x)); }
fn f64_bool(x: bool) -> Pair { return f64_i64(i64_bool(x)); }
fn f64_f32(x: f32) -> Pair {
  let a = parts_f32(x);
  if (!a.special) { return pack_f64(a.sign, Wide(a.digits, 0u, 0u), a.exponent, false); }
  let digits = a.digits.x;
  return Pair(digits << 29u, (a.sign << 31u) | 0x7ff00000u | (digits >> 3u));
}
fn f32_f64(x: Pair) -> f32 {
  let a = parts_f64(x);
  if (!a.special) { return pack_f32(a.sign, Wide(a.digits, 0u, 0u), a.exponent); }
  let is_nan = any(a.digits != Pair(0u, 0u));
  return from_bits(select((a.sign << 31u) | 0x7f800000u, 0x7fc00000u, is_nan));
}
fn f32_i64(x: Pair) -> f32 { return pack_f32(x.y >> 31u, Wide(abs_i64(x), 0u, 0u), 0); }
fn f32_i32(x: i32) -> f32 { return f32_i64(i64_i32(x)); }
fn f32_u32(x: u32) -> f32 { return f32_i64(i64_u32(x)); }
fn f32_bool(x: bool) -> f32 { return f32(x); }
// The whole part, modulo 2^64, or the nearest int64; NaN is 0.
fn whole(a: Float, saturates: bool) -> Pair {
  let is_nan = a.special && any(a.digits != Pair(0u, 0u));
  let is_large = a.special || length_wide(Wide(a.digits, 0u, 0u)) + a.exponent > 63;
  if (saturates && is_large && !is_nan) {
    return select(Pair(0xffffffffu, 0x7fffffffu), Pair(0u, 0x80000000u), a.sign != 0u);
  }
  if (a.special) { return Pair(0u, 0u); }
  let digits = Wide(a.digits, 0u, 0u);
  let left = left_wide(digits, max(a.exponent, 0)).xy;
  let size = select(left, right_wide(digits, -a.exponent).xy, a.exponent < 0);
  return select(size, neg_i64(size), a.sign != 0u);
}
fn i64_f32(x: f32) -> Pair { return whole(parts_f32(x), false); }
fn i64_f64(x: Pair) -> Pair { return whole(parts_f64(x), false); }
fn nearest_f32(x: f32) -> Pair { return whole(parts_f32(x), true); }
fn nearest_f64(x: Pair) -> Pair { return whole(parts_f64(x), true); }

fn isnan_f64(x: Pair) -> bool {
  return less_u64(Pair(0u, 0x7ff00000u), Pair(x.x, x.y & 0x7fffffffu));
}
// Integers in the order of floats; both zeros are one.
fn key_f64(x: Pair) -> Pair {
  if ((x.y & 0x7fffffffu) == 0u && x.x == 0u) { return Pair(0u, 0x80000000u); }
  return select(Pair(x.x, x.y ^ 0x80000000u), ~x, (x.y >> 31u) != 0u);
}
fn equal_f64(x: Pair, y: Pair) -> bool {
  return all(key_f64(x) == key_f64(y)) && !isnan_f64(x) && !isnan_f64(y);
}
fn less_f64(x: Pair, y: Pair) -> bool {
  return less_u64(key_f64(x), key_f64(y)) && !isnan_f64(x) && !isnan_f64(y);
}
fn maximum_f64(x: Pair, y: Pair) -> Pair { return select(x, y, less_f64(x, y) || isnan_f64(y)); }
fn minimum_f64(x: Pair, y: Pair) -> Pair { return select(x, y, less_f64(y, x) || isnan_f64(y)); }
fn neg_f64(x: Pair) -> Pair { return Pair(x.x, x.y ^ 0x80000000u); }
fn nan_f64() -> Pair { return Pair(0u, 0x7ff80000u); }
fn infinite_f64(sign: u32) -> Pair { return Pair(0u, (sign << 31u) | 0x7ff00000u); }
// The larger exponent leaves 64 digits for the other; what falls off is one digit.
fn add_f64(x: Pair, y: Pair) -> Pair {
  if (isnan_f64(x) || isnan_f64(y)) { return nan_f64(); }
  let swaps = less_u64(Pair(x.x, x.y & 0x7fffffffu), Pair(y.x, y.y & 0x7fffffffu));
  let first = select(x, y, swaps);
  let a = parts_f64(first);
  let b = parts_f64(select(y, x, swaps));
  if (a.special) {
    if (b.special && a.sign != b.sign) { return nan_f64(); }
    return first;
  }
  let digits = left_wide(Wide(a.digits, 0u, 0u), 64);
  let other = left_wide(Wide(b.digits, 0u, 0u), 64);
  let gap = a.exponent - b.exponent;
  var moved = right_wide(other, min(gap, 128));
  moved.x |= u32(any(left_wide(moved, min(gap, 128)) != other));
  let total = select(sub_wide(digits, moved), add_wide(digits, moved), a.sign == b.sign);
  let cancels = all(total == Wide(0u)) && a.sign != b.sign;
  return pack_f64(select(a.sign, 0u, cancels), total, a.exponent - 64, false);
}
fn sub_f64(x: Pair, y: Pair) -> Pair { return add_f64(x, neg_f64(y)); }
fn product_f64(x: Pair, y: Pair, is_odd: bool) -> Pair {
  let a = parts_f64(x);
  let b = parts_f64(y);
  let sign = a.sign ^ b.sign;
  if (a.special || b.special) {
    let vanishes = (all(a.digits == Pair(0u, 0u)) && !a.special)
      || (all(b.digits == Pair(0u, 0u)) && !b.special);
    if (isnan_f64(x) || isnan_f64(y) || vanishes) { return nan_f64(); }
    return infinite_f64(sign);
  }
  return pack_f64(sign, mul_wide(a.digits, b.digits), a.exponent + b.exponent, is_odd);
}
fn mul_f64(x: Pair, y: Pair) -> Pair { return product_f64(x, y, false); }
fn mul_odd_f64(x: Pair, y: Pair) -> Pair { return product_f64(x, y, true); }
fn div_f64(x: Pair, y: Pair) -> Pair {
  let a = parts_f64(x);
  let b = parts_f64(y);
  let sign = a.sign ^ b.sign;
  let by_zero = !b.special && all(b.digits == Pair(0u, 0u));
  let is_zero = !a.special && all(a.digits == Pair(0u, 0u));
  let is_unknown = (a.special && b.special) || (is_zero && by_zero);
  if (isnan_f64(x) || isnan_f64(y) || is_unknown) { return nan_f64(); }
  if (a.special || by_zero) { return infinite_f64(sign); }
  if (b.special) { return Pair(0u, sign << 31u); }
  // The quotient has 56 digits or more, so its last one decides no tie wrongly.
  let low = Wide(b.digits, 0u, 0u);
  let shift = 56 + length_wide(low) - length_wide(Wide(a.digits, 0u, 0u));
  let high = left_wide(Wide(a.digits, 0u, 0u), max(shift, 0));
  let found = quotient_wide(high, low, true);
  return pack_f64(sign, found, a.exponent - b.exponent - max(shift, 0), false);
}
fn sqrt_f64(x: Pair) -> Pair {
  let a = parts_f64(x);
  if (all(a.digits == Pair(0u, 0u)) && !a.special) { return x; }
  if (isnan_f64(x) || a.sign != 0u) { return nan_f64(); }
  if (a.special) { return x; }
  // 109 or 110 digits have a root of 55, and half of the exponent is whole.
  let digits = Wide(a.digits, 0u, 0u);
  var shift = 109 - length_wide(digits);
  shift += (a.exponent - shift) & 1;
  var rest = left_wide(digits, shift);
  var found = Wide(0u);
  for (var k = 108; k >= 0; k -= 2) {
    let one = left_wide(Wide(1u, 0u, 0u, 0u), k);
    let part = add_wide(found, one);
    found = right_wide(found, 1);
    if (!less_wide(rest, part)) {
      rest = sub_wide(rest, part);
      found = add_wide(found, one);
    }
  }
  found.x |= u32(any(rest != Wide(0u)));
  return pack_f64(0u, found, (a.exponent - shift) / 2, false);
}

// --- exact comparisons of integers and floats: -1, 0 or 1, and 2 without an order ------

//: i64 f64
fn order_T_T(x: Pair, y: Pair) -> i32 {
  if (equal_T(x, y)) { return 0; }
  if (less_T(x, y)) { return -1; }
  return select(2, 1, less_T(y, x));
}
fn order_i64_f64(x: Pair, y: Pair) -> i32 {
  if (isnan_f64(y)) { return 2; }
  let near = nearest_f64(y);
  if (!equal_i64(x, near)) { return select(1, -1, less_i64(x, near)); }
  let a = parts_f64(y);
  // Far from zero the float is beyond all integers, or is one itself.
  if (length_wide(Wide(a.digits, 0u, 0u)) + a.exponent > 63 && a.sign == 0u) { return -1; }
  return order_f64_f64(f64_i64(near), y);
}
fn order_f64_i64(x: Pair, y: Pair) -> i32 {
  let found = order_i64_f64(y, x);
  return select(-found, 2, found == 2);
}

// --- codes ---------------------------------------------------------------------------

// steps · scale / unit as a whole number, rounded once, half to even. A quotient of more
// than 40 digits is 2^40: it is beyond the codes of every type.
fn rescale_f64(steps: Pair, scale: Pair, unit: Pair) -> Pair {
  let a = parts_f64(steps);
  let b = parts_f64(scale);
  let c = parts_f64(unit);
  let sign = a.sign ^ b.sign ^ c.sign;
  if (a.special || b.special) { return pack_f64(sign, Wide(1u, 0u, 0u, 0u), 40, false); }
  let product = mul_wide(a.digits, b.digits);
  let divisor = Wide(c.digits, 0u, 0u);
  let shift = a.exponent + b.exponent - c.exponent;
  let digits = length_wide(product) + shift - length_wide(divisor);
  if (digits < -1 || all(product == Wide(0u))) { return Pair(0u, sign << 31u); }
  if (digits > 40) { return pack_f64(sign, Wide(1u, 0u, 0u, 0u), 40, false); }
  let high = left_wide(product, max(shift, 0));
  let found = quotient_wide(high, left_wide(divisor, max(-shift, 0)), false);
  return pack_f64(sign, found, 0, false);
}
// Four products of signed bytes, and a shift of the first factor: sum + Σ (a - zero) · b.
fn dot4(a: u32, b: u32, lift: i32, sum: i32) -> i32 {
  return sum + dot4I8Packed(a, b) + lift * dot4I8Packed(0x01010101u, b);
}
