// The devices and queues that calls work on.
#include "queues.hpp"

#include <list>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace plumb::python {

namespace {

/// A device's name, and those of the other libraries that it was opened with.
using Key = std::pair<std::string, std::string>;

}  // namespace

std::string providers_from(nb::handle object) {
  if (object.is_none()) return {};
  if (nb::isinstance<nb::str>(object)) return nb::borrow<nb::str>(object).c_str();
  throw Error(ErrorCode::invalid_argument,
              std::string("providers is ") + nb::repr(object).c_str() +
                  "; expected None or a str, such as \"cudnn,onednn\" or \"none\"");
}

Device opened(const std::string& name, const std::string& providers) {
  const Key key{name, providers};
  // Kept for the process: at its end other libraries, whose memory a device may hold, may be gone
  // before.
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::map<Key, Device>;
  {
    const std::lock_guard lock(mutex);
    const auto found = all.find(key);
    if (found != all.end()) return found->second;
  }
  Device device = Device::open(name, {.providers = providers});  // may take its time, and may throw
  const std::lock_guard lock(mutex);
  return all.emplace(key, std::move(device)).first->second;
}

const Device& opened(const DeviceId& id) {
  // Looked up for every call: a list of a machine's few devices, without their names as text.
  static auto& mutex = *new std::mutex;
  static auto& known = *new std::list<Device>;
  {
    const std::lock_guard lock(mutex);
    for (const Device& device : known)
      if (device.id() == id) return device;
  }
  Device device = opened(to_string(id), {});
  const std::lock_guard lock(mutex);
  return known.emplace_back(std::move(device));
}

Device device_for(const DeviceId& id, nb::handle providers) {
  return providers.is_none() ? opened(id) : opened(to_string(id), providers_from(providers));
}

DeviceId device_of(std::initializer_list<const Array*> arrays) {
  const Array* first = nullptr;
  for (const Array* array : arrays) {
    if (array->empty()) continue;
    if (!first) first = array;
    if (array->view().device() != first->view().device())
      throw Error(ErrorCode::invalid_argument,
                  "arrays are on " + to_string(first->view().device()) + " and " +
                      to_string(array->view().device()) + "; expected all on one device");
  }
  return first ? first->view().device() : host;
}

namespace {

using Place = std::pair<const void*, void*>;  // a device and a stream
struct Kept {
  Queue queue;
  /// The stream's, held with the queue, whose workspace goes back in the stream's order. At the
  /// end of a thread it is left: Python may be gone before the thread is.
  PyObject* owner;
};
thread_local std::map<Place, Kept> queues;

Queue* known_queue(const Device& device, void* stream) {
  const auto found = queues.find({&device.info(), stream});
  return found != queues.end() ? &found->second.queue : nullptr;
}

}  // namespace

Queue& queue_for(const Device& device, Framework framework) {
  if (device.id().backend != "cuda") return queue_on(device, nullptr);
  void* const stream = current_stream(framework, device.id().index).native;
  if (Queue* known = known_queue(device, stream)) return *known;
  return queue_on(device, stream, owner_of_current_stream(framework));
}

Queue& queue_on(const Device& device, void* stream, nb::handle owner) {
  if (Queue* known = known_queue(device, stream)) return *known;
  // A queue keeps workspace: of a caller who makes streams without end, those of old ones must go.
  constexpr std::size_t most = 16;
  if (queues.size() >= most) {
    std::vector<PyObject*> owners;
    for (const auto& [of, kept] : queues)
      if (kept.owner) owners.push_back(kept.owner);
    queues.clear();
    if (!owners.empty()) {
      const nb::gil_scoped_acquire held;  // XLA calls without
      for (PyObject* one : owners) Py_DECREF(one);
    }
  }
  Queue queue = stream ? Queue::wrap(device, stream) : Queue(device);
  if (owner.is_valid()) owner.inc_ref();
  return queues.emplace(Place{&device.info(), stream}, Kept{std::move(queue), owner.ptr()})
      .first->second.queue;
}

void settle(Queue& queue, Framework framework) {
  if (framework != Framework::torch && framework != Framework::cupy && queue.native())
    queue.synchronize();
}

}  // namespace plumb::python
