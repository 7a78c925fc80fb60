// How small images are cut into blocks that hold their planes whole.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda_kernels/cost/depthwise.hpp"
#include "cuda_kernels/depthwise/depthwise.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"

namespace plumb::cuda {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

std::int64_t round_up(std::int64_t value, std::int64_t to) { return ceil_div(value, to) * to; }

/// One axis: a stride to no second output and a dilation of one tap move nothing.
struct Axis {
  std::int64_t extent, taps, outputs, stride, dilation, before;

  Axis(std::int64_t of, std::int64_t of_taps, std::int64_t of_outputs, std::int64_t by,
       std::int64_t dilated, std::int64_t padding)
      : extent(of),
        taps(of_taps),
        outputs(of_outputs),
        stride(of_outputs > 1 ? by : 1),
        dilation(of_taps > 1 ? dilated : 1),
        before(padding) {}
};

class WholePlanner {
 public:
  WholePlanner(const ConvProblem& p, const DeviceInfo& device)
      : p_(p),
        device_(device),
        bytes_(static_cast<int>(size_in_bytes(p.dtype))),
        sum_bytes_(p.dtype == DType::f64 ? 8 : 4),
        thread_columns_(whole_columns(static_cast<std::size_t>(bytes_))),
        rows_(p.h, p.r, p.p(), p.stride.h, p.dilation.h, p.padding.top),
        columns_(p.w, p.s, p.q(), p.stride.w, p.dilation.w, p.padding.left) {}

  bool plan(DepthwisePlan& plan) const {
    const std::optional<WholeForm> form = form_of();
    if (!form || !lies_dense()) return false;
    double least = std::numeric_limits<double>::infinity();
    constexpr int max_planes = 64;
    const std::int64_t all = p_.n * p_.k;
    for (int planes = 1; planes <= std::min<std::int64_t>(max_planes, all); ++planes) {
      const std::optional<WholeCut> cut = this->cut(*form, planes);
      if (!cut) break;
      const double seconds = depthwise_seconds(p_, device_, work_of(*cut));
      if (seconds < least) least = seconds, plan.whole = *cut, plan.seconds = seconds;
    }
    return plan.whole.has_value();
  }

 private:
  /// A form of any dilation stands behind those of the same taps.
  std::optional<WholeForm> form_of() const {
    for (const WholeForm& form : whole_forms)
      if (form.taps == columns_.taps && form.stride == columns_.stride &&
          (form.dilation == columns_.dilation || form.dilation == 0))
        return form;
    return {};
  }
  bool lies_dense() const {
    return is_plain_image(p_) && rows_.before >= 0 && columns_.before >= 0 &&
           is_dense(p_.x_extents(), p_.x_strides) && is_dense(p_.y_extents(), p_.y_strides);
  }
  static bool is_dense(const Extents& extents, const Strides& strides) {
    const Strides dense = dense_strides(extents);
    for (int i = 0; i < extents.rank(); ++i)
      if (extents[i] > 1 && strides[i] != dense[i]) return false;
    return true;
  }

  std::int64_t groups() const { return ceil_div(columns_.outputs, thread_columns_); }
  /// A thread's window of input in a row, or the columns of one tap after the other.
  std::int64_t window(const WholeForm& form) const {
    return form.dilation > 0 ? whole_window(form, thread_columns_)
                             : thread_columns_ + (columns_.taps - 1) * columns_.dilation;
  }

