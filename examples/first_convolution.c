/* The example of the README in C: a 3x3 mean over an image of ones, on the best device there is. */
#include <plumb/plumb.h>
#include <stdio.h>
#include <stdlib.h>

static void must(plumb_status status) {
  if (status == PLUMB_OK) return;
  fprintf(stderr, "%s: %s\n", plumb_status_name(status), plumb_last_message());
  exit(1);
}

/* An array on the host, copied to the device. */
static void* upload(const plumb_device* device, plumb_queue* queue, const float* from,
                    size_t bytes) {
  void* data = NULL;
  must(plumb_allocate(device, bytes, PLUMB_DEVICE_MEMORY, &data));
  must(plumb_copy(queue, data, from, bytes));
  return data;
}

int main(void) {
  static float image[28 * 28], filter[3 * 3], mean[26 * 26];
  plumb_device* device = NULL;
  plumb_device_info info;
  plumb_queue* queue = NULL;
  plumb_plan* plan = NULL;
  plumb_conv_problem problem;
  void *x, *w, *y;
  int i;
  for (i = 0; i < 28 * 28; ++i) image[i] = 1;
  for (i = 0; i < 3 * 3; ++i) filter[i] = 1.0f / 9;

  must(plumb_device_open("auto", NULL, &device)); /* the first GPU that works, otherwise the CPU */
  must(plumb_device_get_info(device, &info));
  must(plumb_queue_create(device, &queue));
  must(plumb_conv_problem_init(&problem)); /* one image, one channel, one filter, f32 */
  problem.h = problem.w = 28;
  problem.r = problem.s = 3;
  must(plumb_plan_create(device, &problem, NULL, &plan));

  x = upload(device, queue, image, sizeof image);
  w = upload(device, queue, filter, sizeof filter);
  must(plumb_allocate(device, sizeof mean, PLUMB_DEVICE_MEMORY, &y));
  must(plumb_plan_execute(plan, queue, x, w, NULL, y, NULL));
  must(plumb_copy(queue, mean, y, sizeof mean));
  must(plumb_queue_synchronize(queue));
  printf("%s: %.3f\n", info.name, mean[0]);

  must(plumb_deallocate(device, x, sizeof image, PLUMB_DEVICE_MEMORY));
  must(plumb_deallocate(device, w, sizeof filter, PLUMB_DEVICE_MEMORY));
  must(plumb_deallocate(device, y, sizeof mean, PLUMB_DEVICE_MEMORY));
  plumb_plan_destroy(plan);
  plumb_queue_destroy(queue);
  plumb_device_close(device);
  return 0;
}
