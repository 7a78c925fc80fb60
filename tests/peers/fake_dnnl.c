// Plays libdnnl: the interface of version 3 as far as Plumb uses it, or one of the ways in which a
// library of that name may not be what is expected. It computes nothing.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef FAKE_MAJOR
#define FAKE_MAJOR 3
#endif
#ifndef FAKE_MINOR
#define FAKE_MINOR 9
#endif
#ifndef FAKE_RUNTIME  // 1: no threads, 2: OpenMP, 4: TBB
#define FAKE_RUNTIME 1
#endif
#ifndef FAKE_SCRATCH_BYTES
#define FAKE_SCRATCH_BYTES 0
#endif
#ifndef FAKE_CONV_STATUS  // 1: out of memory, 3: unimplemented
#define FAKE_CONV_STATUS 0
#endif
#ifndef FAKE_ENGINE_STATUS
#define FAKE_ENGINE_STATUS 0
#endif
#ifndef FAKE_EXECUTE_STATUS
#define FAKE_EXECUTE_STATUS 0
#endif

typedef struct {
  size_t bytes;
} desc;
typedef struct {
  desc x, w, y, scratchpad;
} operation;
typedef struct {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
} version;
typedef int64_t dims[12];

#define EXPORT __attribute__((visibility("default")))

EXPORT const version* dnnl_version(void) {
  static const version of = {FAKE_MAJOR, FAKE_MINOR, 0, "played by a fake", FAKE_RUNTIME, 0};
  return &of;
}
EXPORT const char* dnnl_status2str(int status) {
  return status == 1 ? "out_of_memory" : status == 3 ? "unimplemented" : "played by a fake";
}

static int made(void** object, size_t bytes) {
  *object = calloc(1, bytes);
  return *object ? 0 : 1;
}
static int gone(void* object) {
  free(object);
  return 0;
}
#define CREATES(name) \
  EXPORT int dnnl_##name(void** object) { return made(object, 1); }
#define DESTROYS(name) \
  EXPORT int dnnl_##name(void* object) { return gone(object); }
#define DOES(name, ...) \
  EXPORT int dnnl_##name(__VA_ARGS__) { return 0; }

EXPORT int dnnl_engine_create(void** engine, int kind, size_t index) {
  if (FAKE_ENGINE_STATUS || kind != 1 || index != 0)
    return FAKE_ENGINE_STATUS ? FAKE_ENGINE_STATUS : 2;
  return made(engine, 1);
}
EXPORT int dnnl_stream_create(void** stream, void* engine, unsigned flags) {
  return engine && flags == 1 ? made(stream, 1) : 2;
}
DOES(stream_wait, void* stream)
DESTROYS(stream_destroy)
CREATES(primitive_attr_create)
DESTROYS(primitive_attr_destroy)
DOES(primitive_attr_set_scratchpad_mode, void* attributes, int mode)
DOES(primitive_attr_set_fpmath_mode, void* attributes, int mode)
DOES(primitive_attr_set_post_ops, void* attributes, const void* operations)
CREATES(post_ops_create)
DESTROYS(post_ops_destroy)
DOES(post_ops_append_eltwise, void* operations, int kind, float alpha, float beta)

static int described(void** made_at, int rank, const int64_t* extents) {
  const int status = made(made_at, sizeof(desc));
  if (status) return status;
  size_t elements = 1;
  for (int i = 0; i < rank; ++i) elements *= (size_t)extents[i];
  ((desc*)*made_at)->bytes = 4 * elements;
  return 0;
}
EXPORT int dnnl_memory_desc_create_with_strides(void** at, int rank, const dims extents, int type,
                                                const dims strides) {
  return type == 3 && strides ? described(at, rank, extents) : 2;
}
EXPORT int dnnl_memory_desc_create_with_tag(void** at, int rank, const dims extents, int type,
                                            int tag) {
  return type == 3 && tag == 1 ? described(at, rank, extents) : 2;
}
DESTROYS(memory_desc_destroy)
EXPORT int dnnl_memory_desc_equal(const desc* a, const desc* b) { return a->bytes == b->bytes; }
EXPORT size_t dnnl_memory_desc_get_size(const desc* of) { return of->bytes; }

