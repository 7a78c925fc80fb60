// Which convolutions of few terms the kernel takes, and how it shares them out.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "cuda_kernels/cost/pointwise_taps.hpp"
#include "cuda_kernels/pointwise/pointwise_taps.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

using std::int64_t;

/// Where a term lies in x, of as many as there is room for.
constexpr int64_t table_bytes = int64_t{max_taps_terms} * 16;
/// What a block's filters may take, so that two blocks share a multiprocessor.
constexpr int64_t max_filter_bytes = 64 << 10;

int64_t chunk_shared_bytes(const TapsFilters& filters) {
  return filters.chunk_bytes() + taps_chunk * static_cast<int64_t>(sizeof(float));
}
int64_t shared_bytes_of(const TapsFilters& filters, int chunks) {
  return chunks * chunk_shared_bytes(filters) + 2 * taps_stage_bytes + table_bytes;
}
int tile_pixels(const PointwiseClass& of) { return taps_warps * of.pixels(); }
int resident_of(const TapsFilters& filters) {
  return taps_resident(filters.units * filters.of.unit());
}
double pixels_of(const ConvProblem& p) {
  return static_cast<double>(p.n) * static_cast<double>(p.z()) * static_cast<double>(p.p()) *
         static_cast<double>(p.q());
}

/// How far an axis leads, with its padding and a tap beyond.
double swept(int64_t extent, int64_t before, int64_t after, int64_t taps, int64_t dilation,
             int64_t stride) {
  const int64_t positions = before + extent + after + (taps > 1 ? dilation : 1);
  return extent > 1 ? static_cast<double>(positions) * std::abs(static_cast<double>(stride))
                    : static_cast<double>(positions);
}

/// How many images 32 bits index, with room for a tile beyond the last; 0 where not one.
int64_t indexed_images(const ConvProblem& p) {
  constexpr double limit = 0x7fff0000;
  const Strides &x = p.x_strides, &y = p.y_strides;
  const int last = p.x_extents().rank() - 1;
  double of_x = static_cast<double>(p.c) * std::abs(static_cast<double>(x[1])) +
                swept(p.h, p.padding.top, p.padding.bottom, p.r, p.dilation.h, x[last - 1]) +
                swept(p.w, p.padding.left, p.padding.right, p.s, p.dilation.w, x[last]);
  if (last == 4) of_x += swept(p.d, p.padding.front, p.padding.back, p.t, p.dilation.d, x[2]);
  double of_y = 1;
  const Extents extents = p.y_extents();
  for (int i = 1; i <= last; ++i)
    of_y += static_cast<double>(extents[i] - 1) * std::abs(static_cast<double>(y[i]));
  if (of_x >= limit || of_y >= limit) return 0;
  double images = limit / (pixels_of(p) / static_cast<double>(std::max<int64_t>(p.n, 1)));
  for (const auto& [of_image, step] : {std::pair{of_x, x[0]}, std::pair{of_y, y[0]}})
    if (p.n > 1 && step != 0)
      images = std::min(images, (limit - of_image) / std::abs(static_cast<double>(step)) + 1);
  return static_cast<int64_t>(images);
}

TapsWork work_of(const ConvProblem& p, const TapsFilters& filters, const TapsCut& cut) {
  const PointwiseClass& of = filters.of;
  return {.pixels = pixels_of(p),
          .tile_pixels = tile_pixels(of),
          .warps = taps_warps,
          .resident = resident_of(filters),
          .steps = filters.steps(),
          .step_terms = filters.step_terms(),
          .element_bytes = of.bytes(),
          .products = of.products,
          .chunk_filters = taps_chunk,
          .group_chunks = cut.group_chunks,
          .groups = cut.groups,
          .blocks = cut.blocks,
          .padded = p.padding != Padding{},
          .writes_elements = taps_output(p, filters, false, nullptr) == TapsOutput::elements,
          .read_bytes = bytes_of(p, p.x_extents()),
          .written_bytes = bytes_of(p, p.y_extents()),
          .group_bytes = static_cast<double>(cut.group_chunks) * filters.chunk_bytes()};
}

/// Groups as few as shared memory wants, or as many as fill the device.
TapsCut cut_taps(const ConvProblem& p, const TapsFilters& filters, const DeviceInfo& device,
                 int wanted) {
  const int64_t beside = shared_bytes_of(filters, 0);
  const int64_t room =
      std::min(max_filter_bytes, static_cast<int64_t>(device.shared_memory_bytes) - beside);
  const int most =
      static_cast<int>(std::clamp<int64_t>(room / chunk_shared_bytes(filters), 1, filters.chunks));
  const int at_once = resident_of(filters) * std::max(device.units, 1);
  const double tiles = pixels_of(p) / tile_pixels(filters.of);
  TapsCut best{.seconds = std::numeric_limits<double>::infinity()};
  int before = 0;
  for (int chunks = most; chunks >= 1; --chunks) {
    TapsCut cut{.groups = static_cast<int>(ceil_div(filters.chunks, chunks))};
    if (wanted > 0 ? chunks != std::min(wanted, most) : cut.groups == before) continue;
    before = cut.groups;
    cut.group_chunks = wanted > 0 ? chunks : static_cast<int>(ceil_div(filters.chunks, cut.groups));
    cut.blocks = std::max(at_once / cut.groups, 1);
    if (tiles < cut.blocks) cut.blocks = static_cast<int>(tiles) + 1;
    cut.seconds = taps_seconds(device, work_of(p, filters, cut));
    if (cut.seconds < best.seconds) best = cut;
  }
  return best;
}

}  // namespace

