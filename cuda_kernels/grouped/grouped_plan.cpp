// Which convolutions the kernel takes, and how they are cut: every cut that fits shared memory is
// estimated, and the least estimate is taken. The layout of packed filters, and with it the order
// of sums, follows from the groups and the taps alone.
#include <algorithm>
#include <string>
#include <utility>

#include "cuda_kernels/cost/grouped.hpp"
#include "cuda_kernels/grouped/grouped.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

using std::int64_t;

constexpr int64_t shared_of_all = 227 << 10;  ///< bytes of a multiprocessor
constexpr int64_t shared_of_block = 1 << 10;  ///< that it takes besides for each block
constexpr int64_t max_filters = 128;          ///< of a block

int pieces(int all, int of_piece) { return static_cast<int>(ceil_div(all, of_piece)); }
double number(int64_t value) { return static_cast<double>(value); }

GroupedAxis axis(int64_t extent, int64_t taps, int64_t outputs, int64_t stride, int64_t dilation,
                 int64_t before) {
  return {.extent = static_cast<int>(extent),
          .taps = static_cast<int>(taps),
          .outputs = static_cast<int>(outputs),
          .stride = outputs > 1 ? static_cast<int>(stride) : 1,
          .dilation = taps > 1 ? static_cast<int>(dilation) : 1,
          .before = static_cast<int>(before)};
}

/// Units that bundles of so many filters see, at most.
int units_of(const GroupedFilters& filters, int bundle_filters) {
  int most = 1;
  for (int64_t k = 0; k < filters.k; k += bundle_filters) {
    const auto last = std::min<int64_t>(k + bundle_filters, filters.k) - 1;
    const int64_t begin = k / filters.group_k * filters.group_c,
                  end = (last / filters.group_k + 1) * filters.group_c;
    most = std::max(most,
                    static_cast<int>(ceil_div(end, int64_t{filters.unit}) - begin / filters.unit));
  }
  return most;
}

/// Clocks of a step's reads of shared memory, and of its products, for eight filters and 16 pixels.
double step_clocks(const GroupedShape& shape) { return 4.0 / shape.beside + 2.0 / shape.m16 + 1.7; }

/// Fragments of x that a work reads, of 16 pixels by two units.
int64_t loads_of_work(const GroupedFilters& filters, bool bands) {
  const int64_t m16 = filters.shape.m16, bundles = filters.shape.bundles;
  if (!bands) return filters.steps() * bundles * m16;
  const int64_t rows = m16 + grouped_band_taps - 1;
  return filters.columns_beside * bundles * rows;
}

/// How a tensor's elements lie. A stride to no second element may be any number.
struct Lie {
  Extents extents;
  Strides strides;

  bool all_but(int dimension, int64_t multiple) const {
    for (int i = 0; i < extents.rank(); ++i)
      if (i != dimension && extents[i] > 1 && strides[i] % multiple != 0) return false;
    return true;
  }
  int last() const { return extents.rank() - 1; }
  bool has_units(int unit) const {
    return strides[1] == 1 && extents[1] % unit == 0 && all_but(1, unit);
  }
  /// Whether rows are runs of so many.
  bool has_runs(int64_t run) const {
    return (extents[last()] == 1 || strides[last()] == 1) && extents[last()] % run == 0 &&
           all_but(last(), run);
  }
  /// Whether images of a channel are.
  bool has_whole_planes(int64_t run) const {
    const int64_t row = extents[last()], rows = extents[last() - 1];
    if ((row > 1 && strides[last()] != 1) || (rows > 1 && strides[last() - 1] != row)) return false;
    for (int i = 0; i + 2 < extents.rank(); ++i)
      if (extents[i] > 1 && strides[i] % run != 0) return false;
    return row * rows % run == 0;
  }
};

struct Search {
  const ConvProblem& problem;
  const DeviceInfo& device;
  const GroupedChoice& choice;
  GroupedPlan plan = {};
  std::optional<GroupedPlan> best = {};

  void try_filters();
  void try_tiles();
  void try_images();
  void try_blocks();
  void try_block();
  void choose_outputs(GroupedCut& cut) const;
  bool place(GroupedCut& cut) const;
  GroupedWork work_of(const GroupedCut& cut, int64_t resident) const;
};

