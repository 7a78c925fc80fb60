// Convolution from scratch memory: a team makes a tile of outputs of one plane of one image for
// several filters of a group. The planes of the input under a filter are channels to it: some of
// them at a time, it loads the input under the tile and the filters' taps
// into the team's scratch memory, and then each vector lane sums its own output for all the
// filters, so that an input is read once for all of them.
//
// Tiling: up to 32 columns, a lane each, and as many rows, a thread each, as keep
//   the tile's sums under 2,048; as many channels (C/G T) at a time as scratch memory holds. Sums
//   lie in scratch memory while the next channels come in.
// Bytes: y once; x (1 + (R - stride) / (rows stride)) (1 + (S - stride) / (columns stride)) times
//   for each block of filters; w once for each tile.
// Wins: wherever there are enough outputs to fill tiles: on the host the loop over the filters is
//   what becomes vectors, on a device the lanes are.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "kokkos_kernels/conv_algorithms.hpp"
#include "kokkos_kernels/conv_shape.hpp"
#include "kokkos_kernels/conv_support.hpp"
#include "kokkos_kernels/teams.hpp"

namespace plumb::kokkos {
namespace {

constexpr int max_columns = 32, max_rows = 8, max_sums = 2048;

constexpr std::int64_t pieces_of(std::int64_t extent, std::int64_t piece) {
  return (extent - 1) / piece + 1;
}

/// f(0), f(1) and so on written one after the other, so that an array it indexes lies in registers.
template <class F, int... i>
KOKKOS_FORCEINLINE_FUNCTION void unrolled(std::integer_sequence<int, i...>, const F& f) {
  (f(i), ...);
}

/// How a problem is cut; counts that scratch memory bounds are ints.
struct Tiling {
  int rows, columns;              ///< of outputs
  int input_rows, input_columns;  ///< under them
  int taps;                       ///< R S
  int channels;                   ///< at a time, of `all_channels`
  std::int64_t all_channels;      ///< C/G T: the planes under a filter
  std::int64_t down, across, filter_blocks;

  /// Elements of scratch memory.
  KOKKOS_INLINE_FUNCTION int inputs() const { return channels * input_rows * input_columns; }
  KOKKOS_INLINE_FUNCTION int outputs() const { return rows * columns; }
};

struct Tile {
  std::int64_t rows, columns, input_rows, input_columns;
};
template <int filters>
Tile tile_of(const ConvProblem& problem) {
  const std::int64_t columns = std::min<std::int64_t>(problem.q(), max_columns);
  const std::int64_t rows =
      std::min({problem.p(), std::int64_t{max_rows}, max_sums / filters / columns});
  const auto reach = [](std::int64_t outputs, std::int64_t stride, std::int64_t taps,
                        std::int64_t dilation) {
    return (outputs > 1 ? (outputs - 1) * stride : 0) + (taps - 1) * dilation + 1;
  };
  return {rows, columns, reach(rows, problem.stride.h, problem.r, problem.dilation.h),
          reach(columns, problem.stride.w, problem.s, problem.dilation.w)};
}

/// What Kokkos may add between three arrays to align them.
constexpr double alignment_bytes = 3 * 64;

/// Bytes of scratch memory beside what each channel needs, and those of a channel. In double,
/// because it cannot overflow.
struct ScratchBytes {
  double fixed, per_channel;
};
template <class Sum, int filters>
ScratchBytes scratch_bytes(const ConvProblem& problem) {
  const Tile tile = tile_of<filters>(problem);
  const double taps = static_cast<double>(problem.r) * static_cast<double>(problem.s);
  const double inputs =
      static_cast<double>(tile.input_rows) * static_cast<double>(tile.input_columns);
  return {alignment_bytes + static_cast<double>(sizeof(Sum)) * filters *
                                static_cast<double>(tile.rows * tile.columns),
          static_cast<double>(sizeof(Sum)) * (inputs + filters * taps)};
}

template <class Sum, int filters>
Tiling tiling_of(const ConvProblem& problem, const DeviceInfo& device) {
  const Tile tile = tile_of<filters>(problem);
  const ScratchBytes bytes = scratch_bytes<Sum, filters>(problem);
  const double room = static_cast<double>(device.shared_memory_bytes) - bytes.fixed;
  const double channels = std::min(room / bytes.per_channel,
                                   static_cast<double>(problem.c / problem.groups * problem.t));
  return {.rows = static_cast<int>(tile.rows),
          .columns = static_cast<int>(tile.columns),
          .input_rows = static_cast<int>(tile.input_rows),
          .input_columns = static_cast<int>(tile.input_columns),
          .taps = static_cast<int>(problem.r * problem.s),
          .channels = static_cast<int>(channels),
          .all_channels = problem.c / problem.groups * problem.t,
          .down = pieces_of(problem.p(), tile.rows),
          .across = pieces_of(problem.q(), tile.columns),
          .filter_blocks = pieces_of(problem.k / problem.groups, filters)};
}

template <class Space, class Sum, class Stored, int filters>
struct TeamTile {
  using Team = typename Kokkos::TeamPolicy<Space>::member_type;
  using Scratch = Kokkos::View<Sum*, typename Space::scratch_memory_space,
                               Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

