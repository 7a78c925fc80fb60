// Runs algorithms on one case and holds what they wrote against the oracle.
#include "trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../conv_choice.hpp"
#include "../overlap.hpp"
#include "../parallel/parallel.hpp"
#include "in_double.hpp"
#include "plumb/backend.hpp"

namespace plumb {
namespace {

/// Sums of fewer products are not worth waking other threads for.
constexpr double products_for_one_thread = 1e6;

}  // namespace

Trial::Trial(std::shared_ptr<GuardedMemory> memory, const ValidationCase& test,
             const ValidationOptions& options)
    : device_(memory->device()),
      memory_(std::move(memory)),
      problem_(check(test.problem)),
      output_strides_(output_of(problem_).strides),
      activation_(test.activation),
      seed_(options.seed),
      offset_(test.offset),
      x_(make(image_of(problem_).extents, image_of(problem_).strides)),
      w_(make(filters_of(problem_).extents, filters_of(problem_).strides)),
      sums_dy_(test.bias && problem_.direction == Direction::backward_weights) {
  check_options(
      problem_,
      {.activation = test.activation, .accumulate = test.accumulate, .relu_mask = test.relu_mask});
  const auto values = [&](std::int64_t count) {
    return GuardedTensor(memory_, problem_.dtype, Extents{count}, Strides{1});
  };
  if (test.bias && !sums_dy_) bias_.emplace(values(bias_elements(problem_)));
  if (test.relu_mask) {
    const Extents y = problem_.y_extents();
    mask_.emplace(make(y, dense_strides(y)));
    masked_.emplace(memory_, problem_.dtype, y, dense_strides(y));
  }
  if (test.accumulate) {
    TrialOutput before = make_output();
    before_ = std::move(before.y);
    db_before_ = std::move(before.db);
  }
  constexpr double max_points = 4e6;
  const auto outputs = static_cast<double>(element_count(output_of(problem_).extents));
  every_output_ = outputs <= max_points && problem_.flop() / 2 <= options.full_check_limit;
  choose_points(options.seed);
}

GuardedTensor Trial::make(const Extents& extents, const Strides& strides) const {
  return GuardedTensor(memory_, problem_.dtype, extents, strides, offset_, pages_);
}

TrialOutput Trial::make_output() const {
  const ConvOperand output = output_of(problem_);
  TrialOutput made{make(output.extents, output.strides), {}};
  if (sums_dy_) made.db.emplace(make({problem_.k}, {1}));
  return made;
}

RunOptions Trial::run_options() const {
  return {
      .accumulate = accumulates(), .relu_mask = mask_.has_value(), .reproducible = reproducible_};
}

ConvRun Trial::run_of(const ConvAlgorithm& algorithm) const {
  return ConvRun(algorithm, problem_, device_.info(), run_options());
}

void Trial::guard(GuardPages pages) {
  pages_ = pages;
  x_.place(pages);
  w_.place(pages);
  if (bias_) bias_->place(pages);
  if (mask_) mask_->place(pages);
}

void Trial::upload_inputs(Queue& queue) const {
  x_.upload(queue);
  w_.upload(queue);
  if (bias_) bias_->upload(queue);
  if (mask_) mask_->upload(queue);
  queue.synchronize();
}

void Trial::load_data(DataKind kind) {
  kind_ = kind;
  for (std::vector<double>& bits : bits_) bits.clear();
  if (kind == DataKind::integers) {
    load_integers();
  } else {
    fill(kind, seed_, problem_, x(), w(), bias(), before());
    fill_beside(kind);
    ask_oracle();
  }
  checksums_.clear();
  // Sums over channels are another convolution of the same direction; gradients go without.
  const bool linear = activation_ == Activation::none && problem_.pool == Pool::none &&
                      problem_.direction == Direction::forward;
  if (!every_output_ && linear && kind != DataKind::non_finite) expect_checksums();
}

/// Many terms are kept small by zeros among them, at random; but elements that overlap are the same
/// in many terms, and then their sum has to be looked at.
void Trial::load_integers() {
  const double limit = exact_limit(problem_.dtype);
  double largest = 0;
  for (double share = 1;; share /= 4) {
    fill_integers(seed_, share, problem_, x(), w(), bias(), before());
    fill_beside(DataKind::integers);
    ask_oracle();
    largest = 0;
    for (const OracleTerm& term : expected_) largest = std::max(largest, term.magnitude);
    if (largest <= limit) return;
  }
}

/// The mask, about half of which is above zero, and what the bias's gradient is added to.
void Trial::fill_beside(DataKind kind) {
  Random random(seed_ + 1);
  const auto draw = [&](const GuardedTensor& tensor, const auto& value) {
    for_each_offset(tensor.host().extents(), tensor.host().strides(),
                    [&](std::int64_t offset) { store_element(tensor.host(), offset, value()); });
  };
  if (mask_) draw(*mask_, [&] { return std::max(0.0, random.normal()); });
  if (db_before_)
    draw(*db_before_, [&] {
      return kind == DataKind::integers ? static_cast<double>(random.between(-7, 7))
                                        : random.normal();
    });
}

void Trial::apply_mask() {
  const TensorView dy = problem_.direction == Direction::backward_data ? x() : w();
  const TensorView mask = mask_->host(), masked = masked_->host();
  std::vector<double> values;
  for_each_offset(dy.extents(), dy.strides(),
                  [&](std::int64_t offset) { values.push_back(load_element(dy, offset)); });
  std::size_t i = 0;
  for_each_offset(mask.extents(), mask.strides(), [&](std::int64_t offset) {
    store_element(masked, offset, load_element(mask, offset) > 0 ? values[i] : 0);
    ++i;
  });
}

/// The sums of dy by channel.
void Trial::expect_bias_gradient() {
  const ConstTensorView dy = masked_ ? masked_->host() : w();
  db_.assign(static_cast<std::size_t>(problem_.k), {});
  const std::int64_t image = problem_.z() * problem_.p() * problem_.q();
  std::int64_t position = 0;
  for_each_offset(dy.extents(), dy.strides(), [&](std::int64_t offset) {
    OracleTerm& term = db_[static_cast<std::size_t>(position++ / image % problem_.k)];
    const double value = load_element(dy, offset);
    term.y += value;
    term.magnitude += std::abs(value);
    ++term.terms;
  });
  if (!db_before_) return;
  for (std::int64_t k = 0; k < problem_.k; ++k)
    db_[static_cast<std::size_t>(k)].add(load_element(db_before_->host(), k));
}

void Trial::ask_oracle() {
  if (mask_) apply_mask();
  if (sums_dy_) expect_bias_gradient();
  const bool of_data = problem_.direction == Direction::backward_data;
  const InDouble image(masked_ && of_data ? masked_->host() : x());
  const InDouble filters(masked_ && !of_data ? masked_->host() : w());
  expected_.resize(points_.size());
  const auto count = static_cast<std::int64_t>(points_.size());
  const double products = static_cast<double>(count) * static_cast<double>(problem_.terms());
  const int threads = products > products_for_one_thread ? available_threads() : 1;
  parallel_tasks(threads, count, 256, [&](std::int64_t i, int) {
    const Point& point = points_[static_cast<std::size_t>(i)];
    const auto [n, k, z, p, q] = point;
    OracleTerm& term = expected_[static_cast<std::size_t>(i)];
    term = conv_oracle_at(problem_, image.view(), filters.view(), bias(), n, k, z, p, q);
    if (accumulates()) term.add(load_element(before(), y_offset(point)));
  });
}

bool Trial::packs(const ConvAlgorithm& algorithm) const {
  return problem_.direction != Direction::backward_weights && run_of(algorithm).filter_bytes() > 0;
}

std::optional<GuardedTensor> Trial::make_scratch(std::size_t bytes, Queue& queue) const {
  if (bytes == 0) return std::nullopt;
  const Extents extents{static_cast<std::int64_t>((bytes + 1) / 2)};
  constexpr std::int64_t alignment = 256;  // what callers promise of a workspace
  GuardedTensor scratch(memory_, DType::f16, extents, {1}, 0, pages_, alignment);
  if (scratch_ == Scratch::numbers)
    std::memset(scratch.host().data(), 0x4b, static_cast<std::size_t>(extents[0]) * 2);
  scratch.upload(queue);
  queue.synchronize();
  return scratch;
}

ConvRun Trial::run_with_other_batch(const ConvAlgorithm& algorithm) const {
  // With the same strides, of which packed filters may depend on each. The one along N was free
  // where there is one image: two may overlap in y, which is no problem that check() takes.
  ConvProblem other = problem_;
  other.n = problem_.n == 1 ? 2 : 1;
  if (!overlaps_itself(output_of(other).extents, output_of(other).strides)) {
    ConvRun run(algorithm, other, device_.info(), run_options());
    if (run.support()) return run;
  }
  return run_of(algorithm);
}

std::string Trial::pack(const ConvRun& run, Queue& queue, PackedBefore& packed) const {
  const ConvRun packs = run_with_other_batch(run.algorithm());
  if (packs.filter_bytes() != run.filter_bytes())
    return fmt::format("packed filters take {} bytes for N={} and {} for N={}",
                       packs.filter_bytes(), packs.launched().n, run.filter_bytes(), problem_.n);
  packed.filters = make_scratch(run.filter_bytes(), queue);
  packs.pack(queue.backend(), device_.info(), w_.on_device().data(),
             packed.filters->on_device().data());
  queue.synchronize();
  packed.filters->download(queue);
  if (const auto broken = packed.filters->broken_canary()) return "filters: " + *broken;
  packed.no_w = make(filters_of(problem_).extents, filters_of(problem_).strides);
  packed.no_w->upload(queue);
  return {};
}

std::string Trial::run(const ConvAlgorithm& algorithm, Queue& queue, TrialOutput& output,
                       Packing packing) const {
  // Plans do not launch anything for an empty batch, unless it is summed over.
  if (problem_.n == 0 && problem_.direction != Direction::backward_weights) return {};
  GuardedTensor& y = output.y;
  const auto prepare = [&](GuardedTensor& tensor, const std::optional<GuardedTensor>& old) {
    if (old)
      tensor.copy_host(*old);
    else
      tensor.poison();
    tensor.upload(queue);
  };
  prepare(y, before_);
  if (output.db) prepare(*output.db, db_before_);
  const ConvRun how = run_of(algorithm);
  const bool before = packing == Packing::before;
  PackedBefore packed;
  if (before)
    if (std::string wrong = pack(how, queue, packed); !wrong.empty()) return wrong;
  std::optional<GuardedTensor> workspace =
      make_scratch(before ? how.packed_workspace_bytes() : how.workspace_bytes(), queue);
  how.launch(queue.backend(), {.problem = problem_,
                               .device = device_.info(),
                               .x = x_.on_device().data(),
                               .w = (before ? *packed.no_w : w_).on_device().data(),
                               .filters = before ? packed.filters->on_device().data() : nullptr,
                               .bias = bias_ ? bias_->on_device().data() : nullptr,
                               .y = y.on_device().data(),
                               .activation = activation_,
                               .accumulate = accumulates(),
                               .reproducible = reproducible_,
                               .workspace = workspace ? workspace->on_device().data() : nullptr,
                               .native_queue = queue.native(),
                               .mask = mask_ ? mask_->on_device().data() : nullptr,
                               .mask_strides = mask().strides(),
                               .db = output.db ? output.db->on_device().data() : nullptr});
  queue.synchronize();
  y.download(queue);
  if (const auto broken = y.broken_canary())
    return fmt::format("{}: {}", output_of(problem_).name, *broken);
  if (output.db) {
    output.db->download(queue);
    if (const auto broken = output.db->broken_canary()) return "db: " + *broken;
  }
  if (workspace) {
    workspace->download(queue);
    if (const auto broken = workspace->broken_canary()) return "workspace: " + *broken;
  }
  if (before && !packed.filters->same_on_device(queue)) return "the packed filters were written";
  return {};
}

std::string Trial::changed_inputs(Queue& queue) const {
  const std::pair<const GuardedTensor*, std::string_view> inputs[] = {
      {&x_, image_of(problem_).name},
      {&w_, filters_of(problem_).name},
      {bias_ ? &*bias_ : nullptr, "bias"},
      {mask_ ? &*mask_ : nullptr, "mask"}};
  for (const auto& [tensor, name] : inputs)
    if (tensor && !tensor->same_on_device(queue))
      return fmt::format("the input {} was written", name);
  return {};
}

std::int64_t Trial::y_offset(const Point& point) const {
  const Strides& strides = output_strides_;
  const int rows = strides.rank() - 2, columns = strides.rank() - 1;
  const std::int64_t plane = problem_.has_depth() ? point.z * strides[2] : 0;
  return point.n * strides[0] + point.k * strides[1] + plane + point.p * strides[rows] +
         point.q * strides[columns];
}

double Trial::activated(double value) const {
  return activation_ == Activation::relu && value < 0 ? 0 : value;
}

void Trial::judge_point(std::size_t i, Tier tier, const Numerics& numerics, double computed,
                        Judgement& judgement) const {
  const OracleTerm& oracle = expected_[i];
  const double expected = activated(oracle.y);
  const auto fail = [&](const std::string& what) {
    if (!judgement.failure.empty()) return;
    const auto [n, k, z, p, q] = points_[i];
    const std::string plane = problem_.has_depth() ? fmt::format("{},", z) : "";
    judgement.failure =
        fmt::format("{} data: {}[{},{},{}{},{}] is {}; expected {}{}", to_string(kind_),
                    output_of(problem_).name, n, k, plane, p, q, computed, expected, what);
  };
  if (!std::isfinite(expected)) {
    const bool same = std::isnan(expected) ? std::isnan(computed) : computed == expected;
    if (!same) fail("");
    return;
  }
  if (tier == Tier::exact) {
    if (computed != expected) fail("");
    return;
  }
  const double bound = conv_error_bound(numerics, problem_, oracle, computed);
  const double error = std::abs(computed - expected);
  if (!(error <= bound)) fail(fmt::format(" within {:.3g}", bound));
  if (!std::isfinite(computed)) return;
  if (error > 0)
    judgement.max_error_over_bound = std::max(judgement.max_error_over_bound, error / bound);
  if (oracle.magnitude > 0)
    judgement.max_bound_over_tap =
        std::max(judgement.max_bound_over_tap,
                 bound * static_cast<double>(problem_.terms()) / oracle.magnitude);
}

void Trial::judge_written(const ConstTensorView& y, Judgement& judgement) const {
  std::int64_t position = 0;
  for_each_offset(y.extents(), y.strides(), [&](std::int64_t offset) {
    if (judgement.failure.empty() && std::isnan(load_element(y, offset)))
      judgement.failure = fmt::format(
          "{} data: output {} in row-major order is NaN or was not "
          "written",
          to_string(kind_), position);
    ++position;
  });
}

void Trial::judge_bias_gradient(Tier tier, const TrialOutput& output, Judgement& judgement) const {
  for (std::size_t k = 0; k < db_.size() && judgement.failure.empty(); ++k) {
    const OracleTerm& oracle = db_[k];
    const double computed = load_element(output.db->host(), static_cast<std::int64_t>(k));
    const double bound =
        bias_gradient_error_bound(problem_.dtype, oracle.terms, oracle.magnitude, computed);
    // What the stored type does not hold is rounded to it.
    const bool exact = tier == Tier::exact && oracle.magnitude <= exact_limit(problem_.dtype);
    bool good = exact ? computed == oracle.y : std::abs(computed - oracle.y) <= bound;
    if (std::isnan(oracle.y)) good = std::isnan(computed);
    if (std::isinf(oracle.y)) good = computed == oracle.y;
    if (!good)
      judgement.failure = fmt::format("{} data: db[{}] is {}; expected {} within {:.3g}",
                                      to_string(kind_), k, computed, oracle.y, exact ? 0 : bound);
  }
}

Judgement Trial::judge(Tier tier, const Numerics& numerics, const TrialOutput& y) const {
  Judgement judgement;
  const ConstTensorView view = y.host();
  if (sums_dy_) judge_bias_gradient(tier, y, judgement);
  for (std::size_t i = 0; i < points_.size(); ++i)
    judge_point(i, tier, numerics, load_element(view, y_offset(points_[i])), judgement);
  if (every_output_) return judgement;
  if (kind_ != DataKind::non_finite) judge_written(view, judgement);
  if (!checksums_.empty()) judge_checksums(tier, numerics, view, judgement);
  return judgement;
}

}  // namespace plumb
