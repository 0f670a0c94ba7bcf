/// exp, tanh and the activations on vectors of floats, written once over an ISA's `Vector` (generic/vector.h, ...).
///
/// Every lane goes through the same operations whatever its neighbours hold, and tails are vectors with idle lanes: a
/// number's image does not depend on where in a row it stands. Errors against exact arithmetic are given per function.
#pragma once

#include <cstdint>

namespace cairn::kernels::cpu {
namespace {

template <class V>
struct VectorMath {
  using F = typename V::F;
  using I = typename V::I;
  typedef uint32_t U __attribute__((vector_size(sizeof(F))));  // as I, but sums wrap around

  static F select(I mask, F yes, F no) { return mask ? yes : no; }
  static F larger(F a, F b) { return a > b ? a : b; }
  static F absolute(F x) { return (F)((I)x & 0x7fffffff); }

  // 2^n for n in [-126, 127].
  static F power_of_two(I n) { return (F)((n + 127) << 23); }

  // e^x = 2^n (1 + q), |x| <= 104. The reduced argument r is within ln(2) / 2, where the Taylor series to r^7 leaves
  // 5e-9.
  struct Exponential {
    F q;
    I n;
  };
  static Exponential exponential(F x) {
    // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
    const F shifted = V::fma(x, V::set(1.44269504f), V::set(12582912.0f));
    const F n = shifted - 12582912.0f;
    // ln(2) in two parts; the first has 9 bits, so that n times it is exact.
    F r = V::fma(n, V::set(-0.693359375f), x);
    r = V::fma(n, V::set(2.12194440e-4f), r);
    F p = V::fma(r, V::set(1.0f / 5040), V::set(1.0f / 720));
    p = V::fma(p, r, V::set(1.0f / 120));
    p = V::fma(p, r, V::set(1.0f / 24));
    p = V::fma(p, r, V::set(1.0f / 6));
    p = V::fma(p, r, V::set(0.5f));
    return {V::fma(r * r, p, r), (I)shifted - (I)V::set(12582912.0f)};
  }

  // e^x within 2 units in the last place; 0 and infinity beyond float's range, NaN for NaN.
  static F exp(F x) {
    x = x < -104.0f ? V::set(-104.0f) : x;
    x = x > 89.0f ? V::set(89.0f) : x;
    const Exponential e = exponential(x);
    // In two steps, because 2^n alone is out of range before the product is.
    const I half = e.n >> 1;
    return (e.q + 1.0f) * power_of_two(half) * power_of_two(e.n - half);
  }

