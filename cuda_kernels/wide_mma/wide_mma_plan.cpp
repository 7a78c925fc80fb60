// Which convolutions the kernel takes, and the tiles that it cuts them into.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/cost/wide_mma.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/wide/wide.hpp"
#include "cuda_kernels/wide/wide_axes.hpp"
#include "cuda_kernels/wide/wide_traffic.hpp"
#include "cuda_kernels/wide_mma/wide_mma.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

using std::int64_t;

Support refuse(Reason reason, std::string sentence) { return {reason, std::move(sentence)}; }

/// Coordinates of taps, and twice as much, fit 32 bits.
Support supports_axis(const WideMapAxis& axis) {
  constexpr double most = 1 << 30;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const double swept = number(axis.outputs - 1) * number(axis.step()) + number(axis.before) +
                       (axis.taps > 1 ? number(axis.taps - 1) * number(axis.dilation) : 0);
  if (swept < most && number(axis.extent) < most) return {};
  return refuse(Reason::too_large, std::string(axis.name) + ": taps lie along " +
                                       std::to_string(static_cast<int64_t>(std::min(swept, 1e18))) +
                                       " of them; expected below " + std::to_string(1 << 30));
}

WideMmaWork work_of(const ConvProblem& p, const WideFilters& filters, const WideInput& input,
                    const WideMmaTiles& tiles) {
  const WideMmaShape& shape = wide_mma_shapes[tiles.shape];
  return {.of_doubles = shape.of_doubles,
          .m = shape.m,
          .n = shape.n,
          .element_bytes = filters.of.operand_bytes(),
          .works = static_cast<double>(tiles.works()),
          .steps = static_cast<double>(ceil_div(filters.steps(), tiles.splits)),
          .sums_bytes = static_cast<double>(tiles.sums_bytes(filters)),
          .shared_bytes = static_cast<double>(shape.shared_bytes()),
          .blocks = shape.blocks,
          .writes_elements = access_of_outputs(p, filters.groups, nullptr) == WideAccess::elements,
          .read_bytes = bytes_of(p, p.x_extents()) + bytes_of_operands(filters),
          .written_bytes = bytes_of(p, p.y_extents()),
          .writes_planes = p.k > 1 && p.y_strides[1] != 1,
          .repacking = repacking_of(p, filters, input)};
}

/// Splits are for tiles that do not fill the device.
int max_splits(const WideFilters& filters, const WideMmaTiles& whole, const DeviceInfo& device,
               WideMmaChoice choice) {
  constexpr int max_splits = 16, min_steps = 4;
  // The sum of splits counts its vectors in 32 bits, and they are few where tiles are.
  constexpr int64_t max_vectors = 1 << 30;
  if (choice.splits > 0) return std::min(choice.splits, filters.steps());
  if (whole.works() >= device.units || whole.pixels > max_vectors / (filters.all_rows() / 8))
    return 1;
  return std::clamp(filters.steps() / min_steps, 1, max_splits);
}

}  // namespace

void WideMmaTiles::cover(int64_t pixels_of_images) {
  pixels = pixels_of_images;
  m_tiles = static_cast<int>(ceil_div(pixels, int64_t{wide_mma_shapes[shape].m}));
}

std::size_t WideMmaTiles::sums_bytes(const WideFilters& filters) const {
  if (splits == 1) return 0;
  const std::size_t sum = filters.of.stored == DType::f64 ? sizeof(double) : sizeof(float);
  return static_cast<std::size_t>(splits) * static_cast<std::size_t>(pixels) *
         static_cast<std::size_t>(filters.all_rows()) * sum;
}

Support supports_wide_mma(const ConvProblem& p, const WideClass& of, const DeviceInfo& device) {
  if (Support stored = supports_dtypes({of.stored}, p); !stored) return stored;
  constexpr int min_compute_major = 8;
  if (device.compute_major < min_compute_major)
    return refuse(Reason::device_limit, "no mma.sync of this arithmetic; expected sm_80 or newer");
  double least = std::numeric_limits<double>::infinity();
  for (int shape = 0; shape < wide_mma_shape_count; ++shape)
    if (has_wide_mma_shape(of, shape))
      least = std::min<double>(least, wide_mma_shapes[shape].shared_bytes());
  if (Support fits = fits_shared_memory(least, device); !fits) return fits;
  const WideMapAxes axes(p);
  for (const WideMapAxis& axis : axes.axis)
    if (Support swept = supports_axis(axis); !swept) return swept;
  return supports_wide_counts(p, of);
}

WideMmaPlan::WideMmaPlan(const ConvProblem& problem, const WideClass& of, const DeviceInfo& device,
                         WideMmaChoice choice)
    : filters(problem, of), input(problem, filters) {
  if (problem.n == 0) return;
  seconds = std::numeric_limits<double>::infinity();
  for (int shape = 0; shape < wide_mma_shape_count; ++shape) {
    if (!has_wide_mma_shape(of, shape) || (choice.shape >= 0 && choice.shape != shape)) continue;
    const WideMmaShape& tile = wide_mma_shapes[shape];
    if (!fits_shared_memory(tile.shared_bytes(), device)) continue;
    WideMmaTiles tried{.shape = shape,
                       .n_tiles = static_cast<int>(ceil_div(filters.rows, tile.n)),
                       .groups = filters.groups.count};
    tried.cover(problem.n * problem.z() * problem.p() * problem.q());
    const int limit = max_splits(filters, tried, device, choice);
    for (int splits = choice.splits > 0 ? limit : 1; splits <= limit; ++splits) {
      tried.splits = splits;
      const double predicted = wide_mma_seconds(device, work_of(problem, filters, input, tried));
      if (predicted < seconds) tiles = tried, seconds = predicted;
    }
  }
  constexpr int64_t alignment = 256;
  sums_at =
      static_cast<std::size_t>(ceil_div(input.images * input.image_bytes(), alignment) * alignment);
  workspace_bytes = sums_at + tiles.sums_bytes(filters);
}

}  // namespace plumb::cuda
