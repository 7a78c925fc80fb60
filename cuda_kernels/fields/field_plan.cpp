// How a field problem is cut into tiles: every shape of tile is rated, and the best one taken.
#include <algorithm>
#include <cmath>

#include "cuda_kernels/fields/fields.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"

namespace plumb::cuda {
namespace {

constexpr int vector_bytes = 16, stages = 4, tile_lines = 4, line_vectors = 8;
constexpr int shared_of_block = 227 << 10, shared_of_unit = 228 << 10, reserved = 1 << 10;
constexpr int march_taps[] = {3, 5, 7, 9};
constexpr int largest_queue_stage = 48 << 10;

/// The strides of a dimension of extent one have no effect and may be anything.
std::int64_t step(std::int64_t extent, std::int64_t stride) { return extent > 1 ? stride : 0; }

FieldAxis axis_of(const FieldProblem& problem, int axis) {
  const std::int64_t extent = problem.extent[axis], taps = problem.filter[axis];
  const std::int64_t outputs = problem.outputs(axis);
  return {.extent = extent,
          .outputs = outputs,
          .before = problem.before[axis],
          .x_step = step(extent, problem.x_stride[axis + 2]),
          .y_step = step(outputs, problem.y_stride[axis + 2]),
          .w_step = step(taps, problem.w_stride[axis + 2]),
          .taps = static_cast<int>(taps),
          .boundary = problem.boundary[axis]};
}

FieldView view_of(const FieldProblem& problem) {
  FieldView view{};
  const FieldAxis d = axis_of(problem, 0), h = axis_of(problem, 1);
  view.w = axis_of(problem, 2);
  view.u = d.taps > 1 ? d : h;
  view.v = d.taps > 1 ? h : d;
  view.n = problem.n;
  view.c = static_cast<int>(problem.c), view.k = static_cast<int>(problem.k);
  view.x_n = step(problem.n, problem.x_stride[0]);
  view.y_n = step(problem.n, problem.y_stride[0]);
  view.x_c = step(problem.c, problem.x_stride[1]);
  view.y_k = step(problem.k, problem.y_stride[1]);
  view.w_c = step(problem.c, problem.w_stride[1]);
  view.w_k = step(problem.k, problem.w_stride[0]);
  // Lines are taken several at a time: rows where v has none, and images where there are no rows.
  if (view.u.taps == 1 && view.v.taps == 1 && view.v.outputs == 1) std::swap(view.u, view.v);
  // An axis whose one output lies in the padding is no such axis: what it reads is a zero.
  const bool reads_image = view.v.before == 0 || view.v.boundary != Boundary::zeros;
  if (view.v.taps == 1 && view.v.outputs == 1 && view.v.extent == 1 && reads_image) {
    view.v = {view.n, view.n, 0, view.x_n, view.y_n, 0, 1, Boundary::zeros};
    view.n = 1, view.x_n = 0, view.y_n = 0;
  }
  return view;
}

int shared_vectors(int vectors) { return vectors + vectors / 8; }
int vectors_of(int elements, int element_bytes) {
  return (elements * element_bytes + vector_bytes - 1) / vector_bytes;
}
int bytes_of(int elements, int element_bytes) {
  return vectors_of(elements, element_bytes) * vector_bytes;
}

class Planner {
 public:
  Planner(const FieldProblem& problem, int element_bytes, int units, const FieldChoice& choice)
      : view_(view_of(problem)), bytes_(element_bytes), units_(units), choice_(choice) {}

  std::optional<FieldPlan> best() {
    // Shared memory holds no filter near this; below it, no count here overflows.
    constexpr double max_taps = 1 << 20;
    if (max_taps < static_cast<double>(view_.u.taps) * view_.v.taps * view_.w.taps * view_.c)
      return {};
    if (choice_.kernel && can(*choice_.kernel)) try_all(*choice_.kernel);
    // Measured, each of these is faster than those after it where it can do a filter at all.
    for (const FieldKernel kernel :
         {FieldKernel::line, FieldKernel::columns, FieldKernel::march, FieldKernel::tile})
      if (!best_ && can(kernel)) try_all(kernel);
    return best_;
  }

