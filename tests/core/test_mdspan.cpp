// Views of mdspans: a class of its own with the interface of std::mdspan, and whichever of the
// library's this compiler has.
#include "plumb/mdspan.hpp"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <vector>
#if __has_include(<mdspan>)
#include <mdspan>
#endif

#include "plumb/plumb.hpp"

using namespace plumb;

namespace {

/// As little of an mdspan as is asked for, with strides of any kind.
template <class Element, std::size_t dimensions>
class Span {
 public:
  using element_type = Element;
  using rank_type = std::size_t;
  using extents_type = std::array<int, dimensions>;

  Span(Element* data, extents_type extents, std::array<int, dimensions> strides)
      : data_(data), extents_(extents), strides_(strides) {}
  static constexpr std::size_t rank() { return dimensions; }
  int extent(std::size_t i) const { return extents_[i]; }
  int stride(std::size_t i) const { return strides_[i]; }
  bool is_strided() const { return strided; }
  Element* const& data_handle() const { return data_; }  // a reference, as std::mdspan has it

  bool strided = true;

 private:
  Element* data_;
  extents_type extents_;
  std::array<int, dimensions> strides_;
};

/// Its handle is no pointer, as with an accessor that scales what it reads.
struct FancySpan : Span<float, 2> {
  struct Handle {};
  Handle data_handle() const { return {}; }
};

struct NotASpan {
  float* data() const { return nullptr; }
};

}  // namespace

static_assert(MdspanLike<Span<float, 4>>);
static_assert(MdspanLike<Span<const Half, 1>>);
static_assert(!MdspanLike<FancySpan>);
static_assert(!MdspanLike<NotASpan>);
static_assert(!MdspanLike<std::vector<float>>);

TEST_CASE("an mdspan is a view of its memory") {
  std::vector<float> data(2 * 3 * 5);
  const Span<float, 3> columns(data.data(), {2, 3, 5}, {1, 2, 6});  // the first index runs fastest
  const TensorView view = tensor_view(columns);
  CHECK(view.data() == data.data());
  CHECK(view.dtype() == DType::f32);
  CHECK(view.extents() == Extents{2, 3, 5});
  CHECK(view.strides() == Strides{1, 2, 6});
  CHECK(view.device() == host);
  CHECK(tensor_view(columns, {"cuda", 1}).device() == DeviceId{"cuda", 1});

  const Span<const double, 1> constant(nullptr, {7}, {-2});
  static_assert(std::is_same_v<decltype(tensor_view(constant)), ConstTensorView>);
  CHECK(tensor_view(constant).dtype() == DType::f64);
  CHECK(tensor_view(constant).strides() == Strides{-2});
}

TEST_CASE("an mdspan without strides is refused") {
  Span<float, 2> tiled(nullptr, {4, 4}, {4, 1});
  tiled.strided = false;
  CHECK_THROWS_AS(tensor_view(tiled), Error);
}

TEST_CASE("a convolution runs on mdspans as they lie") {
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  std::vector<float> image(4 * 6), filter{0, 1, 0, 0}, shifted(3 * 5, -1.0f);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i);
  const Span<const float, 4> x(image.data(), {1, 1, 4, 6}, {24, 24, 1, 4});  // columns are dense
  const Span<const float, 4> w(filter.data(), {1, 1, 2, 2}, {4, 4, 2, 1});
  const Span<float, 4> y(shifted.data(), {1, 1, 3, 5}, {15, 15, 5, 1});
  conv(queue, {.x = tensor_view(x), .w = tensor_view(w), .y = tensor_view(y)});
  queue.synchronize();
  for (int p = 0; p < 3; ++p)
    for (int q = 0; q < 5; ++q) CHECK(shifted[p * 5 + q] == image[p + (q + 1) * 4]);
}

