// One case on one device: its tensors, what the oracle expects, and the judgement of a result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../conv_run.hpp"
#include "guarded_tensor.hpp"
#include "plumb/validate.hpp"
#include "test_data.hpp"

namespace plumb {

/// The outcome of comparing one result with the oracle.
struct Judgement {
  std::string failure;  ///< empty where all is well
  double max_error_over_bound = 0;
  double max_bound_over_tap = 0;
};

/// What a run writes.
struct TrialOutput {
  GuardedTensor y;                  ///< y, dx or dw
  std::optional<GuardedTensor> db;  ///< beside dw, where the case asks for it
  TensorView host() const { return y.host(); }
  bool operator==(const TrialOutput& other) const {
    return y.image() == other.y.image() && (!db || db->image() == other.db->image());
  }
};

/// What scratch memory holds when a run begins. Kernels that take NaN for a sign to sum an output
/// again do so for a part that was never written, too: only numbers show that it was not.
enum class Scratch { nan, numbers };

/// When the filters are packed, for an algorithm with a layout of its own.
enum class Packing {
  in_launch,  ///< by the launch that wants them
  before,     ///< by themselves, for another N, and w is gone by the launch
};

class Trial {
 public:
  /// Error (invalid_argument) as check() does, and where y is to be pooled and accumulated.
  Trial(std::shared_ptr<GuardedMemory> memory, const ValidationCase& test,
        const ValidationOptions& options);

  /// Fills the inputs and what the output holds before on the host, and asks the oracle.
  void load_data(DataKind kind);
  /// Where the guard pages of all tensors made and uploaded from now on lie (not `both`).
  void guard(GuardPages pages);
  /// What scratch memory holds when a run begins, from now on.
  void fill_scratch(Scratch scratch) { scratch_ = scratch; }
  /// Puts what the host tensors hold on the device.
  void upload_inputs(Queue& queue) const;
  /// Tensors by their parts: image_of() and filters_of() the problem.
  TensorView x() const { return x_.host(); }
  TensorView w() const { return w_.host(); }
  TensorView bias() const { return bias_ ? bias_->host() : TensorView{}; }
  /// What y holds when a run begins, where the convolution is added to it; empty otherwise.
  TensorView before() const { return before_ ? before_->host() : TensorView{}; }
  bool accumulates() const { return before_.has_value(); }
  /// The ReLU's output, where dy is masked; empty otherwise.
  TensorView mask() const { return mask_ ? mask_->host() : TensorView{}; }

  /// Runs an algorithm on poisoned output, unless it is added to, and workspace. Returns what is
  /// wrong with the memory around them, or empty. `y` must be of this trial (make_output).
  std::string run(const ConvAlgorithm& algorithm, Queue& queue, TrialOutput& y,
                  Packing packing = Packing::in_launch) const;
  /// Whether the algorithm has a layout of its own for these filters, so that both ways can be run.
  bool packs(const ConvAlgorithm& algorithm) const;
  TrialOutput make_output() const;
  /// What is wrong with the inputs after a run: nothing may have written them.
  std::string changed_inputs(Queue& queue) const;

  /// Holds `y` against the oracle: bit for bit, or within the bound of the numerics.
  Judgement judge(Tier tier, const Numerics& numerics, const TrialOutput& y) const;

  /// Whether the algorithm gives the bits that docs/numerics.md specifies, where it is asked to.
  Support reproduces(const ConvAlgorithm& algorithm);
  /// The same as run(), asked for those bits; the algorithm has them.
  std::string run_reproducible(const ConvAlgorithm& algorithm, Queue& queue, TrialOutput& output);
  /// Holds what such a run wrote against a plain loop, and returns what is wrong, or empty.
  std::string judge_bits(const ConvAlgorithm& algorithm, const TrialOutput& output);

  const ConvProblem& problem() const { return problem_; }
  const Device& device() const { return device_; }

