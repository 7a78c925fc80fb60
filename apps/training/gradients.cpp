// Gradients of the network's layers.
#include "training/gradients.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plumb::app {
namespace {

/// The same elements with their dimensions in another order.
template <class View>
View permuted(const View& view, std::initializer_list<int> order) {
  Extents extents = view.extents();
  Strides strides = view.strides();
  int to = 0;
  for (const int from : order) {
    extents[to] = view.extent(from);
    strides[to++] = view.stride(from);
  }
  return {view.data(), view.dtype(), extents, view.device(), strides};
}

/// The same elements with one dimension running backwards.
ConstTensorView flipped(const ConstTensorView& view, int dimension) {
  Strides strides = view.strides();
  const std::int64_t last = (view.extent(dimension) - 1) * strides[dimension];
  strides[dimension] = -strides[dimension];
  const auto* data = static_cast<const std::byte*>(view.data()) +
                     last * static_cast<std::int64_t>(size_in_bytes(view.dtype()));
  return {data, view.dtype(), view.extents(), view.device(), strides};
}

/// Calls f with a value of the C++ type that is stored.
template <class F>
auto with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    default:
      throw Error(ErrorCode::unsupported,
                  "gradients: dtype " + std::string(to_string(dtype)) + ", expected f32 or f64");
  }
}

template <class T>
const T* elements(const ConstTensorView& view) {
  return static_cast<const T*>(view.data());
}
template <class T>
T* elements(const TensorView& view) {
  return static_cast<T*>(view.data());
}

const ConvOptions repeatable{.deterministic = true};

}  // namespace

void conv_backward_data(Queue& queue, const ConstTensorView& dy, const ConstTensorView& w,
                        const TensorView& dx) {
  const std::int64_t r = w.extent(2), s = w.extent(3);
  const ConvGeometry geometry{.padding = {r - 1, s - 1, r - 1, s - 1}};
  conv(queue, {.x = dy, .w = permuted(flipped(flipped(w, 2), 3), {1, 0, 2, 3}), .y = dx}, geometry,
       repeatable);
}

void conv_backward_weights(Queue& queue, const ConstTensorView& x, const ConstTensorView& dy,
                           const TensorView& dw) {
  conv(queue,
       {.x = permuted(x, {1, 0, 2, 3}),
        .w = permuted(dy, {1, 0, 2, 3}),
        .y = permuted(dw, {1, 0, 2, 3})},
       {}, repeatable);
}

void linear_backward_data(Queue& queue, const ConstTensorView& dy, const ConstTensorView& w,
                          const TensorView& dx) {
  linear(queue, {.x = dy, .w = permuted(w, {1, 0}), .y = dx}, repeatable);
}

void linear_backward_weights(Queue& queue, const ConstTensorView& x, const ConstTensorView& dy,
                             const TensorView& dw) {
  linear(queue, {.x = permuted(dy, {1, 0}), .w = permuted(x, {1, 0}), .y = dw}, repeatable);
}

void bias_backward(const ConstTensorView& dy, const TensorView& db) {
  const std::int64_t n = dy.extent(0), k = dy.extent(1);
  const std::int64_t pixels = n * k == 0 ? 0 : element_count(dy.extents()) / (n * k);
  with_type(dy.dtype(), [&]<class T>(T) {
#pragma omp parallel for
    for (std::int64_t channel = 0; channel < k; ++channel) {
      double sum = 0;
      for (std::int64_t image = 0; image < n; ++image) {
        const T* plane = elements<T>(dy) + (image * k + channel) * pixels;
        for (std::int64_t i = 0; i < pixels; ++i) sum += static_cast<double>(plane[i]);
      }
      elements<T>(db)[channel] = static_cast<T>(sum);
    }
  });
}

void relu_backward(const ConstTensorView& y, const TensorView& dy) {
  const std::int64_t count = element_count(y.extents());
  with_type(y.dtype(), [&]<class T>(T) {
    const T* value = elements<T>(y);
    T* gradient = elements<T>(dy);
#pragma omp parallel for simd
    for (std::int64_t i = 0; i < count; ++i) gradient[i] = value[i] > T(0) ? gradient[i] : T(0);
  });
}

void max_pool_backward(const ConstTensorView& x, const ConstTensorView& dy, std::int64_t window,
                       const TensorView& dx) {
  const std::int64_t planes = x.extent(0) * x.extent(1), height = x.extent(2), width = x.extent(3);
  const std::int64_t p_count = dy.extent(2), q_count = dy.extent(3);
  with_type(x.dtype(), [&]<class T>(T) {
#pragma omp parallel for
    for (std::int64_t plane = 0; plane < planes; ++plane) {
      const T* image = elements<T>(x) + plane * height * width;
      const T* from = elements<T>(dy) + plane * p_count * q_count;
      T* to = elements<T>(dx) + plane * height * width;
      std::fill_n(to, height * width, T(0));
      for (std::int64_t p = 0; p < p_count; ++p)
        for (std::int64_t q = 0; q < q_count; ++q) {
          const std::int64_t corner = p * window * width + q * window;
          std::int64_t best = corner;
          for (std::int64_t i = 0; i < window; ++i)
            for (std::int64_t j = 0; j < window; ++j)
              if (const std::int64_t at = corner + i * width + j; image[at] > image[best])
                best = at;
          to[best] = from[p * q_count + q];
        }
    }
  });
}

double cross_entropy(const ConstTensorView& logits, std::span<const std::uint8_t> labels) {
  const std::int64_t n = logits.extent(0), k = logits.extent(1);
  return with_type(logits.dtype(), [&]<class T>(T) {
    double loss = 0;
    for (std::int64_t image = 0; image < n; ++image) {
      const T* row = elements<T>(logits) + image * k;
      const auto largest = static_cast<double>(*std::max_element(row, row + k));
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i) sum += std::exp(static_cast<double>(row[i]) - largest);
      loss += std::log(sum) + largest -
              static_cast<double>(row[labels[static_cast<std::size_t>(image)]]);
    }
    return loss / static_cast<double>(n);
  });
}

void cross_entropy_backward(const ConstTensorView& probabilities,
                            std::span<const std::uint8_t> labels, const TensorView& dlogits) {
  const std::int64_t n = probabilities.extent(0), k = probabilities.extent(1);
  with_type(probabilities.dtype(), [&]<class T>(T) {
    for (std::int64_t image = 0; image < n; ++image)
      for (std::int64_t i = 0; i < k; ++i) {
        const T one = i == labels[static_cast<std::size_t>(image)] ? T(1) : T(0);
        elements<T>(dlogits)[image * k + i] =
            (elements<T>(probabilities)[image * k + i] - one) / static_cast<T>(n);
      }
  });
}

}  // namespace plumb::app
