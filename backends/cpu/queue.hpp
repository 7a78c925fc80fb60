// A queue of the CPU: each call has finished when it returns.
#pragma once

#include <memory>

#include "plumb/backend.hpp"

namespace plumb {

std::unique_ptr<BackendQueue> make_cpu_queue();

}  // namespace plumb
