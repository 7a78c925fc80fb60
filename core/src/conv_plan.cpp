// Plans: what is checked before a convolution runs, and what is put on the queue.
#include <fmt/format.h>

#include "conv_choice.hpp"
#include "environment.hpp"
#include "overlap.hpp"
#include "packed_filters.hpp"
#include "plan_cache.hpp"
#include "plumb/backend.hpp"
#include "plumb/conv.hpp"
#include "plumb/error.hpp"
#include "ranks.hpp"
#include "refuse_convolution.hpp"
#include "sizes.hpp"

namespace plumb {
namespace {

/// Strides along extents of one have no say.
bool same_strides(const Extents& extents, const Strides& a, const Strides& b) {
  for (int i = 0; i < extents.rank(); ++i)
    if (extents[i] > 1 && a[i] != b[i]) return false;
  return true;
}

/// The mask's strides in the rank of the problem's y; none where there is no mask.
Strides mask_strides(const ConvTensors& tensors, const ConvProblem& problem) {
  if (tensors.mask.empty()) return {};
  return view_of_rank(tensors.mask, problem.y_extents()).strides();
}

void check_view(const ConstTensorView& given, std::string_view name, DType dtype,
                const Extents& extents, const Strides& strides, const DeviceId& device) {
  const ConstTensorView view = view_of_rank(given, extents);
  const auto wrong = [&](const std::string& what) {
    refuse_convolution(fmt::format("{} {}", name, what));
  };
  if (view.empty()) wrong(fmt::format("is missing; expected {}", to_string(extents)));
  if (view.dtype() != dtype)
    wrong(fmt::format("is {}; the plan is for {}", to_string(view.dtype()), to_string(dtype)));
  if (view.extents() != extents || !same_strides(extents, view.strides(), strides))
    wrong(fmt::format("is {} with strides {}; the plan is for {} with strides {}",
                      to_string(view.extents()), to_string(view.strides()), to_string(extents),
                      to_string(strides)));
  if (view.device() != device)
    wrong(fmt::format("is on {}; the queue is on {} (use plumb::copy)", to_string(view.device()),
                      to_string(device)));
  if (!view.data() && element_count(extents) > 0) wrong("has no data (a null pointer)");
}

}  // namespace

ConvPlan::ConvPlan(const Device& device, const ConvProblem& problem, const ConvOptions& options)
    : device_(device), planned_(choose(device, check(problem), with_environment(options))) {}

ConvPlan::ConvPlan(const Device& device, std::shared_ptr<const PlannedConv> planned)
    : device_(device), planned_(std::move(planned)) {}

const ConvProblem& ConvPlan::problem() const { return planned_->problem; }
const ConvOptions& ConvPlan::options() const { return planned_->options; }
const ConvAlgorithm& ConvPlan::algorithm() const { return planned_->run.algorithm(); }
std::size_t ConvPlan::workspace_bytes() const { return planned_->run.workspace_bytes(); }
bool ConvPlan::packs_filters() const { return planned_->run.filter_bytes() > 0; }
std::size_t ConvPlan::packed_workspace_bytes() const {
  return planned_->run.packed_workspace_bytes();
}
std::vector<ConvCandidate> ConvPlan::explain() const {
  return candidates(device_, planned_->problem, planned_->options);
}

void ConvPlan::check_queue(const Queue& queue) const {
  if (queue.device().id() != device_.id())
    refuse_convolution(fmt::format("the queue is on {}; the plan is for {}",
                                   to_string(queue.device().id()), to_string(device_.id())));
}

void ConvPlan::check_tensors(const ConvTensors& tensors) const {
  const ConvProblem& problem = planned_->problem;
  const DeviceId& device = device_.id();
  const ConvOperand image = image_of(problem), output = output_of(problem);
  check_view(tensors.x, image.name, problem.dtype, image.extents, image.strides, device);
  check_view(tensors.y, output.name, problem.dtype, output.extents, output.strides, device);
  const bool weights = problem.direction == Direction::backward_weights;
  check_option(tensors.bias, "bias", planned_->options.bias && !weights, {bias_elements(problem)},
               {1}, "ConvOptions::bias");
  check_option(tensors.db, "db", planned_->options.bias && weights, {problem.k}, {1},
               "ConvOptions::bias");
  check_option(tensors.mask, "mask", planned_->options.relu_mask, problem.y_extents(),
               mask_strides(tensors, problem), "ConvOptions::relu_mask");
}

/// A tensor that is there where an option says so.
void ConvPlan::check_option(const ConstTensorView& tensor, std::string_view name, bool expected,
                            const Extents& extents, const Strides& strides,
                            std::string_view option) const {
  if (expected)
    return check_view(tensor, name, planned_->problem.dtype, extents, strides, device_.id());
  if (!tensor.empty())
    refuse_convolution(fmt::format("a {} is given; the plan was made without ({})", name, option));
}

void ConvPlan::check_filters(const ConstTensorView& w) const {
  const ConvProblem& problem = planned_->problem;
  const ConvOperand filters = filters_of(problem);
  check_view(w, filters.name, problem.dtype, filters.extents, filters.strides, device_.id());
}

void ConvPlan::execute(Queue& queue, const ConvTensors& tensors, void* workspace) const {
  check_queue(queue);
  check_filters(tensors.w);
  check_tensors(tensors);
  launch(queue, tensors, tensors.w.data(), nullptr, workspace_bytes(), workspace);
}

PackedFilters ConvPlan::pack(Queue& queue, const ConstTensorView& w) const {
  check_queue(queue);
  if (planned_->problem.direction == Direction::backward_weights)
    throw Error(ErrorCode::unsupported,
                "convolution: backward weights has no filters to pack; expected another direction");
  check_filters(w);
  PackedFilters packed(pack_filters(queue, planned_->run, w));
  if (environment_flag("PLUMB_SYNC")) queue.synchronize();
  return packed;
}

bool ConvPlan::takes(const PackedFilters& filters) const {
  return misfit(filters.storage_.get(), device_, planned_->run).empty();
}

void ConvPlan::execute(Queue& queue, const PackedFilters& filters, const ConvTensors& tensors,
                       void* workspace) const {
  check_queue(queue);
  const FilterStorage* const storage = filters.storage_.get();
  if (const std::string wrong = misfit(storage, device_, planned_->run); !wrong.empty())
    refuse_convolution(wrong);
  if (!tensors.w.empty())
    refuse_convolution("w is given beside packed filters; expected one of them");
  check_tensors(tensors);
  launch(queue, tensors, storage->w, storage->filters, packed_workspace_bytes(), workspace);
}

/// Of what has been checked.
void ConvPlan::launch(Queue& queue, const ConvTensors& tensors, const void* w, const void* filters,
                      std::size_t workspace_bytes, void* workspace) const {
  const ConvProblem& problem = planned_->problem;
  // Weights' gradient of no images is zero.
  if (problem.n == 0 && problem.direction != Direction::backward_weights) return;
  if (workspace && reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0)
    refuse_convolution(
        fmt::format("the workspace lies at {}; expected a multiple of 256", workspace));
  const ConvRanges& ranges = planned_->ranges;
  if (output_meets_input(tensors, ranges)) refuse_overlaps(convolution_operation, problem, tensors);
  if (workspace_bytes > 0) {
    if (!workspace) workspace = queue.workspace(workspace_bytes);
    if (workspace_meets_tensor(tensors, ranges, workspace, workspace_bytes))
      refuse_workspace_overlaps(convolution_operation, problem, tensors, workspace,
                                workspace_bytes);
  }
  planned_->run.launch(queue.backend(), {.problem = planned_->problem,
                                         .device = device_.info(),
                                         .x = tensors.x.data(),
                                         .w = w,
                                         .filters = filters,
                                         .bias = tensors.bias.data(),
                                         .y = tensors.y.data(),
                                         .activation = planned_->options.activation,
                                         .accumulate = planned_->options.accumulate,
                                         .reproducible = planned_->options.reproducible,
                                         .workspace = workspace,
                                         .native_queue = queue.native(),
                                         .mask = tensors.mask.data(),
                                         .mask_strides = mask_strides(tensors, problem),
                                         .db = tensors.db.data()});
  if (environment_flag("PLUMB_SYNC")) queue.synchronize();
}

void run_conv(Queue& queue, const ConvProblem& problem, const ConvTensors& tensors,
              ConvOptions options);

/// What conv() and its like do with their problem.
void run_conv(Queue& queue, const ConvProblem& problem, const ConvTensors& tensors,
              ConvOptions options) {
  options.bias = !tensors.bias.empty() || !tensors.db.empty();
  options.relu_mask = !tensors.mask.empty();
  options = with_environment(std::move(options));
  PlanCache& cache = queue.device().plans();
  auto planned = cache.find(problem, options);
  if (!planned) {
    planned = choose(queue.device(), problem, options);
    cache.insert(planned);
  }
  ConvPlan(queue.device(), std::move(planned)).execute(queue, tensors);
}

void conv(Queue& queue, const ConvTensors& tensors, const ConvGeometry& geometry,
          ConvOptions options) {
  run_conv(queue, problem_of(tensors, geometry), tensors, std::move(options));
}

void conv_backward_data(Queue& queue, const BackwardDataTensors& tensors,
                        const ConvGeometry& geometry, ConvOptions options) {
  run_conv(queue, backward_data_problem(tensors, geometry), tensors, std::move(options));
}

void conv_backward_weights(Queue& queue, const BackwardWeightsTensors& tensors,
                           const ConvGeometry& geometry, ConvOptions options) {
  run_conv(queue, backward_weights_problem(tensors, geometry), tensors, std::move(options));
}

void conv_transpose(Queue& queue, const TransposedTensors& tensors, const ConvGeometry& geometry,
                    ConvOptions options) {
  run_conv(queue, transposed_problem(tensors, geometry), tensors, std::move(options));
}

}  // namespace plumb