  std::optional<WholeCut> cut(const WholeForm& form, int planes) const {
    const std::int64_t rows =
        std::max(rows_.before + rows_.extent,
                 (rows_.outputs - 1) * rows_.stride + (rows_.taps - 1) * rows_.dilation + 1);
    const std::int64_t reached = (groups() - 1) * thread_columns_ * columns_.stride + window(form);
    const std::int64_t pitch = round_up(std::max(columns_.before + columns_.extent, reached), 4);
    // As far as registers have room for blocks, and one plane in any case.
    constexpr std::int64_t shared_of_block = 227 << 10, shared_for_four = 56 << 10, alignment = 16;
    const std::int64_t most = planes > 1 ? shared_for_four : shared_of_block;
    if (rows > most || pitch > most) return {};
    const std::int64_t filters =
        round_up(planes * rows_.taps * columns_.taps * sum_bytes_, alignment);
    const std::int64_t outputs =
        round_up(planes * rows_.outputs * columns_.outputs * bytes_, alignment);
    const std::int64_t all = filters + outputs + planes * rows * pitch * sum_bytes_;
    if (all > most) return {};
    return WholeCut{.form = form,
                    .planes = planes,
                    .rows = static_cast<int>(rows),
                    .pitch = static_cast<int>(pitch),
                    .filter_bytes = static_cast<int>(filters),
                    .y_bytes = static_cast<int>(outputs),
                    .shared_bytes = static_cast<int>(all)};
  }

  /// What a thread issues and waits for, counted in the loops of depthwise_whole.cuh as they stand.
  DepthwiseWork work_of(const WholeCut& cut) const {
    constexpr double threads = depthwise_threads, lanes = 32, line_bytes = 128;
    constexpr double shared_of_unit = 228 << 10, shared_of_launch = 1 << 10;
    const double by_shared = std::floor(shared_of_unit / (cut.shared_bytes + shared_of_launch));
    const double vector = 16.0 / bytes_, word = 16.0 / sum_bytes_, columns = thread_columns_;
    const double planes = cut.planes;
    DepthwiseWork work{
        .blocks = std::ceil(number(p_.n * p_.k) / planes),
        .resident = std::clamp(by_shared, 1.0,
                               static_cast<double>(whole_blocks(static_cast<std::size_t>(bytes_)))),
        .warps = threads / lanes,
        .in_turn = true,
        .is_double = bytes_ == 8};
    const auto of_thread = [&](double count) { return std::ceil(count / threads); };
    const bool x_in_vectors = cut.planes * p_.h * p_.w * bytes_ % 16 == 0;
    const bool y_in_vectors = cut.planes * p_.p() * p_.q() * bytes_ % 16 == 0;
    const double cleared = of_thread(planes * cut.rows * cut.pitch / word);
    const double filters = of_thread(planes * number(rows_.taps * columns_.taps));
    const double inputs = planes * number(p_.h * p_.w);
    const double loads = of_thread(inputs / (x_in_vectors ? vector : 1));
    const double loaded = loads * (x_in_vectors ? vector : 1);
    const double items = of_thread(planes * number(rows_.outputs * groups()));
    const double lines = items * number(rows_.taps);
    const double outputs = planes * number(p_.p() * p_.q());
    const double stores = of_thread(outputs / (y_in_vectors ? vector : 1));
    const double reads = cut.form.dilation > 0 ? whole_window(cut.form, thread_columns_) / word
                                               : columns * cut.form.taps;
    work.fmas = lines * cut.form.taps * columns;
    work.instructions = 150 + 4 * cleared + 30 * filters + 25 * loads + 7 * loaded +
                        items * (60 + 10 * columns) + lines * (6 + reads + cut.form.taps) +
                        6 * stores;
    if (bytes_ == 2) work.converted = items * columns;
    // Loads are under way in pairs.
    work.memory_waits = std::ceil(loads / 2) + 1;
    work.filter_waits = std::ceil(filters / 4);
    // Words of shared memory take a wave for every four lanes, and outputs meet in the same bank.
    const double wave_of_read = cut.form.dilation > 0 ? 4 : 1;
    work.lines =
        4 * cleared + filters + 2 * loaded + lines * (reads * wave_of_read + cut.form.taps) +
        2 * items * columns +
        (loads * (x_in_vectors ? 16 : bytes_) + stores * (y_in_vectors ? 16 : bytes_) * 2) * lanes /
            line_bytes;
    return work;
  }

  const ConvProblem& p_;
  const DeviceInfo& device_;
  int bytes_, sum_bytes_, thread_columns_;
  Axis rows_, columns_;
};

}  // namespace

bool plan_whole(const ConvProblem& problem, const DeviceInfo& device, DepthwisePlan& plan) {
  return WholePlanner(problem, device).plan(plan);
}

}  // namespace plumb::cuda
