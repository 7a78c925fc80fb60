// oneDNN's convolutions as algorithms, to be judged and timed like ours. Both are its direct
// algorithm, which forms plain sums (Winograd is not asked for), in fp32, with bias and ReLU fused.
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
// Primitives are made once for a problem, outside the launch. Memory comes from the workspace.
#include "peers/onednn/conv_onednn.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <optional>

#include "peers/onednn/fused_conv.hpp"
#include "peers/placement.hpp"
#include "peers/problem_cache.hpp"
#include "plumb/support.hpp"

namespace plumb {
namespace onednn {
namespace {

/// oneDNN splits work, and sizes its scratch memory, for as many threads as OpenMP offers when a
/// primitive is made: a launch must offer as many.
class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

/// A problem's four primitives, or why there are none.
struct Prepared {
  Support support;
  dnnl::memory::desc given, packed;      ///< filters
  std::optional<FusedConv> fused[2][2];  ///< [with a bias][with ReLU]
  std::size_t workspace_bytes = 0;

  bool packs() const { return support && packed != given; }
};

Prepared make(const ConvProblem& problem, Layouts layouts) {
  Prepared prepared;
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    prepared.given = given_filters(problem);
    prepared.packed = packed_filters(engine, problem, layouts);
    for (const bool bias : {false, true})
      for (const bool relu : {false, true}) {
        auto& fused = prepared.fused[bias][relu];
        fused.emplace(engine, problem, layouts, bias, relu, prepared.packed);
        prepared.workspace_bytes = std::max(prepared.workspace_bytes, fused->workspace_bytes());
      }
  } catch (const dnnl::error& e) {
    prepared.support = {
        Reason::layout,
        fmt::format("oneDNN has nothing for these sizes and strides: {}", e.what())};
  }
  return prepared;
}

template <Layouts layouts>
std::shared_ptr<const Prepared> prepared(const ConvProblem& problem, const DeviceInfo& device) {
  static ProblemCache<Prepared> cache;
  const Threads threads(device.units);
  return cache.get(device.units, problem, [&] { return make(problem, layouts); });
}

template <Layouts layouts>
Support supports(const ConvProblem& problem, const DeviceInfo& device) {
  if (Support stored = supports_dtypes({DType::f32}, problem); !stored) return stored;
  const auto plain = [](const Extents& extents, const Strides& strides) {
    return lies_in(Layout::nchw, extents, strides);
  };
  if (layouts == Layouts::given && !(plain(problem.x_extents(), problem.x_strides) &&
                                     plain(problem.w_extents(), problem.w_strides) &&
                                     plain(problem.y_extents(), problem.y_strides)))
    return {Reason::layout, "a tensor is not dense NCHW"};
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
  const auto one = prepared_for_one<layouts>(problem, device);
  return one->packs() ? one->packed.get_size() : 0;
}

template <Layouts layouts>
void pack_filters(const FilterPacking& packing) {
  const auto one = prepared_for_one<layouts>(packing.problem, packing.device);
  const Threads threads(packing.device.units);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  // oneDNN's memory has no const; w is only read.
  dnnl::memory from(one->given, engine, const_cast<void*>(packing.w));
  dnnl::memory to(one->packed, engine, packing.filters);
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
}

/// Half of the nominal rate, and the tensors moved once. Nothing is chosen by it.
double estimate_seconds(const ConvProblem& problem, const DeviceInfo& device) {
  return problem.flop() / (0.5 * device.nominal_fp32_flop_per_second) +
         problem.bytes() / device.nominal_bytes_per_second;
}

template <Layouts layouts>
void launch(const ConvLaunch& launch) {
  if (launch.problem.n == 0) return;
  const auto ready = prepared<layouts>(launch.problem, launch.device);
  const Threads threads(launch.device.units);
  ready->fused[launch.bias != nullptr][launch.activation == Activation::relu]->run(launch);
}

template <Layouts layouts>
constexpr ConvAlgorithm algorithm(std::string_view name) {
  return {
      .name = name,
      .numerics = {.operand = Operand::fp32,
                   .accumulator = Accumulator::fp32_fma,
                   .keeps_non_finite = false},
      .forced_only = true,
      .plan = plan_of_parts<supports<layouts>, estimate_seconds, workspace_bytes<layouts>,
                            filter_bytes<layouts>>,
      .pack_filters = pack_without_plan<pack_filters<layouts>>,
      .launch = without_plan<launch<layouts>>,
  };
}

}  // namespace
}  // namespace onednn

const ConvAlgorithm onednn_conv_best =
    onednn::algorithm<onednn::Layouts::chosen>("onednn.conv.best");
const ConvAlgorithm onednn_conv_nchw =
    onednn::algorithm<onednn::Layouts::given>("onednn.conv.nchw");

}  // namespace plumb
