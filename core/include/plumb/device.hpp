// Devices are chosen at run time, and have in-order queues that work is put on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/error.hpp"
#include "plumb/export.h"
#include "plumb/types.hpp"

namespace plumb {

class Backend;
class BackendDevice;
class BackendEvent;
class BackendQueue;
class PlanCache;
class QueueWorkspace;
struct ConvAlgorithm;

/// Where memory lives and work runs: a backend's name and an index in it. Host memory is
/// {"cpu", 0}. The name must outlive the id; Device::id() gives one that does.
struct DeviceId {
  std::string_view backend = "cpu";  ///< "cpu", "cuda", ...
  int index = 0;                     ///< among the backend's devices
  friend bool operator==(const DeviceId&, const DeviceId&) = default;  ///< the same device
};
inline constexpr DeviceId host{};  ///< names memory that the CPU reads
/// Returns the name: "cpu", "cuda:0".
PLUMB_API std::string to_string(const DeviceId&);

/// The description of a device, as far as choosing an algorithm needs it.
struct DeviceInfo {
  DeviceId id;  ///< what Device::open() takes
  /// The name that may take the place of the index: "openmp" of "kokkos:openmp"; may be empty.
  std::string alias;
  std::string name;              ///< as the vendor calls it
  std::string instruction_set;   ///< "avx512", "sm_90"
  int units = 0;                 ///< multiprocessors, or threads that the CPU path uses
  std::size_t memory_bytes = 0;  ///< in all
  /// Shared memory of a block, the opt-in maximum; on Kokkos the scratch memory of a team; 0 on a
  /// CPU.
  std::size_t shared_memory_bytes = 0;
  int compute_major = 0;   ///< of CUDA's compute capability; 0 elsewhere
  int compute_minor = 0;   ///< of CUDA's compute capability; 0 elsewhere
  int driver_version = 0;  ///< CUDA's, 13000 for 13.0; KOKKOS_VERSION; 0 elsewhere
  /// Nominal rates come from the device's own attributes; estimates use them, and they are never
  /// reported as measured.
  double nominal_bytes_per_second = 0;
  double nominal_fp32_flop_per_second = 0;  ///< nominal, as the rate of bytes
};

/// The most that a device does, measured on the device itself: the roof of a roofline. Operations
/// count an addition and a multiplication as two; 0 stands for what the device cannot do.
struct PLUMB_API DeviceCeilings {
  double bytes_per_second = 0;      ///< of a copy far larger than the caches, read plus written
  double fp64_flop_per_second = 0;  ///< FMA pipe
  double fp32_flop_per_second = 0;  ///< FMA pipe
  /// The rate of fp16 sums of fp16 products without tensor cores.
  double fp16_fma_flop_per_second = 0;
  /// The rate of fp32 sums of products in the type named: on tensor cores where there are some.
  double tf32_flop_per_second = 0;
  double bf16_flop_per_second = 0;  ///< fp32 sums of bf16 products
  double fp16_flop_per_second = 0;  ///< fp32 sums of fp16 products

