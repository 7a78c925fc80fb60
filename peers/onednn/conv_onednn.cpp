// oneDNN's convolutions as algorithms, to be judged, timed and, where they are the faster ones,
// run like ours. Both are its direct algorithm, which forms plain sums (Winograd is not asked for),
// in fp32 without rounding operands, with bias and ReLU fused.
//
// NaN and Inf do not come out as the definition has them: taps in the padding are products with
// zeros, and the fused ReLU makes 0 of a NaN.
//
// onednn.conv.best lets oneDNN choose the layouts of x, w and y. What is not in them is reordered
// inside the launch, on every launch: x before, y after. A program that stays in oneDNN's layouts
// from layer to layer would not pay for that. The filters in its layout are this entry's packed
// filters, which a plan makes on every launch or once, as with our own.
// onednn.conv.nchw works in plain NCHW and reorders nothing.
//
// Gradients are oneDNN's own backward convolutions, without a bias and a ReLU of theirs: where
// there are such, they are applied to dx behind them.
//
// Primitives are made once for a problem and a number of threads, outside the launch but for the
// first that is allowed fewer threads than the plan was. Memory comes from the workspace.
#include "peers/onednn/conv_onednn.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/src/parallel/parallel.hpp"
#include "peers/onednn/fused_conv.hpp"
#include "peers/placement.hpp"
#include "peers/problem_cache.hpp"
#include "plumb/error.hpp"
#include "plumb/support.hpp"

namespace plumb {
namespace onednn {
namespace {

/// A problem's four primitives, of gradients one, or why there are none.
struct Prepared {
  Support support;
  Desc given, packed;                    ///< filters
  Operation packing;                     ///< of the one into the other, where they differ
  std::optional<FusedConv> fused[2][2];  ///< [with a bias][with ReLU]
  std::size_t workspace_bytes = 0;

