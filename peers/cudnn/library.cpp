// Opens libcudnn by the name it had when Plumb was built, where the loader looks and where it was.
#include "peers/cudnn/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "plumb/error.hpp"

namespace plumb::cuda::cudnn {
namespace {

struct Opened {
  Library library{};
  std::string why;
};

Opened open() {
  Opened opened;
  void* handle = nullptr;
  // Never closed: what it made stays in use until the process ends.
  for (const char* name : {PLUMB_CUDNN_NAME, PLUMB_CUDNN_FOLDER "/" PLUMB_CUDNN_NAME}) {
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle) break;
    const char* why = dlerror();
    opened.why = fmt::format("cuDNN is not installed ({})", why ? why : name);
  }
  if (!handle) return opened;
  opened.why.clear();

  const auto take = [&]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    if (!function) opened.why = fmt::format("{} has no {}", PLUMB_CUDNN_NAME, name);
  };
  Library& l = opened.library;
  take(l.get_version, "cudnnGetVersion");
  take(l.get_error_string, "cudnnGetErrorString");
  take(l.create, "cudnnCreate");
  take(l.set_stream, "cudnnSetStream");
  take(l.create_descriptor, "cudnnBackendCreateDescriptor");
  take(l.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  take(l.set_attribute, "cudnnBackendSetAttribute");
  take(l.get_attribute, "cudnnBackendGetAttribute");
  take(l.finalize, "cudnnBackendFinalize");
  take(l.execute, "cudnnBackendExecute");
  return opened;
}

const Opened& opened() {
  static const Opened once = open();
  return once;
}

}  // namespace

const std::string& why_missing() { return opened().why; }

const Library& library() { return opened().library; }

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw Error(ErrorCode::device_failure,
              fmt::format("{}: {}", call, library().get_error_string(status)));
}

}  // namespace plumb::cuda::cudnn
