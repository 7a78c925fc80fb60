// The name that was probably meant, in messages about one that is not known.
#include "plumb/did_you_mean.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "plumb/plumb.hpp"
#include "support/c_handles.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using plumb_test::refusal;

namespace {

std::string meant(std::string_view given, std::vector<std::string_view> names) {
  return did_you_mean(given, names);
}

}  // namespace

TEST_CASE("did you mean: letters missing, added, replaced, swapped") {
  CHECK(meant("cda", {"cuda", "cpu"}) == "; did you mean 'cuda'?");
  CHECK(meant("cuuda", {"cuda", "cpu"}) == "; did you mean 'cuda'?");
  CHECK(meant("cuba", {"cpu", "cuda"}) == "; did you mean 'cuda'?");
  CHECK(meant("cpuu", {"cuda", "cpu"}) == "; did you mean 'cpu'?");
  CHECK(meant("cup", {"cuda", "cpu"}) == "; did you mean 'cpu'?");  // a swap is one step
  CHECK(meant("CUDA", {"cuda", "cpu"}) == "; did you mean 'cuda'?");
  CHECK(meant("cpu.conv.dirct.fp32", {"cpu.conv.im2col.fp32", "cpu.conv.direct.fp32"}) ==
        "; did you mean 'cpu.conv.direct.fp32'?");
}

TEST_CASE("did you mean: one name begins with the other") {
  CHECK(meant("--padding", {"--stride", "--pad"}) == "; did you mean '--pad'?");
  CHECK(meant("--pad", {"--problem", "--padding"}) == "; did you mean '--padding'?");
}

TEST_CASE("did you mean: what is not near, or nothing, has no suggestion") {
  CHECK(meant("gpu", {"cuda", "cpu"}).empty());  // another word
  CHECK(meant("abacus", {"cuda", "cpu"}).empty());
  CHECK(meant("", {"cuda", "cpu"}).empty());
  CHECK(meant("cuda", {}).empty());
  CHECK(meant("cuda", {""}).empty());
  CHECK(meant(std::string(1'000'000, 'c'), {"cuda", "c"}).empty());
  CHECK(meant("cuda" + std::string(1'000'000, 'c'), {"cuda"}).empty());
}

TEST_CASE("did you mean: the nearest, and the first of equals") {
  CHECK(meant("four_", {"fours", "four"}) == "; did you mean 'fours'?");
  CHECK(meant("resnet", {"resnets50", "resnet50"}) == "; did you mean 'resnet50'?");
}

TEST_CASE("did you mean: backends, suites and algorithms") {
  const auto says = [](auto&& call, const std::string& name) {
    CHECK_THAT(refusal(call).what(), ContainsSubstring("did you mean '" + name + "'?"));
  };
  says([] { Device::open("cdua"); }, "cuda");
  says([] { suite("few20"); }, "few200");
  const Device cpu = Device::open("cpu");
  const ConvProblem problem = parse_problem("mb1ic1ih3oc1kh2").problem;
  says([&] { ConvPlan(cpu, problem, {.algorithm = "cpu.conv.im2cl.fp32"}); },
       "cpu.conv.im2col.fp32");
  std::int32_t count = 0;
  REQUIRE(plumb_device_count("cdua", &count) == PLUMB_INVALID_ARGUMENT);
  CHECK_THAT(plumb_last_message(), ContainsSubstring("did you mean 'cuda'?"));
}

TEST_CASE(
    "device names: a word instead of an index is refused by backends that number their devices") {
  for (const char* spec : {"cuda:x", "cpu:x", "cuda:first"}) {
    const Error error = refusal([&] { Device::open(spec); });
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK_THAT(error.what(), ContainsSubstring("is no index") && !ContainsSubstring("driver"));
  }
}

TEST_CASE("a problem that no algorithm runs is refused with each reason said once") {
  ConvProblem problem = parse_problem("mb2ic3ih9oc4kh3ph1_padperiodic").problem;
  problem.dtype = DType::f64;
  const ConvOptions options{.workspace_limit_bytes = 0};
  const std::string message =
      refusal([&] { ConvPlan(Device::open("cpu"), problem, options); }).what();
  const std::string sentence = "expected f32 or f16 or bf16";
  REQUIRE_THAT(message, ContainsSubstring(sentence));
  CHECK(message.find(sentence) == message.rfind(sentence));
  CHECK_THAT(message, ContainsSubstring("cpu.conv.direct.fp32, cpu.conv.panels.fp32"));
}

TEST_CASE("filters that fit another number of groups are refused with that number") {
  const std::vector<float> data(64 * 64 * 9);
  const auto message = [&](const Extents& w, std::int64_t groups) -> std::string {
    return refusal([&] {
             problem_of({.x = {data.data(), {1, 64, 8, 8}}, .w = {data.data(), w}},
                        {.groups = groups});
           })
        .what();
  };
  CHECK_THAT(message({64, 2, 3, 3}, 1), ContainsSubstring("groups=32 would fit"));
  CHECK_THAT(message({64, 64, 3, 3}, 2), ContainsSubstring("groups=1 would fit"));
  CHECK_THAT(message({64, 2, 3, 3}, 3), ContainsSubstring("groups=32 would fit"));
  CHECK_THAT(message({64, 3, 3, 3}, 1), !ContainsSubstring("would fit"));  // of 64 channels
  CHECK_THAT(message({48, 2, 3, 3}, 1), !ContainsSubstring("would fit"));  // nor of 48 filters
  CHECK_THAT(message({48, 2, 3, 3}, 1), ContainsSubstring("expected w to be [48, 64, 3, 3]"));
}

TEST_CASE("a problem made from x and w alone gets a dense y") {
  const std::vector<float> data(1000);
  const ConvProblem problem =
      problem_of({.x = {data.data(), {1, 2, 8, 8}}, .w = {data.data(), {4, 1, 3, 3}}},
                 {.padding = 1, .groups = 2});
  CHECK(problem.y_extents() == Extents{1, 4, 8, 8});
  CHECK(problem.y_strides == dense_strides({1, 4, 8, 8}));
}
