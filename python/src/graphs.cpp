// Convolutions that PyTorch records into a CUDA graph.
#include "graphs.hpp"

#include <cstdint>

namespace plumb::python {

GraphWorkspace::GraphWorkspace(const Array& like, std::size_t bytes) {
  if (bytes == 0) return;
  constexpr std::size_t alignment = 256;  // PyTorch's own is 512, but an allocator may be put in
  tensor_ = like.object().attr("new_empty")(nb::make_tuple(bytes + alignment),
                                            nb::arg("dtype") = torch_bytes());
  const auto address = nb::cast<std::uintptr_t>(tensor_.attr("data_ptr")());
  data_ = reinterpret_cast<void*>((address + alignment - 1) / alignment * alignment);
}

void record_conv(Queue& queue, const Array& like, const ConvProblem& problem,
                 const ConvTensors& tensors, ConvOptions options) {
  options.bias = !tensors.bias.empty() || !tensors.db.empty();
  options.relu_mask = !tensors.mask.empty();
  const ConvPlan plan(queue.device(), problem, options);
  const GraphWorkspace workspace(like, plan.workspace_bytes());
  plan.execute(queue, tensors, workspace.data());
}

}  // namespace plumb::python
