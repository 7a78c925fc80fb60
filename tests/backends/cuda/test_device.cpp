// The CUDA backend where it differs from the others: what it says without a GPU, and with one its
// devices and memory. That its results are right is tested for every device.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "plumb/backend.hpp"
#include "support/devices.hpp"
#include "support/refusal.hpp"
#ifdef PLUMB_TEST_CUDA
#include "cuda_case.hpp"
#endif

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using plumb_test::refusal;

namespace {

BackendReport cuda_report() {
  for (const BackendReport& report : backend_reports())
    if (report.name == "cuda") return report;
  FAIL("no backend cuda in the list");
  throw;
}

}  // namespace

TEST_CASE("cuda: without a GPU it is an error with a reason, and auto goes on to the CPU") {
  const BackendReport report = cuda_report();
  if (!report.devices.empty()) SKIP("there is a GPU");
  if (plumb_test::is_required("cuda")) FAIL(report.sentence);
#ifdef PLUMB_TEST_CUDA
  REQUIRE(report.reason != Reason::module_missing);
  REQUIRE_THAT(report.version, ContainsSubstring("CUDA runtime "));
  if (report.version.find("no driver") != std::string::npos)
    REQUIRE(report.reason == Reason::no_driver);
#else
  REQUIRE(report.reason == Reason::module_missing);
#endif
  for (const char* spec : {"cuda", "cuda:0", "cuda:99"}) {
    const Error e = refusal([&] { Device::open(spec); });
    REQUIRE(e.code() == ErrorCode::device_unavailable);
    REQUIRE(e.reason() == report.reason);
    REQUIRE_THAT(e.what(), ContainsSubstring(spec) && ContainsSubstring(report.sentence));
  }
  const Device device = Device::open("auto");
  REQUIRE(device.id() == host);
  REQUIRE_THAT(device.why(), ContainsSubstring("cuda") && ContainsSubstring(report.sentence));
}

#ifdef PLUMB_TEST_CUDA
using namespace plumb_test::cuda;

TEST_CASE("cuda: an index that is not there is refused with the number that is") {
  gpu();
  const std::size_t count = cuda_report().devices.size();
  const Error e = refusal([] { Device::open("cuda:99"); });
  REQUIRE(e.code() == ErrorCode::device_unavailable);
  REQUIRE(e.reason() == Reason::no_device);
  REQUIRE_THAT(e.what(), ContainsSubstring("cuda:99") && ContainsSubstring(std::to_string(count)));
  Backend* backend = load_backend("cuda").backend;
  REQUIRE(refusal([&] { backend->open(static_cast<int>(count)); }).reason() == Reason::no_device);
  REQUIRE(refusal([&] { backend->open(-1); }).reason() == Reason::no_device);
}

TEST_CASE("cuda: a device says what it is") {
  const DeviceInfo info = gpu().info();
  REQUIRE(info.id == DeviceId{"cuda", 0});
  REQUIRE_FALSE(info.name.empty());
  REQUIRE(info.instruction_set ==
          "sm_" + std::to_string(info.compute_major) + std::to_string(info.compute_minor));
  REQUIRE(info.compute_major >= 8);
  REQUIRE(info.units > 0);
  REQUIRE(info.memory_bytes > (std::size_t{1} << 30));
  REQUIRE(info.shared_memory_bytes >= 48 * 1024);
  REQUIRE(info.driver_version >= 12000);
  // Any GPU with code here lies between these by far; a wrong unit does not.
  REQUIRE(info.nominal_bytes_per_second > 5e10);
  REQUIRE(info.nominal_bytes_per_second < 1e14);
  REQUIRE(info.nominal_fp32_flop_per_second > 5e11);
  REQUIRE(info.nominal_fp32_flop_per_second < 1e15);
  REQUIRE_THAT(cuda_report().version,
               ContainsSubstring("CUDA runtime ") && ContainsSubstring(", driver "));
}

TEST_CASE("cuda: pinned memory is the host's, and copies both ways") {
  const Device device = gpu();
  Queue queue(device);
  const Extents extents{1000};
  const Tensor from(device, DType::f32, extents, {}, Memory::pinned_host);
  const Tensor there(device, DType::f32, extents);
  const Tensor back(device, DType::f32, extents, {}, Memory::pinned_host);
  REQUIRE(from.view().device() == host);
  REQUIRE(there.view().device() == device.id());
  cudaPointerAttributes attributes{};
  expect(cudaPointerGetAttributes(&attributes, from.data()));
  REQUIRE(attributes.type == cudaMemoryTypeHost);
  expect(cudaPointerGetAttributes(&attributes, there.data()));
  REQUIRE(attributes.type == cudaMemoryTypeDevice);
  REQUIRE(reinterpret_cast<std::uintptr_t>(there.data()) % 256 == 0);

  const std::vector<float> values = counting(1000, 5);
  std::copy(values.begin(), values.end(), from.data_as<float>());
  std::fill_n(back.data_as<float>(), 1000, 0.0f);
  copy(queue, from, there);
  copy(queue, there, back);
  queue.synchronize();
  REQUIRE(std::equal(values.begin(), values.end(), back.data_as<float>()));
}

