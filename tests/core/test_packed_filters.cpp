// Filters packed once: the same bits as with w, w free after it, and what is not taken.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/devices.hpp"
#include "support/host_tensor.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

namespace {

using Bits = std::vector<std::byte>;

ConvProblem problem_from(const char* text, DType dtype = DType::f32, const Strides& w = {}) {
  ConvProblem problem = parse_problem(text).problem;
  problem.dtype = dtype;
  problem.w_strides = w;
  return check(problem);
}

/// A convolution's tensors on a device.
class Case {
 public:
  Case(Queue& queue, const ConvProblem& problem, std::uint32_t seed = 1)
      : queue_(queue),
        x_(problem.dtype, problem.x_extents(), problem.x_strides),
        w_(problem.dtype, problem.w_extents(), problem.w_strides),
        bias_(problem.dtype, {problem.k}),
        y_(problem.dtype, problem.y_extents(), problem.y_strides) {
    Random random(seed);
    for (HostTensor* tensor : {&x_, &w_, &bias_}) tensor->fill([&] { return random.normal(); });
    on_device_.emplace(OnDevice{{queue, x_}, {queue, w_}, {queue, bias_}, {queue, y_}});
    queue.synchronize();
  }
  ConstTensorView w() const { return on_device_->w; }
  ConvTensors tensors_but_w() const {
    return {.x = on_device_->x, .bias = on_device_->bias, .y = on_device_->y};
  }
  ConvTensors tensors() const {
    ConvTensors all = tensors_but_w();
    all.w = w();
    return all;
  }
  /// NaN, as by a caller who needs the memory for something else.
  void spoil_w() {
    w_.fill([] { return NAN; });
    on_device_->w.write(queue_, w_);
    queue_.synchronize();
  }
  /// y and what lies around it, as it has become; y is NaN again. Of any thread.
  Bits take_y() {
    on_device_->y.read_back(queue_, y_);
    const Bits written = y_.bytes();
    y_.fill([] { return NAN; });
    on_device_->y.write(queue_, y_);
    queue_.synchronize();
    return written;
  }

 private:
  struct OnDevice {
    DeviceTensor x, w, bias, y;
  };
  Queue& queue_;
  HostTensor x_, w_, bias_, y_;
  std::optional<OnDevice> on_device_;
};

/// A plan for each algorithm of the device that runs the problem, those that have to be forced too.
std::vector<ConvPlan> plans(const Device& device, const ConvProblem& problem,
                            Activation activation = Activation::none) {
  std::vector<ConvPlan> all;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
    if (!ask(*algorithm, problem, device.info()).support) continue;
    all.emplace_back(device, problem,
                     ConvOptions{.math = math_class(algorithm->numerics, problem.dtype),
                                 .algorithm = std::string(algorithm->name),
                                 .bias = true,
                                 .activation = activation});
  }
  return all;
}

const char* const texts[] = {
    "mb2ic3ih9iw11oc5kh3ph1",          // runs of filters of several lengths, and padding
    "g2mb3ic6ih8iw9oc12kh3sh2ph1",     // groups
    "mb2ic70ih5oc9kh3",                // several blocks of terms
    "mb2ic8ih6oc16kh1",                // where images lie as panels
    "mb3ic4ih10oc6kh3ph1_poolmax2x2",  // pooling, fused and not
    "g8mb2ic8ih7oc8kh3ph1dh1",         // depthwise, dilated
};

}  // namespace

TEST_CASE("packed filters: the same bits as with w, which is spoilt after the packing") {
  int own = 0, copied = 0;
  for (const Device& device : all_devices())
    for (const char* text : texts)
      for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
        const ConvProblem problem = problem_from(text, dtype);
        for (const ConvPlan& plan : plans(device, problem, Activation::relu)) {
          if (!plan.algorithm().numerics.deterministic) continue;
          CAPTURE(to_string(device.id()), text, to_string(dtype), plan.algorithm().name);
          Queue queue(device);
          Case data(queue, problem);
          plan.execute(queue, data.tensors());
          const Bits expected = data.take_y();
          const PackedFilters filters = plan.pack(queue, data.w());
          REQUIRE(filters.bytes() >= size_in_bytes(dtype) * static_cast<std::size_t>(element_count(
                                                                problem.w_extents())));
          queue.synchronize();
          data.spoil_w();
          REQUIRE(plan.takes(filters));
          for (int repeat = 0; repeat < 2; ++repeat) {
            plan.execute(queue, filters, data.tensors_but_w());
            CHECK(data.take_y() == expected);
          }
          ++(plan.packs_filters() ? own : copied);
        }
      }
  CHECK(own > 0);
  CHECK(copied > 0);
}

