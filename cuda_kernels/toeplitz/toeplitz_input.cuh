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
/// bytes: of an even tile by its first line and what the next ones and the second plane's add,
/// otherwise in a table.
class ToeplitzLeads {
 public:
  __device__ ToeplitzLeads(bool even, int first, int step, int jump)
      : bits_((first & 3) | (step & 3) << 2 | (even ? 16 : 0) | (jump & 3) << 5) {}

  __device__ explicit ToeplitzLeads(int bits) : bits_(bits) {}

  __device__ int bits() const { return bits_; }
  __device__ bool are_even() const { return (bits_ & 16) != 0; }
  __device__ bool are_none() const { return bits_ == 16; }
  __device__ int of(int line, const signed char* table, bool second = false) const {
    return are_even() ? (bits_ + line * (bits_ >> 2) + (second ? bits_ >> 5 : 0)) & 3 : table[line];
  }

 private:
  int bits_;
};

/// The row of the image that a line is taken from, or null, and the first column that is wanted.
struct ToeplitzRow {
  const float* x;
  std::int64_t first;
};

/// A tile inside of the image whose lines are equally far apart, in planes those of each plane.
struct ToeplitzEvenTile {
  bool is_one;
  const float* x;  ///< the first element that is wanted
  std::int64_t step, jump;

  __device__ ToeplitzLeads leads() const {
    return {is_one, lead_of(x), static_cast<int>(step & 3), static_cast<int>(jump & 3)};
  }
};

/// The input of a pass of one tile.
template <ToeplitzMode mode>
class ToeplitzInput {
 public:
  __device__ ToeplitzInput(const ToeplitzParams& params, int number, int pass)
      : params_(params),
        pass_(ToeplitzPass::of<mode>(params, pass)),
        number_(mode == line_mode ? number * toeplitz_groups : number),
        outputs_(ToeplitzOutputs::of<mode>(params, mode == planes ? 2 * number : number_)),
        plane_(plane_of(outputs_, 0)),
        second_(mode == planes ? plane_of(outputs_, 1) : nullptr),
        row_(outputs_.v - params.view.v.before + pass_.row),
        first_(first_of(outputs_)) {}

  __device__ ToeplitzEvenTile even() const {
    const FieldView& view = params_.view;
    const std::int64_t step = mode == line_mode ? segment : view.v.x_step;
    // By its address, since there may be no plane, and the first element may lie before it.
    const std::int64_t first = row_ * view.v.x_step + first_;
    const auto* const x = reinterpret_cast<const float*>(reinterpret_cast<std::uintptr_t>(plane_) +
                                                         sizeof(float) * first);
    const int lines = mode == planes ? params_.lines / 2 : params_.lines;
    const std::int64_t jump =
        mode == planes && plane_ && second_ ? second_ - plane_ - lines * step : 0;
    // Aligned lines reach up to three elements further on both sides.
    const int lead = step % 4 == 0 && jump % 4 == 0 ? lead_of(x) : 3;
    const std::int64_t reach =
        first_ + params_.line + 4 + (mode == line_mode ? (toeplitz_groups - 1) * segment : 0);
    bool is_one = plane_ && view.w.x_step == 1 && first_ >= lead && reach <= view.w.extent;
    if (mode == line_mode)
      is_one = is_one && row_ >= 0 && row_ < view.v.extent &&
               outputs_.w + toeplitz_groups * segment <= view.w.outputs;
    else
      is_one = is_one && row_ >= 0 && row_ + lines <= view.v.extent && (mode == rows || second_);
    return {is_one, x, step, jump};
  }
  __device__ ToeplitzRow line(int number) const {
    if (mode == rows) {
      // The last line may be there to fill up a pair.
      if (number >= toeplitz_rows + params_.filters.rows - 1) return {nullptr, 0};
      return {row_at(plane_, row_ + number), first_};
    }
    if (mode == planes) {
      const int lines = params_.lines / 2;
      return {
          number < lines ? row_at(plane_, row_ + number) : row_at(second_, row_ + number - lines),
          first_};
    }
    if (number_ + number >= params_.units) return {nullptr, 0};
    const auto outputs = ToeplitzOutputs::of<mode>(params_, number_ + number);
    return {row_at(plane_of(outputs, 0), outputs.v - params_.view.v.before), first_of(outputs)};
  }

 private:
  static constexpr ToeplitzMode rows = ToeplitzMode::rows, line_mode = ToeplitzMode::line,
                                planes = ToeplitzMode::planes;
  static constexpr int segment = toeplitz_line_columns;

  /// The plane of the image that the pass takes, or the next, or null where it is one of zeros.
  __device__ const float* plane_of(const ToeplitzOutputs& outputs, int next) const {
    const FieldView& view = params_.view;
    if (mode == planes) {
      // What no output of the image meets is not read.
      const std::int64_t left = view.u.outputs - outputs.u;
      if (pass_.t + next >= (left < toeplitz_planes ? left : toeplitz_planes) + view.u.taps - 1)
        return nullptr;
    }
    const std::int64_t u = fields::mapped(outputs.u - view.u.before + pass_.t + next, view.u);
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
  const float *const plane_, *const second_;  ///< second_: in planes
  const std::int64_t row_, first_;
};

}  // namespace plumb::cuda
