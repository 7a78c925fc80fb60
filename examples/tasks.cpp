// The tasks of docs/api.md, and one of docs/never_falls_over.md, a function each: the pages show
// what stands between their braces. The program runs them on the best device of the machine, or on
// the one it is given, and checks what they compute.
#include <plumb/plumb.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace {

std::vector<float> convolve_two_arrays(const plumb::Device& device) {
  std::vector<float> image(2 * 3 * 8 * 8, 1), filters(4 * 3 * 3 * 3, 1), result(2 * 4 * 6 * 6);
  conv_host(device, {.x = {image.data(), {2, 3, 8, 8}},     // N C H W
                     .w = {filters.data(), {4, 3, 3, 3}},   // K C R S
                     .y = {result.data(), {2, 4, 6, 6}}});  // N K P Q
  return result;
}

std::vector<double> filter_a_field(const plumb::Device& device) {
  std::vector<double> field(20 * 16 * 12, 1), stencil(3 * 3 * 3, 1.0 / 27), smooth(20 * 16 * 12);
  conv_host(device,
            {.x = {field.data(), {1, 1, 20, 16, 12}},    // N C D H W
             .w = {stencil.data(), {1, 1, 3, 3, 3}},     // K C T R S
             .y = {smooth.data(), {1, 1, 20, 16, 12}}},  // N K Z P Q
            {.padding = 1, .boundary = plumb::Boundary::periodic});
  return smooth;
}

std::vector<float> add_to_what_is_there(const plumb::Device& device) {
  std::vector<float> signal(1000, 1), taps(5, 1), sum(1000, 1);
  conv_host(device,
            {.x = {signal.data(), {1, 1, 1000}},  // N C W
             .w = {taps.data(), {1, 1, 5}},       // K C S
             .y = {sum.data(), {1, 1, 1000}}},    // N K Q
            {.padding = 2, .boundary = plumb::Boundary::clamp}, {.accumulate = true});
  return sum;
}

/// Of a layer y = relu(conv(x, w) + bias), from the gradient by y.
void take_gradients(plumb::Queue& queue, const plumb::Tensor& x, const plumb::Tensor& w,
                    const plumb::Tensor& y, const plumb::Tensor& dy, const plumb::Tensor& dx,
                    const plumb::Tensor& dw, const plumb::Tensor& db) {
  const plumb::ConvGeometry geometry{.stride = 2, .padding = 1};
  conv_backward_data(queue, {.dy = dy, .w = w, .dx = dx, .mask = y}, geometry);
  conv_backward_weights(queue, {.x = x, .dy = dy, .dw = dw, .db = db, .mask = y}, geometry);
}

std::string choose_a_device() {
  plumb::Device device = plumb::Device::open();  // PLUMB_DEVICE, or the first GPU, or the CPU
  try {
    device = plumb::Device::open("cuda:0");  // this one or none
  } catch (const plumb::Error& e) {
    std::printf("%s\n", e.what());  // what is missing: a driver, a device, code for it, ...
  }
  return device.info().name;
}

std::vector<float> keep_data_on_the_device(const plumb::Device& device) {
  const std::vector<float> image(3 * 8 * 8, 1), filters(4 * 3 * 3 * 3, 1);
  std::vector<float> result(4 * 8 * 8);
  plumb::Queue queue(device);
  plumb::Tensor x(device, plumb::DType::f32, {1, 3, 8, 8});
  plumb::Tensor w(device, plumb::DType::f32, {4, 3, 3, 3});
  plumb::Tensor y(device, plumb::DType::f32, {1, 4, 8, 8});
  copy(queue, {image.data(), x.extents()}, x);
  copy(queue, {filters.data(), w.extents()}, w);
  conv(queue, {.x = x, .w = w, .y = y}, {.padding = 1});
  relu(queue, y, y);
  copy(queue, y, {result.data(), y.extents()});
  queue.synchronize();
  return result;
}

/// Everything on the caller's stream, in the caller's memory: nothing is allocated, and nobody
/// waits.
void embed_in_my_stream(const plumb::Device& device, void* stream, const float* x, const float* w,
                        float* y, void* workspace, std::size_t workspace_bytes) {
  plumb::ConvProblem problem;
  problem.n = 1, problem.c = 3, problem.h = 8, problem.w = 8;
  problem.k = 4, problem.r = 3, problem.s = 3;
  const plumb::ConvPlan plan(device, problem, {.workspace_limit_bytes = workspace_bytes});

  plumb::Queue queue = plumb::Queue::wrap(device, stream);  // a cudaStream_t; null on the CPU
  const auto f32 = plumb::DType::f32;
  plan.execute(queue,
               {.x = {x, f32, problem.x_extents(), device.id()},
                .w = {w, f32, problem.w_extents(), device.id()},
                .y = {y, f32, problem.y_extents(), device.id()}},
               workspace);
}

