/* A program that is not C++'s opens libplumb; in the first call of a thread there is no memory at
 * all. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plumb/plumb.h"

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

/* Of this thread. */
static __thread int no_memory;

void* malloc(size_t bytes) { return no_memory ? NULL : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return no_memory ? NULL : __libc_calloc(count, bytes); }
void* realloc(void* data, size_t bytes) { return no_memory ? NULL : __libc_realloc(data, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) {
  return no_memory ? NULL : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** data, size_t alignment, size_t bytes) {
  *data = aligned_alloc(alignment, bytes);
  return *data ? 0 : ENOMEM;
}

static plumb_status (*device_open)(const char*, const plumb_device_options*, plumb_device**);
static void (*device_close)(plumb_device*);
static const char* (*last_message)(void);
static int wrong;

static void* run(void* unused) {
  plumb_device* device = NULL;
  plumb_status without, with;
  (void)unused;
  no_memory = 1;
  without = device_open("cpu", NULL, &device);
  no_memory = 0;
  wrong = without != PLUMB_OUT_OF_MEMORY || !strstr(last_message(), "memory ran out");
  with = device_open("cpu", NULL, &device);
  wrong |= with != PLUMB_OK;
  printf("without memory %d, with memory %d\n", (int)without, (int)with);
  device_close(device);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t thread;
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (!library) return 2;
  *(void**)&device_open = dlsym(library, "plumb_device_open");
  *(void**)&device_close = dlsym(library, "plumb_device_close");
  *(void**)&last_message = dlsym(library, "plumb_last_message");
  if (pthread_create(&thread, NULL, run, NULL) != 0) return 2;
  pthread_join(thread, NULL);
  return wrong;
}
