// Kokkos' Views as tensors and its execution spaces as queues: in every layout, without a copy.
#include <Kokkos_Core.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <type_traits>

#include "plumb/kokkos.hpp"
#include "plumb/mdspan.hpp"
#include "plumb/plumb.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using plumb_test::refusal;

namespace {

using HostSpace = Kokkos::DefaultHostExecutionSpace;
template <class Layout, class Space>
using Images = Kokkos::View<float****, Layout, Space>;

std::string host_device_name() {
  return std::is_same_v<HostSpace, Kokkos::DefaultExecutionSpace> ? "kokkos" : "kokkos:1";
}

/// The gradients of what shift() does, y being dy: that by w in w's place, then that by x, and the
/// transposed convolution, which is the same, in x's.
template <class View>
void shift_back(Queue& queue, const View& x, const View& w, const View& y) {
  const Device& device = queue.device();
  const auto host_x = Kokkos::create_mirror_view(x), host_w = Kokkos::create_mirror_view(w),
             host_y = Kokkos::create_mirror_view(y);
  Kokkos::deep_copy(host_x, x);
  Kokkos::deep_copy(host_y, y);
  const auto on_device = [&](const View& view) { return tensor_view(view, device); };
  float sums[3][2] = {};
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 3; ++c)
      for (int h = 0; h < 5; ++h)
        for (int i = 0; i < 6; ++i)
          for (int s = 0; s < 2; ++s) sums[c][s] += host_x(n, c, h, i + s) * host_y(n, c, h, i);
  conv_backward_weights(queue, {.x = on_device(x), .dy = on_device(y), .dw = on_device(w)},
                        {.groups = 3});
  queue.synchronize();
  Kokkos::deep_copy(host_w, w);
  for (int k = 0; k < 3; ++k)
    for (int s = 0; s < 2; ++s) {
      CHECK(host_w(k, 0, 0, s) == sums[k][s]);
      host_w(k, 0, 0, s) = static_cast<float>(s);
    }
  Kokkos::deep_copy(w, host_w);
  for (const bool transposed : {false, true}) {
    Kokkos::deep_copy(x, -1.0f);
    if (transposed)
      conv_transpose(queue, {.x = on_device(y), .w = on_device(w), .y = on_device(x)},
                     {.groups = 3});
    else
      conv_backward_data(queue, {.dy = on_device(y), .w = on_device(w), .dx = on_device(x)},
                         {.groups = 3});
    queue.synchronize();
    Kokkos::deep_copy(host_x, x);
    for (int n = 0; n < 2; ++n)
      for (int c = 0; c < 3; ++c)
        for (int h = 0; h < 5; ++h)
          for (int i = 0; i < 7; ++i)
            CHECK(host_x(n, c, h, i) == (i == 0 ? 0 : host_y(n, c, h, i - 1)));
  }
}

/// y filled with x moved by one column, the filter being a single 1. Views of [2,3,5,7], [3,1,1,2]
/// and [2,3,5,6].
template <class View>
void shift(Queue& queue, const View& x, const View& w, const View& y) {
  const auto host_x = Kokkos::create_mirror_view(x), host_w = Kokkos::create_mirror_view(w),
             host_y = Kokkos::create_mirror_view(y);
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 3; ++c)
      for (int h = 0; h < 5; ++h)
        for (int i = 0; i < 7; ++i)
          host_x(n, c, h, i) = static_cast<float>(i + 7 * (h + 5 * (c + 3 * n)));
  for (int k = 0; k < 3; ++k) {
    host_w(k, 0, 0, 0) = 0;
    host_w(k, 0, 0, 1) = 1;
  }
  Kokkos::deep_copy(x, host_x);
  Kokkos::deep_copy(w, host_w);
  const Device& device = queue.device();
  conv(queue,
       {.x = tensor_view(x, device), .w = tensor_view(w, device), .y = tensor_view(y, device)},
       {.groups = 3});
  queue.synchronize();
  Kokkos::deep_copy(host_y, y);
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 3; ++c)
      for (int h = 0; h < 5; ++h)
        for (int i = 0; i < 6; ++i) CHECK(host_y(n, c, h, i) == host_x(n, c, h, i + 1));
  shift_back(queue, x, w, y);
}

