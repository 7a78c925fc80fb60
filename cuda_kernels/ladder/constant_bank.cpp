// The bank keeps account of who may use which part of the constant memory, and when.
#include "cuda_kernels/ladder/constant_bank.hpp"

#include <fmt/format.h>

#include "cuda_kernels/primitives/check.hpp"
#include "plumb/error.hpp"
#include "plumb/tensor.hpp"

namespace plumb::cuda {
namespace {

double bytes_of_filters(const ConvProblem& problem) {
  return static_cast<double>(problem.k) * static_cast<double>(problem.terms()) * sizeof(float);
}

bool are_dense(const ConvProblem& problem) {
  return ConstTensorView(nullptr, problem.dtype, problem.w_extents(), host, problem.w_strides)
      .is_dense();
}

void refuse_capture(cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing");
  if (capture != cudaStreamCaptureStatusNone)
    throw Error(ErrorCode::unsupported,
                "filters in constant memory while the stream is being captured: a graph that runs "
                "later could not keep other filters out of it; expected an algorithm that can be "
                "captured");
}

}  // namespace

ConvProblem with_packed_filters(ConvProblem problem) {
  problem.w_strides = dense_strides(problem.w_extents());
  return problem;
}

Support ConstantBank::holds(const ConvProblem& problem) {
  const double bytes = bytes_of_filters(problem);
  if (bytes <= static_cast<double>(capacity_bytes)) return {};
  return {Reason::device_limit,
          fmt::format("filters of {:.0f} bytes; constant memory has {}", bytes, capacity_bytes)};
}

std::size_t ConstantBank::filter_bytes(const ConvProblem& problem, const DeviceInfo&) {
  return are_dense(problem) ? 0 : static_cast<std::size_t>(bytes_of_filters(problem));
}

ConstantBank::OnDevice& ConstantBank::on_device(int index) {
  if (const auto found = devices_.find(index); found != devices_.end()) return found->second;
  OnDevice bank;
  check(cudaGetSymbolAddress(&bank.memory, symbol_), "cudaGetSymbolAddress");
  for (int slot = 0; slot < slots; ++slot) {
    check(cudaEventCreateWithFlags(&bank.events[slot], cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    bank.users[slot] = slot;
  }
  return devices_.emplace(index, bank).first->second;
}

ConstantBank::Lease::Lease(ConstantBank& bank, const ConvLaunch& call)
    : stream_(static_cast<cudaStream_t>(call.native_queue)) {
  refuse_capture(stream_);
  lock_ = std::unique_lock(bank.mutex_);
  bank_ = &bank.on_device(call.device.id.index);

  const auto bytes = static_cast<std::int64_t>(bytes_of_filters(call.problem));
  take(static_cast<int>((bytes - 1) / slot_bytes + 1));
  const void* const filters = are_dense(call.problem) ? call.w : call.filters;
  check(cudaMemcpyAsync(static_cast<char*>(bank_->memory) + first_slot_ * slot_bytes, filters,
                        static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_),
        "cudaMemcpyAsync");
}

/// Takes `count` slots and makes the stream wait for all who used them.
///
/// The event of the first slot will be recorded behind this lease's work, and become the user of
/// all the slots. Slots beyond the run may still name that event for an earlier lease. Therefore
/// the stream waits for it here too: once recorded anew, it stands for the old work and the new.
void ConstantBank::Lease::take(int count) {
  first_slot_ = bank_->next + count <= slots ? bank_->next : 0;
  const auto wait_for = [&](int user) {
    check(cudaStreamWaitEvent(stream_, bank_->events[user]), "cudaStreamWaitEvent");
  };
  wait_for(first_slot_);
  int waited_for = first_slot_;
  for (int slot = first_slot_; slot < first_slot_ + count; ++slot) {
    if (bank_->users[slot] != waited_for) wait_for(waited_for = bank_->users[slot]);
    bank_->users[slot] = first_slot_;
  }
  bank_->next = (first_slot_ + count) % slots;
}

ConstantBank::Lease::~Lease() {
  // This runs where a launch threw too, since the copy is under way. Recording fails only in a
  // context that an earlier error broke, in which nothing runs any more that could be in the way.
  if (cudaEventRecord(bank_->events[first_slot_], stream_) != cudaSuccess) cudaGetLastError();
}

}  // namespace plumb::cuda
