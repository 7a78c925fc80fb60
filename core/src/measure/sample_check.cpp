// Holds images of a measured batch against the oracle.
#include "sample_check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../parallel/parallel.hpp"
#include "../validate/guarded_tensor.hpp"
#include "../validate/test_data.hpp"

namespace plumb {
namespace {

/// Multiplications that the oracle does for one problem.
constexpr double max_products = 5e7;
/// Elements of the input that it is given, but for the first and the last image.
constexpr std::int64_t max_elements = 16'000'000;

/// The values that a pattern lays over a tensor, dense, for one index of its first extent or all.
std::vector<double> gathered(const Pattern& pattern, const Extents& extents, const Strides& strides,
                             std::int64_t first_element = 0) {
  const std::int64_t row = extents[extents.rank() - 1], step = strides[extents.rank() - 1];
  const std::int64_t rows = element_count(extents) / std::max<std::int64_t>(row, 1);
  std::vector<double> values(static_cast<std::size_t>(element_count(extents)));
  parallel_for(available_threads(), rows, [&](std::int64_t i) {
    std::int64_t element = first_element, left = i;
    for (int d = extents.rank() - 2; d >= 0; left /= extents[d--])
      element += left % extents[d] * strides[d];
    pattern.read(element, step,
                 std::span(values).subspan(static_cast<std::size_t>(i * row),
                                           static_cast<std::size_t>(row)));
  });
  return values;
}

/// How many images between the first and the last are checked.
std::int64_t images_between(const ConvProblem& problem) {
  // Filters of dw are sums over a whole batch, which the first and the last take long enough.
  if (problem.direction == Direction::backward_weights) return 0;
  const std::int64_t of_image = std::max<std::int64_t>(
      element_count(image_of(problem).extents) / std::max<std::int64_t>(problem.n, 1), 1);
  return std::clamp<std::int64_t>(max_elements / of_image - 2, 0, 3);
}

}  // namespace

double SampleCheck::host_bytes(const ConvProblem& problem) {
  const auto count = [](const Extents& extents) {
    return static_cast<double>(element_count(extents));
  };
  const ConvOperand output = output_of(problem);
  const auto images =
      static_cast<double>(std::min<std::int64_t>(output.extents[0], 2 + images_between(problem)));
  const double batch = static_cast<double>(std::max<std::int64_t>(problem.n, 1));
  Extents image = output.extents;
  image[0] = 1;
  const double y_bytes = static_cast<double>(span_elements(image, output.strides)) *
                         static_cast<double>(size_in_bytes(problem.dtype));
  if (problem.direction == Direction::backward_weights)
    return 16 * static_cast<double>(max_elements) + images * y_bytes;
  // Inputs as doubles, an image of them once more while it is gathered; outputs as they are stored.
  return 8 * ((images + 1) * count(image_of(problem).extents) / batch +
              count(filters_of(problem).extents)) +
         images * y_bytes;
}

SampleCheck::SampleCheck(const Buffers& buffers, Activation activation, std::uint64_t seed)
    : problem_(buffers.problem()), activation_(activation) {
  choose_images(seed);
  choose_points(seed);
  ask_oracle(buffers);
}

void SampleCheck::choose_images(std::uint64_t seed) {
  Random random(seed);
  const std::int64_t last = output_of(problem_).extents[0] - 1;
  images_ = {0, last};
  for (std::int64_t i = 0; i < images_between(problem_); ++i)
    images_.push_back(random.between(0, last));
  std::sort(images_.begin(), images_.end());
  images_.erase(std::unique(images_.begin(), images_.end()), images_.end());
}

void SampleCheck::choose_points(std::uint64_t seed) {
  const Extents y = output_of(problem_).extents;
  const std::int64_t channels = y[1], planes = y.rank() == 5 ? y[2] : 1, rows = y[y.rank() - 2],
                     columns = y[y.rank() - 1];
  const double products_of_one = problem_.flop() / 2 / static_cast<double>(element_count(y));
  const double affordable = max_products / products_of_one / static_cast<double>(images_.size());
  const std::int64_t outputs = channels * planes * rows * columns;
  const bool all = static_cast<double>(outputs) <= affordable;
  Random random(seed);
  for (std::size_t image = 0; image < images_.size(); ++image) {
    if (all) {
      for (std::int64_t i = 0; i < outputs; ++i)
        points_.push_back({image, i / columns / rows / planes, i / columns / rows % planes,
                           i / columns % rows, i % columns});
      continue;
    }
    // Of dw, whose sums are long, as many corners as there is time for.
    const bool long_sums = problem_.direction == Direction::backward_weights;
    const double corners = long_sums ? std::max(affordable, 1.0) : 16;
    const std::size_t before = points_.size();
    for (const std::int64_t k : {std::int64_t{0}, channels - 1})
      for (const std::int64_t z : {std::int64_t{0}, planes - 1})
        for (const std::int64_t p : {std::int64_t{0}, rows - 1})
          for (const std::int64_t q : {std::int64_t{0}, columns - 1})
            if (static_cast<double>(points_.size() - before) < corners)
              points_.push_back({image, k, z, p, q});
    for (double i = long_sums ? corners : 0; i < affordable; ++i) {
      const std::int64_t k = random.between(0, channels - 1);
      const std::int64_t z = planes == 1 ? 0 : random.between(0, planes - 1);
      const std::int64_t p = random.between(0, rows - 1);
      points_.push_back({image, k, z, p, random.between(0, columns - 1)});
    }
  }
}

void SampleCheck::ask_oracle(const Buffers& buffers) {
  if (problem_.direction == Direction::backward_weights) {
    ask_for_weights(buffers);
    if (buffers.has_bias()) ask_for_bias_gradient(buffers);
  } else {
    ask_for_sums(buffers);
  }
  if (!buffers.accumulates()) return;
  const Strides strides = output_of(problem_).strides;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    double before = 0;
    buffers.y_pattern().read(images_[points_[i].image] * strides[0] + offset_in_image(points_[i]),
                             1, {&before, 1});
    expected_[i].add(before);
  }
}