template <class Layout, class Space>
void shift_dense(Queue& queue) {
  using View = Images<Layout, Space>;
  shift(queue, View("x", 2, 3, 5, 7), View("w", 3, 1, 1, 2), View("y", 2, 3, 5, 6));
}

/// Channels innermost.
template <class Space>
void shift_strided(Queue& queue) {
  const auto channels_last = [](int n, int c, int h, int w) {
    return Images<Kokkos::LayoutStride, Space>(
        "channels_last", Kokkos::LayoutStride(n, h * w * c, c, 1, h, w * c, w, c));
  };
  shift(queue, channels_last(2, 3, 5, 7), channels_last(3, 1, 1, 2), channels_last(2, 3, 5, 6));
}

/// On Plumb's own kernels for the space and on Kokkos'.
template <class Space>
void shift_in_every_layout(const Space& space, const std::string& kokkos_device) {
  for (const Device& device : {device_of(space), Device::open(kokkos_device)}) {
    CAPTURE(device.info().name);
    Queue queue = queue_of(device, space);
    shift_dense<Kokkos::LayoutLeft, Space>(queue);
    shift_dense<Kokkos::LayoutRight, Space>(queue);
    shift_strided<Space>(queue);
  }
}

}  // namespace

TEST_CASE("a View over another is refused as an output, and one between its columns is not") {
  const Device device = Device::open(host_device_name());
  Queue queue = queue_of(device, HostSpace());
  using Columns = Kokkos::View<float****, Kokkos::LayoutStride, Kokkos::HostSpace>;
  const Kokkos::View<float*, Kokkos::HostSpace> memory("memory", 2 * 3 * 4 * 10);
  Kokkos::deep_copy(memory, 1.0f);
  const Kokkos::LayoutStride every_other(2, 120, 3, 40, 4, 10, 5, 2);
  const Columns even(memory.data(), every_other), odd(memory.data() + 1, every_other);
  const Kokkos::View<float****, Kokkos::LayoutRight, Kokkos::HostSpace> w("w", 3, 3, 1, 1);
  const auto into = [&](const auto& y) {
    conv(
        queue,
        {.x = tensor_view(even, device), .w = tensor_view(w, device), .y = tensor_view(y, device)});
    queue.synchronize();
  };
  const Error refused = refusal([&] { into(even); });
  CHECK(refused.code() == ErrorCode::invalid_argument);
  CHECK_THAT(refused.what(), ContainsSubstring("y overlaps x"));
  CHECK(odd(1, 2, 3, 4) == 1);
  into(odd);  // of filters that are zero
  CHECK(odd(1, 2, 3, 4) == 0);
  CHECK(even(1, 2, 3, 4) == 1);
  CHECK_THAT(refusal([&] {
               relu(queue, tensor_view(even, device),
                    tensor_view(Columns(memory.data() + 2, every_other), device));
             }).what(),
             ContainsSubstring("relu: y overlaps x"));
}

TEST_CASE("a View is a view of its memory, in every layout and rank") {
  const Kokkos::View<double*, Kokkos::HostSpace> one("one", 9);
  CHECK(tensor_view(one).data() == one.data());
  CHECK(tensor_view(one).dtype() == DType::f64);
  CHECK(tensor_view(one).device() == host);
  CHECK(tensor_view(one).extents() == Extents{9});

  const Kokkos::View<float* [4], Kokkos::LayoutLeft, Kokkos::HostSpace> left("left", 3);
  CHECK(tensor_view(left).extents() == Extents{3, 4});
  CHECK(tensor_view(left).strides() == Strides{1, 3});
  const Kokkos::View<float***, Kokkos::LayoutRight, Kokkos::HostSpace> right("right", 2, 3, 4);
  CHECK(tensor_view(right).strides() == Strides{12, 4, 1});

  const auto part = Kokkos::subview(right, Kokkos::ALL, 1, Kokkos::make_pair(1, 3));
  CHECK(tensor_view(part).data() == &right(0, 1, 1));
  CHECK(tensor_view(part).extents() == Extents{2, 2});
  CHECK(tensor_view(part).strides() == Strides{12, 1});

  const Kokkos::LayoutStride any(2, 1, 3, 20, 4, 5, 5, 1);
  const Kokkos::View<float****, Kokkos::LayoutStride, Kokkos::HostSpace> strided("strided", any);
  CHECK(tensor_view(strided).extents() == Extents{2, 3, 4, 5});
  CHECK(tensor_view(strided).strides() == Strides{1, 20, 5, 1});
}

