// Direct convolution: each output is summed as its definition says, one work item an output.
//
// Tiling: none; neighbouring work items are neighbouring outputs in the order N K Z P Q.
// Bytes: y once; x T R S / (stride) times for each of the K/G filters, from caches beyond the
// first. Wins: where there is too little of a problem to be worth tiles, and where tiles do not
// fit.
#include "kokkos_kernels/conv_algorithms.hpp"
#include "kokkos_kernels/conv_shape.hpp"
#include "kokkos_kernels/conv_support.hpp"

namespace plumb::kokkos {
namespace {

template <class Sum, class Stored>
struct Direct {
  ConvShape shape;
  const Stored* x;
  const Stored* w;
  Stored* y;
  Epilogue<Stored> epilogue;

  KOKKOS_FUNCTION void operator()(std::int64_t output) const {
    const Place at = place_of(output, shape.k, shape.z, shape.p, shape.q);
    epilogue(direct_sum<Sum>(shape, x, w, at), at.c,
             y + shape.y_step.offset(at.n, at.c, at.d, at.h, at.w));
  }
};

template <class Sum, class... Stored>
void launch(const ConvLaunch& call) {
  with_stored<Stored...>(call.problem.dtype, [&]<class Element>(Element) {
    const Direct<Sum, Element> kernel{ConvShape(call.problem), static_cast<const Element*>(call.x),
                                      static_cast<const Element*>(call.w),
                                      static_cast<Element*>(call.y), Epilogue<Element>(call)};
    with_instance(instance_of(call), [&]<class Space>(const Space& space) {
      Kokkos::parallel_for("plumb.conv.direct",
                           Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(
                               space, 0, element_count(call.problem.y_extents())),
                           kernel);
    });
  });
}

double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  return model_seconds(problem, device, problem.flop(), plain_share(device) / 16);
}

}  // namespace

const ConvAlgorithm direct_fp32 = entry<takes_fp32, estimate, launch<float, float, Half, BFloat16>>(
    "kokkos.conv.direct.fp32", fp32_sums);
const ConvAlgorithm direct_fp64 = entry<takes_fp64, estimate, launch<double, double, float>>(
    "kokkos.conv.direct.fp64", fp64_sums);

}  // namespace plumb::kokkos
