// A backend is one folder under backends/ and one line in backends/list.cpp. This header says what
// a backend implements, and lists the backends. Users of the library do not need it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"
#include "plumb/device.hpp"
#include "plumb/error.hpp"
#include "plumb/export.h"
#include "plumb/nn.hpp"
#include "plumb/tensor.hpp"

namespace plumb {

/// One pooling, which pool() has checked. Along axes that the image lacks, extents and windows are
/// 1, and nothing is padded.
struct PoolLaunch {
  ConstTensorView x = {};      ///< N C D H W
  TensorView y = {};           ///< N C Z P Q; overlaps neither itself nor x
  PoolGeometry geometry = {};  ///< of the windows
};

/// One copy of images with their padding: y[n,c,i,j,k] = x[n,c,d,h,w] for d = begin.d + i step.d,
/// and h and w likewise, where what lies outside x is what the boundary shows there: in the place
/// of zeros `outside`.
struct PadLaunch {
  ConstTensorView x = {};    ///< N C D H W
  TensorView y = {};         ///< N C and any other extents, of x's dtype; overlaps nothing
  Triple begin = {0};        ///< coordinates in x of y's first element
  Triple step = {1};         ///< at least 1
  Boundaries boundary = {};  ///< along D, H and W
  double outside = 0;        ///< beyond the edges of an axis with zeros; is rounded to the dtype
};

/// One sum: y = activation(x + y), formed in float, f64 in double. x and y overlap nowhere.
struct AddLaunch {
  ConstTensorView x = {};                    ///< N K Z P Q
  TensorView y = {};                         ///< of the same extents and dtype
  Activation activation = Activation::none;  ///< of the sum
};

/// One move of outputs to the pixels that they are of, behind a convolution whose filters are the
/// phases of pixels: y[n, g C/G + c, d, h, w] of phase a, d + offset[0] = i phases[0] + a[0] and so
/// on, is x[n, (g P + a) C/G + c, i, j, k]. An output that is NaN is formed anew, with bias and
/// activation, without the taps that the phase does not have: their filters are 0, which may have
/// met Inf.
struct PhasesLaunch {
  ConstTensorView x = {};                    ///< finished: N, G P C/G, and outputs of a phase
  TensorView y = {};                         ///< N C D H W, of x's dtype; overlaps nothing
  ConvProblem problem = {};                  ///< of the convolution
  ConstTensorView image = {};                ///< its image, N C D H W
  const void* filters = nullptr;             ///< its filters, dense: G P C/G, its channels, T R S
  std::int64_t phases[3] = {1, 1, 1};        ///< along D, H and W; P of them
  std::int64_t offset[3] = {0, 0, 0};        ///< along D, H and W
  std::int64_t taps[3] = {1, 1, 1};          ///< of all phases together
  const void* bias = nullptr;                ///< that x has: C dense elements, or null
  Activation activation = Activation::none;  ///< behind the bias

