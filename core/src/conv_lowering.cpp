#include "conv_lowering.hpp"

#include <algorithm>
#include <array>
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

std::array<Axis, 3> axes_of(const ConvProblem& p) {
  return {Axis{p.d, p.t, p.z(), p.stride.d, p.dilation.d, p.padding.front},
          Axis{p.h, p.r, p.p(), p.stride.h, p.dilation.h, p.padding.top},
          Axis{p.w, p.s, p.q(), p.stride.w, p.dilation.w, p.padding.left}};
}

/// All phases of an axis at once, as outputs of one convolution.
struct JoinedAxis {
  Piece piece;  ///< its outputs are those of each phase
  std::int64_t phases = 1, offset = 0;
};

std::optional<JoinedAxis> joined(const Axis& axis) {
  // Where there is one place there are no others, whatever the stride.
  const bool strided = axis.stride > 1 && (axis.x > 1 || axis.w > 1 || axis.y > 1);
  if (!strided) {
    const JoinedAxis one{.piece =
                             phase_of({axis.x, axis.w, axis.y, 1, axis.dilation, axis.before}, 0)};
    return one.piece.zeros ? std::nullopt : std::optional(one);
  }
  if (axis.w < axis.stride || (axis.dilation > 1 && axis.w > 1)) return std::nullopt;
  // Pixel h is met by tap r of output p where h + before = p stride + r.
  const std::int64_t first = axis.before / axis.stride;
  JoinedAxis all{.phases = axis.stride, .offset = axis.before - first * axis.stride};
  all.piece.outputs = (axis.before + axis.x - 1) / axis.stride - first + 1;
  all.piece.taps = (axis.w - 1) / axis.stride + 1;
  all.piece.before = all.piece.taps - 1 - first;
  all.piece.inputs = axis.y;
  if (!crop(all.piece)) return std::nullopt;
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
    const auto axes = axes_of(p_);
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

ConvProblem with_taps_apart(ConvProblem p) {
  const auto set_apart = [](std::int64_t outputs, std::int64_t taps, std::int64_t dilation,
                            std::int64_t& stride) {
    if (outputs == 1) stride = std::max(stride, (taps - 1) * dilation + 1);
  };
  set_apart(p.z(), p.t, p.dilation.d, p.stride.d);
  set_apart(p.p(), p.r, p.dilation.h, p.stride.h);
  set_apart(p.q(), p.s, p.dilation.w, p.stride.w);
  return p;
}

ConvLowering lower(const ConvProblem& problem) { return Lower(problem).lowered(); }

bool JoinedLowering::has_single_taps() const {
  const std::int64_t taps[] = {problem.t, problem.r, problem.s};
  for (int i = 0; i < 3; ++i)
    if (phases[i] > 1 && taps[i] > 1) return false;
  return true;
}

LoweredTaps JoinedLowering::taps_of(const ConvProblem& whole,
                                    const std::int64_t (&phase)[3]) const {
  const Strides w = all_strides(filters_of(whole));
  const std::int64_t of_w[] = {whole.t, whole.r, whole.s};
  LoweredTaps some;
  for (int i = 0; i < 3; ++i) {
    some.taps[i] = (of_w[i] - phase[i] - 1) / phases[i] + 1;
    some.steps[i] = -phases[i];
    some.first += (phase[i] + (some.taps[i] - 1) * phases[i]) * w[i + 2];  // the last comes first
  }
  return some;
}

std::optional<JoinedLowering> lower_joined(const ConvProblem& problem) {
  JoinedLowering all;
  ConvProblem& p = all.problem;
  const Strides image = all_strides(image_of(problem)), output = all_strides(output_of(problem));
  std::int64_t *const inputs[] = {&p.d, &p.h, &p.w}, *const taps[] = {&p.t, &p.r, &p.s};
  Padding& pad = p.padding;
  std::int64_t *const before[] = {&pad.front, &pad.top, &pad.left}, *const behind[] = {&pad.back,
                                                                                       &pad.bottom,
                                                                                       &pad.right};
  const auto axes = axes_of(problem);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::optional<JoinedAxis> axis = joined(axes[i]);
    if (!axis) return std::nullopt;
    const Piece& piece = axis->piece;
    // A problem of one plane and one tap has no depth.
    if (i == 0 && piece.inputs == 1 && piece.taps == 1 && piece.outputs > 1) return std::nullopt;
    *inputs[i] = piece.inputs;
    *taps[i] = piece.taps;
    *before[i] = piece.before;
    *behind[i] = after(piece);
    all.phases[i] = axis->phases;
    all.offset[i] = axis->offset;
    all.image += piece.crop * image[static_cast<int>(i) + 2];
  }
  if (all.phase_count() == 1) return std::nullopt;
  p.dtype = problem.dtype;
  p.n = problem.n, p.c = problem.k, p.groups = problem.groups;
  p.k = problem.c * all.phase_count();
  for (std::size_t i = 0; i < 3; ++i)
    if (axes[i].stride == 1)
      (i == 0 ? p.dilation.d : i == 1 ? p.dilation.h : p.dilation.w) = axes[i].dilation;
  p.x_strides = image;
  const bool innermost = problem.c > 1 && output[1] == 1;
  p = check(p);
  if (innermost) {
    p.y_strides = strides_for(Layout::nhwc, p.y_extents());
    p = check(p);
  }
  return all;
}

}  // namespace plumb
