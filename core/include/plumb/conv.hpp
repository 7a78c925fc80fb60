// Convolution: the problem, the options, the plan, and one call that does it all.
//
//   y[n,k,z,p,q] = activation(bias[k] + sum over c,t,r,s of
//                  x[n, g*C/G + c, z*stride.d + t*dilation.d - front,
//                    p*stride.h + r*dilation.h - top, q*stride.w + s*dilation.w - left]
//                  * w[k,c,t,r,s])
//
// with g = k / (K/G): this is cross-correlation, as neural networks use it. Images have one to
// three axes, W, H W or D H W; those that an image lacks have extent 1. A tap outside the image
// reads what the axis' boundary shows there; along an axis of zeros it is left out, and contributes
// nothing even where the filter is Inf or NaN. Where the geometry pools, y[n,k,p,q] is the maximum
// of that over the outputs 2p, 2p+1 by 2q, 2q+1. Letters are the same everywhere: N batch, C input
// channels, D H W input, K output channels, T R S filter, Z P Q output (before pooling), G groups.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/algorithm.hpp"
#include "plumb/device.hpp"
#include "plumb/export.h"
#include "plumb/tensor.hpp"
#include "plumb/types.hpp"

namespace plumb {

/// One of the three convolutions of a layer, which share one problem: `forward` reads x and w and
/// writes y. The other two are gradients of a sum of y dy, where dy has y's shape.
enum class Direction : std::uint8_t {
  forward,           ///< y from x and w
  backward_data,     ///< dx from dy and w: also the transposed convolution
  backward_weights,  ///< dw, and the bias's gradient, from x and dy
};
PLUMB_API std::string_view to_string(Direction);                       ///< "backward_data"
PLUMB_API std::optional<Direction> parse_direction(std::string_view);  ///< of such a name

/// How the filter moves over the image, and what becomes of its outputs.
struct ConvGeometry {
  Triple stride = {};        ///< step of the filter, at least 1
  Triple dilation = {};      ///< distance between filter taps, at least 1
  Padding padding = {};      ///< how far the image goes on beyond its edges, at least 0
  std::int64_t groups = 1;   ///< G: each sees C/G input channels and makes K/G output channels
  Pool pool = Pool::none;    ///< of the activated outputs
  Boundaries boundary = {};  ///< what lies in the padding
  friend bool operator==(const ConvGeometry&, const ConvGeometry&) = default;  ///< in every field
};

/// A convolution without its data: what plans are made and cached for. A 2-D problem has D = T = 1,
/// and its tensors rank 4; a 1-D problem has H = R = 1 too. Where D or T is more than 1 the problem
/// has a depth, and its tensors have rank 5.
struct PLUMB_API ConvProblem : ConvGeometry {
  Direction direction = Direction::forward;  ///< which of the three
  DType dtype = DType::f32;                  ///< of x, w, bias and y
  std::int64_t n = 1;                        ///< batch, may be 0
  std::int64_t c = 1;                        ///< input channels
  std::int64_t d = 1;                        ///< input depth
  std::int64_t h = 1;                        ///< input height
  std::int64_t w = 1;                        ///< input width
  std::int64_t k = 1;                        ///< output channels
  std::int64_t t = 1;                        ///< filter depth
  std::int64_t r = 1;                        ///< filter height
  std::int64_t s = 1;                        ///< filter width
  Strides x_strides = {};                    ///< of the x_extents(), in elements; empty: dense
  Strides w_strides = {};                    ///< of the w_extents(), in elements; empty: dense
  Strides y_strides = {};                    ///< of the y_extents(), in elements; empty: dense