TEST_CASE("packed filters: w in any strides") {
  const ConvProblem dense = problem_from("mb2ic4ih7oc6kh3kw2");
  const Extents w = dense.w_extents();                              // 6 4 3 2
  const Strides strides[] = {strides_in_order(w, {0, 2, 3, 1}),     // channels last
                             strides_in_order(w, {3, 1, 0, 2}, 3),  // any order, with gaps
                             {24, 6, 2, -1},                        // mirrored
                             {-24, 6, -2, 1},
                             {0, 6, 2, 1},    // the same filter for all outputs
                             {24, 0, 2, 1},   // the same for all channels
                             {1, 1, 1, 1},    // each tap a step along one row
                             {100, 9, 3, 1},  // cut out of larger ones
                             {0, 0, 0, 0}};
  for (const Device& device : all_devices())
    for (const Strides& lie : strides) {
      const ConvProblem problem = problem_from("mb2ic4ih7oc6kh3kw2", DType::f32, lie);
      for (const ConvPlan& plan : plans(device, problem)) {
        if (!plan.algorithm().numerics.deterministic) continue;
        CAPTURE(to_string(device.id()), to_string(lie), plan.algorithm().name);
        Queue queue(device);
        Case data(queue, problem);
        plan.execute(queue, data.tensors());
        const Bits expected = data.take_y();
        const PackedFilters filters = plan.pack(queue, data.w());
        queue.synchronize();
        data.spoil_w();
        plan.execute(queue, filters, data.tensors_but_w());
        CHECK(data.take_y() == expected);
      }
    }
}

TEST_CASE("packed filters: any batch, bias and activation of one problem and algorithm") {
  for (const Device& device : all_devices()) {
    Queue queue(device);
    const ConvProblem three = problem_from("mb3ic4ih8oc6kh3ph1");
    for (const ConvPlan& packer : plans(device, three)) {
      CAPTURE(packer.algorithm().name);
      Case filters_of(queue, three, 7);
      const PackedFilters filters = packer.pack(queue, filters_of.w());
      for (const char* text : {"mb1ic4ih8oc6kh3ph1", "mb40ic4ih8oc6kh3ph1", "mb0ic4ih8oc6kh3ph1"}) {
        CAPTURE(text);
        const ConvProblem problem = problem_from(text);
        const ConvPlan plan(device, problem,
                            {.math = packer.options().math,
                             .algorithm = packer.options().algorithm,
                             .activation = Activation::relu});
        REQUIRE(plan.takes(filters));
        Case data(queue, problem);
        ConvTensors tensors = data.tensors_but_w();
        tensors.bias = {};
        plan.execute(queue, filters, tensors);
        const Bits with_filters = data.take_y();
        tensors.w = filters_of.w();
        plan.execute(queue, tensors);
        if (plan.algorithm().numerics.deterministic) CHECK(data.take_y() == with_filters);
        // A plan without images packs for those with some.
        const PackedFilters of_this = plan.pack(queue, filters_of.w());
        REQUIRE(packer.takes(of_this));
      }
    }
  }
}