std::int64_t SampleCheck::offset_in_image(const Point& point) const {
  const Strides strides = output_of(problem_).strides;
  const std::int64_t plane = problem_.has_depth() ? point.z * strides[2] : 0;
  return point.k * strides[1] + plane + point.p * strides[strides.rank() - 2] +
         point.q * strides[strides.rank() - 1];
}

void SampleCheck::ask_for_sums(const Buffers& buffers) {
  const ConvOperand of_image = image_of(problem_), of_filters = filters_of(problem_);
  Extents one_image = of_image.extents;
  one_image[0] = 1;
  std::vector<double> x;
  x.reserve(images_.size() * static_cast<std::size_t>(element_count(one_image)));
  for (const std::int64_t n : images_) {
    const auto image =
        gathered(buffers.x_pattern(), one_image, of_image.strides, n * of_image.strides[0]);
    x.insert(x.end(), image.begin(), image.end());
  }
  const auto w = gathered(buffers.w_pattern(), of_filters.extents, of_filters.strides);
  const std::int64_t biases = bias_elements(problem_);
  const auto bias =
      buffers.has_bias() ? gathered(buffers.bias_pattern(), {biases}, {1}) : std::vector<double>{};
  ConvProblem few = problem_;
  few.n = static_cast<std::int64_t>(images_.size());
  few.x_strides = few.w_strides = few.y_strides = {};
  few = check(few);
  const ConstTensorView x_view(x.data(), image_of(few).extents),
      w_view(w.data(), filters_of(few).extents);
  const ConstTensorView bias_view =
      bias.empty() ? ConstTensorView{} : ConstTensorView(bias.data(), {biases});
  expected_.resize(points_.size());
  const auto count = static_cast<std::int64_t>(points_.size());
  parallel_tasks(available_threads(), count, 256, [&](std::int64_t i, int) {
    const auto [image, k, z, p, q] = points_[static_cast<std::size_t>(i)];
    expected_[static_cast<std::size_t>(i)] = conv_oracle_at(
        few, x_view, w_view, bias_view, static_cast<std::int64_t>(image), k, z, p, q);
  });
}