  /// Returns the ceiling of arithmetic that keeps the promise of `math` and no stricter one.
  double flop_per_second(Math math) const;
};

/// Kinds of memory that a tensor may own.
enum class Memory {
  device,       ///< the device's own
  pinned_host,  ///< host memory that the device copies from and to at full speed
};

/// The caller's own source of memory, for tensors and for the workspace of queues. Both functions
/// are there or neither, and may be called from several threads at once; `deallocate` must not
/// throw.
struct Allocator {
  /// Returns `bytes` (at least 1), 256-byte aligned, or null where there is no more. Memory for a
  /// workspace comes with the native queue that alone will use it, in order: a pool may give what
  /// earlier work of that queue still uses. Otherwise `native_queue` is null.
  std::function<void*(std::size_t bytes, Memory memory, void* native_queue)> allocate = {};
  /// Gets the arguments that `allocate` had. With a native queue, work on it may still use the
  /// memory; otherwise nothing does.
  std::function<void(void* data, std::size_t bytes, Memory memory, void* native_queue)> deallocate =
      {};
};

/// A device is opened with these options, which are its own: other users of the library in the same
/// process see nothing of them.
struct DeviceOptions {
  Allocator allocator = {};  ///< empty: the backend's own memory
  /// Gets each message (a line, without its end): the devices that `auto` passed over, each plan as
  /// it is made. It is called on the thread that causes the message, by several at once. If it is
  /// empty, messages go to standard error where PLUMB_VERBOSE is set, and otherwise nowhere.
  std::function<void(std::string_view line)> log = {};
  /// Names other libraries whose algorithms are listed, commas between: "cudnn,onednn". They are
  /// opened at run time where they are, and a plan takes one of their algorithms where that states
  /// a bound of the class asked for and is the fastest by a time from tuning. "none" is none of
  /// them; empty means PLUMB_PROVIDERS, or none without it.
  std::string providers = {};
};

/// A backend that `auto` did not take, or gave up while it worked, and why.
struct PassedOver {
  std::string_view backend;      ///< its name, which lives as long as the program
  Reason reason = Reason::none;  ///< never `none` in a device's list
  std::string sentence;          ///< the reason with its values, for people
};

/// One device, opened. It is cheap to copy; copies share their cache of plans. Several threads may
/// use it.
class PLUMB_API Device {
 public:
  /// Opens a device. `auto` takes the first GPU that works, otherwise the CPU, with why() saying
  /// what was passed over. A name ("cpu", "cuda", "cuda:1", "kokkos", "kokkos:openmp") must be had
  /// or is an Error (device_unavailable) that says what is missing. An empty spec means
  /// PLUMB_DEVICE, or `auto` without it. Kokkos is only taken when it is named, and is then
  /// initialised if nobody has done that yet.
  /// Throws Error (invalid_argument) for what is no device's name, for a provider that Plumb does
  /// not know, and for one half of an allocator.
  static Device open(std::string_view spec = {}, DeviceOptions options = {});

  const DeviceInfo& info() const;                   ///< what it is
  const DeviceId& id() const { return info().id; }  ///< lives as long as any device of the backend
  /// Returns the bytes of memory that could be allocated now.
  std::size_t free_bytes() const;
  /// Returns memory from the device's allocator: at least one byte, 256-byte aligned. A Tensor
  /// frees its memory by itself. Throws Error (out_of_memory), which names the bytes asked for.
  void* allocate(std::size_t bytes, Memory memory = Memory::device) const;
  /// Frees memory; `bytes` and `memory` are those it was allocated with, and null is passed over.
  /// Work that uses the memory must be done.
  void deallocate(void* data, std::size_t bytes, Memory memory = Memory::device) const noexcept;
  /// Returns what was passed over and why, in the order in which it was tried, for a device that
  /// `auto` chose; otherwise it is empty.
  const std::vector<PassedOver>& passed_over() const;
  /// Returns the same as one line: "cuda: the NVIDIA driver is not installed (no_driver)".
  const std::string& why() const;

  /// Returns the CPU where `auto` chose this device and it has now failed, with the failure as the
  /// last of what was passed over. Work whose data are on the host can then be done again there;
  /// what lies in tensors of the failed device does not come along, nor does an allocator for its
  /// memory. It throws `failure` itself where the device was asked for by name or is the CPU, and
  /// where the failure is the caller's (invalid_argument, unsupported).
  Device fall_back(const Error& failure) const;

  /// Measures for a second or so, on a queue of its own; whatever else the device does meanwhile
  /// lowers the result. Throws Error: out_of_memory, device_failure.
  DeviceCeilings measure_ceilings() const;
  /// Returns the clock that the device's units run at now, under some 10 ms of work put on it for
  /// that, or 0 where it cannot be told. Throws Error: device_failure.
  double measure_clock_hertz() const;

