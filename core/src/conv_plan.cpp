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

void check_view(const ConstTensorView& given, const char* name, DType dtype, const Extents& extents,
                const Strides& strides, const DeviceId& device) {
  const ConstTensorView view = view_of_rank(given, extents);
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

/// What the indices of the tensors of a rank are.
struct Letters {
  const char *x, *w, *y;
};
Letters letters(int rank) {
  if (rank == 3) return {"N, C, W", "K, C/G, S", "N, K, Q"};
  if (rank == 5) return {"N, C, D, H, W", "K, C/G, T, R, S", "N, K, Z, P, Q"};
  return {"N, C, H, W", "K, C/G, R, S", "N, K, P, Q"};
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
  Extents expected = w;
  expected[1] = whole ? c / groups : per_group;
  refuse(fmt::format("w is {} ({}), x is {} ({}), groups is {}{}{}", to_string(w),
                     letters(w.rank()).w, to_string(x), letters(x.rank()).x, groups,
                     whole ? "; expected w to be " + to_string(expected) : "",
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
                                         .accumulate = planned_->options.accumulate,
                                         .workspace = workspace,
                                         .native_queue = queue.native()});
  if (environment_flag("PLUMB_SYNC")) queue.synchronize();
}

namespace {

void check_ranks(const ConvTensors& tensors) {
  const int rank = tensors.x.rank();
  if (rank < 3 || rank > 5)
    refuse(fmt::format("x has extents {}; expected three to five: N C W, N C H W or N C D H W",
                       to_string(tensors.x.extents())));
  const auto of_rank = [&](const Extents& extents, const char* name, const char* indices) {
    if (extents.rank() != rank)
      refuse(fmt::format("{} has extents {}; expected {} as x of {}: {}", name, to_string(extents),
                         rank, to_string(tensors.x.extents()), indices));
  };
  of_rank(tensors.w.extents(), "w", letters(rank).w);
  if (!tensors.y.empty()) of_rank(tensors.y.extents(), "y", letters(rank).y);
}

void check_dtypes(const ConvTensors& tensors) {
  const ConstTensorView &x = tensors.x, &w = tensors.w, y = tensors.y;
  if (w.dtype() != x.dtype() || (!y.empty() && y.dtype() != x.dtype()))
    refuse(fmt::format("x is {}, w {}{}; expected one dtype", to_string(x.dtype()),
                       to_string(w.dtype()),
                       y.empty() ? "" : fmt::format(", y {}", to_string(y.dtype()))));
}

/// What the geometry says of axes that tensors of this rank do not have is for others.
ConvGeometry along_axes(ConvGeometry geometry, int rank) {
  if (rank == 3) {
    geometry.stride.h = geometry.dilation.h = 1;
    geometry.padding.top = geometry.padding.bottom = 0;
  }
  return geometry;
}

/// A problem without a depth drops its padding, which would make planes of the bias alone.
void check_depth(const ConvProblem& problem, int rank) {
  const std::int64_t front = problem.padding.front, back = problem.padding.back;
  if (rank == 5 && !problem.has_depth() && (front != 0 || back != 0))
    refuse(
        fmt::format("D and T are 1, padded by {} and {}; expected no padding along a depth of "
                    "one plane and one tap",
                    front, back));
}

}  // namespace

ConvProblem problem_of(const ConvTensors& tensors, const ConvGeometry& geometry) {
  check_ranks(tensors);
  check_dtypes(tensors);
  const ConstTensorView &x = tensors.x, &w = tensors.w, y = tensors.y;
  check_channels(x.extents(), w.extents(), geometry.groups);
  const ConstTensorView image = with_all_axes(x), filter = with_all_axes(w);
  ConvProblem problem;
  static_cast<ConvGeometry&>(problem) = along_axes(geometry, x.rank());
  problem.dtype = x.dtype();
  problem.n = image.extent(0);
  problem.c = image.extent(1);
  problem.d = image.extent(2);
  problem.h = image.extent(3);
  problem.w = image.extent(4);
  problem.k = filter.extent(0);
  problem.t = filter.extent(2);
  problem.r = filter.extent(3);
  problem.s = filter.extent(4);
  problem.x_strides = image.strides();
  problem.w_strides = filter.strides();
  check_depth(problem, x.rank());
  problem = check(problem);
  if (y.empty()) return problem;
  const ConstTensorView output = view_of_rank(y, problem.y_extents());
  if (output.extents() != problem.y_extents())
    refuse(fmt::format("y is {}; expected {}", to_string(y.extents()),
                       to_string(problem.y_extents())));
  problem.y_strides = output.strides();
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
