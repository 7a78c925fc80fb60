// Algorithms with a layout of their own for filters, and what they may get wrong with it: each is
// caught.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "support/devices.hpp"

using namespace plumb;

namespace {

enum class Fault {
  none,
  reads_w,           ///< where w is still there, it is read in the place of the packed filters
  counts_images,     ///< the layout depends on N
  grows_with_n,      ///< its size does
  packs_too_much,    ///< one element past its end
  launches_again,    ///< the launch changes the packed filters
  loses_a_filter,    ///< the last filter is not packed
  rounds_to_16_bits  ///< what is packed is not what was given
};

/// As launches have them that pack none.
std::vector<float> dense_filters(const ConvLaunch& call) {
  const ConvProblem& p = call.problem;
  std::vector<float> dense;
  const auto* const w = static_cast<const float*>(call.w);
  for (std::int64_t k = 0; k < p.k; ++k)
    for (std::int64_t c = 0; c < p.c / p.groups; ++c)
      for (std::int64_t r = 0; r < p.r; ++r)
        for (std::int64_t s = 0; s < p.s; ++s)
          dense.push_back(
              w[k * p.w_strides[0] + c * p.w_strides[1] + r * p.w_strides[2] + s * p.w_strides[3]]);
  return dense;
}

/// Filters that are packed, dense, from the last to the first where that is asked for.
template <Fault fault>
bool from_the_last(const ConvProblem& problem) {
  return fault == Fault::counts_images && problem.n > 1;
}

template <Fault fault>
std::size_t filter_bytes(const ConvProblem& problem, const DeviceInfo&) {
  const auto bytes = static_cast<std::size_t>(element_count(problem.w_extents())) * sizeof(float);
  return bytes + (fault == Fault::grows_with_n ? static_cast<std::size_t>(problem.n) * 1024 : 0);
}

template <Fault fault>
void pack(const FilterPacking& packing) {
  const ConvProblem& p = packing.problem;
  const auto* const w = static_cast<const float*>(packing.w);
  auto* const filters = static_cast<float*>(packing.filters);
  const std::int64_t filter = p.terms();
  const std::int64_t count = p.k - (fault == Fault::loses_a_filter ? 1 : 0);
  for (std::int64_t k = 0; k < count; ++k) {
    float* to = filters + (from_the_last<fault>(p) ? p.k - 1 - k : k) * filter;
    for (std::int64_t c = 0; c < p.c / p.groups; ++c)
      for (std::int64_t r = 0; r < p.r; ++r)
        for (std::int64_t s = 0; s < p.s; ++s) {
          float value =
              w[k * p.w_strides[0] + c * p.w_strides[1] + r * p.w_strides[2] + s * p.w_strides[3]];
          if (fault == Fault::rounds_to_16_bits) value = static_cast<float>(BFloat16(value));
          *to++ = value;
        }
  }
  if (fault == Fault::packs_too_much) filters[p.k * filter] = 1;
}

template <Fault fault>
void launch(const ConvLaunch& call) {
  ConvProblem p = call.problem;
  ConstTensorView w(call.filters, p.dtype, p.w_extents());
  if (fault == Fault::reads_w && call.w)
    w = ConstTensorView(call.w, p.dtype, p.w_extents(), host, p.w_strides);
  p.w_strides = w.strides();
  const ConstTensorView x(call.x, p.dtype, p.x_extents(), host, p.x_strides);
  const ConstTensorView bias =
      call.bias ? ConstTensorView(call.bias, p.dtype, {p.k}) : ConstTensorView();
  const Strides& y = p.y_strides;
  for (std::int64_t n = 0; n < p.n; ++n)
    for (std::int64_t k = 0; k < p.k; ++k)
      for (std::int64_t i = 0; i < p.p(); ++i)
        for (std::int64_t j = 0; j < p.q(); ++j) {
          const std::int64_t packed_k = from_the_last<fault>(p) ? p.k - 1 - k : k;
          double sum = conv_oracle_at(p, x, w, {}, n, packed_k, i, j).y;
          if (call.bias) sum += load_element(bias, k);
          if (call.activation == Activation::relu && sum < 0) sum = 0;
          static_cast<float*>(call.y)[n * y[0] + k * y[1] + i * y[2] + j * y[3]] =
              static_cast<float>(sum);
        }
  if (fault == Fault::launches_again)
    *const_cast<float*>(static_cast<const float*>(call.filters)) += 1;  // NOLINT
}

template <Fault fault>
constexpr ConvAlgorithm packing{
    .name = "cpu.conv.packing",
    .numerics = {.operand = Operand::fp64, .accumulator = Accumulator::fp64_fma},
    .plan = plan_of_parts<[](const ConvProblem&, const DeviceInfo&) -> Support { return {}; },
                          [](const ConvProblem&, const DeviceInfo&) { return 1.0; },
                          [](const ConvProblem&, const DeviceInfo&) { return std::size_t{0}; },
                          filter_bytes<fault>>,
    .pack_filters = pack_without_plan<pack<fault>>,
    .launch = without_plan<launch<fault>>,
};

/// What is first found wrong, or nothing.
template <Fault fault>
std::string found(Tier tier) {
  const Device cpu = Device::open("cpu");
  const ConvAlgorithm* const algorithm = &packing<fault>;
  std::string sentence;
  for (const char* text :
       {"mb1ic2ih6oc3kh3ph1", "g2mb3ic4ih5iw6oc4kh2", "mb3ic2ih6oc4kh3_poolmax2x2"}) {
    ValidationCase test = validation_case("", parse_problem(text).problem, Placement::strided);
    test.bias = true;
    for (const ValidationRecord& record : validate(
             cpu, {&algorithm, 1}, test, {.seed = 3, .tiers = {tier}, .guard = GuardPages::none}))
      if (record.verdict == Verdict::fail && sentence.empty()) sentence = record.sentence;
  }
  return sentence;
}

/// Adds to the first output what nobody wrote into the workspace, and sums again where that is NaN,
/// as kernels do that take a NaN for one of the inputs'.
constexpr ConvAlgorithm mends_its_workspace{
    .name = "cpu.conv.mends",
    .numerics = {.operand = Operand::fp64, .accumulator = Accumulator::fp64_fma},
    .plan = [](const ConvProblem&, const DeviceInfo&) -> PlanResult {
      return {.estimate_seconds = 1.0, .workspace_bytes = std::size_t{256}};
    },
    .launch =
        [](const ConvLaunch& call, const KernelPlan*) {
          const ConvProblem& p = call.problem;
          ConvLaunch plain = call;
          const std::vector<float> w = dense_filters(call);
          plain.filters = w.data();
          launch<Fault::none>(plain);
          float& first = *static_cast<float*>(call.y);
          const float sum = first + *static_cast<const float*>(call.workspace);
          if (p.n > 0 && !std::isnan(sum)) first = sum;
        },
};

bool says(const std::string& sentence, const char* words) {
  INFO(sentence);
  const bool said = sentence.find(words) != std::string::npos;
  CHECK(said);
  return said;
}

}  // namespace

