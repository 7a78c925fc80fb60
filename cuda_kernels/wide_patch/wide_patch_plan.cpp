// Which convolutions the kernel takes, and the tiles and patches that it cuts them into.
#include <algorithm>
#include <limits>
#include <string>

#include "cuda_kernels/cost/scattered.hpp"
#include "cuda_kernels/cost/wide_patch.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/wide/wide.hpp"
#include "cuda_kernels/wide/wide_axes.hpp"
#include "cuda_kernels/wide/wide_traffic.hpp"
#include "cuda_kernels/wide_patch/wide_patch.hpp"
#include "cuda_kernels/wide_patch/wide_patch_phases.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

constexpr int max_positions = 8 * patch_n8_tiles[patch_kernels - 1];
constexpr double max_works = 0x7fff0000;  // are counted in 32 bits

Support refuse(Reason reason, std::string sentence) { return {reason, std::move(sentence)}; }

/// What a patch has of an axis under so many outputs: all their taps. Where a tile has all outputs
/// and lines `follow` each other, the padding in front of the next is that behind the line before.
std::int64_t phase_extent(const WideMapAxis& axis, std::int64_t outputs, bool follow) {
  const std::int64_t all = outputs + axis.reach(), padding_behind = axis.upper() + axis.reach();
  // Two outputs are never at one position.
  const std::int64_t shared = std::max(axis.extent + axis.before, outputs);
  const bool shares =
      follow && outputs == axis.outputs && padding_behind > 0 && padding_behind <= axis.before;
  return shares ? std::min(shared, all) : all;
}

/// The most that a phase needs, which patches of all phases have.
std::int64_t patch_extent(const PatchPhases& phases, std::int64_t outputs, bool follow) {
  std::int64_t most = 0;
  for (std::int64_t phase = 0; phase < phases.count(); ++phase)
    most = std::max(most, phase_extent(phases.axis(phase), outputs, follow));
  return most;
}

/// Positions of a line. Outputs of planes are staged in pairs: then even columns have an even
/// pitch.
std::int64_t patch_pitch(const PatchPhases& phases, std::int64_t columns, bool in_pairs) {
  const std::int64_t pitch = patch_extent(phases, columns, true);
  return pitch + (in_pairs && columns % 2 == 0 ? pitch % 2 : 0);
}

/// Returns the patch under a tile, with no columns where the copy engine does not take its box.
PatchTile patch_under(const PatchPlanePhases& phases, int images, int rows, int columns,
                      bool in_pairs) {
  const std::int64_t pitch = patch_pitch(phases.columns, columns, in_pairs);
  const std::int64_t lines = patch_extent(phases.rows, rows, images > 1);
  if (pitch > max_tiled_box || lines > max_tiled_box || images > max_tiled_box)
    return {.columns = 0};
  PatchTile tile{.images = images,
                 .rows = rows,
                 .columns = columns,
                 .pitch = static_cast<int>(pitch),
                 .lines = static_cast<int>(lines)};
  const std::int64_t last = tile.positions() + phases.rows.reach() * pitch + phases.columns.reach();
  tile.behind = static_cast<int>(std::max<std::int64_t>(last - tile.patch_positions(), 0));
  return tile;
}

/// Shares the shared memory out to patches and filters. Returns false where it has no room.
bool share_out(PatchTiles& tiles, int steps) {
  constexpr int block_bytes = 227 << 10, min_patches = 2, max_patches = 3, min_stages = 3,
                usual_stages = 4, max_stages = 8;
  constexpr int room = block_bytes - swizzle_atom_bytes - patch_staging_bytes -
                       patch_barrier_bytes - patch_table_bytes;
  const std::int64_t patch = tiles.tile.patch_bytes();
  const bool one_block = tiles.filter_tiles * tiles.groups == 1;
  constexpr int max_kept = 32;  // so many barriers have room
  tiles.keeps_filters = one_block && steps <= max_kept && steps >= min_stages &&
                        min_patches * patch + steps * patch_stage_bytes <= room;
  const int least = tiles.keeps_filters ? steps : usual_stages;
  tiles.patches =
      max_patches * patch + least * patch_stage_bytes <= room ? max_patches : min_patches;
  const std::int64_t left = (room - tiles.patches * patch) / patch_stage_bytes;
  tiles.stages =
      tiles.keeps_filters ? steps : static_cast<int>(std::min<std::int64_t>(left, max_stages));
  return left >= min_stages;
}

