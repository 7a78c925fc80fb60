// Opens libcudnn, and takes it only where what is declared here is true of it.
#include "peers/cudnn/library.hpp"

#include <fmt/format.h>

#include "peers/shared_library.hpp"
#include "plumb/error.hpp"

namespace plumb::cuda::cudnn {
namespace {

/// "cuDNN 9.14.0" of 91400; version 8 counted thousands.
std::string version_text(std::size_t number) {
  if (number < 10000)
    return fmt::format("cuDNN {}.{}.{}", number / 1000, number / 100 % 10, number % 100);
  return fmt::format("cuDNN {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

Library open(const std::string& folders) {
  Library l{};
  const peers::SharedLibrary file = peers::open_shared_library({"libcudnn.so.9"}, folders);
  l.report = file.report;
  if (!file.handle) return l;
  peers::Functions functions(file);
  const auto refused = [&](std::string sentence) {
    l.report.reason = Reason::provider_version;
    l.report.sentence = fmt::format("{}: {}", l.report.path, sentence);
    return l;
  };
  functions.take(l.get_version, "cudnnGetVersion");
  if (!l.get_version) return refused("no cudnnGetVersion, which tells the version");
  l.report.path = peers::SharedLibrary::file_of(reinterpret_cast<const void*>(l.get_version));
  const std::size_t version = l.get_version();
  l.report.version = version_text(version);
  if (version / 10000 != 9) return refused(fmt::format("{}; expected version 9", l.report.version));
  functions.take(l.get_error_string, "cudnnGetErrorString");
  functions.take(l.create, "cudnnCreate");
  functions.take(l.set_stream, "cudnnSetStream");
  functions.take(l.create_descriptor, "cudnnBackendCreateDescriptor");
  functions.take(l.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  functions.take(l.set_attribute, "cudnnBackendSetAttribute");
  functions.take(l.get_attribute, "cudnnBackendGetAttribute");
  functions.take(l.finalize, "cudnnBackendFinalize");
  functions.take(l.execute, "cudnnBackendExecute");
  if (!functions.missing().empty())
    return refused(fmt::format("{}, without {}", l.report.version, functions.missing()));
  return l;
}

}  // namespace

const Library& library() {
  static auto& opened = *new peers::OpenedOnce<Library>;
  return opened.get(open);
}

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw Error(ErrorCode::device_failure,
              fmt::format("{}: {}", call, library().get_error_string(status)));
}

const Provider provider{.name = "cudnn",
                        .library = []() -> LibraryReport { return library().report; }};

}  // namespace plumb::cuda::cudnn
