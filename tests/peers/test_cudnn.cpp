// cuDNN's engines without a GPU: what is opened, what is refused, and what the numerical notes of
// its engines admit. The library is played by a fake.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "peers/cudnn/choice.hpp"
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

using Engines = std::vector<std::shared_ptr<const Engine>>;

/// Of the fake.
cudnnHandle_t new_handle() {
  REQUIRE(found_in(fake("cudnn_works")).reason == Reason::none);
  cudnnHandle_t handle = nullptr;
  check(library().create(&handle), "cudnnCreate");
  return handle;
}

/// The engines of one problem in a direction, or of those only what is wanted.
Engines engines_of(Direction direction, const std::set<std::string>& wanted = {}) {
  ConvProblem problem = check(parse_problem("mb2ic16ih12oc16kh3ph1").problem);
  problem.direction = direction;
  return engines(new_handle(), problem, Layout::nchw, 0, wanted);
}

const std::shared_ptr<const Engine>& named(const Engines& all, const char* name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one->name() == name; });
  REQUIRE(found != all.end());
  return *found;
}

/// Of a class of f32 tensors, the name of the engine that is its fastest; empty: none.
std::string winner(Accuracy accuracy, const std::vector<Timed>& timed) {
  const Timed* best = fastest(accuracy, DType::f32, timed);
  return best ? best->engine->name() : "";
}

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
  const Engines all = engines_of(Direction::forward);
  // 0, 1, 3 and 4 are named and can be built, and 2 transforms, which the lists leave out.
  REQUIRE(all.size() == 5);
  const Engine &plain = *named(all, "engine 0"), &tensor_cores = *named(all, "engine 1"),
               &winograd = *named(all, "engine 2"), &loose = *named(all, "engine 3");
  CHECK(plain.workspace_bytes() == 1024);
  CHECK(winograd.transforms());
  CHECK_FALSE(plain.transforms());
  for (const Accuracy any : {Accuracy::fp32, Accuracy::tf32, Accuracy::fp32_deterministic,
                             Accuracy::tf32_deterministic, Accuracy::fp32_sum})
    CHECK(admits(any, DType::f32, plain));
  // On f32 tensors tensor cores mean TF32; f16 products lose nothing there.
  CHECK_FALSE(admits(Accuracy::fp32_sum, DType::f32, tensor_cores));
  CHECK(admits(Accuracy::tf32, DType::f32, tensor_cores));
  CHECK(admits(Accuracy::fp32_sum, DType::f16, tensor_cores));
  // What is said to be of TF32 is of TF32.
  CHECK(admits(Accuracy::tf32_sum, DType::f32, tensor_cores));
  CHECK_FALSE(admits(Accuracy::tf32_sum, DType::f32, plain));
  // What states a bound neither transforms nor varies.
  CHECK(admits(Accuracy::fp32, DType::f32, winograd));
  CHECK(admits(Accuracy::fp32_deterministic, DType::f32, winograd));
  CHECK_FALSE(admits(Accuracy::fp32_sum, DType::f32, winograd));
  CHECK(admits(Accuracy::fp32, DType::f32, loose));
  for (const Accuracy any :
       {Accuracy::fp32_deterministic, Accuracy::tf32_deterministic, Accuracy::fp32_sum})
    CHECK_FALSE(admits(any, DType::f32, loose));
  // An absurd workspace is more than any device has, so that no search tries it.
  CHECK(named(all, "engine 4")->workspace_bytes() > std::numeric_limits<std::size_t>::max() / 2);
  CHECK(describe(winograd) == "engine 2, Winograd");
  CHECK(describe(loose) == "engine 3, not deterministic");
  const Engines wanted = engines_of(Direction::forward, {"engine 2", "engine 3", "engine 99"});
  REQUIRE(wanted.size() == 2);
  CHECK(wanted[0]->name() == "engine 3");
  CHECK(wanted[1]->name() == "engine 2");
}

TEST_CASE("cudnn: of gradients also the deterministic engines that the lists leave out") {
  CHECK(engines_of(Direction::backward_data).size() == 6);
  const Engines all = engines_of(Direction::backward_weights);
  REQUIRE(all.size() == 6);
  for (const char* varies : {"engine 0", "engine 1", "engine 3"}) {
    CAPTURE(varies);
    CHECK(admits(Accuracy::tf32, DType::f32, *named(all, varies)));
    CHECK_FALSE(admits(Accuracy::tf32_deterministic, DType::f32, *named(all, varies)));
  }
  CHECK(admits(Accuracy::fp32_sum, DType::f32, *named(all, "engine 6")));
}

TEST_CASE("cudnn: each direction's engine reads and writes the tensors by their parts") {
  for (const Direction direction :
       {Direction::forward, Direction::backward_data, Direction::backward_weights}) {
    CAPTURE(to_string(direction));
    // The fake writes 10 times the one input and the other, in the order of x, w and y.
    const float image = 1, filters = 2;
    float output = -1;
    named(engines_of(direction), "engine 0")->run(new_handle(), &image, &filters, &output, nullptr);
    // In backward data the image is dy, which comes behind w.
    CHECK(output == (direction == Direction::backward_data ? 21 : 12));
  }
}

TEST_CASE("cudnn: the fastest of each class, and what is worth a run once time is up") {
  const Engines all = engines_of(Direction::backward_weights);
  std::vector<Timed> timed{{named(all, "engine 0"), 2e-3},
                           {named(all, "engine 1"), 1e-3},
                           {named(all, "engine 3"), 2e-3}};
  CHECK(winner(Accuracy::fp32, timed) == "engine 0");  // of equals the first
  CHECK(winner(Accuracy::tf32, timed) == "engine 1");
  for (const Accuracy none : {Accuracy::fp32_deterministic, Accuracy::tf32_deterministic,
                              Accuracy::fp32_sum, Accuracy::tf32_sum})
    CHECK(winner(none, timed).empty());
  CHECK(seconds_to_beat(DType::f32, timed) == std::numeric_limits<double>::infinity());
  CHECK_FALSE(serves_another_class(*named(all, "engine 3"), DType::f32, timed));
  REQUIRE(serves_another_class(*named(all, "engine 2"), DType::f32, timed));
  timed.push_back({named(all, "engine 2"), 30e-3});
  CHECK(winner(Accuracy::fp32_deterministic, timed) == "engine 2");
  CHECK(winner(Accuracy::fp32_sum, timed).empty());
  // 6 forms plain sums, which none of those timed does without varying.
  REQUIRE(serves_another_class(*named(all, "engine 6"), DType::f32, timed));
  timed.push_back({named(all, "engine 6"), 20e-3});
  CHECK(winner(Accuracy::fp32_deterministic, timed) == "engine 6");
  CHECK(winner(Accuracy::tf32_deterministic, timed) == "engine 6");
  CHECK(winner(Accuracy::fp32_sum, timed) == "engine 6");
  CHECK(winner(Accuracy::fp32, timed) == "engine 0");
  CHECK(seconds_to_beat(DType::f32, timed) == 20e-3);
  CHECK(names_of_fastest(DType::f32, timed) ==
        std::set<std::string>{"engine 0", "engine 1", "engine 6"});
  const std::span<const Timed> every(timed);
  CHECK(lacks_a_class(DType::f32, every.first(3), every));
  CHECK_FALSE(lacks_a_class(DType::f32, every, every.last(1)));
}