  /// Returns how many taps a phase does not have along an axis. They are the first ones.
  std::int64_t missing(int axis, std::int64_t phase) const {
    return (taps[axis] - 1) / phases[axis] - (taps[axis] - 1 - phase) / phases[axis];
  }
};

/// One sum over all but the channels, formed in double in an order that the extents alone fix:
/// y[c] = sum of x[n,c,d,h,w], to which y's old value is added. x and y overlap nowhere.
struct SumLaunch {
  ConstTensorView x = {};   ///< N C D H W
  TensorView y = {};        ///< C, of x's dtype
  bool accumulate = false;  ///< y's old value is added
};

/// One gradient of a pooling, which pool_backward() has checked; otherwise as PoolLaunch.
struct PoolBackwardLaunch {
  ConstTensorView x = {};      ///< N C D H W; empty where averages are taken
  ConstTensorView dy = {};     ///< N C Z P Q
  TensorView dx = {};          ///< N C D H W; overlaps none of the others
  PoolGeometry geometry = {};  ///< of the windows
};

/// One loss with its gradient, which softmax_cross_entropy() has checked. One of loss and dlogits
/// may be empty.
struct CrossEntropyLaunch {
  ConstTensorView logits = {};           ///< N C, C at least 1
  const std::int64_t* labels = nullptr;  ///< N of them
  std::int64_t label_stride = 1;         ///< from one to the next
  TensorView loss = {};                  ///< 1, of any dtype
  TensorView dlogits = {};               ///< N C, may be the logits
  double scale = 1;                      ///< of dlogits
  double* losses = nullptr;              ///< workspace for N numbers where there is a loss
};

/// One step, which sgd_step() has checked. Tensors have five axes of the same extents.
struct SgdLaunch {
  TensorView w = {};         ///< is changed
  ConstTensorView dw = {};   ///< w's gradient
  TensorView velocity = {};  ///< is changed; empty without momentum
  SgdOptions options = {};   ///< of the step
};

/// A point in a queue's work.
class PLUMB_API BackendEvent {
 public:
  virtual ~BackendEvent() = default;
  virtual void synchronize() const = 0;  ///< waits on the host
  virtual bool done() const = 0;         ///< does not wait
  /// Returns the seconds from `earlier`, an event of the same backend, to this one; both have
  /// happened.
  virtual double seconds_since(const BackendEvent& earlier) const = 0;
};

/// A queue runs work in order. Core has checked the arguments; every call may throw Error
/// (device_failure, out_of_memory).
class PLUMB_API BackendQueue {
 public:
  virtual ~BackendQueue() = default;
  virtual void* native() const = 0;  ///< the stream (CUDA), or null
  /// Until join() the queue has branches, whose work begins behind what it has now and may run at
  /// the same time. A queue that cannot have any is all of them itself. Branches do not branch.
  virtual void fork([[maybe_unused]] int branches) {}
  /// Returns a branch between fork() and join(). Branch 0 is the queue itself.
  virtual BackendQueue& branch([[maybe_unused]] int number) { return *this; }
  /// What is put on the queue from now on begins behind all branches' work.
  virtual void join() {}
  virtual void synchronize() = 0;  ///< waits on the host, and throws what the device reports
  /// Says whether work put on the queue is being recorded in a graph instead of run.
  virtual bool is_capturing() const { return false; }
  virtual std::shared_ptr<BackendEvent> record() = 0;  ///< behind the work so far
  virtual void wait(const BackendEvent& event) = 0;    ///< for an event of the same backend
  /// Copies; either side may be host memory.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Returns scratch memory of the queue, 256-byte aligned, valid for the work put on it next.
  virtual void* workspace(std::size_t bytes) = 0;
  /// Makes the device current and packs filters for an algorithm that has a layout of its own.
  virtual void pack_filters(const ConvAlgorithm& algorithm, const FilterPacking& packing,
                            const KernelPlan* plan) {
    algorithm.pack_filters(packing, plan);
  }
  /// Makes the device current and launches what was planned.
  virtual void conv(const ConvAlgorithm& algorithm, const ConvLaunch& launch,
                    const KernelPlan* plan) = 0;
  virtual void pad(const PadLaunch& launch) = 0;  ///< for algorithms that know no boundary
  virtual void add(const AddLaunch& launch) = 0;  ///< for algorithms that do not accumulate
  virtual void join_phases(const PhasesLaunch& launch) = 0;  ///< for gradients with strides
  virtual void sum_channels(const SumLaunch& launch) = 0;    ///< for the gradient of a bias
  /// dx = dy where y, the ReLU's output, is above 0, and 0 elsewhere, as where y is NaN; five axes
  /// each, and dx may be dy.
  virtual void relu_backward(const ConstTensorView& y, const ConstTensorView& dy,
                             const TensorView& dx) = 0;
  virtual void pool(const PoolLaunch& launch) = 0;                                  ///< nn.hpp
  virtual void relu(const ConstTensorView& x, const TensorView& y) = 0;             ///< nn.hpp
  virtual void softmax(const ConstTensorView& x, const TensorView& y) = 0;          ///< nn.hpp
  virtual void resize_bilinear(const ConstTensorView& x, const TensorView& y) = 0;  ///< nn.hpp
  virtual void pool_backward(const PoolBackwardLaunch& launch) = 0;                 ///< nn.hpp
  virtual void resize_bilinear_backward(const ConstTensorView& dy,
                                        const TensorView& dx) = 0;           ///< nn.hpp
  virtual void softmax_cross_entropy(const CrossEntropyLaunch& launch) = 0;  ///< nn.hpp
  virtual void sgd_step(const SgdLaunch& launch) = 0;                        ///< nn.hpp
};

/// A device has its memory and its queues. Several threads may use it.
class PLUMB_API BackendDevice {
 public:
  virtual ~BackendDevice() = default;
  virtual const DeviceInfo& info() const = 0;  ///< what it is
  virtual std::size_t free_bytes() const = 0;  ///< bytes that could be allocated now
  /// Returns at least one byte, 256-byte aligned. Throws Error (out_of_memory).
  virtual void* allocate(std::size_t bytes, Memory memory) = 0;
  virtual void deallocate(void* memory, Memory kind) noexcept = 0;  ///< what allocate() gave
  /// Says whether copies from and to this host memory run at full speed beside everything else: the
  /// memory is page-locked and known to the device.
  virtual bool is_pinned(const void* host_memory) const noexcept = 0;
  virtual std::unique_ptr<BackendQueue> make_queue() = 0;              ///< Plumb's own
  virtual std::unique_ptr<BackendQueue> wrap_queue(void* native) = 0;  ///< the caller's
  virtual DeviceCeilings measure_ceilings() = 0;                       ///< as Device has it
  virtual double clock_hertz() = 0;  ///< measured; 0 where it cannot be told
};

/// The devices that a backend shows on this machine, or why there are none.
struct BackendProbe {
  std::vector<DeviceInfo> devices;  ///< in the order of their indices
  Reason reason = Reason::none;     ///< why there are none
  std::string sentence;             ///< the same for people
};
/// Returns the probe that says why the exception being handled leaves no devices: `out_of_memory`
/// where memory ran out (std::bad_alloc, or Error with that code), otherwise the reason that an
/// Error names, or else `otherwise`, with the exception's message. A backend's probe() calls it in
/// its handler; it takes no memory that must be there. It is inline because a module may have a C++
/// runtime of its own (-static-libstdc++), and only the runtime that caught an exception can throw
/// it again.
inline BackendProbe failed_probe(Reason otherwise = Reason::device_error) noexcept {
  const auto because = [](Reason reason, const char* sentence) {
    return BackendProbe{.devices = {}, .reason = reason, .sentence = sentence};
  };
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const Error& e) {
      if (e.code() == ErrorCode::out_of_memory) return because(Reason::out_of_memory, e.what());
      return because(e.reason() == Reason::none ? otherwise : e.reason(), e.what());
    } catch (const std::exception& e) {
      return because(otherwise, e.what());
    } catch (...) {
      return because(otherwise, "something was thrown that is no exception");
    }
  } catch (...) {  // or there is no memory for the sentence; this one lies in the string
    return because(Reason::out_of_memory, "out of memory");
  }
}

