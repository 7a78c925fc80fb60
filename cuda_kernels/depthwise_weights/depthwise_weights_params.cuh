// What the kernels of depthwise backward weights are told, and which share of the work a block has.
#pragma once

#include "cuda_kernels/depthwise_weights/depthwise_weights.hpp"
#include "cuda_kernels/primitives/index.cuh"

namespace plumb::cuda::depthwise_weights {

template <DepthwiseWeightsKernel kernel, class Real, int rows>
inline constexpr int blocks_at_once = depthwise_weights_blocks(kernel, rows, sizeof(Real));

struct Params {
  DepthwiseWeightsPlan plan;
  Divisor<int> tiles_s, tiles_r, taps_t, blocks_k, group_k, depth;
  Divisor<int> strips, phases_w, bands, phases_h;
  Divisor<int> x_rows, y_rows, block_k;    ///< of planes
  int lanes_x_bits = 5, lanes_y_bits = 5;  ///< of threads that load a row
  int x_n, x_c, x_d, x_h, x_w, y_n, y_k, y_z, y_p, y_q;
};

/// What a block sums: filters, the first taps of its tile, the units.
struct BlockShare {
  int k, t, r, s;
  std::int64_t part, begin, end;

  __device__ BlockShare(const Params& params, unsigned index) {
    const DepthwiseWeightsCut& cut = params.plan.cut;
    const auto [above_s, of_s] = params.tiles_s.divide(static_cast<int>(index));
    const auto [above_r, of_r] = params.tiles_r.divide(above_s);
    const auto [above_t, of_t] = params.taps_t.divide(above_r);
    const auto [of_part, of_k] = params.blocks_k.divide(above_t);
    k = of_k * cut.block_k, t = of_t, r = of_r * cut.form.rows, s = of_s * cut.form.columns;
    part = of_part;
    begin = cut.units * part / cut.parts, end = cut.units * (part + 1) / cut.parts;
  }
};

/// One unit: its first image, and which lines and columns of a phase of each axis it has.
struct Unit {
  int image, phase_h, phase_w;
  DepthwiseWeightsSpan lines, columns;

  __device__ Unit(const Params& params, const BlockShare& share, std::int64_t number,
                  int lines_each, int columns_each) {
    const DepthwiseWeightsCut& cut = params.plan.cut;
    const auto [above_strip, strip] = params.strips.divide(static_cast<int>(number));
    const auto [above_w, of_w] = params.phases_w.divide(above_strip);
    const auto [above_band, band] = params.bands.divide(above_w);
    const auto [images, of_h] = params.phases_h.divide(above_band);
    image = images * cut.box_n, phase_h = of_h, phase_w = of_w;
    lines = lines_of(params.plan.h, phase_h, share.r, cut.form.rows);
    columns = outputs_of(params.plan.w, phase_w, share.s, cut.form.columns);
    narrow(lines, band * cut.band_steps * lines_each, cut.band_steps * lines_each);
    narrow(columns, strip * cut.strip_steps * columns_each, cut.strip_steps * columns_each);
  }
  __device__ bool empty() const { return lines.begin >= lines.end || columns.begin >= columns.end; }

 private:
  __device__ static void narrow(DepthwiseWeightsSpan& span, int from, int length) {
    span.begin += from;
    if (span.begin + length < span.end) span.end = span.begin + length;
  }
};

/// Where a plane of x and one of dy begin, in elements; `valid` where the tap along the depth reads
/// the image.
struct Planes {
  int x = 0, y = 0;
  bool valid = false;

  __device__ Planes(const Params& params, const BlockShare& share, int image, int k) {
    const WeightsSizes& sizes = params.plan.weights.sizes;
    const auto [n, z] = params.depth.divide(image);
    const std::int64_t d = sizes.d.unit * (sizes.d.stride * std::int64_t{z} +
                                           sizes.d.dilation * std::int64_t{share.t}) -
                           sizes.d.before;
    valid = d >= 0 && d < sizes.d.extent && k < params.plan.filters;
    if (!valid) return;
    x = n * params.x_n + params.group_k.quotient(k) * params.x_c + static_cast<int>(d) * params.x_d;
    y = n * params.y_n + k * params.y_k + z * params.y_z;
  }
};

}  // namespace plumb::cuda::depthwise_weights
