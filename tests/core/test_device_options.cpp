// What a caller brings to a device: an allocator of their own, and a place for messages.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <map>
#include <mutex>

#include "support/devices.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using plumb_test::refusal;

namespace {

/// A caller's pool: memory of another device of the same kind, with a record of who holds what.
struct CallersMemory {
  struct Piece {
    std::size_t bytes = 0;
    Memory memory = Memory::device;
    void* native_queue = nullptr;
  };
  Device source;
  std::mutex mutex;
  std::map<void*, Piece> held;
  std::size_t given = 0;
  bool returned_otherwise = false;

  explicit CallersMemory(const std::string& spec) : source(plumb_test::device_or_skip(spec)) {}

  Allocator allocator() {
    return {.allocate =
                [this](std::size_t bytes, Memory memory, void* native_queue) {
                  void* data = source.allocate(bytes, memory);
                  const std::lock_guard lock(mutex);
                  held[data] = {bytes, memory, native_queue};
                  ++given;
                  return data;
                },
            .deallocate =
                [this](void* data, std::size_t bytes, Memory memory, void* native_queue) {
                  const std::lock_guard lock(mutex);
                  const Piece piece = held[data];
                  if (piece.bytes != bytes || piece.memory != memory ||
                      piece.native_queue != native_queue)
                    returned_otherwise = true;
                  held.erase(data);
                  source.deallocate(data, bytes, memory);
                }};
  }
};

/// A convolution that needs workspace, for filters packed, or columns of the image. Kokkos' need
/// none.
ConvPlan plan_with_workspace(const Device& device) {
  const ConvProblem problem{.n = 1, .c = 8, .h = 20, .w = 20, .k = 8, .r = 3, .s = 3};
  for (const ConvCandidate& candidate : explain(device, problem)) {
    if (!candidate.support || candidate.workspace_bytes == 0) continue;
    return ConvPlan(device, problem, {.algorithm = std::string(candidate.algorithm)});
  }
  INFO("no algorithm of " << to_string(device.id()) << " takes workspace");
  REQUIRE(device.id().backend == "kokkos");
  return ConvPlan(device, problem);
}

}  // namespace

TEST_CASE("tensors and workspaces come from the caller's allocator and go back to it") {
  for (const std::string& name : plumb_test::backend_names()) {
    DYNAMIC_SECTION(name) {
      CallersMemory callers(name);
      {
        const Device device = Device::open(name, {.allocator = callers.allocator()});
        const ConvPlan plan = plan_with_workspace(device);
        const ConvProblem& problem = plan.problem();
        const Tensor x(device, DType::f32, problem.x_extents());
        const Tensor w(device, DType::f32, problem.w_extents());
        const Tensor y(device, DType::f32, problem.y_extents());
        const Tensor pinned(device, DType::f32, {7}, {}, Memory::pinned_host);
        REQUIRE(callers.given == 4);
        REQUIRE(callers.held.contains(x.data()));
        REQUIRE(callers.held.at(pinned.data()).memory == Memory::pinned_host);
        REQUIRE(callers.held.at(pinned.data()).bytes == 28);

        Queue queue(device);
        plan.execute(queue, {.x = x, .w = w, .y = y});
        REQUIRE(callers.given == (plan.workspace_bytes() > 0 ? 5 : 4));
        plan.execute(queue, {.x = x, .w = w, .y = y});
        void* workspace = queue.workspace(1);
        REQUIRE(callers.given == 5);  // the queue keeps it
        REQUIRE(callers.held.at(workspace).native_queue == queue.native());
        REQUIRE(callers.held.at(workspace).bytes >= plan.workspace_bytes());

        queue.workspace(2 * plan.workspace_bytes() + 256);
        REQUIRE(callers.given == 6);
        REQUIRE(callers.held.size() == 5);  // the smaller one went back
        queue.synchronize();
      }
      REQUIRE(callers.held.empty());
      REQUIRE_FALSE(callers.returned_otherwise);
    }
  }
}

TEST_CASE("an allocator that has nothing, or the wrong thing, is an Error") {
  bool misaligned = false;
  int returned = 0;
  alignas(256) static std::byte memory[512];
  const Allocator allocator{.allocate = [&](std::size_t, Memory, void*) -> void* {
                              return misaligned ? memory + 8 : nullptr;
                            },
                            .deallocate = [&](void*, std::size_t, Memory, void*) { ++returned; }};
  const Device device = Device::open("cpu", {.allocator = allocator});
  const Error none = refusal([&] { Tensor(device, DType::f32, {25}); });
  REQUIRE(none.code() == ErrorCode::out_of_memory);
  REQUIRE_THAT(none.what(), ContainsSubstring("100 bytes"));
  REQUIRE(returned == 0);
  Queue queue(device);
  REQUIRE(refusal([&] { queue.workspace(64); }).code() == ErrorCode::out_of_memory);

  misaligned = true;
  const Error crooked = refusal([&] { Tensor(device, DType::f32, {25}); });
  REQUIRE(crooked.code() == ErrorCode::invalid_argument);
  REQUIRE_THAT(crooked.what(), ContainsSubstring("multiple of 256"));
  REQUIRE(returned == 1);
}

TEST_CASE("an allocator without a deallocator is refused") {
  const auto allocate = [](std::size_t, Memory, void*) -> void* { return nullptr; };
  const Error e = refusal([&] { Device::open("cpu", {.allocator = {.allocate = allocate}}); });
  REQUIRE(e.code() == ErrorCode::invalid_argument);
  REQUIRE_THAT(e.what(), ContainsSubstring("cannot deallocate"));
}

TEST_CASE("messages go to the device's own log and to nobody else's") {
  std::vector<std::string> heard, heard_by_other;
  const auto into = [](std::vector<std::string>& lines) {
    return [&lines](std::string_view line) { lines.emplace_back(line); };
  };
  const Device device = Device::open("cpu", {.log = into(heard)});
  const Device other = Device::open("cpu", {.log = into(heard_by_other)});
  const Device silent = Device::open("cpu");
  const ConvProblem problem{.n = 1, .h = 5, .w = 5, .r = 3, .s = 3};
  const ConvPlan plan(device, problem);
  REQUIRE(heard.size() == 1);
  REQUIRE_THAT(heard[0], ContainsSubstring(std::string(plan.algorithm().name)));
  REQUIRE(heard[0].find('\n') == std::string::npos);
  const ConvPlan unheard(silent, problem);
  REQUIRE(heard.size() == 1);
  REQUIRE(heard_by_other.empty());
}

TEST_CASE("auto tells the log what it passed over") {
  std::string heard;
  const Device device =
      Device::open("auto", {.log = [&](std::string_view line) { heard += line; }});
  REQUIRE(heard.empty() == device.why().empty());
  if (!device.why().empty()) REQUIRE_THAT(heard, ContainsSubstring(device.why()));
}
