// What is refused before anything runs: operators, plans, copies and pipelines that get tensors
// which do not fit, with the value met in the message.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <vector>

#include "plumb/nn.hpp"
#include "support/pipeline_case.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Refused {
  std::function<void()> call;
  const char* words;
};

void require_refused(const std::vector<Refused>& all) {
  for (const Refused& one : all) {
    INFO(one.words);
    const Error error = refusal(one.call);
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK_THAT(error.what(), ContainsSubstring(one.words));
  }
}

}  // namespace

TEST_CASE("refusals: operators around convolution") {
  Queue queue(Device::open("cpu"));
  std::vector<float> from(64, 1), to(64, 7);
  const ConstTensorView image(from.data(), {1, 1, 8, 8}), rows(from.data(), {4, 8});
  const TensorView y_image(to.data(), {1, 1, 8, 8}), y_rows(to.data(), {4, 8});
  const ConstTensorView halves(from.data(), DType::f16, {4, 8});
  const ConstTensorView nowhere(nullptr, DType::f32, {4, 8});
  const ConstTensorView elsewhere(from.data(), DType::f32, {4, 8}, DeviceId{"cuda", 1});
  const PoolGeometry two{.window = {2, 2}, .stride = {2, 2}};
  const auto padded = [&](auto change) {
    PoolGeometry geometry = two;
    change(geometry);
    return pooled_extents({1, 1, 8, 8}, geometry);
  };
  require_refused({
      {[&] { relu(queue, halves, y_rows); }, "relu: x is f16, y is f32; expected one dtype"},
      {[&] { relu(queue, elsewhere, y_rows); }, "x is on cuda:1; the queue is on cpu"},
      {[&] { relu(queue, nowhere, y_rows); }, "x of [4, 8] has no data (a null pointer)"},
      {[&] {
         relu(queue, rows, TensorView(nullptr, DType::f32, {4, 8}));
       },
       "y of [4, 8] has no data"},
      {[&] { relu(queue, rows, y_image); }, "y is [1, 1, 8, 8]; expected [4, 8]"},
      {[&] { softmax(queue, image, y_image); }, "x has extents [1, 1, 8, 8]; expected two, N C"},
      {[&] {
         softmax(queue, rows, TensorView(to.data(), {8, 4}));
       },
       "y is [8, 4]; expected [4, 8]"},
      {[&] { resize_bilinear(queue, rows, y_rows); }, "x has extents [4, 8]; expected four"},
      {[&] { resize_bilinear(queue, image, y_rows); }, "y has extents [4, 8]; expected four"},
      {[&] {
         resize_bilinear(queue, image, TensorView(to.data(), {1, 2, 4, 4}));
       },
       "y is [1, 2, 4, 4]; expected [1, 1, 4, 4]"},
      {[&] { pool(queue, rows, y_rows, two); }, "x has extents [4, 8]; expected three to five"},
      {[&] { pool(queue, image, y_image, two); }, "y is [1, 1, 8, 8]; expected [1, 1, 4, 4]"},
      {[&] { padded([](auto& g) { g.padding.top = 2; }); },
       "padding 2 and 0 along rows; expected 0 to 1, less than the window"},
      {[&] { padded([](auto& g) { g.padding.right = 3; }); },
       "padding 0 and 3 along columns; expected 0 to 1"},
      {[&] { padded([](auto& g) { g.stride.w = 0; }); }, "stride.w"},
      {[&] {
         pooled_extents({1, 1, 8, 8, 8}, {.window = 2, .padding = {0, 0, 0, 2, 0, 0}});
       },
       "padding 0 and 2 along planes; expected 0 to 1, less than the window"},
      {[&] {
         pooled_extents({1, 1, 8, 8, 8}, {.window = 2, .stride = {0, 1, 1}});
       },
       "stride.d"},
      {[&] { padded([](auto& g) { g.window.h = 9; }); }, "window"},
      {[&] { linear(queue, {.x = image, .w = rows, .bias = {}, .y = y_rows}); },
       "linear: x has extents [1, 1, 8, 8]; expected two"},
  });
  CHECK(to == std::vector<float>(64, 7));
}

