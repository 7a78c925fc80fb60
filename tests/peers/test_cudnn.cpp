// cuDNN's engines without a GPU: what is opened, what is refused, and what the numerical notes of
// its engines admit. The library is played by a fake.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <limits>

#include "peers/cudnn/engine.hpp"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb::cuda::cudnn;
using Catch::Matchers::ContainsSubstring;

namespace {

/// cuDNN as it is found in a folder. One that could be opened stays.
const LibraryReport& found_in(const std::string& folder) {
  setenv("PLUMB_PROVIDER_PATH", folder.c_str(), 1);
  return library().report;
}
std::string fake(const char* name) { return std::string(PLUMB_FAKE_LIBRARIES "/") + name; }

}  // namespace

TEST_CASE("cudnn: libraries that cannot be used are reasons, and the next one is tried") {
  CHECK(found_in("relative").reason == Reason::provider_missing);
  const LibraryReport old = found_in(fake("cudnn_older"));
  CHECK(old.reason == Reason::provider_version);
  CHECK(old.version == "cuDNN 8.9.7");
  CHECK_THAT(old.sentence, ContainsSubstring("cuDNN 8.9.7; expected version 9"));
  CHECK(found_in(fake("cudnn_newer")).version == "cuDNN 10.0.0");
  CHECK(library().report.reason == Reason::provider_version);
  const LibraryReport cut = found_in(fake("cudnn_without"));
  CHECK(cut.reason == Reason::provider_version);
  CHECK_THAT(cut.sentence, ContainsSubstring("cuDNN 9.14.0, without cudnnBackendExecute"));
  const LibraryReport works = found_in(fake("cudnn_works"));
  CHECK(works.reason == Reason::none);
  CHECK(works.version == "cuDNN 9.14.0");
  CHECK(works.path == fake("cudnn_works") + "/libcudnn.so.9");
  // What was opened is kept, whatever the variable says later.
  CHECK(&found_in("relative") == &library().report);
  CHECK(library().report.reason == Reason::none);
  CHECK(provider.library().version == works.version);
  CHECK_THAT(plumb_test::refusal([] {
               check(static_cast<cudnnStatus_t>(3000), "cudnnBackendFinalize");
             }).what(),
             ContainsSubstring("cudnnBackendFinalize: CUDNN_STATUS_NOT_SUPPORTED"));
}

TEST_CASE("cudnn: engines that can be built, and the classes that their notes admit") {
  REQUIRE(found_in(fake("cudnn_works")).reason == Reason::none);
  cudnnHandle_t handle = nullptr;
  check(library().create(&handle), "cudnnCreate");
  const ConvProblem problem = check(parse_problem("mb2ic16ih12oc16kh3ph1").problem);
  const auto all = engines(handle, problem, Layout::nchw, 0);
  // 0, 1, 3 and 4 are named and can be built, and 2 transforms, which the lists leave out.
  REQUIRE(all.size() == 5);
  const auto engine = [&](const char* name) -> const Engine& {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one->name() == name; });
    REQUIRE(found != all.end());
    return **found;
  };
  const Engine &plain = engine("engine 0"), &tensor_cores = engine("engine 1"),
               &winograd = engine("engine 2"), &loose = engine("engine 3");
  CHECK(plain.workspace_bytes() == 1024);
  CHECK(winograd.transforms());
  CHECK_FALSE(plain.transforms());
  for (const Accuracy any : {Accuracy::fp32, Accuracy::tf32, Accuracy::fp32_sum})
    CHECK(admits(any, DType::f32, plain));
  // On f32 tensors tensor cores mean TF32; f16 products lose nothing there.
  CHECK_FALSE(admits(Accuracy::fp32_sum, DType::f32, tensor_cores));
  CHECK(admits(Accuracy::tf32, DType::f32, tensor_cores));
  CHECK(admits(Accuracy::fp32_sum, DType::f16, tensor_cores));
  // What states a bound neither transforms nor varies.
  CHECK(admits(Accuracy::fp32, DType::f32, winograd));
  CHECK_FALSE(admits(Accuracy::fp32_sum, DType::f32, winograd));
  CHECK(admits(Accuracy::fp32, DType::f32, loose));
  CHECK_FALSE(admits(Accuracy::fp32_sum, DType::f32, loose));
  // An absurd workspace is more than any device has, so that no search tries it.
  CHECK(engine("engine 4").workspace_bytes() > std::numeric_limits<std::size_t>::max() / 2);
}
