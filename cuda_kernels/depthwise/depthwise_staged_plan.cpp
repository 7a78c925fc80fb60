// How a march over staged rows is cut into blocks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda_kernels/cost/depthwise.hpp"
#include "cuda_kernels/depthwise/depthwise.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"

namespace plumb::cuda {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

/// One axis of the image. A stride to no second output moves nothing. A dilation parts outputs of
/// stride 1 into as many phases.
struct Axis {
  std::int64_t extent, taps, outputs, stride, phases, before;

  Axis(std::int64_t of, std::int64_t of_taps, std::int64_t of_outputs, std::int64_t by,
       std::int64_t dilation, std::int64_t padding)
      : extent(of),
        taps(of_taps),
        outputs(of_outputs),
        stride(by),
        phases(dilation),
        before(padding) {}

  bool fits(const StagedForm& form) const {
    const bool strided = outputs == 1 || stride == form.stride;
    return taps == form.taps && strided && (form.stride == 1 || phases == 1);
  }
  std::int64_t of_phase() const { return ceil_div(outputs, phases); }
};

class StagedPlanner {
 public:
  StagedPlanner(const ConvProblem& p, const DeviceInfo& device, const DepthwiseChoice& choice)
      : p_(p),
        device_(device),
        choice_(choice),
        bytes_(static_cast<int>(size_in_bytes(p.dtype))),
        sum_bytes_(p.dtype == DType::f64 ? 8 : 4),
        width_(staged_width(static_cast<std::size_t>(bytes_))),
        vector_(16 / bytes_),
        rows_(p.h, p.r, p.p(), p.stride.h, p.dilation.h, p.padding.top),
        columns_(p.w, p.s, p.q(), p.stride.w, p.dilation.w, p.padding.left) {}

  std::optional<double> plan(DepthwisePlan& plan) const {
    const std::optional<StagedForm> form = form_of();
    if (!form || !lies_in_vectors()) return {};
    std::optional<double> least;
    const auto consider = [&](int lanes, int length, int images) {
      const std::optional<StagedCut> cut = this->cut(*form, lanes, length, images);
      if (!cut) return;
      const double seconds = depthwise_seconds(p_, device_, work_of(*cut));
      if (!least || seconds < *least) least = seconds, plan.staged = *cut;
    };
    for (int lanes = max_lanes; lanes * width_ >= vector_; --lanes) {
      // Pieces of sectors only where a dilation leaves room for no more.
      if (least && lanes * width_ * bytes_ < memory_sector_bytes) break;
      if (!balanced(lanes) || (choice_.lanes > 0 && lanes > choice_.lanes)) continue;
      for_each_share([&](int length, int images) { consider(lanes, length, images); });
      if (choice_.lanes > 0 && least) break;
    }
    return least;
  }

 private:
  static constexpr int max_lanes = 32;
  static constexpr std::int64_t shared_of_unit = 228 << 10;

  /// What a warp may have of the rows: a segment of an image, or short images one after another, as
  /// many as there are bits for a thread's rows of outputs.
  template <class Consider>
  void for_each_share(const Consider& consider) const {
    const int most =
        static_cast<int>(std::clamp<std::int64_t>(march_max_length / rows_.of_phase(), 1, p_.n));
    const int asked = std::min(choice_.images, most);
    if (choice_.length > 0) return consider(choice_.length, 1);
    if (asked > 1) return consider(march_max_length, asked);
    for (const int length : {64, 56, 28, 19, 14, 10, 7, 5, 4, 3, 2, 1}) consider(length, 1);
    for (int images = 2; asked == 0 && images <= most; images *= 2)
      consider(march_max_length, images);
  }

  std::optional<StagedForm> form_of() const {
    for (const StagedForm& form : staged_forms)
      if (rows_.fits(form) && columns_.fits(form)) return form;
    return {};
  }
  /// Channels side by side, in whole vectors wherever the other strides lead.
  bool lies_in_vectors() const {
    return is_plain_image(p_) && p_.c % vector_ == 0 &&
           channels_in_vectors(p_.x_extents(), p_.x_strides, vector_) &&
           channels_in_vectors(p_.y_extents(), p_.y_strides, width_);
  }
  /// Whether no fewer lanes make as few groups of channels.
  bool balanced(int lanes) const {
    const std::int64_t channels = std::int64_t{lanes} * width_;
    if (channels % vector_ != 0 || channels > p_.c) return false;
    const std::int64_t groups = ceil_div(p_.c, channels);
    return ceil_div(p_.c, channels - vector_ > 0 ? channels - vector_ : 1) > groups;
  }

