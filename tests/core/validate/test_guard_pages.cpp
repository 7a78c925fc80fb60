// Pages that nobody may touch next to every tensor: a kernel that reads or writes one element too
// many ends the process, here a child of the test.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "plumb/plumb.hpp"
#include "support/host_tensor.hpp"

using namespace plumb;
using plumb_test::for_each_index;

namespace {

enum class Which { none, x, w, bias, y, filters, workspace };

// A launch is a plain function: what it touches besides its own stands here.
Which touched = Which::none;
bool in_front = false;  ///< of the tensor's first byte, or behind its last
bool writes = false;

/// Bytes from the lowest to the highest address of a dense or mirrored tensor, and its lowest.
struct Reach {
  std::int64_t below = 0, bytes = 0;
};

Reach reach_of(const Extents& extents, const Strides& strides, DType dtype) {
  Reach reach{.bytes = 1};
  for (int i = 0; i < extents.rank(); ++i) {
    const std::int64_t far = (extents[i] - 1) * strides[i];
    reach.bytes += std::abs(far);
    if (far < 0) reach.below -= far;
  }
  const auto element = static_cast<std::int64_t>(size_in_bytes(dtype));
  return {reach.below * element, reach.bytes * element};
}

constexpr std::size_t workspace_bytes = 512, filter_bytes = 768;

void touch(const void* data, const Reach& reach) {
  const auto* const lowest = static_cast<const std::byte*>(data) - reach.below;
  auto* const byte =
      const_cast<volatile std::byte*>(in_front ? lowest - 1 : lowest + reach.bytes);  // NOLINT
  if (writes)
    *byte = std::byte{0};
  else
    (void)*byte;
}

std::int64_t offset_of(const Dims& index, const Strides& strides) {
  std::int64_t offset = 0;
  for (int i = 0; i < index.rank(); ++i) offset += index[i] * strides[i];
  return offset;
}

/// The oracle's own results, so that nothing but what is touched can fail.
void compute(const ConvLaunch& call) {
  ConvProblem p = call.problem;
  const ConstTensorView x(call.x, p.dtype, p.x_extents(), host, p.x_strides);
  const ConstTensorView w =
      call.filters ? ConstTensorView(call.filters, p.dtype, p.w_extents())
                   : ConstTensorView(call.w, p.dtype, p.w_extents(), host, p.w_strides);
  const ConstTensorView bias =
      call.bias ? ConstTensorView(call.bias, p.dtype, {p.k}) : ConstTensorView();
  p.w_strides = w.strides();
  const TensorView y(call.y, p.dtype, p.y_extents(), host, p.y_strides);
  const auto terms = conv_oracle(p, x, w, bias);
  std::size_t at = 0;
  for_each_index(p.y_extents(), [&](const Dims& index) {
    const std::int64_t offset = offset_of(index, p.y_strides);
    const double old = call.accumulate ? load_element(y, offset) : 0;
    store_element(y, offset, terms[at++].y + old);
  });
}

/// Filters as they are, one behind the other.
void pack(const FilterPacking& call) {
  const ConvProblem& p = call.problem;
  const ConstTensorView w(call.w, p.dtype, p.w_extents(), host, p.w_strides);
  const TensorView packed(call.filters, p.dtype, p.w_extents());
  std::int64_t at = 0;
  for_each_index(p.w_extents(), [&](const Dims& index) {
    store_element(packed, at++, load_element(w, offset_of(index, p.w_strides)));
  });
  if (touched == Which::w) touch(call.w, reach_of(p.w_extents(), p.w_strides, p.dtype));
}

void launch(const ConvLaunch& call) {
  const ConvProblem& p = call.problem;
  compute(call);
  switch (touched) {
    case Which::none: break;
    case Which::x: touch(call.x, reach_of(p.x_extents(), p.x_strides, p.dtype)); break;
    case Which::w:
      if (call.w) touch(call.w, reach_of(p.w_extents(), p.w_strides, p.dtype));
      break;
    case Which::bias: touch(call.bias, reach_of({p.k}, {1}, p.dtype)); break;
    case Which::y: touch(call.y, reach_of(p.y_extents(), p.y_strides, p.dtype)); break;
    case Which::filters: touch(call.filters, {0, filter_bytes}); break;
    case Which::workspace: touch(call.workspace, {0, workspace_bytes}); break;
  }
}

constexpr ConvAlgorithm plain{
    .name = "cpu.conv.touches",
    .numerics = {.operand = Operand::fp64, .accumulator = Accumulator::fp64_fma},
    .takes_depth = true,
    .takes_boundaries = true,
    .accumulates = true,
    .plan = [](const ConvProblem&, const DeviceInfo&) -> PlanResult {
      return {.estimate_seconds = 1.0, .workspace_bytes = workspace_bytes};
    },
    .launch = without_plan<launch>,
};

constexpr ConvAlgorithm packing{
    .name = "cpu.conv.touches_packed",
    .numerics = {.operand = Operand::fp64, .accumulator = Accumulator::fp64_fma},
    .takes_depth = true,
    .takes_boundaries = true,
    .accumulates = true,
    .plan = [](const ConvProblem&, const DeviceInfo&) -> PlanResult {
      return {.estimate_seconds = 1.0, .filter_bytes = filter_bytes};
    },
    .pack_filters = pack_without_plan<pack>,
    .launch = without_plan<launch>,
};

enum class Outcome { passes, fails, dies };

/// What comes of judging `algorithm` in a child of this process.
Outcome outcome(const ConvAlgorithm& algorithm, GuardPages guard, Tier tier,
                const ValidationCase& test) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer's would exit instead
    const ConvAlgorithm* const one = &algorithm;
    bool failed = false;
    for (const ValidationRecord& record :
         validate(Device::open("cpu"), {&one, 1}, test, {.tiers = {tier}, .guard = guard}))
      failed = failed || record.verdict != Verdict::pass;
    _exit(failed ? 1 : 0);
  }
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status) == 0 ? Outcome::passes : Outcome::fails;
  REQUIRE(WTERMSIG(status) == SIGSEGV);
  return Outcome::dies;
}

