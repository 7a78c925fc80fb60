// The proof has an oracle, a bound that follows from an algorithm's numerics, and five tiers that
// every device, algorithm and problem is held against. docs/numerics.md derives the bound.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"
#include "plumb/export.h"

namespace plumb {

/// One output as the oracle has it, before the activation and before rounding to the stored type.
/// Where the problem pools, y is the largest of the outputs pooled (NaN where one is), whose order
/// the activation does not change, and each magnitude is the largest of theirs, so that the error
/// bound is that of the worst.
struct OracleTerm {
  double y = 0;            ///< sum of x w, plus the bias
  double magnitude = 0;    ///< sum of |x| |w|, plus |bias|, plus `accumulated`
  double x_magnitude = 0;  ///< sum of |x| over the taps inside the image
  double w_magnitude = 0;  ///< sum of |w| over the same taps
  /// Of what y held before, where the convolution is added to it: y has it too then. The oracle
  /// itself leaves that to its caller, who calls add(), and this 0.
  double accumulated = 0;
  double terms = 0;  ///< products that were added
  /// Adds what y held before to the sum and to the magnitudes.
  void add(double before) {
    y += before;
    magnitude += std::abs(before);
    accumulated += std::abs(before);
  }
};

/// Computes the naive convolution in double, at one element of y. Inputs are host views of the
/// problem's x_extents() and w_extents(), used exactly as stored; taps outside the image read what
/// the boundary shows, and are left out where it shows zeros, whatever their weight. It is slow and
/// obvious on purpose. Of a gradient x, w and the indices are those of image_of(), filters_of() and
/// output_of(): n c d h w of dx, k c t r s of dw (which no bias is added to).
PLUMB_API OracleTerm conv_oracle_at(const ConvProblem& problem, const ConstTensorView& x,
                                    const ConstTensorView& w, const ConstTensorView& bias,
                                    std::int64_t n, std::int64_t k, std::int64_t z, std::int64_t p,
                                    std::int64_t q);
/// Computes the same for problems without a depth.
PLUMB_API OracleTerm conv_oracle_at(const ConvProblem& problem, const ConstTensorView& x,
                                    const ConstTensorView& w, const ConstTensorView& bias,
                                    std::int64_t n, std::int64_t k, std::int64_t p, std::int64_t q);

/// Computes the naive convolution, or gradient, at every element of its output, in dense order.
PLUMB_API std::vector<OracleTerm> conv_oracle(const ConvProblem& problem, const ConstTensorView& x,
                                              const ConstTensorView& w,
                                              const ConstTensorView& bias = {});

/// Returns one element of the output of a reproducible convolution or gradient
/// (ConvOptions::reproducible), as docs/numerics.md specifies it: a plain loop, which uses nothing
/// that the kernels use. `problem` has passed check(). `tensors` are on the host, with y as it was
/// before, and of the extents and strides of the problem; the indices are those of
/// conv_oracle_at(), pooled where the problem pools. Of the options count math, activation,
/// accumulate and relu_mask. A double holds every stored value.
PLUMB_API double reproducible_at(const ConvProblem& problem, const ConvOptions& options,
                                 const ConvTensors& tensors, std::int64_t n, std::int64_t k,
                                 std::int64_t z, std::int64_t p, std::int64_t q);
/// Returns element k of the bias's gradient beside a reproducible dw, likewise; `tensors.db` is as
/// it was before.
PLUMB_API double reproducible_bias_gradient_at(const ConvProblem& problem,
                                               const ConvOptions& options,
                                               const ConvTensors& tensors, std::int64_t k);
/// Writes all of a reproducible convolution to y, and to db: slow and obvious.
PLUMB_API void reproducible_conv(const ConvProblem& problem, const ConvOptions& options,
                                 const ConvTensors& tensors);

/// Returns the largest error that an algorithm with these numerics may make at one output, before
/// the activation; `computed` is its own result there. It is infinite where the numerics are not a
/// promise.
PLUMB_API double conv_error_bound(const Numerics& numerics, const ConvProblem& problem,
                                  const OracleTerm& oracle, double computed);

/// Returns the largest error of the bias's gradient, a sum of so many elements of dy, of this sum
/// of magnitudes, that is formed in double.
PLUMB_API double bias_gradient_error_bound(DType dtype, double terms, double magnitude,
                                           double computed);

/// Returns what is to be added to either bound where the gradient is the sum of those of so many
/// segments of the batch, of which each element has gone through `depth` additions rounded to the
/// stored type (ConvPipeline::sum_depth()); 0 of one segment that nothing is added to. `bound` is
/// that of the whole batch, `magnitude` the sum of its magnitudes.
PLUMB_API double segments_error_bound(DType dtype, std::int64_t segments, int depth,
                                      double magnitude, double bound);

/// The five ways in which a result is judged.
enum class Tier : std::uint8_t {
  exact,       ///< small integers: the oracle's bits, in every order of summation
  bounded,     ///< random data: within the bound, element by element; NaN and Inf where they belong
  repeatable,  ///< the same bits again, on another queue and beside another thread
  attested,    ///< probes show the arithmetic that the numerics claim
  /// Of algorithms that claim it: the bits of a plain loop (reproducible_at()), on random data,
  /// data near underflow, and with NaN and Inf.
  reproducible,
};
/// The tiers in the order in which they are judged.
inline constexpr Tier all_tiers[] = {Tier::exact, Tier::bounded, Tier::repeatable, Tier::attested,
                                     Tier::reproducible};
PLUMB_API std::string_view to_string(Tier);  ///< "exact"

/// The result of one tier.
enum class Verdict : std::uint8_t {
  pass,         ///< as it must be
  fail,         ///< `ValidationRecord::sentence` says what and where
  unsupported,  ///< the algorithm refuses the problem
  outside,      ///< worse than a promise would allow, but the algorithm gives none
};
PLUMB_API std::string_view to_string(Verdict);  ///< "pass"

/// The arithmetic that a kernel computed with, seen from its results alone.
enum class Arithmetic : std::uint8_t {
  unknown,  ///< too few terms to tell, or unlike all the others
  fp64,
  fp32,  ///< as good as fp32 operands and fp32 sums
  tf32_rounded,
  tf32_truncated,
  fp16,             ///< fp16 operands, fp32 sums
  fp16_accumulate,  ///< sums in fp16
  bf16,
};
PLUMB_API std::string_view to_string(Arithmetic);  ///< "fp32"
/// Returns what attestation must see of an algorithm with these numerics, for tensors stored as
/// `dtype`.
PLUMB_API Arithmetic claimed_arithmetic(const Numerics& numerics, DType dtype);

/// The way that the tensors of a case lie in memory.
enum class Placement : std::uint8_t {
  nchw,
  nhwc,
  strided,  ///< NCHW with gaps between rows and images, beginning at an odd element
  views,    ///< strides and an offset of their own, which `validation_case()` leaves alone
};
PLUMB_API std::string_view to_string(Placement);                       ///< "nchw"
PLUMB_API std::optional<Placement> parse_placement(std::string_view);  ///< of such a name

/// One problem as it is validated.
struct ValidationCase {
  std::string name = {};                     ///< empty for problems without one
  ConvProblem problem = {};                  ///< with its strides
  Placement placement = Placement::nchw;     ///< of its tensors
  bool bias = false;                         ///< with a bias; in backward weights its gradient
  Activation activation = Activation::none;  ///< after the bias
  bool accumulate = false;                   ///< added to what y holds; not with pooling
  bool relu_mask = false;                    ///< of gradients: dy counts where a ReLU passed it on
  /// Elements between a 256-byte boundary and the lowest element of x, w and y: an odd number finds
  /// kernels that count on alignment. Memory between guard pages begins or ends at a page instead.
  std::int64_t offset = 0;
  friend bool operator==(const ValidationCase&, const ValidationCase&) = default;  ///< all fields
};
/// Returns `problem` with the strides and the offset of its placement. For `views` it keeps its own
/// strides, and makes empty ones dense. Throws Error (invalid_argument) as check() does.
PLUMB_API ValidationCase validation_case(std::string name, ConvProblem problem,
                                         Placement placement);

/// These options say which problems are drawn.
struct CorpusOptions {
  std::uint64_t seed = 1;                   ///< of the problems that are random
  bool quick = false;                       ///< fewer random problems, and only the smaller layers
  std::optional<Direction> direction = {};  ///< only cases of this one
};
/// Returns shapes at the edges, the layers of the four-layer ladder and of ResNet-50 cut to a few
/// images, and problems drawn from the seed, in every stored type and placement that there is.
PLUMB_API std::vector<ValidationCase> validation_corpus(const CorpusOptions& options = {});

/// These limits say how large the problems are that RandomCases draws.
struct RandomLimits {
  double max_products = 4e4;            ///< multiplications of one problem
  std::int64_t max_elements = 1 << 16;  ///< that the strides of one tensor may span
  /// Of all cases; without it half of them are forward, and a quarter is each gradient's.
  std::optional<Direction> direction = {};
};

/// Draws from the whole space of problems: each direction, one to three axes, every size from 1,
/// groups, strides, dilations, paddings and boundaries of each axis its own, pooling, bias, ReLU,
/// mask, accumulation, every stored type; x and w dense, with gaps, mirrored, broadcast (strides of
/// zero), overlapping themselves, in any order of dimensions; y as any of these that does not
/// overlap itself; any offset. The draw is weighted to the edges where the conditions of kernels
/// change. It is the same on every machine.
class PLUMB_API RandomCases {
 public:
  /// Draws the cases of a seed, none of them beyond the limits.
  explicit RandomCases(std::uint64_t seed, const RandomLimits& limits = {});
  /// Returns case `index` of the seed, whichever others were drawn. It passes check().
  ValidationCase at(std::uint64_t index) const;
  ValidationCase next() { return at(next_++); }  ///< the case after the last one drawn

