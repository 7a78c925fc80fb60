// Which convolutions the kernel takes, and the tiles that it cuts them into.
#include <algorithm>
#include <limits>
#include <string>

#include "cuda_kernels/cost/wide.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/wide/wide.hpp"
#include "cuda_kernels/wide/wide_axes.hpp"
#include "cuda_kernels/wide/wide_boxes.hpp"
#include "cuda_kernels/wide/wide_traffic.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

Support refuse(Reason reason, std::string sentence) { return {reason, std::move(sentence)}; }

std::string text(std::int64_t value) { return std::to_string(value); }

Support supports_axis(const WideMapAxis& axis, int axes) {
  const auto refuse_axis = [&](const std::string& what) {
    return refuse(Reason::geometry, std::string(axis.name) + ": " + what);
  };
  const std::int64_t corner = im2col_corner[axes];
  for (const std::int64_t at : {axis.lower(), axis.upper()})
    if (at < -corner || at >= corner)
      return refuse_axis("first taps lie from " + text(axis.lower()) + " to " + text(axis.upper()) +
                         " off the image's edges; expected within " + text(-corner) + " and " +
                         text(corner - 1));
  if (axis.reach() >= im2col_offset[axes])
    return refuse_axis("the last tap " + text(axis.reach()) + " behind the first; expected below " +
                       text(im2col_offset[axes]));
  if (axis.step() > max_im2col_step)
    return refuse_axis("a stride of " + text(axis.step()) + "; expected at most " +
                       text(max_im2col_step));
  return {};
}

}  // namespace

Support supports_wide_counts(const ConvProblem& p, const WideClass& of) {
  constexpr double most = 0x7fff0000;
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double pixels = number(p.n) * number(p.z()) * number(p.p()) * number(p.q());
  const double taps = number(p.t) * number(p.r) * number(p.s);
  const double groups = number(p.groups);
  // A group's filters and channels may be filled up to 64.
  const double tiles = pixels * (number(p.k) / 64 + groups) / 64;
  const double image = number(p.d) * number(p.h) * number(p.w);
  const double channels = of.planes() * (number(p.c) + 8 * groups);
  const double read = std::max(number(p.n), 1.0) * (image / wide_input_pixels + 1) *
                      (channels / wide_input_channels + 1);
  const double terms = of.products * taps * (channels + 64 * groups);
  for (const double count :
       {pixels, terms, number(p.k) + 8 * groups, number(p.n), tiles, image, channels, read})
    if (count >= most)
      return refuse(Reason::too_large, text(static_cast<std::int64_t>(std::min(count, 1e18))) +
                                           " pixels, terms, filters or tiles; expected below 2^31");
  return {};
}

Support supports_folded(const ConvProblem& problem, const WideClass& of, int folded_axes) {
  const WideFold fold(problem, folded_axes);
  const ConvProblem product = wide_product(problem, fold);
  const WideMapAxes axes(product);
  for (int i = 0; i < axes.count; ++i)
    if (Support axis = supports_axis(axes.axis[i], axes.count); !axis) return axis;
  if (Support counts = supports_wide_counts(product, of); !counts) return counts;
  constexpr std::int64_t max_image_bytes = 1 << 30;
  if (fold.axes == 0) return {};
  const std::int64_t bytes = WideInput(problem, WideFilters(problem, of, fold.axes)).image_bytes();
  if (bytes > max_image_bytes)
    return refuse(Reason::too_large, "an image with its taps as channels has " + text(bytes) +
                                         " bytes; expected at most " + text(max_image_bytes));
  return {};
}

Support supports_wgmma(const DeviceInfo& device) {
#ifdef PLUMB_CUDA_SM90A
  constexpr bool compiled = true;
#else
  constexpr bool compiled = false;
#endif
  if (compiled && device.compute_major == 9) return {};
  return refuse(Reason::device_limit, "no wgmma; expected a device and a build of sm_90a");
}

