// Which convolutions the kernel takes, and how it shares them out.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "cuda_kernels/cost/pointwise.hpp"
#include "cuda_kernels/pointwise/pointwise.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

using std::int64_t;

/// What a block's filters leave of 256 KB is L1, which warps that have the same pixels meet in.
constexpr int64_t usual_shared_bytes = 128 << 10;

int64_t bias_bytes(const PointwiseFilters& filters) {
  return filters.filters_of_chunk() * static_cast<int64_t>(sizeof(float));
}
int64_t chunk_shared_bytes(const PointwiseFilters& filters) {
  return filters.chunk_bytes() + bias_bytes(filters);
}

/// Puts an axis around those that are there, as a part of the outermost where it follows it.
void put_axis(PointwisePixels& pixels, int64_t extent, int64_t x_step, int64_t y_step) {
  if (extent == 1) return;
  const int last = pixels.axes - 1;
  if (pixels.extent[last] == 1) {
    pixels.extent[last] = extent, pixels.x_step[last] = x_step, pixels.y_step[last] = y_step;
  } else if (x_step == pixels.x_step[last] * pixels.extent[last] &&
             y_step == pixels.y_step[last] * pixels.extent[last]) {
    pixels.extent[last] *= extent;
  } else {
    pixels.extent[pixels.axes] = extent;
    pixels.x_step[pixels.axes] = x_step, pixels.y_step[pixels.axes] = y_step;
    ++pixels.axes;
  }
}

/// How a tensor's pixels and channels lie.
struct Lie {
  int64_t channels, channel_step;
  const PointwisePixels& pixels;
  const int64_t (&step)[PointwisePixels::all_axes];
  int64_t bytes;
  std::uintptr_t address;

  bool aligned(int64_t vector) const {
    return address % static_cast<std::uintptr_t>(vector * bytes) == 0;
  }
  bool has_runs_of_channels(int64_t vector) const {
    bool runs = (channels == 1 || channel_step == 1) && channels % vector == 0 && aligned(vector);
    for (int i = 0; i < pixels.axes; ++i) runs = runs && step[i] % vector == 0;
    return runs;
  }
  bool has_runs_of_pixels(int64_t vector) const {
    bool runs = step[0] == 1 && pixels.extent[0] % vector == 0 && aligned(vector) &&
                (channels == 1 || channel_step % vector == 0);
    for (int i = 1; i < pixels.axes; ++i) runs = runs && step[i] % vector == 0;
    return runs;
  }
};

}  // namespace

PointwisePixels::PointwisePixels(const ConvProblem& p) {
  const int rank = p.x_extents().rank();
  const Strides &x = p.x_strides, &y = p.y_strides;
  // A stride to no second output moves nothing and may be any number: such an axis is left out.
  put_axis(*this, p.q(), x[rank - 1] * p.stride.w, y[rank - 1]);
  put_axis(*this, p.p(), x[rank - 2] * p.stride.h, y[rank - 2]);
  if (rank == 5) put_axis(*this, p.z(), x[2] * p.stride.d, y[2]);
  put_axis(*this, p.n, x[0], y[0]);
}

PointwiseFilters::PointwiseFilters(const ConvProblem& problem, const PointwiseClass& arithmetic,
                                   const DeviceInfo& device)
    : of(arithmetic), k(static_cast<int>(problem.k)), c(static_cast<int>(problem.c)) {
  const int64_t batch = int64_t{of.unit()} * of.batch_units();
  units = static_cast<int>(ceil_div(problem.c, batch)) * of.batch_units();
  for (const int tiles : pointwise_n8_tiles) {
    if (tiles > 1 && k <= 8) break;
    PointwiseFilters tried = *this;
    tried.n8_tiles = tiles;
    // As a double: a problem may have any number of channels.
    const double bytes = static_cast<double>(units) * tiles * of.planes() *
                         static_cast<double>(pointwise_fragment_bytes);
    if (bytes + static_cast<double>(bias_bytes(tried)) >
        static_cast<double>(device.shared_memory_bytes))
      break;
    n8_tiles = tiles;
  }
  if (n8_tiles > 0) chunks = static_cast<int>(ceil_div(k, filters_of_chunk()));
}

std::size_t PointwiseFilters::bytes() const {
  const int64_t dense = of.splits() ? int64_t{k} * c * static_cast<int64_t>(sizeof(float)) : 0;
  return static_cast<std::size_t>(dense_at() + dense);
}