  /// The cut of a warp of so many lanes along the channels: its others are along the columns.
  std::optional<StagedCut> cut(const StagedForm& form, int lanes, std::int64_t length,
                               int images) const {
    StagedCut cut{.form = form, .channels = lanes * width_, .images = images};
    const std::int64_t longest = std::clamp<std::int64_t>(length, 1, march_max_length);
    const std::int64_t outputs = rows_.of_phase();
    cut.length = static_cast<int>(ceil_div(outputs, ceil_div(outputs, longest)));
    constexpr std::int64_t max_phases = 1 << 20;  // columns of a thread beyond the last stay ints
    if (rows_.phases > max_phases || columns_.phases > max_phases) return {};
    cut.row_phases = static_cast<int>(rows_.phases);
    cut.column_phases = static_cast<int>(columns_.phases);
    const std::int64_t chunks = ceil_div(columns_.of_phase(), staged_columns);
    // Blocks load while others sum: as many as registers have room for.
    constexpr std::int64_t alone = 1 << 10;
    const std::int64_t room = shared_of_unit / staged_blocks(form.taps, form.stride) - alone;
    for (std::int64_t some = std::min<std::int64_t>(chunks, 32 / lanes); some > 0; --some) {
      // Warps along the columns are as wide as each other.
      cut.runs = static_cast<int>(ceil_div(chunks, ceil_div(chunks, some)));
      for (int warps = std::min(choice_.threads, staged_threads) / 32; warps > 0; --warps) {
        cut.threads = 32 * warps;
        if (measure(cut) <= room) return cut;
      }
    }
    return {};
  }
  /// Counts the shared memory of a cut. One whose lanes would copy too much takes more than there
  /// is.
  std::int64_t measure(StagedCut& cut) const {
    const auto bytes = static_cast<std::size_t>(bytes_);
    const int columns = staged_window(cut.form, cut.runs), vectors = cut.channels / vector_;
    if (ceil_div(columns, 32 / vectors) > staged_copies(cut.form.taps, cut.form.stride, bytes))
      return shared_of_unit;
    const int weights = cut.form.taps * cut.form.taps * cut.channels;
    cut.filter_bytes = static_cast<int>(ceil_div(std::int64_t{weights} * sum_bytes_, 16) * 16);
    cut.shared_bytes = cut.filter_bytes + cut.threads / 32 * staged_depth(cut.form.stride, bytes) *
                                              columns * cut.channels * bytes_;
    return cut.shared_bytes;
  }

  /// Of the rows of taps of all outputs, those that the image has.
  double taps_inside() const {
    double inside = 0;
    for (std::int64_t r = 0; r < rows_.taps; ++r) {
      const std::int64_t from = r * rows_.phases - rows_.before;
      const std::int64_t stride = rows_.outputs > 1 ? rows_.stride : 1;
      const std::int64_t first = from < 0 ? std::min(ceil_div(-from, stride), rows_.outputs) : 0;
      const std::int64_t end =
          from < rows_.extent ? std::min(ceil_div(rows_.extent - from, stride), rows_.outputs) : 0;
      inside += number(std::max<std::int64_t>(end - first, 0));
    }
    return inside / number(rows_.taps * rows_.outputs);
  }

  /// Sectors that the channels of a pixel touch, in the mean of where they may begin.
  double sectors_of(const StagedCut& cut) const {
    constexpr int sector = memory_sector_bytes;
    const int piece = cut.channels * bytes_;
    const bool whole = piece % sector == 0 && p_.c * bytes_ % sector == 0;
    return whole ? piece / sector : piece / static_cast<double>(sector) + 0.5;
  }