 private:
  static bool is_free(int chosen, int value) { return chosen == 0 || chosen == value; }

  bool can(FieldKernel kernel) const {
    const bool line = view_.u.taps == 1 && view_.v.taps == 1;
    const bool few = std::ranges::count(march_taps, view_.u.taps) > 0;
    if (kernel == FieldKernel::line) return line;
    if (kernel == FieldKernel::toeplitz)
      return bytes_ == 8 && view_.v.taps == 1 && view_.w.taps >= 8;
    if (kernel == FieldKernel::queue)
      return few && view_.w.taps == view_.u.taps && columns_fit_32_bits();
    if (kernel == FieldKernel::columns)
      return few && planes_fit_32_bits() &&
             (view_.v.taps == 1 || (view_.v.taps == view_.u.taps && has_columns(4)));
    return kernel == FieldKernel::tile ? !line || choice_.kernel == kernel : few;
  }
  bool has_columns(int outputs) const {
    return has_column_outputs(bytes_, view_.u.taps, view_.v.taps > 1, outputs);
  }

  FieldResidence residence(const FieldPlan& plan) const {
    if (plan.kernel == FieldKernel::columns)
      return column_residence(bytes_, view_.u.taps, view_.v.taps > 1, plan.outputs);
    if (plan.kernel == FieldKernel::queue) return queue_residence(plan.queue);
    if (plan.kernel == FieldKernel::toeplitz) return toeplitz_residence(line_eights());
    return plan.kernel == FieldKernel::march ? march_residence(bytes_, view_.u.taps)
                                             : tile_residence;
  }

  void try_all(FieldKernel kernel) {
    FieldPlan plan;
    plan.kernel = kernel, plan.view = view_;
    if (kernel == FieldKernel::line) plan.run = choice_.run;
    if (kernel == FieldKernel::queue) return try_queues(plan);
    if (kernel != FieldKernel::columns) return try_threads(plan);
    for (const int outputs : {4, 8})
      if (has_columns(outputs) && is_free(choice_.outputs, outputs)) {
        plan.outputs = outputs;
        try_threads(plan);
      }
  }

  /// The queue's cuts that fit: filters are not many more than there are.
  void try_queues(FieldPlan plan) {
    for (const QueueCut& cut : queue_cuts) {
      const int number = static_cast<int>(&cut - queue_cuts) + 1;
      if (cut.taps != view_.u.taps || !is_free(choice_.queue_cut, number)) continue;
      if (cut.once && (view_.v.taps != cut.taps || view_.c > 1)) continue;
      if (cut.filters > 1 && view_.k <= cut.filters / 2) continue;
      plan.queue = cut;
      try_threads(plan);
    }
  }

  void try_threads(FieldPlan plan) {
    const bool queue = plan.kernel == FieldKernel::queue;
    const bool toeplitz = plan.kernel == FieldKernel::toeplitz;
    for (int threads = queue || toeplitz ? 32 : 128; threads <= residence(plan).threads;
         threads *= 2)
      for (int threads_w = 8; threads_w <= threads; threads_w *= 2)
        for (int threads_v = 1; threads_w * threads_v <= threads; threads_v *= 2) {
          const int threads_u = threads / (threads_w * threads_v);
          if (plan.kernel != FieldKernel::tile && !toeplitz && threads_u > 1) continue;
          if (toeplitz && (threads_w != 32 || threads_v > 1)) continue;
          // A warp writes rows along one axis.
          if (threads_v > 1 && threads_w * threads_v < 32) continue;
          if (plan.kernel == FieldKernel::columns && threads_w < 32) continue;
          if (queue && threads_w > 32) continue;
          if (!is_free(choice_.threads, threads) || !is_free(choice_.threads_w, threads_w) ||
              !is_free(choice_.threads_v, threads_v))
            continue;
          plan.threads_w = threads_w, plan.threads_v = threads_v, plan.threads_u = threads_u;
          consider(plan);
        }
  }

