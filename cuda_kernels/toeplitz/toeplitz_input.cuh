// Where the lines of a tile's input lie. Most tiles lie inside of the image with lines that are
// equally far apart; of the others a table says it, line by line.
#pragma once

#include "cuda_kernels/toeplitz/toeplitz_params.cuh"

namespace plumb::cuda {

/// How many elements lie between the 16 aligned bytes that `x` is in and `x`.
__device__ inline int lead_of(const float* x) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(x) / 4 % 4);
}

/// How many elements of a line lie before the first that is wanted, since lines begin at 16 aligned
/// bytes: of an even tile by its first line and what the next ones add, otherwise in a table.
class ToeplitzLeads {
 public:
  __device__ ToeplitzLeads(bool even, int first, int step)
      : bits_((first & 3) | (step & 3) << 2 | (even ? 16 : 0)) {}

  __device__ explicit ToeplitzLeads(int bits) : bits_(bits) {}

  __device__ int bits() const { return bits_; }
  __device__ bool are_even() const { return (bits_ & 16) != 0; }
  __device__ bool are_none() const { return bits_ == 16; }
  __device__ int of(int line, const signed char* table) const {
    return are_even() ? (bits_ + line * (bits_ >> 2)) & 3 : table[line];
  }

 private:
  int bits_;
};

/// The row of the image that a line is taken from, or null, and the first column that is wanted.
struct ToeplitzRow {
  const float* x;
  std::int64_t first;
};

/// A tile inside of the image whose lines are equally far apart.
struct ToeplitzEvenTile {
  bool is_one;
  const float* x;  ///< the first element that is wanted
  std::int64_t step;

  __device__ ToeplitzLeads leads() const {
    return {is_one, lead_of(x), static_cast<int>(step & 3)};
  }
};

/// The input of a pass of one tile.
template <ToeplitzMode mode>
class ToeplitzInput {
 public:
  __device__ ToeplitzInput(const ToeplitzParams& params, int number, int pass)
      : params_(params),
        pass_(params, pass),
        number_(mode == rows ? number : number * toeplitz_groups),
        outputs_(ToeplitzOutputs::of<mode>(params, number_)),
        plane_(plane_of(outputs_)),
        row_(outputs_.v - params.view.v.before + pass_.row),
        first_(first_of(outputs_)) {}

  __device__ ToeplitzEvenTile even() const {
    const FieldView& view = params_.view;
    const std::int64_t step = mode == rows ? view.v.x_step : segment;
    const float* const x = plane_ + row_ * view.v.x_step + first_;
    // Aligned lines reach up to three elements further on both sides.
    const int lead = step % 4 == 0 ? lead_of(x) : 3;
    const std::int64_t reach =
        first_ + params_.line + 4 + (mode == rows ? 0 : (toeplitz_groups - 1) * segment);
    bool is_one = plane_ && view.w.x_step == 1 && first_ >= lead && reach <= view.w.extent;
    if (mode == rows)
      is_one = is_one && row_ >= 0 && row_ + params_.lines <= view.v.extent;
    else
      is_one = is_one && row_ >= 0 && row_ < view.v.extent &&
               outputs_.w + toeplitz_groups * segment <= view.w.outputs;
    return {is_one, x, step};
  }
  __device__ ToeplitzRow line(int number) const {
    if (mode == rows) {
      // The last line may be there to fill up a pair.
      if (number >= toeplitz_rows + params_.filters.rows - 1) return {nullptr, 0};
      return {row_at(plane_, row_ + number), first_};
    }
    if (number_ + number >= params_.units) return {nullptr, 0};
    const auto outputs = ToeplitzOutputs::of<mode>(params_, number_ + number);
    return {row_at(plane_of(outputs), outputs.v - params_.view.v.before), first_of(outputs)};
  }

 private:
  static constexpr ToeplitzMode rows = ToeplitzMode::rows;
  static constexpr int segment = toeplitz_line_columns;

  /// The plane of the image, or null where it is one of zeros.
  __device__ const float* plane_of(const ToeplitzOutputs& outputs) const {
    const FieldView& view = params_.view;
    const std::int64_t u = fields::mapped(outputs.u - view.u.before + pass_.t, view.u);
    if (u < 0) return nullptr;
    return params_.x + (outputs.n * view.x_n + pass_.c * view.x_c + u * view.u.x_step);
  }
  __device__ const float* row_at(const float* plane, std::int64_t row) const {
    row = fields::mapped(row, params_.view.v);
    return plane && row >= 0 ? plane + row * params_.view.v.x_step : nullptr;
  }
  __device__ std::int64_t first_of(const ToeplitzOutputs& outputs) const {
    return outputs.w - params_.view.w.before + pass_.column;
  }

  const ToeplitzParams& params_;
  const ToeplitzPass pass_;
  const int number_;
  const ToeplitzOutputs outputs_;
  const float* const plane_;
  const std::int64_t row_, first_;
};

}  // namespace plumb::cuda
