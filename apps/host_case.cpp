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

Tensor host_tensor(const Device& device, DType dtype, const ConvOperand& part, HostMemory memory) {
  // Memory of the CPU is pageable whatever kind is asked for.
  return Tensor(memory == HostMemory::pinned ? device : Device::open("cpu"), dtype, part.extents,
                part.strides, Memory::pinned_host);
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
      image_(host_tensor(device, problem.dtype, image_of(problem), memory)),
      filters_(host_tensor(device, problem.dtype, filters_of(problem), memory)),
      output_(host_tensor(device, problem.dtype, output_of(problem), memory)) {
  fill(image_, 1, seed);
  fill(filters_, 1 / std::sqrt(static_cast<double>(problem.terms())), seed + 1);
  poison_output();
}

void HostCase::poison_output() { std::memset(output_.data(), 0xff, bytes_of(output_)); }

bool HostCase::has_nan() const {
  const ConstTensorView y = output_;
  const std::int64_t count = element_count(y.extents());
  bool found = false;
#pragma omp parallel for schedule(static) reduction(|| : found)
  for (std::int64_t i = 0; i < count; ++i) found = found || std::isnan(load_element(y, i));
  return found;
}

double HostCase::error_over_bound_at(const ConvPipeline& pipeline, std::int64_t first,
                                     std::uint64_t draw) const {
  const ConvOperand output = output_of(problem_);
  const Extents& y = output.extents;
  std::int64_t index[Dims::max_rank] = {first}, offset = first * output.strides[0];
  for (int i = 1; i < y.rank(); ++i) {
    index[i] = drawn(draw + static_cast<std::uint64_t>(i - 1), y[i]);
    offset += index[i] * output.strides[i];
  }
  const int last = y.rank() - 1;
  const double computed = load_element(output_, offset);
  const OracleTerm term = conv_oracle_at(problem_, image_, filters_, {}, first, index[1],
                                         last == 4 ? index[2] : 0, index[last - 1], index[last]);
  const double whole =
      conv_error_bound(pipeline.plan().algorithm().numerics, problem_, term, computed);
  const double bound = whole + segments_error_bound(problem_.dtype, pipeline.segments(),
                                                    pipeline.sum_depth(), term.magnitude, whole);
  const double error = std::abs(computed - term.y);
  return error == 0 ? 0 : error / bound;
}

/// First indices of the outputs that are looked at. Those of dw are few, since each is a sum over
/// the whole batch, and in any of them a lost segment shows.
std::vector<std::int64_t> HostCase::judged(const ConvPipeline& pipeline) const {
  const bool weights = problem_.direction == Direction::backward_weights;
  std::vector<std::int64_t> first;
  const std::int64_t step = pipeline.images_per_segment();
  for (std::int64_t image = 0; image < problem_.n && !weights; image += step) {
    first.push_back(image);
    first.push_back(std::min(image + step, problem_.n) - 1);
  }
  constexpr std::int64_t at_random = 300, max_products = 100'000'000;
  const std::int64_t count =
      weights ? std::clamp<std::int64_t>(max_products / problem_.terms(), 3, at_random) : at_random;
  for (std::int64_t i = 0; i < count; ++i)
    first.push_back(
        drawn(seed_ + static_cast<std::uint64_t>(i), weights ? problem_.k : problem_.n));
  return first;
}

double HostCase::max_error_over_bound(const ConvPipeline& pipeline) const {
  if (problem_.n == 0) return 0;
  if (has_nan()) return std::numeric_limits<double>::infinity();
  const std::vector<std::int64_t> first = judged(pipeline);
  double largest = 0;
  for (std::size_t i = 0; i < first.size(); ++i)
    largest = std::max(largest, error_over_bound_at(pipeline, first[i], seed_ + 1000 + 3 * i));
  return largest;
}

}  // namespace plumb::app
