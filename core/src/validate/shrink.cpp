// Shrinks a failing case, a step at a time.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "plumb/error.hpp"
#include "plumb/validate.hpp"

namespace plumb {
namespace {

/// The sizes of a problem, each free of the others: channels and filters are those of a group.
struct Sizes {
  static constexpr int count = 22, first_padding = 16;
  std::int64_t n, c, k, groups;
  Triple image, filter, stride, dilation;
  Padding padding;

  explicit Sizes(const ConvProblem& p)
      : n(p.n),
        c(p.c / p.groups),
        k(p.k / p.groups),
        groups(p.groups),
        image(p.d, p.h, p.w),
        filter(p.t, p.r, p.s),
        stride(p.stride),
        dilation(p.dilation),
        padding(p.padding) {}

  /// The depth last of each: what is left of a problem with one is a problem without.
  std::int64_t& at(int i) {
    std::int64_t* const all[count] = {&n,
                                      &c,
                                      &k,
                                      &groups,
                                      &image.h,
                                      &image.w,
                                      &image.d,
                                      &filter.h,
                                      &filter.w,
                                      &filter.d,
                                      &stride.h,
                                      &stride.w,
                                      &stride.d,
                                      &dilation.h,
                                      &dilation.w,
                                      &dilation.d,
                                      &padding.top,
                                      &padding.left,
                                      &padding.front,
                                      &padding.bottom,
                                      &padding.right,
                                      &padding.back};
    return *all[i];
  }
  static std::int64_t least(int i) { return i < first_padding ? 1 : 0; }
};

constexpr Placement layouts[] = {Placement::nchw, Placement::nhwc, Placement::strided};

Strides strides_in(Placement layout, const ConvProblem& problem, int tensor) {
  const ConvProblem laid = validation_case("", problem, layout).problem;
  return tensor == 0 ? laid.x_strides : tensor == 1 ? laid.w_strides : laid.y_strides;
}

Strides& strides_of(ConvProblem& problem, int tensor) {
  return tensor == 0 ? problem.x_strides : tensor == 1 ? problem.w_strides : problem.y_strides;
}

Extents extents_of(const ConvProblem& problem, int tensor) {
  return tensor == 0   ? problem.x_extents()
         : tensor == 1 ? problem.w_extents()
                       : problem.y_extents();
}

/// The same order, signs and broadcasts without gaps or overlaps.
Strides packed(const Strides& strides, const Extents& extents) {
  std::vector<int> order(static_cast<std::size_t>(extents.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return std::abs(strides[a]) != std::abs(strides[b])
               ? std::abs(strides[a]) < std::abs(strides[b])
               : a > b;
  });
  Strides result = strides;
  std::int64_t reach = 1;
  for (const int i : order) {
    if (strides[i] == 0) continue;
    result[i] = strides[i] < 0 ? -reach : reach;
    reach *= std::max<std::int64_t>(1, extents[i]);
  }
  return result;
}

class Shrinking {
 public:
  Shrinking(ValidationCase failing, const std::function<bool(const ValidationCase&)>& fails,
            int max_tries)
      : smallest_(std::move(failing)), fails_(fails), tries_(max_tries) {}

  ValidationCase run() {
    smallest_.name.clear();
    while (tries_ > 0) {
      const ValidationCase before = smallest_;
      drop_features();
      shrink_sizes();
      simplify_strides();
      if (smallest_ == before) shrink_pairs();
      if (smallest_ == before) break;
    }
    return smallest_;
  }

 private:
  bool accept(ValidationCase candidate) {
    if (tries_ <= 0) return false;
    try {
      candidate.problem = check(candidate.problem);
    } catch (const Error&) {
      return false;
    }
    candidate.placement = Placement::views;
    for (const Placement layout : layouts) {
      const ValidationCase laid = validation_case("", candidate.problem, layout);
      if (laid.problem == candidate.problem && laid.offset == candidate.offset) {
        candidate.placement = layout;
        break;
      }
    }
    if (candidate == smallest_) return false;
    --tries_;
    if (!fails_(candidate)) return false;
    smallest_ = std::move(candidate);
    return true;
  }

  void drop_features() {
    const auto with = [&](const auto& change) {
      ValidationCase candidate = smallest_;
      change(candidate);
      accept(candidate);
    };
    with([](ValidationCase& c) {
      c.problem.direction = Direction::forward;
      c.relu_mask = false;
    });
    with([](ValidationCase& c) { c.relu_mask = false; });
    with([](ValidationCase& c) { c.bias = false; });
    with([](ValidationCase& c) { c.activation = Activation::none; });
    with([](ValidationCase& c) { c.accumulate = false; });
    with([](ValidationCase& c) { c.problem.boundary = {}; });
    for (Boundary Boundaries::*const axis : {&Boundaries::d, &Boundaries::h, &Boundaries::w})
      with([axis](ValidationCase& c) { c.problem.boundary.*axis = Boundary::zeros; });
    with([](ValidationCase& c) { drop_depth(c.problem); });
    with([](ValidationCase& c) {
      if (c.problem.pool == Pool::none) return;
      c.problem.pool = Pool::none;
      c.problem.y_strides = {};
    });
    with([](ValidationCase& c) { c.problem.dtype = DType::f32; });
    with([](ValidationCase& c) { c.offset = 0; });
    for (const Placement layout : {Placement::nchw, Placement::nhwc})
      if (smallest_.placement != Placement::nchw)
        with([&](ValidationCase& c) {
          const std::string name = c.name;
          c.problem = validation_case(name, c.problem, layout).problem;
          c.offset = 0;
        });
  }

