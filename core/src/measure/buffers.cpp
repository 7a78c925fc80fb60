// Allocates and fills the tensors that contestants run on.
#include "buffers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "../tensor_bytes.hpp"
#include "../validate/test_data.hpp"
#include "plumb/backend.hpp"
#include "plumb/error.hpp"

namespace plumb {
namespace {

/// No multiple of any usual image, and of 256 bytes in every stored type, so that copies of it are
/// aligned.
constexpr std::int64_t pattern_elements = 128 * 8209;

std::size_t span_bytes(const ConvProblem& problem, const Extents& extents, const Strides& strides) {
  return static_cast<std::size_t>(span_elements(extents, strides)) * size_in_bytes(problem.dtype);
}

std::size_t span_bytes(const ConvProblem& problem, const ConvOperand& operand) {
  return span_bytes(problem, operand.extents, operand.strides);
}

std::int64_t span_of(const ConvOperand& operand) {
  return span_elements(operand.extents, operand.strides);
}

Tensor allocate(const Device& device, std::size_t bytes) {
  return Tensor(device, DType::f16, {static_cast<std::int64_t>((bytes + 1) / 2)});
}

/// Repeats the first `filled` bytes at `to` up to `bytes` bytes.
void repeat(Queue& queue, std::byte* to, std::size_t filled, std::size_t bytes) {
  while (filled < bytes) {
    const std::size_t part = std::min(filled, bytes - filled);
    queue.backend().copy(to + filled, to, part);
    filled += part;
  }
}

void fill(Queue& queue, std::byte* to, const std::vector<std::byte>& block, std::size_t bytes) {
  const std::size_t first = std::min(block.size(), bytes);
  if (first == 0) return;
  queue.backend().copy(to, block.data(), first);
  repeat(queue, to, first, bytes);
}

}  // namespace

Pattern::Pattern(DType dtype, std::int64_t elements, double scale, std::uint64_t seed)
    : dtype_(dtype) {
  const std::int64_t count = std::min(elements, pattern_elements);
  bytes_.resize(static_cast<std::size_t>(count) * size_in_bytes(dtype));
  const TensorView view(bytes_.data(), dtype, {count});
  Random random(seed);
  for (std::int64_t i = 0; i < count; ++i) store_element(view, i, scale * random.normal());
}

void Pattern::read(std::int64_t element, std::int64_t step, std::span<double> values) const {
  const auto count = static_cast<std::int64_t>(bytes_.size() / size_in_bytes(dtype_));
  const ConstTensorView view(bytes_.data(), dtype_, {count});
  step %= count;
  std::int64_t at = element % count;
  for (double& value : values) {
    value = load_element(view, at);
    at += step;
    if (at >= count) at -= count;
  }
}

std::int64_t span_elements(const Extents& extents, const Strides& strides) {
  if (element_count(extents) == 0) return 0;
  std::int64_t span = 1;
  for (int i = 0; i < extents.rank(); ++i) {
    if (strides[i] < 0)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("measuring a tensor with strides {}; expected none below 0",
                              to_string(strides)));
    span += (extents[i] - 1) * strides[i];
  }
  return span;
}

SetLayout::SetLayout(const ConvProblem& problem, bool bias)
    : x_bytes(span_bytes(problem, image_of(problem))),
      w_bytes(span_bytes(problem, filters_of(problem))),
      bias_bytes(bias ? static_cast<std::size_t>(bias_elements(problem)) *
                            size_in_bytes(problem.dtype)
                      : 0),
      y_bytes(span_bytes(problem, output_of(problem))),
      w_at(aligned(x_bytes)),
      bias_at(w_at + aligned(w_bytes)),
      y_at(bias_at + aligned(bias_bytes)),
      bytes(y_at + aligned(y_bytes)) {}

