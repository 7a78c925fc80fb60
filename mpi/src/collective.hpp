// MPI calls with a time limit, and the agreement of all ranks on what became of a call.
#pragma once

#include <mpi.h>

#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plumb/error.hpp"

namespace plumb::mpi {

/// Error (device_failure) that names the call, where MPI did not succeed.
void check_mpi(int code, const char* call);

/// Error (invalid_argument) where MPI cannot be used by this thread: it is not initialised, or
/// finalised, or its thread level is too low for a device that has `host_threads`.
void check_thread_level(int host_threads);

/// Raised where the time limit passes; requests under way stay so.
class TimeLimit : public Error {
 public:
  explicit TimeLimit(const std::string& message) : Error(ErrorCode::device_failure, message) {}
};

/// A communicator of Plumb's own, a duplicate of the caller's, and how long to wait on it.
class Communicator {
 public:
  /// Collective. Error (invalid_argument) for a null or an intercommunicator.
  Communicator(MPI_Comm of_caller, double time_limit_seconds);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  MPI_Comm get() const { return communicator_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  double time_limit_seconds() const { return time_limit_seconds_; }

  /// Waits for all of them. TimeLimit names `what`; `late` tells what each request stands for.
  void wait(std::vector<MPI_Request>& requests, const char* what,
            const std::function<std::string(std::size_t)>& late = {});
  void wait(MPI_Request& request, const char* what);
  /// Waits for no longer than that, and says whether all are done.
  bool are_done_within(std::vector<MPI_Request>& requests, double seconds);
  /// What a time limit left behind may not be touched any more: neither requests nor communicator.
  bool is_broken() const { return broken_; }
  /// Error where it is.
  void check_usable() const;

 private:
  bool are_done(std::vector<MPI_Request>& requests);

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  double time_limit_seconds_;
  bool broken_ = false;
};

/// Runs `work` on this rank; then all ranks agree. Where one or more failed, all throw the Error of
/// the first, whose message begins with that rank. TimeLimit passes through at once.
void agree_on(Communicator& communicator, const std::function<void()>& work);

/// Error (invalid_argument) on every rank where `text` is not the same on all: both are shown.
void require_same(Communicator& communicator, const std::string& text);

/// What an exception was, to be sent: never empty.
struct Failure {
  ErrorCode code = ErrorCode::device_failure;
  std::string message;
};
/// The exception being handled.
Failure caught_failure();

}  // namespace plumb::mpi
