// A module libplumb_cuda.so that needs no GPU: it shows one device, which is the CPU under another
// name, and goes wrong in the way that PLUMB_FAKE_FAULT names whenever it is asked. So what Plumb
// does about a device that fails can be tested on every machine.
//
//   no_driver driver_too_old no_device device_error   there is no device, for that reason
//   probe_memory          memory runs out while devices are looked for
//   probe_throws          looking for devices fails with an exception that has no reason
//   no_code_for_device    there is one, and it cannot be opened
//   out_of_memory         no memory can be allocated; out_of_memory:3 after three times that it
//                         could
//   workspace             a queue has no memory for workspace
//   launch                a kernel cannot be launched
//   without_words         launching throws an exception that says nothing
//   kernel                a kernel breaks: the next wait says so, and so does every call after it
//   restarted             as after a new start of the process: what broke works again
//   no_kernel             a kernel does nothing, so that a call takes what the host takes
//   wrong                 the first result is off by one
//   nan                   the first result is no number
//   lost_branch           what one of a queue's branches has to do is not done
//   wrong_sum             the first element of a bias's gradient is off by one
//   pinned                all memory counts as pinned
//
// With PLUMB_FAKE_VERSION, PLUMB_FAKE_ABI, PLUMB_FAKE_SYMBOL, PLUMB_FAKE_THROWS (what is thrown),
// PLUMB_FAKE_CONSTRUCTOR_THROWS or PLUMB_FAKE_NOTHING it is compiled as a module that is broken or
// another Plumb's.
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "plumb/backend.hpp"
#include "plumb/error.hpp"
#include "plumb/export.h"
#include "plumb/version.hpp"

#ifndef PLUMB_FAKE_VERSION
#define PLUMB_FAKE_VERSION plumb::version.data()
#endif
#ifndef PLUMB_FAKE_SYMBOL
#define PLUMB_FAKE_SYMBOL plumb_backend_module
#endif
#ifndef PLUMB_FAKE_ABI
#define PLUMB_FAKE_ABI plumb::BackendModule::current_abi
#endif

