// Filters packed once: for an algorithm with a layout of its own in that layout, otherwise a copy.
//
// The copy has w's strides, so that the algorithm, which was asked about those, runs as it would
// have run on w. The caller is then as free to change or free w as after any other packing,
// whichever algorithm was chosen.
#include "packed_filters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "owned_memory.hpp"
#include "plan_cache.hpp"
#include "plumb/backend.hpp"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"
#include "span.hpp"

namespace plumb {
namespace {

/// Calls `visit(first, count)` for runs of neighbours that between them are the elements of a
/// tensor and nothing else; `first` counts from the lowest address. It is one run where there are
/// no gaps, in whatever order the dimensions lie.
template <class Visit>
void for_each_run(const Extents& extents, const Strides& strides, const Visit& visit) {
  struct Step {
    std::int64_t stride, extent, index = 0;
  };
  std::vector<Step> steps;
  for (int i = 0; i < extents.rank(); ++i)
    if (extents[i] > 1 && strides[i] != 0) steps.push_back({std::abs(strides[i]), extents[i]});
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.stride < b.stride; });
  // What steps to the end of a run, or back into it, makes it longer.
  std::int64_t run = 1;
  auto outer = steps.begin();
  for (; outer != steps.end() && outer->stride <= run; ++outer)
    run += (outer->extent - 1) * outer->stride;
  for (std::int64_t first = 0;;) {
    visit(first, run);
    auto step = outer;
    for (; step != steps.end(); ++step) {
      first += step->stride;
      if (++step->index < step->extent) break;
      first -= step->extent * step->stride;
      step->index = 0;
    }
    if (step == steps.end()) return;
  }
}

/// Elements alone: what lies in gaps is another's.
void copy_elements(BackendQueue& queue, const ConstTensorView& from, std::byte* to_lowest) {
  const auto element = static_cast<std::int64_t>(size_in_bytes(from.dtype()));
  const auto* const from_lowest = static_cast<const std::byte*>(from.data()) -
                                  span_of(from.extents(), from.strides()).below * element;
  for_each_run(from.extents(), from.strides(), [&](std::int64_t first, std::int64_t count) {
    queue.copy(to_lowest + first * element, from_lowest + first * element,
               static_cast<std::size_t>(count * element));
  });
}

bool same_but_for_n(const ConvProblem& a, ConvProblem b) {
  b.n = a.n;
  return a == b;
}

}  // namespace

std::size_t PackedFilters::bytes() const { return storage_ ? storage_->bytes : 0; }

std::shared_ptr<const FilterStorage> pack_filters(Queue& queue, const ConvRun& run,
                                                  const ConstTensorView& w) {
  if (queue.backend().is_capturing())
    throw Error(ErrorCode::unsupported,
                "convolution: packing filters takes memory, which a stream that is being captured "
                "cannot; expected them to be packed before the capture begins");
  const Device& device = queue.device();
  const Span span = span_of(w.extents(), w.strides());
  const std::size_t element = size_in_bytes(w.dtype());
  const bool own_layout = run.filter_bytes() > 0;
  const std::size_t bytes =
      own_layout ? run.filter_bytes() : static_cast<std::size_t>(span.elements) * element;
  const std::shared_ptr<void> memory = owned_memory(device, bytes, Memory::device);
  auto* const lowest = static_cast<std::byte*>(memory.get());
  if (own_layout)
    run.pack(queue.backend(), device.info(), w.data(), lowest);
  else
    copy_elements(queue.backend(), w, lowest);
  return std::make_shared<FilterStorage>(FilterStorage{
      .algorithm = &run.algorithm(),
      .device = device.id(),
      .instruction_set = device.info().instruction_set,
      .problem = run.launched(),
      .phases = run.phases_text(),
      .reproducible = run.reproducible(),
      .bytes = bytes,
      .memory = memory,
      .filters = own_layout ? lowest : nullptr,
      .w = own_layout ? nullptr : lowest + static_cast<std::size_t>(span.below) * element});
}

std::string misfit(const FilterStorage* filters, const Device& device, const ConvRun& run) {
  if (!filters) return "no filters are given; expected what ConvPlan::pack() makes";
  const auto differ = [](const std::string& packed, const std::string& planned) {
    return fmt::format("the filters were packed for {}; the plan is for {}", packed, planned);
  };
  if (filters->device != device.id())
    return differ(to_string(filters->device), to_string(device.id()));
  // What a layout is may depend on it, and on a CPU it may be lowered from outside.
  if (filters->instruction_set != device.info().instruction_set)
    return differ(filters->instruction_set, device.info().instruction_set);
  if (filters->algorithm != &run.algorithm())
    return differ(std::string(filters->algorithm->name), std::string(run.algorithm().name));
  const bool same_planes = filters->reproducible == run.reproducible();
  if (!same_planes && run.has_depth())
    return run.reproducible() ? differ("any order of sums", "the reproducible one")
                              : differ("the reproducible order of sums", "any");
  if (same_but_for_n(filters->problem, run.launched()))
    return filters->phases == run.phases_text() ? std::string()
                                                : differ(filters->phases, run.phases_text());
  const auto text = [](const ConvProblem& problem) {
    return fmt::format("{} in {} with strides {}, {} and {}", to_string(problem),
                       to_string(problem.dtype), to_string(problem.x_strides),
                       to_string(problem.w_strides), to_string(problem.y_strides));
  };
  return differ(text(filters->problem), text(run.launched())) + "; N alone may differ";
}

}  // namespace plumb