TEST_CASE("a View of const elements becomes a tensor that is only read") {
  const Kokkos::View<float**, Kokkos::HostSpace> w("w", 2, 2);
  const Kokkos::View<const float**, Kokkos::HostSpace> constant = w;
  static_assert(std::is_same_v<decltype(tensor_view(w)), TensorView>);
  static_assert(std::is_same_v<decltype(tensor_view(constant)), ConstTensorView>);
  CHECK(tensor_view(constant).data() == w.data());
}

TEST_CASE("Plumb's and Kokkos' 16-bit floats are both stored as f16") {
  const Kokkos::View<Half*, Kokkos::HostSpace> ours("ours", 3);
  CHECK(tensor_view(ours).dtype() == DType::f16);
  const Kokkos::View<Kokkos::Experimental::half_t*, Kokkos::HostSpace> theirs("theirs", 3);
  CHECK(size_in_bytes(tensor_view(theirs).dtype()) == sizeof(Kokkos::Experimental::half_t));
}

TEST_CASE("Views of every layout go through Plumb, on the CPU and on Kokkos") {
  shift_in_every_layout(HostSpace(), host_device_name());
}

TEST_CASE("Views of one axis and of three are images of them") {
  for (const std::string& name : {std::string("cpu"), host_device_name()}) {
    CAPTURE(name);
    const Device device = Device::open(name);
    Queue queue(device);
    Kokkos::View<double***, Kokkos::LayoutLeft, Kokkos::HostSpace> x("x", 2, 1, 5), w("w", 1, 1, 3),
        y("y", 2, 1, 5);
    for (int n = 0; n < 2; ++n)
      for (int i = 0; i < 5; ++i) x(n, 0, i) = (n + 1) * (i + 1);
    for (int s = 0; s < 3; ++s) w(0, 0, s) = s + 1;
    conv(queue,
         {.x = tensor_view(x, device), .w = tensor_view(w, device), .y = tensor_view(y, device)},
         {.padding = 1, .boundary = Boundary::periodic});
    queue.synchronize();
    const double once[] = {13, 14, 20, 26, 17};
    for (int n = 0; n < 2; ++n)
      for (int q = 0; q < 5; ++q) CHECK(y(n, 0, q) == (n + 1) * once[q]);

    // The tap is in the plane before, and the first plane has the last before it.
    Kokkos::View<double*****, Kokkos::LayoutLeft, Kokkos::HostSpace> field("field", 1, 1, 3, 2, 4),
        tap("tap", 1, 1, 3, 1, 1);
    Kokkos::View<double*****, Kokkos::LayoutRight, Kokkos::HostSpace> moved("moved", 1, 1, 3, 2, 4);
    for (int d = 0; d < 3; ++d)
      for (int h = 0; h < 2; ++h)
        for (int i = 0; i < 4; ++i) field(0, 0, d, h, i) = i + 4 * (h + 2 * d);
    tap(0, 0, 0, 0, 0) = 1;
    conv(queue,
         {.x = tensor_view(field, device),
          .w = tensor_view(tap, device),
          .y = tensor_view(moved, device)},
         {.padding = {1, 0, 0}, .boundary = Boundary::periodic});
    queue.synchronize();
    for (int z = 0; z < 3; ++z)
      for (int p = 0; p < 2; ++p)
        for (int q = 0; q < 4; ++q) CHECK(moved(0, 0, z, p, q) == field(0, 0, (z + 2) % 3, p, q));
  }
}

