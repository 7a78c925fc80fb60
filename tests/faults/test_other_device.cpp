// What belongs to two devices, the CPU and the fake one, and does not go together; and what
// measuring, validating and allocating make of a device that is not the host.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string_view>

#include "fault.hpp"
#include "plumb/measure.hpp"
#include "plumb/nn.hpp"
#include "plumb/tune.hpp"
#include "plumb/validate.hpp"
#include "support/c_handles.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

namespace {

void require_refused(const Error& error, const char* words) {
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK_THAT(error.what(), ContainsSubstring(words));
}

const ConvAlgorithm* algorithm_named(const Device& device, std::string_view name) {
  for (const ConvAlgorithm* algorithm : conv_algorithms(device))
    if (algorithm->name == name) return algorithm;
  FAIL("no algorithm " << name);
  return nullptr;
}

std::vector<ValidationRecord> verdicts(const Device& device, std::string_view algorithm) {
  const ConvAlgorithm* judged = algorithm_named(device, algorithm);
  ConvProblem problem = HostCase().problem();
  problem.x_strides = problem.w_strides = problem.y_strides = {};
  return validate(device, {&judged, 1}, validation_case("", problem, Placement::nchw),
                  {.tiers = {Tier::exact, Tier::repeatable}});
}

const MeasureOptions few{
    .min_samples = 3, .max_samples = 3, .warm_up_seconds = 0, .cold_bytes = 0, .tries = 1};

}  // namespace

TEST_CASE("two devices: plans, filters and operators are refused to the other's queue") {
  const Device cpu = Device::open("cpu"), fake = Device::open("cuda");
  Queue on_cpu(cpu), on_fake(fake);
  HostCase test;
  const ConvPlan here(cpu, test.problem()), there(fake, test.problem());
  require_refused(refusal([&] { here.execute(on_fake, test.tensors()); }),
                  "the queue is on cuda:0; the plan is for cpu");
  const Tensor w(fake, DType::f32, test.problem().w_extents());
  const PackedFilters filters = there.pack(on_fake, w);
  ConvTensors tensors = test.tensors();
  tensors.w = {};
  CHECK(refusal([&] { here.execute(on_cpu, filters, tensors); }).code() ==
        ErrorCode::invalid_argument);
  const Tensor x(fake, DType::f32, {2, 3});
  const Tensor y(cpu, DType::f32, {2, 3});
  require_refused(refusal([&] { relu(on_cpu, x, y); }), "x is on cuda:0; the queue is on cpu");
  require_refused(refusal([&] { softmax(on_fake, x, y); }), "y is on cpu; the queue is on cuda:0");
  const std::vector<ConvPlan> plans{here, there};
  require_refused(refusal([&] { measure(plans, few); }), "plans for cpu and cuda:0");
}

TEST_CASE("PLUMB_SYNC: the call that breaks the device says so, and not the wait after it") {
  const Device fake = Device::open("cuda");
  HostCase test;
  for (const char* value : {"", "0", "1"}) {
    CAPTURE(value);
    Queue queue(fake);
    const ConvPlan plan(fake, test.problem());
    const Tensor x(fake, DType::f32, test.problem().x_extents());
    const Tensor w(fake, DType::f32, test.problem().w_extents());
    const Tensor y(fake, DType::f32, test.problem().y_extents());
    const PackedFilters filters = plan.pack(queue, w);
    for (const bool packed : {false, true}) {
      setenv("PLUMB_SYNC", value, 1);
      bool thrown = false;
      {
        const Playing playing{"kernel"};
        try {
          if (packed)
            plan.execute(queue, filters, {.x = x, .w = {}, .bias = {}, .y = y});
          else
            plan.execute(queue, {.x = x, .w = w, .bias = {}, .y = y});
        } catch (const Error& e) {
          thrown = e.code() == ErrorCode::device_failure;
        }
      }
      unsetenv("PLUMB_SYNC");
      CHECK(thrown == (std::string_view(value) == "1"));
      CHECK(refusal([&] { queue.synchronize(); }).code() == ErrorCode::device_failure);
      const Playing playing{"restarted"};
      REQUIRE(Device::open("cuda").id() == fake.id());
    }
  }
}