/// The bytes that a launch moves besides those that its steps load.
struct PatchTraffic {
  double read, written;
  WideRepacking repacking;

  PatchTraffic(const ConvProblem& p, const WideFilters& filters, const WideInput& input)
      : read(bytes_of(p, p.x_extents()) + bytes_of_operands(filters)),
        written(bytes_of(p, p.y_extents())),
        repacking(repacking_of(p, filters, input)) {}
};

/// Of all tiles, the one that is predicted to take the least time.
class PatchSearch {
 public:
  PatchSearch(const ConvProblem& problem, const WideFilters& filters, const WideInput& input,
              const DeviceInfo& device)
      : problem_(problem),
        filters_(filters),
        input_(input),
        device_(device),
        phases_(problem),
        traffic_(problem, filters, input),
        planes_(access_of_outputs(problem, filters.groups, nullptr) != WideAccess::filters) {
    best_.seconds = std::numeric_limits<double>::infinity();
  }

  /// Whether the other half of a step's products, zeros, is left out.
  bool is_half_full() const { return filters_.groups.channels * 2 <= filters_.of.step_channels(); }
  void look_at(std::int64_t images, std::int64_t rows, std::int64_t columns) {
    if (images < 1 || rows < 1 || columns < 1 || columns > max_positions || rows > max_positions)
      return;
    PatchTiles tiles{.tile = patch_under(phases_, static_cast<int>(images), static_cast<int>(rows),
                                         static_cast<int>(columns), planes_),
                     .half_steps = is_half_full(),
                     .filter_tiles = static_cast<int>(ceil_div(filters_.rows, patch_filters)),
                     .groups = filters_.groups.count};
    if (tiles.tile.columns == 0 || tiles.tile.positions() > max_positions) return;
    tiles.kernel = 0;
    while (8 * patch_n8_tiles[tiles.kernel] < tiles.tile.positions() ||
           (tiles.half_steps && !has_half_steps(patch_n8_tiles[tiles.kernel])))
      ++tiles.kernel;
    if (!share_out(tiles, filters_.steps())) return;
    tiles.planes = static_cast<int>(problem_.z());
    tiles.rows = static_cast<int>(ceil_div(problem_.p(), rows));
    tiles.columns = static_cast<int>(ceil_div(problem_.q(), columns));
    tiles.cover(problem_.n);
    if (tiles.works() >= max_works) return;
    tiles.seconds = seconds(tiles);
    if (tiles.seconds < best_.seconds) best_ = tiles;
  }
  /// Looks at tiles of so many columns: for each kernel those of the most rows, or whole images,
  /// that it holds.
  void look_at_rows(std::int64_t columns) {
    const std::int64_t p = problem_.p(), n = problem_.n;
    const std::int64_t pitch = patch_pitch(phases_.columns, columns, planes_),
                       lines = patch_extent(phases_.rows, p, true);
    const auto evenly = [](std::int64_t all, std::int64_t most) {
      return ceil_div(all, ceil_div(all, std::clamp<std::int64_t>(most, 1, all)));
    };
    for (const int n8_tiles : patch_n8_tiles) {
      if (columns > 8 * n8_tiles) continue;
      const std::int64_t follow = (8 * n8_tiles - columns) / pitch;  // lines behind the first
      look_at(1, evenly(p, follow + 1), columns);
      if (columns == problem_.q() && follow >= p - 1 + lines)
        look_at(evenly(n, (follow - (p - 1)) / lines + 1), p, columns);
    }
  }
  void look_at_all() {
    constexpr std::int64_t more_parts = 24;
    const std::int64_t q = problem_.q(), fewest = ceil_div(q, std::int64_t{max_positions});
    std::int64_t before = 0;
    for (std::int64_t parts = fewest; parts < fewest + more_parts; ++parts) {
      const std::int64_t columns = ceil_div(q, parts);
      if (columns != before) look_at_rows(columns);
      before = columns;
    }
    // Of long lines under filters that reach far the few columns that fit.
    if (best_.kernel < 0) look_for_any();
  }
  /// Looks for tiles that fit at all.
  void look_for_any() {
    for (std::int64_t columns = max_positions; columns >= 1 && best_.kernel < 0; columns /= 2)
      look_at(1, 1, std::min(columns, problem_.q()));
  }
  /// Looks at tiles of a flat problem whose planes are operands as they lie: of whole copies, where
  /// lines do not follow each other.
  void look_across(int copies) {
    const int pixels = copies * patch_across_pixels;
    PatchTiles tiles{.tile = {.columns = pixels, .pitch = pixels},
                     .filter_tiles = static_cast<int>(ceil_div(filters_.rows, patch_filters))};
    while (8 * patch_n8_tiles[tiles.kernel + 1] < pixels) ++tiles.kernel;
    ++tiles.kernel;
    if (!share_out(tiles, filters_.steps())) return;
    tiles.planes = tiles.rows = 1;
    tiles.columns = static_cast<int>(ceil_div(problem_.w, std::int64_t{pixels}));
    tiles.cover(problem_.n);
    tiles.seconds = seconds(tiles);
    if (tiles.seconds < best_.seconds) best_ = tiles;
  }
  const PatchTiles& best() const { return best_; }