  ConvShape shape;
  Tiling tiling;
  const Stored* x;
  const Stored* w;
  Stored* y;
  Epilogue<Stored> epilogue;
  std::int64_t tiles;

  using EachFilter = std::make_integer_sequence<int, filters>;

  /// One tile: which outputs of which filters, and the scratch memory it is made in.
  struct Work {
    std::int64_t n, group, filter, z, p, q;  ///< the first of each; `filter` within the group
    Sum *inputs, *taps, *sums;
  };

  int scratch_bytes() const {
    return static_cast<int>(Scratch::shmem_size(tiling.inputs()) +
                            Scratch::shmem_size(tiling.channels * tiling.taps * filters) +
                            Scratch::shmem_size(tiling.outputs() * filters));
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const Scratch inputs(team.team_scratch(0), tiling.inputs());
    const Scratch taps(team.team_scratch(0), tiling.channels * tiling.taps * filters);
    const Scratch sums(team.team_scratch(0), tiling.outputs() * filters);
    const std::int64_t league = team.league_size();
    for (std::int64_t tile = team.league_rank(); tile < tiles; tile += league) {
      const Place at = place_of(tile, tiling.filter_blocks, shape.z, tiling.down, tiling.across);
      make_tile(team,
                {at.n / shape.groups, at.n % shape.groups, at.c * filters, at.d, at.h * tiling.rows,
                 at.w * tiling.columns, inputs.data(), taps.data(), sums.data()});
    }
  }