/// Dense, mirrored, f16 in an odd number, and with a depth: each ends at another byte of its page.
std::vector<ValidationCase> cases() {
  ConvProblem mirrored = parse_problem("mb2ic3ih5iw7oc4kh3ph1").problem;
  mirrored.x_strides = {-105, -35, -7, -1};
  mirrored.w_strides = {-27, 9, -3, 1};
  mirrored.y_strides = {-140, 35, -7, 1};
  ConvProblem odd = parse_problem("mb1ic1ih3oc1kh3ph1").problem;
  odd.dtype = DType::f16;
  std::vector<ValidationCase> all{
      validation_case("", parse_problem("mb2ic3ih5iw7oc4kh3ph1").problem, Placement::nchw),
      validation_case("", odd, Placement::nchw), validation_case("", mirrored, Placement::views),
      validation_case("", parse_problem("mb1ic2id3ih3iw5oc3kd3kh2kw3pd1ph1pw2_padclamp").problem,
                      Placement::nchw)};
  for (ValidationCase& test : all) test.bias = true;
  all.back().accumulate = true;
  return all;
}

}  // namespace

TEST_CASE("guard pages: one byte outside any memory ends the process", "[guard]") {
  for (const ValidationCase& test : cases())
    for (const ConvAlgorithm* algorithm : {&plain, &packing})
      for (const Which which :
           {Which::x, Which::w, Which::bias, Which::y, Which::filters, Which::workspace}) {
        // Each has one of the two.
        if (which == (algorithm == &plain ? Which::filters : Which::workspace)) continue;
        for (const bool front : {false, true})
          for (const bool write : {false, true}) {
            touched = which, in_front = front, writes = write;
            CAPTURE(to_string(test.problem), algorithm->name, static_cast<int>(which), front,
                    write);
            const GuardPages there = front ? GuardPages::before : GuardPages::behind;
            CHECK(outcome(*algorithm, there, Tier::exact, test) == Outcome::dies);
            // The other side comes first or second; a write meets a canary there.
            const Outcome either = outcome(*algorithm, GuardPages::both, Tier::exact, test);
            CHECK((either == Outcome::dies || (write && either == Outcome::fails)));
          }
      }
  touched = Which::none;
}

TEST_CASE("guard pages: in every tier, and nothing that is allowed ends the process", "[guard]") {
  const ValidationCase test = cases().front();
  for (const Tier tier : all_tiers)
    for (const bool front : {false, true}) {
      if (tier == Tier::reproducible) continue;  // which runs what claims it, and these do not
      CAPTURE(to_string(tier), front);
      in_front = front, writes = false;
      touched = Which::x;
      CHECK(outcome(plain, GuardPages::both, tier, test) == Outcome::dies);
      touched = Which::none;
      CHECK(outcome(plain, GuardPages::both, tier, test) == Outcome::passes);
      CHECK(outcome(packing, GuardPages::both, tier, test) == Outcome::passes);
    }
}

TEST_CASE("guard pages: without them the canaries are between", "[guard]") {
  const ValidationCase test = cases().front();
  const ConvAlgorithm* const one = &plain;
  touched = Which::y, in_front = false, writes = true;
  CHECK(outcome(plain, GuardPages::none, Tier::exact, test) == Outcome::fails);
  const auto records = validate(Device::open("cpu"), {&one, 1}, test,
                                {.tiers = {Tier::exact}, .guard = GuardPages::none});
  touched = Which::none;
  REQUIRE(records.size() == 1);
  CHECK(records[0].verdict == Verdict::fail);
  CHECK(records[0].sentence.starts_with("y: byte "));
}