void pack_filters_once(plumb::Queue& queue, const plumb::ConvPlan& plan, plumb::Tensor w,
                       const std::vector<plumb::ConvTensors>& batches) {
  const plumb::PackedFilters filters = plan.pack(queue, w);
  queue.synchronize();
  w = {};  // its memory is free again
  for (const plumb::ConvTensors& batch : batches)
    plan.execute(queue, filters, {.x = batch.x, .y = batch.y});
  queue.synchronize();  // before the memory of `filters` is freed
}

bool check_against_the_oracle(const plumb::Device& device) {
  const plumb::ConvProblem problem = plumb::parse_problem("mb2ic3ih17iw19oc4kh3ph1").problem;
  const auto test = plumb::validation_case("mine", problem, plumb::Placement::nhwc);
  bool right = true;
  for (const plumb::ValidationRecord& record :
       plumb::validate(device, plumb::conv_algorithms(device), test)) {
    right = right && record.verdict != plumb::Verdict::fail;
    if (record.verdict != plumb::Verdict::pass) std::printf("%s\n", record.sentence.c_str());
  }
  return right;
}

std::string see_what_is_chosen(const plumb::Device& device, const plumb::ConvProblem& problem) {
  std::string chosen;
  for (const plumb::ConvCandidate& candidate : plumb::explain(device, problem)) {
    const std::string name(candidate.algorithm);
    if (candidate.chosen) chosen = name;
    if (candidate.support)
      std::printf("%s: about %.3g s\n", name.c_str(), candidate.estimate_seconds);
    else
      std::printf("%s: %s\n", name.c_str(), candidate.support.sentence.c_str());
  }
  return chosen;
}

plumb::Math allow_less_accurate_arithmetic(const plumb::Device& device,
                                           const plumb::ConvProblem& problem) {
  const plumb::ConvPlan plan(device, problem, {.math = plumb::Math::tf32});
  return math_class(plan.algorithm().numerics, problem.dtype);  // what it is: tf32, fp32 or fp64
}

std::vector<float> use_another_layout(const plumb::Device& device) {
  std::vector<float> image(8 * 8 * 3, 1), filters(4 * 3 * 3 * 3, 1), result(6 * 6 * 4);
  const plumb::Extents x{1, 3, 8, 8}, w{4, 3, 3, 3}, y{1, 4, 6, 6};  // N C H W, always
  const auto nhwc = plumb::Layout::nhwc;
  conv_host(device, {.x = {image.data(), x, plumb::strides_for(nhwc, x)},
                     .w = {filters.data(), w},
                     .y = {result.data(), y, plumb::strides_for(nhwc, y)}});
  return result;
}

std::size_t stream_a_large_batch(const plumb::Device& device, const std::vector<float>& images,
                                 const std::vector<float>& filters, std::vector<float>& results) {
  const plumb::ConvProblem problem = plumb::parse_problem("mb500ic3ih8oc4kh3").problem;
  plumb::ConvPipeline pipeline(device, problem, {}, {.memory_budget_bytes = 1 << 20});
  pipeline.run({.x = {images.data(), problem.x_extents()},
                .w = {filters.data(), problem.w_extents()},
                .y = {results.data(), problem.y_extents()}});
  return pipeline.device_bytes();
}

std::vector<float> stream_gradients(const plumb::Device& device, const std::vector<float>& images,
                                    const std::vector<float>& gradients) {
  const plumb::ConvProblem problem = plumb::parse_problem("mb500ic3ih8oc4kh3").problem;
  std::vector<float> by_filters(4 * 3 * 3 * 3);
  conv_backward_weights_host(device,
                             {.x = {images.data(), problem.x_extents()},
                              .dy = {gradients.data(), problem.y_extents()},
                              .dw = {by_filters.data(), problem.w_extents()}},
                             problem, {.deterministic = true}, {.memory_budget_bytes = 1 << 20});
  return by_filters;
}