namespace {

std::int64_t pixels_of(const ConvProblem& p) { return p.n * p.z() * p.p() * p.q(); }

/// Whether outputs leave one at a time, as they lie in memory that is aligned.
bool writes_elements(const ConvProblem& p, const WideGroups& groups) {
  return access_of_outputs(p, groups, nullptr) == WideAccess::elements;
}

/// Whether the copy engine stores outputs, where y is aligned and nothing is added to it.
bool stores_boxes(const ConvProblem& p, const WideFilters& filters, bool across) {
  return filters.of.stores_boxes() &&
         boxes_of_outputs(p, filters.groups, nullptr, across).has_value();
}

/// The bytes that a launch moves besides those that its steps load.
struct WideTraffic {
  double read, written;
  bool planes;  ///< filters do not lie side by side in y
  WideRepacking repacking;

  WideTraffic(const ConvProblem& p, const WideFilters& filters, const WideInput& input)
      : written(bytes_of(p, p.y_extents())),
        planes(p.k > 1 && p.y_strides[1] != 1),
        repacking(repacking_of(p, filters, input)) {
    const double of_x = repacking.folds
                            ? static_cast<double>(p.n) * static_cast<double>(input.image_bytes())
                            : bytes_read(p);
    read = of_x + bytes_of_operands(filters);
  }
};

/// Lays parts of workspace out one behind the other, at multiples of 256 bytes.
class Layout {
 public:
  std::size_t add(std::size_t bytes) {
    const std::size_t at = end_;
    end_ += (bytes + alignment - 1) / alignment * alignment;
    return at;
  }
  std::size_t end() const { return end_; }

 private:
  static constexpr std::size_t alignment = 256;
  std::size_t end_ = 0;
};

}  // namespace

std::size_t WideTiles::sums_bytes(const WideFilters& filters) const {
  if (splits == 1) return 0;
  return static_cast<std::size_t>(splits) * static_cast<std::size_t>(pixels) *
         static_cast<std::size_t>(filters.all_rows()) * sizeof(float);
}

std::int64_t WideTiles::whole() const {
  if (cluster == 1 || cluster_blocks == 0) return tiles();
  const std::int64_t of_clusters = tiles() % cluster_blocks;
  return of_clusters * cluster <= cluster_blocks ? tiles() - of_clusters : tiles();
}

void WideTiles::cover(std::int64_t pixels_of_images) {
  pixels = pixels_of_images;
  m_tiles = static_cast<int>(ceil_div(pixels, std::int64_t{wide_shapes[shape].m}));
}

Support supports_wide(const ConvProblem& p, const WideClass& of, const DeviceInfo& device) {
  if (Support stored = supports_dtypes({of.stored}, p); !stored) return stored;
  if (Support wgmma = supports_wgmma(device); !wgmma) return wgmma;
  if (p.pool != Pool::none) return refuse(Reason::geometry, "pools; expected none");
  if (p.boundary != Boundaries{})
    return refuse(Reason::geometry, "a boundary other than zeros; expected zeros");
  return supports_folded(p, of, choose_folded_axes(p, of, device));
}

int choose_folded_axes(const ConvProblem& problem, const WideClass& of, const DeviceInfo& device) {
  ConvProblem one = problem, many = problem;
  one.n = 1;
  constexpr std::int64_t images = 64, max_pixels = 1 << 26;
  many.n = std::clamp<std::int64_t>(max_pixels / pixels_of(one), 1, images);
  const WideMapAxes axes(one);
  const bool is_plain = static_cast<bool>(supports_folded(one, of, 0));
  const int plain_steps = is_plain ? WideFilters(one, of).steps() : 0;
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int folded = 0; folded < 8; ++folded) {
    const auto has_taps = [&](int axis) {
      return (folded >> axis & 1) == 0 || axes.axis[axis].taps > 1 || axes.axis[axis].step() > 1;
    };
    if (!has_taps(0) || !has_taps(1) || !has_taps(2)) continue;
    // Without fewer steps the larger x only costs.
    if (folded > 0 && is_plain && WideFilters(one, of, folded).steps() >= plain_steps) continue;
    if (!supports_folded(one, of, folded)) continue;
    const WideFilters filters(one, of, folded);
    const double seconds = tile_wide(many, filters, WideInput(one, filters), device, {}).seconds;
    if (seconds < least) best = folded, least = seconds;
  }
  return best;
}