TEST_CASE("mdspans of one axis and of three are images of them") {
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  std::vector<double> row{1, 2, 3, 4, 5}, filter{1, 10, 100}, result(5, -1.0);
  const Span<const double, 3> x(row.data() + 4, {1, 1, 5},
                                {5, 5, -1});  // from the last to the first
  const Span<const double, 3> w(filter.data(), {1, 1, 3}, {3, 3, 1});
  const Span<double, 3> y(result.data(), {1, 1, 5}, {5, 5, 1});
  conv(queue, {.x = tensor_view(x), .w = tensor_view(w), .y = tensor_view(y)},
       {.padding = 1, .boundary = Boundary::periodic});
  queue.synchronize();
  CHECK(result == std::vector<double>{451, 345, 234, 123, 512});

  // The depth runs fastest, and every tap lies in the plane before.
  std::vector<double> block(3 * 2 * 4), taps{1, 0, 0}, shifted(3 * 2 * 4, -1.0);
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<double>(i);
  const Span<const double, 5> deep(block.data(), {1, 1, 3, 2, 4}, {24, 24, 1, 12, 3});
  const Span<const double, 5> before(taps.data(), {1, 1, 3, 1, 1}, {3, 3, 1, 1, 1});
  const Span<double, 5> out(shifted.data(), {1, 1, 3, 2, 4}, {24, 24, 8, 4, 1});
  conv(queue, {.x = tensor_view(deep), .w = tensor_view(before), .y = tensor_view(out)},
       {.padding = {1, 0, 0}, .boundary = {Boundary::clamp, Boundary::zeros, Boundary::zeros}});
  queue.synchronize();
  for (int z = 0; z < 3; ++z)
    for (int p = 0; p < 2; ++p)
      for (int q = 0; q < 4; ++q)
        CHECK(shifted[z * 8 + p * 4 + q] == block[(z > 0 ? z - 1 : 0) + p * 12 + q * 3]);
}

TEST_CASE("gradients and transposed convolutions run on mdspans as they lie") {
  Queue queue(Device::open("cpu"));
  // x is two columns of three rows, the columns dense; y is one column of two rows.
  std::vector<float> x_data{1, 2, 3, 10, 20, 30}, w_data{1, 2, 3, 4}, dy_data{5, 7};
  std::vector<float> dx_data(6, -1), dw_data(4, -1), db_data(1, -1), y_data(6, -1);
  const Span<const float, 4> x(x_data.data(), {1, 1, 3, 2}, {6, 6, 1, 3});
  const Span<const float, 4> w(w_data.data(), {1, 1, 2, 2}, {4, 4, 2, 1});
  const Span<const float, 4> dy(dy_data.data(), {1, 1, 2, 1}, {2, 2, 1, 1});
  const Span<float, 4> dx(dx_data.data(), {1, 1, 3, 2}, {6, 6, 1, 3});
  const Span<float, 4> dw(dw_data.data(), {1, 1, 2, 2}, {4, 4, 1, 2});  // columns dense
  const Span<float, 4> y(y_data.data(), {1, 1, 3, 2}, {6, 6, 2, 1});
  const Span<float, 1> db(db_data.data(), {1}, {1});
  conv_backward_data(queue, {.dy = tensor_view(dy), .w = tensor_view(w), .dx = tensor_view(dx)});
  conv_backward_weights(
      queue,
      {.x = tensor_view(x), .dy = tensor_view(dy), .dw = tensor_view(dw), .db = tensor_view(db)});
  conv_transpose(queue, {.x = tensor_view(dy), .w = tensor_view(w), .y = tensor_view(y)});
  queue.synchronize();
  CHECK(dx_data == std::vector<float>{5, 22, 21, 10, 34, 28});
  CHECK(y_data == std::vector<float>{5, 10, 22, 34, 21, 28});
  CHECK(dw_data == std::vector<float>{19, 31, 190, 310});
  CHECK(db_data == std::vector<float>{12});
}

#ifdef __cpp_lib_mdspan
TEST_CASE("std::mdspan is taken where this compiler has it") {
  std::vector<float> data(12);
  const std::mdspan span(data.data(), 3, 4);
  CHECK(tensor_view(span).extents() == Extents{3, 4});
  CHECK(tensor_view(span).strides() == Strides{4, 1});
  const std::mdspan<const float, std::extents<int, 3, 4>, std::layout_left> left(data.data());
  CHECK(tensor_view(left).strides() == Strides{1, 3});
}
#endif
