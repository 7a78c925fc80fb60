// The bits of backward weights by CUDA's tree, on the host: those of the plain loop. Those of the
// field kernels are test_order.cpp's.
#include <catch2/catch_test_macros.hpp>

#include "cuda_kernels/fields/emulation/weights_tree_on_host.hpp"
#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"
#include "support/host_tensor.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;

TEST_CASE("weights_tree on the host: the bits of the plain loop") {
  for (const char* text : {"mb3ic2ih70iw80oc2kh3ph1", "g2mb2ic4ih9iw38oc6kh3sh2ph1",
                           "mb2ic2id6ih5iw6oc3kd2kh3kw3pd1ph1", "mb2ic1ih1iw9000oc1kh1kw5pw2dw1",
                           "mb70ic1ih7iw5oc2kh2"})
    for (const DType dtype : {DType::f32, DType::f64})
      for (const bool accumulate : {false, true}) {
        ConvProblem problem = parse_problem(text).problem;
        problem.direction = Direction::backward_weights;
        problem.dtype = dtype;
        problem = check(problem);
        Random random(7);
        HostTensor x(dtype, problem.x_extents()), dy(dtype, problem.y_extents()),
            dw(dtype, problem.w_extents());
        for (HostTensor* tensor : {&x, &dy, &dw}) tensor->fill([&] { return random.normal(); });
        HostTensor expected = dw;
        reproducible_conv(problem, {.accumulate = accumulate},
                          {.x = x.view(), .w = dy.view(), .y = expected.view()});
        for (const std::int64_t parts : {1, 3, 64}) {
          HostTensor result = dw;
          weights_tree_on_host(problem, x.view().data(), dy.view().data(), result.view().data(),
                               accumulate, parts);
          CAPTURE(text, to_string(dtype), accumulate, parts);
          CHECK(result.values() == expected.values());
        }
      }
}
