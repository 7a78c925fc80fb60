// The pointwise kernel's sources compiled for the host, in each arithmetic.
#include <stdexcept>
#include <vector>

#include "cuda_kernels/pointwise/pointwise_entry.cuh"
#include "cuda_kernels/wide/emulation/guarded_memory.hpp"
#include "cuda_kernels/wide/emulation/launch_of.hpp"
#include "pointwise_run.hpp"

namespace plumb_test::emulation {
namespace {

using namespace plumb;
using namespace plumb::cuda;

template <class Arithmetic, PointwiseFault fault>
void run_with(const PointwiseRun& run) {
  const Memory filters(run.plan.filters.bytes());
  pack_pointwise_filters<Arithmetic>(run.problem, run.plan.filters, run.w, filters.begin(),
                                     nullptr);
  const DeviceInfo device;
  const ConvLaunch call = launch_of(run, device);
  launch_pointwise<Arithmetic, fault>(run.problem, run.plan,
                                      {.x = run.x, .filters = filters.begin(), .y = run.y},
                                      Epilogue<typename Arithmetic::Stored>(call), nullptr);
  filters.contents();
}

void run_fp16(const PointwiseRun& run) {
  using enum PointwiseFault;
  switch (run.fault) {
    case none: return run_with<PointwiseFp16, none>(run);
    case swapped_terms: return run_with<PointwiseFp16, swapped_terms>(run);
    case stale_fragment: return run_with<PointwiseFp16, stale_fragment>(run);
    case lost_chunk: return run_with<PointwiseFp16, lost_chunk>(run);
    case lost_pixel: return run_with<PointwiseFp16, lost_pixel>(run);
    case unmasked: return run_with<PointwiseFp16, unmasked>(run);
    default: throw std::logic_error("a mistake that is not compiled");
  }
}

void run_tf32x3(const PointwiseRun& run) {
  using enum PointwiseFault;
  switch (run.fault) {
    case none: return run_with<PointwiseTf32x3, none>(run);
    case lost_low: return run_with<PointwiseTf32x3, lost_low>(run);
    case low_twice: return run_with<PointwiseTf32x3, low_twice>(run);
    default: throw std::logic_error("a mistake that is not compiled");
  }
}

template <class Arithmetic>
std::vector<char> packed_with(const ConvProblem& problem, const PointwisePlan& plan,
                              const void* w) {
  const Memory filters(plan.filters.bytes());
  pack_pointwise_filters<Arithmetic>(problem, plan.filters, w, filters.begin(), nullptr);
  return filters.contents();
}

}  // namespace

std::vector<char> packed_pointwise(const ConvProblem& problem, const PointwisePlan& plan,
                                   const void* w) {
  const PointwiseClass& of = plan.filters.of;
  if (of == pointwise_class_fp16) return packed_with<PointwiseFp16>(problem, plan, w);
  if (of == pointwise_class_bf16) return packed_with<PointwiseBf16>(problem, plan, w);
  if (of == pointwise_class_tf32) return packed_with<PointwiseTf32>(problem, plan, w);
  return packed_with<PointwiseTf32x3>(problem, plan, w);
}

void run_pointwise(const PointwiseRun& run) {
  const PointwiseClass& of = run.plan.filters.of;
  if (of == pointwise_class_fp16) return run_fp16(run);
  if (of == pointwise_class_tf32x3) return run_tf32x3(run);
  if (run.fault != PointwiseFault::none) throw std::logic_error("a mistake that is not compiled");
  if (of == pointwise_class_bf16) return run_with<PointwiseBf16, PointwiseFault::none>(run);
  run_with<PointwiseTf32, PointwiseFault::none>(run);
}

}  // namespace plumb_test::emulation