namespace plumb {
namespace {

std::string fault() {
  const char* name = std::getenv("PLUMB_FAKE_FAULT");
  return name ? name : "";
}

/// A kernel broke: from then on nothing works in this process, as with CUDA.
std::atomic<bool> broken = false;
std::atomic<int> allocations = 0;
/// By `cuda.conv.fake.fp32`, for the tests of planning.
std::atomic<int> plans = 0, provider_plans = 0, forks = 0;

void require_working() {
  if (broken)
    throw Error(ErrorCode::device_failure,
                "cudaStreamSynchronize: cudaErrorIllegalAddress (played by a fake)");
}

/// Only want of memory can keep the CPU away.
Backend& cpu() {
  Backend* const backend = load_backend("cpu").backend;
  if (!backend) throw std::bad_alloc();
  return *backend;
}

const ConvAlgorithm& cpu_algorithm() {
  for (const ConvAlgorithm* algorithm : cpu().conv_algorithms())
    if (algorithm->name == "cpu.conv.im2col.fp32") return *algorithm;
  throw std::logic_error("no cpu.conv.im2col.fp32 to play with");
}

ConvAlgorithm named(std::string_view name) {
  ConvAlgorithm algorithm = cpu_algorithm();
  algorithm.name = name;
  return algorithm;
}

template <Reason reason>
ConvAlgorithm refusing(std::string_view name) {
  ConvAlgorithm algorithm = named(name);
  algorithm.plan = [](const ConvProblem&, const DeviceInfo&) -> PlanResult {
    return {{reason, "a fake refuses everything"}};
  };
  return algorithm;
}

/// Another library, whose version the environment tells.
const Provider library{.name = "cudnn", .library = [] {
                         const char* version = std::getenv("PLUMB_FAKE_LIBRARY");
                         return LibraryReport{.version = version ? version : "a fake 1",
                                              .path = "/fake/libcudnn.so.9"};
                       }};
const Provider outdated_library{.name = "cudnn", .library = [] {
                                  return LibraryReport{.version = "a fake 0",
                                                       .path = "/fake/libcudnn.so.9",
                                                       .reason = Reason::provider_version,
                                                       .sentence = "a fake 0; expected 1"};
                                }};
const Provider no_library{.name = "cudnn", .library = [] {
                            return LibraryReport{.reason = Reason::provider_missing,
                                                 .sentence = "no libcudnn.so.9 (played by a fake)"};
                          }};

template <const Provider& provider>
ConvAlgorithm of_library(std::string_view name) {
  ConvAlgorithm algorithm = named(name);
  algorithm.provider = &provider;
  algorithm.plan = [](const ConvProblem& problem, const DeviceInfo& device) -> PlanResult {
    ++provider_plans;
    if (const LibraryReport found = provider.library(); found.reason != Reason::none)
      return {{found.reason, found.sentence}};
    PlanResult plan = cpu_algorithm().plan(problem, device);
    plan.estimate_seconds = 1e-15;  // by which it must not be chosen
    return plan;
  };
  return algorithm;
}

std::span<const ConvAlgorithm* const> fake_algorithms() {
  static const ConvAlgorithm provided = of_library<library>("cudnn.conv.fake.sum");
  static const ConvAlgorithm outdated = of_library<outdated_library>("cudnn.conv.fake.outdated");
  static const ConvAlgorithm uninstalled = of_library<no_library>("cudnn.conv.fake.missing");
  static const ConvAlgorithm winograd = [&] {
    ConvAlgorithm algorithm = of_library<library>("cudnn.conv.fake.winograd");
    algorithm.forced_only = true;
    algorithm.numerics.bounded = false;
    return algorithm;
  }();
  static const ConvAlgorithm works = [] {
    ConvAlgorithm algorithm = named("cuda.conv.fake.fp32");
    algorithm.plan = [](const ConvProblem& problem, const DeviceInfo& device) {
      ++plans;
      return cpu_algorithm().plan(problem, device);
    };
    return algorithm;
  }();
  static const ConvAlgorithm layout = refusing<Reason::layout>("cuda.conv.fake.layout");
  static const ConvAlgorithm geometry = refusing<Reason::geometry>("cuda.conv.fake.geometry");
  static const ConvAlgorithm limit = refusing<Reason::device_limit>("cuda.conv.fake.device_limit");
  static const ConvAlgorithm forced = [] {
    ConvAlgorithm algorithm = named("cuda.conv.fake.forced");
    algorithm.forced_only = true;
    algorithm.forward_alone = true;
    return algorithm;
  }();
  static const ConvAlgorithm loose = [] {
    ConvAlgorithm algorithm = named("cuda.conv.fake.loose");
    algorithm.numerics.deterministic = false;
    algorithm.plan = [](const ConvProblem& problem, const DeviceInfo& device) {
      PlanResult plan = cpu_algorithm().plan(problem, device);
      plan.estimate_seconds = 1e9;
      return plan;
    };
    return algorithm;
  }();
  static const ConvAlgorithm many = [] {
    ConvAlgorithm algorithm = named("cuda.conv.fake.many");
    algorithm.plan = [](const ConvProblem& problem, const DeviceInfo& device) -> PlanResult {
      if (problem.n <= 1 || problem.n >= 4)
        return {{Reason::geometry, "a fake wants two or three images"}};
      PlanResult plan = cpu_algorithm().plan(problem, device);
      plan.estimate_seconds = 1e-12;
      return plan;
    };
    return algorithm;
  }();
  static const ConvAlgorithm unbounded = [] {
    ConvAlgorithm algorithm = named("cuda.conv.fake.unbounded");
    algorithm.forced_only = true;
    algorithm.numerics.bounded = algorithm.numerics.keeps_non_finite = false;
    return algorithm;
  }();
  static const std::array list{&works, &layout,    &geometry, &limit,    &forced,      &loose,
                               &many,  &unbounded, &provided, &outdated, &uninstalled, &winograd};
  return list;
}

class FakeEvent final : public BackendEvent {
 public:
  explicit FakeEvent(std::shared_ptr<BackendEvent> event) : event_(std::move(event)) {}
  void synchronize() const override { require_working(); }
  bool done() const override { return true; }
  double seconds_since(const BackendEvent& earlier) const override {
    return event_->seconds_since(*static_cast<const FakeEvent&>(earlier).event_);
  }