/// Says whether the host has `bytes` of memory now. It is for use before a call into what ends the
/// process, or breaks it, where it gets no memory: what is given back here is what that call takes,
/// unless another thread is quicker.
inline bool memory_is_there(std::size_t bytes) noexcept {
  void* volatile memory = std::malloc(bytes);  // `volatile` keeps the malloc that is freed
  const bool is_there = memory != nullptr;
  std::free(memory);
  return is_there;
}

/// A backend is a kind of device. There is one object of each backend in a process.
class PLUMB_API Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  ///< as in DeviceId: "cuda"
  /// Returns what it was built with, and what it found: "CUDA runtime 13.0, driver 13.0".
  virtual std::string version() const = 0;
  /// Returns the ordered list, which is there without any device: among equals, the first wins.
  /// Those of other libraries stand last, whether they can be opened or not.
  virtual std::span<const ConvAlgorithm* const> conv_algorithms() const = 0;
  /// Never throws, and makes no lasting claim on a device.
  virtual BackendProbe probe() const noexcept = 0;
  /// Throws Error (device_unavailable) with a Reason where the device cannot be used.
  virtual std::unique_ptr<BackendDevice> open(int index) = 0;
};

/// A module (libplumb_<name>.so) hands this out through its one C symbol, plumb_backend_module.
/// `abi` is compared before anything else is read.
struct BackendModule {
  static constexpr std::uint32_t current_abi = 14;  ///< the ABI of this header
  std::uint32_t abi;      ///< current_abi of the headers that the module was built with
  const char* version;    ///< of Plumb; must equal the library's
  Backend& (*backend)();  ///< the backend
};
using BackendModuleFunction = const BackendModule*();  ///< of the symbol
/// The name of the module's symbol.
inline constexpr const char* backend_module_symbol = "plumb_backend_module";

/// One line of the list: a backend that is linked in, or, where `linked` is null, one to be loaded
/// as a module.
struct BackendSource {
  std::string_view name;      ///< of the backend
  Backend& (*linked)();       ///< null: the backend is a module
  bool by_name_only = false;  ///< never taken by `auto`
  /// Whether its devices have names beside their indices (DeviceInfo::alias). Where it is false, a
  /// device like `cuda:x` is a wrong name, whether the backend can be had or not.
  bool has_aliases = false;
  /// The library whose algorithms its list may hold (DeviceOptions::providers); empty: none.
  std::string_view provider = {};
  /// Says, for people, which build has the backend where this one does not: "a build where CMake
  /// finds nvcc".
  std::string_view where_built = {};
};
/// Lists all backends that Plumb knows of, in the order in which `auto` tries them; the CPU is
/// last.
PLUMB_API std::span<const BackendSource> backend_list();

/// A backend of the list, loaded if need be, or the reason why it cannot be had.
struct LoadedBackend {
  Backend* backend = nullptr;    ///< null where it cannot be had
  Reason reason = Reason::none;  ///< why it cannot be had
  std::string sentence;          ///< the same for people
};
/// Loads a backend. One that was loaded stays; one that was not is tried again by the next call,
/// since what was in its way may have passed. It throws nothing: the reason is in what is returned.
PLUMB_API LoadedBackend load_backend(std::string_view name) noexcept;

}  // namespace plumb