TEST_CASE("packing: what an algorithm gets wrong with its own layout is caught", "[faults]") {
  for (const Tier tier : all_tiers) CHECK(found<Fault::none>(tier) == "");
  for (const Tier tier : {Tier::exact, Tier::bounded}) {
    CAPTURE(to_string(tier));
    says(found<Fault::reads_w>(tier), "packed filters gave other bits");
    says(found<Fault::counts_images>(tier), "packed filters gave other bits");
    says(found<Fault::grows_with_n>(tier), "bytes for N=");
    says(found<Fault::packs_too_much>(tier), "byte");
    says(found<Fault::launches_again>(tier), "were written");
    CHECK(found<Fault::loses_a_filter>(tier) != "");
  }
  CHECK(found<Fault::rounds_to_16_bits>(Tier::bounded) != "");
}

TEST_CASE("packing: reading unwritten workspace is caught, even where an algorithm replaces NaN",
          "[faults]") {
  const Device cpu = Device::open("cpu");
  const ConvAlgorithm* const algorithm = &mends_its_workspace;
  const ValidationCase test =
      validation_case("", parse_problem("mb1ic2ih6oc3kh3ph1").problem, Placement::strided);
  const auto failures = [&](Tier tier, GuardPages guard) {
    int count = 0;
    for (const ValidationRecord& record :
         validate(cpu, {&algorithm, 1}, test, {.seed = 3, .tiers = {tier}, .guard = guard}))
      count += record.verdict == Verdict::fail;
    return count;
  };
  // There are no guard pages on a GPU.
  for (const GuardPages guard :
       {GuardPages::none, GuardPages::behind, GuardPages::before, GuardPages::both}) {
    CAPTURE(static_cast<int>(guard));
    CHECK(failures(Tier::exact, guard) == 1);
    CHECK(failures(Tier::repeatable, guard) == (guard == GuardPages::before ? 0 : 1));
  }
}
