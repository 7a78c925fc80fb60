// A program that was compiled before plumb.h had depths, boundaries and accumulation: the structs
// and functions as its header declared them, copied here and never to be changed. This file must
// not include plumb.h, nor anything that does.
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace old_plumb {

struct OldGeometry {
  std::int64_t stride_h, stride_w, dilation_h, dilation_w;
  std::int64_t padding_top, padding_left, padding_bottom, padding_right, groups;
  std::int32_t pool;
};
struct OldProblem {
  std::int64_t n, c, h, w, k, r, s;
  OldGeometry geometry;
  const std::int64_t *x_strides, *w_strides, *y_strides;
  std::int32_t dtype;
};
struct OldOptions {
  std::int32_t math, activation, bias, deterministic;
  std::size_t workspace_limit_bytes;
  const char* algorithm;
};
struct OldTensor {
  void* data;
  const void* device;
  std::int32_t dtype, rank;
  std::int64_t extents[6], strides[6];
};
struct OldCandidate {
  const char *algorithm, *reason, *sentence, *remedy;
  double estimate_seconds, measured_seconds;
  std::size_t workspace_bytes;
  std::int32_t error_class, deterministic, pool_fused, chosen;
};

extern "C" {
std::int32_t plumb_device_open(const char*, const void*, void** device);
void plumb_device_close(void* device);
std::int32_t plumb_queue_create(const void* device, void** queue);
void plumb_queue_destroy(void* queue);
std::int32_t plumb_conv_geometry_init(OldGeometry*);
std::int32_t plumb_conv_problem_init(OldProblem*);
std::int32_t plumb_conv_options_init(OldOptions*);
std::int32_t plumb_conv_output_extents(const OldProblem*, std::int64_t extents[4]);
std::int32_t plumb_plan_create(const void* device, const OldProblem*, const OldOptions*,
                               void** plan);
void plumb_plan_destroy(void* plan);
std::int32_t plumb_plan_execute(const void* plan, void* queue, const void* x, const void* w,
                                const void* bias, void* y, void* workspace);
std::int32_t plumb_plan_explain(const void* plan, void** explanation);
std::int32_t plumb_explanation_entry(const void* explanation, std::size_t, OldCandidate*);
void plumb_explanation_destroy(void* explanation);
std::int32_t plumb_tensor_init(OldTensor*, const void* data, const void* device, std::int32_t dtype,
                               std::int32_t rank, const std::int64_t* extents,
                               const std::int64_t* strides);
std::int32_t plumb_conv(void* queue, const OldTensor* x, const OldTensor* w, const OldTensor* bias,
                        const OldTensor* y, const OldGeometry*, const OldOptions*);
std::int32_t plumb_conv_host(const void* device, const OldTensor* x, const OldTensor* w,
                             const OldTensor* bias, const OldTensor* y, const OldGeometry*,
                             const OldOptions*);
}

}  // namespace old_plumb

using namespace old_plumb;

namespace {

/// A struct with memory around it that nobody may write.
template <class Struct>
struct Guarded {
  unsigned char before[64];
  Struct value;
  unsigned char after[64];
  Guarded() { std::memset(static_cast<void*>(this), 0xa5, sizeof *this); }
  bool is_intact() const {
    bool intact = true;
    for (const unsigned char byte : before) intact = intact && byte == 0xa5;
    for (const unsigned char byte : after) intact = intact && byte == 0xa5;
    return intact;
  }
};

constexpr int height = 5, width = 6, rows = 3, columns = 5;

/// A filter of 2x3 over zeros, in steps of two rows; with one row of zeros above.
std::vector<float> by_loops(const std::vector<float>& x, const std::vector<float>& w, float bias) {
  std::vector<float> y;
  for (int p = 0; p < rows; ++p)
    for (int q = 0; q < columns; ++q) {
      float sum = bias;
      for (int r = 0; r < 2; ++r)
        for (int s = 0; s < 3; ++s) {
          const int row = 2 * p + r - 1, column = q + s;
          if (row >= 0 && row < height && column < width)
            sum += x[static_cast<std::size_t>(row * width + column)] *
                   w[static_cast<std::size_t>(r * 3 + s)];
        }
      y.push_back(sum > 0 ? sum : 0);
    }
  return y;
}

}  // namespace