TEST_CASE("a queue made of an execution space's instance runs on that instance") {
  const HostSpace space;
  const Device kokkos = Device::open(host_device_name());
  const Queue queue = queue_of(kokkos, space);
  REQUIRE(queue.native());
  CHECK(static_cast<const HostSpace*>(queue.native())->impl_instance_id() ==
        space.impl_instance_id());
  CHECK(queue_of(device_of(space), space).native() == nullptr);
}

TEST_CASE("device names: an execution space's name opens the device of its number") {
  const Device by_number = Device::open("kokkos:0");
  const std::string alias = by_number.info().alias;
  CHECK_FALSE(alias.empty());
  const Device by_name = Device::open("kokkos:" + alias);
  CHECK(by_name.id() == by_number.id());
  CHECK(by_name.info().driver_version == KOKKOS_VERSION);
  CHECK(by_name.info().units >= 1);
  CHECK_THAT(by_name.info().name, ContainsSubstring("Kokkos"));
  const Error unknown = refusal([] { Device::open("kokkos:abacus"); });
  CHECK(unknown.code() == ErrorCode::invalid_argument);
  CHECK_THAT(unknown.what(), ContainsSubstring("abacus") && ContainsSubstring(alias));
  CHECK(refusal([] { Device::open("kokkos:9"); }).reason() == Reason::no_device);
}

#ifdef KOKKOS_ENABLE_SERIAL
TEST_CASE("an instance of another space is refused") {
  if (std::is_same_v<HostSpace, Kokkos::Serial>) SKIP("Kokkos has one execution space on the host");
  const Device device = Device::open(host_device_name());
  CHECK_THROWS_AS(queue_of(device, Kokkos::Serial()), Error);
  const Device serial = Device::open("kokkos:serial");
  CHECK(serial.info().units == 1);
  CHECK(queue_of(serial, Kokkos::Serial()).device().id() == serial.id());
}
#endif

#ifdef KOKKOS_ENABLE_CUDA
TEST_CASE("a View in GPU memory belongs to the GPU, and other devices refuse it") {
  const Kokkos::View<float**, Kokkos::CudaSpace> x("x", 2, 3);
  const Device cuda = device_of(Kokkos::Cuda());
  CHECK(tensor_view(x).device() == cuda.id());
  CHECK(tensor_view(x, Device::open("kokkos:cuda")).device().backend == "kokkos");
  CHECK_THROWS_AS(tensor_view(x, Device::open("cpu")), Error);
  const Kokkos::View<float**, Kokkos::HostSpace> on_host("on_host", 2, 3);
  CHECK_THROWS_AS(tensor_view(on_host, cuda), Error);
  const Kokkos::Cuda space;
  CHECK(queue_of(cuda, space).native() == space.cuda_stream());
  CHECK_THROWS_AS(queue_of(Device::open("cpu"), space), Error);
}

TEST_CASE("Views of the GPU's memory go through Plumb, on a stream of their own") {
  const auto instances = Kokkos::Experimental::partition_space(Kokkos::Cuda(), 1);
  REQUIRE(instances[0].cuda_stream() != Kokkos::Cuda().cuda_stream());
  shift_in_every_layout(instances[0], "kokkos:cuda");
}
#endif

#ifdef KOKKOS_ENABLE_IMPL_MDSPAN  // the Kokkos has the reference implementation of mdspan inside
TEST_CASE("mdspan's reference implementation is taken") {
  float data[24] = {};
  const Kokkos::mdspan<float, Kokkos::extents<int, 2, 3, 4>> right(data);
  CHECK(tensor_view(right).extents() == Extents{2, 3, 4});
  CHECK(tensor_view(right).strides() == Strides{12, 4, 1});
  const Kokkos::mdspan<const float, Kokkos::dextents<int, 3>, Kokkos::layout_left> left(data, 2, 3,
                                                                                        4);
  static_assert(std::is_same_v<decltype(tensor_view(left)), ConstTensorView>);
  CHECK(tensor_view(left).strides() == Strides{1, 2, 6});
}
#endif
