#include "collective.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace plumb::mpi {
namespace {

constexpr std::size_t message_bytes = 1024;  ///< of what is sent of a reason

/// A failure as it travels.
struct Packet {
  int code = 0;
  std::array<char, message_bytes> message{};
};

Packet packet_of(const Failure& failure) {
  Packet packet{.code = static_cast<int>(failure.code)};
  const std::size_t count = std::min(failure.message.size(), message_bytes - 1);
  std::memcpy(packet.message.data(), failure.message.data(), count);
  return packet;
}

/// Waits for a request that writes to what `kept` owns: past the time limit it may still be
/// written.
template <class Kept>
void wait_keeping(Communicator& communicator, MPI_Request& request, const char* what,
                  std::unique_ptr<Kept>& kept) {
  try {
    communicator.wait(request, what);
  } catch (...) {
    static_cast<void>(kept.release());
    throw;
  }
}

Packet broadcast(Communicator& communicator, const Packet& packet, int from) {
  auto sent = std::make_unique<Packet>(packet);
  MPI_Request request;
  check_mpi(MPI_Ibcast(sent.get(), sizeof(Packet), MPI_BYTE, from, communicator.get(), &request),
            "MPI_Ibcast");
  wait_keeping(communicator, request, "the reason of a failure", sent);
  sent->message.back() = 0;
  return *sent;
}

/// FNV-1a: the same for every C++ library.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// All ranks throw the failure of rank `from`.
[[noreturn]] void throw_of(Communicator& communicator, const Failure& own, int from) {
  const Packet packet = broadcast(communicator, packet_of(own), from);
  throw Error(static_cast<ErrorCode>(packet.code),
              fmt::format("rank {} of {}: {}", from, communicator.size(), packet.message.data()));
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ErrorCode::device_failure, fmt::format("distributed: {}: {}", call, text));
}

void check_thread_level(int host_threads) {
  int initialised = 0, finalised = 0, level = MPI_THREAD_SINGLE, is_main = 1;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  if (!initialised || finalised)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("distributed: MPI {}; expected a call between MPI_Init_thread and "
                            "MPI_Finalize",
                            finalised ? "is finalised" : "is not initialised"));
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level < MPI_THREAD_FUNNELED && host_threads > 1)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("distributed: MPI has the thread level MPI_THREAD_SINGLE, and the device "
                    "computes with {} threads of the host; expected MPI_THREAD_FUNNELED "
                    "(MPI_Init_thread), or OMP_NUM_THREADS=1",
                    host_threads));
  if (level >= MPI_THREAD_SERIALIZED) return;
  check_mpi(MPI_Is_thread_main(&is_main), "MPI_Is_thread_main");
  if (!is_main)
    throw Error(
        ErrorCode::invalid_argument,
        "distributed: a call from a thread other than the one that initialised MPI; expected "
        "that one, or the thread level MPI_THREAD_SERIALIZED");
}

Communicator::Communicator(MPI_Comm of_caller, double time_limit_seconds)
    : time_limit_seconds_(time_limit_seconds) {
  if (of_caller == MPI_COMM_NULL)
    throw Error(ErrorCode::invalid_argument, "distributed: the communicator is MPI_COMM_NULL");
  if (!(time_limit_seconds > 0))
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("distributed: a time limit of {} s; expected more than 0", time_limit_seconds));
  int inter = 0;
  check_mpi(MPI_Comm_test_inter(of_caller, &inter), "MPI_Comm_test_inter");
  if (inter)
    throw Error(
        ErrorCode::invalid_argument,
        "distributed: the communicator is an intercommunicator; expected one group of ranks");
  check_mpi(MPI_Comm_rank(of_caller, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(of_caller, &size_), "MPI_Comm_size");
  MPI_Request request;
  // The new handle is written when the request is done, wherever this object's constructor ends.
  auto* const made = new MPI_Comm(MPI_COMM_NULL);
  check_mpi(MPI_Comm_idup(of_caller, made, &request), "MPI_Comm_idup");
  wait(request, "the duplicate of the communicator");
  communicator_ = *made;
  delete made;
  check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

Communicator::~Communicator() {
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (communicator_ != MPI_COMM_NULL && !broken_ && !finalised) MPI_Comm_free(&communicator_);
}

void Communicator::check_usable() const {
  if (broken_)
    throw Error(
        ErrorCode::device_failure,
        "distributed: an earlier call waited in vain for another rank, or failed within MPI; "
        "expected no further use, but the end of the program (MPI_Abort)");
}

bool Communicator::are_done(std::vector<MPI_Request>& requests) {
  int done = 0;
  const int code =
      MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
  if (code != MPI_SUCCESS) {
    broken_ = true;
    check_mpi(code, "MPI_Testall");
  }
  return done != 0;
}

bool Communicator::are_done_within(std::vector<MPI_Request>& requests, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  while (!are_done(requests)) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (waited.count() > seconds) return false;
  }
  return true;
}