  static bool march_along_u(FieldKernel kernel) {
    return kernel == FieldKernel::march || kernel == FieldKernel::columns ||
           kernel == FieldKernel::queue;
  }

  void consider(FieldPlan plan) {
    cut(plan);
    for (int planes = 1; planes <= 4; planes *= 2) {
      if (plan.kernel == FieldKernel::march) {
        if (!is_free(choice_.planes, planes)) continue;
        plan.planes = planes;
      } else if (planes > 1) {
        break;
      }
      count_shared(plan);
      if (plan.shared_bytes > shared_of_block) continue;
      if (plan.kernel == FieldKernel::queue && plan.stage_bytes > largest_queue_stage) continue;
      if (march_along_u(plan.kernel))
        choose_run(plan);
      else
        plan.clocks = clocks(plan);
      if (plan.shared_bytes > shared_of_block) continue;
      if (!best_ || plan.clocks < best_->clocks) best_ = plan;
    }
  }

  /// Cuts the outputs, but for the length of a march.
  void cut(FieldPlan& plan) const {
    const bool line = plan.kernel == FieldKernel::line;
    const int thread_columns = (line ? line_vectors : 2) * vector_bytes / bytes_;
    plan.tile_w = plan.threads_w * thread_columns;
    plan.tile_v = plan.threads_v;
    if (plan.kernel == FieldKernel::columns) {
      plan.tile_w = plan.threads_w * (view_.v.taps > 1 ? 1 : plan.outputs);
      plan.tile_v = plan.threads_v * (view_.v.taps > 1 ? plan.outputs : 1);
    }
    if (plan.kernel == FieldKernel::queue) {
      plan.tile_w = plan.threads_w * queue_columns(plan);
      plan.tile_v = plan.threads_v * plan.queue.rows;
    }
    plan.tile_u = plan.kernel == FieldKernel::tile ? plan.threads_u * tile_lines : 1;
    plan.planes = plan.tile_u + view_.u.taps - 1;
    plan.rows = plan.tile_v + view_.v.taps - 1;
    if (plan.kernel == FieldKernel::toeplitz) cut_toeplitz(plan);
    plan.front = line ? (4 - view_.w.taps % 4) % 4 : 0;
    plan.columns = plan.tile_w + plan.front + view_.w.taps - 1;
    // The Toeplitz matrix has whole eights of rows, which meet columns that no tap does.
    if (plan.kernel == FieldKernel::toeplitz) plan.columns = plan.tile_w + 8 * (plan.pairs - 1);
    plan.row_vectors = vectors_of(plan.columns, bytes_);
    plan.pitch = shared_vectors(plan.row_vectors - 1) + 1;
    if (plan.kernel == FieldKernel::queue) plan.pitch = queue_pitch(plan);
    // Four lines of the Toeplitz matrix' lanes lie in different banks.
    if (plan.kernel == FieldKernel::toeplitz) plan.pitch += (10 - plan.pitch % 8) % 8;
    plan.row_threads = 32;
    while (plan.row_threads < plan.threads() && plan.row_threads < plan.row_vectors / 2)
      plan.row_threads *= 2;
  }

  /// Eights of outputs in a line of the Toeplitz kernel.
  int line_eights() const { return view_.u.taps > 1 ? toeplitz_blocks : toeplitz_blocks_in_row; }
  void cut_toeplitz(FieldPlan& plan) const {
    const int lines = plan.threads() / 2;  // 16 a warp
    const bool in_row = view_.u.taps == 1;
    plan.pairs = (view_.w.taps + 7 + 7) / 8;
    plan.tile_u = in_row ? 1 : lines;
    plan.tile_v = 1;
    plan.tile_w = 8 * line_eights() * (in_row ? lines : 1);
    plan.planes = plan.tile_u + view_.u.taps - 1;
    plan.rows = 1;
  }
  int queue_columns(const FieldPlan& plan) const {
    return plan.queue.vectors * vector_bytes / bytes_;
  }
  /// The last thread of a row reads whole vectors.
  int queue_pitch(const FieldPlan& plan) const {
    const int segment = vectors_of(queue_columns(plan) + view_.w.taps - 1, bytes_);
    const int row = (plan.threads_w - 1) * plan.queue.vectors + segment;
    return plan.queue.vectors > 1 ? shared_vectors(row - 1) + 1 : row;
  }

