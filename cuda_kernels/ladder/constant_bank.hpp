// Concurrent convolutions share constant memory safely through this bank. A __constant__ symbol is
// one for its whole module: two convolutions with different filters on two streams would write over
// each other's. Here each launch takes a part of the symbol to itself, and work that comes later
// waits for the work that used that part before.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <map>
#include <mutex>

#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// Returns the problem with its filters as they lie in the bank: dense K C/G R S.
ConvProblem with_packed_filters(ConvProblem problem);

/// The constant memory of one .cu (each is a module with 64 KB of its own), on every device.
class ConstantBank {
 public:
  static constexpr std::int64_t capacity_bytes = 64 * 1024;
  static constexpr std::int64_t capacity = capacity_bytes / std::int64_t{sizeof(float)};

  /// `symbol` is the __constant__ array of `capacity` floats. A bank has to live as long as the
  /// process: launches that are under way use it, and at exit CUDA may be gone before it.
  explicit ConstantBank(const void* symbol) : symbol_(symbol) {}
  ConstantBank(const ConstantBank&) = delete;
  ConstantBank& operator=(const ConstantBank&) = delete;

  /// Says yes where all the filters fit at once.
  static Support holds(const ConvProblem& problem);
  /// Returns the bytes of filters that have to be packed (pack_filters.hpp) because they are not
  /// dense, otherwise 0.
  static std::size_t filter_bytes(const ConvProblem& problem, const DeviceInfo&);

  class Lease;

 private:
  static constexpr int slots = 16;
  static constexpr std::int64_t slot_bytes = capacity_bytes / slots;

  /// What may still be using the bank, on one device. Once the event of a slot's user has happened,
  /// so has all work that ever used the slot: see Lease.
  struct OnDevice {
    void* memory = nullptr;
    std::array<cudaEvent_t, slots> events{};  ///< kept as long as the process lives
    std::array<int, slots> users{};           ///< for each slot, the index of its user's event
    int next = 0;                             ///< where the next run of slots begins, if it fits
  };
  OnDevice& on_device(int index);

  const void* symbol_;
  std::mutex mutex_;
  std::map<int, OnDevice> devices_;
};

/// Holds a call's filters in the bank for the work launched on the call's stream while it lives. It
/// puts the copy on the stream; the host waits for nothing but other threads' leases.
class ConstantBank::Lease {
 public:
  /// Throws Error (unsupported) where the stream is being captured: the graph would run later, and
  /// then nothing would keep other filters out of its part of the bank.
  Lease(ConstantBank& bank, const ConvLaunch& call);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  /// Returns where in the symbol the filters begin, in floats.
  int first() const { return first_slot_ * static_cast<int>(slot_bytes / sizeof(float)); }

 private:
  void take(int count);

  cudaStream_t stream_;
  std::unique_lock<std::mutex> lock_;
  OnDevice* bank_;
  int first_slot_ = 0;
};

}  // namespace plumb::cuda