TEST_CASE("cuda: the workspace grows in the stream's order") {
  const Device device = gpu();
  Queue queue(device);
  const auto stream = static_cast<cudaStream_t>(queue.native());
  constexpr std::size_t small_bytes = 1 << 20, large_bytes = 64 << 20;
  const Tensor seen(device, DType::f32, {small_bytes / 4}, {}, Memory::pinned_host);

  void* small = queue.backend().workspace(small_bytes);
  REQUIRE(reinterpret_cast<std::uintptr_t>(small) % 256 == 0);
  REQUIRE(queue.backend().workspace(small_bytes / 2) == small);
  expect(cudaMemsetAsync(small, 0x2a, small_bytes, stream));
  expect(cudaMemcpyAsync(seen.data(), small, small_bytes, cudaMemcpyDefault, stream));
  void* large = queue.backend().workspace(large_bytes);  // while that is still under way
  REQUIRE(reinterpret_cast<std::uintptr_t>(large) % 256 == 0);
  expect(cudaMemsetAsync(large, 0x55, large_bytes, stream));
  queue.synchronize();
  const auto* bytes = seen.data_as<unsigned char>();
  REQUIRE(std::all_of(bytes, bytes + small_bytes, [](unsigned char b) { return b == 0x2a; }));
  REQUIRE(queue.backend().workspace(small_bytes) == large);
}

// compute-sanitizer counts the failing allocation itself as an error: leave this tag out there, or
// turn off its reports of API errors.
TEST_CASE("cuda: out of memory names the sizes, and the device goes on", "[out_of_memory]") {
  const Device device = gpu();
  const auto elements = static_cast<std::int64_t>(device.info().memory_bytes / 2);
  const std::string bytes = std::to_string(elements * 4);
  Queue queue(device);
  const Error tensor = refusal([&] { Tensor(device, DType::f32, {elements}); });
  REQUIRE(tensor.code() == ErrorCode::out_of_memory);
  REQUIRE_THAT(tensor.what(), ContainsSubstring(bytes) && ContainsSubstring("cuda:0") &&
                                  ContainsSubstring("free") &&
                                  ContainsSubstring("cudaErrorMemoryAllocation"));
  const Error workspace =
      refusal([&] { queue.backend().workspace(static_cast<std::size_t>(elements) * 4); });
  REQUIRE(workspace.code() == ErrorCode::out_of_memory);
  REQUIRE_THAT(workspace.what(), ContainsSubstring(bytes));

  SmallConv conv(device);
  ConvPlan(device, conv.problem).execute(queue, conv.tensors());
  REQUIRE(download(queue, conv.y) == conv.expected(1));
  REQUIRE(queue.backend().workspace(256) != nullptr);
}

TEST_CASE("cuda: the caller's current device stays current") {
  gpu();
  const int count = static_cast<int>(cuda_report().devices.size());
  if (count < 2) SKIP("one GPU: there is no other to be current");
  for (int current = 0; current < 2; ++current) {
    const int used = 1 - current;
    expect(cudaSetDevice(current));
    const auto still_current = [&] {
      int now = -1;
      expect(cudaGetDevice(&now));
      return now == current;
    };
    {
      const Device device = Device::open("cuda:" + std::to_string(used));
      REQUIRE(still_current());
      REQUIRE(device.free_bytes() > 0);
      REQUIRE(still_current());
      Queue queue(device);
      const Tensor x(device, DType::f32, {64, 64}), y(device, DType::f32, {64, 64});
      const Tensor pinned(device, DType::f32, {64, 64}, {}, Memory::pinned_host);
      REQUIRE(still_current());
      std::fill_n(pinned.data_as<float>(), 64 * 64, -2.0f);
      copy(queue, pinned, x);
      relu(queue, x, y);
      softmax(queue, x, y);
      copy(queue, y, pinned);
      REQUIRE(still_current());
      const Event event = queue.record();
      queue.wait(event);
      event.synchronize();
      REQUIRE(event.done());
      REQUIRE(still_current());
      REQUIRE(pinned.data_as<float>()[0] == 1.0f / 64);
      queue.backend().workspace(4096);
      REQUIRE(still_current());
    }
    REQUIRE(still_current());
  }
  expect(cudaSetDevice(0));
}
#endif
