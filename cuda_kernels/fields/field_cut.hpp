// What the planner of fields tries: a kernel's cut of the outputs into tiles, the shared memory
// that it takes, and the time that it is predicted to take.
#pragma once

#include "cuda_kernels/fields/fields.hpp"

namespace plumb::cuda {

/// What a tile may take: all but the little that the kernels have beside it.
inline constexpr int shared_of_block = 226 << 10;

/// The problem with depth, height and width as u, v and w.
FieldView field_axes(const FieldProblem& problem);

/// The problem by the roles that its axes have for the field kernels.
FieldView field_view(const FieldProblem& problem);

/// Returns the threads that a planned kernel is compiled for.
FieldResidence residence(const FieldPlan& plan);

/// Whether the columns' offsets in a row, and in a plane as far as the padding reaches, fit 32
/// bits.
bool columns_fit_32_bits(const FieldView& view);
bool planes_fit_32_bits(const FieldView& view);

/// Whether the copy engine can load boxes of the input, if that is aligned; and whether threads can
/// add what another boundary than zeros has around the image.
bool boxes_fit(const FieldView& view, int element_bytes);

/// Fills in a block's tile and the input under it from kernel, threads and view. Where a kernel
/// goes along u, the tile is of one plane: choosing the length of its runs is up to the caller.
void cut_tile(FieldPlan& plan);

/// Fills in the bytes of shared memory of a tile that is cut.
void count_shared(FieldPlan& plan);

/// Predicts the clocks of the device for a plan whose shared memory is counted.
double field_clocks(const FieldPlan& plan, const FieldMachine& machine);

inline bool goes_along_u(FieldKernel kernel) {
  return kernel == FieldKernel::columns || kernel == FieldKernel::queue;
}

/// Outputs of a thread of the queue in a row.
inline int queue_columns(const FieldPlan& plan) {
  return plan.queue.vectors * 16 / plan.element_bytes;
}

}  // namespace plumb::cuda
