// Choosing an algorithm, and running it: everything that is not the kernel's business.
#include <fmt/format.h>

#include <algorithm>

#include "environment.hpp"
#include "plan_cache.hpp"
#include "plumb/backend.hpp"
#include "plumb/conv.hpp"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"
#include "plumb/tune.hpp"

namespace plumb {
namespace {

Support refuse(Reason reason, std::string sentence) { return {reason, std::move(sentence)}; }

/// The algorithm's own answer, then what the caller's options rule out.
Support supports(const ConvAlgorithm& algorithm, const ConvProblem& problem,
                 const ConvOptions& options, const DeviceInfo& device) {
  if (problem.direction != Direction::forward)
    return refuse(Reason::direction, "a backward convolution; expected forward");
  const bool forced = options.algorithm == algorithm.name;
  // First, because such an algorithm may have to search before it can say anything.
  if (algorithm.forced_only && options.algorithm.empty())
    return refuse(Reason::forced_only, "runs only when it is asked for by name");
  if (algorithm.forced_only && !forced)
    return refuse(Reason::not_forced, fmt::format("{} is forced", options.algorithm));
  if (const Support own = algorithm.supports(problem, device); !own) return own;
  if (!options.algorithm.empty() && !forced)
    return refuse(Reason::not_forced, fmt::format("{} is forced", options.algorithm));
  const Math offered = math_class(algorithm.numerics, problem.dtype);
  if (!allows(options.math, offered))
    return refuse(Reason::math, fmt::format("computes in {}; {} is asked for", to_string(offered),
                                            to_string(options.math)));
  if (options.deterministic && !algorithm.numerics.deterministic)
    return refuse(Reason::not_deterministic, "its results vary from run to run");
  const std::size_t bytes = algorithm.workspace_bytes(problem, device);
  if (bytes > options.workspace_limit_bytes)
    return refuse(Reason::workspace_limit,
                  fmt::format("needs {} bytes of workspace; at most {} are allowed", bytes,
                              options.workspace_limit_bytes));
  return {};
}

/// What is asked for from outside stands in for what the caller left open.
ConvOptions with_environment(ConvOptions options) {
  if (options.algorithm.empty()) options.algorithm = environment("PLUMB_CONV_ALGORITHM");
  return options;
}

/// The seconds to choose by. Times count only where every algorithm that these options leave has
/// one: an estimate and a time are not to be compared, and what was not timed might have won.
void mark_chosen(std::vector<ConvCandidate>& all) {
  constexpr double none = std::numeric_limits<double>::infinity();
  const auto measured = [&](const ConvCandidate& c) { return c.measured_seconds.value_or(none); };
  bool every_one = true, any_ran = false;
  for (const ConvCandidate& candidate : all) {
    if (!candidate.support) continue;
    every_one = every_one && candidate.measured_seconds;
    any_ran = any_ran || measured(candidate) < none;
  }
  const bool tuned = every_one && any_ran;
  const auto seconds = [&](const ConvCandidate& candidate) {
    return tuned ? measured(candidate) : candidate.estimate_seconds;
  };
  // min_element takes the first of equals: the backend's order decides between them.
  const auto best = std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return static_cast<bool>(a.support) && (!b.support || seconds(a) < seconds(b));
  });
  if (best != all.end() && best->support) best->chosen = true;
}

std::optional<double> time_of(const TunedTimes& tuned, std::string_view algorithm) {
  for (const TunedTime& time : tuned.times)
    if (time.algorithm == algorithm) return time.seconds;
  return std::nullopt;
}

std::vector<ConvCandidate> candidates(const Device& device, const ConvProblem& problem,
                                      const ConvOptions& options) {
  const TunedTimes tuned = tuned_times(device, problem);
  std::vector<ConvCandidate> all;
  const DeviceInfo& info = device.info();
  for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
    ConvCandidate candidate{.algorithm = algorithm->name,
                            .support = supports(*algorithm, problem, options, info),
                            .error_class = math_class(algorithm->numerics, problem.dtype),
                            .deterministic = algorithm->numerics.deterministic};
    if (candidate.support) {
      candidate.estimate_seconds = algorithm->estimate_seconds(problem, info);
      candidate.workspace_bytes = algorithm->workspace_bytes(problem, info);
      candidate.measured_seconds = time_of(tuned, algorithm->name);
    }
    all.push_back(std::move(candidate));
  }
  mark_chosen(all);
  return all;
}

/// The time from tuning, or why there is none.
std::string time_text(const ConvCandidate& candidate, const TunedTimes& tuned) {
  if (candidate.measured_seconds) return fmt::format("{:.3g} s tuned", *candidate.measured_seconds);
  return tuned.sentence.empty() ? "not among those tuned" : tuned.sentence;
}

std::shared_ptr<const PlannedConv> choose(const Device& device, const ConvProblem& problem,
                                          const ConvOptions& options) {
  const auto all = candidates(device, problem, options);
  const auto chosen = std::find_if(all.begin(), all.end(), [](const auto& c) { return c.chosen; });
  const auto algorithms = conv_algorithms(device);
  if (chosen == all.end()) {
    std::string message = fmt::format("no algorithm of {} runs {} in {}", to_string(device.id()),
                                      to_string(problem), to_string(problem.dtype));
    const bool known = options.algorithm.empty() ||
                       std::any_of(all.begin(), all.end(), [&](const auto& candidate) {
                         return candidate.algorithm == options.algorithm;
                       });
    if (!known) message += fmt::format("; there is no '{}' among them", options.algorithm);
    for (const ConvCandidate& candidate : all)
      if (known && candidate.support.reason != Reason::not_forced)
        message += fmt::format("; {}: {} ({})", candidate.algorithm, candidate.support.sentence,
                               to_string(candidate.support.reason));
    throw Error(ErrorCode::unsupported, message);
  }
  const ConvAlgorithm* algorithm = algorithms[static_cast<std::size_t>(chosen - all.begin())];
  if (device.logs())
    device.log(fmt::format(
        "{} on {}: {}, {:.3g} s estimated, {}, {} bytes of workspace", to_string(problem),
        to_string(device.id()), algorithm->name, chosen->estimate_seconds,
        time_text(*chosen, tuned_times(device, problem)), chosen->workspace_bytes));
  return std::make_shared<PlannedConv>(
      PlannedConv{problem, options, algorithm, chosen->workspace_bytes});
}

