// One warp goes through the block's items ahead of all others: it finds where the input of each
// lies and loads the filters, so that producers, which have few registers, need not.
#pragma once

#include "cuda_kernels/toeplitz/toeplitz_input.cuh"

namespace plumb::cuda {

template <ToeplitzMode mode>
class ToeplitzScheduler {
 public:
  __device__ explicit ToeplitzScheduler(const ToeplitzParams& params)
      : params_(params), shared_(params), lane_(static_cast<int>(threadIdx.x) % 32) {}

  /// Plans all items; a stage's plan is made when the stage is empty.
  __device__ void schedule(int passes) {
    ToeplitzItem<mode> item;
    for (; item.is_there(params_); item.advance(params_, passes)) {
      plan(item);
      begin_filters(item);
    }
    plan(item);
  }

 private:
  __device__ void plan(const ToeplitzItem<mode>& item) {
    ToeplitzControl& control = *shared_.control;
    control.empty[stage_.stage].wait(stage_.parity ^ 1);
    ToeplitzLoad load{.is_there = item.is_there(params_)};
    if (load.is_there) {
      const ToeplitzInput<mode> input(params_, item.tile(item.pair, item.half), item.pass);
      const ToeplitzEvenTile even = input.even();
      load = {even.x, even.step, even.jump, even.leads().bits(), true, item.pass == 0, item.half};
      if (!even.is_one) fill_table(input, shared_.tables[stage_.stage]);
    }
    if (lane_ == 0) control.loads[stage_.stage] = load;
    control.planned[stage_.stage].arrive();
    stage_.advance(params_.stages);
  }
  __device__ void fill_table(const ToeplitzInput<mode>& input, ToeplitzTable& table) const {
    const FieldAxis& w = params_.view.w;
    const int elements = params_.line_bytes / 4;
    int begin = 0, end = elements;  // of all lines the last and the first
    bool aligned = true;            // whether all begin with a vector
    for (int number = lane_; number < params_.lines; number += 32) {
      const auto [x, first] = input.line(number);
      const int lead = x && w.x_step == 1 ? lead_of(x + first) : 0;
      const std::int64_t column = first - lead, left = w.extent - column;
      const ToeplitzLine line = {x ? x + column * w.x_step : nullptr, clipped(-column),
                                 clipped(left)};
      table.lines[number] = line;
      table.firsts[number] = column;
      table.leads[number] = static_cast<signed char>(lead);
      if (x) {
        begin = max(begin, line.begin), end = min(end, line.end);
        aligned = aligned && line.begin % 4 == 0;
      }
    }
    begin = __reduce_max_sync(0xffffffff, begin), end = __reduce_min_sync(0xffffffff, end);
    aligned = __all_sync(0xffffffff, aligned);
    if (lane_ == 0) table.beyond = beyond(begin, end, elements, aligned);
  }
  /// The elements that may be beyond lines which begin and end at such elements of the image, in
  /// whole vectors.
  __device__ ToeplitzBeyond beyond(int begin, int end, int elements, bool aligned) const {
    const FieldAxis& w = params_.view.w;
    if (w.x_step != 1) return {elements, 0, elements};
    // Vectors of zeros are copied from nowhere.
    const bool zeros = w.boundary == Boundary::zeros;
    const int before = zeros && aligned ? 0 : (begin + 3) & ~3;
    const int at = zeros ? elements : max(before, end & ~3);
    return {before, elements - at, at};
  }
  __device__ int clipped(std::int64_t element) const {
    const int most = params_.line_bytes / 4;
    return element < 0 ? 0 : element > most ? most : static_cast<int>(element);
  }
  /// Begins to load the filters of an item's pass, where it is the first that wants them. Before,
  /// the item is planned: a stage of filters may wait for the products of items before it.
  __device__ void begin_filters(const ToeplitzItem<mode>& item) {
    if (!item.begins_filters(params_)) return;
    CopyBarrier& full = shared_.control->filters_full[filters_.stage];
    shared_.control->filters_empty[filters_.stage].wait(filters_.parity ^ 1);
    if (lane_ == 0) {
      const char* const filter =
          params_.packed + item.k * params_.filter_bytes + toeplitz_header_bytes;
      full.expect(params_.filter_stage_bytes);
      full.copy(shared_.filters + filters_.stage * params_.filter_stage_bytes,
                filter + params_.matrices_at<mode>(item.pass), params_.filter_stage_bytes);
    }
    filters_.advance(params_.filter_stages);
  }

  const ToeplitzParams& params_;
  const ToeplitzShared shared_;
  const int lane_;
  ToeplitzRing stage_, filters_;
};

}  // namespace plumb::cuda
