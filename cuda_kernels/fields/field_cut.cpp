// How a kernel cuts the outputs of a field into tiles, and what a tile takes of shared memory.
#include "cuda_kernels/fields/field_cut.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/primitives/im2col_map.hpp"
#include "cuda_kernels/primitives/tiled_map.hpp"

namespace plumb::cuda {
namespace {

constexpr int vector_bytes = 16, stages = 4, tile_lines = 4;

int shared_vectors(int vectors) { return vectors + vectors / 8; }
int vectors_of(int elements, int element_bytes) {
  return (elements * element_bytes + vector_bytes - 1) / vector_bytes;
}
int bytes_of(int elements, int element_bytes) {
  return vectors_of(elements, element_bytes) * vector_bytes;
}

/// Tiles of eight outputs in a line of the Toeplitz kernel.
int line_tiles(const FieldView& view) {
  return view.u.taps > 1 ? toeplitz_blocks : toeplitz_blocks_in_row;
}

void cut_toeplitz(FieldPlan& plan) {
  const int lines = plan.threads() / 2;  // 16 a warp
  const bool in_row = plan.view.u.taps == 1;
  plan.pairs = (plan.view.w.taps + 7 + 7) / 8;
  plan.tile_u = in_row ? 1 : lines;
  plan.tile_v = 1;
  plan.tile_w = 8 * line_tiles(plan.view) * (in_row ? lines : 1);
  plan.planes = plan.tile_u + plan.view.u.taps - 1;
  plan.rows = 1;
}

/// Elements of a plane that threads may have to put around the image, 8 bytes each.
int patch_bytes(const FieldPlan& plan) {
  const FieldView& view = plan.view;
  const int vectors = plan.queue.vectors, columns = plan.pitch * vector_bytes / plan.element_bytes;
  int elements = 0;
  if (view.w.boundary != Boundary::zeros) elements += 2 * (view.w.taps - 1) * vectors * plan.rows;
  if (view.v.boundary != Boundary::zeros)
    elements += std::min(2 * (view.v.taps - 1), plan.rows) * vectors * columns;
  return bytes_of(elements, 8);
}

/// Outputs of a thread along w, and along v.
std::pair<int, int> thread_outputs(const FieldPlan& plan) {
  switch (plan.kernel) {
    case FieldKernel::columns:
      return plan.view.v.taps > 1 ? std::pair{1, plan.outputs} : std::pair{plan.outputs, 1};
    case FieldKernel::queue: return {queue_columns(plan), plan.queue.rows};
    case FieldKernel::line:
      return {line_vectors(plan.filters) * vector_bytes / plan.element_bytes, 1};
    default: return {2 * vector_bytes / plan.element_bytes, 1};
  }
}

/// The filters of queue and columns are all there, the others' come with their channels.
int filter_bytes(const FieldPlan& plan) {
  const int bytes = plan.element_bytes, c = plan.view.c;
  const int u = plan.view.u.taps, v = plan.view.v.taps, w = plan.view.w.taps;
  const int padded_w = (w + 3) / 4 * 4;
  switch (plan.kernel) {
    case FieldKernel::line: return plan.channels * plan.filters * bytes_of(padded_w, bytes);
    case FieldKernel::toeplitz: return u * (8 * plan.pairs + 8) * bytes;
    case FieldKernel::queue: return c * v * bytes_of(plan.queue.filters * u * w, bytes);
    case FieldKernel::columns: return c * w * bytes_of(u * v, bytes);
    case FieldKernel::tile: break;
  }
  return bytes_of(u * v * padded_w, bytes);
}

}  // namespace

FieldResidence residence(const FieldPlan& plan) {
  const int taps_u = plan.view.u.taps;
  switch (plan.kernel) {
    case FieldKernel::columns:
      return column_residence(plan.element_bytes, taps_u, plan.view.v.taps > 1, plan.outputs);
    case FieldKernel::queue: return queue_residence(plan.queue);
    case FieldKernel::toeplitz: return toeplitz_residence(line_tiles(plan.view));
    case FieldKernel::line: return line_residence(plan.element_bytes, plan.filters);
    case FieldKernel::tile: break;
  }
  return tile_residence;
}

bool columns_fit_32_bits(const FieldView& view) {
  return static_cast<double>(view.w.extent) * std::abs(static_cast<double>(view.w.x_step)) <
         0x7fffffff;
}

bool planes_fit_32_bits(const FieldView& view) {
  const auto reach = [](const FieldAxis& axis) {
    return static_cast<double>(axis.outputs + axis.taps + axis.extent) *
           std::abs(static_cast<double>(axis.x_step));
  };
  return reach(view.v) + reach(view.w) < 0x7fff0000;
}

bool boxes_fit(const FieldView& view, int element_bytes) {
  constexpr std::int64_t longest = 0x3fff0000;  // twice an extent fits 32 bits
  const auto steps = [&](std::int64_t extent, std::int64_t step) {
    const std::int64_t bytes = step * element_bytes;
    return extent == 1 ||
           (bytes > 0 && bytes % tensor_map_alignment == 0 && bytes <= max_tensor_map_stride);
  };
  // No more than the taps reach over is added around the image.
  const auto reaches = [](const FieldAxis& axis) {
    return axis.boundary == Boundary::zeros ||
           (axis.before < axis.taps && axis.outputs - axis.before <= axis.extent);
  };
  const int vector = vector_bytes / element_bytes;
  if ((view.w.before + queue_lead(view.w.taps, element_bytes)) % vector != 0) return false;
  for (const FieldAxis& axis : {view.u, view.v, view.w})
    if (axis.extent + axis.outputs + axis.taps > longest || axis.extent == 0) return false;
  return (view.w.extent == 1 || view.w.x_step == 1) && steps(view.v.extent, view.v.x_step) &&
         steps(view.u.extent, view.u.x_step) && steps(view.c, view.x_c) &&
         steps(view.n, view.x_n) && view.n < longest && reaches(view.v) && reaches(view.w) &&
         planes_fit_32_bits(view);
}

void cut_tile(FieldPlan& plan) {
  const FieldView& view = plan.view;
  const bool toeplitz = plan.kernel == FieldKernel::toeplitz;
  const auto [outputs_w, outputs_v] = thread_outputs(plan);
  plan.tile_w = plan.threads_w * outputs_w;
  plan.tile_v = plan.threads_v * outputs_v;
  plan.tile_u = plan.kernel == FieldKernel::tile ? plan.threads_u * tile_lines : 1;
  plan.planes = plan.tile_u + view.u.taps - 1;
  plan.rows = plan.tile_v + view.v.taps - 1;
  if (toeplitz) cut_toeplitz(plan);
  if (plan.kernel == FieldKernel::queue) plan.planes = 1;
  plan.front = plan.kernel == FieldKernel::line ? (4 - view.w.taps % 4) % 4 : 0;
  plan.columns = plan.tile_w + plan.front + view.w.taps - 1;
  // The Toeplitz matrix has rows in multiples of eight, which meet columns that no tap does.
  if (toeplitz) plan.columns = plan.tile_w + 8 * (plan.pairs - 1);
  plan.row_vectors = vectors_of(plan.columns, plan.element_bytes);
  plan.pitch = plan.kernel == FieldKernel::queue ? queue_pitch(view.w.taps, plan.element_bytes)
                                                 : shared_vectors(plan.row_vectors - 1) + 1;
  plan.part_bytes = plan.rows * plan.pitch * vector_bytes;
  plan.part_bytes += -plan.part_bytes & (tiled_box_alignment - 1);
  // Four lines of the Toeplitz matrix' lanes lie in different banks.
  if (toeplitz) plan.pitch += (10 - plan.pitch % 8) % 8;
  plan.row_threads = 32;
  while (plan.row_threads < plan.threads() && plan.row_threads < plan.row_vectors / 2)
    plan.row_threads *= 2;
}

void count_shared(FieldPlan& plan) {
  const bool queue = plan.kernel == FieldKernel::queue, line = plan.kernel == FieldKernel::line;
  plan.filter_bytes = filter_bytes(plan);
  if (plan.kernel == FieldKernel::columns) {
    plan.line_bytes = bytes_of(plan.tile_u + plan.view.u.taps, sizeof(std::int64_t));
    plan.column_bytes = bytes_of(plan.columns, sizeof(int));
    plan.shared_bytes = plan.filter_bytes + plan.line_bytes + plan.column_bytes;
    return;
  }
  const int warps = plan.threads() / 32;
  const int scratch =
      warps * vector_bytes * shared_vectors(32 * (line ? line_vectors(plan.filters) : 2));
  plan.channel_bytes = queue ? plan.queue.vectors * plan.part_bytes
                             : plan.planes * plan.rows * plan.pitch * vector_bytes;
  plan.stage_bytes = plan.channels * plan.channel_bytes;
  if (!queue) plan.stage_bytes = std::max(plan.stage_bytes, scratch);
  plan.scratch_bytes = queue ? scratch : 0;
  plan.line_bytes = bytes_of(plan.planes * plan.rows, sizeof(std::int64_t));
  plan.column_bytes = !line && columns_fit_32_bits(plan.view)
                          ? plan.row_vectors * vector_bytes / plan.element_bytes * 4
                          : 0;
  plan.patch_bytes = plan.boxes ? patch_bytes(plan) : 0;
  plan.shared_bytes = (queue ? stages : 1) * plan.stage_bytes + plan.filter_bytes +
                      plan.scratch_bytes +
                      std::max(plan.line_bytes + plan.column_bytes, plan.patch_bytes);
}

}  // namespace plumb::cuda