  KOKKOS_FUNCTION void make_tile(const Team& team, const Work& work) const {
    for (std::int64_t c = 0; c < tiling.all_channels; c += tiling.channels) {
      const std::int64_t rest = tiling.all_channels - c;
      const int channels = rest < tiling.channels ? static_cast<int>(rest) : tiling.channels;
      team.team_barrier();  // what came before may still be read
      load_inputs(team, work, c, channels);
      load_taps(team, work, c, channels);
      team.team_barrier();
      const bool first = c == 0, last = c + channels == tiling.all_channels;
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, tiling.rows), [&](int row) {
        Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, tiling.columns), [&](int column) {
          add_channels(work, channels, row, column, first, last);
        });
      });
    }
  }

  /// The input under the tile, zeros where there is none.
  KOKKOS_FUNCTION void load_inputs(const Team& team, const Work& work, std::int64_t first_channel,
                                   int channels) const {
    const std::int64_t first_d = shape.planes.first(work.z);
    const std::int64_t first_h = shape.rows.first(work.p), first_w = shape.columns.first(work.q);
    const Stored* image = x + work.n * shape.x_step.n + work.group * shape.group_c * shape.x_step.c;
    Kokkos::parallel_for(
        Kokkos::TeamThreadRange(team, channels * tiling.input_rows), [&](int line) {
          const std::int64_t channel = first_channel + line / tiling.input_rows;
          const std::int64_t d = shape.planes.source(first_d, channel % shape.planes.taps);
          const std::int64_t h = at_boundary(shape.rows.boundary,
                                             first_h + line % tiling.input_rows, shape.rows.extent);
          const bool inside = d >= 0 && h >= 0;
          const Stored* from = image + channel / shape.planes.taps * shape.x_step.c +
                               (inside ? d * shape.x_step.d + h * shape.x_step.h : 0);
          Sum* to = work.inputs + line * tiling.input_columns;
          Kokkos::parallel_for(
              Kokkos::ThreadVectorRange(team, tiling.input_columns), [&](int column) {
                const std::int64_t at =
                    at_boundary(shape.columns.boundary, first_w + column, shape.columns.extent);
                to[column] = inside && at >= 0 ? convert<Sum>(from[at * shape.x_step.w]) : Sum{0};
              });
        });
  }

  /// The filters' taps, filters innermost; zeros for filters that the group does not have.
  KOKKOS_FUNCTION void load_taps(const Team& team, const Work& work, std::int64_t first_channel,
                                 int channels) const {
    const auto columns = static_cast<int>(shape.columns.taps);
    const Stored* group = w + (work.group * shape.group_k + work.filter) * shape.w_step.n;
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, channels * tiling.taps), [&](int line) {
      const std::int64_t channel = first_channel + line / tiling.taps;
      const int tap = line % tiling.taps;
      const Stored* from =
          group + shape.w_step.offset(0, channel / shape.planes.taps, channel % shape.planes.taps,
                                      tap / columns, tap % columns);
      Sum* to = work.taps + line * filters;
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, filters), [&](int filter) {
        to[filter] = work.filter + filter < shape.group_k
                         ? convert<Sum>(from[filter * shape.w_step.n])
                         : Sum{0};
      });
    });
  }

  /// What these channels add to one output of each filter.
  KOKKOS_FUNCTION void add_channels(const Work& work, int channels, int row, int column, bool first,
                                    bool last) const {
    const int output = row * tiling.columns + column, outputs = tiling.outputs();
    Sum sums[filters];
    unrolled(EachFilter{}, [&](int filter) {
      sums[filter] = first ? Sum{0} : work.sums[filter * outputs + output];
    });

    const int below = static_cast<int>(shape.rows.dilation) * tiling.input_columns;
    const int beside = static_cast<int>(shape.columns.dilation);
    const Sum* tap = work.taps;
    for (int c = 0; c < channels; ++c) {
      const Sum* line = work.inputs +
                        (c * tiling.input_rows + row * static_cast<int>(shape.rows.stride)) *
                            tiling.input_columns +
                        column * static_cast<int>(shape.columns.stride);
      for (std::int64_t r = 0; r < shape.rows.taps; ++r, line += below) {
        const Sum* input = line;
        for (std::int64_t s = 0; s < shape.columns.taps; ++s, input += beside, tap += filters)
          unrolled(EachFilter{}, [&](int filter) { sums[filter] += *input * tap[filter]; });
      }
    }

    if (last) {
      Sum finished[filters];
      unrolled(EachFilter{}, [&](int filter) { finished[filter] = sums[filter]; });
      store(work, work.p + row, work.q + column, finished);
    } else {
      unrolled(EachFilter{},
               [&](int filter) { work.sums[filter * outputs + output] = sums[filter]; });
    }
  }

  KOKKOS_FUNCTION void store(const Work& work, std::int64_t p, std::int64_t q,
                             const Sum* sums) const {
    if (p >= shape.p || q >= shape.q) return;
    const std::int64_t rest = shape.group_k - work.filter;
    for (int filter = 0; filter < filters && filter < rest; ++filter) {
      const std::int64_t k = work.group * shape.group_k + work.filter + filter;
      Sum sum = sums[filter];
      // In the padding the filter met a zero, and 0 * Inf is NaN: such sums are taken again
      // without it, which keeps a NaN that came from the data.
      if (shape.padded && sum != sum)
        sum = direct_sum<Sum>(shape, x, w, Place{work.n, k, work.z, p, q});
      epilogue(sum, k, y + shape.y_step.offset(work.n, k, work.z, p, q));
    }
  }
};

/// The power of two that lanes are counted in, wide enough for the columns.
int lanes_for(int columns) {
  int lanes = 1;
  while (lanes < columns) lanes *= 2;
  return lanes;
}