namespace {

bool is_depthwise(const ConvProblem& problem) {
  return problem.groups == problem.c && problem.c > 1;
}

/// Products that a step forms of each of its terms.
double step_products(const WideClass& of) { return of.splits_in_registers() ? of.products : 1; }

/// What the model is asked of tiles of x as it lies or repacked.
class Estimate {
 public:
  Estimate(const ConvProblem& problem, const WideFilters& filters, const WideInput& input,
           const DeviceInfo& device)
      : filters_(filters),
        device_(device),
        traffic_(problem, filters, input),
        by_elements_(writes_elements(problem, filters.groups)),
        boxes_(stores_boxes(problem, filters, false)),
        depthwise_(is_depthwise(problem)) {}

  int steps() const { return filters_.of.rounds() * filters_.steps(); }
  double seconds(const WideTiles& tiles) const {
    const WideShape& shape = wide_shapes[tiles.shape];
    const bool splits = tiles.splits > 1;  // outputs are another kernel's
    return wide_seconds(device_, {.m = shape.m,
                                  .n = shape.n,
                                  .works = static_cast<double>(tiles.works()),
                                  .steps = static_cast<double>(ceil_div(steps(), tiles.splits)),
                                  .splits = static_cast<double>(tiles.splits),
                                  .cluster = static_cast<double>(tiles.cluster),
                                  .cluster_blocks = static_cast<double>(tiles.cluster_blocks),
                                  .whole = static_cast<double>(tiles.whole()),
                                  .step_products = step_products(filters_.of),
                                  .filter_planes = filters_.of.filter_planes(),
                                  .filters = filters_.groups.filters,
                                  .stores_boxes = boxes_ && !splits,
                                  .writes_elements = by_elements_ && !splits,
                                  .depthwise = depthwise_,
                                  .read_bytes = traffic_.read,
                                  .written_bytes = traffic_.written,
                                  .writes_planes = traffic_.planes,
                                  .sums_bytes = static_cast<double>(tiles.sums_bytes(filters_)),
                                  .repacking = traffic_.repacking});
  }

 private:
  const WideFilters& filters_;
  const DeviceInfo& device_;
  WideTraffic traffic_;
  bool by_elements_, boxes_, depthwise_;
};

constexpr int min_steps = 4;  ///< of a split

/// The most splits to workspace of these tiles, and the fewest where their number is chosen.
struct SplitRange {
  int least, most;

  SplitRange(const WideTiles& tiles, const WideFilters& filters, int steps,
             const DeviceInfo& device, const WideChoice& choice)
      : least(std::max(std::min(choice.splits, steps), 1)), most(least) {
    constexpr int max_splits = 16;
    // sum_splits() counts its vectors in 32 bits, and they are few where tiles are.
    constexpr std::int64_t max_vectors = 1 << 30;
    const std::int64_t row_vectors = filters.all_rows() / swizzle_rows;
    // Splits are for tiles that do not fill the device.
    const bool fills = tiles.works() >= device.units || tiles.pixels > max_vectors / row_vectors;
    if (choice.splits > 0 || choice.cluster > 1 || fills) return;
    most = std::clamp(steps / min_steps, 1, max_splits);
  }
};

/// Calls `f` with the tiles as the blocks of clusters may sum them: those of the last wave, if it
/// has a cluster for each.
template <class F>
void for_clusters(const WideTiles& tiles, int steps, const DeviceInfo& device,
                  const WideChoice& choice, const F& f) {
  if (choice.cluster == 1 || (choice.cluster == 0 && choice.splits > 0)) return;
  for (int blocks = 2; blocks <= wide_max_cluster; blocks *= 2) {
    const bool wanted = choice.cluster == blocks && blocks <= steps;
    if (!wanted && (choice.cluster > 1 || blocks * min_steps > steps)) continue;
    WideTiles of_clusters = tiles;
    of_clusters.cluster = blocks;
    of_clusters.cluster_blocks = blocks * wide_clusters(device.units, blocks);
    if (of_clusters.whole() < of_clusters.tiles()) f(of_clusters);
  }
}

}  // namespace

