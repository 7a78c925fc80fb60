// The CPU's convolutions beside pages that may not be touched, with tensors mirrored along every
// combination of their dimensions: what is read, a vector at a time too, is what the tensors hold.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "support/host_tensor.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

enum class Side { begin, end };

/// So many bytes that begin behind, or end before, a page without access; on the other side there
/// is one too, up to a page further off.
class PagedMemory {
 public:
  PagedMemory(std::size_t bytes, Side side) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t used = (bytes + page - 1) / page * page;
    mapped_ = used + 2 * page;
    void* const all =
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(all != MAP_FAILED);
    base_ = static_cast<std::byte*>(all);
    REQUIRE(mprotect(base_, page, PROT_NONE) == 0);
    REQUIRE(mprotect(base_ + page + used, page, PROT_NONE) == 0);
    data_ = base_ + page + (side == Side::end ? used - bytes : 0);
    std::fill_n(data_, bytes, std::byte{0xff});
  }
  PagedMemory(const PagedMemory&) = delete;
  ~PagedMemory() { munmap(base_, mapped_); }
  std::byte* data() const { return data_; }

 private:
  std::byte *base_ = nullptr, *data_ = nullptr;
  std::size_t mapped_ = 0;
};

/// A tensor whose memory is that of its elements alone.
class PagedTensor {
 public:
  PagedTensor(DType dtype, const Extents& extents, const Strides& strides, Side side)
      : memory_(static_cast<std::size_t>(reach(extents, strides, true) -
                                         reach(extents, strides, false) + 1) *
                    size_in_bytes(dtype),
                side),
        view_(memory_.data() -
                  reach(extents, strides, false) * static_cast<std::int64_t>(size_in_bytes(dtype)),
              dtype, extents, host, strides) {}

  template <class F>
  void fill(const F& generate) {
    for_each_index(view_.extents(),
                   [&](const Dims& index) { store_element(view_, offset(index), generate()); });
  }
  std::vector<double> values() const {
    std::vector<double> all;
    for_each_index(view_.extents(), [&](const Dims& index) {
      all.push_back(load_element(ConstTensorView(view_), offset(index)));
    });
    return all;
  }
  const TensorView& view() const { return view_; }

 private:
  /// The highest or the lowest element, from that of index zero.
  static std::int64_t reach(const Extents& extents, const Strides& strides, bool highest) {
    std::int64_t sum = 0;
    for (int i = 0; i < extents.rank(); ++i)
      if ((strides[i] > 0) == highest) sum += (extents[i] - 1) * strides[i];
    return sum;
  }
  std::int64_t offset(const Dims& index) const {
    std::int64_t sum = 0;
    for (int i = 0; i < index.rank(); ++i) sum += index[i] * view_.stride(i);
    return sum;
  }
  PagedMemory memory_;
  TensorView view_;
};

/// Mirrored along the dimensions whose bits are set.
Strides mirrored(Strides strides, unsigned dimensions) {
  for (int i = 0; i < strides.rank(); ++i)
    if (dimensions >> i & 1) strides[i] *= -1;
  return strides;
}

struct Shape {
  std::int64_t n, c, h, w, k, r, s, stride, padding, groups;
  Layout layout;
};

/// Of every way in which x is read: where it lies, as rows of planes and of panels at strides 1 and
/// 2, masked beside padding, turned from NHWC, each channel by itself.
std::vector<Shape> shapes() {
  return {
      {2, 3, 9, 9, 4, 3, 3, 1, 0, 1, Layout::nchw},    //
      {2, 3, 9, 19, 4, 3, 3, 1, 1, 1, Layout::nchw},   //
      {2, 2, 9, 37, 3, 3, 3, 2, 0, 1, Layout::nchw},   //
      {1, 1, 5, 120, 2, 3, 5, 1, 2, 1, Layout::nchw},  // rows longer than copies of a few vectors
      {2, 20, 7, 7, 9, 3, 3, 1, 1, 1, Layout::nchw},   //
      {3, 18, 8, 8, 8, 1, 1, 1, 0, 1, Layout::nchw},   //
      {2, 17, 9, 9, 5, 1, 1, 2, 0, 1, Layout::nchw},   //
      {4, 9, 1, 1, 5, 1, 1, 1, 0, 1, Layout::nchw},    //
      {2, 3, 9, 20, 3, 1, 3, 1, 0, 3, Layout::nchw},   //
      {2, 18, 6, 7, 9, 3, 3, 1, 1, 1, Layout::nhwc},   //
      {18, 2, 4, 9, 3, 2, 3, 1, 1, 1, Layout::nchw},   // images side by side, and some left over
      {2, 20, 5, 8, 40, 3, 3, 1, 1, 5, Layout::nhwc},  // groups of eight filters share vectors
      {2, 8, 5, 6, 32, 3, 2, 1, 0, 8, Layout::nhwc},   // of four, read where they lie
  };
}

std::vector<const char*> instruction_sets() {
  std::vector<const char*> names;
  for (const char* name : {"generic", "sse2", "avx2", "avx512"}) {
    setenv("PLUMB_CPU_ISA", name, 1);
    for (const BackendReport& report : backend_reports())
      if (report.name == "cpu" && !report.devices.empty() &&
          report.devices[0].instruction_set == name)
        names.push_back(name);
  }
  unsetenv("PLUMB_CPU_ISA");
  return names;
}

