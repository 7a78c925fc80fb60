// A convolution that the emulated interleaved kernels make, and how its outputs are judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "cuda_kernels/fields/emulation/conv_tensors.hpp"
#include "cuda_kernels/fields/emulation/judged.hpp"
#include "cuda_kernels/wide/emulation/placing.hpp"
#include "interleaved_run.hpp"
#include "plumb/plumb.hpp"
#include "plumb/problem_text.hpp"
#include "plumb/validate.hpp"
#include "support/absent_device.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::emulation {

struct InterleavedOptions {
  InterleavedKind kind = InterleavedKind::fp16;
  Placing x = Placing::channels_last, y = Placing::channels_last;
  int rows = 0;     ///< of outputs of a filter; 0: as planned
  int columns = 1;  ///< likewise, where rows are given
  int chunks = 1;   ///< of channels, likewise
  int between = 0;  ///< powers of two between the magnitudes of one channel and of the next
  int y_gap = 0;    ///< elements between y's pixels, where channels are innermost
  int y_shift = 0;  ///< elements that y begins behind an aligned address
  Data data = Data::integers;
  int infinite_channel = -1;  ///< of x: it holds an Inf
  bool bias = false, relu = false;
  int blocks = 2;
  int units = 132;  ///< of the device that tiles are planned for
};

class InterleavedEmulated {
 public:
  InterleavedEmulated(const std::string& text, const InterleavedOptions& options,
                      std::uint32_t seed = 1)
      : options_(options),
        problem_(problem_of(text, options)),
        layout_(layout_of(problem_, options)),
        tensors_(problem_, options, seed) {
    if (options.between != 0) set_channels_apart();
    if (options.infinite_channel >= 0)
      tensors_.x.set({0, options.infinite_channel, 3, 4}, INFINITY);
  }

  const plumb::cuda::InterleavedLayout& layout() const { return layout_; }
  plumb::cuda::InterleavedTiles tile() const {
    plumb::DeviceInfo device = hopper();
    device.units = options_.units;
    return plumb::cuda::tile_interleaved(plumb::cuda::InterleavedConv(problem_).problem, device,
                                         layout_, elements_of(problem_, options_));
  }
  bool stored_vectors() const { return stored_vectors_; }

  /// Convolves, and returns what is wrong with y; empty where nothing is.
  std::string run() {
    if (tile().seconds == 0) return "no tile fits";
    HostTensor y = tensors_.y;
    // The kernel writes to memory that is aligned as it is told to be.
    const std::size_t element = plumb::size_in_bytes(problem_.dtype);
    std::vector<std::byte> memory(y.bytes().size() + 64, std::byte{0xff});
    auto* const of_y = static_cast<std::byte*>(y.view().data());
    const auto before = static_cast<std::size_t>(of_y - y.bytes().data());
    std::byte* to = memory.data() + before;
    while (reinterpret_cast<std::uintptr_t>(to) % 16 != 0) ++to;
    to += static_cast<std::size_t>(options_.y_shift) * element;
    try {
      stored_vectors_ = run_interleaved({.problem = problem_,
                                         .kind = options_.kind,
                                         .layout = layout_,
                                         .x = tensors_.x.view().data(),
                                         .w = tensors_.w.view().data(),
                                         .bias = tensors_.bias_if(options_.bias),
                                         .y = to,
                                         .relu = options_.relu,
                                         .blocks = options_.blocks,
                                         .units = options_.units});
    } catch (const std::exception& error) {
      return error.what();
    }
    std::memcpy(of_y - before, to - before, y.bytes().size());
    if (!y.surroundings_untouched()) return "wrote beside y";
    return judge(y.values());
  }