  // 2^x for x <= 0 or hardly more, within 1 unit in the last place or 1e-37; NaN for NaN. For |r| <= 1/2 the
  // polynomial, 1 + r times one that was fitted for the least relative error with 1 held fixed, has an error of 2e-9. N
  // vectors are computed in lockstep: one alone is a long dependency chain, of which the processor's schedulers hold
  // too few at once.
  template <int N>
  static void exp2_of_negative(F* x) {
    constexpr float kFactors[] = {1.5353362e-4f, 1.3398874e-3f, 9.6184369e-3f, 5.5503324e-2f,
                                  2.4022648e-1f, 6.9314718e-1f, 1.0f};
    const F least = V::keep(V::set(-124.0f));  // keeps the compiler from making two operations of the comparison
    F p[N];
    I n[N];
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) {
      x[i] = larger(least, x[i]);  // a NaN as second argument is kept
      const F shifted = x[i] + 12582912.0f;
      x[i] = x[i] - (shifted - 12582912.0f);
      n[i] = (I)shifted << 23;
      p[i] = V::set(kFactors[0]);
    }
#pragma GCC unroll 8
    for (int k = 1; k < 7; ++k) {
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) p[i] = V::fma(p[i], x[i], V::set(kFactors[k]));
    }
    // Adds n to the exponent of a number between 0.7 and 1.42; n is at least -124. Idle lanes may hold any x: the sum
    // wraps around there.
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) x[i] = (F)((U)p[i] + (U)n[i]);
  }
  static F exp2_of_negative(F x) {
    exp2_of_negative<1>(&x);
    return x;
  }

  // tanh within 3 units in the last place, also near 0.
  static F tanh(F x) {
    // With m = e^(-2|x|) - 1, tanh |x| = -m / (2 + m). From 10 on the result is 1.
    F a = absolute(x);
    a = a > 10.0f ? V::set(10.0f) : a;
    const Exponential e = exponential(a * -2.0f);
    const F scale = power_of_two(e.n);
    const F m = V::fma(e.q, scale, scale - 1.0f);
    const F magnitude = -m / (m + 2.0f);
    return (F)((I)magnitude | ((I)x & (I)V::set(-0.0f)));
  }

  // ln(1 + e^x) = max(x, 0) + ln(1 + t), t = e^(-|x|), and ln(1 + t) = 2 artanh(s), s = t / (2 + t) <= 1/3, whose
  // Taylor series to s^13 leaves 2e-8. Within 3 units in the last place.
  static F softplus(F x) {
    const F t = exp(-absolute(x));
    const F s = t / (t + 2.0f);
    const F z = s * s;
    F p = V::fma(z, V::set(1.0f / 13), V::set(1.0f / 11));
    p = V::fma(p, z, V::set(1.0f / 9));
    p = V::fma(p, z, V::set(1.0f / 7));
    p = V::fma(p, z, V::set(1.0f / 5));
    p = V::fma(p, z, V::set(1.0f / 3));
    p = V::fma(p, z, V::set(1.0f));
    return V::fma(s * 2.0f, p, larger(x, V::set(0.0f)));
  }

  static F sigmoid(F x) { return 1.0f / (exp(-x) + 1.0f); }

  static F silu(F x) { return x / (exp(-x) + 1.0f); }

  // 0.5 x (1 + tanh(u)) = x / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3). Error <= 2e-7 |x|.
  static F gelu_tanh(F x) {
    const F u = x * V::fma(x * x, V::set(0.0713548162726f), V::set(1.59576912161f));
    return x / (exp(-u) + 1.0f);
  }

  // 0.5 x (1 + erf(x / sqrt(2))). Error <= 2e-7 |x|. With z = |x| / sqrt(2) and t = 1 / (1 + 0.4 z), erfc(z) is
  // e^(-z^2) t times a polynomial in t, fitted at Chebyshev nodes of z in [0, 10] with 40-digit arithmetic (5e-9).
  static F gelu_erf(F x) {
    const F z = absolute(x) * 0.707106781f;
    const F t = 1.0f / V::fma(z, V::set(0.4f), V::set(1.0f));
    F p = V::fma(t, V::set(-0.03350112687f), V::set(0.2187853561f));
    p = V::fma(p, t, V::set(-0.5465026178f));
    p = V::fma(p, t, V::set(0.6093421803f));
    p = V::fma(p, t, V::set(-0.3343118762f));
    p = V::fma(p, t, V::set(0.2979731946f));
    p = V::fma(p, t, V::set(0.1210599825f));
    p = V::fma(p, t, V::set(0.216689386f));
    p = V::fma(p, t, V::set(0.2247486653f));
    p = V::fma(p, t, V::set(0.2257168574f));
    const F half_erfc = p * t * exp(-z * z) * 0.5f;
    return x * select(x < 0.0f, half_erfc, 1.0f - half_erfc);
  }

  static F relu(F x) { return select(x < 0.0f, V::set(0.0f), x); }
  static F relu_squared(F x) { return relu(x) * relu(x); }

  // The sigmoid of silu is steeper by 1.702 here, which makes it nearly GELU's.
  static F clamped_swiglu(F a, F u) {
    a = a > 7.0f ? V::set(7.0f) : a;
    u = u < -7.0f ? V::set(-7.0f) : u;
    u = u > 7.0f ? V::set(7.0f) : u;
    return a / (exp(a * -1.702f) + 1.0f) * (u + 1.0f);
  }

  // The sum of the lanes, added in order in double, so that rounding happens once.
  static double sum_of_lanes(F value) {
    float lanes[V::kLanes];
    V::store(lanes, value);
    double sum = 0;
    for (const float lane : lanes) sum += lane;
    return sum;
  }
  // Reduces the lanes pairwise, then pairs of those: fewer steps, in float.
  template <class Join>
  static float joined_lanes(F value, const Join& join) {
    for (int half = V::kLanes / 2; half > 0; half /= 2) {
      value = join(value, exchanged(value, half));
    }
    return value[0];
  }

 private:
  // Exchanges each lane with the one whose index differs by `distance`, a power of two.
  static F exchanged(F value, int distance) {
#ifdef __clang__  // clang shuffles by constants only; it builds the fuzz targets
    F lanes;
    for (int i = 0; i < V::kLanes; ++i) lanes[i] = value[i ^ distance];
    return lanes;
#else
    return __builtin_shuffle(value, V::lane_numbers() ^ distance);
#endif
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