 private:
  std::shared_ptr<BackendEvent> event_;
};

/// Branches do nothing before they are joined, and then in turns, the last one first: whatever one
/// needs of another, or takes from it, goes wrong.
class FakeQueue final : public BackendQueue {
 public:
  explicit FakeQueue(std::shared_ptr<BackendQueue> queue, bool waits = false)
      : queue_(std::move(queue)), waits_(waits) {}
  void* native() const override { return nullptr; }
  void fork(int branches) override {
    if (!branches_.empty() || waits_) throw std::logic_error("a queue that has forked forks");
    for (int i = 1; i < branches; ++i)
      branches_.push_back(std::make_unique<FakeQueue>(queue_, true));
    forks += 1;
  }
  BackendQueue& branch(int number) override {
    if (number == 0) return *this;
    return *branches_.at(static_cast<std::size_t>(number) - 1);
  }
  void join() override {
    if (fault() == "lost_branch") branches_.pop_back();
    for (bool any = true; any;) {
      any = false;
      for (auto branch = branches_.rbegin(); branch != branches_.rend(); ++branch) {
        auto& work = (*branch)->work_;
        if (work.empty()) continue;
        any = true;
        work.front()();
        work.pop_front();
      }
    }
    branches_.clear();
  }
  void synchronize() override { require_working(); }
  std::shared_ptr<BackendEvent> record() override {
    require_working();
    return std::make_shared<FakeEvent>(queue_->record());
  }
  void wait(const BackendEvent&) override { require_working(); }
  void copy(void* to, const void* from, std::size_t bytes) override {
    require_working();
    queue_->copy(to, from, bytes);
  }
  void* workspace(std::size_t bytes) override {
    if (fault() == "workspace")
      throw Error(ErrorCode::out_of_memory, "no workspace on cuda:0 (played by a fake)");
    return queue_->workspace(bytes);
  }
  void pack_filters(const ConvAlgorithm& algorithm, const FilterPacking& packing,
                    const KernelPlan* plan) override {
    require_working();
    queue_->pack_filters(algorithm, packing, plan);
  }
  void conv(const ConvAlgorithm& algorithm, const ConvLaunch& launch,
            const KernelPlan* plan) override {
    require_working();
    if (fault() == "launch")
      throw Error(ErrorCode::device_failure, "cuda:0: a launch is refused (played by a fake)");
    if (fault() == "without_words") throw std::runtime_error("");
    if (fault() == "kernel") {
      broken = true;
      return;
    }
    if (fault() == "no_kernel") return;
    // A launch refers to what may be gone later.
    if (waits_)
      return work_.push_back(
          [this, &algorithm, plan, launch, problem = launch.problem, device = launch.device] {
            queue_->conv(algorithm, later(launch, problem, device), plan);
          });
    queue_->conv(algorithm, launch, plan);
    if (fault() == "wrong") static_cast<float*>(launch.y)[0] += 1;
    if (fault() == "nan") static_cast<float*>(launch.y)[0] = std::nanf("");
  }
  void pad(const PadLaunch& launch) override {
    now_or_later([this, launch] { queue_->pad(launch); });
  }
  void join_phases(const PhasesLaunch& launch) override { queue_->join_phases(launch); }
  void sum_channels(const SumLaunch& launch) override {
    queue_->sum_channels(launch);
    if (fault() == "wrong_sum") static_cast<float*>(launch.y.data())[0] += 1;
  }
  void relu_backward(const ConstTensorView& y, const ConstTensorView& dy,
                     const TensorView& dx) override {
    queue_->relu_backward(y, dy, dx);
  }
  void add(const AddLaunch& launch) override {
    now_or_later([this, launch] { queue_->add(launch); });
  }
  void pool(const PoolLaunch& launch) override { queue_->pool(launch); }
  void relu(const ConstTensorView& x, const TensorView& y) override {
    now_or_later([this, x, y] { queue_->relu(x, y); });
  }
  void softmax(const ConstTensorView& x, const TensorView& y) override { queue_->softmax(x, y); }
  void resize_bilinear(const ConstTensorView& x, const TensorView& y) override {
    queue_->resize_bilinear(x, y);
  }
  void pool_backward(const PoolBackwardLaunch& launch) override { queue_->pool_backward(launch); }
  void resize_bilinear_backward(const ConstTensorView& dy, const TensorView& dx) override {
    queue_->resize_bilinear_backward(dy, dx);
  }
  void softmax_cross_entropy(const CrossEntropyLaunch& launch) override {
    queue_->softmax_cross_entropy(launch);
  }
  void sgd_step(const SgdLaunch& launch) override { queue_->sgd_step(launch); }

 private:
  static ConvLaunch later(const ConvLaunch& launch, const ConvProblem& problem,
                          const DeviceInfo& device) {
    return {.problem = problem,
            .device = device,
            .x = launch.x,
            .w = launch.w,
            .filters = launch.filters,
            .bias = launch.bias,
            .y = launch.y,
            .activation = launch.activation,
            .accumulate = launch.accumulate,
            .reproducible = launch.reproducible,
            .workspace = launch.workspace,
            .native_queue = launch.native_queue};
  }
  void now_or_later(std::function<void()> work) {
    if (waits_) return work_.push_back(std::move(work));
    work();
  }

