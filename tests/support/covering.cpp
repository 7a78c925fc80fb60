#include "support/covering.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

using namespace plumb;

namespace plumb_test {
namespace {

enum : int {
  batch,
  channels,
  filters,
  groups,
  planes,
  rows,
  columns,
  depth,
  height,
  width,
  stride_d,
  stride_h,
  stride_w,
  dilation_d,
  dilation_h,
  dilation_w,
  front,
  top,
  left,
  back,
  bottom,
  right,
  boundary_d,
  boundary_h,
  boundary_w,
  stored,
  x_view,
  w_view,
  y_view,
  epilogue,
  pooling,
  accumulated,
  direction,
  count
};

constexpr int any = -1;  ///< of a parameter whose level is not chosen yet

/// What check() says no to hangs together within one direction, and through the pooling.
using Along = std::array<int, 7>;
constexpr Along along_d{depth, planes, stride_d, dilation_d, front, back, boundary_d};
constexpr Along along_h{height, rows, stride_h, dilation_h, top, bottom, boundary_h};
constexpr Along along_w{width, columns, stride_w, dilation_w, left, right, boundary_w};

int levels_of(int parameter) {
  return static_cast<int>(parameters()[static_cast<std::size_t>(parameter)].levels.size());
}

std::int64_t one_of(std::initializer_list<std::int64_t> values, int level) {
  return values.begin()[level];
}

struct Side {
  std::int64_t image, filter, stride, dilation, before, after;
  Boundary boundary;
};

/// Along the depth fewer of the levels are used.
Side side_of(const Assignment& levels, const Along& along) {
  const auto level = [&](std::size_t i) { return levels[static_cast<std::size_t>(along[i])]; };
  Side side{};
  side.filter = one_of({1, 2, 3, 5, 16}, level(1));
  side.stride = one_of({1, 2, side.filter, side.filter + 1}, level(2));
  side.dilation = 1 + level(3);
  const std::int64_t reach = side.dilation * (side.filter - 1) + 1;
  const std::int64_t vectors = (reach + 15) / 16 * 16;
  side.image = one_of({1, reach, reach + 1, (reach + 3) | 1, vectors, vectors + 1}, level(0));
  side.before = one_of({0, 1, side.filter - 1, side.image}, level(4));
  side.after = one_of({0, 1, side.filter - 1, side.image}, level(5));
  side.boundary = static_cast<Boundary>(level(6));
  return side;
}

enum class View { nchw, nhwc, gaps, mirrored, permuted, broadcast, sliding };

Strides view_of(View view, const Extents& extents) {
  Strides strides = dense_strides(extents);
  const int rank = extents.rank(), row = rank - 2, last = rank - 1;
  const auto ordered = [&](std::array<int, 5> fastest_first, std::int64_t gap) {
    std::int64_t reach = 1;
    for (int i = 0; i < rank; ++i) {
      const int dimension = fastest_first[static_cast<std::size_t>(i)];
      strides[dimension] = reach;
      reach = reach * extents[dimension] + gap;
    }
  };
  switch (view) {
    case View::nchw: break;
    case View::nhwc: strides = strides_for(Layout::nhwc, extents); break;
    case View::gaps: ordered({last, row, rank - 3, rank - 4, 0}, 3); break;
    case View::mirrored:
      for (int i = 0; i < rank; ++i) strides[i] = -strides[i];
      break;
    case View::permuted: ordered({row, 0, last, 1, 2}, 0); break;
    case View::broadcast: strides[extents[1] > 1 ? 1 : 0] = strides[2] = 0; break;
    case View::sliding:
      strides[2] = 2;  // planes of a tensor that has them
      strides[row] = 1;
      break;
  }
  return strides;
}

/// Says whether the direction goes with the levels that are chosen: gradients are not pooled, what
/// is written does not overlap itself, and weights are not activated.
bool fits_direction(const Assignment& levels) {
  const auto level = [&](int parameter) { return levels[static_cast<std::size_t>(parameter)]; };
  constexpr int first_overlapping = static_cast<int>(View::broadcast);
  switch (static_cast<Direction>(level(direction))) {
    case Direction::forward: return true;
    case Direction::backward_data: return level(pooling) != 1 && level(x_view) < first_overlapping;
    case Direction::backward_weights:
      return level(pooling) != 1 && level(w_view) < first_overlapping && level(epilogue) < 2;
  }
  return false;
}

ConvProblem sizes_of(const Assignment& levels) {
  const auto level = [&](int parameter) { return levels[static_cast<std::size_t>(parameter)]; };
  ConvProblem problem;
  problem.n = one_of({1, 2, 3}, level(batch));
  problem.groups = one_of({1, 2, 3}, level(groups));
  problem.c = problem.groups * one_of({1, 2, 3, 8, 17}, level(channels));
  problem.k = problem.groups * one_of({1, 2, 3, 8, 17}, level(filters));
  const Side d = side_of(levels, along_d), h = side_of(levels, along_h),
             w = side_of(levels, along_w);
  problem.d = d.image, problem.h = h.image, problem.w = w.image;
  problem.t = d.filter, problem.r = h.filter, problem.s = w.filter;
  problem.stride = {d.stride, h.stride, w.stride};
  problem.dilation = {d.dilation, h.dilation, w.dilation};
  problem.padding = {d.before, h.before, w.before, d.after, h.after, w.after};
  problem.boundary = {d.boundary, h.boundary, w.boundary};
  problem.pool = level(pooling) ? Pool::max_2x2 : Pool::none;
  problem.direction = static_cast<Direction>(level(direction));
  return problem;
}

/// The problem of the levels. Error (invalid_argument) where check() refuses it, and where it drops
/// something that has no effect: what is not there does not meet anything.
ConvProblem problem_of_levels(const Assignment& levels) {
  if (!fits_direction(levels))
    throw Error(ErrorCode::invalid_argument, "levels of another direction; expected others");
  const ConvProblem sizes = sizes_of(levels), problem = check(sizes);
  const ConvGeometry &asked = sizes, &taken = problem;
  if (asked != taken)
    throw Error(ErrorCode::invalid_argument, "a level has no effect; expected one that has");
  if (levels[accumulated] == 1 && problem.pool != Pool::none)
    throw Error(ErrorCode::invalid_argument, "pooled and accumulated; expected one of them");
  return problem;
}

/// Whether some problem is taken with these levels along one direction, those that are `any` being
/// chosen for it; the other directions and all else are what is always taken.
bool possible_along(const Assignment& levels, const Along& along) {
  Assignment whole(count, 0);
  whole[pooling] = levels[pooling];
  whole[height] = whole[width] = 5;  // images of a vector and one, filters of 1
  const auto search = [&](const auto& self, std::size_t i) -> bool {
    if (i == along.size()) {
      try {
        problem_of_levels(whole);
        return true;
      } catch (const Error&) {
        return false;
      }
    }
    const auto at = static_cast<std::size_t>(along[i]);
    const int chosen = levels[at];
    for (int level = 0; level < levels_of(along[i]); ++level)
      if (chosen == any || chosen == level) {
        whole[at] = level;
        if (self(self, i + 1)) return true;
      }
    return false;
  };
  return search(search, 0);
}

/// Whether some problem is taken that has the levels which are not `any`.
class Possible {
 public:
  bool operator()(Assignment levels) {
    const int asked = levels[pooling], asked_direction = levels[direction];
    for (int pool = 0; pool < 2; ++pool) {
      if (asked != any && asked != pool) continue;
      if (pool == 1 && levels[accumulated] == 1) continue;
      levels[pooling] = pool;
      // Where none is asked for there is always forward.
      levels[direction] = std::max(asked_direction, 0);
      if (!fits_direction(levels)) continue;
      if (side(levels, along_d) && side(levels, along_h) && side(levels, along_w)) return true;
    }
    return false;
  }

