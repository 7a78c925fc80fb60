// Softmax: y[n,:] = exp(x[n,:] - max x[n,:]) / their sum, a row to a thread of a team, its elements
// to the vector lanes.
//
// Bytes: x three times (maximum, sum, result), the second and third from caches for all but very
//   long rows; y once.
#include <cmath>

#include "kokkos_kernels/operators.hpp"
#include "kokkos_kernels/scalar.hpp"
#include "kokkos_kernels/teams.hpp"

namespace plumb::kokkos {
namespace {

constexpr int team_rows = 8, lanes = 32;

template <class Space, class Stored>
struct Softmax {
  using Team = typename Kokkos::TeamPolicy<Space>::member_type;
  using Value = ComputeType<Stored>;

  std::int64_t rows, c, x_n, x_c, y_n, y_c;
  const Stored* x;
  Stored* y;

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const std::int64_t league = team.league_size();
    for (std::int64_t first = team.league_rank() * std::int64_t{team_rows}; first < rows;
         first += league * team_rows) {
      const std::int64_t rest = rows - first;
      const int count = rest < team_rows ? static_cast<int>(rest) : team_rows;
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, count),
                           [&](int i) { make_row(team, first + i); });
    }
  }

  KOKKOS_FUNCTION void make_row(const Team& team, std::int64_t row) const {
    const Stored* from = x + row * x_n;
    Stored* to = y + row * y_n;
    Value largest = -infinity<Value>;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(team, c),
        [&](std::int64_t i, Value& most) {
          const auto value = convert<Value>(from[i * x_c]);
          if (value > most) most = value;
        },
        Kokkos::Max<Value>(largest));
    // A NaN is passed over by the maximum; it comes into every result by the sum.
    Value sum = 0;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(team, c),
        [&](std::int64_t i, Value& part) {
          part += std::exp(convert<Value>(from[i * x_c]) - largest);
        },
        sum);
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, c), [&](std::int64_t i) {
      to[i * y_c] = convert<Stored>(std::exp(convert<Value>(from[i * x_c]) - largest) / sum);
    });
  }
};

}  // namespace

void softmax(const ConstTensorView& x, const TensorView& y, const Instance& instance) {
  with_any_stored(x.dtype(), [&]<class Stored>(Stored) {
    with_instance(instance, [&]<class Space>(const Space& space) {
      const Softmax<Space, Stored> kernel{x.extent(0),
                                          x.extent(1),
                                          x.stride(0),
                                          x.stride(1),
                                          y.stride(0),
                                          y.stride(1),
                                          static_cast<const Stored*>(x.data()),
                                          static_cast<Stored*>(y.data())};
      const int league = league_of((kernel.rows - 1) / team_rows + 1);
      Kokkos::parallel_for("plumb.softmax", team_policy(space, league, team_rows, lanes), kernel);
    });
  });
}

}  // namespace plumb::kokkos