TEST_CASE("packed filters: what was packed for something else is refused, with what differs") {
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  const ConvProblem problem = problem_from("mb2ic4ih8oc6kh3");
  const ConvOptions direct{.algorithm = "cpu.conv.direct.fp32"};
  const ConvPlan plan(cpu, problem, direct);
  Case data(queue, problem);
  ConvTensors tensors = data.tensors_but_w();
  tensors.bias = {};
  const auto refused = [&](const PackedFilters& filters, const std::string& packed,
                           const std::string& planned) {
    CHECK_FALSE(plan.takes(filters));
    const Error e = refusal([&] { plan.execute(queue, filters, tensors); });
    CHECK(e.code() == ErrorCode::invalid_argument);
    CHECK_THAT(e.what(), ContainsSubstring(packed) && ContainsSubstring(planned));
  };
  refused({}, "no filters", "pack()");

  const ConvOptions panels{.algorithm = "cpu.conv.panels.fp32"};
  refused(ConvPlan(cpu, problem, panels).pack(queue, data.w()), "packed for cpu.conv.panels.fp32",
          "plan is for cpu.conv.direct.fp32");
  for (const char* other : {"mb2ic4ih8oc6kh3ph1", "mb2ic4ih9oc6kh3", "g2mb2ic8ih8oc6kh3",
                            "mb2ic4ih8oc6kh3_poolmax2x2"}) {
    const ConvProblem not_it = problem_from(other);
    Case its_data(queue, not_it);
    refused(ConvPlan(cpu, not_it, direct).pack(queue, its_data.w()), to_string(not_it),
            to_string(problem));
  }
  const ConvProblem mirrored = problem_from("mb2ic4ih8oc6kh3", DType::f32, {36, 9, 3, -1});
  Case mirrored_data(queue, mirrored);
  refused(ConvPlan(cpu, mirrored, direct).pack(queue, mirrored_data.w()), "-1]", "[36, 9, 3, 1]");

  if (cpu.info().instruction_set.starts_with("avx")) {
    setenv("PLUMB_CPU_ISA", "sse2", 1);
    const Device lowered = Device::open("cpu");
    unsetenv("PLUMB_CPU_ISA");
    Queue lowered_queue(lowered);
    refused(ConvPlan(lowered, problem, direct).pack(lowered_queue, data.w()),
            "packed for " + lowered.info().instruction_set, cpu.info().instruction_set);
  }
  for (const Device& device : all_devices()) {
    if (device.id() == cpu.id()) continue;
    Queue its_queue(device);
    Case its_data(its_queue, problem);
    refused(ConvPlan(device, problem).pack(its_queue, its_data.w()),
            "packed for " + to_string(device.id()), "plan is for cpu");
    CHECK(refusal([&] { plan.pack(its_queue, its_data.w()); }).code() ==
          ErrorCode::invalid_argument);
  }
}

TEST_CASE("packed filters: wrong arguments are refused before anything is done") {
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  const ConvProblem problem = problem_from("mb2ic4ih8oc6kh3");
  const ConvPlan plan(cpu, problem);
  Case data(queue, problem);
  const auto says = [](const auto& call, const std::string& words) {
    const Error e = refusal(call);
    CHECK(e.code() == ErrorCode::invalid_argument);
    CHECK_THAT(e.what(), ContainsSubstring(words));
  };
  says([&] { plan.pack(queue, {}); }, "w is missing");
  says([&] { plan.pack(queue, reshape(data.w(), {4, 6, 3, 3})); }, "[4, 6, 3, 3]");
  const void* const null = nullptr;
  says([&] { plan.pack(queue, {null, DType::f32, problem.w_extents()}); }, "null");
  says([&] { plan.pack(queue, {data.w().data(), DType::f16, problem.w_extents()}); }, "w is f16");
  says(
      [&] {
        plan.pack(queue, {data.w().data(), DType::f32, problem.w_extents(), {"cuda", 0}});
      },
      "w is on cuda:0");

  const PackedFilters filters = plan.pack(queue, data.w());
  ConvTensors tensors = data.tensors();
  tensors.bias = {};
  says([&] { plan.execute(queue, filters, tensors); }, "beside packed filters");
  tensors.w = {};
  plan.execute(queue, filters, tensors);
  says([&] { plan.execute(queue, tensors); }, "w is missing");
  says([&] { plan.execute(queue, filters, tensors, reinterpret_cast<std::byte*>(0) + 8); },
       "multiple of 256");
  tensors.bias = data.tensors().bias;
  says([&] { plan.execute(queue, filters, tensors); }, "made without");
  tensors = data.tensors_but_w();
  tensors.bias = {};
  tensors.x = {};
  says([&] { plan.execute(queue, filters, tensors); }, "x is missing");
}