/// Strips of a block, and the units that they see.
void Search::try_filters() {
  const GroupedFilters& filters = plan.filters;
  const int64_t most =
      std::clamp<int64_t>(max_filters / filters.shape.filters(), 1, filters.strips);
  for (int64_t strips = 1;; strips = std::min(2 * strips, most)) {
    if (choice.strips > 0) strips = std::min<int64_t>(choice.strips, filters.strips);
    GroupedCut& cut = plan.cut;
    cut.strips = static_cast<int>(strips);
    cut.parts = static_cast<int>(ceil_div(filters.strips, cut.strips));
    cut.units = 1;
    for (int part = 0; part < cut.parts; ++part) {
      const int first = part * cut.strips * filters.shape.bundles,
                last = std::min((part + 1) * cut.strips, filters.strips) * filters.shape.bundles;
      cut.units = std::max(
          cut.units, filters.first_unit(last - 1) + filters.units - filters.first_unit(first));
    }
    try_tiles();
    if (strips >= most || choice.strips > 0) return;
  }
}

/// Rows and columns of a tile's outputs: as long as each other.
void Search::try_tiles() {
  GroupedCut& cut = plan.cut;
  int last_columns = 0;
  for (const int wide : {plan.w.outputs, 64, 32, 16, 8}) {
    if (wide > plan.w.outputs) continue;
    cut.columns = wide;
    if (choice.columns > 0) cut.columns = std::min(choice.columns, plan.w.outputs);
    if (cut.columns == last_columns) continue;
    last_columns = cut.columns;
    cut.tiles_q = pieces(plan.w.outputs, cut.columns);
    int last_rows = 0;
    for (const int bands :
         {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64, 128, 256, 1 << 30}) {
      cut.rows = pieces(plan.h.outputs, std::min(bands, plan.h.outputs));
      if (choice.rows > 0) cut.rows = std::min(choice.rows, plan.h.outputs);
      if (cut.rows == last_rows) continue;
      last_rows = cut.rows;
      cut.tiles_p = pieces(plan.h.outputs, cut.rows);
      try_images();
    }
  }
}

void Search::try_images() {
  GroupedCut& cut = plan.cut;
  const int images = static_cast<int>(std::max<int64_t>(problem.n, 1));
  const bool whole = cut.tiles_p == 1 && cut.tiles_q == 1;
  for (int count = 1; count <= (whole ? std::min(images, 32) : 1); count *= 2) {
    cut.images = choice.images > 0 ? std::min(choice.images, images) : count;
    cut.tiles_n = pieces(images, cut.images);
    for (const int warps : {4, grouped_max_warps}) {
      cut.warps = choice.warps > 0 ? choice.warps : warps;
      try_blocks();
      if (choice.warps > 0) break;
    }
    if (choice.images > 0) break;
  }
}

/// With fragments of a warp beside and under each other.
void Search::try_blocks() {
  for (const bool bands : {false, true}) {
    if (bands != choice.bands.value_or(bands)) continue;
    if (bands && (!plan.filters.takes_bands() || plan.cut.rows < plan.filters.shape.m16)) continue;
    plan.cut.bands = bands;
    try_block();
  }
}

/// The longest vectors in which a tile's outputs are stored.
void Search::choose_outputs(GroupedCut& cut) const {
  const Lie y{problem.y_extents(), problem.y_strides};
  cut.output = GroupedOutput::runs, cut.y_run = 1;
  if (y.has_units(plan.filters.unit)) {
    cut.output = GroupedOutput::filters;
    return;
  }
  for (int run = plan.filters.unit; run > 1; run /= 2) {
    const bool of_planes = !cut.bands && cut.columns == plan.w.outputs &&
                           cut.rows * cut.columns % run == 0 && y.has_whole_planes(run);
    if (of_planes || (cut.columns % run == 0 && y.has_runs(run))) {
      cut.y_run = run;
      return;
    }
  }
}

/// Finds where pixels lie: at pitches such that eight neighbouring outputs read units in all banks,
/// across the ends of rows and images too.
bool Search::place(GroupedCut& cut) const {
  const auto pitch = [](int64_t least, int64_t like) {
    return least + ((like - least) % 8 + 8) % 8;
  };
  // As doubles: an axis may be of any length.
  const auto under = [](const GroupedAxis& of, int count) {
    return (number(count) - 1) * of.stride + (number(of.taps) - 1) * of.dilation + of.stride;
  };
  const int64_t pixel = cut.units | 1;
  const double least = number(cut.images) * under(plan.h, cut.rows) * under(plan.w, cut.columns) *
                       number(pixel) * grouped_unit_bytes;
  if (least > number(shared_of_all)) return false;
  const int64_t phase_rows = plan.h.of_phase(cut.rows),
                phase_columns = plan.w.of_phase(cut.columns);
  const int64_t row = pitch(phase_columns * plan.w.stride * pixel, cut.columns * pixel);
  const int64_t image = pitch(phase_rows * plan.h.stride * row, cut.rows * row);
  if (image * cut.images * grouped_unit_bytes > shared_of_all) return false;
  cut.phase_rows = static_cast<int>(phase_rows);
  cut.phase_columns = static_cast<int>(phase_columns);
  cut.pixel_units = static_cast<int>(pixel), cut.row_units = static_cast<int>(row);
  cut.image_units = static_cast<int>(image);
  cut.patch_bytes = static_cast<int>(image * cut.images) * grouped_unit_bytes;
  const GroupedShape& shape = plan.filters.shape;
  cut.terms_bytes = 16 * pieces((plan.filters.steps() * 2 + cut.strips * shape.bundles) * 4, 16);
  cut.places_bytes = 8 * cut.runs(shape) * shape.pixels();
  cut.rows_bytes = 16 * pieces(cut.images * plan.h.under(cut.rows) * 8, 16);
  return true;
}

