// Other libraries' algorithms in a device's list: whose they are, when they are asked, and what
// they are chosen by. The libraries are played by the fake module.
#include <dlfcn.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "fault.hpp"
#include "plumb/measure.hpp"
#include "plumb/tune.hpp"
#include "plumb/validate.hpp"
#include "support/c_handles.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A tuning cache of the test's own, empty at first.
class OwnCache {
 public:
  OwnCache() {
    folder_ = (std::filesystem::temp_directory_path() / "plumb-providers-XXXXXX").string();
    REQUIRE(mkdtemp(folder_.data()));
    setenv("PLUMB_TUNE_CACHE", (folder_ + "/tune").c_str(), 1);
  }
  ~OwnCache() {
    unsetenv("PLUMB_TUNE_CACHE");
    unsetenv("PLUMB_FAKE_LIBRARY");
    std::filesystem::remove_all(folder_);
  }

 private:
  std::string folder_;
};

/// Times that the clock of a test tells: `fast` is a thousand times quicker than all others.
MeasureOptions clock_in_favour_of(std::string_view fast) {
  return {.min_samples = 3,
          .max_samples = 3,
          .warm_up_seconds = 0,
          .cold_bytes = 0,
          .estimate_limit = 1e9,
          .tries = 1,
          .clock = [fast](std::string_view algorithm, double) {
            return algorithm == fast ? 1e-6 : 1e-3;
          }};
}

Device with_cudnn() { return Device::open("cuda", {.providers = "cudnn"}); }

const ConvCandidate& answer(const std::vector<ConvCandidate>& all, std::string_view name) {
  for (const ConvCandidate& one : all)
    if (one.algorithm == name) return one;
  FAIL("no algorithm " << name);
  throw;
}

std::string_view chosen(const Device& device, const ConvOptions& options = {}) {
  return ConvPlan(device, HostCase().problem(), options).algorithm().name;
}

}  // namespace

TEST_CASE("providers: names that are none are refused, from the caller and the environment") {
  const Error wrong = refusal([] { Device::open("cpu", {.providers = "mkl"}); });
  CHECK(wrong.code() == ErrorCode::invalid_argument);
  CHECK(wrong.what() ==
        std::string("device 'cpu': providers has 'mkl'; expected cudnn and onednn, with commas "
                    "between, or none"));
  CHECK_THAT(refusal([] { Device::open("cuda", {.providers = "cudn"}); }).what(),
             ContainsSubstring("did you mean 'cudnn'?"));
  for (const char* list : {"cudnn,", ",", "cudnn onednn", "none,cudnn", " cudnn"}) {
    CAPTURE(list);
    CHECK(refusal([&] { Device::open("cuda", {.providers = list}); }).code() ==
          ErrorCode::invalid_argument);
  }
  setenv("PLUMB_PROVIDERS", "abacus", 1);
  CHECK_THAT(refusal([] { Device::open("auto"); }).what(),
             ContainsSubstring("PLUMB_PROVIDERS has 'abacus'"));
  CHECK(conv_algorithms(Device::open("cuda", {.providers = "none"})).size() == 8);
  setenv("PLUMB_PROVIDERS", "cudnn,onednn", 1);
  CHECK(conv_algorithms(Device::open("cuda")).size() == 12);
  unsetenv("PLUMB_PROVIDERS");
  plumb_device* none = nullptr;
  CHECK(plumb_device_open_providers("cuda", nullptr, "abacus", &none) == PLUMB_INVALID_ARGUMENT);
  CHECK_THAT(plumb_last_message(), ContainsSubstring("abacus"));
  REQUIRE(plumb_device_open_providers("cuda", nullptr, "cudnn", &none) == PLUMB_OK);
  plumb_device_close(none);
}

TEST_CASE("providers: none is listed unless its name is") {
  for (const ConvAlgorithm* one : conv_algorithms(Device::open("cuda"))) CHECK(!one->provider);
  const Error unlisted =
      refusal([] { chosen(Device::open("cuda"), {.algorithm = "cudnn.conv.fake.sum"}); });
  CHECK_THAT(unlisted.what(), ContainsSubstring("there is no 'cudnn.conv.fake.sum'"));
  const auto all = explain(with_cudnn(), HostCase().problem());
  CHECK(answer(all, "cudnn.conv.fake.sum").provider == "cudnn");
  CHECK(answer(all, "cuda.conv.fake.fp32").provider.empty());
  // The CPU that a broken device falls back to has the same.
  const Device automatic = Device::open("auto", {.providers = "cudnn"});
  const Error broken(ErrorCode::device_failure, "played by a test");
  CHECK(automatic.fall_back(broken).options().providers == "cudnn");
}