  /// What a thread issues and waits for, counted in depthwise_staged.cuh as it stands.
  DepthwiseWork work_of(const StagedCut& cut) const {
    constexpr double lanes = 32, line_bytes = 128, shared_of_launch = 1 << 10;
    const StagedForm& form = cut.form;
    const double taps = form.taps, live = std::ceil(taps / form.stride), width = width_;
    const double threads = cut.threads, columns = staged_columns, images = cut.images;
    const double by_shared =
        std::floor(number(shared_of_unit) / (cut.shared_bytes + shared_of_launch));
    const double by_registers =
        std::floor(staged_blocks(form.taps, form.stride) * staged_threads / threads);
    DepthwiseWork work{.blocks = number(staged_blocks_of(cut, p_)),
                       .resident = std::clamp(std::min(by_shared, by_registers), 1.0, 32.0),
                       .warps = threads / lanes,
                       .staged = true,
                       .is_double = bytes_ == 8};
    const bool few_taps = staged_few_taps(form.taps);
    const double inside = taps_inside();
    const double steps = images * (cut.length + live - 1), rows = steps * form.stride * inside;
    // Few taps meet outputs of the neighbours too, which are not kept.
    const double tap_rows = (few_taps ? steps : images * cut.length) * taps * inside;
    const double window = staged_window(form, 1), columns_in = staged_window(form, cut.runs);
    const double weights = few_taps ? taps * taps : tap_rows * taps;
    const double copies = std::ceil(columns_in / (32 / (cut.channels / vector_)));
    const double filters = std::ceil(cut.channels * taps * taps / threads);
    const double widened = bytes_ == 2 ? width : 0;
    const double moved = live > 3 ? (live - 1) * columns * width : 0;
    const double made = images * cut.length;
    work.fmas = tap_rows * taps * columns * width;
    work.instructions = 300 + 15 * filters + weights + steps * (moved + 12) +
                        rows * (100 + 5 * copies + window * (1 + widened)) +
                        made * (20 + columns * (4 + 2 * width));
    // Channels of a pixel are one piece of memory. L2 hands on whole sectors of it, 64 bytes in a
    // clock, and a piece is at least a line of its own.
    constexpr double copy_bytes = 16, sector = memory_sector_bytes, l2_bytes = 64;
    const double piece = cut.channels * bytes_, waste = sectors_of(cut) * sector / piece;
    const double of_warp = lanes * copy_bytes;
    const double read = std::max(of_warp * waste / l2_bytes, of_warp / piece);
    const double words = width * bytes_ * lanes / line_bytes;
    const double written = std::max(words * waste, lanes * width / cut.channels);
    work.lines = rows * (window * words + copies * (read + of_warp / line_bytes)) +
                 weights * width * sum_bytes_ * lanes / line_bytes + made * columns * written +
                 2 * filters;
    work.piece_bytes = piece;
    work.memory_waits = 2;
    work.filter_waits = std::ceil(filters / 4);
    return work;
  }

  const ConvProblem& p_;
  const DeviceInfo& device_;
  DepthwiseChoice choice_;
  int bytes_, sum_bytes_, width_, vector_;
  Axis rows_, columns_;
};

}  // namespace

std::int64_t staged_chunks(const StagedCut& cut, const ConvProblem& problem) {
  return ceil_div(ceil_div(problem.q(), std::int64_t{cut.column_phases}),
                  std::int64_t{cut.runs} * staged_columns);
}
std::int64_t staged_segments(const StagedCut& cut, const ConvProblem& problem) {
  return ceil_div(ceil_div(problem.p(), std::int64_t{cut.row_phases}), std::int64_t{cut.length});
}
std::int64_t staged_blocks_of(const StagedCut& cut, const ConvProblem& problem) {
  const std::int64_t warps = staged_chunks(cut, problem) * cut.column_phases *
                             staged_segments(cut, problem) * cut.row_phases *
                             ceil_div(problem.n, std::int64_t{cut.images});
  return ceil_div(warps, std::int64_t{cut.threads} / 32) *
         ceil_div(problem.k, std::int64_t{cut.channels});
}

std::optional<double> plan_staged(const ConvProblem& problem, const DeviceInfo& device,
                                  const DepthwiseChoice& choice, DepthwisePlan& plan) {
  return StagedPlanner(problem, device, choice).plan(plan);
}

}  // namespace plumb::cuda
