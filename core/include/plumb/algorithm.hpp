// What a convolution algorithm is: plain data that says what it can do, what it costs, what it
// rounds, and how it is launched.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "plumb/device.hpp"
#include "plumb/export.h"
#include "plumb/types.hpp"

namespace plumb {

struct ConvProblem;

/// Whether an algorithm can run, and if not, why: a code for programs and a sentence that names
/// the value met and what was expected.
struct Support {
  Reason reason = Reason::none;                                      ///< none: it can run
  std::string sentence = {};                                         ///< for people
  explicit operator bool() const { return reason == Reason::none; }  ///< whether it can run
};

/// The type that products are formed in: operands are rounded to it where they are stored wider.
enum class Operand : std::uint8_t {
  fp64,
  fp32,
  tf32_rounded,    ///< converted with round-to-nearest
  tf32_truncated,  ///< the hardware drops the low bits
  fp16,
  fp16_scaled,  ///< by powers of two, so that no bits are lost; what they do not fit is not rounded
  bf16,
};

/// How the products of one output are summed.
enum class Accumulator : std::uint8_t {
  fp64_fma,
  fp32_fma,  ///< fp32, any order, round-to-nearest
  /// fp32, any order, round-to-nearest; operands and sums below the smallest normal number are 0.
  fp32_flushed,
  fp16_fma,          ///< fp16, any order, round-to-nearest
  tensor_core_fp32,  ///< fp32 on tensor cores: terms aligned and truncated, result toward zero
};

/// What an algorithm does to numbers. The error bound is computed from this alone
/// (validate.hpp), and attestation checks it from outside.
struct Numerics {
  Operand operand = Operand::fp32;                  ///< of the products
  Accumulator accumulator = Accumulator::fp32_fma;  ///< of their sum
  /// Products formed for each term: 1, or 3 where both operands are split in a high and a low
  /// part and the product of the low parts is left out (Ootomo & Yokota 2022).
  int products = 1;
  /// The reduction runs over a multiple of this many terms, padded with zeros.
  int term_multiple = 1;
  /// The same input gives the same bits, whatever else runs.
  bool deterministic = true;
  /// In a launch that asks for it (ConvLaunch::reproducible) each sum has the order and the
  /// roundings that docs/numerics.md specifies, and so the same bits on every device that runs it.
  bool reproducible = false;
  /// An image of a batch gives the same bits whatever N is, and wherever in the batch it stands.
  /// Not of backward weights, which is a sum over the batch.
  bool invariant = false;
  /// The fields above are a promise, and the bound follows from them. False for another library's
  /// kernels, which may transform (FFT, Winograd): then they name the class asked for and no more,
  /// and validation reports what it sees without holding it against the kernel.
  bool bounded = true;
  /// NaN and Inf come out where the definition has them. Other libraries' kernels may multiply the
  /// padding by zeros, or lose a NaN in the ReLU, and are then judged on finite data alone.
  bool keeps_non_finite = true;
  /// The most additions on the way of a product to its sum, where sums of this problem are trees
  /// and no chains; from the problem alone. Null: a chain of all terms.
  double (*chain)(const ConvProblem&) = nullptr;
};

/// The strictest Math whose promise `numerics` keeps for tensors stored as `dtype`: operands that
/// are stored in the operand type are not rounded, so fp16 products of f16 tensors with fp32
/// accumulation keep the promise of fp32.
PLUMB_API Math math_class(const Numerics& numerics, DType dtype);

/// Whether an algorithm of class `offered` may serve a caller who allows `allowed`.
PLUMB_API bool allows(Math allowed, Math offered);

/// Another library as it was found on this machine, or why it cannot be had.
struct LibraryReport {
  std::string version = {};      ///< "oneDNN 3.2.0"; empty where it could not be asked
  std::string path = {};         ///< its file; empty where there is none
  Reason reason = Reason::none;  ///< none: it can be used
  std::string sentence = {};     ///< the reason, for people
};

/// Another library whose convolutions stand in a device's list where the device was opened with its
/// name (DeviceOptions::providers).
struct Provider {
  std::string_view name;                 ///< "onednn"
  LibraryReport (*library)() = nullptr;  ///< opens it when it is first asked
};

/// What an algorithm has decided for one problem on one device: its tiles, its layouts, what its
/// kernel is told. Each algorithm derives its own. Immutable, and shared by threads and queues.
struct KernelPlan {
  KernelPlan() = default;
  /// An algorithm may plan in steps, each of which changes a copy.
  KernelPlan(const KernelPlan&) = default;
  KernelPlan& operator=(const KernelPlan&) = default;  ///< for the same reason
  virtual ~KernelPlan() = default;
};

/// What an algorithm says to a problem.
struct PlanResult {
  Support support = {};  ///< where it refuses, nothing else is set
  /// A model of the kernel's time, for choosing among untuned algorithms.
  double estimate_seconds = 0;
  /// Scratch memory that a launch takes, beside the packed filters.
  std::size_t workspace_bytes = 0;
  /// Of the filters in the algorithm's own layout, in which launch() gets them, packed in the same
  /// call or once for many. 0: launch() gets w as it lies. Neither this nor the layout depends on
  /// the problem's N: filters serve any batch.
  std::size_t filter_bytes = 0;
  /// For pack_filters() and launch(); null where the algorithm keeps nothing.
  std::shared_ptr<const KernelPlan> kernel = {};
};

/// One packing of filters into an algorithm's own layout. Pointers are on the device; w's addresses
/// the element of index zero.
struct FilterPacking {
  const ConvProblem& problem;  ///< with its strides; N has no say, and may be 0
  const DeviceInfo& device;    ///< current in the calling thread
  const void* w;               ///< K C/G (T) R S
  void* filters;               ///< filter_bytes(), 256-byte aligned
  void* native_queue;          ///< the stream (CUDA), or null
};

/// One launch. Pointers are on the device and address the element of index zero; extents and
/// strides are the problem's. The tensors are those of a forward convolution, or take their parts
/// in a gradient (image_of(), filters_of(), output_of()).
struct ConvLaunch {
  const ConvProblem& problem;     ///< with its strides
  const DeviceInfo& device;       ///< current in the calling thread
  const void* x;                  ///< N C (D) H W; dy in backward data
  const void* w;                  ///< K C/G (T) R S; nothing to be read where there are filters;
                                  ///< dy in backward weights
  const void* filters = nullptr;  ///< in the algorithm's own layout, where it has one; or null
  const void* bias;               ///< K dense elements of the problem's dtype, or null; C of them
                                  ///< in backward data, none in backward weights
  void* y;                        ///< N K (Z) P Q; dx or dw
  Activation activation;          ///< after the bias
  bool accumulate = false;        ///< y's old values are added before the activation
  /// The bits are to be those that docs/numerics.md specifies. Only algorithms whose numerics say
  /// that they can are asked for it.
  bool reproducible = false;
  void* workspace;     ///< at least workspace_bytes(), 256-byte aligned; null where that is 0
  void* native_queue;  ///< the stream (CUDA), or null
  /// In gradients, of y's extents: dy counts only where it is above 0. Null otherwise, and always
  /// in a launch that an algorithm gets.
  const void* mask = nullptr;
  Strides mask_strides = {};  ///< of the mask
  void* db = nullptr;         ///< the bias's gradient, K dense elements, likewise
};

/// One convolution algorithm: one instantiation of one technique, so that each tile size can be
/// named, forced, timed and tested. All of them fuse bias and activation.
struct ConvAlgorithm {
  /// "cuda.conv.implicit_gemm.fp32.16x16": backend, operation, technique, arithmetic, variant.
  std::string_view name;
  Numerics numerics;  ///< what it rounds
  /// Runs only when forced by name: for techniques that are here to be measured.
  bool forced_only = false;
  /// May be recorded in a CUDA graph. An algorithm that may not throws Error (unsupported) then.
  bool capturable = true;
  /// Is asked about problems that pool (ConvProblem::pool), and writes the pooled y itself where it
  /// supports one. Where it does not, and always without this, it is asked about the convolution
  /// alone, and the library pools after it.
  bool fuses_pool = false;
  /// Is asked about problems with a depth. Where it does not support one, and always without this,
  /// it is asked about the problem without a depth whose images are the planes of the output, and
  /// whose channels are those of all planes under the filter.
  bool takes_depth = false;
  /// Is asked about problems with boundaries other than zeros. Where it does not support one, and
  /// always without this, it gets a copy of x with its padding.
  bool takes_boundaries = false;
  /// Adds to what y holds (ConvLaunch::accumulate). Without it the library adds the convolution
  /// from workspace.
  bool accumulates = false;
  /// Whose kernel it is; null for Plumb's own. Another library's is chosen by a measured time
  /// alone.
  const Provider* provider = nullptr;
  /// Is asked about backward data without boundaries. Where it does not support a problem, and
  /// always without this, it is asked about forward convolutions that make the same (one for each
  /// phase of the strides).
  bool takes_backward_data = false;
  /// Is asked about backward weights without boundaries. Where it does not support a problem, and
  /// always without this, it is asked about a forward convolution of x with dy as its filters.
  bool takes_backward_weights = false;
  /// Refuses gradients that it does not compute by itself (Reason::direction): what another
  /// library's forward convolutions take for one is no measure of that library.
  bool forward_alone = false;
  /// Where the numerics say `reproducible`: whether the algorithm is so for this problem, which it
  /// supports, on this device, and if not, why (Reason::not_reproducible). Null: always.
  Support (*reproduces)(const ConvProblem&, const DeviceInfo&) = nullptr;
  /// Decides all that can be decided before a launch. Supports exactly the problems that the kernel
  /// computes right: yes to what it refuses is a bug, and the reverse. The problem has passed
  /// check(). May take its time where `forced_only`, and where there is a `provider`: it is not
  /// asked then unless it is forced, or has a measured time.
  PlanResult (*plan)(const ConvProblem&, const DeviceInfo&) = nullptr;
  /// There where a plan may have `filter_bytes`; gets the plan's `kernel`. Asynchronous, and bound
  /// as launch() is; w may change or go once the queue has passed it.
  void (*pack_filters)(const FilterPacking&, const KernelPlan*) = nullptr;
  /// Launches what was planned; gets the plan's `kernel`. Asynchronous; allocates no device memory,
  /// plans nothing, waits for nothing. Writes neither its inputs nor the packed filters, which
  /// other launches may be reading.
  void (*launch)(const ConvLaunch&, const KernelPlan*) = nullptr;
};

/// The plan() of an algorithm that keeps nothing, from its parts: functions of a problem and a
/// device, each asked only where `supports` says yes.
template <auto supports, auto estimate_seconds, auto workspace_bytes = nullptr,
          auto filter_bytes = nullptr>
PlanResult plan_of_parts(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports(problem, device)};
  if (!result.support) return result;
  result.estimate_seconds = estimate_seconds(problem, device);
  // By type: compared with null, a function is no constant to g++ 12 with -fsanitize=undefined.
  if constexpr (!std::is_null_pointer_v<decltype(workspace_bytes)>)
    result.workspace_bytes = workspace_bytes(problem, device);
  if constexpr (!std::is_null_pointer_v<decltype(filter_bytes)>)
    result.filter_bytes = filter_bytes(problem, device);
  return result;
}

/// The launch() of such an algorithm.
template <auto launch>
void without_plan(const ConvLaunch& call, const KernelPlan*) {
  launch(call);
}
/// The pack_filters() of such an algorithm.
template <auto pack>
void pack_without_plan(const FilterPacking& packing, const KernelPlan*) {
  pack(packing);
}

}  // namespace plumb
