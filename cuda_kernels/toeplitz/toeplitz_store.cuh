// Outputs leave registers for y; those that fp16 could not make are summed by their definition.
#pragma once

#include "cuda_kernels/fields/field_store.cuh"
#include "cuda_kernels/toeplitz/toeplitz_products.cuh"

namespace plumb::cuda {

/// A tile's outputs of one consumer.
template <ToeplitzMode mode>
class ToeplitzOutput {
 public:
  __device__ ToeplitzOutput(const ToeplitzParams& params, const Epilogue<float>& epilogue, float* y,
                            int k, int number)
      : params_(params), epilogue_(epilogue), y_(y + k * params.view.y_k), k_(k), number_(number) {}

  /// Writes the sums, times `unscale`, or with `all_anew` all outputs by their definition. An
  /// output that is NaN is summed anew too: zeros of the matrices may have met an Inf, and halves
  /// of an Inf are NaN.
  template <int products>
  __device__ void write(const ToeplitzSums<products>& sums, float unscale, bool all_anew) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Each lane finds one of the groups for all.
    const Group own = group_of(lane % toeplitz_groups);
    const bool whole = own.rows == whole_rows && own.columns == whole_columns;
    const bool quick = __all_sync(
        0xffffffff, whole && !all_anew && !epilogue_.accumulate && params_.view.w.y_step == 1);
    bool numbers = false;
    if (quick) numbers = write_whole(sums, unscale, own);
    if (!numbers) write_part(sums, unscale, all_anew, own);
  }

 private:
  static constexpr bool is_line = mode == ToeplitzMode::line;
  static constexpr bool of_planes = mode == ToeplitzMode::planes;
  static constexpr int whole_rows = is_line ? 1 : 8;
  static constexpr int whole_columns = is_line ? toeplitz_line_columns : toeplitz_columns;
  /// The outputs of eight columns of B: where the first goes, and how many rows, in planes of one
  /// row in each of the planes, and columns there are.
  struct Group {
    float* y;
    int rows, columns;
    __device__ Group of_lane(int lane) const {
      return {reinterpret_cast<float*>(
                  __shfl_sync(0xffffffff, reinterpret_cast<unsigned long long>(y), lane)),
              __shfl_sync(0xffffffff, rows, lane), __shfl_sync(0xffffffff, columns, lane)};
    }
  };