 private:
  using Key = std::array<int, 9>;

  bool side(const Assignment& levels, const Along& one) {
    Key key{one[0], levels[pooling]};
    for (std::size_t i = 0; i < one.size(); ++i)
      key[i + 2] = levels[static_cast<std::size_t>(one[i])];
    const auto [at, is_new] = known_.try_emplace(key, false);
    if (is_new) at->second = possible_along(levels, one);
    return at->second;
  }

  std::map<Key, bool> known_;
};

/// A number for each triple of levels.
class Numbering {
 public:
  Numbering() {
    for (int i = 0; i < count; ++i) {
      first_.push_back(total_);
      total_ += levels_of(i);
    }
  }
  std::size_t size() const { return static_cast<std::size_t>(total_ * total_ * total_); }
  /// Parameters in ascending order.
  std::size_t operator()(int a, int la, int b, int lb, int c, int lc) const {
    const auto at = [&](int parameter, int level) {
      return first_[static_cast<std::size_t>(parameter)] + level;
    };
    return static_cast<std::size_t>((at(a, la) * total_ + at(b, lb)) * total_ + at(c, lc));
  }

 private:
  std::vector<int> first_;
  int total_ = 0;
};

template <class Visit>
void for_each_triple(const Visit& visit) {
  for (int a = 0; a < count; ++a)
    for (int b = a + 1; b < count; ++b)
      for (int c = b + 1; c < count; ++c)
        for (int la = 0; la < levels_of(a); ++la)
          for (int lb = 0; lb < levels_of(b); ++lb)
            for (int lc = 0; lc < levels_of(c); ++lc) visit(a, la, b, lb, c, lc);
}

Assignment with(int a, int la, int b, int lb, int c, int lc) {
  Assignment levels(count, any);
  levels[static_cast<std::size_t>(a)] = la;
  levels[static_cast<std::size_t>(b)] = lb;
  levels[static_cast<std::size_t>(c)] = lc;
  return levels;
}

/// Xorshift (Marsaglia 2003).
class Dice {
 public:
  int below(int sides) {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return static_cast<int>(state_ % static_cast<std::uint64_t>(sides));
  }

