// Checks of the problem that a pipeline is made for, and of the tensors that it is run on.
#include "pipeline_tensors.hpp"

#include <fmt/format.h>

#include "overlap.hpp"
#include "pipeline_segments.hpp"
#include "plumb/problem_text.hpp"
#include "ranks.hpp"
#include "sizes.hpp"

namespace plumb {
namespace {

[[noreturn]] void refuse(const std::string& message) { refuse_argument("pipeline", message); }

/// Whether the dimensions from `first` on fill their memory, in whatever order they lie.
bool has_no_gaps(const Extents& extents, const Strides& strides, int first) {
  std::int64_t count = 1, reach = 0;
  for (int i = first; i < extents.rank(); ++i) {
    if (extents[i] > 1 && strides[i] <= 0) return false;
    count *= extents[i];
    reach += extents[i] > 1 ? (extents[i] - 1) * strides[i] : 0;
  }
  return reach + 1 == count;
}

/// The strides of a batch whose images lie dense behind each other, or an error.
Strides batch_strides(std::string_view name, const Extents& extents, Strides strides) {
  const std::int64_t image = elements_per_image(extents);
  if (!has_no_gaps(extents, strides, 1) || (extents[0] > 1 && strides[0] != image))
    refuse(
        fmt::format("{} {} has strides {}; expected images without gaps, {} elements from one "
                    "to the next",
                    name, to_string(extents), to_string(strides), image));
  strides[0] = image;  // with one image it may be anything
  return strides;
}

/// The view in the problem's rank and with its strides, which differ from its own at most along
/// extents of one.
template <class View>
View checked_view(const View& given, std::string_view name, DType dtype, const Extents& extents,
                  const Strides& strides) {
  const ConstTensorView view = view_of_rank(given, extents);
  bool same = view.dtype() == dtype && view.extents() == extents;
  for (int i = 0; same && i < extents.rank(); ++i)
    same = extents[i] <= 1 || view.stride(i) == strides[i];
  if (!same)
    refuse(fmt::format("{} is {} {} with strides {}; the pipeline is for {} {} with strides {}",
                       name, to_string(view.dtype()), to_string(view.extents()),
                       to_string(view.strides()), to_string(dtype), to_string(extents),
                       to_string(strides)));
  if (view.device() != host)
    refuse(fmt::format("{} is on {}; expected host memory", name, to_string(view.device())));
  if (!view.data() && element_count(extents) > 0)
    refuse(fmt::format("{} has no data (a null pointer)", name));
  return View(given.data(), dtype, extents, host, strides);
}

/// A tensor that is there where an option says so; empty where it is not to be.
template <class View>
View checked_option(const View& given, const char* name, DType dtype, const Extents& extents,
                    const Strides& strides, bool expected, const char* option) {
  if (expected) return checked_view(given, name, dtype, extents, strides);
  if (!given.empty())
    refuse(fmt::format("a {} is given; it was planned without ({})", name, option));
  return {};
}

/// The mask lies as it likes, but for what is asked of a batch.
ConstTensorView checked_mask(const ConstTensorView& given, const ConvProblem& problem,
                             bool expected) {
  const Extents extents = problem.y_extents();
  Strides strides = problem.y_strides;
  const ConstTensorView mask = view_of_rank(given, extents);
  if (expected && mask.extents() == extents)
    strides = batch_strides("mask", extents, mask.strides());
  return checked_option(given, "mask", problem.dtype, extents, strides, expected,
                        "ConvOptions::relu_mask");
}

}  // namespace

ConvProblem pipeline_problem(ConvProblem problem, const PipelineOptions& pipeline) {
  if (pipeline.streams < 1) refuse(fmt::format("{} streams; expected 1 or more", pipeline.streams));
  if (pipeline.images_per_segment < 0)
    refuse(fmt::format("{} images per segment; expected 1 or more, or 0",
                       pipeline.images_per_segment));
  problem = check(std::move(problem));
  const bool of_data = problem.direction == Direction::backward_data,
             of_weights = problem.direction == Direction::backward_weights;
  problem.x_strides = batch_strides(of_data ? "dx" : "x", problem.x_extents(), problem.x_strides);
  problem.y_strides =
      batch_strides(of_data || of_weights ? "dy" : "y", problem.y_extents(), problem.y_strides);
  if (!has_no_gaps(problem.w_extents(), problem.w_strides, 0))
    refuse(fmt::format("{} {} has strides {}; expected filters without gaps",
                       of_weights ? "dw" : "w", to_string(problem.w_extents()),
                       to_string(problem.w_strides)));
  return problem;
}

PipelineTensors pipeline_tensors(const ConvTensors& tensors, const ConvProblem& problem,
                                 const ConvOptions& options) {
  const bool weights = problem.direction == Direction::backward_weights;
  const ConvOperand image = image_of(problem), filters = filters_of(problem),
                    output = output_of(problem);
  const auto view = [&](const auto& given, const ConvOperand& part) {
    return checked_view(given, part.name, problem.dtype, part.extents, part.strides);
  };
  const Extents channels{bias_elements(problem)};
  PipelineTensors checked;
  checked.all = {.x = view(tensors.x, image),
                 .w = view(tensors.w, filters),
                 .bias = checked_option(tensors.bias, "bias", problem.dtype, channels, {1},
                                        options.bias && !weights, "ConvOptions::bias"),
                 .y = view(tensors.y, output),
                 .mask = checked_mask(tensors.mask, problem, options.relu_mask),
                 .db = checked_option(tensors.db, "db", problem.dtype, channels, {1},
                                      options.bias && weights, "ConvOptions::bias")};
  refuse_overlaps("pipeline", problem, checked.all);
  checked.inputs = {checked.all.x, weights ? checked.all.w : ConstTensorView(), checked.all.mask};
  if (!weights) checked.output = checked.all.y;
  return checked;
}

std::size_t bytes_of(const ConstTensorView& view) {
  return static_cast<std::size_t>(element_count(view.extents())) * size_in_bytes(view.dtype());
}

}  // namespace plumb
