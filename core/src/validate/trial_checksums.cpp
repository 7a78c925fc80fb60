// Checksums of outputs that are too many for the oracle: sums over the filters of each group.
#include <fmt/format.h>

#include <cmath>

#include "trial.hpp"

namespace plumb {

/// Sum over k of y[n,k,p,q] is one convolution with the sum of the filters, for each group.
void Trial::expect_checksums() {
  ConvProblem sum = problem_;
  sum.k = problem_.groups;
  sum.w_strides = sum.y_strides = {};
  sum = check(sum);
  const Extents extents = sum.w_extents();
  std::vector<double> filters(static_cast<std::size_t>(element_count(extents)), 0.0);
  std::vector<double> magnitudes = filters, biases(static_cast<std::size_t>(sum.k), 0.0);
  std::vector<double> bias_magnitudes = biases;
  const std::int64_t in_group = problem_.k / problem_.groups;
  const std::int64_t filter_size = problem_.terms();
  std::int64_t position = 0;
  for_each_offset(problem_.w_extents(), problem_.w_strides, [&](std::int64_t offset) {
    const std::int64_t k = position / filter_size, term = position % filter_size;
    const auto at = static_cast<std::size_t>(k / in_group * filter_size + term);
    filters[at] += load_element(w(), offset);
    magnitudes[at] += std::abs(load_element(w(), offset));
    ++position;
  });
  if (bias_)
    for (std::int64_t k = 0; k < problem_.k; ++k) {
      biases[static_cast<std::size_t>(k / in_group)] += load_element(bias(), k);
      bias_magnitudes[static_cast<std::size_t>(k / in_group)] += std::abs(load_element(bias(), k));
    }
  const auto oracle = [&](const std::vector<double>& filter, const std::vector<double>& added) {
    return conv_oracle(sum, x(), ConstTensorView(filter.data(), extents),
                       bias_ ? ConstTensorView(added.data(), {sum.k}) : ConstTensorView{});
  };
  checksums_ = oracle(filters, biases);
  const std::vector<OracleTerm> bounds = oracle(magnitudes, bias_magnitudes);
  for (std::size_t i = 0; i < checksums_.size(); ++i) {
    const double signed_sum = checksums_[i].y;
    checksums_[i] = bounds[i];
    checksums_[i].y = signed_sum;
    checksums_[i].x_magnitude *= static_cast<double>(in_group);
  }
  if (!accumulates()) return;
  const std::int64_t image = problem_.z() * problem_.p() * problem_.q();
  position = 0;
  for_each_offset(problem_.y_extents(), problem_.y_strides, [&](std::int64_t offset) {
    const std::int64_t channel = position / image;  // n K + k, and K is a multiple of in_group
    checksums_[static_cast<std::size_t>(channel / in_group * image + position % image)].add(
        load_element(before(), offset));
    ++position;
  });
}

void Trial::judge_checksums(Tier tier, const Numerics& numerics, const ConstTensorView& y,
                            Judgement& judgement) const {
  const std::int64_t in_group = problem_.k / problem_.groups;
  const std::int64_t image = problem_.z() * problem_.p() * problem_.q();
  std::vector<double> sums(checksums_.size(), 0.0), magnitudes = sums;
  std::int64_t position = 0;
  for_each_offset(y.extents(), y.strides(), [&](std::int64_t offset) {
    const std::int64_t channel = position / image;  // n K + k, and K is a multiple of in_group
    const auto at = static_cast<std::size_t>(channel / in_group * image + position % image);
    sums[at] += load_element(y, offset);
    magnitudes[at] += std::abs(load_element(y, offset));
    ++position;
  });
  // The bound is linear in the magnitudes: bound of the mean output, times the outputs summed.
  const auto count = static_cast<double>(in_group);
  for (std::size_t i = 0; i < sums.size() && judgement.failure.empty(); ++i) {
    OracleTerm mean = checksums_[i];
    mean.magnitude /= count, mean.x_magnitude /= count, mean.w_magnitude /= count;
    mean.accumulated /= count;
    mean.y = mean.magnitude;  // outputs of either sign may have made a small sum
    const double bound = tier == Tier::exact ? 0
                                             : count * conv_error_bound(numerics, problem_, mean,
                                                                        magnitudes[i] / count) +
                                                   count * 0x1p-52 * magnitudes[i];
    if (!(std::abs(sums[i] - checksums_[i].y) <= bound))
      judgement.failure =
          fmt::format("{} data: checksum {} over K is {}; expected {} within {:.3g}",
                      to_string(kind_), i, sums[i], checksums_[i].y, bound);
  }
}

}  // namespace plumb
