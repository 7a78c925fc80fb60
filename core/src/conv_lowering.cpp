#include "conv_lowering.hpp"

#include <algorithm>
#include <numeric>

#include "ranks.hpp"

namespace plumb {
namespace {

/// A forward convolution along one axis: outputs first, first + step, ... of the whole axis.
struct Piece {
  std::int64_t first = 0, step = 1, outputs = 0;
  bool zeros = false;                 ///< no tap reaches them
  std::int64_t crop = 0, inputs = 0;  ///< of the axis that is read
  std::int64_t tap = 0, taps = 0, tap_step = 1;
  std::int64_t stride = 1, dilation = 1, before = 0;
};

/// Padding that a forward convolution needs behind the image; below zero, what it does not read.
std::int64_t after(const Piece& piece) {
  return (piece.outputs - 1) * piece.stride + (piece.taps - 1) * piece.dilation + 1 - piece.inputs -
         piece.before;
}

/// What no window reaches is left out. Whether anything is left.
bool crop(Piece& piece) {
  const std::int64_t front = std::max<std::int64_t>(-piece.before, 0);
  piece.crop += front;
  piece.inputs -= front;
  piece.before += front;
  piece.inputs += std::min<std::int64_t>(after(piece), 0);
  return piece.inputs > 0;
}

std::int64_t modulo(std::int64_t a, std::int64_t m) { return (a % m + m) % m; }

/// Sizes along one axis of the convolution whose gradient is asked for.
struct Axis {
  std::int64_t x, w, y, stride, dilation, before;
};

/// The pixels h of dx with h mod stride = phase.
Piece phase_of(const Axis& axis, std::int64_t phase) {
  Piece piece{.first = phase, .step = axis.stride};
  piece.outputs = (axis.x - phase - 1) / axis.stride + 1;
  // Taps r reach it where r dilation = phase + before, modulo the stride.
  const std::int64_t common = std::gcd(axis.stride, axis.dilation);
  const std::int64_t tap_step = axis.stride / common;
  for (piece.tap = 0; piece.tap < std::min(tap_step, axis.w); ++piece.tap)
    if (modulo(phase + axis.before - piece.tap * axis.dilation, axis.stride) == 0) break;
  if (piece.tap == std::min(tap_step, axis.w)) {
    piece.zeros = true;
    return piece;
  }
  // Tap i of them, tap + i tap_step, meets dy[j + shift - i dilation] at pixel phase + j stride.
  piece.taps = (axis.w - 1 - piece.tap) / tap_step + 1;
  piece.dilation = axis.dilation / common;
  const std::int64_t shift = (phase + axis.before - piece.tap * axis.dilation) / axis.stride;
  piece.before = (piece.taps - 1) * piece.dilation - shift;
  piece.tap += (piece.taps - 1) * tap_step;  // the last comes first
  piece.tap_step = -tap_step;
  piece.inputs = axis.y;
  piece.zeros = !crop(piece);
  return piece;
}

std::vector<Piece> data_pieces(const Axis& axis) {
  std::vector<Piece> pieces;
  for (std::int64_t phase = 0; phase < std::min(axis.stride, axis.x); ++phase) {
    const Piece piece = phase_of(axis, phase);
    Piece* const last = pieces.empty() ? nullptr : &pieces.back();
    // Phases of one pixel without a tap are one run of them.
    if (last && last->zeros && piece.zeros && piece.outputs == 1 &&
        (last->outputs == 1 || last->step == 1) && last->first + last->outputs == phase) {
      last->step = 1;
      ++last->outputs;
    } else {
      pieces.push_back(piece);
    }
  }
  return pieces;
}

std::vector<Piece> weights_pieces(const Axis& axis) {
  Piece piece{.outputs = axis.w,
              .inputs = axis.x,
              .taps = axis.y,
              .stride = axis.dilation,
              .dilation = axis.stride,
              .before = axis.before};
  piece.zeros = !crop(piece);
  return {piece};
}

/// A problem of one plane and one tap has no depth, and so one plane of outputs: those that a
/// padding makes beside it have no terms.
std::vector<Piece> with_planes_alone(const std::vector<Piece>& pieces) {
  std::vector<Piece> all;
  for (const Piece& piece : pieces) {
    if (piece.zeros || piece.inputs > 1 || piece.taps > 1 || piece.outputs == 1) {
      all.push_back(piece);
      continue;
    }
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      Piece one = piece;
      one.first += begin * piece.step;
      one.outputs = end - begin;
      return one;
    };
    const bool hit = piece.before % piece.stride == 0;
    const std::int64_t at = piece.before / piece.stride;
    const auto zeros = [&](std::int64_t begin, std::int64_t end) {
      if (begin >= end) return;
      all.push_back(part(begin, end));
      all.back().zeros = true;
    };
    if (!hit || at >= piece.outputs) {
      zeros(0, piece.outputs);
      continue;
    }
    zeros(0, at);
    all.push_back(part(at, at + 1));
    all.back().before = 0;
    zeros(at + 1, piece.outputs);
  }
  return all;
}

/// The five strides of an operand.
Strides all_strides(const ConvOperand& operand) {
  const ConstTensorView view(nullptr, DType::f32, operand.extents, DeviceId{}, operand.strides);
  return with_all_axes(view).strides();
}

class Lower {
 public:
  explicit Lower(const ConvProblem& problem)
      : p_(problem),
        of_data_(problem.direction == Direction::backward_data),
        image_(all_strides(image_of(problem))),
        filters_(all_strides(filters_of(problem))),
        output_(all_strides(output_of(problem))) {}

