/* What users of plumb.h write, as C99 and as C++: tests/rules/check_warnings compiles it with every
   compiler that is there; nothing of it runs. */
#include <plumb/plumb.h>

int run_one(float* x, float* w, float* y);

int run_one(float* x, float* w, float* y) {
  const int64_t x_extents[4] = {1, 1, 8, 8}, w_extents[4] = {1, 1, 3, 3};
  int64_t pooled[4];
  plumb_device* device = NULL;
  plumb_queue* queue = NULL;
  plumb_plan* plan = NULL;
  plumb_tensor tx, tw, ty;
  plumb_conv_geometry geometry;
  plumb_conv_problem problem;
  plumb_conv_options options;
  plumb_pool_geometry pool;
  if (plumb_device_open("auto", NULL, &device) != PLUMB_OK) return 1;
  if (plumb_queue_create(device, &queue) != PLUMB_OK) return 1;
  plumb_tensor_init(&tx, x, NULL, PLUMB_F32, 4, x_extents, NULL);
  plumb_tensor_init(&tw, w, NULL, PLUMB_F32, 4, w_extents, NULL);
  plumb_tensor_init(&ty, y, NULL, PLUMB_F32, 4, x_extents, NULL);
  plumb_conv_geometry_init(&geometry);
  plumb_conv_geometry_set_padding(&geometry, 1);
  geometry.padding_bottom = 2;
  plumb_conv_options_init(&options);
  options.math = PLUMB_TF32;
  plumb_conv(queue, &tx, &tw, NULL, &ty, &geometry, &options);
  plumb_conv_problem_init(&problem);
  plumb_conv_geometry_set_stride(&problem.geometry, 2);
  plumb_conv_geometry_set_dilation(&problem.geometry, 1);
  plumb_plan_create(device, &problem, NULL, &plan);
  plumb_pool_geometry_init(&pool);
  plumb_pool_geometry_set_window(&pool, 2);
  plumb_pool_geometry_set_stride(&pool, 2);
  plumb_pool_geometry_set_dilation(&pool, 1);
  plumb_pool_geometry_set_padding(&pool, 0);
  plumb_pooled_extents(x_extents, &pool, pooled);
  plumb_plan_destroy(plan);
  plumb_queue_destroy(queue);
  plumb_device_close(device);
  return 0;
}

int run_fields(plumb_device* device, plumb_queue* queue, double* x, double* w, double* y);

int run_fields(plumb_device* device, plumb_queue* queue, double* x, double* w, double* y) {
  const int64_t row[3] = {1, 1, 64}, taps[3] = {1, 1, 3}, strides[5] = {8, 8, 4, 2, 1};
  int64_t extents[5];
  int32_t copies_input = 0, accumulate_fused = 0;
  plumb_plan* plan = NULL;
  plumb_explanation* explanation = NULL;
  plumb_validation validation;
  plumb_tensor tx, tw, ty;
  plumb_conv_geometry_nd geometry;
  plumb_conv_problem_nd field;
  plumb_conv_options_nd options;
  plumb_conv_geometry_nd_init(&geometry);
  plumb_conv_geometry_nd_set_padding(&geometry, 1);
  plumb_conv_geometry_nd_set_boundary(&geometry, PLUMB_PERIODIC);
  plumb_conv_problem_nd_init(&field);
  field.d = field.h = field.w = 64;
  field.t = field.r = field.s = 3;
  field.dtype = PLUMB_F64;
  field.geometry = &geometry;
  plumb_plan_create_nd(device, &field, NULL, &plan);
  plumb_plan_execute(plan, queue, x, w, NULL, y, NULL);
  plumb_plan_destroy(plan);

  plumb_conv_geometry_nd_set_stride(&geometry, 1);
  plumb_conv_geometry_nd_set_dilation(&geometry, 1);
  geometry.padding_front = geometry.padding_back = 2;
  geometry.boundary_d = PLUMB_CLAMP;
  field.x_strides = strides;
  plumb_conv_options_nd_init(&options);
  options.accumulate = 1;
  plumb_conv_output_extents_nd(&field, extents);
  plumb_explain_nd(device, &field, &options, &explanation);
  plumb_explanation_stages(explanation, 0, &copies_input, &accumulate_fused);
  plumb_explanation_destroy(explanation);
  plumb_validate_nd(device, &field, NULL, &validation);

  plumb_tensor_init(&tx, x, NULL, PLUMB_F64, 3, row, NULL);
  plumb_tensor_init(&tw, w, NULL, PLUMB_F64, 3, taps, NULL);
  plumb_tensor_init(&ty, y, NULL, PLUMB_F64, 3, row, NULL);
  plumb_conv_nd(queue, &tx, &tw, NULL, &ty, &geometry, &options);
  plumb_conv_host_nd(device, &tx, &tw, NULL, &ty, &geometry, NULL);
  return copies_input;
}