  std::int64_t z() const;  ///< depth of the convolution's output
  std::int64_t p() const;  ///< height of the convolution's output, whether it is pooled or not
  std::int64_t q() const;  ///< width of the convolution's output, whether it is pooled or not
  /// Says whether the problem has a depth, and its tensors rank 5.
  bool has_depth() const { return d != 1 || t != 1; }
  /// Returns the most terms that are summed for one element of what is written: (C/G) T R S for y;
  /// K/G times the taps that may reach a pixel for dx, where no boundary shows it again; N Z P Q
  /// for dw.
  std::int64_t terms() const;
  /// Returns the multiplications and additions, two for each term of each output of the
  /// convolution, including outputs that the pooling drops. All directions have the same.
  double flop() const;
  /// Returns the least bytes that must move: every element of x, w and y once.
  double bytes() const;
  Extents x_extents() const;  ///< {N, C, H, W}, with a depth {N, C, D, H, W}
  Extents w_extents() const;  ///< {K, C/G, R, S}, with a depth {K, C/G, T, R, S}
  /// Returns the extents of what is stored: {N, K, P, Q}, with a depth {N, K, Z, P, Q}, pooled {N,
  /// K, P/2, Q/2}.
  Extents y_extents() const;
  /// Returns the convolution alone, with no pooling and a dense y, of a problem that check() takes.
  ConvProblem unpooled() const;
  friend bool operator==(const ConvProblem&, const ConvProblem&) = default;  ///< in every field
};

/// One tensor of a problem, by the part that it takes in the problem's direction.
struct ConvOperand {
  std::string_view name;  ///< "x", "w", "y", "dx", "dw" or "dy"
  Extents extents;        ///< of the problem's tensor
  Strides strides;        ///< its strides
};
PLUMB_API ConvOperand image_of(const ConvProblem&);    ///< read: x, or dy in backward data
PLUMB_API ConvOperand filters_of(const ConvProblem&);  ///< read: w, or dy in backward weights
PLUMB_API ConvOperand output_of(const ConvProblem&);   ///< written: y, dx or dw
/// Returns the elements of a bias: K, or C in backward data, where it is added to dx.
PLUMB_API std::int64_t bias_elements(const ConvProblem& problem);

/// Returns the problem with its empty strides filled in, those of a rank that the problem does not
/// have converted to it (extents of 1 come and go), and what has no effect set to its default:
/// stride, dilation and padding along a depth that it does not have, a boundary that no window
/// sees. Throws Error (invalid_argument) that names the first value that makes no sense and what
/// was expected: sizes below 1 (N may be 0), groups that do not divide C and K, a filter larger
/// than the padded image, a reflecting boundary along an extent of 1, pooling of problems with a
/// depth or of gradients, fewer outputs than the pooling takes, sizes past 2^48, offsets past 2^58,
/// an output that overlaps itself.
PLUMB_API ConvProblem check(ConvProblem problem);

/// The caller's demands on the algorithm, and what is fused into it.
struct ConvOptions {
  Math math = Math::fp32;  ///< the least accurate that may be chosen
  /// If it is not empty, Plumb runs this algorithm or none; if it is, Plumb (or
  /// PLUMB_CONV_ALGORITHM) chooses.
  std::string algorithm = {};
  /// A bias is added to each channel of y, or of dx in backward data; execute() then needs one. In
  /// backward weights its gradient db, the sum of dy over all but the channels, is computed beside
  /// dw.
  bool bias = false;
  Activation activation = Activation::none;  ///< after the bias; none in backward weights
  /// Algorithms that need more workspace are not chosen.
  std::size_t workspace_limit_bytes = std::numeric_limits<std::size_t>::max();
  /// With it, only algorithms that give the same bits every time are chosen.
  bool deterministic = false;
  /// The convolution is added to what y holds: y = activation(convolution + bias + y), and
  /// gradients likewise to dx, or to dw and db. Not with pooling.
  bool accumulate = false;
  /// In gradients: dy counts only where the output of the ReLU that followed is above 0, which a
  /// NaN is not (relu_backward()); execute() then needs that output.
  bool relu_mask = false;
  /// The result has the bits that docs/numerics.md specifies, whatever the device, instruction set,
  /// number of threads, batch, layout, or place in the image: each output is one chain of fused
  /// multiply-adds in the order c, t, r, s, in fp32 (fp64 for f64, and where `math` is fp64), and
  /// each gradient a sum in an order of its own. Only algorithms that keep to it are chosen.
  bool reproducible = false;
  friend bool operator==(const ConvOptions&, const ConvOptions&) = default;  ///< in every field
};

/// The answer of one algorithm to a problem. Estimate, measured time and workspace are there for
/// each algorithm that could run it, even where the options rule it out.
struct ConvCandidate {
  std::string_view algorithm;              ///< its name
  Support support;                         ///< with the options taken into account
  double estimate_seconds = 0;             ///< 0 where the algorithm itself cannot run the problem
  std::optional<double> measured_seconds;  ///< from tuning
  std::size_t workspace_bytes = 0;         ///< 0 where the algorithm itself cannot run it
  Math error_class = Math::fp32;           ///< the strictest promise it keeps (math_class())
  bool deterministic = true;               ///< the same bits every time
  /// Whether it gives the bits that are specified, where it is asked to
  /// (ConvOptions::reproducible).
  bool reproducible = false;
  /// Whether an image gives the same bits in every batch (Numerics::invariant), with what is done
  /// around the algorithm; false of backward weights.
  bool invariant = false;
  /// Whether, where the problem pools, the kernel does it. Otherwise the convolution goes into
  /// workspace and the backend's pooling follows; estimate and workspace count that.
  bool pool_fused = false;
  /// Whether x goes through workspace first, because the algorithm does not know the boundaries or
  /// the depth: with its padding, or as an image of C T channels for each plane of the output.
  bool copies_input = false;
  /// Whether, where the options accumulate, the kernel does it. Otherwise the convolution goes into
  /// workspace and is added from there.
  bool accumulate_fused = false;
  /// Of a gradient that the algorithm does not compute by itself: the number of forward
  /// convolutions that it is made of. 0 otherwise.
  std::int64_t forward_convolutions = 0;
  bool chosen = false;             ///< whether a plan takes this one
  std::string_view provider = {};  ///< whose kernel it is: "onednn"; empty for Plumb's own
};

/// Asks one algorithm about a problem that has passed check(), whatever the other options.
PLUMB_API ConvCandidate ask(const ConvAlgorithm& algorithm, const ConvProblem& problem,
                            const DeviceInfo& device, bool accumulate = false,
                            bool relu_mask = false, bool reproducible = false);

/// The tensors of one convolution: x [N,C,H,W], w [K,C/G,R,S], bias [K] dense or empty,
/// y [N,K,P,Q] or, pooled, [N,K,P/2,Q/2]; in one dimension [N,C,W], [K,C/G,S] and [N,K,Q]; in three
/// [N,C,D,H,W], [K,C/G,T,R,S] and [N,K,Z,P,Q]. They have any strides, one dtype, and are on the
/// queue's device. y shares no element with the others: an Error (invalid_argument) says which one
/// it overlaps. Views that interleave in one buffer (its even and its odd columns) do not overlap.
/// In a plan of a gradient x, w and y are what image_of(), filters_of() and output_of() name.
struct ConvTensors {
  ConstTensorView x = {};     ///< the input
  ConstTensorView w = {};     ///< the filters; none where they have been packed
  ConstTensorView bias = {};  ///< added to each output channel, where it is not empty
  TensorView y = {};          ///< the output
  ConstTensorView mask = {};  ///< a ReLU's output, of y's extents (ConvOptions::relu_mask)
  TensorView db = {};         ///< the bias's gradient [K], dense, beside dw
};

/// The tensors of backward data, of the extents that they have forward: dx[n,c,h,w] is the sum of
/// dy[n,k,p,q] w[k,c,r,s] over all k, p, q, r, s at which y[n,k,p,q] has the term x[n,c,h,w]
/// w[k,c,r,s].
struct BackwardDataTensors {
  ConstTensorView dy = {};    ///< the gradient by y
  ConstTensorView w = {};     ///< the filters; none where they have been packed
  TensorView dx = {};         ///< the gradient by x
  ConstTensorView mask = {};  ///< the ReLU's output where one followed: dy counts where it is > 0
  ConstTensorView bias = {};  ///< [C], added to each channel of dx, where it is not empty
  /// The same by their parts, as a plan takes them.
  operator ConvTensors() const {  // NOLINT: implicit on purpose
    return {.x = dy, .w = w, .bias = bias, .y = dx, .mask = mask};
  }
};
/// The tensors of backward weights, likewise: dw[k,c,r,s] is the sum of dy[n,k,p,q] x[n,c,h,w],
/// over all n, p, q, and db[k] that of dy[n,k,p,q].
struct BackwardWeightsTensors {
  ConstTensorView x = {};     ///< the input
  ConstTensorView dy = {};    ///< the gradient by y
  TensorView dw = {};         ///< the gradient by w
  TensorView db = {};         ///< the gradient by the bias, [K] dense; empty: none
  ConstTensorView mask = {};  ///< the ReLU's output where one followed: dy counts where it is > 0
  /// The same by their parts, as a plan takes them.
  operator ConvTensors() const {  // NOLINT: implicit on purpose
    return {.x = x, .w = dy, .y = dw, .mask = mask, .db = db};
  }
};
/// The tensors of a transposed convolution, which is backward data by another name: its input x
/// [N,K,P,Q] has the part of dy, its output y [N,C,H,W] that of dx, and w is [K,C/G,R,S].
struct TransposedTensors {
  ConstTensorView x = {};     ///< the input
  ConstTensorView w = {};     ///< the filters
  ConstTensorView bias = {};  ///< [C], where it is not empty
  TensorView y = {};          ///< the output
  /// The same by their parts, as a plan takes them.
  operator ConvTensors() const {  // NOLINT: implicit on purpose
    return {.x = x, .w = w, .bias = bias, .y = y};
  }
};

struct PlannedConv;
struct FilterStorage;

/// Filters as the algorithm of a plan wants them, made once by ConvPlan::pack() for any number of
/// convolutions: they are in the algorithm's own layout, or, where it has none, in a copy that lies
/// as w did. Either way w may be changed or freed after the packing. The object is immutable and
/// cheap to copy; the memory is the device's and goes with the last copy, when work that uses it
/// must be done, as with a tensor. A default-made object holds nothing.
class PLUMB_API PackedFilters {
 public:
  PackedFilters() = default;
  bool empty() const { return !storage_; }  ///< whether it holds nothing
  std::size_t bytes() const;                ///< bytes of device memory that it holds

