#include "nn_checks.hpp"

#include <fmt/format.h>

#include "environment.hpp"
#include "sizes.hpp"

namespace plumb {
namespace {

void check_place(const char* operation, const Queue& queue, const NamedView& tensor) {
  const auto& [name, view] = tensor;
  const DeviceId here = queue.device().id();
  if (view.device() != here)
    refuse_argument(operation, fmt::format("{} is on {}; the queue is on {} (use plumb::copy)",
                                           name, to_string(view.device()), to_string(here)));
  if (!view.data() && element_count(view.extents()) > 0)
    refuse_argument(operation, fmt::format("{} of {} has no data (a null pointer)", name,
                                           to_string(view.extents())));
}

}  // namespace

void check_input(const char* operation, const Queue& queue, const NamedView& tensor) {
  check_place(operation, queue, tensor);
  check_layout(operation, tensor.name, tensor.view.extents(), tensor.view.strides());
}

void check_output(const char* operation, const Queue& queue, const NamedView& tensor) {
  check_place(operation, queue, tensor);
  check_output_layout(operation, tensor.name, tensor.view.extents(), tensor.view.strides());
}

void check_one_dtype(const char* operation, std::initializer_list<NamedView> tensors) {
  const NamedView& first = *tensors.begin();
  for (const NamedView& other : tensors)
    if (other.view.dtype() != first.view.dtype())
      refuse_argument(operation, fmt::format("{} is {}, {} is {}; expected one dtype", first.name,
                                             to_string(first.view.dtype()), other.name,
                                             to_string(other.view.dtype())));
}

void check_extents(const char* operation, const NamedView& tensor, const Extents& expected) {
  if (tensor.view.extents() != expected)
    refuse_argument(operation, fmt::format("{} is {}; expected {}", tensor.name,
                                           to_string(tensor.view.extents()), to_string(expected)));
}

void check_rank(const char* operation, const NamedView& tensor, int rank, const char* letters) {
  if (tensor.view.rank() != rank)
    refuse_argument(operation, fmt::format("{} has extents {}; expected {}", tensor.name,
                                           to_string(tensor.view.extents()), letters));
}

PoolGeometry geometry_of_rank(PoolGeometry g, int rank) {
  if (rank < 5) {
    g.window.d = g.stride.d = g.dilation.d = 1;
    g.padding.front = g.padding.back = 0;
  }
  if (rank < 4) {
    g.window.h = g.stride.h = g.dilation.h = 1;
    g.padding.top = g.padding.bottom = 0;
  }
  return g;
}

void synchronize_if_asked(Queue& queue) {
  if (environment_flag("PLUMB_SYNC")) queue.synchronize();
}

}  // namespace plumb