TapsFilters::TapsFilters(const ConvProblem& p, const PointwiseClass& arithmetic)
    : of(arithmetic),
      k(static_cast<int>(p.k)),
      terms(static_cast<int>(p.c * p.t * p.r * p.s)),
      t(static_cast<int>(p.t)),
      r(static_cast<int>(p.r)),
      s(static_cast<int>(p.s)),
      chunks(static_cast<int>(ceil_div(p.k, int64_t{taps_chunk}))) {
  units = (terms <= taps_rooms[0] ? taps_rooms[0] : taps_rooms[1]) / of.unit();
}

std::size_t TapsFilters::bytes() const {
  return static_cast<std::size_t>(dense_at() + int64_t{k} * terms * of.bytes());
}

TapsRun::TapsRun(const ConvProblem& p) {
  const Strides& y = p.y_strides;
  const int last = p.y_extents().rank() - 1;
  const std::pair<int64_t, int64_t> axes[] = {
      {p.q(), y[last]}, {p.p(), y[last - 1]}, {p.z(), last == 4 ? y[2] : 0}, {p.n, y[0]}};
  for (const auto& [extent, along] : axes) {
    if (extent == 1) continue;
    if (pixels > 1 && along != step * pixels) break;
    if (pixels == 1) step = along;
    pixels *= extent;
  }
}

TapsOutput taps_output(const ConvProblem& p, const TapsFilters& filters, bool accumulates,
                       const void* y) {
  constexpr int64_t beside = 4;  // a lane's filters of a pixel
  const TapsRun run(p);
  const int64_t enough = std::min<int64_t>(tile_pixels(filters.of) / (max_taps_pieces - 1),
                                           static_cast<int64_t>(pixels_of(p)));
  // What y holds is added before sums are rounded.
  if (!accumulates && (run.step == 1 || run.pixels == 1) && run.pixels >= enough)
    return TapsOutput::planes;
  const Extents extents = p.y_extents();
  bool aligned = reinterpret_cast<std::uintptr_t>(y) %
                         static_cast<std::uintptr_t>(beside * filters.of.bytes()) ==
                     0 &&
                 p.y_strides[1] == 1 && p.k % beside == 0;
  for (int i = 0; i < extents.rank(); ++i)
    aligned = aligned && (i == 1 || extents[i] == 1 || p.y_strides[i] % beside == 0);
  return aligned ? TapsOutput::filters : TapsOutput::elements;
}

Support supports_taps(const ConvProblem& p, const PointwiseClass& of, const DeviceInfo& device) {
  const auto refuse = [](Reason reason, std::string sentence) {
    return Support{reason, std::move(sentence)};
  };
  if (p.groups != 1)
    return refuse(Reason::geometry, std::to_string(p.groups) + " groups; expected 1");
  if (Support stored = supports_dtypes({of.stored}, p); !stored) return stored;
  // As a double: a problem may have any number of channels.
  if (const double terms = static_cast<double>(p.c) * static_cast<double>(p.t) *
                           static_cast<double>(p.r) * static_cast<double>(p.s);
      terms > max_taps_terms)
    return refuse(Reason::geometry, std::to_string(p.c) + " channels under filters of " +
                                        std::to_string(p.t) + "x" + std::to_string(p.r) + "x" +
                                        std::to_string(p.s) + "; expected at most " +
                                        std::to_string(max_taps_terms) + " terms");
  if (indexed_images(p) == 0)
    return refuse(Reason::too_large, "an image of " + to_string(p.x_extents()) + " to " +
                                         to_string(p.y_extents()) +
                                         " elements, whose offsets pass 2^31; expected fewer");
  constexpr int min_compute_major = 8;
  if (device.compute_major < min_compute_major)
    return refuse(Reason::device_limit, "no mma.sync of this arithmetic; expected sm_80 or newer");
  if (shared_bytes_of(TapsFilters(p, of), 1) > static_cast<int64_t>(device.shared_memory_bytes))
    return refuse(Reason::device_limit,
                  "outputs of a tile do not fit the shared memory of a block");
  return {};
}

TapsPlan::TapsPlan(const ConvProblem& problem, const PointwiseClass& of, const DeviceInfo& device,
                   int group_chunks)
    : filters(problem, of), images(indexed_images(problem)) {
  if (problem.n == 0) return;
  ConvProblem slice = problem;
  slice.n = std::min(images, problem.n);
  cut = cut_taps(slice, filters, device, group_chunks);
  seconds = cut.seconds * static_cast<double>(problem.n) / static_cast<double>(slice.n);
}

std::size_t TapsPlan::shared_bytes() const {
  return static_cast<std::size_t>(shared_bytes_of(filters, cut.group_chunks));
}

}  // namespace plumb::cuda
