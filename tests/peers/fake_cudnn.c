// Plays libcudnn's graph interface for graphs of one operation, a convolution or a gradient: every
// descriptor is a table of what was set, and engines come with the numerical notes and the
// workspace that the tests ask of them.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef FAKE_VERSION
#define FAKE_VERSION 91400
#endif

#define EXPORT __attribute__((visibility("default")))
enum { success = 0, not_supported = 3000, bad_param = 2000 };
enum {
  engine_type = 2,
  configuration_type = 3,
  heuristics_type = 4,
  plan_type = 5,
  forward_type = 10,
  backward_filter_type = 11,
  backward_data_type = 12,
  graph_type = 15,
  pack_type = 16,
  heuristics_mode = 200,
  heuristics_graph = 201,
  heuristics_results = 202,
  configuration_engine = 300,
  configuration_knobs = 302,
  plan_configuration = 401,
  plan_workspace = 402,
  forward_alpha = 700,
  backward_data_alpha = 706,
  backward_filter_alpha = 712,
  attributes_of_an_operation = 6,
  graph_operations = 801,
  engine_count = 802,
  pack_ids = 1000,
  pack_pointers = 1001,
  engine_graph = 1300,
  engine_index = 1301,
  engine_notes = 1303,
  engine_behavior = 1305
};

// Engines 0 to 4: a plain sum; tensor cores; Winograd; one that does not repeat; one whose
// workspace is absurd. The heuristics name 0, 1, 3 and 4; 5 is named and cannot be built.
// Of a filter's gradient 0 and 1 do not repeat either, and 6, which nobody names, is a plain sum.
enum { engines = 7, named_engines = 5 };
static const int named[named_engines] = {0, 1, 3, 4, 5};
enum { tensor_core = 0, nondeterministic = 4, winograd = 5, max_notes = 2 };
static int notes_of(int operation, int engine, int* notes) {
  int count = 0;
  if (engine == 1) notes[count++] = tensor_core;
  if (engine == 2) notes[count++] = winograd;
  if (engine == 3 || (operation == backward_filter_type && engine < 2))
    notes[count++] = nondeterministic;
  return count;
}

// The least of an operation's attributes, which follow each other; 0 of what is no operation.
static int first_attribute(int type) {
  return type == forward_type           ? forward_alpha
         : type == backward_data_type   ? backward_data_alpha
         : type == backward_filter_type ? backward_filter_alpha
                                        : 0;
}

typedef struct {
  int type, engine;
  int operation;        // the type of the operation that it is of, or is
  unsigned attributes;  // of an operation: a bit for each that was set
  int64_t ids[3];
  void* pointers[3];
} descriptor;

EXPORT size_t cudnnGetVersion(void) { return FAKE_VERSION; }
EXPORT const char* cudnnGetErrorString(int status) {
  return status == not_supported ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}
EXPORT int cudnnCreate(void** handle) {
  static char one;
  *handle = &one;
  return success;
}
EXPORT int cudnnSetStream(void* handle, void* stream) {
  (void)stream;
  return handle ? success : bad_param;
}
EXPORT int cudnnBackendCreateDescriptor(int type, void** made) {
  descriptor* of = calloc(1, sizeof *of);
  if (!of) return bad_param;
  of->type = type;
  *made = of;
  return success;
}
EXPORT int cudnnBackendDestroyDescriptor(void* of) {
  free(of);
  return success;
}
EXPORT int cudnnBackendSetAttribute(void* to, int name, int type, int64_t count,
                                    const void* values) {
  (void)type;
  descriptor* of = to;
  if (!values || count < 1) return bad_param;
  const int first = first_attribute(of->type);
  if (first) {
    if (name < first || name >= first + attributes_of_an_operation) return bad_param;
    of->operation = of->type;
    of->attributes |= 1u << (name - first);
  }
  if (of->type == engine_type && name == engine_index) of->engine = (int)*(const int64_t*)values;
  if ((of->type == configuration_type && name == configuration_engine) ||
      (of->type == plan_type && name == plan_configuration)) {
    of->engine = (*(descriptor* const*)values)->engine;
    of->operation = (*(descriptor* const*)values)->operation;
  }
  if ((of->type == graph_type && name == graph_operations) ||
      (of->type == heuristics_type && name == heuristics_graph) ||
      (of->type == engine_type && name == engine_graph))
    of->operation = (*(descriptor* const*)values)->operation;
  if (of->type == pack_type && name == pack_ids && count == 3)
    memcpy(of->ids, values, sizeof of->ids);
  if (of->type == pack_type && name == pack_pointers && count == 3)
    memcpy(of->pointers, values, sizeof of->pointers);
  // Of the ways of asking for engines only CUDNN_HEUR_MODE_A names any.
  if (of->type == heuristics_type && name == heuristics_mode && *(const int*)values != 3)
    return not_supported;
  return success;
}
EXPORT int cudnnBackendGetAttribute(void* from, int name, int type, int64_t most, int64_t* count,
                                    void* values) {
  (void)type;
  const descriptor* of = from;
  if (of->type == heuristics_type && name == heuristics_results) {
    *count = named_engines;
    for (int i = 0; i < named_engines && i < most; ++i) {
      ((descriptor**)values)[i]->engine = named[i];
      ((descriptor**)values)[i]->operation = of->operation;
    }
    return success;
  }
  if (name == configuration_engine) {
    *count = 1;
    if (most > 0) {
      (*(descriptor**)values)->engine = of->engine;
      (*(descriptor**)values)->operation = of->operation;
    }
    return success;
  }
  if (name == configuration_knobs || name == engine_behavior) return *count = 0, success;
  if (name == engine_notes) {
    int notes[max_notes];
    *count = notes_of(of->operation, of->engine, notes);
    if (most < *count) return bad_param;
    memcpy(values, notes, (size_t)*count * sizeof *notes);
    return success;
  }
  const int64_t value = name == engine_count     ? engines
                        : name == engine_index   ? of->engine
                        : name == plan_workspace ? (of->engine == 4 ? -1 : 1024)
                                                 : 0;
  if (most < 1) return bad_param;
  memcpy(values, &value, sizeof value);
  *count = 1;
  return success;
}
EXPORT int cudnnBackendFinalize(void* of) {
  const descriptor* made = of;
  if (first_attribute(made->type) && made->attributes != (1u << attributes_of_an_operation) - 1)
    return bad_param;
  return made->type == plan_type && made->engine == 5 ? not_supported : success;
}

#ifndef FAKE_WITHOUT_EXECUTE
static float* tensor(const descriptor* pack, int64_t id) {
  for (int i = 0; i < 3; ++i)
    if (pack->ids[i] == id) return pack->pointers[i];
  return NULL;
}
// What the operation writes begins with a number of what it reads: 10 times the first element of
// the one, by the order of x, w and y, and the first of the other.
EXPORT int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  if (!handle || !plan || !pack) return bad_param;
  float *x = tensor(pack, 'x'), *w = tensor(pack, 'w'), *y = tensor(pack, 'y');
  if (!x || !w || !y) return bad_param;
  switch (((const descriptor*)plan)->operation) {
    case forward_type: *y = 10 * *x + *w; return success;
    case backward_data_type: *x = 10 * *w + *y; return success;
    case backward_filter_type: *w = 10 * *x + *y; return success;
    default: return bad_param;
  }
}
#endif
