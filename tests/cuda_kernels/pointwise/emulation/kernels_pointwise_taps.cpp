// The sources of the kernel for few terms compiled for the host, in each arithmetic.
#include <vector>

#include "cuda_kernels/pointwise/pointwise_taps_entry.cuh"
#include "cuda_kernels/wide/emulation/guarded_memory.hpp"
#include "cuda_kernels/wide/emulation/launch_of.hpp"
#include "pointwise_taps_run.hpp"

namespace plumb_test::emulation {
namespace {

using namespace plumb;
using namespace plumb::cuda;

/// Calls `f` with a value of the arithmetic's type.
template <class F>
auto with_arithmetic(const PointwiseClass& of, const F& f) {
  if (of == pointwise_class_fp16) return f(PointwiseFp16{});
  if (of == pointwise_class_bf16) return f(PointwiseBf16{});
  if (of == pointwise_class_tf32) return f(PointwiseTf32{});
  return f(PointwiseTf32x3{});
}

}  // namespace

std::vector<char> packed_taps(const ConvProblem& problem, const TapsPlan& plan, const void* w) {
  const Memory filters(plan.filters.bytes());
  with_arithmetic(plan.filters.of, [&]<class Arithmetic>(Arithmetic) {
    pack_taps_filters<Arithmetic>(problem, plan.filters, w, filters.begin(), nullptr);
  });
  return filters.contents();
}

void run_taps(const TapsRunning& run) {
  with_arithmetic(run.plan.filters.of, [&]<class Arithmetic>(Arithmetic) {
    const Memory filters(run.plan.filters.bytes());
    pack_taps_filters<Arithmetic>(run.problem, run.plan.filters, run.w, filters.begin(), nullptr);
    const DeviceInfo device;
    const ConvLaunch call = launch_of(run, device);
    launch_taps<Arithmetic>(run.problem, run.plan,
                            {.x = run.x, .filters = filters.begin(), .y = run.y},
                            Epilogue<typename Arithmetic::Stored>(call), nullptr);
    filters.contents();
  });
}

}  // namespace plumb_test::emulation