  /// The march's filters are all there, the others' come by channel.
  int filter_bytes(const FieldPlan& plan) const {
    const FieldKernel kernel = plan.kernel;
    const int taps_u = view_.u.taps, taps_v = view_.v.taps, taps_w = view_.w.taps;
    if (kernel == FieldKernel::line)
      return (plan.run > 0 ? view_.c : 1) * bytes_of((taps_w + 3) / 4 * 4, bytes_);
    if (kernel == FieldKernel::toeplitz) return taps_u * (8 * plan.pairs + 8) * bytes_;
    if (kernel == FieldKernel::queue)
      return view_.c * taps_v * bytes_of(plan.queue.filters * taps_u * taps_w, bytes_);
    if (kernel == FieldKernel::columns) return view_.c * taps_w * bytes_of(taps_u * taps_v, bytes_);
    if (kernel == FieldKernel::tile)
      return bytes_of(taps_u * taps_v * ((taps_w + 3) / 4 * 4), bytes_);
    const int last = taps_w > 1 && taps_w % 4 == 1 ? 5 : taps_w % 4;
    return view_.c * taps_v * (taps_u * (taps_w - last) * bytes_ + bytes_of(taps_u * last, bytes_));
  }

  void count_shared(FieldPlan& plan) const {
    const bool queue = plan.kernel == FieldKernel::queue;
    const bool march = plan.kernel == FieldKernel::march || queue;
    const int warps = plan.threads() / 32;
    const int scratch = warps * vector_bytes *
                        shared_vectors(32 * (plan.kernel == FieldKernel::line ? line_vectors : 2));
    plan.filter_bytes = filter_bytes(plan);
    if (plan.kernel == FieldKernel::columns) {
      plan.line_bytes = bytes_of(plan.tile_u + view_.u.taps, sizeof(std::int64_t));
      plan.column_bytes = bytes_of(plan.columns, sizeof(int));
      plan.shared_bytes = plan.filter_bytes + plan.line_bytes + plan.column_bytes;
      return;
    }
    const int tile = plan.planes * plan.rows * plan.pitch * vector_bytes;
    plan.stage_bytes = queue   ? plan.rows * plan.pitch * vector_bytes
                       : march ? view_.c * tile
                               : std::max(tile, scratch);
    plan.scratch_bytes = march ? scratch : 0;
    plan.line_bytes = bytes_of((march ? 1 : plan.planes) * plan.rows, sizeof(std::int64_t));
    const bool columns = plan.kernel != FieldKernel::line && columns_fit_32_bits();
    plan.column_bytes = columns ? plan.row_vectors * vector_bytes / bytes_ * 4 : 0;
    plan.shared_bytes = (march          ? stages
                         : plan.run > 0 ? 2
                                        : 1) *
                            plan.stage_bytes +
                        plan.filter_bytes + plan.scratch_bytes + plan.line_bytes +
                        plan.column_bytes;
  }

  bool columns_fit_32_bits() const {
    return static_cast<double>(view_.w.extent) * std::abs(static_cast<double>(view_.w.x_step)) <
           0x7fffffff;
  }

  /// The columns' offsets in a plane are of 32 bits, as far as the padding reaches.
  bool planes_fit_32_bits() const {
    const auto reach = [](const FieldAxis& axis) {
      return static_cast<double>(axis.outputs + axis.taps + axis.extent) *
             std::abs(static_cast<double>(axis.x_step));
    };
    return reach(view_.v) + reach(view_.w) < 0x7fff0000;
  }

  int blocks_at_once(const FieldPlan& plan) const {
    const int by_shared = shared_of_unit / (plan.shared_bytes + reserved);
    const FieldResidence most = residence(plan);
    const int by_registers = most.blocks * most.threads / plan.threads();
    return std::max(1, std::min(by_shared, by_registers));
  }

