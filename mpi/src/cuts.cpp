#include "cuts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plumb/error.hpp"

namespace plumb::mpi {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, "distributed: " + message);
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

/// From sizes, or as even as it goes.
Cuts cuts_of(const char* name, std::int64_t extent, std::int64_t parts,
             const std::vector<std::int64_t>& sizes) {
  if (parts < 1) refuse(fmt::format("{} parts of the {}; expected at least 1", parts, name));
  const std::int64_t least = parts == 1 ? extent : parts;
  if (extent < least)
    refuse(fmt::format("{} parts of a {} of {}; expected an element a part", parts, name, extent));
  Cuts cuts{0};
  if (sizes.empty()) {
    for (std::int64_t i = 1; i <= parts; ++i)
      cuts.push_back(extent / parts * i + extent % parts * i / parts);
    return cuts;
  }
  if (static_cast<std::int64_t>(sizes.size()) != parts)
    refuse(fmt::format("{} sizes along the {}; expected one for each of {} parts", sizes.size(),
                       name, parts));
  for (const std::int64_t size : sizes) {
    if (size < 1 && extent > 0)
      refuse(fmt::format("a block of {} along the {}; expected at least 1", size, name));
    if (size > extent - cuts.back())
      refuse(fmt::format("blocks along the {} of more than its {}", name, extent));
    cuts.push_back(cuts.back() + size);
  }
  if (cuts.back() != extent)
    refuse(fmt::format("blocks along the {} of {} in all; expected {}", name, cuts.back(), extent));
  return cuts;
}

/// An output lies where the middle of its window does.
Cuts output_cuts(const Axis& axis) {
  if (axis.stride == 1 && axis.in == axis.out) return axis.x;
  Cuts cuts{0};
  for (int part = 1; part < axis.parts(); ++part) {
    // The first output whose middle, q stride - before + (reach - 1) / 2, is at or behind the cut.
    const std::int64_t least =
        axis.x[static_cast<std::size_t>(part)] + axis.before - (axis.reach() - 1) / 2;
    cuts.push_back(std::clamp<std::int64_t>(-floor_quotient(-least, axis.stride), 0, axis.out));
  }
  cuts.push_back(axis.out);
  for (std::size_t i = 1; i < cuts.size(); ++i)
    if (cuts[i] <= cuts[i - 1])
      refuse(
          fmt::format("part {} of the {}, {} elements of the image from {} on, gets none of the {} "
                      "outputs; expected fewer parts, or sizes of the output",
                      i - 1, axis.name, axis.x[i] - axis.x[i - 1], axis.x[i - 1], axis.out));
  return cuts;
}

void check_axis(const Axis& axis) {
  if (!axis.is_cut()) return;
  for (const std::int64_t padding : {axis.before, axis.after})
    if (padding >= axis.reach())
      refuse(
          fmt::format("padding of {} along the {}, which is cut into {} parts; expected less than "
                      "the {} elements that the filter reaches over",
                      padding, axis.name, axis.parts(), axis.reach()));
}

}  // namespace

int part_of(const Cuts& cuts, std::int64_t index) {
  return static_cast<int>(std::upper_bound(cuts.begin(), cuts.end(), index) - cuts.begin()) - 1;
}

Partition::Partition(const ConvProblem& problem, const DistributedGrid& grid,
                     const DistributedSizes& sizes)
    : problem_(problem) {
  const ConvProblem& p = problem_;
  if (p.pool != Pool::none)
    refuse(fmt::format("a pooling ({}); expected none, since windows of it would be cut",
                       to_string(p.pool)));
  n_ = cuts_of("batch", p.n, grid.n, sizes.n);
  axes_[0] = {"depth",        p.d,          p.z(), p.t, p.stride.d, p.dilation.d, p.padding.front,
              p.padding.back, p.boundary.d, {},    {},  true};
  axes_[1] = {"height",         p.h,          p.p(), p.r, p.stride.h, p.dilation.h, p.padding.top,
              p.padding.bottom, p.boundary.h, {},    {}};
  axes_[2] = {"width",         p.w,          p.q(), p.s, p.stride.w, p.dilation.w, p.padding.left,
              p.padding.right, p.boundary.w, {},    {}};
  const std::int64_t parts[] = {grid.d, grid.h, grid.w};
  const std::vector<std::int64_t>* of_x[] = {&sizes.d, &sizes.h, &sizes.w};
  const std::vector<std::int64_t>* of_y[] = {&sizes.z, &sizes.p, &sizes.q};
  for (std::size_t i = 0; i < 3; ++i) {
    Axis& axis = axes_[i];
    axis.x = cuts_of(axis.name, axis.in, parts[i], *of_x[i]);
    check_axis(axis);
    axis.y = of_y[i]->empty() ? output_cuts(axis)
                              : cuts_of(("output's " + std::string(axis.name)).c_str(), axis.out,
                                        parts[i], *of_y[i]);
  }
}

int Partition::ranks() const {
  std::int64_t product = static_cast<std::int64_t>(n_.size()) - 1;
  for (const Axis& axis : axes_) product *= axis.parts();
  return static_cast<int>(product);
}

Place Partition::place_of(int rank) const {
  Place place;
  for (std::size_t i = 3; i-- > 0;) {
    place.axes[i] = rank % axes_[i].parts();
    rank /= axes_[i].parts();
  }
  place.n = rank;
  return place;
}

int Partition::rank_of(const Place& place) const {
  int rank = place.n;
  for (std::size_t i = 0; i < 3; ++i) rank = rank * axes_[i].parts() + place.axes[i];
  return rank;
}

std::int64_t Partition::images_of(int rank) const {
  const auto n = static_cast<std::size_t>(place_of(rank).n);
  return n_[n + 1] - n_[n];
}

DistributedBlock Partition::block(int rank, bool of_x) const {
  const Place place = place_of(rank);
  DistributedBlock block{.begin = {n_[static_cast<std::size_t>(place.n)], 0, 0, 0, 0},
                         .extents = {images_of(rank), of_x ? problem_.c : problem_.k, 1, 1, 1}};
  for (int i = 0; i < 3; ++i) {
    const Cuts& cuts = of_x ? axis(i).x : axis(i).y;
    const auto part = static_cast<std::size_t>(place.axes[static_cast<std::size_t>(i)]);
    block.begin[2 + i] = cuts[part];
    block.extents[2 + i] = cuts[part + 1] - cuts[part];
  }
  return block;
}

}  // namespace plumb::mpi
