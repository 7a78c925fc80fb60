#include "nccl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "messages.hpp"
#include "plumb/error.hpp"

namespace plumb::mpi {
namespace {

/// What is used of NCCL 2, in its own types' sizes: ncclResult_t and ncclDataType_t are
/// enumerations, of which ncclSuccess and ncclInt8 are 0; communicators and streams are pointers.
struct Functions {
  const char* (*error_string)(int);
  int (*user_rank)(void*, int*);
  int (*count)(void*, int*);
  int (*group_start)();
  int (*group_end)();
  int (*send)(const void*, std::size_t, int, int, void*, void*);
  int (*receive)(void*, std::size_t, int, int, void*, void*);
};

const Functions& functions() {
  static const Functions opened = [] {
    void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library)
      throw Error(
          ErrorCode::unsupported,
          fmt::format("distributed: transport nccl: {}; expected NCCL where the loader looks",
                      dlerror()));
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (!function)
        throw Error(
            ErrorCode::unsupported,
            fmt::format("distributed: transport nccl: libnccl.so.2 has no {}; expected NCCL "
                        "2.7 or later",
                        name));
    };
    Functions f{};
    find(f.error_string, "ncclGetErrorString");
    find(f.user_rank, "ncclCommUserRank");
    find(f.count, "ncclCommCount");
    find(f.group_start, "ncclGroupStart");
    find(f.group_end, "ncclGroupEnd");
    find(f.send, "ncclSend");
    find(f.receive, "ncclRecv");
    return f;
  }();
  return opened;
}

void check_nccl(int result, const char* call) {
  if (result == 0) return;
  throw Error(ErrorCode::device_failure,
              fmt::format("distributed: {}: {}", call, functions().error_string(result)));
}

class Opened : public Nccl {
 public:
  Opened(const Device& device, void* communicator) : communicator_(communicator), queue_(device) {}

  void exchange(const std::optional<Event>& packed, const std::vector<Message>& sends,
                const std::vector<Message>& receives) override {
    const Functions& nccl = functions();
    if (packed) queue_.wait(*packed);
    check_nccl(nccl.group_start(), "ncclGroupStart");
    const auto bytes = [](const Message& message) {
      return static_cast<std::size_t>(message.elements) * size_in_bytes(message.on_device.dtype());
    };
    for (const Message& message : sends)
      check_nccl(nccl.send(message.on_device.data(), bytes(message), 0, message.rank, communicator_,
                           queue_.native()),
                 "ncclSend");
    for (const Message& message : receives)
      check_nccl(nccl.receive(message.on_device.data(), bytes(message), 0, message.rank,
                              communicator_, queue_.native()),
                 "ncclRecv");
    check_nccl(nccl.group_end(), "ncclGroupEnd");
    done_ = queue_.record();
  }

  void wait(Queue& queue) override {
    if (done_) queue.wait(*done_);
  }

 private:
  void* communicator_;
  Queue queue_;
  std::optional<Event> done_;
};

}  // namespace

std::shared_ptr<Nccl> Nccl::open(const Device& device, void* communicator, int rank, int ranks) {
  const Functions& nccl = functions();
  int of_nccl = 0, count = 0;
  check_nccl(nccl.user_rank(communicator, &of_nccl), "ncclCommUserRank");
  check_nccl(nccl.count(communicator, &count), "ncclCommCount");
  if (of_nccl != rank || count != ranks)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("distributed: nccl_communicator is of rank {} of {}; expected MPI's, {} of "
                    "{}",
                    of_nccl, count, rank, ranks));
  return std::make_shared<Opened>(device, communicator);
}

}  // namespace plumb::mpi