EXPORT int dnnl_convolution_forward_primitive_desc_create(
    void** at, void* engine, int kind, int algorithm, const desc* x, const desc* w,
    const desc* bias, const desc* y, const dims strides, const dims dilations, const dims before,
    const dims after, const void* attributes) {
  (void)bias;
  if (FAKE_CONV_STATUS) return FAKE_CONV_STATUS;
  if (!engine || (kind != 96 && kind != 64) || algorithm != 1 || !strides || !dilations ||
      !before || !after || !attributes)
    return 2;
  if (made(at, sizeof(operation))) return 1;
  const operation filled = {*x, *w, *y, {(size_t)FAKE_SCRATCH_BYTES}};
  *(operation*)*at = filled;
  return 0;
}
static int gradient(void** at, const void* engine, int algorithm, const desc* x, const desc* w,
                    const desc* y, const dims strides, const dims dilations, const dims before,
                    const dims after, const void* hint, const void* attributes) {
  if (FAKE_CONV_STATUS) return FAKE_CONV_STATUS;
  if (!engine || algorithm != 1 || !strides || !dilations || !before || !after || !hint ||
      !attributes)
    return 2;
  if (made(at, sizeof(operation))) return 1;
  const operation filled = {*x, *w, *y, {(size_t)FAKE_SCRATCH_BYTES}};
  *(operation*)*at = filled;
  return 0;
}
EXPORT int dnnl_convolution_backward_data_primitive_desc_create(
    void** at, void* engine, int algorithm, const desc* dx, const desc* w, const desc* dy,
    const dims strides, const dims dilations, const dims before, const dims after, const void* hint,
    const void* attributes) {
  return gradient(at, engine, algorithm, dx, w, dy, strides, dilations, before, after, hint,
                  attributes);
}
EXPORT int dnnl_convolution_backward_weights_primitive_desc_create(
    void** at, void* engine, int algorithm, const desc* x, const desc* dw, const desc* db,
    const desc* dy, const dims strides, const dims dilations, const dims before, const dims after,
    const void* hint, const void* attributes) {
  (void)db;
  return gradient(at, engine, algorithm, x, dw, dy, strides, dilations, before, after, hint,
                  attributes);
}
EXPORT const desc* dnnl_primitive_desc_query_md(const operation* of, int what, int index) {
  if (index != 0) return NULL;
  return what == 129 || what == 130   ? &of->x
         : what == 131 || what == 132 ? &of->w
         : what == 133 || what == 134 ? &of->y
         : what == 136                ? &of->scratchpad
                                      : NULL;
}
DESTROYS(primitive_desc_destroy)
EXPORT int dnnl_reorder_primitive_desc_create(void** at, const desc* from, void* engine,
                                              const desc* to, void* other, const void* attributes) {
  return from && to && engine == other && attributes ? made(at, sizeof(operation)) : 2;
}
EXPORT int dnnl_primitive_create(void** at, const void* of) { return of ? made(at, 1) : 2; }
DESTROYS(primitive_destroy)
#ifndef FAKE_WITHOUT_EXECUTE
EXPORT int dnnl_primitive_execute(const void* primitive, void* stream, int count,
                                  const void* arguments) {
  return FAKE_EXECUTE_STATUS                         ? FAKE_EXECUTE_STATUS
         : primitive && stream && count && arguments ? 0
                                                     : 2;
}
#endif
EXPORT int dnnl_memory_create(void** at, const desc* of, void* engine, void* data) {
  (void)data;
  return of && engine ? made(at, 1) : 2;
}
DESTROYS(memory_destroy)