  /// Writes outputs that are all there; says whether all of the warp's are numbers.
  template <int products>
  __device__ bool write_whole(const ToeplitzSums<products>& sums, float unscale,
                              const Group& own) const {
    const float bias = epilogue_.bias_of<float>(k_);
    // In rows a lane's next two sums are eight columns on and a row up, in lines 64 on and 8 back.
    const std::int64_t first = row(0) * row_step() + column(0);
    const std::int64_t up = is_line ? -8 : -row_step();
    constexpr int on = is_line ? 64 : 8;
    bool numbers = true;
#pragma unroll
    for (int i = 0; i < toeplitz_groups; ++i) {
      float* const to = own.of_lane(i).y + first;
      float* const above = to + up;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float sum = sums[4 * i + j] * unscale;
        numbers = numbers && sum == sum;
        float* const line = j < 2 ? to : above;  // g++ 12's sanitizers miscompile (a ? b : c)[i]
        line[j % 2 * on] = epilogue_.finish(sum, bias);
      }
    }
    return __all_sync(0xffffffff, numbers);
  }
  template <int products>
  __device__ void write_part(const ToeplitzSums<products>& sums, float unscale, bool all_anew,
                             const Group& own) const {
    const float bias = epilogue_.bias_of<float>(k_);
    std::uint64_t anew = 0;
#pragma unroll
    for (int i = 0; i < toeplitz_groups; ++i) {
      const Group group = own.of_lane(i);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (!has(group, j)) continue;
        const float sum = sums[4 * i + j] * unscale;
        if (all_anew || sum != sum)
          anew |= std::uint64_t{1} << (4 * i + j);
        else
          finish(address(group, j), sum, bias);
      }
    }
    if (anew != 0) [[unlikely]]
      write_anew(params_, epilogue_, y_, k_, number_, anew);
  }

  /// Lane 4 g + t of warp w has the outputs 16 w + g and 8 further of the columns 2 t and 2 t + 1.
  /// Rows, and in lines chunks of eight columns, go the other way (ToeplitzFilters).
  __device__ static int row(int j) { return is_line ? 0 : 7 - 2 * warp() - j / 2; }
  __device__ static int column(int j) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int b_column = 2 * (lane % 4) + j % 2;
    return is_line ? 64 * b_column + 8 * (7 - 2 * warp() - j / 2) + lane / 4
                   : 8 * b_column + lane / 4;
  }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32 % 4; }
  __device__ std::int64_t row_step() const {
    return of_planes ? params_.view.u.y_step : params_.view.v.y_step;
  }

  __device__ static ToeplitzOutputs outputs_of(const ToeplitzParams& params, int number, int i) {
    if (is_line) return ToeplitzOutputs::of<mode>(params, number * toeplitz_groups + i);
    auto outputs = ToeplitzOutputs::of<mode>(params, number);
    outputs.v += of_planes ? i : 8 * i;
    return outputs;
  }
  __device__ Group group_of(int i) const {
    const FieldView& view = params_.view;
    if (is_line && number_ * toeplitz_groups + i >= params_.units) return {y_, 0, 0};
    const ToeplitzOutputs outputs = outputs_of(params_, number_, i);
    if (of_planes && outputs.v >= view.v.outputs) return {y_, 0, 0};
    const std::int64_t rows = of_planes ? view.u.outputs - outputs.u : view.v.outputs - outputs.v;
    const std::int64_t columns = view.w.outputs - outputs.w;
    return {y_ + (outputs.n * view.y_n + outputs.u * view.u.y_step + outputs.v * view.v.y_step +
                  outputs.w * view.w.y_step),
            static_cast<int>(rows < 0   ? 0
                             : rows < 8 ? rows
                                        : 8),
            static_cast<int>(columns < whole_columns ? columns : whole_columns)};
  }
  __device__ static bool has(const Group& group, int j) {
    return row(j) < group.rows && column(j) < group.columns;
  }
  __device__ float* address(const Group& group, int j) const {
    return group.y + (row(j) * row_step() + column(j) * params_.view.w.y_step);
  }
  __device__ void finish(float* to, float sum, float bias) const {
    if (epilogue_.accumulate) sum += *to;
    *to = epilogue_.finish(sum, bias);
  }

  /// Writes by their definition the outputs of the thread whose bits are set. Its arguments are no
  /// class, which would have to be in memory for it.
  __device__ __noinline__ static void write_anew(const ToeplitzParams& params,
                                                 const Epilogue<float>& epilogue, float* y, int k,
                                                 int number, std::uint64_t anew) {
    const FieldView& view = params.view;
    for (int i = 0; i < 4 * toeplitz_groups; ++i) {
      if ((anew >> i & 1) == 0) continue;
      const ToeplitzOutputs of = outputs_of(params, number, i / 4);
      const std::int64_t u = of.u + (of_planes ? row(i % 4) : 0),
                         v = of.v + (of_planes ? 0 : row(i % 4)), w = of.w + column(i % 4);
      const float sum =
          fields::defined_sum(view, params.x + of.n * view.x_n, params.w + k * view.w_k, u, v, w);
      epilogue.store(y[of.n * view.y_n + u * view.u.y_step + v * view.v.y_step + w * view.w.y_step],
                     sum, k);
    }
  }

  const ToeplitzParams& params_;
  const Epilogue<float>& epilogue_;
  float* const y_;
  const int k_, number_;
};

}  // namespace plumb::cuda
