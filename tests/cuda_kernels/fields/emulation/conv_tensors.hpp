// The tensors of an emulated convolution.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cuda_kernels/fields/emulation/judged.hpp"
#include "cuda_kernels/fields/emulation/judged_conv.hpp"
#include "plumb/plumb.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::emulation {

/// The tensors of a convolution, or those that take their parts in a gradient (image_of()), filled
/// as the options say.
struct ConvTensors {
  Random random;
  HostTensor x, w, bias, y;

  template <class Options>
  ConvTensors(const plumb::ConvProblem& problem, const Options& options, std::uint32_t seed)
      : random(seed),
        x(problem.dtype, image_of(problem).extents, image_of(problem).strides),
        w(problem.dtype, filters_of(problem).extents, filters_of(problem).strides),
        bias(problem.dtype, {bias_elements(problem)}),
        y(problem.dtype, output_of(problem).extents, output_of(problem).strides) {
    // Filters first, so that they do not depend on N.
    for (HostTensor* tensor : {&w, &x, &bias})
      tensor->fill([&] { return draw(random, options.data); });
    if constexpr (requires { options.accumulate; })
      if (options.accumulate) y.fill([&] { return draw(random, options.data); });
    put_extremes(options.data);
  }

  const void* bias_if(bool has_one) const { return has_one ? bias.view().data() : nullptr; }

  /// Has launch() do what `run` and the options say with these tensors, and returns what is wrong
  /// with y: sums of integers are exact, those of other data within `share` of the numerics' bound.
  template <class Run, class Options>
  std::string convolve(Run run, const Options& options, void (*launch)(const Run&),
                       const plumb::Numerics& numerics, double share = 1) const {
    run.w = w.view().data(), run.bias = bias_if(options.bias);
    run.relu = options.relu, run.accumulate = options.accumulate;
    bool shifted = false;
    if constexpr (requires { options.shifted; }) shifted = options.shifted;
    return judged_outputs(
        x, shifted, y,
        [&](const void* of_x, void* of_y) {
          run.x = of_x, run.y = of_y;
          launch(run);
        },
        [&](const std::vector<double>& values) {
          return first_wrong_output({run.problem, x, w, bias, y}, options, numerics, values, share);
        });
  }

 private:
  void put_extremes(Data data) {
    if (data == Data::infinite) {
      put(x, random, INFINITY), put(x, random, NAN);
      put(w, random, -INFINITY), put(w, random, NAN, true);
    }
    if (data == Data::large_products) {
      constexpr double rounds_up = 0x1p64 * (1 - 0x1p-13);
      for (HostTensor* tensor : {&x, &w}) {
        plumb::Dims first = tensor->extents();
        for (int i = 0; i < first.rank(); ++i) first[i] = 0;
        tensor->set(first, rounds_up);
      }
    }
    if (data == Data::largest)
      for (const double sign : {1, -1}) put(x, random, sign * std::numeric_limits<float>::max());
  }
};

}  // namespace plumb_test::emulation