WideTiles tile_wide(const ConvProblem& problem, const WideFilters& filters, const WideInput& input,
                    const DeviceInfo& device, WideChoice choice) {
  const Estimate estimate(problem, filters, input, device);
  WideTiles best{.seconds = std::numeric_limits<double>::infinity()};
  for (int shape = 0; shape < wide_shape_count; ++shape) {
    if (choice.shape >= 0 && choice.shape != shape) continue;
    if (!has_wide_shape(filters.of, false, shape)) continue;
    const WideShape& of = wide_shapes[shape];
    WideTiles tiles{.shape = shape,
                    .n_tiles = static_cast<int>(ceil_div(filters.rows, of.n)),
                    .groups = filters.groups.count};
    tiles.cover(pixels_of(problem));
    const auto consider = [&](WideTiles tried) {
      tried.seconds = estimate.seconds(tried);
      const bool wanted = choice.cluster > 1 && tried.cluster != best.cluster;
      if (wanted ? tried.cluster > best.cluster : tried.seconds < best.seconds) best = tried;
    };
    const SplitRange range(tiles, filters, estimate.steps(), device, choice);
    for (tiles.splits = range.least; tiles.splits <= range.most; ++tiles.splits) consider(tiles);
    tiles.splits = 1;
    for_clusters(tiles, estimate.steps(), device, choice, consider);
  }
  return best;
}

namespace {

/// The tiles that read planes as they lie.
WideTiles tile_across(const ConvProblem& problem, const WideFilters& filters,
                      const DeviceInfo& device, WideChoice choice) {
  const ConvProblem p = flat_problem(problem);
  const WideTraffic traffic(p, filters, WideInput());
  const bool by_elements = writes_elements(p, filters.groups),
             boxes = stores_boxes(p, filters, true);
  WideTiles best{.seconds = std::numeric_limits<double>::infinity()};
  for (int shape = 0; shape < wide_shape_count; ++shape) {
    if (choice.shape >= 0 && choice.shape != shape) continue;
    if (!has_wide_shape(filters.of, true, shape)) continue;
    const WideShape& of = wide_shapes[shape];
    WideTiles tiles{.shape = shape, .n_tiles = static_cast<int>(ceil_div(filters.rows, of.n))};
    tiles.cover(p.n * ceil_div(p.w, std::int64_t{of.m}) * of.m);
    tiles.seconds = wide_seconds(device, {.m = of.m,
                                          .n = of.n,
                                          .works = static_cast<double>(tiles.works()),
                                          .steps = static_cast<double>(filters.steps()),
                                          .step_products = step_products(filters.of),
                                          .filter_planes = filters.of.filter_planes(),
                                          .filters = filters.groups.filters,
                                          .stores_boxes = boxes,
                                          .writes_elements = by_elements,
                                          .read_bytes = traffic.read,
                                          .written_bytes = traffic.written,
                                          .writes_planes = traffic.planes});
    if (tiles.seconds < best.seconds) best = tiles;
  }
  return best;
}

}  // namespace

WidePlan::WidePlan(const ConvProblem& problem, const WideClass& of, const DeviceInfo& device,
                   WideChoice choice)
    : filters(
          problem, of,
          choice.folded_axes >= 0 ? choice.folded_axes : choose_folded_axes(problem, of, device)),
      input(problem, filters) {
  if (problem.n == 0) return;
  tiles = tile_wide(problem, filters, input, device, choice);
  if (choice.across != 0 && input.repacks && lies_across(problem, filters)) {
    across = tile_across(problem, filters, device, choice);
    if (choice.across < 0 && across->seconds >= tiles.seconds) across.reset();
    if (across) {
      input.be_seldom();
      if (of.operand_bytes() == 2 && !stores_boxes(flat_problem(problem), filters, true))
        across->seconds += wide_across_seconds(device, static_cast<double>(across->works()));
    }
  }
  const auto images = static_cast<std::size_t>(input.images);
  const bool looks = input.planes > 1;
  Layout layout;
  layout.add(images * static_cast<std::size_t>(input.image_bytes()));
  workspace.magnitudes =
      layout.add(looks ? images * static_cast<std::size_t>(input.parts) * sizeof(int) : 0);
  workspace.scales = layout.add(looks ? images * sizeof(int) : 0);
  workspace.sums = layout.add(tiles.sums_bytes(filters));
  workspace.bytes = layout.end();
}

}  // namespace plumb::cuda