TEST_CASE("device names: what counts as an index, and what does not") {
  require_refused(refusal([] { Device::open("cuda:emu"); }),
                  "'emu' is no index; devices of cuda have indices alone, as in cuda:0");
  for (const char* spec : {"cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "cuda:_"})
    require_refused(refusal([&] { Device::open(spec); }), "is no index");
  const Error missing = refusal([] { Device::open("cuda:7"); });
  CHECK(missing.reason() == Reason::no_device);
  CHECK_THAT(missing.what(), ContainsSubstring("no device cuda:7; there is 1"));
}

TEST_CASE("measuring: what a contestant throws is its own failure") {
  const Device fake = Device::open("cuda");
  const std::vector<ConvPlan> plans{
      ConvPlan(fake, HostCase().problem(), {.algorithm = "cuda.conv.fake.fp32"}),
      ConvPlan(fake, HostCase().problem(), {.algorithm = "cuda.conv.fake.forced"})};
  for (const Measurement& one : measure(plans, few).contestants) {
    CHECK(one.failure.empty());
    CHECK(one.samples == 3);
    CHECK(one.max_error_over_bound <= 1);
  }
  const std::pair<const char*, const char*> faults[] = {
      {"launch", "a launch is refused"}, {"without_words", "an exception without words"}};
  for (const auto& [fault, words] : faults) {
    const Playing playing{fault};
    for (const Measurement& one : measure(plans, few).contestants) {
      CHECK_THAT(one.failure, ContainsSubstring(words));
      CHECK(one.samples == 0);
    }
  }
}

TEST_CASE("measuring: a wrong result is found, also where not every output is checked") {
  const Device fake = Device::open("cuda");
  for (const char* text : {"mb2ic3ih9oc4kh3", "mb1ic64ih48oc64kh3ph1"}) {
    const ConvPlan plan(fake, parse_problem(text).problem, {.algorithm = "cuda.conv.fake.fp32"});
    const auto error_with = [&](const char* fault) {
      const Playing playing{fault};
      const Measurement seen = measure({&plan, 1}, few).contestants[0];
      CHECK(seen.failure.empty());
      return seen.max_error_over_bound;
    };
    CAPTURE(text);
    CHECK(error_with("wrong") > 100);
    CHECK(std::isinf(error_with("nan")));
  }
}

TEST_CASE("measuring: a wrong gradient of the bias is found") {
  const Device fake = Device::open("cuda");
  for (const bool accumulate : {false, true}) {
    ConvProblem problem = parse_problem("mb2ic3ih9oc4kh3").problem;
    problem.direction = Direction::backward_weights;
    const ConvPlan plan(
        fake, problem,
        {.algorithm = "cuda.conv.fake.fp32", .bias = true, .accumulate = accumulate});
    const auto error_with = [&](const char* fault) {
      const Playing playing{fault};
      const Measurement seen = measure({&plan, 1}, few).contestants[0];
      CHECK(seen.failure.empty());
      return seen.max_error_over_bound;
    };
    CAPTURE(accumulate);
    CHECK(error_with("") <= 1);
    CHECK(error_with("wrong_sum") > 100);
  }
}

TEST_CASE("validating on another device: right, wrong, thrown, and without memory") {
  const Device fake = Device::open("cuda");
  const auto all_are = [&](const char* fault, std::string_view algorithm, Verdict verdict,
                           const char* words) {
    const Playing playing{fault};
    const auto records = verdicts(fake, algorithm);
    REQUIRE(records.size() > 0);
    CAPTURE(fault, algorithm, records[0].sentence);
    CHECK(records[0].verdict == verdict);
    CHECK_THAT(records[0].sentence, ContainsSubstring(words));
    CHECK(records[0].device == "cuda:0");
  };
  all_are("", "cuda.conv.fake.fp32", Verdict::pass, "");
  all_are("", "cuda.conv.fake.loose", Verdict::pass, "");
  all_are("wrong", "cuda.conv.fake.fp32", Verdict::fail, "");
  all_are("launch", "cuda.conv.fake.fp32", Verdict::fail, "threw: ");
  all_are("out_of_memory", "cuda.conv.fake.fp32", Verdict::unsupported, "asked for on cuda:0");
  all_are("", "cuda.conv.fake.unbounded", Verdict::pass, "");
  all_are("wrong", "cuda.conv.fake.unbounded", Verdict::outside, "");
  all_are("launch", "cuda.conv.fake.unbounded", Verdict::fail, "threw: ");
}

TEST_CASE("memory: what is free is asked of the device and of the host separately") {
  const Device fake = Device::open("cuda");
  CHECK(fits_in_memory(fake, parse_problem("mb2ic3ih9oc4kh3").problem));
  const Support support =
      fits_in_memory(fake, parse_problem("mb1ic64ih100000iw100000oc1kh1").problem);
  CHECK(support.reason == Reason::too_large);
  CHECK_THAT(support.sentence, ContainsSubstring("bytes on cuda:0"));
}

TEST_CASE("memory: the caller's allocator gives workspace to a queue that has no native one") {
  std::set<void*> held;
  const Allocator allocator{.allocate = [&](std::size_t bytes, Memory, void* native) -> void* {
                              CHECK(native == nullptr);
                              void* data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
                              held.insert(data);
                              return data;
                            },
                            .deallocate =
                                [&](void* data, std::size_t, Memory, void*) {
                                  held.erase(data);
                                  std::free(data);
                                }};
  {
    const Device fake = Device::open("cuda", {.allocator = allocator});
    Queue queue(fake);
    void* small = queue.workspace(1000);
    CHECK(held.contains(small));
    CHECK(queue.workspace(500) == small);
    CHECK(queue.workspace(5000) != nullptr);
    CHECK(held.size() == 1);
    const ConvPlan plan(fake, HostCase().problem());
    const Playing playing{"kernel"};  // its workspace goes back although the wait for it fails
    const Tensor x(fake, DType::f32, plan.problem().x_extents());
    const Tensor w(fake, DType::f32, plan.problem().w_extents());
    const Tensor y(fake, DType::f32, plan.problem().y_extents());
    plan.execute(queue, {.x = x, .w = w, .bias = {}, .y = y});
    CHECK(refusal([&] { queue.synchronize(); }).code() == ErrorCode::device_failure);
  }
  CHECK(held.empty());
  const Playing playing{"restarted"};
  CHECK(Device::open("cuda").id() == DeviceId{"cuda", 0});
}

TEST_CASE("validating samples: a bias, a wrong corner, and extents of one") {
  const Device fake = Device::open("cuda");
  const ConvAlgorithm* judged = algorithm_named(fake, "cuda.conv.fake.fp32");
  const auto verdict = [&](const char* fault, std::int64_t k, bool bias) {
    ConvProblem problem = HostCase().problem();
    problem.k = k;
    problem.x_strides = problem.w_strides = problem.y_strides = {};
    ValidationCase test = validation_case("", problem, Placement::nchw);
    test.bias = bias;
    const Playing playing{fault};
    const auto records =
        validate(fake, {&judged, 1}, test, {.full_check_limit = 1, .tiers = {Tier::exact}});
    REQUIRE(records.size() == 1);
    return records[0];
  };
  for (const bool bias : {false, true})
    for (const std::int64_t k : {1, 4}) {
      CHECK(verdict("", k, bias).verdict == Verdict::pass);
      CHECK(verdict("wrong", k, bias).verdict == Verdict::fail);
      CHECK(verdict("nan", k, bias).verdict == Verdict::fail);
    }
}

TEST_CASE("from C: a device that fails has a status, and a validation has a verdict") {
  const CDevice fake("cuda");
  plumb_conv_problem problem;
  REQUIRE(plumb_conv_problem_init(&problem) == PLUMB_OK);
  problem.c = 2, problem.h = problem.w = 6, problem.k = 3, problem.r = problem.s = 3;
  plumb_validation seen;
  REQUIRE(plumb_validate(fake, &problem, "cuda.conv.fake.fp32", &seen) == PLUMB_OK);
  CHECK(seen.passed == 1);
  CHECK(plumb_validate(fake, &problem, "cuda.conv.fake.layout", &seen) == PLUMB_UNSUPPORTED);
  CHECK_THAT(plumb_last_message(), ContainsSubstring("a fake refuses everything"));
  {
    const Playing playing{"wrong"};
    REQUIRE(plumb_validate(fake, &problem, "cuda.conv.fake.fp32", &seen) == PLUMB_OK);
    CHECK(seen.passed == 0);
    CHECK_THAT(seen.sentence, ContainsSubstring("exact fail: "));
  }
  const Playing playing{"launch"};
  HostCase test;
  const auto in_c = [](const auto& view) {
    plumb_tensor tensor;
    REQUIRE(plumb_tensor_init(&tensor, view.data(), nullptr, PLUMB_F32, view.rank(),
                              view.extents().begin(), view.strides().begin()) == PLUMB_OK);
    return tensor;
  };
  const plumb_tensor x = in_c(test.tensors().x), w = in_c(test.tensors().w),
                     y = in_c(test.tensors().y);
  CHECK(plumb_conv_host(fake, &x, &w, nullptr, &y, nullptr, nullptr) == PLUMB_DEVICE_FAILURE);
  CHECK(plumb_last_reason() == std::string("none"));
  CHECK_THAT(plumb_last_message(), ContainsSubstring("a launch is refused"));
}

TEST_CASE("tuning on another device: forced, refused and failing algorithms") {
  const Device fake = Device::open("cuda");
  const TuneOptions options{.measure = few, .write = false};
  const auto reason_of = [](const TuneResult& result, std::string_view name) {
    for (const TunedAlgorithm& one : result.algorithms)
      if (one.algorithm == name) return one.support.reason;
    FAIL("no algorithm " << name);
    return Reason::none;
  };
  const TuneResult tuned = tune(fake, HostCase().problem(), options);
  CHECK(reason_of(tuned, "cuda.conv.fake.fp32") == Reason::none);
  CHECK(reason_of(tuned, "cuda.conv.fake.forced") == Reason::forced_only);
  CHECK(reason_of(tuned, "cuda.conv.fake.layout") == Reason::layout);
  std::string folder = (std::filesystem::temp_directory_path() / "plumb-fake-tune-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()));
  setenv("PLUMB_TUNE_CACHE", (folder + "/tune").c_str(), 1);
  {
    const Playing playing{"launch"};
    const TuneResult failing = tune(fake, HostCase().problem(), {.measure = few});
    CHECK(failing.cache_path == folder + "/tune");
    // What failed is known to be slower than anything.
    for (const auto& [algorithm, seconds] : tuned_times(fake, HostCase().problem()).times)
      CHECK(std::isinf(seconds));
  }
  unsetenv("PLUMB_TUNE_CACHE");
  std::filesystem::remove_all(folder);
}