  BackendDevice& backend() const;        ///< for the library's own use
  PlanCache& plans() const;              ///< for the library's own use
  const DeviceOptions& options() const;  ///< that it was opened with
  /// For the library's own use: what conv_algorithms() returns.
  std::span<const ConvAlgorithm* const> algorithms() const;
  bool logs() const;  ///< for the library's own use: whether anybody reads messages
  void log(std::string_view line) const;  ///< for the library's own use: a message for them

 private:
  struct State;
  explicit Device(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// The offer of one backend on this machine, or why it offers nothing.
struct BackendReport {
  std::string name;                 ///< as in DeviceId
  std::string version;              ///< empty where it could not be loaded
  Reason reason = Reason::none;     ///< why there are no devices
  std::string sentence;             ///< the reason, for people
  std::vector<DeviceInfo> devices;  ///< in the order of their indices
};
/// Reports on every backend that Plumb knows of, in the order in which `auto` tries them.
PLUMB_API std::vector<BackendReport> backend_reports();

/// One library that DeviceOptions::providers may name, as it was found on this machine.
struct ProviderReport {
  std::string name;              ///< "onednn"
  std::string backend;           ///< whose devices it computes on: "cpu"
  std::string version;           ///< "oneDNN 3.2.0"; empty where it could not be asked
  std::string path;              ///< its file; empty where there is none
  Reason reason = Reason::none;  ///< why it cannot be had
  std::string sentence;          ///< the reason, for people
};
/// Looks for every library that DeviceOptions::providers may name, and opens it.
PLUMB_API std::vector<ProviderReport> provider_reports();

/// A point in a queue's work.
class PLUMB_API Event {
 public:
  void synchronize() const;  ///< waits on the host
  bool done() const;         ///< whether the queue has passed it; does not wait

  /// For the library's own use.
  const std::shared_ptr<BackendEvent>& backend() const { return backend_; }

 private:
  friend class Queue;
  explicit Event(std::shared_ptr<BackendEvent> backend) : backend_(std::move(backend)) {}
  std::shared_ptr<BackendEvent> backend_;
};
/// Returns the device's time from one event to a later one of the same device; waits for both.
PLUMB_API double seconds_between(const Event& from, const Event& to);

/// A queue runs work in order, on one device. One thread at a time may use a queue; several queues
/// may run at once. On the CPU each call has finished when it returns.
class PLUMB_API Queue {
 public:
  /// Makes a queue of its own (on CUDA a non-blocking stream).
  explicit Queue(const Device& device);
  /// Wraps the caller's stream (`cudaStream_t` on CUDA), which must outlive the queue and is never
  /// destroyed by it. On the CPU, `native` must be null. On Kokkos it points to an execution space
  /// object, which is copied (plumb/kokkos.hpp).
  static Queue wrap(const Device& device, void* native);

  const Device& device() const { return device_; }  ///< that it works on
  void* native() const;                             ///< the stream, null on the CPU
  void synchronize();       ///< waits on the host; throws what the device reports
  Event record();           ///< happens when the work before it is done
  void wait(const Event&);  ///< later work of this queue starts after the event

  /// Returns scratch memory, 256-byte aligned, for the work that is put on the queue next. It grows
  /// to the largest that was asked for and goes with the queue. Throws Error: out_of_memory;
  /// unsupported where it would have to grow while the queue's stream is being captured.
  void* workspace(std::size_t bytes);

  BackendQueue& backend() const { return *backend_; }  ///< for the library's own use

 private:
  Queue(const Device& device, std::shared_ptr<BackendQueue> backend);
  Device device_;
  std::shared_ptr<BackendQueue> backend_;
  std::shared_ptr<QueueWorkspace> workspace_;  ///< null where the backend has its own
};

}  // namespace plumb