 private:
  struct Point {
    std::int64_t n, k, z, p, q;  ///< of y, pooled where it is; of dx n c d h w, of dw k c t r s
  };
  /// Filters packed for another N, and NaN in the place of w, so that an algorithm that still reads
  /// it is found out.
  struct PackedBefore {
    std::optional<GuardedTensor> filters, no_w;
  };
  /// The run of the same filters in another batch, or in this one where the algorithm takes no
  /// other.
  ConvRun run_with_other_batch(const ConvAlgorithm& algorithm) const;
  /// Returns what is wrong, or empty.
  std::string pack(const ConvRun& run, Queue& queue, PackedBefore& packed) const;
  /// Scratch memory between canaries; none for no bytes.
  std::optional<GuardedTensor> make_scratch(std::size_t bytes, Queue& queue) const;
  void choose_points(std::uint64_t seed);
  void choose_edges(const Extents& outputs);
  void choose_random(const Extents& outputs, std::uint64_t seed, std::int64_t count);
  void expect_checksums();
  std::int64_t y_offset(const Point& point) const;
  double activated(double value) const;
  void judge_point(std::size_t i, Tier tier, const Numerics& numerics, double computed,
                   Judgement& judgement) const;
  void judge_bias_gradient(Tier tier, const TrialOutput& output, Judgement& judgement) const;
  void judge_written(const ConstTensorView& y, Judgement& judgement) const;
  void judge_checksums(Tier tier, const Numerics& numerics, const ConstTensorView& y,
                       Judgement& judgement) const;

  void fill_beside(DataKind kind);
  /// Fills with integers whose sums the narrowest types hold, whatever the strides.
  void load_integers();
  void ask_oracle();
  /// dy as the gradient has it: with zeros where it is masked.
  void apply_mask();
  void expect_bias_gradient();
  RunOptions run_options() const;
  /// The runs that are made meanwhile are asked for the specified bits.
  struct ForReproducibleRuns {
    explicit ForReproducibleRuns(Trial& of) : trial(of) { trial.reproducible_ = true; }
    ~ForReproducibleRuns() { trial.reproducible_ = false; }
    ForReproducibleRuns(const ForReproducibleRuns&) = delete;
    ForReproducibleRuns& operator=(const ForReproducibleRuns&) = delete;
    Trial& trial;
  };
  ConvOptions reproducible_options(const ConvAlgorithm& algorithm) const;
  ConvTensors reproducible_tensors() const;
  const std::vector<double>& expected_bits(const ConvOptions& options);
  ConvRun run_of(const ConvAlgorithm& algorithm) const;
  GuardedTensor make(const Extents& extents, const Strides& strides) const;

  Device device_;
  std::shared_ptr<GuardedMemory> memory_;
  GuardPages pages_ = GuardPages::none;
  Scratch scratch_ = Scratch::nan;
  ConvProblem problem_;
  Strides output_strides_;  ///< of output_of(problem_), whose extents take long to compute
  Activation activation_;
  std::uint64_t seed_;
  std::int64_t offset_;  ///< in elements: an odd one finds kernels that count on alignment
  GuardedTensor x_, w_;
  std::optional<GuardedTensor> bias_, mask_;
  std::optional<GuardedTensor> before_, db_before_;
  std::optional<GuardedTensor> masked_;  ///< dy with zeros; stays on the host
  bool sums_dy_;                         ///< the gradient of a bias is asked for
  std::vector<OracleTerm> db_;           ///< which is this
  bool reproducible_ = false;            ///< runs are asked for the bits that are specified
  DataKind kind_ = DataKind::integers;
  bool every_output_ = true;
  std::vector<Point> points_;
  std::vector<OracleTerm> expected_;  ///< at the points
  std::vector<double> bits_[2];  ///< of sums in fp32 and in fp64; empty until they are asked for
  std::vector<OracleTerm> checksums_;  ///< over K of a group, in N G P Q order; empty where unused
};

}  // namespace plumb