Buffers::Buffers(Queue& queue, const ConvProblem& problem, const ConvOptions& options,
                 std::uint64_t seed)
    : device_(queue.device()),
      problem_(problem),
      layout_(problem, options.bias),
      accumulates_(options.accumulate),
      x_(problem.dtype, span_of(image_of(problem)), 1, seed),
      w_(problem.dtype, span_of(filters_of(problem)),
         1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(problem.terms(), 1))), seed + 1),
      bias_(problem.dtype, options.bias ? bias_elements(problem) : 0, 1, seed + 2),
      y_(problem.dtype, options.accumulate ? span_of(output_of(problem)) : 0, 1, seed + 3),
      first_(allocate(device_, layout_.bytes)) {
  std::byte* begin = set_begin(0);
  fill(queue, begin, x_.bytes(), layout_.x_bytes);
  fill(queue, begin + layout_.w_at, w_.bytes(), layout_.w_bytes);
  fill(queue, begin + layout_.bias_at, bias_.bytes(), layout_.bias_bytes);
  queue.synchronize();
}

void Buffers::spread(Queue& queue, std::size_t bytes) {
  const std::size_t wanted = bytes / layout_.bytes + 1;
  const std::size_t possible = 1 + device_.free_bytes() / 2 / layout_.bytes;
  const std::size_t others = std::min(wanted, possible) - 1;
  if (others == 0 || sets_ > 1) return;
  others_ = allocate(device_, others * layout_.bytes);
  sets_ = static_cast<int>(others) + 1;
  queue.backend().copy(set_begin(1), set_begin(0), layout_.bytes);
  repeat(queue, set_begin(1), layout_.bytes, others * layout_.bytes);
  queue.synchronize();
}

std::byte* Buffers::set_begin(int set) const {
  if (set == 0) return static_cast<std::byte*>(first_.data());
  return static_cast<std::byte*>(others_.data()) +
         static_cast<std::size_t>(set - 1) * layout_.bytes;
}

ConvTensors Buffers::tensors(int set) const {
  std::byte* begin = set_begin(set);
  const DType dtype = problem_.dtype;
  const DeviceId& id = device_.id();
  const ConvOperand image = image_of(problem_), filters = filters_of(problem_),
                    output = output_of(problem_);
  ConvTensors tensors{
      .x = ConstTensorView(begin, dtype, image.extents, id, image.strides),
      .w = ConstTensorView(begin + layout_.w_at, dtype, filters.extents, id, filters.strides),
      .y = TensorView(begin + layout_.y_at, dtype, output.extents, id, output.strides)};
  if (!has_bias()) return tensors;
  const TensorView bias(begin + layout_.bias_at, dtype, {bias_elements(problem_)}, id);
  if (problem_.direction == Direction::backward_weights)
    tensors.db = bias;
  else
    tensors.bias = bias;
  return tensors;
}

void Buffers::prepare_output(Queue& queue) const {
  prepare(queue, layout_.y_at, y_, layout_.y_bytes);
  if (problem_.direction == Direction::backward_weights)
    prepare(queue, layout_.bias_at, bias_, layout_.bias_bytes);
}

void Buffers::prepare(Queue& queue, std::size_t at, const Pattern& before,
                      std::size_t bytes) const {
  const std::vector<std::byte> poison(accumulates_ ? 0 : std::min<std::size_t>(bytes, 1 << 20),
                                      std::byte{0xff});
  fill(queue, set_begin(0) + at, accumulates_ ? before.bytes() : poison, bytes);
  queue.synchronize();
}

std::vector<std::byte> Buffers::bias_gradient(Queue& queue) const {
  std::vector<std::byte> bytes(layout_.bias_bytes);
  queue.backend().copy(bytes.data(), set_begin(0) + layout_.bias_at, bytes.size());
  queue.synchronize();
  return bytes;
}

std::vector<std::byte> Buffers::output_image(Queue& queue, std::int64_t n) const {
  ConvOperand output = output_of(problem_);
  output.extents[0] = 1;
  const std::size_t element_bytes = size_in_bytes(problem_.dtype);
  std::vector<std::byte> image(span_bytes(problem_, output));
  const auto at = static_cast<std::size_t>(n * output.strides[0]) * element_bytes;
  queue.backend().copy(image.data(), set_begin(0) + layout_.y_at + at, image.size());
  queue.synchronize();
  return image;
}

}  // namespace plumb