 private:
  static plumb::ConvProblem problem_of(const std::string& text, const InterleavedOptions& options) {
    plumb::ConvProblem problem = plumb::parse_problem(text).problem;
    problem.dtype = options.kind == InterleavedKind::fp16   ? plumb::DType::f16
                    : options.kind == InterleavedKind::bf16 ? plumb::DType::bf16
                                                            : plumb::DType::f32;
    const bool is_data = problem.direction == plumb::Direction::backward_data;
    plumb::Extents x = problem.x_extents(), y = problem.y_extents();
    plumb::Extents& output = is_data ? x : y;
    if (options.y == Placing::channels_last) output[1] += options.y_gap;
    problem.x_strides = strides_of(x, is_data ? options.y : options.x);
    problem.y_strides = strides_of(y, is_data ? options.x : options.y);
    return plumb::check(problem);
  }
  static plumb::cuda::InterleavedElements elements_of(const plumb::ConvProblem& problem,
                                                      const InterleavedOptions& options) {
    return {.parts = options.kind == InterleavedKind::fp16x3 ? 2 : 1,
            .stored_bytes = static_cast<int>(plumb::size_in_bytes(problem.dtype))};
  }
  static plumb::cuda::InterleavedLayout layout_of(const plumb::ConvProblem& problem,
                                                  const InterleavedOptions& options) {
    const plumb::cuda::InterleavedElements elements = elements_of(problem, options);
    const plumb::cuda::InterleavedConv conv(problem);
    if (options.rows == 0) return plumb::cuda::layout_interleaved(conv, elements);
    return plumb::cuda::InterleavedLayout(conv, elements, options.rows, options.columns, 1,
                                          plumb::cuda::core_row_forms[0], options.chunks);
  }
  /// Gives channels magnitudes that go up and down, and their weights the opposite ones, so that
  /// every channel has its share of an output.
  void set_channels_apart() {
    const auto scale = [&](HostTensor& tensor, int sign) {
      plumb::Dims at = tensor.extents();
      const plumb::Extents all = tensor.extents();
      const auto count = static_cast<std::size_t>(plumb::element_count(all));
      for (std::size_t i = 0; i < count; ++i) {
        std::size_t rest = i;
        for (int axis = all.rank(); axis-- > 0; rest /= static_cast<std::size_t>(all[axis]))
          at[axis] = static_cast<std::int64_t>(rest % static_cast<std::size_t>(all[axis]));
        const int apart = options_.between * (static_cast<int>(at[1] * 7) % 5 - 2);
        tensor.set(at, std::ldexp(tensor.at(at), sign * apart));
      }
    };
    scale(tensors_.x, 1), scale(tensors_.w, -1);
  }

  std::string judge(const std::vector<double>& values) const {
    const std::vector<plumb::OracleTerm> terms =
        plumb::conv_oracle(problem_, tensors_.x.view(), tensors_.w.view(),
                           options_.bias ? tensors_.bias.view() : plumb::ConstTensorView());
    const plumb::Numerics numerics{
        .operand = options_.kind == InterleavedKind::bf16          ? plumb::Operand::bf16
                   : options_.kind == InterleavedKind::fp16_scaled ? plumb::Operand::fp16_scaled
                                                                   : plumb::Operand::fp16,
        .accumulator = plumb::Accumulator::tensor_core_fp32,
        .products = options_.kind == InterleavedKind::fp16x3 ? 3 : 1,
        .term_multiple = 16};
    // Small integers' sums are exact until they are stored.
    const bool exact = has_exact_sums(options_.data);
    return first_wrong(values, [&](std::size_t i) -> Expected {
      double expected = exact ? stored_as(problem_.dtype, terms[i].y) : terms[i].y;
      const double bound =
          exact ? 0 : plumb::conv_error_bound(numerics, problem_, terms[i], values[i]);
      if (options_.relu && expected < 0) expected = 0;
      return {expected, bound};
    });
  }

  InterleavedOptions options_;
  plumb::ConvProblem problem_;
  plumb::cuda::InterleavedLayout layout_;
  ConvTensors tensors_;
  bool stored_vectors_ = false;
};

}  // namespace plumb_test::emulation