void classify_with_a_network(plumb::Queue& queue, const plumb::Tensor& maps,
                             const plumb::Tensor& weights, const plumb::Tensor& classes) {
  const plumb::PoolGeometry halves{.window = 2, .stride = 2};
  const plumb::Tensor pooled(queue.device(), maps.dtype(), pooled_extents(maps.extents(), halves));
  pool(queue, maps, pooled, halves);
  const std::int64_t n = maps.extents()[0], features = weights.extents()[1];
  linear(queue, {.x = reshape(pooled.view(), {n, features}), .w = weights, .y = classes});
  softmax(queue, classes, classes);
  queue.synchronize();  // before the memory of `pooled` is freed
}

std::string tune_it(const plumb::Device& device, const plumb::ConvProblem& problem) {
  plumb::TuneOptions options;
  options.measure.seconds_limit = 0.05;  // for each algorithm
  options.write = false;  // true: later plans, of later processes too, know the times
  std::string fastest;
  double seconds = INFINITY;
  for (const auto& one : plumb::tune(device, problem, options).algorithms)
    if (one.support && one.measurement.failure.empty() && one.measurement.median_seconds < seconds)
      fastest = one.algorithm, seconds = one.measurement.median_seconds;
  return fastest;
}

void go_on_with_the_cpu(const plumb::Device& device,
                        const std::function<void(const plumb::Device&)>& run) {
  try {
    run(device);
  } catch (const plumb::Error& failure) {
    run(device.fall_back(failure));  // the CPU; throws the failure on where that is not called for
  }
}

std::string act_on_errors(const plumb::Device& device) try {
  plumb::ConvProblem problem;
  problem.c = 3, problem.groups = 2;
  return std::string(plumb::ConvPlan(device, problem).algorithm().name);
} catch (const plumb::Error& e) {
  if (e.code() == plumb::ErrorCode::out_of_memory) return "try a smaller batch";
  return e.what();  // names the value met and what was expected
}

int failures = 0;

void expect(bool truth, const char* task) {
  std::printf("%s: %s\n", task, truth ? "right" : "wrong");
  failures += !truth;
}

bool all_are(const std::vector<float>& values, float value) {
  return std::all_of(values.begin(), values.end(), [&](float one) { return one == value; });
}

bool streams_on(const plumb::Device& device) {
  const plumb::Tensor x(device, plumb::DType::f32, {1, 3, 8, 8});
  const plumb::Tensor w(device, plumb::DType::f32, {4, 3, 3, 3});
  const plumb::Tensor y(device, plumb::DType::f32, {1, 4, 6, 6});
  const plumb::Tensor workspace(device, plumb::DType::f32, {1 << 18});
  const std::vector<float> image(3 * 8 * 8, 1), filters(4 * 3 * 3 * 3, 1);
  std::vector<float> result(4 * 6 * 6);
  plumb::Queue queue(device);
  copy(queue, {image.data(), x.extents()}, x);
  copy(queue, {filters.data(), w.extents()}, w);
  embed_in_my_stream(device, queue.native(), x.data_as<float>(), w.data_as<float>(),
                     y.data_as<float>(), workspace.data(), 1 << 20);
  copy(queue, y, {result.data(), y.extents()});
  queue.synchronize();
  return all_are(result, 27);
}

bool packs_on(const plumb::Device& device) {
  const plumb::ConvProblem problem = check(plumb::parse_problem("mb2ic3ih8oc4kh3").problem);
  const std::vector<float> images(2 * 3 * 8 * 8, 1), filters(4 * 3 * 3 * 3, 1);
  std::vector<float> result(2 * 4 * 6 * 6);
  plumb::Queue queue(device);
  const plumb::Tensor x(device, problem.dtype, problem.x_extents());
  plumb::Tensor w(device, problem.dtype, problem.w_extents());
  const plumb::Tensor y(device, problem.dtype, problem.y_extents());
  copy(queue, {images.data(), x.extents()}, x);
  copy(queue, {filters.data(), w.extents()}, w);
  pack_filters_once(queue, plumb::ConvPlan(device, problem), std::move(w),
                    {{.x = x, .y = y}, {.x = x, .y = y}});
  copy(queue, y, {result.data(), y.extents()});
  queue.synchronize();
  return all_are(result, 27);
}

