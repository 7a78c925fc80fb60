// How a field problem is cut into tiles: every shape of tile is rated, and the best one taken.
#include <algorithm>

#include "cuda_kernels/fields/field_cut.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/primitives/tiled_map.hpp"

namespace plumb::cuda {
namespace {

constexpr int column_taps_u[] = {3, 5, 7, 9};
constexpr int largest_queue_stage = 48 << 10;
constexpr int max_channels = 4;  // that are loaded together

class Planner {
 public:
  Planner(const FieldProblem& problem, int element_bytes, const FieldMachine& machine,
          const FieldChoice& choice)
      : view_(field_view(problem)), bytes_(element_bytes), machine_(machine), choice_(choice) {}

  std::optional<FieldPlan> best() {
    // Shared memory holds no filter near this; below it, no count here overflows.
    constexpr double max_taps = 1 << 20;
    if (max_taps < static_cast<double>(view_.u.taps) * view_.v.taps * view_.w.taps * view_.c)
      return {};
    const bool chosen = choice_.kernel && can(*choice_.kernel);
    if (chosen) try_all(*choice_.kernel);
    if (chosen) return best_;
    for (const FieldKernel kernel : {FieldKernel::line, FieldKernel::columns, FieldKernel::queue})
      if (can(kernel)) try_all(kernel);
    // The tile's model is fitted to large filters, and no measure of small ones: it is for what the
    // others cannot do at all, or columns are not compiled for.
    const bool compiled =
        best_ && (best_->kernel != FieldKernel::columns || view_.w.taps == 1 ||
                  column_taps(view_.u.taps, view_.v.taps, view_.w.taps, best_->outputs) > 0);
    for (const FieldKernel kernel : {FieldKernel::tile, FieldKernel::toeplitz})
      if (can(kernel) && (kernel == FieldKernel::toeplitz || !compiled)) try_all(kernel);
    return best_;
  }

 private:
  static bool is_free(int chosen, int value) { return chosen == 0 || chosen == value; }

  bool can(FieldKernel kernel) const { return takes(kernel) && keeps_order(kernel); }
  bool keeps_order(FieldKernel kernel) const {
    return !choice_.in_order ||
           sums_in_order(
               {.kernel = kernel, .view = view_, .in_order = kernel == FieldKernel::tile});
  }
  bool takes(FieldKernel kernel) const {
    const bool line = view_.u.taps == 1 && view_.v.taps == 1;
    const bool few = std::ranges::count(column_taps_u, view_.u.taps) > 0;
    const auto is_cut = [&](const QueueCut& cut) { return has_taps(cut); };
    switch (kernel) {
      case FieldKernel::line: return line;
      case FieldKernel::toeplitz: return bytes_ == 8 && view_.v.taps == 1 && view_.w.taps >= 8;
      case FieldKernel::queue:
        return std::ranges::any_of(queue_cuts, is_cut) && columns_fit_32_bits(view_);
      case FieldKernel::columns:
        return few && planes_fit_32_bits(view_) &&
               (view_.v.taps == 1 || (view_.v.taps == view_.u.taps && has_columns(4)));
      case FieldKernel::tile: break;
    }
    return !line || choice_.kernel == kernel;
  }
  bool has_taps(const QueueCut& cut) const {
    return cut.taps == view_.u.taps && cut.along_w() == view_.w.taps;
  }
  bool has_columns(int outputs) const {
    return has_column_outputs(bytes_, view_.u.taps, view_.v.taps > 1, outputs);
  }

  void try_all(FieldKernel kernel) {
    FieldPlan plan{.kernel = kernel, .view = view_, .element_bytes = bytes_};
    plan.in_order = choice_.in_order && kernel == FieldKernel::tile;
    if (kernel == FieldKernel::queue) return try_queues(plan);
    if (kernel == FieldKernel::line) return try_lines(plan);
    if (kernel != FieldKernel::columns) return try_threads(plan);
    for (const int outputs : {4, 8})
      if (has_columns(outputs) && is_free(choice_.outputs, outputs)) {
        plan.outputs = outputs;
        try_threads(plan);
      }
  }

  /// The line, for one filter with its channels one by one, and for more with a few at a time,
  /// which wait for memory once.
  void try_lines(FieldPlan plan) {
    for (int filters = 1; filters <= std::min(most_line_filters, view_.k); ++filters) {
      if (!is_free(choice_.filters, filters)) continue;
      plan.filters = filters;
      plan.channels = filters == 1 ? 1 : std::min(view_.c, max_channels);
      try_threads(plan);
    }
  }