 private:
  double seconds(const PatchTiles& tiles) const {
    const int taps = filters_.taps[0] * filters_.taps[1];
    const WidePatchWrites writes_by = writes(tiles.tile);
    // Of a position; the copy engine makes the zeros behind channels.
    const int row_bytes = tiles.half_steps ? filters_.groups.channels * filters_.of.operand_bytes()
                                           : swizzle_row_bytes;
    const double scattered = writes_by == WidePatchWrites::elements
                                 ? scattered_seconds(problem_, Machine(device_), 1)
                                 : 0;
    return scattered +
           wide_patch_seconds(
               device_,
               {.columns = 8 * patch_n8_tiles[tiles.kernel],
                .terms = tiles.half_steps ? 32 : 64,
                .works = tiles.works(),
                .steps = static_cast<double>(filters_.steps()),
                .filter_bytes = tiles.keeps_filters ? 0.0 : patch_stage_bytes,
                .patch_bytes = static_cast<double>(tiles.tile.patch_positions()) * row_bytes *
                               phases_.count() / taps,
                .outputs = static_cast<double>(tiles.tile.images) * tiles.tile.rows *
                           tiles.tile.columns * std::min(filters_.groups.filters, patch_filters),
                .writes = writes_by,
                .read_bytes = traffic_.read,
                .written_bytes = traffic_.written,
                .repacking = traffic_.repacking});
  }

  WidePatchWrites writes(const PatchTile& tile) const {
    if (!planes_) return WidePatchWrites::filters;
    return run_of_outputs(problem_, tile, nullptr) > 1 ? WidePatchWrites::runs
                                                       : WidePatchWrites::elements;
  }

  const ConvProblem& problem_;
  const WideFilters& filters_;
  const WideInput& input_;
  const DeviceInfo& device_;
  PatchPlanePhases phases_;
  PatchTraffic traffic_;
  bool planes_;
  PatchTiles best_;
};

}  // namespace

void PatchTiles::cover(std::int64_t n) {
  images = static_cast<int>(ceil_div(n, std::int64_t{tile.images}));
}

int PatchTiles::shared_bytes() const {
  return swizzle_atom_bytes + patch_bytes() + stages * patch_stage_bytes + patch_staging_bytes +
         patch_barrier_bytes + patch_table_bytes;
}