/// Strides along extents of one have no say.
bool same_strides(const Extents& extents, const Strides& a, const Strides& b) {
  for (int i = 0; i < extents.rank(); ++i)
    if (extents[i] > 1 && a[i] != b[i]) return false;
  return true;
}

void check_view(const ConstTensorView& view, const char* name, DType dtype, const Extents& extents,
                const Strides& strides, const DeviceId& device) {
  const auto wrong = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, fmt::format("convolution: {} {}", name, what));
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

std::span<const ConvAlgorithm* const> conv_algorithms(const Device& device) {
  return load_backend(device.id().backend).backend->conv_algorithms();
}

ConvPlan::ConvPlan(const Device& device, const ConvProblem& problem, const ConvOptions& options)
    : device_(device), planned_(choose(device, check(problem), with_environment(options))) {}

ConvPlan::ConvPlan(const Device& device, std::shared_ptr<const PlannedConv> planned)
    : device_(device), planned_(std::move(planned)) {}

const ConvProblem& ConvPlan::problem() const { return planned_->problem; }
const ConvOptions& ConvPlan::options() const { return planned_->options; }
const ConvAlgorithm& ConvPlan::algorithm() const { return *planned_->algorithm; }
std::size_t ConvPlan::workspace_bytes() const { return planned_->workspace_bytes; }
std::vector<ConvCandidate> ConvPlan::explain() const {
  return candidates(device_, planned_->problem, planned_->options);
}

std::vector<ConvCandidate> explain(const Device& device, const ConvProblem& problem,
                                   const ConvOptions& options) {
  return candidates(device, check(problem), with_environment(options));
}

void ConvPlan::execute(Queue& queue, const ConvTensors& tensors, void* workspace) const {
  const ConvProblem& problem = planned_->problem;
  const DeviceId& device = device_.id();
  if (queue.device().id() != device)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("convolution: the queue is on {}; the plan is for {}",
                            to_string(queue.device().id()), to_string(device)));
  check_view(tensors.x, "x", problem.dtype, problem.x_extents(), problem.x_strides, device);
  check_view(tensors.w, "w", problem.dtype, problem.w_extents(), problem.w_strides, device);
  check_view(tensors.y, "y", problem.dtype, problem.y_extents(), problem.y_strides, device);
  if (planned_->options.bias)
    check_view(tensors.bias, "bias", problem.dtype, {problem.k}, {1}, device);
  else if (!tensors.bias.empty())
    throw Error(ErrorCode::invalid_argument,
                "convolution: a bias is given; the plan was made without (ConvOptions::bias)");
  if (problem.n == 0) return;

  const std::size_t bytes = planned_->workspace_bytes;
  if (workspace && reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("convolution: the workspace lies at {}; expected a multiple of 256",
                            workspace));
  if (bytes > 0 && !workspace) workspace = queue.workspace(bytes);
  queue.backend().conv(*planned_->algorithm, {.problem = problem,
                                              .device = device_.info(),
                                              .x = tensors.x.data(),
                                              .w = tensors.w.data(),
                                              .bias = tensors.bias.data(),
                                              .y = tensors.y.data(),
                                              .activation = planned_->options.activation,
                                              .workspace = workspace,
                                              .native_queue = queue.native()});
  if (environment_flag("PLUMB_SYNC")) queue.synchronize();
}

ConvProblem problem_of(const ConvTensors& tensors, const ConvGeometry& geometry) {
  const auto refuse_argument = [](const std::string& message) {
    throw Error(ErrorCode::invalid_argument, "convolution: " + message);
  };
  const auto rank_four = [&](const ConstTensorView& view, const char* name, const char* letters) {
    if (view.rank() != 4)
      refuse_argument(fmt::format("{} has extents {}; expected four, {}", name,
                                  to_string(view.extents()), letters));
  };
  const ConstTensorView &x = tensors.x, &w = tensors.w, y = tensors.y;
  rank_four(x, "x", "N C H W");
  rank_four(w, "w", "K C/G R S");
  rank_four(y, "y", "N K P Q");
  if (w.dtype() != x.dtype() || y.dtype() != x.dtype())
    refuse_argument(fmt::format("x is {}, w {}, y {}; expected one dtype", to_string(x.dtype()),
                                to_string(w.dtype()), to_string(y.dtype())));
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
  problem.y_strides = y.strides();
  problem = check(problem);
  if (w.extents() != problem.w_extents())
    refuse_argument(fmt::format("w is {}; expected {} for x {} in {} groups",
                                to_string(w.extents()), to_string(problem.w_extents()),
                                to_string(x.extents()), problem.groups));
  if (y.extents() != problem.y_extents())
    refuse_argument(fmt::format("y is {}; expected {}", to_string(y.extents()),
                                to_string(problem.y_extents())));
  return problem;
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
