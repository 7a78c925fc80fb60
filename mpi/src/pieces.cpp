#include "pieces.hpp"

#include <fmt/format.h>

#include "plumb/error.hpp"

namespace plumb::mpi {
namespace {

bool is_backward_data(const Partition& partition) {
  return partition.problem().direction == Direction::backward_data;
}

/// Whether a boundary of backward data is made here, of all axes: where one that is cut has it.
bool folds_here(const Partition& partition) {
  if (!is_backward_data(partition)) return false;
  for (int i = 0; i < 3; ++i)
    if (partition.axis(i).is_cut() && partition.axis(i).boundary != Boundary::zeros) return true;
  return false;
}

bool has_targets(const Box& box) {
  for (const Window& window : box.windows)
    if (window.count == 0) return false;
  return true;
}

/// The sides: along the first axis over the whole of the others, then within its interior.
void add_sides(RankBoxes& boxes) {
  Box box{.windows = {boxes.targets[0].whole, boxes.targets[1].whole, boxes.targets[2].whole}};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    for (const Window& side : boxes.targets[axis].sides) {
      Box at_side = box;
      at_side.windows[axis] = side;
      if (has_targets(at_side)) boxes.others.push_back(std::move(at_side));
    }
    box.windows[axis] = boxes.targets[axis].interior;
  }
  if (has_targets(box)) boxes.interior = std::move(box);
}

/// Every product of images and of what lies in the image itself, but for that alone.
void add_images(RankBoxes& boxes) {
  const auto count = [&](int axis) {
    return static_cast<int>(boxes.targets[static_cast<std::size_t>(axis)].images.size());
  };
  for (int d = -1; d < count(0); ++d)
    for (int h = -1; h < count(1); ++h)
      for (int w = -1; w < count(2); ++w) {
        Box box{.windows = {}, .images = {d, h, w}};
        if (!box.is_image()) continue;
        for (std::size_t axis = 0; axis < 3; ++axis) {
          const AxisTargets& targets = boxes.targets[axis];
          const int image = box.images[axis];
          box.windows[axis] =
              image < 0 ? targets.whole : targets.images[static_cast<std::size_t>(image)].window;
        }
        if (has_targets(box)) boxes.others.push_back(std::move(box));
      }
}

}  // namespace

RankBoxes boxes_of(const Partition& partition, int rank) {
  RankBoxes boxes;
  boxes.folds = folds_here(partition);
  const Place place = partition.place_of(rank);
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<std::size_t>(i);
    boxes.targets[at] = is_backward_data(partition)
                            ? backward_targets(partition.axis(i), place.axes[at], boxes.folds)
                            : forward_targets(partition.axis(i), place.axes[at]);
  }
  add_sides(boxes);
  add_images(boxes);
  return boxes;
}

std::vector<Piece> pieces_of(const Partition& partition, int rank, const Box& box) {
  std::vector<Piece> pieces;
  Place place = partition.place_of(rank);
  for (const Run& d : box.windows[0].runs)
    for (const Run& h : box.windows[1].runs)
      for (const Run& w : box.windows[2].runs) {
        place.axes = {d.part, h.part, w.part};
        pieces.push_back({.rank = partition.rank_of(place), .runs = {d, h, w}});
      }
  return pieces;
}

ConvProblem problem_of_box(const Partition& partition, const Box& box, std::int64_t images) {
  ConvProblem local = partition.problem();
  local.x_strides = local.w_strides = local.y_strides = {};
  local.n = images;
  const auto& [d, h, w] = box.windows;
  const bool backward = is_backward_data(partition);
  local.d = backward ? d.count : d.length;
  local.h = backward ? h.count : h.length;
  local.w = backward ? w.count : w.length;
  local.padding = {d.before, h.before, w.before, d.after, h.after, w.after};
  local.boundary = {d.boundary, h.boundary, w.boundary};
  const std::int64_t z = backward ? d.length : d.count, p = backward ? h.length : h.count,
                     q = backward ? w.length : w.count;
  if (local.z() != z || local.p() != p || local.q() != q)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("distributed: a piece of {}x{}x{} outputs came out as {}x{}x{}; this is "
                    "a bug of Plumb's",
                    z, p, q, local.z(), local.p(), local.q()));
  return local;
}

void check_halos(const Partition& partition) {
  for (int i = 0; i < 3; ++i) check_halos(partition.axis(i), is_backward_data(partition));
}

}  // namespace plumb::mpi