 private:
  std::uint64_t state_ = 0x2545f4914f6cdd1d;
};

/// Cases one after the other, each around a triple that is missing and with as many others as can
/// be had (the method of Cohen, Dalal, Fredman and Patton 1997).
class Construction {
 public:
  explicit Construction(double max_products)
      : max_products_(max_products), missing_(numbering_.size(), false) {
    for_each_triple([&](int a, int la, int b, int lb, int c, int lc) {
      if (!possible_(with(a, la, b, lb, c, lc))) return;
      missing_[numbering_(a, la, b, lb, c, lc)] = true;
    });
  }

  std::vector<Assignment> run() {
    std::vector<Assignment> cases;
    for_each_triple([&](int a, int la, int b, int lb, int c, int lc) {
      if (!missing_[numbering_(a, la, b, lb, c, lc)]) return;
      cases.push_back(around(with(a, la, b, lb, c, lc)));
      mark(cases.back());
    });
    return cases;
  }

 private:
  Assignment around(const Assignment& triple) {
    for (int attempt = 0; attempt < 200; ++attempt) {
      const Assignment levels = completed(triple, attempt);
      if (sizes_of(levels).flop() / 2 <= max_products_) return levels;
    }
    throw std::logic_error("a triple takes more multiplications than a case may have");
  }

  /// Later attempts leave more of the sizes at their first level, which is the smallest.
  Assignment completed(Assignment levels, int attempt) {
    std::vector<int> order;
    for (int i = 0; i < count; ++i)
      if (levels[static_cast<std::size_t>(i)] == any) order.push_back(i);
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(dice_.below(static_cast<int>(i)))]);
    for (const int parameter : order) {
      const bool small = parameter <= width && dice_.below(100) < attempt;
      levels[static_cast<std::size_t>(parameter)] = best_level(levels, parameter, small);
    }
    return levels;
  }

  int best_level(Assignment levels, int parameter, bool smallest) {
    const int all = levels_of(parameter), begin = smallest ? 0 : dice_.below(all);
    int best = any, most = -1;
    for (int i = 0; i < all; ++i) {
      const int level = (begin + i) % all;
      levels[static_cast<std::size_t>(parameter)] = level;
      if (!possible_(levels)) continue;
      const int gained = smallest ? 0 : gain(levels, parameter);
      if (gained > most) best = level, most = gained;
    }
    return best;
  }

  /// Missing triples of one parameter with two others that have a level.
  int gain(const Assignment& levels, int parameter) const {
    int gained = 0;
    for (int a = 0; a < count; ++a) {
      if (a == parameter || levels[static_cast<std::size_t>(a)] == any) continue;
      for (int b = a + 1; b < count; ++b)
        if (b != parameter && levels[static_cast<std::size_t>(b)] != any)
          gained += missing_[number({a, b, parameter}, levels)];
    }
    return gained;
  }

  std::size_t number(std::array<int, 3> three, const Assignment& levels) const {
    std::sort(three.begin(), three.end());
    const auto level = [&](int i) { return levels[static_cast<std::size_t>(i)]; };
    return numbering_(three[0], level(three[0]), three[1], level(three[1]), three[2],
                      level(three[2]));
  }