PatchTiles tile_patches(const ConvProblem& problem, const WideFilters& filters,
                        const WideInput& input, const DeviceInfo& device, PatchChoice choice) {
  PatchSearch search(problem, filters, input, device);
  if (choice.columns > 0)
    search.look_at(std::max(choice.images, 1), choice.rows, choice.columns);
  else
    search.look_at_all();
  return search.best();
}

namespace {

/// The tiles that read planes as they lie.
PatchTiles tile_across(const ConvProblem& problem, const WideFilters& filters,
                       const DeviceInfo& device, PatchChoice choice) {
  const ConvProblem flat = flat_problem(problem);
  const WideInput as_it_lies;
  PatchSearch search(flat, filters, as_it_lies, device);
  for (const int copies : {1, 2, 4})
    if (choice.columns == 0 || choice.columns == copies * patch_across_pixels)
      search.look_across(copies);
  return search.best();
}

}  // namespace

bool has_patch_stride(const ConvProblem& problem) {
  const WideMapAxes axes(problem);
  return axes.axis[0].step() != 1 || axes.axis[1].step() != 1;
}

Support supports_wide_patch(const ConvProblem& p, const WideClass& of, const DeviceInfo& device) {
  if (Support stored = supports_dtypes({of.stored}, p); !stored) return stored;
  if (Support wgmma = supports_wgmma(device); !wgmma) return wgmma;
  if (p.pool != Pool::none) return refuse(Reason::geometry, "pools; expected none");
  if (p.boundary != Boundaries{})
    return refuse(Reason::geometry, "a boundary other than zeros; expected zeros");
  const WideMapAxes axes(p);
  const PatchPlanePhases phases(axes);
  if (phases.count() > max_patch_phases)
    return refuse(Reason::geometry,
                  "strides of " + std::to_string(phases.rows.step()) + "×" +
                      std::to_string(phases.columns.step()) + ", whose taps have " +
                      std::to_string(static_cast<std::int64_t>(phases.count())) +
                      " phases; expected at most " + std::to_string(max_patch_phases));
  constexpr std::int64_t max_reach = 1 << 16;
  for (const WideMapAxis& axis : axes.axis)
    if (axis.reach() >= max_reach)
      return refuse(Reason::geometry,
                    std::string(axis.name) + ": the last tap " + std::to_string(axis.reach()) +
                        " behind the first; expected below " + std::to_string(max_reach));
  if (Support counts = supports_wide_counts(p, of); !counts) return counts;
  ConvProblem one = p;
  one.n = std::max<std::int64_t>(p.n, 1);
  const WideFilters filters(one, of);
  const WideInput input(one, filters);
  PatchSearch search(one, filters, input, device);
  search.look_for_any();
  if (search.best().kernel < 0) search.look_at_all();
  if (search.best().kernel < 0)
    return refuse(Reason::geometry,
                  "an output's taps reach over " + std::to_string(axes.axis[1].reach() + 1) + "×" +
                      std::to_string(axes.axis[0].reach() + 1) +
                      " pixels; expected those of a patch that shared memory holds, and below "
                      "2^31 tiles");
  return {};
}

PatchPlan::PatchPlan(const ConvProblem& problem, const WideClass& of, const DeviceInfo& device,
                     PatchChoice choice)
    : filters(problem, of), input(problem, filters) {
  if (problem.n == 0) return;
  const bool takes_planes = of.operand_bytes() == 2 && lies_across(problem, filters);
  tiles = tile_patches(problem, filters, input, device, takes_planes ? PatchChoice() : choice);
  if (choice.across == 0 || !takes_planes || !input.repacks) return;
  across = tile_across(problem, filters, device, choice);
  const bool is_faster = across->seconds < tiles.seconds;
  if (across->kernel < 0 || (choice.across < 0 && !is_faster))
    across.reset();
  else
    input.be_seldom();
}

std::size_t PatchPlan::workspace_bytes() const {
  return static_cast<std::size_t>(input.images) * static_cast<std::size_t>(input.image_bytes());
}

}  // namespace plumb::cuda