  double blocks(const FieldPlan& plan) const {
    const int filters = plan.kernel == FieldKernel::queue ? plan.queue.filters : 1;
    return static_cast<double>(
        view_.n * ceil_div(view_.k, filters) * ceil_div(view_.u.outputs, plan.tile_u) *
        ceil_div(view_.v.outputs, plan.tile_v) * ceil_div(view_.w.outputs, plan.tile_w));
  }

  /// Runs of columns are short, so that the blocks at work are near each other in memory.
  std::int64_t longest_run(FieldKernel kernel) const {
    return kernel == FieldKernel::columns ? std::min(64, 24 * (view_.u.taps - 1)) : 1 << 20;
  }

  void consider_run(FieldPlan& plan, FieldPlan& run, int length, double& least) const {
    run.tile_u = length;
    const double time = clocks(run);
    if (least == 0 || time < least) least = time, plan.tile_u = length;
  }

  /// Chooses the length of a march: blocks run in waves, and the last one should be full too.
  void choose_run(FieldPlan& plan) const {
    double least = 0;
    FieldPlan run = plan;
    const std::int64_t outputs = view_.u.outputs;
    std::int64_t parts = ceil_div(outputs, longest_run(plan.kernel));
    for (std::int64_t length = 2; length > 1 && choice_.tile_u == 0;) {
      length = ceil_div(outputs, parts);
      consider_run(plan, run, static_cast<int>(length), least);
      if (length > 1) parts = ceil_div(outputs, length - 1);
    }
    if (choice_.tile_u > 0) consider_run(plan, run, choice_.tile_u, least);
    plan.clocks = least;
    count_shared(plan);
  }

  /// Clocks of a multiprocessor for a block of columns among as many as it holds. A warp's plane
  /// takes what its instructions need to issue or its bytes to move, and of the smaller as much as
  /// the warps are too few to hide; the factors are those of runs on an H200.
  double column_clocks(const FieldPlan& plan, int warps) const {
    const int outputs = plan.outputs;
    const double taps = static_cast<double>(view_.w.taps) * view_.c,
                 of_plane = view_.u.taps * view_.v.taps;
    const double inputs = outputs + view_.v.taps - 1, words = bytes_ / 4.0;
    const double added = taps * of_plane * outputs * words / 4;
    const double port = taps * (inputs * words + of_plane * words / 4) + outputs * words;
    const double issued =
        taps * (of_plane * outputs + inputs + of_plane * words / 4) + outputs + 2 * inputs + 40;
    const double border = 1.1;  // reads there take more instructions
    const double summed = std::max({added, port, border * issued / 4});
    const double moved = 32.0 * outputs * 2 * bytes_ / 17;
    const double warp_plane =
        std::max(summed, moved) + std::min(1.0, 10.5 / warps) * std::min(summed, moved);
    return plan.threads() / 32.0 * (plan.tile_u + view_.u.taps - 1) * warp_plane;
  }

  /// Clocks of a multiprocessor for a block of the queue among as many as it holds: what its warps
  /// issue, what goes through shared memory or what is moved, and of the others as much as the
  /// warps are too few to hide.
  double queue_clocks(const FieldPlan& plan, int warps) const {
    const QueueCut& cut = plan.queue;
    const double vector = vector_bytes / bytes_, columns = queue_columns(plan);
    const double segment = vectors_of(queue_columns(plan) + cut.taps - 1, bytes_);
    const double weights = cut.taps * cut.taps * cut.filters / vector;
    const double fmas = columns * cut.rows * cut.filters * cut.taps * cut.taps * view_.v.taps;
    const double inputs = segment * (cut.once ? cut.rows + cut.taps - 1 : cut.rows * view_.v.taps);
    const double read_weights = cut.once ? 0 : view_.v.taps * weights;
    const double block_warps = plan.threads() / 32.0;
    const double copies = plan.rows * (12 + 2.5 * std::ceil(plan.columns / 32.0)) / block_warps;
    const double channel = fmas * bytes_ / 4 + inputs + read_weights + copies + 25;
    const double stored = 2.0 * cut.filters * cut.rows * cut.vectors + 20;
    const double issued = (channel * view_.c + stored) / 4;
    const double shared = (4 * inputs + read_weights + 2 * copies / 2.5) * view_.c;
    const double outputs = 32 * columns * cut.rows * cut.filters;
    const double moved = bytes_ * (outputs + 32 * columns * cut.rows * view_.c) / 17;
    const double most = std::max({issued / 0.92, shared / 0.9, moved});
    const double rest = issued + shared + moved - most;
    const double warp_plane = most + std::min(1.0, 3.0 / warps) * std::max(0.0, rest);
    return block_warps * (plan.tile_u + view_.u.taps - 1) * warp_plane;
  }