 private:
  std::uint64_t seed_;
  RandomLimits limits_;
  std::uint64_t next_ = 0;
};

/// Returns the smallest case that `fails` still accepts, of those that steps from a failing one
/// reach: forward, fewer images, channels and groups, no depth, smaller images and filters, strides
/// and dilations of 1, no padding, zeros there, dense tensors, no pooling, bias, ReLU, mask or
/// accumulation, f32. `fails` is asked of cases that pass check(), at most `max_tries` times; what
/// it throws is passed on.
PLUMB_API ValidationCase shrink(ValidationCase failing,
                                const std::function<bool(const ValidationCase&)>& fails,
                                int max_tries = 5000);

/// Guard pages, which nobody may touch, lie next to each tensor, the packed filters and the
/// workspace: a read or a write there ends the process. Only devices that use the host's memory
/// have them; others have only canaries.
enum class GuardPages : std::uint8_t {
  none,    ///< only canaries
  behind,  ///< memory ends at such a page
  before,  ///< memory begins at such a page
  both,    ///< each run is made twice, `behind` and `before`
};
PLUMB_API std::string_view to_string(GuardPages);                         ///< "behind"
PLUMB_API std::optional<GuardPages> parse_guard_pages(std::string_view);  ///< of such a name

/// These options say how a case is judged.
struct ValidationOptions {
  std::uint64_t seed = 1;  ///< of the data
  /// Problems of more multiplications are judged on their borders, on 10^5 outputs drawn at random,
  /// and by a checksum over all.
  double full_check_limit = 2e8;
  std::vector<Tier> tiers{std::begin(all_tiers), std::end(all_tiers)};  ///< to be judged by
  GuardPages guard = GuardPages::both;  ///< on devices that use the host's memory
  int threads = 0;  ///< OpenMP's, for the kernels of the host; 0: as many as the caller has set
  /// It is called before each algorithm runs in each tier, and so tells what the process was at
  /// when it ends there.
  std::function<void(const ConvAlgorithm&, Tier)> before_run = {};
};

/// One verdict and what it was about.
struct ValidationRecord {
  std::string problem;                       ///< benchdnn's notation
  std::string name;                          ///< of the problem, if it has one
  Direction direction = Direction::forward;  ///< of the problem
  DType dtype = DType::f32;                  ///< of the tensors
  Placement placement = Placement::nchw;     ///< of the tensors
  bool accumulate = false;                   ///< whether y's old values are added
  bool relu_mask = false;                    ///< whether dy is masked
  std::string device;                        ///< "cuda:0"
  std::string algorithm;                     ///< its name
  Tier tier = Tier::exact;                   ///< meaningless for `unsupported`
  Verdict verdict = Verdict::pass;           ///< what came of it
  Reason reason = Reason::none;              ///< of `unsupported`
  std::string sentence;                      ///< what failed and where, or why it is unsupported
  double max_error_over_bound = 0;  ///< of `bounded`; over that of fp32 FMA where none is promised
  /// The largest bound as a multiple of one mean tap, of `bounded`. Well under 1, the bound alone
  /// finds a dropped tap; above, only the exact tier does.
  double max_bound_over_tap = 0;
  Arithmetic arithmetic = Arithmetic::unknown;  ///< of `attested`
  std::string provider = {};  ///< whose kernel it is, "oneDNN 3.2.0"; empty for Plumb's own
};

/// Judges case after case on one device, and keeps the queue and the memory between them. One
/// thread at a time may use it.
class PLUMB_API Validator {
 public:
  explicit Validator(const Device& device);  ///< throws Error as Queue's does
  ~Validator();                              ///< gives the memory back
  Validator(const Validator&) = delete;
  Validator& operator=(const Validator&) = delete;

  /// Judges each algorithm on one case. It returns a record for each tier, or one that says
  /// `unsupported`, also where the machine does not have the memory (Reason::too_large, before
  /// anything is allocated, with the bytes needed and those free; Reason::out_of_memory where it
  /// ran out all the same). Inputs, outputs and workspace lie between canaries or guard pages;
  /// outputs and workspace start as NaN, but for outputs that are added to. What a kernel throws is
  /// a failure of the tier it ran in. An algorithm that promises no bound is measured against that
  /// of a chain of fp32 FMAs, and only what it throws or does to memory that is not its own can
  /// fail.
  std::vector<ValidationRecord> operator()(std::span<const ConvAlgorithm* const> algorithms,
                                           const ValidationCase& test,
                                           const ValidationOptions& options = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Judges one case, by a Validator of its own.
PLUMB_API std::vector<ValidationRecord> validate(const Device& device,
                                                 std::span<const ConvAlgorithm* const> algorithms,
                                                 const ValidationCase& test,
                                                 const ValidationOptions& options = {});

}  // namespace plumb