void Search::try_block() {
  GroupedCut cut = plan.cut;
  choose_outputs(cut);
  if (!place(cut)) return;
  GroupedPlan tried = plan;
  tried.cut = cut;
  const auto shared = static_cast<int64_t>(tried.shared_bytes());
  if (shared > static_cast<int64_t>(device.shared_memory_bytes)) return;
  // Launch bounds leave registers for so many warps.
  const int64_t room = std::max<int64_t>(1, shared_of_all / (shared + shared_of_block));
  const int64_t resident = std::min<int64_t>(room, grouped_blocks * grouped_max_warps / cut.warps);
  const double tiles = number(cut.tiles_n) * cut.tiles_p * cut.tiles_q;
  if (tiles * cut.parts > number(0x7fff0000)) return;
  // As many blocks as there is room for, and such that all have as many tiles.
  const int64_t most = std::max<int64_t>(1, resident * std::max(device.units, 1) / cut.parts);
  const int64_t turns = ceil_div(static_cast<int64_t>(tiles), most);
  tried.cut.blocks = static_cast<int>(ceil_div(static_cast<int64_t>(tiles), turns));
  if (choice.blocks > 0) tried.cut.blocks = choice.blocks;
  tried.cut.seconds = grouped_seconds(device, work_of(tried.cut, resident));
  if (!best || tried.cut.seconds < best->cut.seconds) best = tried;
}

GroupedWork Search::work_of(const GroupedCut& cut, int64_t resident) const {
  const GroupedFilters& filters = plan.filters;
  const GroupedShape& shape = filters.shape;
  const double runs = number(cut.runs(shape)),
               strips = static_cast<double>(filters.strips) / cut.parts;
  // Runs begin at a multiple of their length, and sectors at one of theirs.
  const bool by_units = cut.input == GroupedInput::units;
  const auto in_runs = [&](int64_t columns, int64_t run) {
    return by_units ? columns : ceil_div(columns + run - 1, run) * run;
  };
  const int size = filters.size();
  const int64_t sector = memory_sector_bytes / size;  // in elements
  const int under_h = plan.h.under(cut.rows), under_w = plan.w.under(cut.columns);
  const double under = number(cut.images) * under_h * number(in_runs(under_w, cut.x_run));
  const double of_image = number(cut.images) * std::min(under_h, plan.h.extent) *
                          number(std::min<int64_t>(in_runs(under_w, sector), plan.w.extent));
  const auto row_bytes = [size](bool whole, int64_t columns, int64_t rows) {
    return number(whole ? columns * rows : columns) * size;
  };
  const double tiles = number(cut.tiles()) * cut.parts;
  const double read_bytes =
      number(problem.n) * number(problem.c) * number(problem.h) * number(problem.w) * size;
  return {
      .depthwise = filters.group_c == 1 && filters.group_k == 1,
      .tiles = tiles,
      .blocks = number(cut.parts) * cut.blocks,
      .tiles_of_block = number(ceil_div(cut.tiles(), cut.blocks)),
      .resident = number(resident),
      .warps = number(cut.warps),
      .works = strips * runs,
      .longest = number(ceil_div(static_cast<int64_t>(cut.strips * runs), int64_t{cut.warps})),
      .pixels = number(cut.pixels()),
      .steps = number(filters.steps()),
      .loads = number(loads_of_work(filters, cut.bands)),
      .beside = number(shape.beside),
      .bundles = number(shape.bundles),
      .m16 = number(shape.m16),
      .units = under * cut.units,
      .x_row_bytes = by_units ? number(cut.units) * grouped_unit_bytes
                              : row_bytes(under_w >= plan.w.extent, under_w, under_h),
      .y_row_bytes = cut.output == GroupedOutput::filters
                         ? number(cut.strips) * shape.filters() * size
                         : row_bytes(cut.tiles_q == 1, cut.columns, cut.rows),
      .by_units = by_units,
      .x_run = number(cut.x_run),
      .conflicts = number(cut.x_run) / cut.lane_units(),
      .by_filters = cut.output == GroupedOutput::filters,
      .size = number(size),
      .y_run = number(cut.y_run),
      .filter_bytes = number(int64_t{cut.strips} * filters.strip_bytes()),
      .read_bytes = read_bytes,
      .again_bytes = std::max(0.0, tiles * of_image * cut.units * grouped_unit_bytes - read_bytes),
      .written_bytes =
          number(problem.n) * number(problem.k) * number(problem.p()) * number(problem.q()) * size};
}

}  // namespace