TEST_CASE("refusals: operators wait for their queue where PLUMB_SYNC asks for it") {
  Queue queue(Device::open("cpu"));
  std::vector<float> x{-1, 2, -3, 4}, y(4);
  for (const char* value : {"", "0", "1"}) {
    setenv("PLUMB_SYNC", value, 1);
    y.assign(4, 7);
    relu(queue, ConstTensorView(x.data(), {4}), TensorView(y.data(), {4}));
    CHECK(y == std::vector<float>{0, 2, 0, 4});
    std::vector<float> sum(1), w{10};
    conv(queue, {.x = ConstTensorView(x.data() + 1, {1, 1, 1, 1}),
                 .w = ConstTensorView(w.data(), {1, 1, 1, 1}),
                 .bias = {},
                 .y = TensorView(sum.data(), {1, 1, 1, 1})});
    CHECK(sum[0] == 20);
  }
  unsetenv("PLUMB_SYNC");
}

TEST_CASE("refusals: copies, slices, layouts and dimensions") {
  Queue queue(Device::open("cpu"));
  std::vector<float> from(32), to(32, 7);
  const ConstTensorView x(from.data(), {4, 8});
  const auto view = [&](DType dtype, const Extents& extents, const Strides& strides) {
    return TensorView(to.data(), dtype, extents, host, strides);
  };
  const ConstTensorView none(nullptr, DType::f32, {4, 8});
  require_refused({
      {[&] {
         copy(queue, x, view(DType::f16, {4, 8}, {8, 1}));
       },
       "copy from f32 [4, 8]"},
      {[&] {
         copy(queue, x, view(DType::f32, {8, 4}, {4, 1}));
       },
       "to f32 [8, 4]"},
      {[&] {
         copy(queue, x, view(DType::f32, {4, 8}, {1, 1}));
       },
       "overlap"},
      {[&] {
         copy(queue, none, view(DType::f32, {4, 8}, {8, 1}));
       },
       "expected no null pointer"},
      {[&] {
         copy(queue, x, TensorView(nullptr, DType::f32, {4, 8}));
       },
       "expected no null pointer"},
      {[&] { slice(x, -1, 0, 1); }, "slice of dimension -1 of a tensor of rank 2"},
      {[&] { slice(x, 2, 0, 1); }, "slice of dimension 2 of a tensor of rank 2"},
      {[&] { slice(x, 0, -1, 1); }, "slice [-1, -1 + 1)"},
      {[&] { slice(x, 0, 0, -1); }, "slice [0, 0 + -1)"},
      {[&] { slice(x, 0, 1, 4); }, "slice [1, 1 + 4) of an extent of 4"},
      {[&] {
         strides_for(Layout::nhwc, {4, 8});
       },
       "extents [4, 8]; a layout is for rank 3 to 5"},
  });
  CHECK(to == std::vector<float>(32, 7));
  CHECK(slice(x, 0, 4, 0).extents() == Extents{0, 8});
}

TEST_CASE("refusals: a pipeline's problem and tensors, one thing wrong at a time") {
  const Device cpu = Device::open("cpu");
  PipelineCase test(pipeline_problem(3));
  const auto make = [&](auto change) {
    ConvProblem problem = test.problem();
    change(problem);
    ConvPipeline(cpu, problem, test.options());
  };
  ConvPipeline with(cpu, test.problem(), test.options());
  ConvOptions unbiased = test.options();
  unbiased.bias = false;
  ConvPipeline without(cpu, test.problem(), unbiased);
  const auto run = [&](ConvPipeline& pipeline, auto change) {
    ConvTensors tensors = test.tensors();
    change(tensors);
    pipeline.run(tensors);
  };
  require_refused({
      {[&] { make([](auto& p) { p.x_strides[3] = -1; }); }, "expected images without gaps"},
      {[&] { make([](auto& p) { p.x_strides[2] = 0; }); }, "expected images without gaps"},
      {[&] { make([](auto& p) { p.w_strides[0] = -p.w_strides[0]; }); },
       "expected filters without gaps"},
      {[&] { run(without, [](auto&) {}); }, "a bias is given; it was planned without"},
      {[&] { run(with, [](auto& t) {
               t.x = {t.x.data(), DType::f16, t.x.extents()};
             }); },
       "x is f16 [3, 4, 9, 11]"},
      {[&] {
         run(with, [](auto& t) {
           t.w = {t.w.data(), DType::f32, t.w.extents(), host, {1, 6, 12, 36}};
         });
       },
       "w is f32 [6, 2, 3, 2] with strides [1, 6, 12, 36]"},
  });
  CHECK(to_string(static_cast<PipelineStage>(99)) == "unknown");
}