TEST_CASE("packed filters: the caller's workspace is as small as it is said to be") {
  for (const Device& device : all_devices())
    for (const char* text : texts) {
      const ConvProblem problem = problem_from(text);
      for (const ConvPlan& plan : plans(device, problem)) {
        CAPTURE(to_string(device.id()), text, plan.algorithm().name);
        Queue queue(device);
        Case data(queue, problem);
        const PackedFilters filters = plan.pack(queue, data.w());
        const std::size_t saved = plan.workspace_bytes() - plan.packed_workspace_bytes();
        CHECK((plan.packs_filters() ? saved >= filters.bytes() : saved == 0));
        plan.execute(queue, filters, data.tensors_but_w());
        const Bits expected = data.take_y();

        constexpr std::size_t behind = 512;
        const auto bytes = static_cast<std::int64_t>(plan.packed_workspace_bytes() + behind);
        std::vector<BFloat16> host_memory(static_cast<std::size_t>(bytes / 2 + 1), BFloat16(NAN));
        const TensorView on_host(host_memory.data(), {bytes / 2 + 1});
        const Tensor workspace(device, DType::bf16, on_host.extents());
        copy(queue, on_host, workspace);
        plan.execute(queue, filters, data.tensors_but_w(), workspace.data());
        if (plan.algorithm().numerics.deterministic) CHECK(data.take_y() == expected);
        copy(queue, workspace, on_host);
        queue.synchronize();
        CHECK(std::all_of(host_memory.end() - behind / 2, host_memory.end(),
                          [](BFloat16 value) { return std::isnan(static_cast<float>(value)); }));
      }
    }
}

TEST_CASE("packed filters: one set on sixteen threads and queues", "[threads]") {
  const ConvProblem problem = problem_from("mb4ic3ih14oc12kh5ph2");
  for (const Device& device : all_devices())
    for (const ConvPlan& plan : plans(device, problem)) {
      if (!plan.algorithm().numerics.deterministic) continue;
      CAPTURE(to_string(device.id()), plan.algorithm().name);
      constexpr int count = 16;
      Queue packing(device);
      Case filters_of(packing, problem, 99);
      std::optional<PackedFilters> filters = plan.pack(packing, filters_of.w());
      const Event packed = packing.record();
      const auto convolve = [&](int i, const std::optional<PackedFilters>& from) {
        Queue queue(device);
        Case data(queue, problem, static_cast<std::uint32_t>(i));
        ConvTensors tensors = data.tensors_but_w();
        queue.wait(packed);
        if (from)
          plan.execute(queue, *from, tensors);
        else {
          tensors.w = filters_of.w();
          plan.execute(queue, tensors);
        }
        return data.take_y();
      };
      std::vector<Bits> alone(count), together(count);
      for (int i = 0; i < count; ++i) alone[i] = convolve(i, std::nullopt);
      std::vector<std::thread> threads;
      for (int i = 0; i < count; ++i)
        threads.emplace_back([&, i, own = filters] { together[i] = convolve(i, own); });
      filters.reset();  // theirs are copies
      for (std::thread& thread : threads) thread.join();
      CHECK(together == alone);
      CHECK(alone[0] != alone[1]);
    }
}

TEST_CASE("packed filters: the memory is the device's own, and outlives plan and device handles") {
  for (const Device& source : all_devices()) {
    const std::string name = to_string(source.id());
    CAPTURE(name);
    std::size_t held_bytes = 0;
    bool exhausted = false;
    const Allocator allocator{.allocate = [&](std::size_t bytes, Memory memory, void*) -> void* {
                                if (exhausted) return nullptr;
                                held_bytes += bytes;
                                return source.allocate(bytes, memory);
                              },
                              .deallocate =
                                  [&](void* data, std::size_t bytes, Memory memory, void*) {
                                    held_bytes -= bytes;
                                    source.deallocate(data, bytes, memory);
                                  }};
    const ConvProblem problem = problem_from("mb2ic4ih8oc6kh3");
    PackedFilters filters;
    REQUIRE(filters.empty());
    {
      const Device device = Device::open(name, {.allocator = allocator});
      Queue queue(device);
      const ConvPlan plan(device, problem);
      Case data(queue, problem);
      const std::size_t before = held_bytes;
      filters = plan.pack(queue, data.w());
      REQUIRE_FALSE(filters.empty());
      CHECK(held_bytes == before + filters.bytes());
      exhausted = true;
      const Error e = refusal([&] { plan.pack(queue, data.w()); });
      CHECK(e.code() == ErrorCode::out_of_memory);
      exhausted = false;
      queue.synchronize();
    }
    CHECK(held_bytes == filters.bytes());
    filters = {};
    CHECK(held_bytes == 0);
  }
}
