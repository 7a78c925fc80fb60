// Tensors on the host, filled as fast as memory goes: a gigabyte of them is no rarity.
#include "host_case.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace plumb::app {
namespace {

std::size_t bytes_of(const ConstTensorView& view) {
  return static_cast<std::size_t>(element_count(view.extents())) * size_in_bytes(view.dtype());
}

Tensor host_tensor(const Device& device, DType dtype, const Extents& extents,
                   const Strides& strides, HostMemory memory) {
  // Memory of the CPU is pageable whatever kind is asked for.
  return Tensor(memory == HostMemory::pinned ? device : Device::open("cpu"), dtype, extents,
                strides, Memory::pinned_host);
}

/// A prime number of random values laid over the memory again and again, so that no two images of
/// a batch are alike.
void fill(const TensorView& view, double scale, std::uint64_t seed) {
  constexpr std::int64_t period = 1000003;
  const auto bytes = static_cast<std::int64_t>(bytes_of(view));
  const auto element = static_cast<std::int64_t>(size_in_bytes(view.dtype()));
  const std::int64_t values = std::min(period, bytes / element);
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal(0, scale);
  const TensorView flat(view.data(), view.dtype(), {values});
  for (std::int64_t i = 0; i < values; ++i) store_element(flat, i, normal(engine));
  auto* data = static_cast<std::byte*>(view.data());
  const std::int64_t step = period * element;
#pragma omp parallel for schedule(static)
  for (std::int64_t begin = step; begin < bytes; begin += step)
    std::memcpy(data + begin, data, static_cast<std::size_t>(std::min(step, bytes - begin)));
}

/// A different number in [0, count) for each draw.
std::int64_t drawn(std::uint64_t draw, std::int64_t count) {
  std::mt19937_64 engine(draw);
  return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(count));
}

}  // namespace

std::string_view to_string(HostMemory memory) {
  return memory == HostMemory::pinned ? "pinned" : "pageable";
}

HostCase::HostCase(const Device& device, const ConvProblem& problem, HostMemory memory,
                   std::uint64_t seed)
    : problem_(problem),
      seed_(seed),
      x_(host_tensor(device, problem.dtype, problem.x_extents(), problem.x_strides, memory)),
      w_(host_tensor(device, problem.dtype, problem.w_extents(), problem.w_strides, memory)),
      y_(host_tensor(device, problem.dtype, problem.y_extents(), problem.y_strides, memory)) {
  fill(x_, 1, seed);
  fill(w_, 1 / std::sqrt(static_cast<double>(problem.terms())), seed + 1);
  poison_output();
}

void HostCase::poison_output() { std::memset(y_.data(), 0xff, bytes_of(y_)); }

bool HostCase::has_nan() const {
  const ConstTensorView y = y_;
  const std::int64_t count = element_count(y.extents());
  bool found = false;
#pragma omp parallel for schedule(static) reduction(|| : found)
  for (std::int64_t i = 0; i < count; ++i) found = found || std::isnan(load_element(y, i));
  return found;
}

double HostCase::error_over_bound_at(const Numerics& numerics, std::int64_t n,
                                     std::uint64_t draw) const {
  const Extents y = problem_.y_extents();
  const Strides& strides = problem_.y_strides;
  std::int64_t index[Dims::max_rank] = {n}, offset = n * strides[0];
  for (int i = 1; i < y.rank(); ++i) {
    index[i] = drawn(draw + static_cast<std::uint64_t>(i - 1), y[i]);
    offset += index[i] * strides[i];
  }
  const int last = y.rank() - 1;
  const double computed = load_element(y_, offset);
  const OracleTerm term = conv_oracle_at(problem_, x_, w_, {}, n, index[1],
                                         last == 4 ? index[2] : 0, index[last - 1], index[last]);
  const double bound = conv_error_bound(numerics, problem_, term, computed);
  const double error = std::abs(computed - term.y);
  return error == 0 ? 0 : error / bound;
}

double HostCase::max_error_over_bound(const Numerics& numerics,
                                      std::int64_t images_per_segment) const {
  if (problem_.n == 0) return 0;
  if (has_nan()) return std::numeric_limits<double>::infinity();
  std::vector<std::int64_t> images;
  for (std::int64_t first = 0; first < problem_.n; first += images_per_segment) {
    images.push_back(first);
    images.push_back(std::min(first + images_per_segment, problem_.n) - 1);
  }
  constexpr int at_random = 300;
  for (int i = 0; i < at_random; ++i)
    images.push_back(drawn(seed_ + static_cast<std::uint64_t>(i), problem_.n));
  double largest = 0;
  for (std::size_t i = 0; i < images.size(); ++i)
    largest = std::max(largest, error_over_bound_at(numerics, images[i], seed_ + 1000 + 3 * i));
  return largest;
}

}  // namespace plumb::app
