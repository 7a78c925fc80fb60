// Devices, chosen at run time, and the in-order queues that work is put on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/error.hpp"
#include "plumb/types.hpp"

namespace plumb {

class Backend;
class BackendDevice;
class BackendEvent;
class BackendQueue;
class PlanCache;

/// Where memory lives and work runs: a backend's name and an index in it. Host memory is
/// {"cpu", 0}. The name must outlive the id; Device::id() gives one that does.
struct DeviceId {
  std::string_view backend = "cpu";
  int index = 0;
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
};
inline constexpr DeviceId host{};
/// "cpu", "cuda:0"
std::string to_string(const DeviceId&);

/// What a device is, as far as choosing an algorithm needs to know.
struct DeviceInfo {
  DeviceId id;
  std::string name;                          ///< as the vendor calls it
  std::string instruction_set;               ///< "avx512", "sm_90"
  int units = 0;                             ///< multiprocessors, or threads that the CPU path uses
  std::size_t memory_bytes = 0;              ///< in all
  std::size_t shared_memory_bytes = 0;       ///< per block, opt-in maximum; 0 on a CPU
  int compute_major = 0, compute_minor = 0;  ///< CUDA compute capability; 0 elsewhere
  int driver_version = 0;                    ///< CUDA's, 13000 for 13.0; 0 elsewhere
  /// Nominal rates from the device's own attributes, used by estimates and never reported as
  /// measurements.
  double nominal_bytes_per_second = 0, nominal_fp32_flop_per_second = 0;
};

/// The most that a device does, measured on the device itself: the roof of a roofline. Operations
/// count an addition and a multiplication as two; 0 stands for what the device cannot do.
struct DeviceCeilings {
  double bytes_per_second = 0;      ///< of a copy far larger than the caches, read plus written
  double fp64_flop_per_second = 0;  ///< FMA pipe
  double fp32_flop_per_second = 0;  ///< FMA pipe
  /// fp16 sums of fp16 products without tensor cores.
  double fp16_fma_flop_per_second = 0;
  /// Sums in fp32 of products in the type named: tensor cores where there are some.
  double tf32_flop_per_second = 0, bf16_flop_per_second = 0, fp16_flop_per_second = 0;

  /// The ceiling of arithmetic that keeps this promise and no stricter one.
  double flop_per_second(Math math) const;
};

/// One device, opened. Cheap to copy; copies share their cache of plans. Safe to use from
/// several threads.
class Device {
 public:
  /// `auto`: the first GPU that works, otherwise the CPU, with why() saying what was passed over.
  /// A name ("cpu", "cuda", "cuda:1") must be had or is an Error (device_unavailable) that says
  /// what is missing. An empty spec means PLUMB_DEVICE, or `auto` without it.
  static Device open(std::string_view spec = {});

  const DeviceInfo& info() const;
  const DeviceId& id() const { return info().id; }
  /// Memory that could be allocated now.
  std::size_t free_bytes() const;
  /// For a device that `auto` chose, what it passed over and why; otherwise empty.
  const std::string& why() const;

  /// Measures for a second or so, on a queue of its own; whatever else the device does meanwhile
  /// lowers what is seen. Error: out_of_memory, device_failure.
  DeviceCeilings measure_ceilings() const;
  /// The clock that the device's units run at now, under some 10 ms of work put on it for that; 0
  /// where it cannot be told. Error: device_failure.
  double measure_clock_hertz() const;

  BackendDevice& backend() const;  ///< for the library's own use
  PlanCache& plans() const;        ///< for the library's own use

 private:
  struct State;
  explicit Device(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// What one backend offers on this machine, or why it offers nothing.
struct BackendReport {
  std::string name;
  std::string version;           ///< empty where it could not be loaded
  Reason reason = Reason::none;  ///< why there are no devices
  std::string sentence;          ///< the reason, for people
  std::vector<DeviceInfo> devices;
};
/// Every backend that Plumb knows of, in the order in which `auto` tries them.
std::vector<BackendReport> backend_reports();

/// A point in a queue's work.
class Event {
 public:
  void synchronize() const;  ///< waits on the host
  bool done() const;

  const std::shared_ptr<BackendEvent>& backend() const { return backend_; }

 private:
  friend class Queue;
  explicit Event(std::shared_ptr<BackendEvent> backend) : backend_(std::move(backend)) {}
  std::shared_ptr<BackendEvent> backend_;
};
/// The device's time from one event to a later one of the same device; waits for both.
double seconds_between(const Event& from, const Event& to);

/// Work in order, on one device. One thread at a time may use a queue; several queues may run at
/// once. On the CPU each call has finished when it returns.
class Queue {
 public:
  /// A queue of its own (on CUDA a non-blocking stream).
  explicit Queue(const Device& device);
  /// The caller's stream (`cudaStream_t` on CUDA), which must outlive the queue and is never
  /// destroyed by it. On the CPU, `native` must be null.
  static Queue wrap(const Device& device, void* native);

  const Device& device() const { return device_; }
  void* native() const;  ///< the stream, null on the CPU
  void synchronize();    ///< waits on the host; throws what the device reports
  Event record();
  void wait(const Event&);  ///< later work of this queue starts after the event

  BackendQueue& backend() const { return *backend_; }

 private:
  Queue(const Device& device, std::shared_ptr<BackendQueue> backend);
  Device device_;
  std::shared_ptr<BackendQueue> backend_;
};

}  // namespace plumb