PointwiseInput pointwise_input(const ConvProblem& p, const PointwiseClass& of, const void* x) {
  const PointwisePixels pixels(p);
  const Lie lie{p.c,           p.x_strides[1], pixels,
                pixels.x_step, of.bytes(),     reinterpret_cast<std::uintptr_t>(x)};
  if (lie.has_runs_of_channels(of.vector())) return PointwiseInput::rows;
  if (lie.has_runs_of_pixels(of.vector())) return PointwiseInput::planes;
  if (of.bytes() == 2 && lie.has_runs_of_pixels(of.vector() / 2))
    return PointwiseInput::half_planes;
  return PointwiseInput::elements;
}

PointwiseOutput pointwise_output(const ConvProblem& p, const PointwiseFilters& filters,
                                 const void* y) {
  const PointwisePixels pixels(p);
  const PointwiseClass& of = filters.of;
  const Lie lie{p.k,           p.y_strides[1], pixels,
                pixels.y_step, of.bytes(),     reinterpret_cast<std::uintptr_t>(y)};
  const int beside = 2 * PointwisePlace::together(of.vector(), filters.n8_tiles);
  if (lie.has_runs_of_pixels(of.vector())) return PointwiseOutput::pixels;
  if (lie.has_runs_of_channels(beside)) return PointwiseOutput::filters;
  if (lie.has_runs_of_pixels(of.vector() / 2)) return PointwiseOutput::half_pixels;
  return PointwiseOutput::elements;
}

namespace {

PointwiseWork work_of(const ConvProblem& p, const PointwiseFilters& filters,
                      const PointwiseCut& cut) {
  const PointwiseClass& of = filters.of;
  const auto bytes = [&](const Extents& extents) {
    return static_cast<double>(element_count(extents)) * of.bytes();
  };
  return {.pixels = static_cast<double>(PointwisePixels(p).count()),
          .tile_pixels = of.pixels(),
          .unit = of.unit(),
          .element_bytes = of.bytes(),
          .units = filters.units,
          .batches = filters.batches(),
          .n8_tiles = filters.n8_tiles,
          .products = of.products,
          .planes = of.planes(),
          .warps = pointwise_warps(filters.n8_tiles, cut.holds),
          .warps_n = cut.warps_n,
          .group_chunks = cut.group_chunks,
          .groups = cut.groups,
          .blocks = cut.blocks,
          .holds = cut.holds,
          .reads_elements = pointwise_input(p, of, nullptr) == PointwiseInput::elements,
          .writes_elements = pointwise_output(p, filters, nullptr) == PointwiseOutput::elements,
          .read_bytes = bytes(p.x_extents()),
          .written_bytes = bytes(p.y_extents()),
          .group_bytes = static_cast<double>(cut.group_chunks) * filters.chunk_bytes()};
}

PointwiseCut cut_pointwise(const ConvProblem& p, const PointwiseFilters& filters,
                           const DeviceInfo& device, PointwiseChoice choice) {
  const int64_t of_chunk = chunk_shared_bytes(filters);
  const int64_t room =
      std::min<int64_t>(usual_shared_bytes, static_cast<int64_t>(device.shared_memory_bytes));
  const int most = static_cast<int>(std::clamp<int64_t>(room / of_chunk, 1, filters.chunks));
  const int units = std::max(device.units, 1);
  const bool can_hold = filters.batches() <= pointwise_held_batches &&
                        filters.n8_tiles == pointwise_held_tiles && filters.chunks > 1 &&
                        pointwise_input(p, filters.of, nullptr) != PointwiseInput::elements;
  PointwiseCut best{.seconds = std::numeric_limits<double>::infinity()};
  int before = 0;
  for (int chunks = most; chunks >= 1; --chunks) {
    PointwiseCut cut{.groups = static_cast<int>(ceil_div(filters.chunks, chunks))};
    if (cut.groups == before && choice.group_chunks == 0) continue;  // only evens out
    before = cut.groups;
    cut.group_chunks = static_cast<int>(ceil_div(filters.chunks, cut.groups));
    if (choice.group_chunks > 0 && chunks != std::min(choice.group_chunks, most)) continue;
    if (choice.group_chunks > 0) cut.group_chunks = chunks;
    cut.blocks = std::max(units / cut.groups, 1);
    for (const bool holds : {false, true}) {
      if (holds ? !can_hold || !choice.holds.value_or(true) : can_hold && choice.holds == true)
        continue;
      cut.holds = holds;
      const int warps = pointwise_warps(filters.n8_tiles, holds);
      for (int beside = 1; beside <= warps; ++beside) {
        if (warps % beside != 0) continue;
        if (choice.warps_n > 0 ? beside != choice.warps_n : beside > 1 && beside > cut.group_chunks)
          continue;
        // Of a single chunk there is nothing to hold.
        if (holds && !choice.holds && beside >= cut.group_chunks) continue;
        cut.warps_n = beside;
        cut.seconds = pointwise_seconds(device, work_of(p, filters, cut));
        if (cut.seconds < best.seconds) best = cut;
      }
    }
  }
  return best;
}

/// How many images 32 bits index, with room for a tile beyond the last; 0 where not one.
int64_t indexed_images(const ConvProblem& p) {
  constexpr double limit = 0x7fff0000;
  double images = limit;  // of one pixel
  for (const auto& [extents, strides] :
       {std::pair{p.x_extents(), p.x_strides}, std::pair{p.y_extents(), p.y_strides}}) {
    double of_image = 1;
    for (int i = 1; i < extents.rank(); ++i)
      if (extents[i] > 1)
        of_image += static_cast<double>(extents[i] - 1) * static_cast<double>(std::abs(strides[i]));
    if (of_image >= limit) return 0;
    const double step = std::abs(static_cast<double>(strides[0]));
    if (p.n > 1 && step > 0) images = std::min(images, (limit - of_image) / step + 1);
    images = std::min(images, limit / (static_cast<double>(p.z()) * static_cast<double>(p.p()) *
                                       static_cast<double>(p.q())));
  }
  return static_cast<int64_t>(images);
}

/// Axes of the pixels of several images with these strides. An axis fewer of one image would make
/// what is taken depend on N, and with it the filters that core packs around a kernel.
int axes_of_images(const ConvProblem& problem) {
  ConvProblem images = problem;
  images.n = 2;
  return PointwisePixels(images).axes;
}

Support refuse(Reason reason, std::string sentence) { return {reason, std::move(sentence)}; }

}  // namespace