  void mark(const Assignment& levels) {
    for (int a = 0; a < count; ++a)
      for (int b = a + 1; b < count; ++b)
        for (int c = b + 1; c < count; ++c) missing_[number({a, b, c}, levels)] = false;
  }

  double max_products_;
  Numbering numbering_;
  Possible possible_;
  Dice dice_;
  std::vector<bool> missing_;
};

}  // namespace

const std::vector<Parameter>& parameters() {
  static const std::vector<std::string_view> one_to_17{"1", "2", "3", "8", "17"},
      taps{"1", "2", "3", "5", "16"},
      image{"1", "filter", "filter + 1", "odd", "whole vectors", "one more than vectors"},
      stride{"1", "2", "filter", "filter + 1"}, dilation{"1", "2", "3"},
      padding{"0", "1", "filter - 1", "image"},
      boundary{"zeros", "periodic", "reflect", "symmetric", "clamp"},
      read{"nchw", "nhwc", "gaps", "mirrored", "permuted", "broadcast", "sliding"},
      written{"nchw", "nhwc", "gaps", "mirrored", "permuted"};
  static const std::vector<Parameter> all{{"N", {"1", "2", "3"}},
                                          {"C/G", one_to_17},
                                          {"K/G", one_to_17},
                                          {"G", {"1", "2", "3"}},
                                          {"T", {"1", "2", "3"}},
                                          {"R", taps},
                                          {"S", taps},
                                          {"D", {"1", "filter", "filter + 1", "odd"}},
                                          {"H", image},
                                          {"W", image},
                                          {"stride.d", {"1", "2"}},
                                          {"stride.h", stride},
                                          {"stride.w", stride},
                                          {"dilation.d", {"1", "2"}},
                                          {"dilation.h", dilation},
                                          {"dilation.w", dilation},
                                          {"padding.front", padding},
                                          {"padding.top", padding},
                                          {"padding.left", padding},
                                          {"padding.back", padding},
                                          {"padding.bottom", padding},
                                          {"padding.right", padding},
                                          {"boundary.d", boundary},
                                          {"boundary.h", boundary},
                                          {"boundary.w", boundary},
                                          {"dtype", {"f32", "f64", "f16", "bf16"}},
                                          {"x", read},
                                          {"w", read},
                                          {"y", written},
                                          {"after", {"nothing", "bias", "ReLU", "both"}},
                                          {"pool", {"none", "max_2x2"}},
                                          {"accumulate", {"no", "yes"}},
                                          {"direction", {"forward", "data", "weights"}}};
  return all;
}

ValidationCase case_of(const Assignment& levels) {
  ConvProblem problem = problem_of_levels(levels);
  const auto level = [&](int parameter) { return levels[static_cast<std::size_t>(parameter)]; };
  constexpr DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
  problem.dtype = dtypes[level(stored)];
  problem.x_strides = view_of(static_cast<View>(level(x_view)), problem.x_extents());
  problem.w_strides = view_of(static_cast<View>(level(w_view)), problem.w_extents());
  problem.y_strides = view_of(static_cast<View>(level(y_view)), problem.y_extents());
  ValidationCase test = validation_case("", problem, Placement::views);
  test.bias = level(epilogue) % 2 == 1;
  test.activation = level(epilogue) >= 2 ? Activation::relu : Activation::none;
  test.accumulate = level(accumulated) == 1;
  return test;
}

std::vector<Assignment> covering_array(double max_products) {
  return Construction(max_products).run();
}

Triples count_triples(const std::vector<Assignment>& cases) {
  const Numbering numbering;
  std::vector<bool> has(numbering.size(), false);
  for (const Assignment& levels : cases) {
    case_of(levels);
    const auto level = [&](int i) { return levels[static_cast<std::size_t>(i)]; };
    for (int a = 0; a < count; ++a)
      for (int b = a + 1; b < count; ++b)
        for (int c = b + 1; c < count; ++c)
          has[numbering(a, level(a), b, level(b), c, level(c))] = true;
  }
  Possible possible;
  Triples triples;
  for_each_triple([&](int a, int la, int b, int lb, int c, int lc) {
    ++triples.all;
    triples.possible += possible(with(a, la, b, lb, c, lc));
    triples.covered += has[numbering(a, la, b, lb, c, lc)];
  });
  return triples;
}

}  // namespace plumb_test