  /// One plane of the image under one of the filter, as they lie.
  static void drop_depth(ConvProblem& p) {
    if (!p.has_depth()) return;
    p.d = p.t = 1;
    p.stride.d = p.dilation.d = 1;
    p.padding.front = p.padding.back = 0;
  }

  /// The problem in other sizes. Tensors that lie in a layout stay in it, others keep their
  /// strides, which smaller ones can always have.
  ValidationCase resized(const Sizes& sizes) const {
    ValidationCase candidate = smallest_;
    ConvProblem& p = candidate.problem;
    p.n = sizes.n, p.groups = sizes.groups;
    p.c = sizes.c * sizes.groups, p.k = sizes.k * sizes.groups;
    p.d = sizes.image.d, p.h = sizes.image.h, p.w = sizes.image.w;
    p.t = sizes.filter.d, p.r = sizes.filter.h, p.s = sizes.filter.w;
    p.stride = sizes.stride, p.dilation = sizes.dilation, p.padding = sizes.padding;
    if (p.z() < 1 || p.p() < 1 || p.q() < 1) return smallest_;  // no problem at all
    const ConvProblem& old = smallest_.problem;
    try {
      for (int tensor = 0; tensor < 3; ++tensor)
        for (const Placement layout : layouts) {
          ConvProblem before = old;
          if (strides_of(before, tensor) != strides_in(layout, old, tensor)) continue;
          strides_of(p, tensor) = strides_in(layout, p, tensor);
          break;
        }
    } catch (const Error&) {
      return smallest_;
    }
    return candidate;
  }

  bool resize(int i, std::int64_t value) {
    Sizes sizes(smallest_.problem);
    sizes.at(i) = value;
    return accept(resized(sizes));
  }

  void shrink_sizes() {
    for (int i = 0; i < Sizes::count; ++i) {
      const auto now = [&] { return Sizes(smallest_.problem).at(i); };
      const std::int64_t least = Sizes::least(i);
      if (now() <= least || resize(i, least)) continue;
      // Halves while halves will do, then one less while that will.
      while (now() > least + 1 && resize(i, least + (now() - least) / 2)) {
      }
      while (now() > least && resize(i, now() - 1)) {
      }
    }
  }

  /// What holds two sizes together (an image as large as its filter) is stepped over by shrinking
  /// both, by one or to the least.
  void shrink_pairs() {
    for (int i = 0; i < Sizes::count; ++i)
      for (int j = i + 1; j < Sizes::count; ++j) {
        Sizes sizes(smallest_.problem);
        if (sizes.at(i) <= Sizes::least(i) || sizes.at(j) <= Sizes::least(j)) continue;
        Sizes least = sizes;
        least.at(i) = Sizes::least(i), least.at(j) = Sizes::least(j);
        --sizes.at(i), --sizes.at(j);
        if (accept(resized(least)) || accept(resized(sizes))) return;
      }
    shrink_square();
  }

  /// A square filter that has to stay one, with any one size beside it.
  void shrink_square() {
    Sizes smaller(smallest_.problem);
    if (smaller.filter.h != smaller.filter.w || smaller.filter.h < 2) return;
    --smaller.filter.h, --smaller.filter.w;
    for (int i = 0; i < Sizes::count; ++i) {
      Sizes sizes = smaller;
      if (sizes.at(i) <= Sizes::least(i)) continue;
      --sizes.at(i);
      if (accept(resized(sizes))) return;
    }
  }

  void simplify_strides() {
    for (int tensor = 0; tensor < 3; ++tensor) {
      const auto with = [&](const Strides& strides) {
        ValidationCase candidate = smallest_;
        strides_of(candidate.problem, tensor) = strides;
        return accept(candidate);
      };
      const Extents extents = extents_of(smallest_.problem, tensor);
      const Strides dense = dense_strides(extents);
      ConvProblem problem = smallest_.problem;
      if (strides_of(problem, tensor) == dense || with(dense)) continue;
      with(packed(strides_of(problem, tensor), extents));
      for (int i = 0; i < extents.rank(); ++i) {
        Strides strides = strides_of(smallest_.problem, tensor);
        if (strides[i] == dense[i]) continue;
        Strides one = strides;
        one[i] = dense[i];
        if (with(one) || strides[i] > 0) continue;
        one[i] = -strides[i];
        with(one);
      }
    }
  }

  ValidationCase smallest_;
  const std::function<bool(const ValidationCase&)>& fails_;
  int tries_;
};

}  // namespace

ValidationCase shrink(ValidationCase failing,
                      const std::function<bool(const ValidationCase&)>& fails, int max_tries) {
  return Shrinking(std::move(failing), fails, max_tries).run();
}

}  // namespace plumb