TEST_CASE("c: a program compiled against the header before depths and boundaries runs as it did") {
  void *device = nullptr, *queue = nullptr, *plan = nullptr, *explanation = nullptr;
  REQUIRE(plumb_device_open("cpu", nullptr, &device) == 0);
  REQUIRE(plumb_queue_create(device, &queue) == 0);
  Guarded<OldProblem> problem;
  REQUIRE(plumb_conv_problem_init(&problem.value) == 0);
  REQUIRE(problem.is_intact());
  problem.value.h = height;
  problem.value.w = width;
  problem.value.r = 2;
  problem.value.s = 3;
  Guarded<OldGeometry> geometry;
  REQUIRE(plumb_conv_geometry_init(&geometry.value) == 0);
  REQUIRE(geometry.is_intact());
  geometry.value.stride_h = 2;
  geometry.value.padding_top = geometry.value.padding_right = 1;
  problem.value.geometry = geometry.value;
  Guarded<OldOptions> options;
  REQUIRE(plumb_conv_options_init(&options.value) == 0);
  REQUIRE(options.is_intact());
  options.value.bias = options.value.activation = 1;
  std::int64_t extents[4];
  REQUIRE(plumb_conv_output_extents(&problem.value, extents) == 0);
  REQUIRE(std::vector<std::int64_t>(extents, extents + 4) ==
          std::vector<std::int64_t>{1, 1, rows, columns});

  std::vector<float> x, w{1, -2, 3, 2, 1, -1}, bias{-3};
  for (int i = 0; i < height * width; ++i) x.push_back(static_cast<float>(i * 7 % 11 - 4));
  const std::vector<float> expected = by_loops(x, w, bias[0]);
  const std::vector<float> untouched(expected.size() + 1, -99);  // and one that stays
  std::vector<float> right = expected;
  right.push_back(-99);

  std::vector<float> y = untouched;
  REQUIRE(plumb_plan_create(device, &problem.value, &options.value, &plan) == 0);
  REQUIRE(plumb_plan_execute(plan, queue, x.data(), w.data(), bias.data(), y.data(), nullptr) == 0);
  CHECK(y == right);
  Guarded<OldCandidate> candidate;
  REQUIRE(plumb_plan_explain(plan, &explanation) == 0);
  REQUIRE(plumb_explanation_entry(explanation, 0, &candidate.value) == 0);
  CHECK(candidate.is_intact());
  plumb_explanation_destroy(explanation);
  plumb_plan_destroy(plan);

  Guarded<OldTensor> tx, tw, tb, ty;
  const std::int64_t of_x[] = {1, 1, height, width}, of_w[] = {1, 1, 2, 3}, of_bias[] = {1};
  REQUIRE(plumb_tensor_init(&tx.value, x.data(), nullptr, 0, 4, of_x, nullptr) == 0);
  REQUIRE(plumb_tensor_init(&tw.value, w.data(), nullptr, 0, 4, of_w, nullptr) == 0);
  REQUIRE(plumb_tensor_init(&tb.value, bias.data(), nullptr, 0, 1, of_bias, nullptr) == 0);
  REQUIRE(plumb_tensor_init(&ty.value, y.data(), nullptr, 0, 4, extents, nullptr) == 0);
  CHECK((tx.is_intact() && tw.is_intact() && tb.is_intact() && ty.is_intact()));
  for (const bool on_queue : {true, false}) {
    y = untouched;
    REQUIRE((on_queue ? plumb_conv(queue, &tx.value, &tw.value, &tb.value, &ty.value,
                                   &geometry.value, &options.value)
                      : plumb_conv_host(device, &tx.value, &tw.value, &tb.value, &ty.value,
                                        &geometry.value, &options.value)) == 0);
    CHECK(y == right);
  }
  plumb_queue_destroy(queue);
  plumb_device_close(device);
}
