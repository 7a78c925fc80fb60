// Compiled with CUDA's words for the host (device_words.hpp).
#include "cuda_kernels/fields/emulation/weights_tree_on_host.hpp"

#include <vector>

namespace plumb::cuda {
template <class To, class From>
To convert(From value) {
  return static_cast<To>(value);
}
}  // namespace plumb::cuda

#include "cuda_kernels/fma/weights_tree.cuh"

namespace plumb_test::emulation {
namespace {

using namespace plumb;
using namespace plumb::cuda;

template <class Real>
void run(const weights_tree::Shape& shape, const Real* x, const Real* dy, Real* dw) {
  std::vector<Real> parts(static_cast<std::size_t>(shape.elements * shape.parts));
  for (std::int64_t i = 0; i < shape.elements * shape.parts; ++i) {
    const weights_tree::Element at(shape, i % shape.elements);
    parts[static_cast<std::size_t>(i)] =
        weights_tree::part_sum<Real>(shape, at, x, dy, i / shape.elements);
  }
  for (std::int64_t i = 0; i < shape.elements; ++i) {
    Real sum = weights_tree::tree_sum(parts.data() + i, shape.parts, shape.elements);
    Real& to = dw[weights_tree::Element(shape, i).offset(shape)];
    sum += Real{0};
    to = shape.accumulate ? sum + to : sum;
  }
}

}  // namespace

void weights_tree_on_host(const ConvProblem& problem, const void* x, const void* dy, void* dw,
                          bool accumulate, std::int64_t parts) {
  const GradientTree tree(problem);
  const weights_tree::Shape shape(problem, tree, tree.segments_of_part(parts), accumulate);
  if (problem.dtype == DType::f32)
    run(shape, static_cast<const float*>(x), static_cast<const float*>(dy),
        static_cast<float*>(dw));
  else
    run(shape, static_cast<const double*>(x), static_cast<const double*>(dy),
        static_cast<double*>(dw));
}

}  // namespace plumb_test::emulation
