// A tiled direct convolution in fp32 on the CPU, with faults to be planted in it.
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "planted_faults.hpp"

using namespace plumb;

namespace plumb_test {
namespace {

constexpr std::int64_t tile_channels = 4;

std::atomic<unsigned> runs{0};

float rounded_to_bits(float value, int bits) {
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

template <Fault fault>
float operand(float value) {
  return fault == Fault::tf32_operands || fault == Fault::wrong_claim ? rounded_to_bits(value, 11)
                                                                      : value;
}

/// One image under one filter: the filter in tiles of a few channels, the sums of a whole image.
template <Fault fault>
class FilteredImage {
 public:
  FilteredImage(const ConvLaunch& launch, std::int64_t n, std::int64_t k)
      : launch_(launch), problem_(launch.problem), n_(n), k_(k) {
    sums_.assign(static_cast<std::size_t>(rows_ * problem_.q()), 0.0f);
    tile_.assign(static_cast<std::size_t>(tile_channels * problem_.t * problem_.r * problem_.s),
                 std::numeric_limits<float>::quiet_NaN());
  }

  void run() {
    const std::int64_t channels =
        problem_.c / problem_.groups - (fault == Fault::missing_last_channel ? 1 : 0);
    if constexpr (fault == Fault::missing_barrier) {
#pragma omp parallel num_threads(2)
      for (std::int64_t c = 0; c < channels; c += tile_channels) {
        const std::int64_t end = std::min(channels, c + tile_channels);
#pragma omp master
        load_tile(c, end);
#pragma omp sections nowait
        {
#pragma omp section
          add_tile(c, end, 0, rows_ / 2);
#pragma omp section
          add_tile(c, end, rows_ / 2, rows_);
        }
      }
    } else {
      const bool reverse = fault == Fault::unstable_order && runs.load() % 2 == 1;
      const std::int64_t tiles = (channels + tile_channels - 1) / tile_channels;
      for (std::int64_t i = 0; i < tiles; ++i) {
        const std::int64_t c = (reverse ? tiles - 1 - i : i) * tile_channels;
        const std::int64_t end = std::min(channels, c + tile_channels);
        const bool stale = fault == Fault::stale_tile && c > 0 && end == channels;
        if (!stale) load_tile(c, end);
        add_tile(c, end, 0, rows_);
      }
    }
    store();
  }

 private:
  void load_tile(std::int64_t begin, std::int64_t end) {
    const auto* w = static_cast<const float*>(launch_.w);
    std::size_t at = 0;
    for (std::int64_t c = begin; c < end; ++c)
      for (std::int64_t t = 0; t < problem_.t; ++t)
        for (std::int64_t r = 0; r < problem_.r; ++r)
          for (std::int64_t s = 0; s < problem_.s; ++s) {
            const bool transpose = fault == Fault::transposed_filter && problem_.r == problem_.s;
            const std::int64_t row = transpose ? s : r, column = transpose ? r : s;
            tile_[at++] = operand<fault>(w[offset(problem_.w_strides, k_, c, t, row, column)]);
          }
  }

  /// Rows of all planes of the output, one plane after the other.
  void add_tile(std::int64_t begin, std::int64_t end, std::int64_t first_row,
                std::int64_t last_row) {
    for (std::int64_t row = first_row; row < last_row; ++row)
      for (std::int64_t q = 0; q < problem_.q(); ++q) {
        float& sum = sums_[static_cast<std::size_t>(row * problem_.q() + q)];
        std::size_t at = 0;
        for (std::int64_t c = begin; c < end; ++c)
          for (std::int64_t t = 0; t < problem_.t; ++t)
            for (std::int64_t r = 0; r < problem_.r; ++r)
              for (std::int64_t s = 0; s < problem_.s; ++s) {
                const float weight = tile_[at++];
                if (!left_out(c, t, r, s)) add(sum, c, row, q, {t, r, s}, weight);
              }
      }
  }

  bool left_out(std::int64_t c, std::int64_t t, std::int64_t r, std::int64_t s) const {
    if (fault == Fault::missing_second_channel) return c == 1;
    if (fault == Fault::dropped_plane) return t > 0 && t == problem_.t - 1;
    return fault == Fault::dropped_tap && t == problem_.t - 1 && r == problem_.r - 1 &&
           s == problem_.s - 1;
  }

  static std::int64_t shown(Boundary boundary, std::int64_t index, std::int64_t extent) {
    const bool beyond = index < 0 || index >= extent;
    const bool early = fault == Fault::wrong_wrap && boundary == Boundary::periodic && beyond;
    return boundary_index(boundary, index - (early ? 1 : 0), extent);
  }

  void add(float& sum, std::int64_t c, std::int64_t row, std::int64_t q, const Triple& tap,
           float weight) {
    const Triple &stride = problem_.stride, &dilation = problem_.dilation;
    const Padding& padding = problem_.padding;
    const std::int64_t p = row % problem_.p();
    std::int64_t n = n_, z = row / problem_.p();
    if (fault == Fault::planes_for_images) {
      const std::int64_t number = n_ * problem_.z() + z;
      n = number % problem_.n, z = number / problem_.n;
    }
    const std::int64_t left = padding.left + (fault == Fault::padding_off_by_one ? 1 : 0);
    const bool early = fault == Fault::wrong_border_stride && q > 0 && q == problem_.q() - 1;
    const std::int64_t d =
        shown(problem_.boundary.d, z * stride.d + tap.d * dilation.d - padding.front, problem_.d);
    const std::int64_t h =
        shown(problem_.boundary.h, p * stride.h + tap.h * dilation.h - padding.top, problem_.h);
    const std::int64_t v =
        shown(problem_.boundary.w, q * stride.w - (early ? 1 : 0) + tap.w * dilation.w - left,
              problem_.w);
    if (d < 0 || h < 0 || v < 0) return;
    if (fault == Fault::border_plane && problem_.d > 1 && d == problem_.d - 1) return;
    const std::int64_t shift = fault == Fault::swapped_groups ? 1 : 0;
    const std::int64_t group = (k_ / (problem_.k / problem_.groups) + shift) % problem_.groups;
    const std::int64_t channel = group * (problem_.c / problem_.groups) + c;
    const float pixel =
        static_cast<const float*>(launch_.x)[offset(problem_.x_strides, n, channel, d, h, v)];
    sum = std::fma(operand<fault>(pixel), weight, sum);
    if (fault == Fault::fp16_sums) sum = static_cast<float>(Half(sum));
  }

  void store() {
    auto* const y = static_cast<float*>(launch_.y);
    const bool biased = launch_.bias && !(fault == Fault::lost_bias && k_ == problem_.k - 1);
    const std::int64_t columns = problem_.q();
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t q = 0; q < columns; ++q) {
        const bool last = row == rows_ - 1 && q == columns - 1;
        if (fault == Fault::unwritten_corner && last) continue;
        float value = sums_[static_cast<std::size_t>(row * columns + q)];
        if (biased) value += static_cast<const float*>(launch_.bias)[k_];
        if (launch_.activation == Activation::relu && value < 0) value = 0;
        if (fault == Fault::rounded_result && std::isfinite(value))
          value = rounded_to_bits(value, 16);
        if (fault == Fault::swallowed_nan && std::isnan(value)) value = 0;
        float* const out =
            y + offset(problem_.y_strides, n_, k_, row / problem_.p(), row % problem_.p(), q);
        *out = value;
        if (fault == Fault::write_past_the_end && last && n_ == problem_.n - 1 &&
            k_ == problem_.k - 1)
          out[1] = value;
      }
  }

  /// Of five indices; without a depth the third is 0 and has no stride.
  static std::int64_t offset(const Strides& strides, std::int64_t a, std::int64_t b, std::int64_t c,
                             std::int64_t d, std::int64_t e) {
    const int last = strides.rank() - 1;
    const std::int64_t plane = strides.rank() == 5 ? c * strides[2] : 0;
    return a * strides[0] + b * strides[1] + plane + d * strides[last - 1] + e * strides[last];
  }

  const ConvLaunch& launch_;
  const ConvProblem& problem_;
  std::int64_t n_, k_;
  std::int64_t rows_ = problem_.z() * problem_.p();
  std::vector<float> sums_, tile_;
};

template <Fault fault>
void launch_copy(const ConvLaunch& launch) {
  ++runs;
  for (std::int64_t n = 0; n < launch.problem.n; ++n)
    for (std::int64_t k = 0; k < launch.problem.k; ++k) FilteredImage<fault>(launch, n, k).run();
  if (fault == Fault::write_before_input)
    static_cast<float*>(const_cast<void*>(launch.x))[-1] = 0;  // NOLINT: the fault
  if (fault == Fault::written_input)
    *static_cast<float*>(const_cast<void*>(launch.x)) += 1;  // NOLINT: the fault
}

template <Fault fault>
constexpr ConvAlgorithm copy_with = copy_entry("cpu.conv.copy.fp32", fault,
                                               without_plan<launch_copy<fault>>);

template <std::size_t... i>
const ConvAlgorithm* pick(Fault fault, std::index_sequence<i...>) {
  const ConvAlgorithm* const copies[] = {&copy_with<static_cast<Fault>(i)>...};
  return copies[static_cast<std::size_t>(fault)];
}

}  // namespace

const ConvAlgorithm* cpu_copy(Fault fault) {
  return pick(fault, std::make_index_sequence<fault_count>());
}

}  // namespace plumb_test
