#include "equation.hpp"

#include <cmath>

namespace plumb::field {
namespace {

/// Of the second differences: stable in up to three dimensions.
constexpr double heat_number = 0.125, wave_number = 0.25;

/// The 3^dims weights of one step: identity, twice for waves, and a multiple of the Laplacian.
std::vector<double> stencil_of(const FieldProblem& problem, bool negative) {
  const bool is_wave = problem.equation == Equation::wave;
  const double number = is_wave ? wave_number : heat_number;
  const int planes = problem.dims == 3 ? 3 : 1;
  std::vector<double> weights(static_cast<std::size_t>(planes * 9));
  for (int t = 0; t < planes; ++t)
    for (int r = 0; r < 3; ++r)
      for (int s = 0; s < 3; ++s) {
        const int off = (planes == 3 && t != 1 ? 1 : 0) + (r != 1 ? 1 : 0) + (s != 1 ? 1 : 0);
        double weight = 0;
        if (off == 0) weight = (is_wave ? 2 : 1) - 2 * problem.dims * number;
        if (off == 1) weight = number;
        weights[static_cast<std::size_t>((t * 3 + r) * 3 + s)] = negative ? -weight : weight;
      }
  return weights;
}

ConvProblem convolution_of(const FieldProblem& problem) {
  ConvProblem conv;
  conv.dtype = problem.dtype;
  conv.d = problem.extents[0];
  conv.h = problem.extents[1];
  conv.w = problem.extents[2];
  conv.t = problem.dims == 3 ? 3 : 1;
  conv.r = conv.s = 3;
  conv.padding = problem.dims == 3 ? Padding(1, 1, 1) : Padding(1, 1);
  conv.boundary = Boundary::periodic;
  return conv;
}

/// An algorithm that adds up in one order whatever the size, so that ranks give the bits of one.
std::string algorithm_of(const FieldProblem& problem, const Device& device) {
  if (!problem.algorithm.empty() || problem.reproducible) return problem.algorithm;
  const std::string_view backend = device.id().backend;
  if (backend != "cpu" && backend != "cuda") return {};
  return std::string(backend) + ".conv.fields." + (problem.dtype == DType::f64 ? "fp64" : "fp32");
}

}  // namespace

double start_value(const FieldProblem& problem, const std::array<std::int64_t, 3>& at) {
  const auto distance = [&](double d, double h, double w) {
    const double centre[] = {d, h, w};
    double sum = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      if (problem.extents[i] == 1) continue;
      const double apart =
          static_cast<double>(at[i]) / static_cast<double>(problem.extents[i]) - centre[i];
      sum += apart * apart;
    }
    return sum;
  };
  if (problem.equation == Equation::wave) return std::exp(-400 * distance(0.5, 0.4, 0.3));
  return (distance(0.5, 0.3, 0.3) < 0.03 ? 100 : 0) + (distance(0.5, 0.7, 0.6) < 0.015 ? 60 : 0);
}

Field::Field(MPI_Comm communicator, const Device& device, const FieldProblem& problem)
    : problem_(problem), device_(device), queue_(device) {
  const bool is_wave = problem.equation == Equation::wave;
  DistributedOptions options;
  options.conv.accumulate = is_wave;
  options.conv.algorithm = algorithm_of(problem, device);
  options.conv.reproducible = problem.reproducible;
  const ConvProblem conv = convolution_of(problem);
  for (std::size_t i = 0; i < (is_wave ? 2u : 1u); ++i) {
    plans_[i].emplace(communicator, device, conv, problem.grid, options);
    const std::vector<double> weights = stencil_of(problem, i == 1);
    const Extents extents = conv.w_extents();
    std::vector<std::byte> stored(weights.size() * size_in_bytes(problem.dtype));
    const TensorView on_host(stored.data(), problem.dtype, extents);
    for (std::size_t j = 0; j < weights.size(); ++j)
      store_element(on_host, static_cast<std::int64_t>(j), weights[j]);
    stencils_[i] = Tensor(device, problem.dtype, extents);
    copy(queue_, on_host, stencils_[i]);
    queue_.synchronize();
  }
  block_ = plans_[0]->x_block();
  for (Tensor& field : fields_) field = Tensor(device, problem.dtype, block_.extents);
  fill(fields_[0], false);
  // A wave at rest: the step before the first, -u, is that of the start.
  fill(fields_[1], !is_wave);
}

void Field::fill(const TensorView& to, bool zeros) {
  const Extents& extents = block_.extents;
  const int rank = extents.rank();
  std::vector<std::byte> stored(static_cast<std::size_t>(element_count(extents)) *
                                size_in_bytes(problem_.dtype));
  const TensorView on_host(stored.data(), problem_.dtype, extents);
  const double sign = to.data() == fields_[1].data() ? -1 : 1;
  std::int64_t next = 0;
  const std::int64_t planes = rank == 5 ? extents[2] : 1;
  for (std::int64_t d = 0; d < planes; ++d)
    for (std::int64_t h = 0; h < extents[rank - 2]; ++h)
      for (std::int64_t w = 0; w < extents[rank - 1]; ++w)
        store_element(on_host, next++,
                      zeros ? 0
                            : sign * start_value(problem_, {(rank == 5 ? block_.begin[2] : 0) + d,
                                                            block_.begin[rank - 2] + h,
                                                            block_.begin[rank - 1] + w}));
  copy(queue_, on_host, to);
  queue_.synchronize();
}

void Field::step() {
  const auto now = static_cast<std::size_t>(steps_ % 2), next = 1 - now;
  const bool is_wave = problem_.equation == Equation::wave;
  const std::size_t plan = is_wave ? now : 0;
  plans_[plan]->execute(queue_, {.x = fields_[now], .w = stencils_[plan], .y = fields_[next]});
  ++steps_;
}

std::vector<std::byte> Field::values() {
  const Tensor& field = fields_[static_cast<std::size_t>(steps_ % 2)];
  std::vector<std::byte> stored(static_cast<std::size_t>(element_count(block_.extents)) *
                                size_in_bytes(problem_.dtype));
  const TensorView on_host(stored.data(), problem_.dtype, block_.extents);
  copy(queue_, field, on_host);
  queue_.synchronize();
  const bool is_negated = problem_.equation == Equation::wave && steps_ / 2 % 2 == 1;
  const std::int64_t count = is_negated ? element_count(block_.extents) : 0;
  for (std::int64_t i = 0; i < count; ++i) store_element(on_host, i, -load_element(on_host, i));
  return stored;
}

}  // namespace plumb::field
