// Opens libdnnl, and takes it only where what is declared here is true of it.
#include "peers/onednn/library.hpp"

#include <fmt/format.h>
#include <omp.h>

#include "core/src/parallel/parallel.hpp"
#include "peers/shared_library.hpp"
#include "plumb/error.hpp"

namespace plumb::onednn {
namespace {

using peers::Functions, peers::SharedLibrary;

void take_common(Functions& from, Library& l) {
  from.take(l.status_text, "dnnl_status2str");
  from.take(l.create_engine, "dnnl_engine_create");
  from.take(l.create_stream, "dnnl_stream_create");
  from.take(l.wait, "dnnl_stream_wait");
  from.take(l.destroy_stream, "dnnl_stream_destroy");
  from.take(l.create_attributes, "dnnl_primitive_attr_create");
  from.take(l.destroy_attributes, "dnnl_primitive_attr_destroy");
  from.take(l.set_scratchpad_mode, "dnnl_primitive_attr_set_scratchpad_mode");
  from.take(l.set_fpmath_mode, "dnnl_primitive_attr_set_fpmath_mode");
  from.take(l.set_post_ops, "dnnl_primitive_attr_set_post_ops");
  from.take(l.create_post_ops, "dnnl_post_ops_create");
  from.take(l.destroy_post_ops, "dnnl_post_ops_destroy");
  from.take(l.equal, "dnnl_memory_desc_equal");
  from.take(l.size, "dnnl_memory_desc_get_size");
  from.take(l.query_memory_desc, "dnnl_primitive_desc_query_md");
  from.take(l.destroy_primitive_desc, "dnnl_primitive_desc_destroy");
  from.take(l.reorder, "dnnl_reorder_primitive_desc_create");
  from.take(l.create_primitive, "dnnl_primitive_create");
  from.take(l.execute, "dnnl_primitive_execute");
  from.take(l.destroy_primitive, "dnnl_primitive_destroy");
  from.take(l.create_memory, "dnnl_memory_create");
  from.take(l.destroy_memory, "dnnl_memory_destroy");
}

void take_version2(Functions& from, Version2& v2) {
  from.take(v2.memory_desc_by_strides, "dnnl_memory_desc_init_by_strides");
  from.take(v2.memory_desc_by_tag, "dnnl_memory_desc_init_by_tag");
  from.take(v2.convolution, "dnnl_dilated_convolution_forward_desc_init");
  from.take(v2.backward_data, "dnnl_dilated_convolution_backward_data_desc_init");
  from.take(v2.backward_weights, "dnnl_dilated_convolution_backward_weights_desc_init");
  from.take(v2.primitive_desc, "dnnl_primitive_desc_create");
  from.take(v2.append_eltwise, "dnnl_post_ops_append_eltwise");
}

void take_version3(Functions& from, Version3& v3) {
  from.take(v3.memory_desc_by_strides, "dnnl_memory_desc_create_with_strides");
  from.take(v3.memory_desc_by_tag, "dnnl_memory_desc_create_with_tag");
  from.take(v3.destroy_memory_desc, "dnnl_memory_desc_destroy");
  from.take(v3.convolution, "dnnl_convolution_forward_primitive_desc_create");
  from.take(v3.backward_data, "dnnl_convolution_backward_data_primitive_desc_create");
  from.take(v3.backward_weights, "dnnl_convolution_backward_weights_primitive_desc_create");
  from.take(v3.append_eltwise, "dnnl_post_ops_append_eltwise");
}

/// Whether what one says of the number of threads the other follows.
bool is_our_openmp(int (*their_max_threads)()) {
  const int other = omp_get_max_threads() + 1;
  const RequestedThreads threads(other);
  return their_max_threads() == other;
}

/// Why threads would not be as many as the device has, or those of two runtimes; empty where oneDNN
/// runs on the threads of our OpenMP, or on the caller's alone.
std::string wrong_threads(const SharedLibrary& file, const Version& version) {
  if (version.cpu_runtime == sequential_runtime) return {};
  if (version.cpu_runtime != openmp_runtime)
    return fmt::format(
        "its threads are of runtime {}, which cannot be told how many to use; expected a build "
        "with OpenMP (2) or without threads (1)",
        version.cpu_runtime);
  void* const theirs = file.function("omp_get_max_threads");
  if (theirs && is_our_openmp(reinterpret_cast<int (*)()>(theirs))) return {};
  return fmt::format("its OpenMP is {}; expected the runtime that Plumb uses",
                     theirs ? SharedLibrary::file_of(theirs) : "not to be found");
}

Library refused(Library library, Reason reason, std::string sentence) {
  library.report.reason = reason;
  library.report.sentence = fmt::format("{}: {}", library.report.path, sentence);
  return library;
}

Library open(const std::string& folders) {
  Library l{};
  const SharedLibrary file = peers::open_shared_library({"libdnnl.so.3", "libdnnl.so.2"}, folders);
  l.report = file.report;
  if (!file.handle) return l;
  Functions functions(file);
  functions.take(l.version, "dnnl_version");
  const Version* const version = l.version ? l.version() : nullptr;
  if (!version)
    return refused(l, Reason::provider_version, "no dnnl_version, which tells the version");
  l.report.path = SharedLibrary::file_of(reinterpret_cast<const void*>(l.version));
  l.report.version = fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
  l.major = version->major;
  // 2.6 is the oldest that this was tried with; of another major version nothing is known.
  if (!(l.major == 3 || (l.major == 2 && version->minor >= 6)))
    return refused(l, Reason::provider_version,
                   l.report.version + "; expected 2.6 or newer of 2, or 3");
  take_common(functions, l);
  if (l.major == 2)
    take_version2(functions, l.v2);
  else
    take_version3(functions, l.v3);
  if (!functions.missing().empty())
    return refused(l, Reason::provider_version,
                   fmt::format("{}, without {}", l.report.version, functions.missing()));
  if (std::string why = wrong_threads(file, *version); !why.empty())
    return refused(l, Reason::provider_version, fmt::format("{}: {}", l.report.version, why));
  if (const Status status = l.create_engine(&l.engine, cpu_kind, 0); status != success)
    return refused(
        l, Reason::provider_missing,
        fmt::format("{}: dnnl_engine_create: {}", l.report.version, l.status_text(status)));
  return l;
}

}  // namespace

const Library& library() {
  static auto& opened = *new peers::OpenedOnce<Library>;
  return opened.get(open);
}

void check(Status status, std::string_view call) {
  if (status == success) return;
  throw Error(status == out_of_memory ? ErrorCode::out_of_memory : ErrorCode::device_failure,
              fmt::format("{}: {}", call, library().status_text(status)));
}

const Provider provider{.name = "onednn",
                        .library = []() -> LibraryReport { return library().report; }};

}  // namespace plumb::onednn