GroupedFilters::GroupedFilters(const ConvProblem& p)
    : unit(grouped_unit_bytes / static_cast<int>(size_in_bytes(p.dtype))),
      k(static_cast<int>(p.k)),
      group_c(static_cast<int>(p.c / p.groups)),
      group_k(static_cast<int>(p.k / p.groups)),
      rows(static_cast<int>(p.r)),
      columns(static_cast<int>(p.s)),
      of_bands(p.r == grouped_band_taps && p.dilation.h == 1 && (p.stride.h == 1 || p.p() == 1)),
      all_units(static_cast<int>(ceil_div(p.c, int64_t{unit}))) {
  GroupedFilters best;
  double least = 0;
  for (const GroupedShape& tried : grouped_shapes) {
    GroupedFilters of = *this;
    of.shape = tried, of.units = units_of(*this, 8 * tried.beside);
    of.beside = of.units % 2 == 0 || (of_bands && of.units == 1) ? 2 : of.units;
    of.columns_beside = pieces(columns * of.units, of.beside);
    of.strips = pieces(k, tried.filters());
    // What is summed beyond the last filter is lost.
    const double clocks =
        number(of.steps()) * step_clocks(tried) * number(of.strips) * tried.filters();
    if (least > 0 && clocks >= least) continue;
    least = clocks, best = of;
  }
  *this = best;
}

std::size_t GroupedPlan::shared_bytes() const {
  const double filter_bytes = number(cut.strips) * number(filters.strip_bytes());
  return static_cast<std::size_t>(filter_bytes) +
         static_cast<std::size_t>(cut.terms_bytes + cut.places_bytes + cut.rows_bytes) +
         static_cast<std::size_t>(cut.warps) *
             static_cast<std::size_t>(filters.shape.staged_bytes(filters.size())) +
         static_cast<std::size_t>(cut.patch_bytes);
}

Support supports_grouped(const ConvProblem& p, DType stored, const DeviceInfo& device) {
  if (Support of_type = supports_dtypes({stored}, p); !of_type) return of_type;
  if (p.groups < 2) return {Reason::geometry, "1 group; expected several"};
  if (p.c / p.groups > grouped_max_channels || p.k / p.groups > grouped_max_channels)
    return {Reason::geometry, "groups of " + std::to_string(p.c / p.groups) + " channels and " +
                                  std::to_string(p.k / p.groups) + " filters; expected at most " +
                                  std::to_string(grouped_max_channels) + " of each"};
  constexpr int min_compute_major = 8;
  if (device.compute_major < min_compute_major)
    return {Reason::device_limit, "no mma.sync of this arithmetic; expected sm_80 or newer"};
  // No bundle of more taps fits shared memory, and 32 bits count the bytes of fewer.
  constexpr int64_t max_taps = shared_of_all / 256;
  if (p.r > max_taps || p.s > max_taps || p.r * p.s > max_taps * 2)
    return {Reason::device_limit, "filters of " + std::to_string(p.r) + "x" + std::to_string(p.s) +
                                      ", which do not fit the shared memory of a block"};
  return {};
}

std::optional<GroupedPlan> plan_grouped(const ConvProblem& p, const DeviceInfo& device,
                                        const GroupedChoice& choice) {
  Search search{.problem = p, .device = device, .choice = choice};
  search.plan.h = axis(p.h, p.r, p.p(), p.stride.h, p.dilation.h, p.padding.top);
  search.plan.w = axis(p.w, p.s, p.q(), p.stride.w, p.dilation.w, p.padding.left);
  search.plan.filters = GroupedFilters(p);
  GroupedCut& cut = search.plan.cut;
  const Lie x{p.x_extents(), p.x_strides};
  if (x.has_units(search.plan.filters.unit)) {
    cut.input = GroupedInput::units;
  } else {
    cut.x_run = search.plan.filters.unit;
    while (cut.x_run > 1 && !x.has_runs(cut.x_run)) cut.x_run /= 2;
  }
  search.try_filters();
  return search.best;
}

double grouped_chain(const ConvProblem& p) {
  const GroupedFilters filters(p);
  return 2.0 * filters.unit * filters.steps();
}

}  // namespace plumb::cuda