TEST_CASE("providers: a missing library is a reason, and an error where it is asked for by name") {
  const auto all = explain(with_cudnn(), HostCase().problem());
  CHECK(answer(all, "cudnn.conv.fake.missing").support.reason == Reason::provider_missing);
  CHECK(answer(all, "cudnn.conv.fake.outdated").support.sentence == "a fake 0; expected 1");
  CHECK(answer(all, "cuda.conv.fake.fp32").chosen);
  for (const ProviderReport& one : provider_reports())
    if (one.name == "cudnn") {
      CHECK(one.backend == "cuda");
      CHECK(one.version == "a fake 1");
      CHECK(one.path == "/fake/libcudnn.so.9");
      CHECK(one.reason == Reason::none);
    }
}

TEST_CASE("providers: neither asked nor chosen without a measured time") {
  const OwnCache cache;
  const Device device = with_cudnn();  // which opens the module
  void* const module = dlopen(PLUMB_FAKE_MODULES "/fake/libplumb_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(module);
  const auto plans = reinterpret_cast<int (*)()>(dlsym(module, "plumb_fake_provider_plans"));
  const int before = plans();
  CHECK(chosen(device) == "cuda.conv.fake.fp32");
  CHECK(plans() == before);
  CHECK(chosen(device, {.algorithm = "cudnn.conv.fake.sum"}) == "cudnn.conv.fake.sum");
  CHECK(plans() > before);
  // Tuned without the library: its algorithm has no time, and ours go by theirs.
  tune(Device::open("cuda"), HostCase().problem(),
       {.measure = clock_in_favour_of("cuda.conv.fake.loose")});
  CHECK(chosen(device) == "cuda.conv.fake.loose");
}

TEST_CASE("providers: the faster one by tuned times, of the class asked for, and with a bound") {
  const OwnCache cache;
  const Device device = with_cudnn();
  const TuneResult tuned =
      tune(device, HostCase().problem(), {.measure = clock_in_favour_of("cudnn.conv.fake.sum")});
  CHECK(chosen(device) == "cudnn.conv.fake.sum");
  const auto all = explain(device, HostCase().problem());
  CHECK(answer(all, "cudnn.conv.fake.sum").measured_seconds == 1e-6);
  CHECK(answer(all, "cudnn.conv.fake.winograd").support.reason == Reason::forced_only);
  for (const TunedAlgorithm& one : tuned.algorithms)
    if (one.algorithm == "cudnn.conv.fake.winograd")
      CHECK(one.support.reason == Reason::forced_only);
  // Who did not ask for the library gets our fastest.
  CHECK(chosen(Device::open("cuda")).starts_with("cuda.conv.fake."));
  // A time of another version says nothing of this one.
  setenv("PLUMB_FAKE_LIBRARY", "a fake 2", 1);
  CHECK(chosen(device).starts_with("cuda.conv.fake."));
  const auto later = explain(device, HostCase().problem());
  CHECK(answer(later, "cudnn.conv.fake.sum").support.sentence ==
        "was timed with a fake 1; this is a fake 2");
}

TEST_CASE("providers: where ours is the faster one, ours runs") {
  const OwnCache cache;
  const Device device = with_cudnn();
  tune(device, HostCase().problem(), {.measure = clock_in_favour_of("cuda.conv.fake.fp32")});
  CHECK(chosen(device) == "cuda.conv.fake.fp32");
}

TEST_CASE("providers: validation says whose kernel ran") {
  ConvProblem problem = HostCase().problem();
  problem.x_strides = problem.w_strides = problem.y_strides = {};
  const Device device = with_cudnn();
  int theirs = 0;
  for (const ValidationRecord& one :
       validate(device, conv_algorithms(device), validation_case("", problem, Placement::nchw))) {
    if (one.algorithm.starts_with("cuda.")) CHECK(one.provider.empty());
    if (one.algorithm == "cudnn.conv.fake.sum") {
      ++theirs;
      CHECK(one.provider == "a fake 1");
      CHECK(one.verdict == Verdict::pass);
    }
  }
  CHECK(theirs == std::ssize(all_tiers));
}