  bool packs() const { return support && packing; }
};

Prepared make(const ConvProblem& problem, const DeviceInfo& device, Layouts layouts) {
  Prepared prepared;
  try {
    prepared.given = given_filters(problem);
    prepared.packed = packed_filters(problem, layouts);
    if (!(prepared.packed == prepared.given))
      prepared.packing = Operation::reorder(prepared.given, prepared.packed);
    for (const bool bias : {false, true})
      for (const bool relu : {false, true}) {
        if (problem.direction != Direction::forward && (bias || relu)) continue;
        auto& fused = prepared.fused[bias][relu];
        fused.emplace(problem, layouts, bias, relu, prepared.packed);
        prepared.workspace_bytes = std::max(prepared.workspace_bytes, fused->workspace_bytes());
      }
  } catch (const Error& e) {
    if (e.code() == ErrorCode::out_of_memory) throw;
    prepared.support = {
        Reason::layout,
        fmt::format("oneDNN has nothing for these sizes and strides: {}", e.what())};
    return prepared;
  }
  if (prepared.workspace_bytes > device.memory_bytes)
    prepared.support = {Reason::too_large,
                        fmt::format("oneDNN asks for {} bytes of scratch memory; the device has {}",
                                    prepared.workspace_bytes, device.memory_bytes)};
  return prepared;
}

/// oneDNN splits work, and sizes its scratch memory, for as many threads as OpenMP offers when a
/// primitive is made, and runs on that many.
template <Layouts layouts>
std::shared_ptr<const Prepared> prepared(const ConvProblem& problem, const DeviceInfo& device,
                                         int threads) {
  static auto& cache = *new ProblemCache<Prepared>;  // its primitives are oneDNN's to destroy
  const RequestedThreads requested(threads);
  return cache.get(threads, problem, [&] { return make(problem, device, layouts); });
}
template <Layouts layouts>
std::shared_ptr<const Prepared> prepared(const ConvProblem& problem, const DeviceInfo& device) {
  return prepared<layouts>(problem, device, device.units);
}

/// For as many threads as the caller allows now, where that needs no more memory than was planned.
template <Layouts layouts>
std::shared_ptr<const Prepared> prepared_now(const ConvProblem& problem, const DeviceInfo& device,
                                             int threads) {
  const auto planned = prepared<layouts>(problem, device);
  if (threads == device.units) return planned;
  const auto now = prepared<layouts>(problem, device, threads);
  const bool fits = now->support && now->workspace_bytes <= planned->workspace_bytes &&
                    now->packed == planned->packed;
  return fits ? now : planned;
}

/// Threads of the device that the caller allows, and that can be had.
int threads_now(const DeviceInfo& device) {
  return obtainable_threads(std::min(device.units, available_threads()));
}

template <Layouts layouts, DType dtype>
Support supports(const ConvProblem& problem, const DeviceInfo& device) {
  ConvProblem forward = problem;
  if (dtype == DType::f32) forward.direction = Direction::forward;
  if (Support stored = supports_dtypes({dtype}, forward); !stored) return stored;
  const auto plain = [](const Extents& extents, const Strides& strides) {
    return lies_in(Layout::nchw, extents, strides);
  };
  if (layouts == Layouts::given && !(plain(problem.x_extents(), problem.x_strides) &&
                                     plain(problem.w_extents(), problem.w_strides) &&
                                     plain(problem.y_extents(), problem.y_strides)))
    return {Reason::layout, "a tensor is not dense NCHW"};
  // What is refused here is run plane by plane, with filters of another layout: whether it is must
  // not depend on N, as whether views overlap does.
  const auto dense = [](const Extents& extents, const Strides& strides) {
    return lies_in(Layout::nchw, extents, strides) || lies_in(Layout::nhwc, extents, strides);
  };
  if (problem.has_depth() && !(dense(problem.x_extents(), problem.x_strides) &&
                               dense(problem.y_extents(), problem.y_strides)))
    return {Reason::layout, "x or y is neither dense NCHW nor dense NHWC, and has a depth"};
  const LibraryReport& found = library().report;
  if (found.reason != Reason::none) return {found.reason, found.sentence};
  if (problem.n == 0) return {};
  return prepared<layouts>(problem, device)->support;
}

template <Layouts layouts>
std::size_t workspace_bytes(const ConvProblem& problem, const DeviceInfo& device) {
  return problem.n == 0 ? 0 : prepared<layouts>(problem, device)->workspace_bytes;
}

/// What is prepared for one image: what filters look like once packed depends on nothing more.
template <Layouts layouts>
std::shared_ptr<const Prepared> prepared_for_one(ConvProblem problem, const DeviceInfo& device) {
  problem.n = 1;
  return prepared<layouts>(problem, device);
}

template <Layouts layouts>
std::size_t filter_bytes(const ConvProblem& problem, const DeviceInfo& device) {
  if (problem.direction == Direction::backward_weights) return 0;
  const auto one = prepared_for_one<layouts>(problem, device);
  return one->packs() ? one->packed.bytes() : 0;
}

template <Layouts layouts>
void pack_filters(const FilterPacking& packing) {
  ConvProblem image = packing.problem;
  image.n = 1;
  const int threads = threads_now(packing.device);
  const auto one = prepared_now<layouts>(image, packing.device, threads);
  const RequestedThreads requested(threads);
  const WorkStream stream;
  reorder(one->packing, stream.get(), Piece(one->given, packing.w),
          Piece(one->packed, packing.filters),
          std::vector<std::byte>(one->packing.desc(scratchpad_query).bytes()).data());
  stream.wait();
}

/// Half of the nominal rate, and the tensors moved once. Nothing is chosen by it.
double estimate_seconds(const ConvProblem& problem, const DeviceInfo& device) {
  return problem.flop() / (0.5 * device.nominal_fp32_flop_per_second) +
         problem.bytes() / device.nominal_bytes_per_second;
}

template <Layouts layouts>
void launch(const ConvLaunch& launch) {
  const bool gradient = launch.problem.direction != Direction::forward;
  if (launch.problem.n == 0) return gradient ? clear_output(launch) : void();
  const int threads = threads_now(launch.device);
  const auto ready = prepared_now<layouts>(launch.problem, launch.device, threads);
  const RequestedThreads requested(threads);
  if (!gradient)
    return ready->fused[launch.bias != nullptr][launch.activation == Activation::relu]->run(launch);
  ready->fused[false][false]->run(launch);
  finish_gradient(launch);
}

template <Layouts layouts, DType dtype>
constexpr ConvAlgorithm algorithm(std::string_view name) {
  constexpr bool f32 = dtype == DType::f32;
  return {
      .name = name,
      .numerics = {.operand = f32 ? Operand::fp32 : Operand::bf16,
                   .accumulator = f32 ? Accumulator::fp32_fma : Accumulator::fp32_flushed,
                   .keeps_non_finite = false},
      .takes_depth = true,
      .provider = &provider,
      .takes_backward_data = f32,
      .takes_backward_weights = f32,
      .forward_alone = true,
      .plan = plan_of_parts<supports<layouts, dtype>, estimate_seconds, workspace_bytes<layouts>,
                            filter_bytes<layouts>>,
      .pack_filters = pack_without_plan<pack_filters<layouts>>,
      .launch = without_plan<launch<layouts>>,
  };
}

}  // namespace
}  // namespace onednn

const ConvAlgorithm onednn_conv_best =
    onednn::algorithm<onednn::Layouts::chosen, DType::f32>("onednn.conv.best");
const ConvAlgorithm onednn_conv_nchw =
    onednn::algorithm<onednn::Layouts::given, DType::f32>("onednn.conv.nchw");
const ConvAlgorithm onednn_conv_best_bf16 =
    onednn::algorithm<onednn::Layouts::chosen, DType::bf16>("onednn.conv.best.bf16");

}  // namespace plumb