 private:
  friend class ConvPlan;
  explicit PackedFilters(std::shared_ptr<const FilterStorage> storage)
      : storage_(std::move(storage)) {}
  std::shared_ptr<const FilterStorage> storage_;
};

/// A convolution that has been checked and whose algorithm has been chosen. A plan is immutable,
/// cheap to copy, and may run from several threads on several queues at once.
class PLUMB_API ConvPlan {
 public:
  /// Throws Error: invalid_argument as check() does, and unsupported where no algorithm (or not the
  /// one forced) can run, with each one's reason.
  ConvPlan(const Device& device, const ConvProblem& problem, const ConvOptions& options = {});

  const Device& device() const { return device_; }  ///< the device it was made for
  const ConvProblem& problem() const;               ///< checked, with its strides
  const ConvOptions& options() const;               ///< as given
  const ConvAlgorithm& algorithm() const;           ///< the algorithm that was chosen
  std::size_t workspace_bytes() const;              ///< workspace that execute() takes with w
  /// Says whether the algorithm has a layout of its own for filters, so that execute() with w packs
  /// them on every call.
  bool packs_filters() const;
  std::size_t packed_workspace_bytes()
      const;  ///< that execute() takes with packed filters: no more
  std::vector<ConvCandidate> explain() const;  ///< as explain(), for this plan