/// Of one weight a pass over the batch, of which the two channels it is a sum of are gathered a few
/// images at a time.
void SampleCheck::ask_for_weights(const Buffers& buffers) {
  const ConvOperand x = image_of(problem_), dy = filters_of(problem_);
  const std::int64_t channels = problem_.c / problem_.groups,
                     filters = problem_.k / problem_.groups;
  const std::int64_t of_image = element_count(x.extents) / problem_.n / problem_.c +
                                element_count(dy.extents) / problem_.n / problem_.k;
  const std::int64_t at_once = std::max<std::int64_t>(max_elements / of_image, 1);
  expected_.assign(points_.size(), {});
  for (std::int64_t first = 0; first < problem_.n; first += at_once) {
    const std::int64_t images = std::min(at_once, problem_.n - first);
    ConvProblem few = problem_;
    few.n = images, few.c = few.k = few.groups = 1;
    few.x_strides = few.w_strides = few.y_strides = {};
    few = check(few);
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const std::int64_t k = images_[points_[i].image], c = k / filters * channels + points_[i].k;
      const auto pixels = gathered(buffers.x_pattern(), few.x_extents(), x.strides,
                                   first * x.strides[0] + c * x.strides[1]);
      const auto gradients = gathered(buffers.w_pattern(), few.y_extents(), dy.strides,
                                      first * dy.strides[0] + k * dy.strides[1]);
      const OracleTerm part = conv_oracle_at(few, ConstTensorView(pixels.data(), few.x_extents()),
                                             ConstTensorView(gradients.data(), few.y_extents()), {},
                                             0, 0, points_[i].z, points_[i].p, points_[i].q);
      expected_[i].y += part.y;
      expected_[i].magnitude += part.magnitude;
      expected_[i].x_magnitude += part.x_magnitude;
      expected_[i].w_magnitude += part.w_magnitude;
      expected_[i].terms += part.terms;
    }
  }
}

/// Sums of dy over a few images at a time.
void SampleCheck::ask_for_bias_gradient(const Buffers& buffers) {
  const ConvOperand dy = filters_of(problem_);
  Extents part = dy.extents;
  part[1] = 1;
  const std::int64_t of_image = element_count(dy.extents) / problem_.n / problem_.k;
  const std::int64_t at_once = std::max<std::int64_t>(max_elements / of_image, 1);
  for (const std::int64_t k : images_) {
    OracleTerm sum;
    for (std::int64_t first = 0; first < problem_.n; first += at_once) {
      part[0] = std::min(at_once, problem_.n - first);
      for (const double value : gathered(buffers.w_pattern(), part, dy.strides,
                                         first * dy.strides[0] + k * dy.strides[1])) {
        sum.y += value;
        sum.magnitude += std::abs(value);
        sum.terms += 1;
      }
    }
    double before = 0;
    buffers.bias_pattern().read(k, 1, {&before, 1});
    if (buffers.accumulates()) sum.add(before);
    bias_gradient_.push_back(sum);
  }
}

double SampleCheck::bias_gradient_over_bound(Queue& queue, const Buffers& buffers) const {
  if (bias_gradient_.empty()) return 0;
  const std::vector<std::byte> bytes = buffers.bias_gradient(queue);
  const ConstTensorView db(bytes.data(), problem_.dtype, {problem_.k});
  double largest = 0;
  for (std::size_t i = 0; i < images_.size(); ++i) {
    const OracleTerm& sum = bias_gradient_[i];
    const double computed = load_element(db, images_[i]);
    if (!std::isfinite(computed)) return std::numeric_limits<double>::infinity();
    const double error = std::abs(computed - sum.y);
    if (error > 0)
      largest = std::max(largest, error / bias_gradient_error_bound(problem_.dtype, sum.terms,
                                                                    sum.magnitude, computed));
  }
  return largest;
}

double SampleCheck::max_error_over_bound(Queue& queue, const Buffers& buffers,
                                         const Numerics& numerics) const {
  const Numerics judged = numerics.bounded ? numerics : Numerics{};
  std::vector<std::vector<std::byte>> images;
  for (const std::int64_t n : images_) images.push_back(buffers.output_image(queue, n));
  const std::size_t element_bytes = size_in_bytes(problem_.dtype);
  double largest = bias_gradient_over_bound(queue, buffers);
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const std::vector<std::byte>& bytes = images[points_[i].image];
    const ConstTensorView view(bytes.data(), problem_.dtype,
                               {static_cast<std::int64_t>(bytes.size() / element_bytes)});
    const double computed = load_element(view, offset_in_image(points_[i]));
    if (!std::isfinite(computed)) return std::numeric_limits<double>::infinity();
    const double oracle = expected_[i].y;
    const double expected = activation_ == Activation::relu ? std::max(oracle, 0.0) : oracle;
    const double error = std::abs(computed - expected);
    if (error > 0)
      largest =
          std::max(largest, error / conv_error_bound(judged, problem_, expected_[i], computed));
  }
  return largest;
}

}  // namespace plumb