TEST_CASE("refusals: strides along an extent of one have no say") {
  const Device cpu = Device::open("cpu");
  ConvProblem problem = pipeline_problem(1);
  PipelineCase test(problem);
  ConvTensors tensors = test.tensors();
  Strides strides = tensors.x.strides();
  strides[0] = 12345;
  tensors.x = {tensors.x.data(), DType::f32, tensors.x.extents(), host, strides};
  const auto expected =
      test.resident(cpu, ConvPlan(cpu, test.problem(), test.options()).algorithm().name);
  ConvPipeline(cpu, test.problem(), test.options()).run(tensors);
  CHECK((test.y().bytes() == expected));
  Queue queue(cpu);
  ConvPlan(cpu, test.problem(), test.options()).execute(queue, tensors);
  CHECK((test.y().bytes() == expected));
  strides = tensors.x.strides();
  strides[1] += 1;
  tensors.x = {tensors.x.data(), DType::f32, tensors.x.extents(), host, strides};
  require_refused({{[&] { ConvPlan(cpu, test.problem(), test.options()).execute(queue, tensors); },
                    "x is [1, 4, 9, 11] with strides [12345, 100, 11, 1]; the plan is for"}});
}

TEST_CASE("refusals: nothing is needed of a tensor without elements") {
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  relu(queue, ConstTensorView(nullptr, DType::f32, {0, 3}),
       TensorView(nullptr, DType::f32, {0, 3}));
  ConvProblem problem = pipeline_problem(0);
  const ConvPlan plan(cpu, problem);
  PipelineCase test(problem, false);
  ConvTensors tensors = test.tensors();
  const auto before = test.y().bytes();
  tensors.x = {nullptr, DType::f32, tensors.x.extents()};
  plan.execute(queue, tensors);
  ConvPipeline(cpu, problem).run(tensors);
  CHECK((test.y().bytes() == before));
}

TEST_CASE("refusals: devices, allocators and memory of the caller's") {
  const auto only = [](Allocator allocator) {
    Device::open("cpu", {.allocator = std::move(allocator)});
  };
  const auto allocate = [](std::size_t, Memory, void*) -> void* { return nullptr; };
  const auto deallocate = [](void*, std::size_t, Memory, void*) { FAIL("nothing was allocated"); };
  require_refused({{[&] { only({.allocate = allocate}); }, "an allocator that cannot deallocate"},
                   {[&] { only({.deallocate = deallocate}); }, "an allocator that cannot allocate"},
                   {[] { Device::open("cpu:{"); }, "'{' is no index"}});
  const Device empty = Device::open("cpu", {.allocator = {allocate, deallocate}});
  for (const auto& [memory, words] :
       {std::pair{Memory::device, "no 100 bytes of device memory"},
        {Memory::pinned_host, "no 100 bytes of pinned host memory"}}) {
    const Error error = refusal([&, memory = memory] { empty.allocate(100, memory); });
    CHECK(error.code() == ErrorCode::out_of_memory);
    CHECK_THAT(error.what(), ContainsSubstring(words));
    empty.deallocate(nullptr, 100, memory);
  }
}

TEST_CASE("refusals: one convolution after the other, more than plans are kept") {
  Queue queue(Device::open("cpu"));
  const float w = 3;
  for (int round = 0; round < 2; ++round)
    for (std::int64_t width = 1; width <= 200; ++width) {
      std::vector<float> x(static_cast<std::size_t>(width), 2), y(x.size());
      conv(queue, {.x = ConstTensorView(x.data(), {1, 1, 1, width}),
                   .w = ConstTensorView(&w, {1, 1, 1, 1}),
                   .bias = {},
                   .y = TensorView(y.data(), {1, 1, 1, width})});
      REQUIRE(y == std::vector<float>(x.size(), 6));
    }
  std::vector<float> x(4), y(4);
  require_refused({{[&] {
                      conv(queue, {.x = ConstTensorView(x.data(), {1, 1, 2, 2}),
                                   .w = ConstTensorView(&w, {1, 1, 1, 1}),
                                   .bias = {},
                                   .y = TensorView(y.data(), DType::f16, {1, 1, 2, 2})});
                    },
                    "f16"}});
}
