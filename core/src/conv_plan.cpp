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
#include "sizes.hpp"

namespace plumb {
namespace {

constexpr const char* operation = "convolution";

[[noreturn]] void refuse(const std::string& message) { refuse_argument(operation, message); }

/// Strides along extents of one have no say.
bool same_strides(const Extents& extents, const Strides& a, const Strides& b) {
  for (int i = 0; i < extents.rank(); ++i)
    if (extents[i] > 1 && a[i] != b[i]) return false;
  return true;
}

void check_view(const ConstTensorView& view, const char* name, DType dtype, const Extents& extents,
                const Strides& strides, const DeviceId& device) {
  const auto wrong = [&](const std::string& what) { refuse(fmt::format("{} {}", name, what)); };
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

/// Refuses a w whose channels are not C/G, with the number of groups that would fit. What makes no
/// sense by itself is left to check().
void check_channels(const Extents& x, const Extents& w, std::int64_t groups) {
  const std::int64_t c = x[1], per_group = w[1];
  if (groups < 1 || c < 1 || per_group < 1) return;
  const bool whole = c % groups == 0;
  if (whole && c / groups == per_group) return;
  const std::int64_t fitting = c % per_group == 0 ? c / per_group : 0;
  const bool fits = fitting > 0 && w[0] % fitting == 0;
  if (!whole && !fits) return;
  refuse(fmt::format(
      "w is {} (K, C/G, R, S), x is {} (N, C, H, W), groups is {}{}{}", to_string(w), to_string(x),
      groups, whole ? "; expected w to be " + to_string(Extents{w[0], c / groups, w[2], w[3]}) : "",
      fits ? fmt::format("; groups={} would fit", fitting) : ""));
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
    refuse(fmt::format("the queue is on {}; the plan is for {}", to_string(queue.device().id()),
                       to_string(device_.id())));
}

void ConvPlan::check_tensors(const ConvTensors& tensors) const {
  const ConvProblem& problem = planned_->problem;
  const DeviceId& device = device_.id();
  check_view(tensors.x, "x", problem.dtype, problem.x_extents(), problem.x_strides, device);
  check_view(tensors.y, "y", problem.dtype, problem.y_extents(), problem.y_strides, device);
  if (planned_->options.bias)
    check_view(tensors.bias, "bias", problem.dtype, {problem.k}, {1}, device);
  else if (!tensors.bias.empty())
    refuse("a bias is given; the plan was made without (ConvOptions::bias)");
}

void ConvPlan::check_filters(const ConstTensorView& w) const {
  const ConvProblem& problem = planned_->problem;
  check_view(w, "w", problem.dtype, problem.w_extents(), problem.w_strides, device_.id());
}

void ConvPlan::execute(Queue& queue, const ConvTensors& tensors, void* workspace) const {
  check_queue(queue);
  check_filters(tensors.w);
  check_tensors(tensors);
  launch(queue, tensors, tensors.w.data(), nullptr, workspace_bytes(), workspace);
}

PackedFilters ConvPlan::pack(Queue& queue, const ConstTensorView& w) const {
  check_queue(queue);
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
    refuse(wrong);
  if (!tensors.w.empty()) refuse("w is given beside packed filters; expected one of them");
  check_tensors(tensors);
  launch(queue, tensors, storage->w, storage->filters, packed_workspace_bytes(), workspace);
}

/// Of what has been checked.
void ConvPlan::launch(Queue& queue, const ConvTensors& tensors, const void* w, const void* filters,
                      std::size_t workspace_bytes, void* workspace) const {
  if (planned_->problem.n == 0) return;
  if (workspace && reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0)
    refuse(fmt::format("the workspace lies at {}; expected a multiple of 256", workspace));
  const ConvRanges& ranges = planned_->ranges;
  if (y_meets_input(tensors, ranges)) refuse_overlaps(operation, tensors);
  if (workspace_bytes > 0) {
    if (!workspace) workspace = queue.workspace(workspace_bytes);
    if (workspace_meets_tensor(tensors, ranges, workspace, workspace_bytes))
      refuse_workspace_overlaps(operation, tensors, workspace, workspace_bytes);
  }
  planned_->run.launch(queue.backend(), {.problem = planned_->problem,
                                         .device = device_.info(),
                                         .x = tensors.x.data(),
                                         .w = w,
                                         .filters = filters,
                                         .bias = tensors.bias.data(),
                                         .y = tensors.y.data(),
                                         .activation = planned_->options.activation,
                                         .workspace = workspace,
                                         .native_queue = queue.native()});
  if (environment_flag("PLUMB_SYNC")) queue.synchronize();
}

ConvProblem problem_of(const ConvTensors& tensors, const ConvGeometry& geometry) {
  const auto rank_four = [&](const ConstTensorView& view, const char* name, const char* letters) {
    if (view.rank() != 4)
      refuse(fmt::format("{} has extents {}; expected four, {}", name, to_string(view.extents()),
                         letters));
  };
  const ConstTensorView &x = tensors.x, &w = tensors.w, y = tensors.y;
  rank_four(x, "x", "N C H W");
  rank_four(w, "w", "K C/G R S");
  if (!y.empty()) rank_four(y, "y", "N K P Q");
  if (w.dtype() != x.dtype() || (!y.empty() && y.dtype() != x.dtype()))
    refuse(fmt::format("x is {}, w {}{}; expected one dtype", to_string(x.dtype()),
                       to_string(w.dtype()),
                       y.empty() ? "" : fmt::format(", y {}", to_string(y.dtype()))));
  check_channels(x.extents(), w.extents(), geometry.groups);
  ConvProblem problem;
  static_cast<ConvGeometry&>(problem) = geometry;
  problem.dtype = x.dtype();
  problem.n = x.extent(0);
  problem.c = x.extent(1);
  problem.h = x.extent(2);
  problem.w = x.extent(3);
  problem.k = w.extent(0);
  problem.r = w.extent(2);
  problem.s = w.extent(3);
  problem.x_strides = x.strides();
  problem.w_strides = w.strides();
  problem = check(problem);
  if (y.empty()) return problem;
  if (y.extents() != problem.y_extents())
    refuse(fmt::format("y is {}; expected {}", to_string(y.extents()),
                       to_string(problem.y_extents())));
  problem.y_strides = y.strides();
  return check(problem);
}

void conv(Queue& queue, const ConvTensors& tensors, const ConvGeometry& geometry,
          ConvOptions options) {
  options.bias = !tensors.bias.empty();
  options = with_environment(std::move(options));
  const ConvProblem problem = problem_of(tensors, geometry);
  PlanCache& cache = queue.device().plans();
  auto planned = cache.find(problem, options);
  if (!planned) {
    planned = choose(queue.device(), problem, options);
    cache.insert(planned);
  }
  ConvPlan(queue.device(), std::move(planned)).execute(queue, tensors);
}

}  // namespace plumb
