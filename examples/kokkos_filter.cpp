// A Kokkos program that filters its own Views through Plumb, on the stream that its kernels run on:
// it makes an image, sharpens it by a convolution between two kernels of its own, and checks the
// result. Built for CUDA it goes through Plumb's CUDA kernels, otherwise through the CPU's; with an
// argument ("kokkos") through that device. Nothing is copied, and nobody waits in between.
#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdio>
#include <plumb/kokkos.hpp>
#include <plumb/plumb.hpp>

namespace {

using Space = Kokkos::DefaultExecutionSpace;
using Images = Kokkos::View<float****, Space>;  // whatever layout Kokkos takes for the space

constexpr int images = 4, height = 48, width = 64;

KOKKOS_INLINE_FUNCTION float brightness(int n, int h, int w) {
  return static_cast<float>((n + 3 * h + 7 * w) % 32);  // small integers: sums are exact
}

struct Draw {
  Images x;
  KOKKOS_FUNCTION void operator()(int i) const {
    const int w = i % width, h = i / width % height, n = i / width / height;
    x(n, 0, h, w) = brightness(n, h, w);
  }
};

/// Counts the pixels that are not what sharpening makes of Draw's, the filter written out.
struct Check {
  Images y;
  KOKKOS_FUNCTION void operator()(int i, long& wrong) const {
    const int w = i % width, h = i / width % height, n = i / width / height;
    float expected = 5 * brightness(n, h, w);
    if (h > 0) expected -= brightness(n, h - 1, w);
    if (h < height - 1) expected -= brightness(n, h + 1, w);
    if (w > 0) expected -= brightness(n, h, w - 1);
    if (w < width - 1) expected -= brightness(n, h, w + 1);
    if (!(y(n, 0, h, w) == expected)) ++wrong;
  }
};

/// An instance beside the default one: on CUDA it has a stream of its own.
Space own_instance() {
#if KOKKOS_VERSION >= 40000
  return Kokkos::Experimental::partition_space(Space(), 1)[0];
#else
  return Space();
#endif
}

int run(const char* device_name) {
  const Space space = own_instance();
  const plumb::Device device =
      device_name ? plumb::Device::open(device_name) : plumb::device_of(space);
  plumb::Queue queue = plumb::queue_of(device, space);

  const Images x("x", images, 1, height, width), y("y", images, 1, height, width);
  const Images w("w", 1, 1, 3, 3);
  const auto filter = Kokkos::create_mirror_view(w);
  for (int r = 0; r < 3; ++r)
    for (int s = 0; s < 3; ++s)
      filter(0, 0, r, s) = r == 1 && s == 1 ? 5.0f : r == 1 || s == 1 ? -1.0f : 0.0f;
  Kokkos::deep_copy(w, filter);

  const int pixels = images * height * width;
  Kokkos::parallel_for("draw", Kokkos::RangePolicy<Space>(space, 0, pixels), Draw{x});
  plumb::conv(queue,
              {.x = plumb::tensor_view(x, device),
               .w = plumb::tensor_view(w, device),
               .y = plumb::tensor_view(y, device)},
              {.padding = 1});
  long wrong = 0;
  Kokkos::parallel_reduce("check", Kokkos::RangePolicy<Space>(space, 0, pixels), Check{y}, wrong);
  std::printf("%s, Kokkos %s: %ld of %d pixels wrong\n", device.info().name.c_str(), Space::name(),
              wrong, pixels);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Kokkos::initialize(argc, argv);
  int status = 1;
  try {
    status = run(argc > 1 ? argv[1] : nullptr);
  } catch (const plumb::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  Kokkos::finalize();
  return status;
}
