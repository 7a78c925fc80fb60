// Convolution with the channels of an output summed side by side: an output is a thread of a team,
// its vector lanes take the channels in turn and add up what they have.
//
// Tiling: none; a team takes as many outputs as it has threads, in the order N K Z P Q.
// Bytes: those of direct; where channels lie next to each other (NHWC, linear layers) a thread
// reads
//   whole cache lines.
// Wins: many channels and few outputs, on devices with vector lanes: linear layers.
#include "kokkos_kernels/conv_algorithms.hpp"
#include "kokkos_kernels/conv_shape.hpp"
#include "kokkos_kernels/conv_support.hpp"
#include "kokkos_kernels/teams.hpp"

namespace plumb::kokkos {
namespace {

constexpr int team_outputs = 8, lanes = 32;

template <class Space, class Sum, class Stored>
struct VectorReduce {
  using Team = typename Kokkos::TeamPolicy<Space>::member_type;

  ConvShape shape;
  const Stored* x;
  const Stored* w;
  Stored* y;
  Epilogue<Stored> epilogue;
  std::int64_t outputs;

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const std::int64_t league = team.league_size();
    for (std::int64_t first = team.league_rank() * std::int64_t{team_outputs}; first < outputs;
         first += league * team_outputs) {
      const std::int64_t rest = outputs - first;
      const int count = rest < team_outputs ? static_cast<int>(rest) : team_outputs;
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, count),
                           [&](int i) { make_output(team, first + i); });
    }
  }

  KOKKOS_FUNCTION void make_output(const Team& team, std::int64_t output) const {
    const Place at = place_of(output, shape.k, shape.z, shape.p, shape.q);
    const Window window = window_at(shape, at.d, at.h, at.w);
    const Stored* image =
        x + at.n * shape.x_step.n + at.c / shape.group_k * shape.group_c * shape.x_step.c;
    const Stored* filter = w + at.c * shape.w_step.n;
    Sum total = 0;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(team, shape.group_c),
        [&](std::int64_t c, Sum& sum) {
          sum = add_channel(sum, shape, image + c * shape.x_step.c, filter + c * shape.w_step.c,
                            window);
        },
        total);
    Kokkos::single(Kokkos::PerThread(team), [&] {
      epilogue(total, at.c, y + shape.y_step.offset(at.n, at.c, at.d, at.h, at.w));
    });
  }
};

template <class Sum, class... Stored>
void launch(const ConvLaunch& call) {
  const std::int64_t outputs = element_count(call.problem.y_extents());
  with_stored<Stored...>(call.problem.dtype, [&]<class Element>(Element) {
    with_instance(instance_of(call), [&]<class Space>(const Space& space) {
      const VectorReduce<Space, Sum, Element> kernel{ConvShape(call.problem),
                                                     static_cast<const Element*>(call.x),
                                                     static_cast<const Element*>(call.w),
                                                     static_cast<Element*>(call.y),
                                                     Epilogue<Element>(call),
                                                     outputs};
      const int league = league_of((outputs - 1) / team_outputs + 1);
      Kokkos::parallel_for("plumb.conv.vector_reduce",
                           team_policy(space, league, team_outputs, lanes), kernel);
    });
  });
}

double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  // The host has no lanes: a chain of additions there, and a scalar loop for a GPU's idle ones.
  const auto terms = static_cast<double>(problem.c / problem.groups);
  const double whole = device.compute_major > 0 ? std::max(1.0, lanes / terms) : 1.0;
  return model_seconds(problem, device, whole * problem.flop(), plain_share(device) / 20);
}

}  // namespace

const ConvAlgorithm vector_reduce_fp32 =
    entry<takes_fp32, estimate, launch<float, float, Half, BFloat16>>(
        "kokkos.conv.vector_reduce.fp32", fp32_sums);
const ConvAlgorithm vector_reduce_fp64 = entry<takes_fp64, estimate, launch<double, double, float>>(
    "kokkos.conv.vector_reduce.fp64", fp64_sums);

}  // namespace plumb::kokkos
