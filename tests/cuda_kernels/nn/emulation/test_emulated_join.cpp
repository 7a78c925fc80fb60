// Sums of phases moved to their pixels, emulated, beside the CPU's: random phases and layouts,
// aligned and not, with sums that are NaN.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "draws.hpp"
#include "pad_run.hpp"

using namespace plumb;
using namespace plumb_test::emulation;

namespace {

/// One axis of a convolution whose filters are phases.
struct Axis {
  std::int64_t phases, all_taps, taps, image, before, after, outputs, offset, pixels;

  Axis(Random& random, bool is_there) {
    phases = is_there ? draw(random, 1, 3) : 1;
    all_taps = is_there ? draw(random, phases, phases + 3) : 1;
    taps = (all_taps - 1) / phases + 1;
    image = is_there ? draw(random, taps, taps + 5) : 1;
    before = draw(random, 0, taps - 1), after = draw(random, 0, taps - 1);
    outputs = image + before + after - taps + 1;
    offset = draw(random, 0, phases - 1);
    pixels = outputs * phases - offset - draw(random, 0, phases - 1);
    if (pixels < 1) pixels = 1;
    if (is_there && draw(random, 0, 1) == 0 && pixels > 8) pixels -= pixels % 8;
  }
};

/// Elements of a tensor, of small whole numbers.
struct Tensor {
  std::vector<char> bytes;
  Extents extents;
  Strides strides;
  std::int64_t first;
  DType dtype;

  Tensor(Random& random, DType type, const Extents& of, bool innermost)
      : extents(of), first(draw(random, 0, 2) == 0 ? draw(random, 1, 3) : 0), dtype(type) {
    strides = strides_for(innermost ? Layout::nhwc : Layout::nchw, of);
    bytes.resize(static_cast<std::size_t>(first + element_count(of)) * size_in_bytes(type) + 64);
    for (std::int64_t i = 0; i < element_count(of); ++i)
      put(i, static_cast<double>(draw(random, -3, 3)));
  }
  // Vectors and elements of 64 bytes' alignment, before which `first` elements lie.
  char* data() {
    char* at = bytes.data();
    while (reinterpret_cast<std::uintptr_t>(at) % 16 != 0) ++at;
    return at + static_cast<std::size_t>(first) * size_in_bytes(dtype);
  }
  void put(std::int64_t element, double value) {
    store_element(TensorView(data(), dtype, {element_count(extents)}, host), element, value);
  }
  TensorView view() { return TensorView(data(), dtype, extents, host, strides); }
};

bool is_same(Tensor& a, Tensor& b) {
  const auto bytes = static_cast<std::size_t>(element_count(a.extents)) * size_in_bytes(a.dtype);
  return std::memcmp(a.data(), b.data(), bytes) == 0;
}

bool joins_as_the_cpu_does(Random& random, BackendQueue& cpu, DType dtype) {
  const bool has_depth = draw(random, 0, 2) == 0;
  const Axis axes[] = {Axis(random, has_depth), Axis(random, true), Axis(random, true)};
  const std::int64_t groups = draw(random, 1, 2), of_group = draw(random, 0, 1) == 0
                                                                 ? draw(random, 1, 5)
                                                                 : 8 * draw(random, 1, 2);
  const std::int64_t all = axes[0].phases * axes[1].phases * axes[2].phases;
  ConvProblem p;
  p.dtype = dtype, p.groups = groups;
  p.n = draw(random, 1, 2), p.c = groups * draw(random, 1, 3), p.k = groups * of_group * all;
  p.d = axes[0].image, p.h = axes[1].image, p.w = axes[2].image;
  p.t = axes[0].taps, p.r = axes[1].taps, p.s = axes[2].taps;
  p.padding = {axes[0].before, axes[1].before, axes[2].before,
               axes[0].after,  axes[1].after,  axes[2].after};
  p = check(p);
  const auto layout = [&] { return draw(random, 0, 1) == 0; };
  Tensor sums(random, dtype, {p.n, p.k, axes[0].outputs, axes[1].outputs, axes[2].outputs},
              layout());
  for (std::int64_t i = 0; i < element_count(sums.extents); ++i)
    if (draw(random, 0, 30) == 0) sums.put(i, std::numeric_limits<double>::quiet_NaN());
  Tensor image(random, dtype, {p.n, p.c, p.d, p.h, p.w}, layout());
  Tensor filters(random, dtype, {1, 1, 1, 1, element_count(p.w_extents())}, false);
  filters.first = 0;
  Tensor bias(random, dtype, {1, 1, 1, 1, groups * of_group}, false);
  Tensor y(random, dtype, {p.n, groups * of_group, axes[0].pixels, axes[1].pixels, axes[2].pixels},
           layout());
  Tensor expected = y;
  PhasesLaunch call{.x = sums.view(),
                    .y = y.view(),
                    .problem = p,
                    .image = image.view(),
                    .filters = filters.data(),
                    .bias = draw(random, 0, 1) == 0 ? bias.data() : nullptr,
                    .activation = draw(random, 0, 1) == 0 ? Activation::relu : Activation::none};
  for (int i = 0; i < 3; ++i) {
    call.phases[i] = axes[i].phases;
    call.offset[i] = axes[i].offset;
    call.taps[i] = axes[i].all_taps;
  }
  run_join(call);
  call.y = expected.view();
  cpu.join_phases(call);
  cpu.synchronize();
  return is_same(y, expected);
}

}  // namespace

TEST_CASE("join, emulated: random phases as the CPU joins them") {
  Random random(3);
  const auto device = load_backend("cpu").backend->open(0);
  const auto cpu = device->make_queue();
  constexpr DType dtypes[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    REQUIRE(joins_as_the_cpu_does(random, *cpu, dtypes[i % 4]));
  }
}
