// Vectors are as wide as a register of the instruction set that a source is compiled for; loads and
// stores may be of their first lanes. A source that includes this has defined PLUMB_VECTOR_BYTES
// and PLUMB_REGISTERS (conv/conv_block_<isa>.cpp).
//
// Everything here has internal linkage: the linker keeps one copy of each inline function, and must
// not keep one that was compiled for a better machine than the one it runs on.
#pragma once

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <cstdint>
#include <type_traits>

namespace plumb {
namespace {

/// A vector is as wide as a register, and may lie at any address that an element may have.
template <class Real>
struct VectorOf {
  typedef Real Type
      __attribute__((vector_size(PLUMB_VECTOR_BYTES), aligned(sizeof(Real)), may_alias));
};
template <class Real>
using Vector = typename VectorOf<Real>::Type;
template <class Real>
inline constexpr int lanes = PLUMB_VECTOR_BYTES / sizeof(Real);

/// Returns the elements of the vectors that `count` elements begin to fill.
template <class Real>
inline std::int64_t in_whole_vectors(std::int64_t count) {
  return (count + lanes<Real> - 1) / lanes<Real> * lanes<Real>;
}

template <class Real>
inline Vector<Real> load_vector(const Real* from) {
  return *reinterpret_cast<const Vector<Real>*>(from);
}

#if defined __AVX512F__
inline Vector<float> load_first(const float* from, std::int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
}
inline Vector<double> load_first(const double* from, std::int64_t count) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), from);
}
inline void store_first(float* to, Vector<float> values, std::int64_t count) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), values);
}
inline void store_first(double* to, Vector<double> values, std::int64_t count) {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>((1u << count) - 1), values);
}
/// A mask of the lanes [low, high).
template <class Real>
using Lanes = std::uint16_t;
template <class Real>
inline Lanes<Real> lanes_between(std::int64_t low, std::int64_t high) {
  return static_cast<Lanes<Real>>((1u << high) - (1u << low));
}
/// Loads the lanes `between`, with zeros around them, for which no memory need be there.
inline Vector<float> load_between(const float* from, Lanes<float> between) {
  return _mm512_maskz_loadu_ps(between, from);
}
inline Vector<double> load_between(const double* from, Lanes<double> between) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>(between), from);
}
#elif defined __AVX2__
inline __m256i first_lanes(const float*, std::int64_t count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane);
}
inline __m256i first_lanes(const double*, std::int64_t count) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
}
inline Vector<float> load_first(const float* from, std::int64_t count) {
  return _mm256_maskload_ps(from, first_lanes(from, count));
}
inline Vector<double> load_first(const double* from, std::int64_t count) {
  return _mm256_maskload_pd(from, first_lanes(from, count));
}
template <class Real>
using Lanes = __m256i;
template <class Real>
inline Lanes<Real> lanes_between(std::int64_t low, std::int64_t high) {
  constexpr const Real* of_type = nullptr;
  return _mm256_andnot_si256(first_lanes(of_type, low), first_lanes(of_type, high));
}
inline Vector<float> load_between(const float* from, const Lanes<float>& between) {
  return _mm256_maskload_ps(from, between);
}
inline Vector<double> load_between(const double* from, const Lanes<double>& between) {
  return _mm256_maskload_pd(from, between);
}
// The store goes by halves, because a masked store of this instruction set is slow on Zen.
inline void store_first(float* to, Vector<float> values, std::int64_t count) {
  __m128 part = _mm256_castps256_ps128(values);
  if (count & 4) {
    _mm_storeu_ps(to, part);
    to += 4, part = _mm256_extractf128_ps(values, 1);
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
    to += 2, part = _mm_movehl_ps(part, part);
  }
  if (count & 1) _mm_store_ss(to, part);
}
inline void store_first(double* to, Vector<double> values, std::int64_t count) {
  __m128d part = _mm256_castpd256_pd128(values);
  if (count & 2) {
    _mm_storeu_pd(to, part);
    to += 2, part = _mm256_extractf128_pd(values, 1);
  }
  if (count & 1) _mm_store_sd(to, part);
}
#else
template <class Real>
inline Vector<Real> load_first(const Real* from, std::int64_t count) {
  Vector<Real> values{};
  for (std::int64_t i = 0; i < count; ++i) values[i] = from[i];
  return values;
}
template <class Real>
inline void store_first(Real* to, Vector<Real> values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = values[i];
}
#endif

