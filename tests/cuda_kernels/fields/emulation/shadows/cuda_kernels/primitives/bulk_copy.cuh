// The order of writes to shared memory is that of the host.
#pragma once

namespace plumb::cuda {

inline void order_shared_writes() {}

}  // namespace plumb::cuda