  /// Puts the convolution on the queue; it is done when the queue has passed it. Workspace comes
  /// from the queue, or from `workspace`, 256-byte aligned device memory of `workspace_bytes()`.
  /// Throws Error (invalid_argument) where a tensor is not what the problem says or not on the
  /// device, or where y or the workspace overlaps another tensor.
  void execute(Queue& queue, const ConvTensors& tensors, void* workspace = nullptr) const;

  /// Puts the packing of w on the queue. The filters may be used on this queue at once, and on
  /// others once it has passed them (Queue::record(), Queue::wait()). Backward weights has no
  /// filters to pack, and throws Error (unsupported). Packing takes memory from the
  /// device, and so cannot be captured in a graph: it then throws Error (unsupported). It also
  /// throws out_of_memory, and invalid_argument where w is not what the problem says or not on the
  /// device.
  PackedFilters pack(Queue& queue, const ConstTensorView& w) const;
  /// Says whether execute() takes these filters: they were packed by a plan of the same algorithm,
  /// kind of device and problem, in which N alone may differ. Bias, activation and the other
  /// options have no effect on that.
  bool takes(const PackedFilters& filters) const;
  /// Runs the same convolution, bit for bit, with filters that have been packed and no `tensors.w`.
  /// `workspace`, where it is given, is of `packed_workspace_bytes()`. Throws Error
  /// (invalid_argument) where the plan does not take the filters, with what differs, and wherever
  /// execute() with w does.
  void execute(Queue& queue, const PackedFilters& filters, const ConvTensors& tensors,
               void* workspace = nullptr) const;