/// Returns a vector of `count` neighbours, a divisor of the lanes, again and again.
template <int count, class Real>
inline Vector<Real> repeat(const Real* from) {
  [[maybe_unused]] constexpr int bytes = count * int{sizeof(Real)};
  if constexpr (count == lanes<Real>) return load_vector(from);
    // Masks of all lanes, because what the intrinsics without one begin from is a warning.
#if defined __AVX512F__
  if constexpr (bytes == 8)
    return reinterpret_cast<Vector<Real>>(
        _mm512_maskz_broadcastsd_pd(0xff, _mm_load_sd(reinterpret_cast<const double*>(from))));
  if constexpr (bytes == 16)
    return reinterpret_cast<Vector<Real>>(
        _mm512_maskz_broadcast_f32x4(0xffff, _mm_loadu_ps(reinterpret_cast<const float*>(from))));
  if constexpr (bytes == 32)
    return reinterpret_cast<Vector<Real>>(
        _mm512_maskz_broadcast_f64x4(0xff, _mm256_loadu_pd(reinterpret_cast<const double*>(from))));
#elif defined __AVX2__
  if constexpr (bytes == 8)
    return reinterpret_cast<Vector<Real>>(
        _mm256_broadcast_sd(reinterpret_cast<const double*>(from)));
  if constexpr (bytes == 16)
    return reinterpret_cast<Vector<Real>>(
        _mm256_broadcast_ps(reinterpret_cast<const __m128*>(from)));
#endif
  Vector<Real> values;
  for (int i = 0; i < lanes<Real>; ++i) values[i] = from[i % count];
  return values;
}

/// A lane of a vector for each lane.
template <class Real>
using LaneInt = std::conditional_t<sizeof(Real) == 4, std::int32_t, std::int64_t>;
template <class Real>
struct LaneIndexOf {
  typedef LaneInt<Real> Type __attribute__((vector_size(PLUMB_VECTOR_BYTES)));
};
template <class Real>
using LaneIndex = typename LaneIndexOf<Real>::Type;

/// Returns lane index[i] of `from` in each lane i.
template <class Real>
inline Vector<Real> permute(Vector<Real> from, LaneIndex<Real> index) {
#if defined __AVX512F__
  if constexpr (sizeof(Real) == 4)
    return _mm512_permutexvar_ps(reinterpret_cast<__m512i>(index), from);
  else
    return _mm512_permutexvar_pd(reinterpret_cast<__m512i>(index), from);
#else
#if defined __AVX2__
  if constexpr (sizeof(Real) == 4)
    return _mm256_permutevar8x32_ps(from, reinterpret_cast<__m256i>(index));
#endif
  Vector<Real> to{};
  for (int i = 0; i < lanes<Real>; ++i) to[i] = from[index[i]];
  return to;
#endif
}

/// Loads the first `count` lanes with zeros behind them, or all lanes where `count` is larger.
template <class Real>
inline Vector<Real> load_lanes(const Real* from, std::int64_t count) {
  return count >= lanes<Real> ? load_vector(from) : load_first(from, count);
}

/// Stores the first `count` lanes, or all lanes where `count` is larger.
template <class Real>
inline void store_lanes(Real* to, Vector<Real> values, std::int64_t count) {
  if (count >= lanes<Real>)
    *reinterpret_cast<Vector<Real>*>(to) = values;
  else
    store_first(to, values, count);
}

/// Copies to[i] = from[i] for i in [0, count), in whole vectors, which reads and writes beyond
/// `count`.
template <class Real>
inline void copy_vectors(const Real* from, std::int64_t count, Real* to) {
  for (std::int64_t i = 0; i < count; i += lanes<Real>)
    *reinterpret_cast<Vector<Real>*>(to + i) = load_vector(from + i);
}

}  // namespace
}  // namespace plumb