/// Every algorithm of Plumb's own that runs the problem, on each of the devices.
void check_exact(const std::vector<Device>& devices, const ConvProblem& problem, Side side,
                 Random& random) {
  PagedTensor x(problem.dtype, problem.x_extents(), problem.x_strides, side);
  PagedTensor w(problem.dtype, problem.w_extents(), problem.w_strides, side);
  PagedTensor bias(problem.dtype, {problem.k}, {1}, side);
  PagedTensor y(problem.dtype, problem.y_extents(), problem.y_strides, side);
  for (PagedTensor* input : {&x, &w, &bias}) input->fill([&] { return random.integer(-3, 3); });
  const std::vector<OracleTerm> oracle = conv_oracle(problem, x.view(), w.view(), bias.view());
  for (const Device& device : devices) {
    Queue queue(device);
    for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
      if (!algorithm->name.starts_with("cpu.conv.") ||
          !algorithm->plan(problem, device.info()).support)
        continue;
      CAPTURE(algorithm->name, device.info().instruction_set, to_string(problem),
              to_string(problem.x_strides), to_string(problem.dtype), static_cast<int>(side));
      const ConvPlan plan(device, problem,
                          {.algorithm = std::string(algorithm->name), .bias = true});
      y.fill([] { return -1000; });
      // Sizes are multiples of 256 bytes, and so end where a page does.
      const PagedMemory workspace(plan.workspace_bytes(), side);
      plan.execute(queue, {x.view(), w.view(), bias.view(), y.view()}, workspace.data());
      const std::vector<double> values = y.values();
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < values.size(); ++i) wrong += values[i] != oracle[i].y;
      CHECK(wrong == 0);
    }
  }
}

}  // namespace

TEST_CASE(
    "cpu conv: mirrored tensors are not read or written outside, between pages without access") {
  std::vector<Device> devices;
  for (const char* name : instruction_sets()) {
    setenv("PLUMB_CPU_ISA", name, 1);
    devices.push_back(Device::open("cpu"));
  }
  unsetenv("PLUMB_CPU_ISA");
  REQUIRE_FALSE(devices.empty());
  Random random(21);
  for (const Shape& shape : shapes())
    for (unsigned dimensions = 0; dimensions < 16; dimensions += is_sanitized ? 5 : 1)
      for (const Side side : {Side::begin, Side::end})
        for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
          ConvProblem problem;
          problem.n = shape.n, problem.c = shape.c, problem.h = shape.h, problem.w = shape.w;
          problem.k = shape.k, problem.r = shape.r, problem.s = shape.s;
          problem.stride = shape.stride, problem.padding = shape.padding;
          problem.groups = shape.groups, problem.dtype = dtype;
          problem.x_strides = mirrored(strides_for(shape.layout, problem.x_extents()), dimensions);
          problem.w_strides = mirrored(strides_for(shape.layout, problem.w_extents()), dimensions);
          problem.y_strides = mirrored(strides_for(shape.layout, problem.y_extents()), dimensions);
          check_exact(devices, check(problem), side, random);
        }
}

TEST_CASE("cpu conv: gaps between images are not read, even where they are pages without access") {
  const std::int64_t page = sysconf(_SC_PAGESIZE) / std::int64_t{sizeof(float)};
  Queue queue(Device::open("cpu"));
  // An image ends at each second page, and what lies behind it is nobody's.
  ConvProblem problem;
  problem.n = 2, problem.c = 2, problem.h = 6, problem.w = 7, problem.k = 3, problem.r = 3,
  problem.s = 3;
  problem.x_strides = {2 * page, 42, 7, 1};
  problem = check(problem);
  const auto pages = static_cast<std::size_t>(page) * sizeof(float);
  PagedMemory memory(3 * pages, Side::begin);
  auto* const x = reinterpret_cast<float*>(memory.data()) + page - 84;
  for (std::int64_t n = 0; n < 2; ++n)
    for (std::int64_t i = 0; i < 84; ++i) x[n * 2 * page + i] = static_cast<float>(i % 7 - 3);
  REQUIRE(mprotect(memory.data() + pages, pages, PROT_NONE) == 0);
  HostTensor w(DType::f32, problem.w_extents()), y(DType::f32, problem.y_extents());
  w.fill([] { return 1; });
  const ConstTensorView view(x, DType::f32, problem.x_extents(), host, problem.x_strides);
  const std::vector<OracleTerm> oracle = conv_oracle(problem, view, w.view(), {});
  for (const char* algorithm :
       {"cpu.conv.direct.fp32", "cpu.conv.panels.fp32", "cpu.conv.im2col.fp32",
        "cpu.conv.fields.fp32", "cpu.conv.channels.fp32", "cpu.conv.images.fp32"}) {
    ConvPlan(queue.device(), problem, {.algorithm = algorithm})
        .execute(queue, {view, w.view(), {}, y.view()});
    const std::vector<double> values = y.values();
    for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == oracle[i].y);
  }
}
