// How convolutions of few outputs are cut into blocks.
#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/depthwise.hpp"
#include "cuda_kernels/depthwise/depthwise.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"

namespace plumb::cuda {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

/// A stride to no second output and a dilation of one tap move nothing.
bool fits(const StagedForm& form, std::int64_t taps, std::int64_t outputs, std::int64_t stride,
          std::int64_t dilation) {
  return taps == form.taps && dilation == 1 && (outputs == 1 || stride == form.stride);
}

std::optional<StagedForm> form_of(const ConvProblem& p) {
  for (const StagedForm& form : direct_forms)
    if (fits(form, p.r, p.p(), p.stride.h, p.dilation.h) &&
        fits(form, p.s, p.q(), p.stride.w, p.dilation.w))
      return form;
  return {};
}

/// What a thread issues and waits for, counted in depthwise_direct.cuh as it stands.
DepthwiseWork work_of_vectors(const DirectCut& cut, const ConvProblem& p, int bytes) {
  constexpr double lanes = 32, line_bytes = 128;
  const double taps = cut.form.taps, width = direct_width(static_cast<std::size_t>(bytes)),
               columns = direct_columns;
  const double window = (columns - 1) * cut.form.stride + taps;
  const double sum_bytes = bytes == 8 ? 8 : 4, vectors = taps * window;
  const double filters = std::ceil(cut.lanes * width * taps * taps / direct_threads);
  DepthwiseWork work{.blocks = number(direct_blocks_of(cut, p)),
                     .resident = direct_blocks,
                     .warps = direct_threads / lanes,
                     .staged = true,
                     .is_double = bytes == 8};
  work.fmas = taps * taps * columns * width;
  work.instructions = 150 + 15 * filters + 8 * vectors + (bytes == 2 ? width * vectors : 0) +
                      taps * taps + columns * (4 + 2 * width);
  const double piece = cut.lanes * width * bytes;
  const double of_vector = std::max(lanes * width * bytes / line_bytes, lanes / cut.lanes);
  work.lines = (vectors + columns) * of_vector +
               taps * taps * width * sum_bytes * lanes / line_bytes + 2 * filters;
  work.piece_bytes = piece;
  work.memory_waits = 1, work.filter_waits = 1;
  return work;
}

/// The same of depthwise_direct_rows.cuh.
DepthwiseWork work_of_rows(const DirectCut& cut, const ConvProblem& p, int bytes) {
  constexpr double lanes = 32, line_bytes = 128;
  const double taps = cut.form.taps, columns = direct_row_columns(static_cast<std::size_t>(bytes));
  const double reads = taps * ((columns - 1) * cut.form.stride + taps);
  DepthwiseWork work{.blocks = number(direct_blocks_of(cut, p)),
                     .resident = direct_row_blocks,
                     .warps = direct_threads / lanes,
                     .staged = true,
                     .is_double = bytes == 8};
  work.fmas = taps * taps * columns;
  work.instructions = 130 + 6 * reads + (bytes == 2 ? reads : 0) + 3 * taps * taps + 6 * columns;
  const double of_read = std::max(1.0, lanes * columns * bytes / line_bytes);
  work.lines = reads * of_read * cut.form.stride + taps * taps + columns * of_read;
  work.piece_bytes = lanes * columns * bytes;
  work.memory_waits = 1;
  return work;
}

}  // namespace

std::int64_t direct_blocks_of(const DirectCut& cut, const ConvProblem& p) {
  if (cut.rows) {
    const std::int64_t columns = direct_row_columns(size_in_bytes(p.dtype));
    const std::int64_t chunks = ceil_div(p.q(), columns);
    return ceil_div(p.n * p.k * p.p() * chunks, std::int64_t{direct_threads});
  }
  const std::int64_t width = direct_width(size_in_bytes(p.dtype));
  const std::int64_t chunks = ceil_div(p.q(), std::int64_t{direct_columns});
  return ceil_div(p.n * p.p() * chunks, std::int64_t{cut.places}) *
         ceil_div(p.k, cut.lanes * width);
}

std::optional<double> plan_direct(const ConvProblem& p, const DeviceInfo& device,
                                  DepthwisePlan& plan) {
  const int bytes = static_cast<int>(size_in_bytes(p.dtype));
  const int width = direct_width(static_cast<std::size_t>(bytes));
  const std::optional<StagedForm> form = form_of(p);
  if (!form || !is_plain_image(p)) return {};
  DirectCut cut{.form = *form};
  if (channels_in_vectors(p, width)) {
    // Slices are as wide as each other, and a warp reads whole lines.
    constexpr std::int64_t max_lanes = 32;
    const std::int64_t vectors = p.k / width, slices = ceil_div(vectors, max_lanes);
    cut.lanes = static_cast<int>(ceil_div(vectors, slices));
    cut.places = direct_threads / cut.lanes;
    cut.shared_bytes = cut.lanes * width * form->taps * form->taps * (bytes == 8 ? 8 : 4);
  } else if (columns_in_vectors(p.x_extents(), p.x_strides, 1) &&
             columns_in_vectors(p.y_extents(), p.y_strides, 1)) {
    const int columns = direct_row_columns(static_cast<std::size_t>(bytes));
    cut.rows = true;
    cut.whole = p.q() % columns == 0 && columns_in_vectors(p.y_extents(), p.y_strides, columns);
  } else {
    return {};
  }
  const std::int64_t at_once = cut.rows ? direct_row_blocks : direct_blocks;
  if (direct_blocks_of(cut, p) > at_once * device.units) return {};
  plan.direct = cut;
  return depthwise_seconds(p, device,
                           cut.rows ? work_of_rows(cut, p, bytes) : work_of_vectors(cut, p, bytes));
}

}  // namespace plumb::cuda