  /// The queue's cuts that fit: filters are not many more than there are.
  void try_queues(FieldPlan plan) {
    for (const QueueCut& cut : queue_cuts) {
      const int number = static_cast<int>(&cut - queue_cuts) + 1;
      if (!has_taps(cut) || !is_free(choice_.queue_cut, number)) continue;
      if (cut.kept_rows > 0 && (view_.v.taps != cut.kept_rows || view_.c > 1)) continue;
      if (cut.filters > 1 && view_.k <= cut.filters / 2) continue;
      if (!is_compiled(cut, bytes_)) continue;
      plan.queue = cut, plan.filters = cut.filters;
      plan.boxes = choice_.boxes.value_or(true) && boxes_fit(view_, bytes_);
      for (int channels = 1; channels <= (plan.boxes ? std::min(view_.c, max_channels) : 1);
           ++channels) {
        if (view_.c % channels != 0 || !is_free(choice_.channels, channels)) continue;
        plan.channels = channels;
        try_threads(plan);
      }
    }
  }

  /// Whether a kernel may have a block of this shape.
  static bool has_block(FieldKernel kernel, int threads_w, int threads_v, int threads_u) {
    const bool toeplitz = kernel == FieldKernel::toeplitz;
    if (kernel != FieldKernel::tile && !toeplitz && threads_u > 1) return false;
    if (toeplitz && (threads_w != 32 || threads_v > 1)) return false;
    if (kernel == FieldKernel::columns && threads_w < 32) return false;
    if (kernel == FieldKernel::queue && threads_w > 32) return false;
    // A warp writes rows along one axis.
    return threads_v == 1 || threads_w * threads_v >= 32;
  }

  void try_threads(FieldPlan plan) {
    const bool small = plan.kernel == FieldKernel::queue || plan.kernel == FieldKernel::toeplitz;
    for (int threads = small ? 32 : 128; threads <= residence(plan).threads; threads *= 2)
      for (int threads_w = 8; threads_w <= threads; threads_w *= 2)
        for (int threads_v = 1; threads_w * threads_v <= threads; threads_v *= 2) {
          const int threads_u = threads / (threads_w * threads_v);
          if (!has_block(plan.kernel, threads_w, threads_v, threads_u) ||
              !is_free(choice_.threads, threads) || !is_free(choice_.threads_w, threads_w) ||
              !is_free(choice_.threads_v, threads_v))
            continue;
          plan.threads_w = threads_w, plan.threads_v = threads_v, plan.threads_u = threads_u;
          consider(plan);
        }
  }

  void consider(FieldPlan plan) {
    cut_tile(plan);
    count_shared(plan);
    if (plan.shared_bytes > shared_of_block) return;
    if (plan.kernel == FieldKernel::queue &&
        (plan.stage_bytes > largest_queue_stage || plan.rows > max_tiled_box))
      return;
    if (goes_along_u(plan.kernel))
      choose_run(plan);
    else
      plan.clocks = field_clocks(plan, machine_);
    if (plan.shared_bytes > shared_of_block) return;
    if (!best_ || plan.clocks < best_->clocks) best_ = plan;
  }

  /// Runs of columns are short, so that the blocks at work are near each other in memory.
  std::int64_t longest_run(FieldKernel kernel) const {
    return kernel == FieldKernel::columns ? std::min(64, 24 * (view_.u.taps - 1)) : 1 << 20;
  }

  /// Chooses the length of a run: blocks go in waves, and the last one should be full too.
  void choose_run(FieldPlan& plan) const {
    double least = 0;
    FieldPlan run = plan;
    const auto consider_run = [&](std::int64_t length) {
      run.tile_u = static_cast<int>(length);
      const double time = field_clocks(run, machine_);
      if (least == 0 || time < least) least = time, plan.tile_u = run.tile_u;
    };
    if (choice_.tile_u > 0) {
      consider_run(choice_.tile_u);
    } else {
      const std::int64_t outputs = view_.u.outputs;
      std::int64_t parts = ceil_div(outputs, longest_run(plan.kernel));
      for (std::int64_t length = 2; length > 1;) {
        length = ceil_div(outputs, parts);
        consider_run(length);
        if (length > 1) parts = ceil_div(outputs, length - 1);
      }
    }
    plan.clocks = least;
    count_shared(plan);
  }

  FieldView view_;
  int bytes_;
  FieldMachine machine_;
  FieldChoice choice_;
  std::optional<FieldPlan> best_;
};

}  // namespace

std::optional<FieldPlan> plan_fields(const FieldProblem& problem, int element_bytes,
                                     const FieldMachine& machine, const FieldChoice& choice) {
  return Planner(problem, element_bytes, machine, choice).best();
}

}  // namespace plumb::cuda
