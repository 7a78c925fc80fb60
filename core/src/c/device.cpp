// Devices, memory, queues and events from C.
#include <fmt/format.h>

#include "../overlap.hpp"
#include "../probed_backend.hpp"
#include "convert.hpp"
#include "handles.hpp"

using namespace plumb;
using plumb::c::at;
using plumb::c::made_at;
using plumb::c::memory_of;
using plumb::c::refuse;
using plumb::c::run;
using plumb::c::to_c;

namespace {

DeviceOptions device_options(const plumb_device_options* given) {
  DeviceOptions options;
  if (!given) return options;
  const plumb_device_options o = *given;
  if (o.allocate)
    options.allocator.allocate = [o](std::size_t bytes, Memory memory, void* native_queue) {
      return o.allocate(o.allocator_user, bytes, to_c(memory), native_queue);
    };
  if (o.deallocate)
    options.allocator.deallocate = [o](void* data, std::size_t bytes, Memory memory,
                                       void* native_queue) {
      o.deallocate(o.allocator_user, data, bytes, to_c(memory), native_queue);
    };
  if (o.log)
    options.log = [o](std::string_view line) { o.log(o.log_user, std::string(line).c_str()); };
  return options;
}

void open_at(plumb_device*& made, const char* spec, DeviceOptions options) {
  const Device opened = Device::open(spec ? spec : "", std::move(options));
  made = new plumb_device{opened, to_string(opened.id())};
}

}  // namespace

plumb_status plumb_device_count(const char* backend, std::int32_t* count) {
  return run(__func__, [&] {
    at(count, "count") = 0;
    const std::string name = &at(backend, "backend");
    *count = static_cast<std::int32_t>(probed_backend(name).probe.devices.size());
  });
}

plumb_status plumb_device_open(const char* spec, const plumb_device_options* options,
                               plumb_device** device) {
  return run(__func__, [&] { open_at(made_at(device, "device"), spec, device_options(options)); });
}

plumb_status plumb_device_open_providers(const char* spec, const plumb_device_options* options,
                                         const char* providers, plumb_device** device) {
  return run(__func__, [&] {
    plumb_device*& made = made_at(device, "device");
    DeviceOptions wanted = device_options(options);
    if (providers) wanted.providers = providers;
    open_at(made, spec, std::move(wanted));
  });
}

plumb_status plumb_device_copy(const plumb_device* device, plumb_device** copy) {
  return run(__func__, [&] {
    plumb_device*& made = made_at(copy, "copy");
    made = new plumb_device(at(device, "device"));
  });
}

void plumb_device_close(plumb_device* device) { delete device; }

plumb_status plumb_device_get_info(const plumb_device* device, plumb_device_info* info) {
  return run(__func__, [&] {
    at(info, "info") = {};
    const DeviceInfo& of = at(device, "device").device.info();
    *info = {.id = device->id.c_str(),
             .name = of.name.c_str(),
             .instruction_set = of.instruction_set.c_str(),
             .why = device->device.why().c_str(),
             .units = of.units,
             .compute_major = of.compute_major,
             .compute_minor = of.compute_minor,
             .driver_version = of.driver_version,
             .memory_bytes = of.memory_bytes};
  });
}

plumb_status plumb_device_free_bytes(const plumb_device* device, std::size_t* bytes) {
  return run(__func__, [&] {
    at(bytes, "bytes") = 0;
    *bytes = at(device, "device").device.free_bytes();
  });
}

plumb_status plumb_allocate(const plumb_device* device, std::size_t bytes, plumb_memory memory,
                            void** data) {
  return run(__func__, [&] {
    at(data, "data") = nullptr;
    *data = at(device, "device").device.allocate(bytes, memory_of(memory));
  });
}

plumb_status plumb_deallocate(const plumb_device* device, void* data, std::size_t bytes,
                              plumb_memory memory) {
  return run(__func__,
             [&] { at(device, "device").device.deallocate(data, bytes, memory_of(memory)); });
}

plumb_status plumb_queue_create(const plumb_device* device, plumb_queue** queue) {
  return run(__func__, [&] {
    plumb_queue*& made = made_at(queue, "queue");
    made = new plumb_queue{Queue(at(device, "device").device)};
  });
}

plumb_status plumb_queue_wrap(const plumb_device* device, void* native, plumb_queue** queue) {
  return run(__func__, [&] {
    plumb_queue*& made = made_at(queue, "queue");
    made = new plumb_queue{Queue::wrap(at(device, "device").device, native)};
  });
}

void plumb_queue_destroy(plumb_queue* queue) { delete queue; }

plumb_status plumb_queue_native(const plumb_queue* queue, void** native) {
  return run(__func__, [&] {
    at(native, "native") = nullptr;
    *native = at(queue, "queue").queue.native();
  });
}

plumb_status plumb_queue_synchronize(plumb_queue* queue) {
  return run(__func__, [&] { at(queue, "queue").queue.synchronize(); });
}

plumb_status plumb_copy(plumb_queue* queue, void* to, const void* from, std::size_t bytes) {
  return run(__func__, [&] {
    Queue& q = at(queue, "queue").queue;
    if (bytes == 0) return;
    if (!to || !from) refuse(to ? "from is NULL" : "to is NULL");
    if (to == from) return;
    if (meet(to, bytes, from, bytes))
      refuse(
          fmt::format("{} bytes from {} to {} overlap; expected memory that is the same or has "
                      "nothing in common",
                      bytes, from, to));
    q.backend().copy(to, from, bytes);
  });
}

plumb_status plumb_queue_record(plumb_queue* queue, plumb_event** event) {
  return run(__func__, [&] {
    plumb_event*& made = made_at(event, "event");
    made = new plumb_event{at(queue, "queue").queue.record()};
  });
}

plumb_status plumb_queue_wait(plumb_queue* queue, const plumb_event* event) {
  return run(__func__, [&] { at(queue, "queue").queue.wait(at(event, "event").event); });
}

plumb_status plumb_event_synchronize(const plumb_event* event) {
  return run(__func__, [&] { at(event, "event").event.synchronize(); });
}

plumb_status plumb_event_done(const plumb_event* event, std::int32_t* done) {
  return run(__func__, [&] {
    at(done, "done") = 0;
    *done = at(event, "event").event.done() ? 1 : 0;
  });
}

plumb_status plumb_event_seconds(const plumb_event* from, const plumb_event* to, double* seconds) {
  return run(__func__, [&] {
    at(seconds, "seconds") = 0;
    *seconds = seconds_between(at(from, "from").event, at(to, "to").event);
  });
}

void plumb_event_destroy(plumb_event* event) { delete event; }
