// Plays libcudnn's graph interface for one operation: every descriptor is a table of what was set,
// and engines come with the numerical notes and the workspace that the tests ask of it.
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
  heuristics_mode = 200,
  heuristics_results = 202,
  configuration_engine = 300,
  configuration_knobs = 302,
  plan_configuration = 401,
  plan_workspace = 402,
  engine_count = 802,
  engine_index = 1301,
  engine_notes = 1303,
  engine_behavior = 1305
};

// Engines 0 to 4: a plain sum; tensor cores; Winograd; one that does not repeat; one whose
// workspace is absurd. The heuristics name 0, 1, 3 and 4; 5 is named and cannot be built.
enum { engines = 6, named_engines = 5 };
static const int named[named_engines] = {0, 1, 3, 4, 5};
static int notes_of(int engine, int* notes) {
  if (engine == 1) return notes[0] = 0, 1;  // CUDNN_NUMERICAL_NOTE_TENSOR_CORE
  if (engine == 2) return notes[0] = 5, 1;  // CUDNN_NUMERICAL_NOTE_WINOGRAD
  if (engine == 3) return notes[0] = 4, 1;  // CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC
  return 0;
}

typedef struct {
  int type, engine;
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
  if (of->type == engine_type && name == engine_index) of->engine = (int)*(const int64_t*)values;
  if (of->type == configuration_type && name == configuration_engine)
    of->engine = (*(descriptor* const*)values)->engine;
  if (of->type == plan_type && name == plan_configuration)
    of->engine = (*(descriptor* const*)values)->engine;
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
    for (int i = 0; i < named_engines && i < most; ++i)
      ((descriptor**)values)[i]->engine = named[i];
    return success;
  }
  if (name == configuration_engine) {
    *count = 1;
    if (most > 0) (*(descriptor**)values)->engine = of->engine;
    return success;
  }
  if (name == configuration_knobs || name == engine_behavior) return *count = 0, success;
  if (name == engine_notes) {
    int notes[1];
    *count = notes_of(of->engine, notes);
    if (*count > 0 && most > 0) memcpy(values, notes, sizeof notes);
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
  return made->type == plan_type && made->engine == 5 ? not_supported : success;
}
#ifndef FAKE_WITHOUT_EXECUTE
EXPORT int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  return handle && plan && pack ? success : bad_param;
}
#endif