  ConvLowering lowered() {
    const Axis axes[] = {{p_.d, p_.t, p_.z(), p_.stride.d, p_.dilation.d, p_.padding.front},
                         {p_.h, p_.r, p_.p(), p_.stride.h, p_.dilation.h, p_.padding.top},
                         {p_.w, p_.s, p_.q(), p_.stride.w, p_.dilation.w, p_.padding.left}};
    std::vector<Piece> pieces[3];
    for (int i = 0; i < 3; ++i)
      pieces[i] = of_data_ ? data_pieces(axes[i]) : weights_pieces(axes[i]);
    pieces[0] = with_planes_alone(pieces[0]);
    // All of the axes behind one without terms are one run of zeros.
    const Piece whole[] = {
        {}, {.outputs = of_data_ ? p_.h : p_.r}, {.outputs = of_data_ ? p_.w : p_.s}};
    for (const Piece& d : pieces[0]) {
      if (d.zeros) {
        add_zeros(d, whole[1], whole[2]);
        continue;
      }
      for (const Piece& h : pieces[1]) {
        if (h.zeros) {
          add_zeros(d, h, whole[2]);
          continue;
        }
        for (const Piece& w : pieces[2])
          if (w.zeros)
            add_zeros(d, h, w);
          else
            add(d, h, w);
      }
    }
    return std::move(lowering_);
  }

 private:
  std::int64_t output_at(const Piece& d, const Piece& h, const Piece& w) const {
    return d.first * output_[2] + h.first * output_[3] + w.first * output_[4];
  }

  void add_zeros(const Piece& d, const Piece& h, const Piece& w) {
    LoweredZeros part;
    part.extents = {of_data_ ? p_.n : p_.k, of_data_ ? p_.c : p_.c / p_.groups, d.outputs,
                    h.outputs, w.outputs};
    part.strides = {output_[0], output_[1], d.step * output_[2], h.step * output_[3],
                    w.step * output_[4]};
    part.output = output_at(d, h, w);
    lowering_.zeros.push_back(part);
  }

  /// Its geometry, sizes along the axes, and where it begins.
  LoweredConv along(const Piece& d, const Piece& h, const Piece& w) const {
    LoweredConv part;
    ConvProblem& p = part.problem;
    p.dtype = p_.dtype;
    p.d = d.inputs, p.h = h.inputs, p.w = w.inputs;
    p.t = d.taps, p.r = h.taps, p.s = w.taps;
    p.stride = {d.stride, h.stride, w.stride};
    p.dilation = {d.dilation, h.dilation, w.dilation};
    p.padding = {d.before, h.before, w.before, after(d), after(h), after(w)};
    part.image = d.crop * image_[2] + h.crop * image_[3] + w.crop * image_[4];
    part.output = output_at(d, h, w);
    return part;
  }

  void add(const Piece& d, const Piece& h, const Piece& w) {
    LoweredConv part = along(d, h, w);
    of_data_ ? add_data(part, d, h, w) : add_weights(part, d, h, w);
  }

  /// dy is the image, and its channels, the filters, make those of dx.
  void add_data(LoweredConv& part, const Piece& d, const Piece& h, const Piece& w) {
    ConvProblem& p = part.problem;
    p.n = p_.n, p.c = p_.k, p.k = p_.c, p.groups = p_.groups;
    p.x_strides = image_;
    p.y_strides = {output_[0], output_[1], d.step * output_[2], h.step * output_[3],
                   w.step * output_[4]};
    part.taps = {.first = d.tap * filters_[2] + h.tap * filters_[3] + w.tap * filters_[4],
                 .taps = {d.taps, h.taps, w.taps},
                 .steps = {d.tap_step, h.tap_step, w.tap_step}};
    p = check(p);
    lowering_.convolutions.push_back(part);
  }

  /// The channels of x are images, whose channels are the batch, as are those of dy, the filters.
  void add_weights(LoweredConv& part, const Piece& d, const Piece& h, const Piece& w) {
    ConvProblem& p = part.problem;
    const std::int64_t c = p_.c / p_.groups, k = p_.k / p_.groups;
    p.n = c, p.c = p_.n, p.k = k;
    p.x_strides = {image_[1], image_[0], image_[2], image_[3], image_[4]};
    p.w_strides = {filters_[1], filters_[0], filters_[2], filters_[3], filters_[4]};
    p.y_strides = {output_[1], output_[0], d.step * output_[2], h.step * output_[3],
                   w.step * output_[4]};
    p = check(p);
    for (std::int64_t g = 0; g < p_.groups; ++g) {
      LoweredConv one = part;
      one.image += g * c * image_[1];
      one.filters += g * k * filters_[1];
      one.output += g * k * output_[0];
      lowering_.convolutions.push_back(one);
    }
  }

  const ConvProblem& p_;
  bool of_data_;
  Strides image_, filters_, output_;
  ConvLowering lowering_;
};

}  // namespace

ConvLowering lower(const ConvProblem& problem) { return Lower(problem).lowered(); }

}  // namespace plumb