bool takes_gradients_on(const plumb::Device& device) {
  const std::vector<float> ones(2 * 3 * 8 * 8, 1);
  std::vector<float> by_x(2 * 3 * 8 * 8), by_bias(4);
  plumb::Queue queue(device);
  const plumb::DType f32 = plumb::DType::f32;
  const plumb::Tensor x(device, f32, {2, 3, 8, 8}), dx(device, f32, {2, 3, 8, 8});
  const plumb::Tensor w(device, f32, {4, 3, 3, 3}), dw(device, f32, {4, 3, 3, 3});
  const plumb::Tensor y(device, f32, {2, 4, 4, 4}), dy(device, f32, {2, 4, 4, 4});
  const plumb::Tensor db(device, f32, {4});
  for (const plumb::Tensor* one : {&x, &w, &y, &dy})
    copy(queue, {ones.data(), one->extents()}, one->view());
  take_gradients(queue, x, w, y, dy, dx, dw, db);
  copy(queue, dx, {by_x.data(), dx.extents()});
  copy(queue, db, {by_bias.data(), db.extents()});
  queue.synchronize();
  // Pixels of odd rows and columns have four windows over them, of four filters each.
  return all_are(by_bias, 2 * 4 * 4) && by_x[9] == 16 && by_x[0] == 4;
}

bool classifies_on(const plumb::Device& device) {
  plumb::Queue queue(device);
  const std::vector<float> ones(10 * 36, 1);
  std::vector<float> shares(2 * 10);
  const plumb::Tensor maps(device, plumb::DType::f32, {2, 4, 6, 6});
  const plumb::Tensor weights(device, plumb::DType::f32, {10, 36});
  const plumb::Tensor classes(device, plumb::DType::f32, {2, 10});
  copy(queue, {ones.data(), maps.extents()}, maps);
  copy(queue, {ones.data(), weights.extents()}, weights);
  classify_with_a_network(queue, maps, weights, classes);
  copy(queue, classes.view(), {shares.data(), classes.extents()});
  queue.synchronize();
  return std::all_of(shares.begin(), shares.end(),
                     [](float share) { return std::fabs(share - 0.1f) < 1e-6f; });
}

}  // namespace

int main(int count, char** arguments) try {
  const plumb::Device device = plumb::Device::open(count > 1 ? arguments[1] : "");
  const plumb::ConvProblem problem = plumb::parse_problem("mb2ic3ih32oc4kh3").problem;
  const std::vector<float> images(500 * 3 * 8 * 8, 1), filters(4 * 3 * 3 * 3, 1);
  std::vector<float> results(500 * 4 * 6 * 6);

  expect(all_are(convolve_two_arrays(device), 27), "convolve two arrays");
  const std::vector<double> smooth = filter_a_field(device);
  expect(std::all_of(smooth.begin(), smooth.end(),
                     [](double value) { return std::fabs(value - 1) < 1e-14; }),
         "filter a field");
  expect(all_are(add_to_what_is_there(device), 6), "add to what is there");
  expect(!choose_a_device().empty(), "choose a device");
  const std::vector<float> padded = keep_data_on_the_device(device);
  expect(padded[0] == 12 && padded[9] == 27, "keep data on the device");
  expect(streams_on(device), "embed in my stream");
  expect(packs_on(device), "pack filters once");
  expect(check_against_the_oracle(device), "check against the oracle");
  expect(!see_what_is_chosen(device, problem).empty(), "see what is chosen");
  expect(plumb::allows(plumb::Math::tf32, allow_less_accurate_arithmetic(device, problem)),
         "allow less accurate arithmetic");
  expect(all_are(use_another_layout(device), 27), "use another layout");
  expect(stream_a_large_batch(device, images, filters, results) <= 1 << 20 && all_are(results, 27),
         "stream a large batch");
  expect(all_are(stream_gradients(device, images, results), 27 * 500 * 36), "stream gradients");
  expect(takes_gradients_on(device), "take gradients");
  expect(classifies_on(device), "classify with a network");
  expect(!tune_it(device, problem).empty(), "tune");
  int runs = 0;
  go_on_with_the_cpu(device, [&](const plumb::Device& on) {
    ++runs;
    conv_host(on, {.x = {images.data(), {500, 3, 8, 8}},
                   .w = {filters.data(), {4, 3, 3, 3}},
                   .y = {results.data(), {500, 4, 6, 6}}});
  });
  expect(runs == 1 && all_are(results, 27), "go on with the CPU");
  expect(act_on_errors(device).find("groups") != std::string::npos, "act on errors");
  return failures ? 1 : 0;
} catch (const std::exception& e) {
  std::printf("threw: %s\n", e.what());
  return 1;
}
