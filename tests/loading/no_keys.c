/* A program that has taken every key for thread-specific data before the first call fails: the
 * status is what it would be, and the message says why it is none. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "plumb/plumb.h"

int main(int argc, char** argv) {
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
  plumb_status (*device_open)(const char*, const plumb_device_options*, plumb_device**);
  const char* (*last_message)(void);
  const char* (*last_reason)(void);
  plumb_device* device = NULL;
  plumb_status status;
  pthread_key_t key;
  int keys = 0;
  if (!library) return 2;
  *(void**)&device_open = dlsym(library, "plumb_device_open");
  *(void**)&last_message = dlsym(library, "plumb_last_message");
  *(void**)&last_reason = dlsym(library, "plumb_last_reason");
  while (pthread_key_create(&key, NULL) == 0) ++keys;
  status = device_open("abacus", NULL, &device);
  printf("%d keys, status %d: %s (%s)\n", keys, (int)status, last_message(), last_reason());
  if (keys == 0 || status != PLUMB_INVALID_ARGUMENT) return 1;
  if (strcmp(last_reason(), "unknown_backend") != 0) return 1;
  return strcmp(last_message(), "host memory ran out, also for a message") != 0;
}