void Communicator::wait(std::vector<MPI_Request>& requests, const char* what,
                        const std::function<std::string(std::size_t)>& late) {
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0;; ++round) {
    if (are_done(requests)) return;
    if (round < 200) continue;
    sched_yield();  // where ranks share cores, the other one needs this one
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (waited.count() < time_limit_seconds_) continue;
    broken_ = true;
    std::string names;
    for (std::size_t i = 0; late && i < requests.size(); ++i) {
      int arrived = 1;
      MPI_Request_get_status(requests[i], &arrived, MPI_STATUS_IGNORE);
      if (!arrived) names += (names.empty() ? ": " : ", ") + late(i);
    }
    throw TimeLimit(
        fmt::format("rank {} of {}: waited {} s for {}{}; another rank ended, is slower, "
                    "or has not made the same call",
                    rank_, size_, time_limit_seconds_, what, names));
  }
}

void Communicator::wait(MPI_Request& request, const char* what) {
  std::vector<MPI_Request> one{request};
  wait(one, what);
}

Failure caught_failure() {
  try {
    throw;
  } catch (const Error& e) {
    return {e.code(), e.what()};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::out_of_memory, "host memory ran out"};
  } catch (const std::exception& e) {
    return {ErrorCode::device_failure, e.what()};
  } catch (...) {
    return {ErrorCode::device_failure, "something was thrown that is no exception"};
  }
}

void agree_on(Communicator& communicator, const std::function<void()>& work) {
  communicator.check_usable();
  Failure failure;
  int own = communicator.size();
  try {
    work();
  } catch (const TimeLimit&) {
    throw;
  } catch (...) {
    failure = caught_failure();
    own = communicator.rank();
  }
  struct Ranks {
    int own, first;
  };
  auto ranks = std::make_unique<Ranks>(Ranks{own, own});
  MPI_Request request;
  check_mpi(
      MPI_Iallreduce(&ranks->own, &ranks->first, 1, MPI_INT, MPI_MIN, communicator.get(), &request),
      "MPI_Iallreduce");
  wait_keeping(communicator, request, "the other ranks to say what became of their part", ranks);
  if (ranks->first < communicator.size()) throw_of(communicator, failure, ranks->first);
}

void require_same(Communicator& communicator, const std::string& text) {
  using Hashes = std::vector<std::uint64_t>;  // this rank's behind those of all
  auto all = std::make_unique<Hashes>(static_cast<std::size_t>(communicator.size()) + 1);
  all->back() = hash_of(text);
  MPI_Request request;
  check_mpi(MPI_Iallgather(&all->back(), 1, MPI_UINT64_T, all->data(), 1, MPI_UINT64_T,
                           communicator.get(), &request),
            "MPI_Iallgather");
  wait_keeping(communicator, request, "the problems of the other ranks", all);
  const auto other = std::find_if(all->begin(), all->end() - 1,
                                  [&](std::uint64_t hash) { return hash != all->front(); });
  if (other == all->end() - 1) return;
  const auto rank = static_cast<int>(other - all->begin());
  const Packet own = packet_of({ErrorCode::invalid_argument, text});
  const Packet of_first = broadcast(communicator, own, 0);
  const Packet of_other = broadcast(communicator, own, rank);
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("distributed: rank {} of {} has another problem than rank 0: {}; expected {}",
                  rank, communicator.size(), of_other.message.data(), of_first.message.data()));
}

}  // namespace plumb::mpi
