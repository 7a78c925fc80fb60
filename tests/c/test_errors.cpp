// The C interface refuses: every function with a status, and nothing is thrown across.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/c_handles.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace plumb_test;

namespace {

/// The functions of the C headers that return a status, read from the headers themselves.
std::set<std::string> functions_with_status() {
  const std::regex declaration(R"(PLUMB_API plumb_status (plumb_\w+)\()");
  std::set<std::string> names;
  for (const char* header : {PLUMB_C_HEADERS}) {
    std::ifstream file(header);
    REQUIRE(file);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    for (std::sregex_iterator i(text.begin(), text.end(), declaration), end; i != end; ++i)
      names.insert((*i)[1]);
  }
  return names;
}

}  // namespace

TEST_CASE("c: every function refuses NULL with a status and a message") {
  // All else is right, so that the NULL is what is refused.
  const CDevice device;
  const CQueue queue(device);
  const CPlan plan(device, small_problem());
  std::int32_t number = 0;
  std::size_t bytes = 0;
  double seconds = 0;
  void* data = nullptr;
  const char* text = nullptr;
  std::int64_t extents[4] = {1, 1, 4, 4};
  plumb_device_info info;
  plumb_candidate candidate;
  plumb_validation validation;
  plumb_event* event = nullptr;
  REQUIRE(plumb_queue_record(queue, &event) == PLUMB_OK);
  plumb_explanation* explanation = nullptr;
  REQUIRE(plumb_plan_explain(plan, &explanation) == PLUMB_OK);
  plumb_device* opened = nullptr;
  plumb_queue* made_queue = nullptr;
  plumb_event* made_event = nullptr;
  plumb_plan* made_plan = nullptr;
  plumb_packed_filters *filters = nullptr, *made_filters = nullptr;
  const std::vector<float> w(4 * 3 * 3 * 3);
  REQUIRE(plumb_plan_pack(plan, queue, w.data(), &filters) == PLUMB_OK);
  plumb_explanation* made_explanation = nullptr;
  const plumb_conv_problem problem = small_problem();
  std::int64_t all_extents[5];
  plumb_conv_problem_nd deep;
  REQUIRE(plumb_conv_problem_nd_init(&deep) == PLUMB_OK);
  plumb_linear_gradients linear;
  REQUIRE(plumb_linear_gradients_init(&linear) == PLUMB_OK);
  const plumb_labels labels{.data = extents, .count = 1, .stride = 1, .device = nullptr};
  plumb_pool_geometry pooling;
  plumb_pool_geometry_init(&pooling);
  plumb_tensor x;
  REQUIRE(plumb_tensor_init(&x, extents, nullptr, PLUMB_F32, 4, extents, nullptr) == PLUMB_OK);

  linear.dy = &x;
  const std::multimap<std::string, plumb_status> refused = {
      {"plumb_device_count", plumb_device_count(nullptr, &number)},
      {"plumb_device_count", plumb_device_count("cpu", nullptr)},
      {"plumb_device_open", plumb_device_open("cpu", nullptr, nullptr)},
      {"plumb_device_open_providers",
       plumb_device_open_providers("cpu", nullptr, nullptr, nullptr)},
      {"plumb_device_copy", plumb_device_copy(nullptr, &opened)},
      {"plumb_device_copy", plumb_device_copy(device, nullptr)},
      {"plumb_device_get_info", plumb_device_get_info(nullptr, &info)},
      {"plumb_device_get_info", plumb_device_get_info(device, nullptr)},
      {"plumb_device_free_bytes", plumb_device_free_bytes(nullptr, &bytes)},
      {"plumb_device_free_bytes", plumb_device_free_bytes(device, nullptr)},
      {"plumb_allocate", plumb_allocate(nullptr, 1, PLUMB_DEVICE_MEMORY, &data)},
      {"plumb_allocate", plumb_allocate(device, 1, PLUMB_DEVICE_MEMORY, nullptr)},
      {"plumb_deallocate", plumb_deallocate(nullptr, extents, 32, PLUMB_DEVICE_MEMORY)},
      {"plumb_queue_create", plumb_queue_create(nullptr, &made_queue)},
      {"plumb_queue_create", plumb_queue_create(device, nullptr)},
      {"plumb_queue_wrap", plumb_queue_wrap(nullptr, nullptr, &made_queue)},
      {"plumb_queue_wrap", plumb_queue_wrap(device, nullptr, nullptr)},
      {"plumb_queue_native", plumb_queue_native(nullptr, &data)},
      {"plumb_queue_native", plumb_queue_native(queue, nullptr)},
      {"plumb_queue_synchronize", plumb_queue_synchronize(nullptr)},
      {"plumb_copy", plumb_copy(nullptr, extents, extents, 8)},
      {"plumb_copy", plumb_copy(queue, nullptr, extents, 8)},
      {"plumb_copy", plumb_copy(queue, extents, nullptr, 8)},
      {"plumb_queue_record", plumb_queue_record(nullptr, &made_event)},
      {"plumb_queue_record", plumb_queue_record(queue, nullptr)},
      {"plumb_queue_wait", plumb_queue_wait(nullptr, event)},
      {"plumb_queue_wait", plumb_queue_wait(queue, nullptr)},
      {"plumb_event_synchronize", plumb_event_synchronize(nullptr)},
      {"plumb_event_done", plumb_event_done(nullptr, &number)},
      {"plumb_event_done", plumb_event_done(event, nullptr)},
      {"plumb_event_seconds", plumb_event_seconds(nullptr, event, &seconds)},
      {"plumb_event_seconds", plumb_event_seconds(event, nullptr, &seconds)},
      {"plumb_event_seconds", plumb_event_seconds(event, event, nullptr)},
      {"plumb_conv_geometry_init", plumb_conv_geometry_init(nullptr)},
      {"plumb_conv_geometry_set_stride", plumb_conv_geometry_set_stride(nullptr, 1)},
      {"plumb_conv_geometry_set_dilation", plumb_conv_geometry_set_dilation(nullptr, 1)},
      {"plumb_conv_geometry_set_padding", plumb_conv_geometry_set_padding(nullptr, 1)},
      {"plumb_pool_geometry_set_window", plumb_pool_geometry_set_window(nullptr, 1)},
      {"plumb_pool_geometry_set_stride", plumb_pool_geometry_set_stride(nullptr, 1)},
      {"plumb_pool_geometry_set_dilation", plumb_pool_geometry_set_dilation(nullptr, 1)},
      {"plumb_pool_geometry_set_padding", plumb_pool_geometry_set_padding(nullptr, 1)},
      {"plumb_conv_problem_init", plumb_conv_problem_init(nullptr)},
      {"plumb_conv_options_init", plumb_conv_options_init(nullptr)},
      {"plumb_conv_output_extents", plumb_conv_output_extents(nullptr, extents)},
      {"plumb_conv_output_extents", plumb_conv_output_extents(&problem, nullptr)},
      {"plumb_plan_create", plumb_plan_create(nullptr, &problem, nullptr, &made_plan)},
      {"plumb_plan_create", plumb_plan_create(device, nullptr, nullptr, &made_plan)},
      {"plumb_plan_create", plumb_plan_create(device, &problem, nullptr, nullptr)},
      {"plumb_plan_algorithm", plumb_plan_algorithm(nullptr, &text)},
      {"plumb_plan_algorithm", plumb_plan_algorithm(plan, nullptr)},
      {"plumb_plan_workspace_bytes", plumb_plan_workspace_bytes(nullptr, &bytes)},
      {"plumb_plan_workspace_bytes", plumb_plan_workspace_bytes(plan, nullptr)},
      {"plumb_plan_execute", plumb_plan_execute(nullptr, queue, &x, &x, nullptr, &x, nullptr)},
      {"plumb_plan_execute", plumb_plan_execute(plan, nullptr, &x, &x, nullptr, &x, nullptr)},
      {"plumb_plan_execute", plumb_plan_execute(plan, queue, nullptr, &x, nullptr, &x, nullptr)},
      {"plumb_plan_execute", plumb_plan_execute(plan, queue, &x, nullptr, nullptr, &x, nullptr)},
      {"plumb_plan_execute", plumb_plan_execute(plan, queue, &x, &x, nullptr, nullptr, nullptr)},
      {"plumb_plan_packed_workspace_bytes", plumb_plan_packed_workspace_bytes(nullptr, &bytes)},
      {"plumb_plan_packed_workspace_bytes", plumb_plan_packed_workspace_bytes(plan, nullptr)},
      {"plumb_plan_pack", plumb_plan_pack(nullptr, queue, &x, &made_filters)},
      {"plumb_plan_pack", plumb_plan_pack(plan, nullptr, &x, &made_filters)},
      {"plumb_plan_pack", plumb_plan_pack(plan, queue, nullptr, &made_filters)},
      {"plumb_plan_pack", plumb_plan_pack(plan, queue, &x, nullptr)},
      {"plumb_plan_execute_packed",
       plumb_plan_execute_packed(nullptr, queue, &x, filters, nullptr, &x, nullptr)},
      {"plumb_plan_execute_packed",
       plumb_plan_execute_packed(plan, nullptr, &x, filters, nullptr, &x, nullptr)},
      {"plumb_plan_execute_packed",
       plumb_plan_execute_packed(plan, queue, nullptr, filters, nullptr, &x, nullptr)},
      {"plumb_plan_execute_packed",
       plumb_plan_execute_packed(plan, queue, &x, nullptr, nullptr, &x, nullptr)},
      {"plumb_plan_execute_packed",
       plumb_plan_execute_packed(plan, queue, &x, filters, nullptr, nullptr, nullptr)},
      {"plumb_explain", plumb_explain(nullptr, &problem, nullptr, &made_explanation)},
      {"plumb_explain", plumb_explain(device, nullptr, nullptr, &made_explanation)},
      {"plumb_explain", plumb_explain(device, &problem, nullptr, nullptr)},
      {"plumb_plan_explain", plumb_plan_explain(nullptr, &made_explanation)},
      {"plumb_plan_explain", plumb_plan_explain(plan, nullptr)},
      {"plumb_explanation_size", plumb_explanation_size(nullptr, &bytes)},
      {"plumb_explanation_size", plumb_explanation_size(explanation, nullptr)},
      {"plumb_explanation_entry", plumb_explanation_entry(nullptr, 0, &candidate)},
      {"plumb_explanation_entry", plumb_explanation_entry(explanation, 0, nullptr)},
      {"plumb_validate", plumb_validate(nullptr, &problem, nullptr, &validation)},
      {"plumb_validate", plumb_validate(device, nullptr, nullptr, &validation)},
      {"plumb_validate", plumb_validate(device, &problem, nullptr, nullptr)},
      {"plumb_tensor_init",
       plumb_tensor_init(nullptr, extents, nullptr, PLUMB_F32, 4, extents, nullptr)},
      {"plumb_tensor_init",
       plumb_tensor_init(&x, extents, nullptr, PLUMB_F32, 4, nullptr, nullptr)},
      {"plumb_conv", plumb_conv(nullptr, &x, &x, nullptr, &x, nullptr, nullptr)},
      {"plumb_conv", plumb_conv(queue, nullptr, &x, nullptr, &x, nullptr, nullptr)},
      {"plumb_conv", plumb_conv(queue, &x, nullptr, nullptr, &x, nullptr, nullptr)},
      {"plumb_conv", plumb_conv(queue, &x, &x, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_conv_host", plumb_conv_host(nullptr, &x, &x, nullptr, &x, nullptr, nullptr)},
      {"plumb_conv_host", plumb_conv_host(device, &x, &x, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_conv_geometry_nd_init", plumb_conv_geometry_nd_init(nullptr)},
      {"plumb_conv_geometry_nd_set_stride", plumb_conv_geometry_nd_set_stride(nullptr, 1)},
      {"plumb_conv_geometry_nd_set_dilation", plumb_conv_geometry_nd_set_dilation(nullptr, 1)},
      {"plumb_conv_geometry_nd_set_padding", plumb_conv_geometry_nd_set_padding(nullptr, 1)},
      {"plumb_conv_geometry_nd_set_boundary", plumb_conv_geometry_nd_set_boundary(nullptr, 1)},
      {"plumb_conv_problem_nd_init", plumb_conv_problem_nd_init(nullptr)},
      {"plumb_conv_options_nd_init", plumb_conv_options_nd_init(nullptr)},
      {"plumb_conv_output_extents_nd", plumb_conv_output_extents_nd(nullptr, all_extents)},
      {"plumb_conv_output_extents_nd", plumb_conv_output_extents_nd(&deep, nullptr)},
      {"plumb_plan_create_nd", plumb_plan_create_nd(nullptr, &deep, nullptr, &made_plan)},
      {"plumb_plan_create_nd", plumb_plan_create_nd(device, nullptr, nullptr, &made_plan)},
      {"plumb_plan_create_nd", plumb_plan_create_nd(device, &deep, nullptr, nullptr)},
      {"plumb_explain_nd", plumb_explain_nd(nullptr, &deep, nullptr, &made_explanation)},
      {"plumb_explain_nd", plumb_explain_nd(device, nullptr, nullptr, &made_explanation)},
      {"plumb_explain_nd", plumb_explain_nd(device, &deep, nullptr, nullptr)},
      {"plumb_explanation_promises", plumb_explanation_promises(nullptr, 0, &number, &number)},
      {"plumb_explanation_promises", plumb_explanation_promises(explanation, 0, nullptr, &number)},
      {"plumb_explanation_promises", plumb_explanation_promises(explanation, 0, &number, nullptr)},
      {"plumb_explanation_stages", plumb_explanation_stages(nullptr, 0, &number, &number)},
      {"plumb_explanation_stages", plumb_explanation_stages(explanation, 0, nullptr, &number)},
      {"plumb_explanation_stages", plumb_explanation_stages(explanation, 0, &number, nullptr)},
      {"plumb_validate_nd", plumb_validate_nd(nullptr, &deep, nullptr, &validation)},
      {"plumb_validate_nd", plumb_validate_nd(device, nullptr, nullptr, &validation)},
      {"plumb_validate_nd", plumb_validate_nd(device, &deep, nullptr, nullptr)},
      {"plumb_copy_tensor", plumb_copy_tensor(nullptr, &x, &x)},
      {"plumb_copy_tensor", plumb_copy_tensor(queue, nullptr, &x)},
      {"plumb_copy_tensor", plumb_copy_tensor(queue, &x, nullptr)},
      {"plumb_conv_nd", plumb_conv_nd(nullptr, &x, &x, nullptr, &x, nullptr, nullptr)},
      {"plumb_conv_nd", plumb_conv_nd(queue, nullptr, &x, nullptr, &x, nullptr, nullptr)},
      {"plumb_conv_nd", plumb_conv_nd(queue, &x, nullptr, nullptr, &x, nullptr, nullptr)},
      {"plumb_conv_nd", plumb_conv_nd(queue, &x, &x, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_plan_execute_gradient",
       plumb_plan_execute_gradient(nullptr, queue, &x, &x, nullptr, nullptr, &x, nullptr, nullptr)},
      {"plumb_plan_execute_gradient",
       plumb_plan_execute_gradient(plan, nullptr, &x, &x, nullptr, nullptr, &x, nullptr, nullptr)},
      {"plumb_conv_backward_data",
       plumb_conv_backward_data(nullptr, &x, &x, &x, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_conv_backward_data",
       plumb_conv_backward_data(queue, nullptr, &x, &x, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_conv_backward_data",
       plumb_conv_backward_data(queue, &x, nullptr, &x, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_conv_backward_data",
       plumb_conv_backward_data(queue, &x, &x, nullptr, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_conv_backward_weights",
       plumb_conv_backward_weights(nullptr, &x, &x, &x, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_conv_backward_weights",
       plumb_conv_backward_weights(queue, &x, &x, nullptr, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_conv_transpose",
       plumb_conv_transpose(nullptr, &x, &x, nullptr, &x, nullptr, nullptr)},
      {"plumb_conv_transpose",
       plumb_conv_transpose(queue, &x, &x, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_conv_backward_data_host",
       plumb_conv_backward_data_host(nullptr, &x, &x, &x, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_conv_backward_data_host",
       plumb_conv_backward_data_host(device, &x, &x, nullptr, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_conv_backward_weights_host",
       plumb_conv_backward_weights_host(nullptr, &x, &x, &x, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_conv_backward_weights_host",
       plumb_conv_backward_weights_host(device, &x, &x, nullptr, nullptr, nullptr, nullptr,
                                        nullptr)},
      {"plumb_conv_transpose_host",
       plumb_conv_transpose_host(nullptr, &x, &x, nullptr, &x, nullptr, nullptr)},
      {"plumb_conv_transpose_host",
       plumb_conv_transpose_host(device, &x, &x, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_conv_host_nd", plumb_conv_host_nd(nullptr, &x, &x, nullptr, &x, nullptr, nullptr)},
      {"plumb_conv_host_nd",
       plumb_conv_host_nd(device, &x, &x, nullptr, nullptr, nullptr, nullptr)},
      {"plumb_pool_geometry_init", plumb_pool_geometry_init(nullptr)},
      {"plumb_pooled_extents", plumb_pooled_extents(nullptr, &pooling, extents)},
      {"plumb_pooled_extents", plumb_pooled_extents(extents, nullptr, extents)},
      {"plumb_pooled_extents", plumb_pooled_extents(extents, &pooling, nullptr)},
      {"plumb_pool", plumb_pool(nullptr, &x, &x, &pooling)},
      {"plumb_pool", plumb_pool(queue, nullptr, &x, &pooling)},
      {"plumb_pool", plumb_pool(queue, &x, nullptr, &pooling)},
      {"plumb_pool", plumb_pool(queue, &x, &x, nullptr)},
      {"plumb_linear", plumb_linear(nullptr, &x, &x, nullptr, &x, nullptr)},
      {"plumb_linear", plumb_linear(queue, nullptr, &x, nullptr, &x, nullptr)},
      {"plumb_linear", plumb_linear(queue, &x, nullptr, nullptr, &x, nullptr)},
      {"plumb_linear", plumb_linear(queue, &x, &x, nullptr, nullptr, nullptr)},
      {"plumb_relu", plumb_relu(nullptr, &x, &x)},
      {"plumb_relu", plumb_relu(queue, nullptr, &x)},
      {"plumb_relu", plumb_relu(queue, &x, nullptr)},
      {"plumb_softmax", plumb_softmax(nullptr, &x, &x)},
      {"plumb_softmax", plumb_softmax(queue, nullptr, &x)},
      {"plumb_softmax", plumb_softmax(queue, &x, nullptr)},
      {"plumb_resize_bilinear", plumb_resize_bilinear(nullptr, &x, &x)},
      {"plumb_resize_bilinear", plumb_resize_bilinear(queue, nullptr, &x)},
      {"plumb_resize_bilinear", plumb_resize_bilinear(queue, &x, nullptr)},
      {"plumb_relu_backward", plumb_relu_backward(nullptr, &x, &x, &x)},
      {"plumb_relu_backward", plumb_relu_backward(queue, nullptr, &x, &x)},
      {"plumb_relu_backward", plumb_relu_backward(queue, &x, nullptr, &x)},
      {"plumb_relu_backward", plumb_relu_backward(queue, &x, &x, nullptr)},
      {"plumb_pool_backward", plumb_pool_backward(nullptr, &x, &x, &x, &pooling)},
      {"plumb_pool_backward", plumb_pool_backward(queue, nullptr, &x, &x, &pooling)},
      {"plumb_pool_backward", plumb_pool_backward(queue, &x, nullptr, &x, &pooling)},
      {"plumb_pool_backward", plumb_pool_backward(queue, &x, &x, nullptr, &pooling)},
      {"plumb_pool_backward", plumb_pool_backward(queue, &x, &x, &x, nullptr)},
      {"plumb_linear_gradients_init", plumb_linear_gradients_init(nullptr)},
      {"plumb_linear_backward", plumb_linear_backward(nullptr, &linear, nullptr)},
      {"plumb_linear_backward", plumb_linear_backward(queue, nullptr, nullptr)},
      {"plumb_resize_bilinear_backward", plumb_resize_bilinear_backward(nullptr, &x, &x)},
      {"plumb_resize_bilinear_backward", plumb_resize_bilinear_backward(queue, nullptr, &x)},
      {"plumb_resize_bilinear_backward", plumb_resize_bilinear_backward(queue, &x, nullptr)},
      {"plumb_softmax_cross_entropy",
       plumb_softmax_cross_entropy(nullptr, &x, &labels, nullptr, &x, 1)},
      {"plumb_softmax_cross_entropy",
       plumb_softmax_cross_entropy(queue, nullptr, &labels, nullptr, &x, 1)},
      {"plumb_softmax_cross_entropy",
       plumb_softmax_cross_entropy(queue, &x, nullptr, nullptr, &x, 1)},
      {"plumb_sgd_options_init", plumb_sgd_options_init(nullptr)},
      {"plumb_sgd_step", plumb_sgd_step(nullptr, &x, &x, nullptr, nullptr)},
      {"plumb_sgd_step", plumb_sgd_step(queue, nullptr, &x, nullptr, nullptr)},
      {"plumb_sgd_step", plumb_sgd_step(queue, &x, nullptr, nullptr, nullptr)},
  };
  for (const auto& [name, status] : refused) {
    CAPTURE(name);
    CHECK(status == PLUMB_INVALID_ARGUMENT);
  }
  std::set<std::string> names;
  for (const auto& [name, status] : refused) names.insert(name);
  CHECK(names == functions_with_status());  // a new function has to be made to fail here, too
  for (const void* made : {static_cast<void*>(made_queue), static_cast<void*>(made_event),
                           static_cast<void*>(made_plan), static_cast<void*>(made_filters),
                           static_cast<void*>(made_explanation)})
    CHECK(made == nullptr);

  plumb_explanation_destroy(explanation);
  plumb_packed_filters_destroy(filters);
  plumb_packed_filters_destroy(made_filters);  // NULL
  plumb_event_destroy(event);
  plumb_device_close(opened);  // NULL, as are the next
  plumb_queue_destroy(made_queue);
  plumb_event_destroy(made_event);
  plumb_plan_destroy(made_plan);
  plumb_explanation_destroy(made_explanation);
}

TEST_CASE("c: a message names the function and the value met") {
  const CDevice device;
  plumb_conv_problem problem = small_problem();
  problem.geometry.stride_w = 0;
  plumb_plan* plan = nullptr;
  REQUIRE(plumb_plan_create(device, &problem, nullptr, &plan) == PLUMB_INVALID_ARGUMENT);
  REQUIRE(plan == nullptr);
  REQUIRE_THAT(plumb_last_message(), StartsWith("plumb_plan_create: ") && ContainsSubstring("0"));
  REQUIRE(std::string(plumb_last_reason()) == "none");

  // What succeeds leaves the message of what failed alone, and other threads have their own.
  plumb_queue* queue = nullptr;
  REQUIRE(plumb_queue_create(device, &queue) == PLUMB_OK);
  REQUIRE_THAT(plumb_last_message(), StartsWith("plumb_plan_create: "));
  std::string elsewhere = "nothing was asked";
  std::thread([&] { elsewhere = plumb_last_message(); }).join();
  REQUIRE(elsewhere.empty());
  plumb_queue_destroy(queue);
}

TEST_CASE("c: each kind of failure has its status") {
  plumb_device* none = nullptr;
  REQUIRE(plumb_device_open("cpu:7", nullptr, &none) == PLUMB_DEVICE_UNAVAILABLE);
  REQUIRE(std::string(plumb_last_reason()) == "no_device");
  REQUIRE(plumb_device_open("abacus", nullptr, &none) == PLUMB_INVALID_ARGUMENT);
  REQUIRE(std::string(plumb_last_reason()) == "unknown_backend");
  REQUIRE(none == nullptr);
  std::int32_t count = -1;
  REQUIRE(plumb_device_count("abacus", &count) == PLUMB_INVALID_ARGUMENT);
  REQUIRE(count == 0);
  const plumb_status gpus = plumb_device_count("cuda", &count);
  REQUIRE((gpus == PLUMB_OK) == (count > 0));
  if (gpus != PLUMB_OK) REQUIRE(gpus == PLUMB_DEVICE_UNAVAILABLE);

  const CDevice device;
  void* data = nullptr;
  REQUIRE(plumb_allocate(device, SIZE_MAX / 2, PLUMB_DEVICE_MEMORY, &data) == PLUMB_OUT_OF_MEMORY);
  REQUIRE(data == nullptr);
  REQUIRE(plumb_allocate(device, 1, 2, &data) == PLUMB_INVALID_ARGUMENT);
  REQUIRE_THAT(plumb_last_message(), ContainsSubstring("memory is 2"));

  plumb_conv_options options;
  plumb_conv_options_init(&options);
  const plumb_conv_problem problem = small_problem();
  plumb_plan* plan = nullptr;
  options.algorithm = "cpu.conv.wishful";
  REQUIRE(plumb_plan_create(device, &problem, &options, &plan) == PLUMB_UNSUPPORTED);
  REQUIRE_THAT(plumb_last_message(), ContainsSubstring("cpu.conv.wishful"));
  options.algorithm = nullptr;
  options.math = 5;
  REQUIRE(plumb_plan_create(device, &problem, &options, &plan) == PLUMB_INVALID_ARGUMENT);
  options.math = PLUMB_FP32;
  options.activation = -1;
  REQUIRE(plumb_plan_create(device, &problem, &options, &plan) == PLUMB_INVALID_ARGUMENT);
  plumb_conv_problem odd = problem;
  odd.dtype = 4;
  REQUIRE(plumb_plan_create(device, &odd, nullptr, &plan) == PLUMB_INVALID_ARGUMENT);
  REQUIRE_THAT(plumb_last_message(), ContainsSubstring("dtype is 4"));
  std::int64_t extents[] = {2, 3};
  plumb_tensor tensor;
  REQUIRE(plumb_tensor_init(&tensor, extents, device, PLUMB_F32, 7, extents, nullptr) ==
          PLUMB_INVALID_ARGUMENT);
  extents[1] = -1;
  REQUIRE(plumb_tensor_init(&tensor, extents, device, PLUMB_F32, 2, extents, nullptr) ==
          PLUMB_INVALID_ARGUMENT);
  REQUIRE(plumb_last_message() != std::string());
  tensor.rank = 9;  // as if by hand
  const CQueue queue(device);
  REQUIRE(plumb_relu(queue, &tensor, &tensor) == PLUMB_INVALID_ARGUMENT);
  int on_the_stack = 0;
  plumb_queue* wrapped = nullptr;
  REQUIRE(plumb_queue_wrap(device, &on_the_stack, &wrapped) == PLUMB_INVALID_ARGUMENT);

  for (plumb_status status = PLUMB_OK; status <= PLUMB_INTERNAL_ERROR; ++status)
    REQUIRE(std::string(plumb_status_name(status)) != "?");
  REQUIRE(std::string(plumb_status_name(7)) == "?");
}

TEST_CASE("c: a message that is too long is cut between two characters") {
  static std::string thrown;
  const plumb_device_options options{
      .log = [](void*, const char*) { throw std::runtime_error(thrown); }};
  plumb_device* device = nullptr;
  REQUIRE(plumb_device_open("cpu", &options, &device) == PLUMB_OK);
  const plumb_conv_problem problem = small_problem();
  const std::string begin = "plumb_plan_create: ", mark = "... (cut)";
  for (const std::size_t odd : {0, 1, 2}) {
    thrown = std::string(odd, 'x');
    for (int i = 0; i < 2000; ++i) thrown += "\u20ac";  // a euro: three bytes
    plumb_plan* plan = nullptr;
    REQUIRE(plumb_plan_create(device, &problem, nullptr, &plan) == PLUMB_INTERNAL_ERROR);
    const std::string message = plumb_last_message();
    REQUIRE(message.size() > 4000);
    REQUIRE(message.size() < 4096);
    REQUIRE(message.ends_with(mark));
    const std::size_t shown = message.size() - begin.size() - mark.size();
    REQUIRE(message == begin + thrown.substr(0, shown) + mark);
    REQUIRE((shown - odd) % 3 == 0);
  }
  thrown = std::string(3900, 'y');
  plumb_plan* plan = nullptr;
  REQUIRE(plumb_plan_create(device, &problem, nullptr, &plan) == PLUMB_INTERNAL_ERROR);
  REQUIRE(plumb_last_message() == begin + thrown);
  plumb_device_close(device);
}

TEST_CASE("c: what a callback throws does not pass through C") {
  const plumb_device_options options{
      .allocate = [](void*, std::size_t, plumb_memory, void*) -> void* { throw "a fit"; },
      .deallocate = [](void*, void*, std::size_t, plumb_memory, void*) {},
      .log = [](void*, const char*) { throw std::runtime_error("no disk"); }};
  plumb_device* device = nullptr;
  REQUIRE(plumb_device_open("cpu", &options, &device) == PLUMB_OK);
  void* data = nullptr;
  REQUIRE(plumb_allocate(device, 8, PLUMB_DEVICE_MEMORY, &data) == PLUMB_INTERNAL_ERROR);
  plumb_plan* plan = nullptr;
  const plumb_conv_problem problem = small_problem();
  REQUIRE(plumb_plan_create(device, &problem, nullptr, &plan) == PLUMB_INTERNAL_ERROR);
  REQUIRE_THAT(plumb_last_message(), ContainsSubstring("no disk"));
  plumb_device_close(device);
}