  std::shared_ptr<BackendQueue> queue_;
  bool waits_;  ///< a branch
  std::deque<std::function<void()>> work_;
  std::vector<std::unique_ptr<FakeQueue>> branches_;
};

DeviceInfo fake_info() {
  const BackendProbe probe = cpu().probe();
  if (probe.devices.empty()) throw std::bad_alloc();
  DeviceInfo info = probe.devices.front();
  info.id = {"cuda", 0};
  info.name = "a CPU that plays a GPU";
  return info;
}

class FakeDevice final : public BackendDevice {
 public:
  FakeDevice() : device_(cpu().open(0)), info_(fake_info()) {}
  const DeviceInfo& info() const override { return info_; }
  std::size_t free_bytes() const override { return device_->free_bytes(); }
  void* allocate(std::size_t bytes, Memory memory) override {
    require_working();
    const std::string now = fault();
    if (now.starts_with("out_of_memory")) {
      int left = 0;
      if (const std::size_t colon = now.find(':'); colon != std::string::npos)
        std::from_chars(now.data() + colon + 1, now.data() + now.size(), left);
      if (allocations++ >= left) {
        allocations = 0;
        throw Error(ErrorCode::out_of_memory,
                    std::to_string(bytes) + " bytes asked for on cuda:0 (played by a fake)");
      }
    }
    return device_->allocate(bytes, memory);
  }
  void deallocate(void* memory, Memory kind) noexcept override {
    device_->deallocate(memory, kind);
  }
  bool is_pinned(const void*) const noexcept override { return fault() == "pinned"; }
  std::unique_ptr<BackendQueue> make_queue() override {
    require_working();
    return std::make_unique<FakeQueue>(device_->make_queue());
  }
  std::unique_ptr<BackendQueue> wrap_queue(void* native) override {
    return std::make_unique<FakeQueue>(device_->wrap_queue(native));
  }
  DeviceCeilings measure_ceilings() override { return device_->measure_ceilings(); }
  double clock_hertz() override { return 0; }

 private:
  std::unique_ptr<BackendDevice> device_;
  DeviceInfo info_;
};

class FakeBackend final : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  std::string version() const override { return "a fake"; }
  std::span<const ConvAlgorithm* const> conv_algorithms() const override {
    return fake_algorithms();
  }
  BackendProbe probe() const noexcept override try {
    if (fault() == "probe_memory") throw std::bad_alloc();
    if (fault() == "probe_throws") throw std::runtime_error("played by a fake");
    for (const Reason reason :
         {Reason::no_driver, Reason::driver_too_old, Reason::no_device, Reason::device_error})
      if (fault() == to_string(reason))
        return {.devices = {}, .reason = reason, .sentence = "played by a fake"};
    return {.devices = {fake_info()}, .reason = Reason::none, .sentence = {}};
  } catch (...) {
    return failed_probe();
  }
  std::unique_ptr<BackendDevice> open(int) override {
    if (fault() == "no_code_for_device")
      throw Error(ErrorCode::device_unavailable, "this build holds no code (played by a fake)",
                  Reason::no_code_for_device);
    if (fault() == "restarted") broken = false;
    if (broken)
      throw Error(ErrorCode::device_unavailable, "the device is broken (played by a fake)",
                  Reason::device_error);
    return std::make_unique<FakeDevice>();
  }
};

#ifdef PLUMB_FAKE_CONSTRUCTOR_THROWS
const bool constructed = []() -> bool { throw std::bad_alloc(); }();
#endif

Backend& fake_backend() {
#ifdef PLUMB_FAKE_THROWS
  throw PLUMB_FAKE_THROWS;
#endif
  static FakeBackend backend;
  return backend;
}

}  // namespace
}  // namespace plumb

extern "C" PLUMB_API int plumb_fake_plans() { return plumb::plans; }
extern "C" PLUMB_API int plumb_fake_provider_plans() { return plumb::provider_plans; }
extern "C" PLUMB_API int plumb_fake_forks() { return plumb::forks; }

extern "C" PLUMB_API const plumb::BackendModule* PLUMB_FAKE_SYMBOL() {
  static const plumb::BackendModule module{PLUMB_FAKE_ABI, PLUMB_FAKE_VERSION,
                                           &plumb::fake_backend};
#ifdef PLUMB_FAKE_NOTHING
  return nullptr;
#endif
  return &module;
}
