// ReLU: y = max(x, 0) element by element, NaN kept; x and y may be the same memory.
//
// Tiling: none; views without gaps are one run, others go along y's memory.
// Bytes: x and y once.
#include <array>
#include <cstdlib>

#include "kokkos_kernels/operators.hpp"
#include "kokkos_kernels/scalar.hpp"

namespace plumb::kokkos {
namespace {

template <class Stored>
struct Relu {
  const Stored* x;
  Stored* y;
  // The loops over both views, the innermost along y's memory; loops that follow each other in both
  // are one.
  int rank = 0;
  std::int64_t extents[Dims::max_rank] = {}, x_steps[Dims::max_rank] = {},
               y_steps[Dims::max_rank] = {};

  Relu(const ConstTensorView& from, const TensorView& to)
      : x(static_cast<const Stored*>(from.data())), y(static_cast<Stored*>(to.data())) {
    std::array<int, Dims::max_rank> order{};
    for (int i = 0; i < to.rank(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.begin() + to.rank(),
                     [&](int a, int b) { return std::abs(to.stride(a)) > std::abs(to.stride(b)); });
    for (int i = 0; i < to.rank(); ++i)
      add(to.extent(order[i]), from.stride(order[i]), to.stride(order[i]));
    if (rank == 0) add(1, 1, 1);
  }

  KOKKOS_FUNCTION void operator()(std::int64_t element) const {
    std::int64_t x_offset = 0, y_offset = 0;
    for (int i = rank - 1; i > 0; --i) {
      const std::int64_t index = element % extents[i];
      element /= extents[i];
      x_offset += index * x_steps[i];
      y_offset += index * y_steps[i];
    }
    using Value = ComputeType<Stored>;
    const Stored value = x[x_offset + element * x_steps[0]];
    y[y_offset + element * y_steps[0]] =
        convert<Value>(value) < 0 ? convert<Stored>(Value{0}) : value;
  }

 private:
  void add(std::int64_t extent, std::int64_t x_step, std::int64_t y_step) {
    const bool continues =
        rank > 0 && x_steps[rank - 1] == extent * x_step && y_steps[rank - 1] == extent * y_step;
    if (extent == 1 && rank > 0) return;
    if (!continues) extents[rank++] = 1;
    extents[rank - 1] *= extent;
    x_steps[rank - 1] = x_step;
    y_steps[rank - 1] = y_step;
  }
};

}  // namespace

void relu(const ConstTensorView& x, const TensorView& y, const Instance& instance) {
  with_any_stored(x.dtype(), [&]<class Stored>(Stored) {
    with_instance(instance, [&]<class Space>(const Space& space) {
      Kokkos::parallel_for("plumb.relu", all_elements(space, y.extents()), Relu<Stored>(x, y));
    });
  });
}

}  // namespace plumb::kokkos