  /// FMAs that a multiprocessor reaches in a clock with many of them, as measured on 31x31, 129
  /// taps and 9x9x9 (README.md).
  double fma_in_clock(FieldKernel kernel) const {
    if (kernel == FieldKernel::march) return bytes_ == 4 ? 68 : 35;
    if (kernel == FieldKernel::line) return bytes_ == 4 ? 70 : 38;
    return bytes_ == 4 ? 75 : 43;
  }

  /// Predicts the time of all blocks: what is added and what is moved, in clocks of a
  /// multiprocessor, less of the smaller as more warps are there to overlap them.
  double clocks(const FieldPlan& plan) const {
    const double taps = static_cast<double>(view_.u.taps) * view_.v.taps * view_.w.taps * view_.c;
    const double outputs = static_cast<double>(plan.tile_u) * plan.tile_v * plan.tile_w;
    constexpr double bytes_in_clock = 15;
    const bool march = plan.kernel == FieldKernel::march;
    const int planes = march ? plan.tile_u + view_.u.taps - 1 : plan.planes;
    const double loaded = static_cast<double>(planes) * plan.rows * plan.columns * view_.c;
    // Overlapping halos come from L2, which is twice as fast as memory.
    const double moved = bytes_ * (1.5 * outputs + 0.5 * loaded) / bytes_in_clock;
    double added = outputs * taps / fma_in_clock(plan.kernel);
    // Tensor cores have twice the FMAs, of which some are with the Toeplitz matrix' zeros.
    if (plan.kernel == FieldKernel::toeplitz)
      added = outputs * taps / view_.w.taps * 8 * plan.pairs / 100;
    const int at_once = blocks_at_once(plan), warps = at_once * plan.threads() / 32;
    const double hidden = march ? 0.9 : 1 - 1.0 / at_once;
    const double few = std::max(1.0, 12.0 / warps);
    const double start = 1500.0;  // until the first input is there, in clocks of one block
    const bool columns = plan.kernel == FieldKernel::columns;
    const bool queue = plan.kernel == FieldKernel::queue;
    const double block =
        queue     ? queue_clocks(plan, warps) + start / at_once
        : columns ? column_clocks(plan, warps) + start / at_once
                  : few * (std::max(moved, added) + (1 - hidden) * std::min(moved, added)) +
                        start / at_once;
    const double waves = blocks(plan) / (static_cast<double>(units_) * at_once);
    // Where there are many waves, blocks end at different times, and the last wave is not empty.
    // Columns' blocks at the border take longer than others.
    const double whole = static_cast<double>(static_cast<std::int64_t>(waves) + 1);
    const double exact = static_cast<std::int64_t>(waves) == waves ? waves : whole;
    if (columns || queue) return block * at_once * (std::max(waves, 0.6) + 0.75);
    return block * at_once * (exact < 4 ? exact : waves + 0.5);
  }

  FieldView view_;
  int bytes_, units_;
  FieldChoice choice_;
  std::optional<FieldPlan> best_;
};

}  // namespace

std::optional<FieldPlan> plan_fields(const FieldProblem& problem, int element_bytes, int units,
                                     const FieldChoice& choice) {
  return Planner(problem, element_bytes, units, choice).best();
}

}  // namespace plumb::cuda