template <class Sum, int filters, class... Stored>
void launch(const ConvLaunch& call) {
  const ConvProblem& problem = call.problem;
  const Tiling tiling = tiling_of<Sum, filters>(problem, call.device);
  const std::int64_t tiles =
      problem.n * problem.groups * tiling.filter_blocks * problem.z() * tiling.down * tiling.across;
  with_stored<Stored...>(problem.dtype, [&]<class Element>(Element) {
    with_instance(instance_of(call), [&]<class Space>(const Space& space) {
      const TeamTile<Space, Sum, Element, filters> kernel{ConvShape(problem),
                                                          tiling,
                                                          static_cast<const Element*>(call.x),
                                                          static_cast<const Element*>(call.w),
                                                          static_cast<Element*>(call.y),
                                                          Epilogue<Element>(call),
                                                          tiles};
      auto policy = team_policy(space, league_of(tiles), tiling.rows, lanes_for(tiling.columns));
      policy.set_scratch_size(0, Kokkos::PerTeam(kernel.scratch_bytes()));
      Kokkos::parallel_for("plumb.conv.team_tile", policy, kernel);
    });
  });
}

template <class Sum, int filters>
Support fits_scratch(const ConvProblem& problem, const DeviceInfo& device) {
  const ScratchBytes bytes = scratch_bytes<Sum, filters>(problem);
  const double least = bytes.fixed + bytes.per_channel;
  if (least <= static_cast<double>(device.shared_memory_bytes)) return {};
  char needed[32];
  std::snprintf(needed, sizeof needed, "%.0f", least);
  return {Reason::device_limit, "needs " + std::string(needed) +
                                    " bytes of a team's scratch memory; there are " +
                                    std::to_string(device.shared_memory_bytes)};
}

template <int filters>
Support supports_fp32(const ConvProblem& problem, const DeviceInfo& device) {
  if (const Support stored = takes_fp32(problem, device); !stored) return stored;
  return fits_scratch<float, filters>(problem, device);
}
template <int filters>
Support supports_fp64(const ConvProblem& problem, const DeviceInfo& device) {
  if (const Support stored = takes_fp64(problem, device); !stored) return stored;
  return fits_scratch<double, filters>(problem, device);
}

/// Filters that fill up a block cost as much as the others. Shares of the rate and the cost of a
/// load are those of one core without wide vectors.
template <int filters>
double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  const Tile tile = tile_of<filters>(problem);
  const auto group_k = static_cast<double>(problem.k / problem.groups);
  const double blocks = std::ceil(group_k / filters);
  const double idle = blocks * filters / group_k;
  const double inputs = static_cast<double>(tile.input_rows * tile.input_columns);
  const double taps = static_cast<double>(problem.r * problem.s);
  const double loads =
      (inputs + filters * taps) / (static_cast<double>(tile.rows * tile.columns) * taps * filters);
  constexpr double load_cost = 16, share = filters == 1   ? 1.0 / 8
                                           : filters == 4 ? 1.0 / 4
                                                          : 1.0 / 2;
  return model_seconds(problem, device, problem.flop() * idle * (1 + share * load_cost * loads),
                       share * plain_share(device));
}

template <int filters>
constexpr ConvAlgorithm entry_fp32(std::string_view name) {
  return entry<supports_fp32<filters>, estimate<filters>,
               launch<float, filters, float, Half, BFloat16>>(name, fp32_sums);
}

}  // namespace

const ConvAlgorithm team_tile_fp32_16_filters =
    entry_fp32<16>("kokkos.conv.team_tile.fp32.16_filters");
const ConvAlgorithm team_tile_fp32_4_filters =
    entry_fp32<4>("kokkos.conv.team_tile.fp32.4_filters");
const ConvAlgorithm team_tile_fp32_1_filter = entry_fp32<1>("kokkos.conv.team_tile.fp32.1_filter");
const ConvAlgorithm team_tile_fp64_8_filters =
    entry<supports_fp64<8>, estimate<8>, launch<double, 8, double, float>>(
        "kokkos.conv.team_tile.fp64.8_filters", fp64_sums);

}  // namespace plumb::kokkos