 private:
  friend void run_conv(Queue&, const ConvProblem&, const ConvTensors&, ConvOptions);
  ConvPlan(const Device& device, std::shared_ptr<const PlannedConv> planned);
  void check_queue(const Queue& queue) const;
  void check_tensors(const ConvTensors& tensors) const;
  void check_option(const ConstTensorView& tensor, std::string_view name, bool expected,
                    const Extents& extents, const Strides& strides, std::string_view option) const;
  void check_filters(const ConstTensorView& w) const;
  void launch(Queue& queue, const ConvTensors& tensors, const void* w, const void* filters,
              std::size_t workspace_bytes, void* workspace) const;
  Device device_;
  std::shared_ptr<const PlannedConv> planned_;
};

/// Lists every algorithm of the device, in its order, with its answer; `chosen` marks the one that
/// a plan would take, if any. On a device that `auto` chose, the list goes on with what it passed
/// over: an entry with the backend's name in the place of an algorithm's, and the reason. Throws
/// Error as check() does.
PLUMB_API std::vector<ConvCandidate> explain(const Device& device, const ConvProblem& problem,
                                             const ConvOptions& options = {});

/// Lists all algorithms of the device, in its backend's order: Plumb's own, then those of the
/// libraries that it was opened with (DeviceOptions::providers).
PLUMB_API std::span<const ConvAlgorithm* const> conv_algorithms(const Device& device);

/// Returns the problem that these tensors and this geometry make; of the geometry counts what is
/// along the axes that the tensors have. Without a y it is the one with a dense y, whose extents
/// are the problem's y_extents(). Throws Error (invalid_argument) where ranks, extents or dtypes do
/// not fit each other; where the channels of w would fit another number of groups, the message says
/// which.
PLUMB_API ConvProblem problem_of(const ConvTensors& tensors, const ConvGeometry& geometry = {});

/// Runs one convolution: plans it (or takes the plan from the device's cache) and puts it on the
/// queue. `options.bias` follows from whether `tensors.bias` is there. Throws Error as problem_of()
/// and ConvPlan do.
PLUMB_API void conv(Queue& queue, const ConvTensors& tensors, const ConvGeometry& geometry = {},
                    ConvOptions options = {});

/// Returns the problem that these tensors and this geometry make, as problem_of() does of a forward
/// convolution; none of dy, w and dx may be empty.
PLUMB_API ConvProblem backward_data_problem(const BackwardDataTensors& tensors,
                                            const ConvGeometry& geometry = {});
/// Returns the problem of backward weights, likewise.
PLUMB_API ConvProblem backward_weights_problem(const BackwardWeightsTensors& tensors,
                                               const ConvGeometry& geometry = {});
/// Returns the problem of a transposed convolution, likewise. Its stride and padding are those of
/// the convolution whose gradient it is: they make y larger and smaller. How far y goes beyond the
/// least extents (PyTorch's output_padding) those of y say.
PLUMB_API ConvProblem transposed_problem(const TransposedTensors& tensors,
                                         const ConvGeometry& geometry = {});
/// Returns y's extents of a transposed convolution: (P - 1) stride - before - after + dilation (R -
/// 1) + 1 + output_padding along each axis. Throws Error (invalid_argument) where ranks or channels
/// do not fit, and where `output_padding` is not below the stride, or an extent would be below 1.
PLUMB_API Extents transposed_extents(const Extents& x, const Extents& w,
                                     const ConvGeometry& geometry = {},
                                     const Triple& output_padding = {0, 0, 0});

/// Runs backward data, as conv() runs a forward convolution. `options.bias` and
/// `options.relu_mask` follow from the tensors.
PLUMB_API void conv_backward_data(Queue& queue, const BackwardDataTensors& tensors,
                                  const ConvGeometry& geometry = {}, ConvOptions options = {});
/// Runs backward weights, likewise.
PLUMB_API void conv_backward_weights(Queue& queue, const BackwardWeightsTensors& tensors,
                                     const ConvGeometry& geometry = {}, ConvOptions options = {});
/// Runs a transposed convolution, likewise.
PLUMB_API void conv_transpose(Queue& queue, const TransposedTensors& tensors,
                              const ConvGeometry& geometry = {}, ConvOptions options = {});

}  // namespace plumb
