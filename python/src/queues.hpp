// The devices and queues that calls work on.
#pragma once

#include <initializer_list>
#include <string>

#include "arrays.hpp"
#include "plumb/device.hpp"

namespace plumb::python {

/// Returns a device of such a name ("cpu", "cuda:1") with the algorithms of these other libraries,
/// as DeviceOptions::providers has them, opened once for the process. Throws Error as
/// Device::open() does. Takes nothing of Python's.
Device opened(const std::string& name, const std::string& providers = {});

/// Returns the device that an array's memory is on, opened with the libraries that the environment
/// names.
const Device& opened(const DeviceId& id);

/// Returns the same with the algorithms of the libraries that a caller names, None or a str. Throws
/// Error (invalid_argument) where it is neither.
Device device_for(const DeviceId& id, nanobind::handle providers);

/// Returns the libraries that a caller names: of None none, so that the environment may. Throws
/// Error (invalid_argument) where it is no str.
std::string providers_from(nanobind::handle object);

/// Returns the device that all of these are on; empty ones are passed over. Throws Error
/// (invalid_argument) where they are on several.
DeviceId device_of(std::initializer_list<const Array*> arrays);

/// Returns the calling thread's queue on a device; on CUDA of the stream that the framework puts
/// work on now.
Queue& queue_for(const Device& device, Framework framework);

/// Returns the calling thread's queue of a stream; the CPU's has none. Whatever would destroy the
/// stream is kept for as long as the queue.
Queue& queue_on(const Device& device, void* stream, nanobind::handle owner = {});

/// Waits for what was put on the queue, where the caller's framework does not know the stream.
void settle(Queue& queue, Framework framework);

}  // namespace plumb::python
