// Convolutions that PyTorch records into a CUDA graph.
#pragma once

#include <cstddef>
#include <utility>

#include "arrays.hpp"
#include "plumb/backend.hpp"
#include "plumb/conv.hpp"
#include "plumb/device.hpp"

namespace plumb::python {

/// Says whether what PyTorch puts on this queue now is recorded into a graph instead of run.
inline bool records(const Queue& queue, Framework framework) {
  return framework == Framework::torch && queue.native() && queue.backend().is_capturing();
}

/// A convolution's workspace in a graph that is being recorded. A queue's cannot grow then, and
/// goes with the queue, while a graph is run for as long as its owner likes. PyTorch's allocator
/// gives what is asked for meanwhile out of a pool that stays with the graph. Made and destroyed by
/// a thread that holds the GIL.
class GraphWorkspace {
 public:
  /// So many bytes, maybe none, on the device of a tensor of PyTorch's.
  GraphWorkspace(const Array& like, std::size_t bytes);
  void* data() const { return data_; }  ///< 256-byte aligned; null where it is empty

 private:
  nb::object tensor_;
  void* data_ = nullptr;
};

/// Records one convolution, as conv() and its like put it on a queue. Throws Error as they do.
void record_conv(Queue& queue, const Array& like, const ConvProblem& problem,
                 const ConvTensors& tensors, ConvOptions options);

}  // namespace plumb::python