Support supports_pointwise(const ConvProblem& p, const PointwiseClass& of,
                           const DeviceInfo& device) {
  if (p.r != 1 || p.s != 1 || p.t != 1)
    return refuse(Reason::geometry, "filters of " + std::to_string(p.t) + "x" +
                                        std::to_string(p.r) + "x" + std::to_string(p.s) +
                                        "; expected one tap");
  if (p.padding != Padding{}) return refuse(Reason::geometry, "padding; expected none");
  if (p.groups != 1)
    return refuse(Reason::geometry, std::to_string(p.groups) + " groups; expected 1");
  if (Support stored = supports_dtypes({of.stored}, p); !stored) return stored;
  if (const int axes = axes_of_images(p); axes > PointwisePixels::max_axes)
    return refuse(Reason::geometry, "pixels of images of x and y lie along " +
                                        std::to_string(axes) +
                                        " axes, none of which follows another; expected at most " +
                                        std::to_string(PointwisePixels::max_axes));
  if (indexed_images(p) == 0)
    return refuse(Reason::too_large, "an image of " + to_string(p.x_extents()) + " to " +
                                         to_string(p.y_extents()) +
                                         " elements, whose offsets pass 2^31; expected fewer");
  constexpr int min_compute_major = 8;
  if (device.compute_major < min_compute_major)
    return refuse(Reason::device_limit, "no mma.sync of this arithmetic; expected sm_80 or newer");
  if (PointwiseFilters(p, of, device).n8_tiles == 0)
    return refuse(Reason::device_limit, "eight filters of " + std::to_string(p.c) +
                                            " channels do not fit the shared memory of a block");
  return {};
}

PointwisePlan::PointwisePlan(const ConvProblem& problem, const PointwiseClass& of,
                             const DeviceInfo& device, PointwiseChoice choice)
    : filters(problem, of, device), images(indexed_images(problem)) {
  if (problem.n == 0) return;
  ConvProblem slice = problem;
  slice.n = std::min(images, problem.n);
  cut = cut_pointwise(slice, filters, device, choice);
  seconds = cut.seconds * static_cast<double>(problem.n) / static_cast<double>(slice.n);
}

std::size_t PointwisePlan::shared_bytes() const {
  return static_cast<std::size_t>(cut.group_chunks * chunk_shared_bytes(filters));
}

}  // namespace plumb::cuda
