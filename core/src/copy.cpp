// Copies of views, whatever their strides, between the queue's device and the host.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "overlap.hpp"
#include "plumb/backend.hpp"
#include "plumb/error.hpp"
#include "plumb/tensor.hpp"
#include "sizes.hpp"
#include "span.hpp"
#include "tensor_bytes.hpp"

namespace plumb {
namespace {

/// One dimension of a copy, with the step of either side.
struct CopyAxis {
  std::int64_t extent = 1, from_step = 0, to_step = 0;
};

/// The axes of a copy with more than one element, outermost first by the steps of what is written,
/// neighbours joined where both sides go on as if they were one.
class CopyAxes {
 public:
  CopyAxes(const ConstTensorView& from, const TensorView& to) {
    for (int i = 0; i < from.rank(); ++i)
      if (from.extent(i) > 1) axes_[count_++] = {from.extent(i), from.stride(i), to.stride(i)};
    std::stable_sort(axes_.begin(), axes_.begin() + count_,
                     [](const CopyAxis& a, const CopyAxis& b) {
                       return std::abs(a.to_step) > std::abs(b.to_step);
                     });
    int kept = 0;
    for (int i = 0; i < count_; ++i) {
      const CopyAxis& inner = axes_[i];
      if (kept > 0 && axes_[kept - 1].from_step == inner.extent * inner.from_step &&
          axes_[kept - 1].to_step == inner.extent * inner.to_step)
        axes_[kept - 1] = {axes_[kept - 1].extent * inner.extent, inner.from_step, inner.to_step};
      else
        axes_[kept++] = inner;
    }
    count_ = kept;
  }

  int count() const { return count_; }
  /// Of the i-th from the inside; one of extent 1 where there is none.
  CopyAxis from_inside(int i) const { return i < count_ ? axes_[count_ - 1 - i] : CopyAxis{}; }

 private:
  std::array<CopyAxis, Dims::max_rank> axes_{};
  int count_ = 0;
};

/// What the queue's device reads and writes itself: the backend's pad, which pads nothing.
void copy_on_device(BackendQueue& queue, const ConstTensorView& from, const TensorView& to) {
  const CopyAxes axes(from, to);
  Extents extents{1, 1, 1, 1, 1};
  Strides from_strides{0, 0, 0, 0, 0}, to_strides{0, 0, 0, 0, 0};
  for (int i = 0; i < 5; ++i) {
    const CopyAxis axis = axes.from_inside(i);
    extents[4 - i] = axis.extent;
    from_strides[4 - i] = axis.from_step;
    to_strides[4 - i] = axis.to_step;
  }
  const CopyAxis outermost = axes.from_inside(5);  // of views of rank 6 of which nothing was joined
  for (std::int64_t i = 0; i < outermost.extent; ++i)
    queue.pad({.x = {moved(from.data(), i * outermost.from_step, from.dtype()), from.dtype(),
                     extents, from.device(), from_strides},
               .y = {moved(to.data(), i * outermost.to_step, to.dtype()), to.dtype(), extents,
                     to.device(), to_strides}});
}

/// From host memory to host memory, on this thread.
void copy_on_host(const ConstTensorView& from, const TensorView& to) {
  const CopyAxes axes(from, to);
  const std::size_t bytes = size_in_bytes(from.dtype());
  const CopyAxis inner = axes.from_inside(0);
  const bool rows = inner.from_step == 1 && inner.to_step == 1;
  std::array<std::int64_t, Dims::max_rank> index{};
  std::int64_t source = 0, target = 0;
  while (true) {
    if (rows) {
      std::memcpy(moved(to.data(), target, to.dtype()), moved(from.data(), source, from.dtype()),
                  bytes * static_cast<std::size_t>(inner.extent));
    } else {
      for (std::int64_t i = 0; i < inner.extent; ++i)
        std::memcpy(moved(to.data(), target + i * inner.to_step, to.dtype()),
                    moved(from.data(), source + i * inner.from_step, from.dtype()), bytes);
    }
    int axis = 1;
    for (; axis < axes.count(); ++axis) {
      const CopyAxis outer = axes.from_inside(axis);
      source += outer.from_step;
      target += outer.to_step;
      if (++index[axis] < outer.extent) break;
      source -= outer.extent * outer.from_step;
      target -= outer.extent * outer.to_step;
      index[axis] = 0;
    }
    if (axis >= axes.count()) return;
  }
}

/// The bytes of the elements of a view without gaps, in the order in which they lie.
void copy_run(BackendQueue& queue, const ConstTensorView& from, const TensorView& to) {
  const Span span = span_of(to.extents(), to.strides());
  queue.copy(moved(to.data(), -span.below, to.dtype()),
             moved(from.data(), -span.below, from.dtype()),
             static_cast<std::size_t>(span.elements) * size_in_bytes(to.dtype()));
}

TensorView dense_on(void* data, const ConstTensorView& like, const DeviceId& device) {
  return TensorView(data, like.dtype(), like.extents(), device);
}

void copy_to_host(Queue& queue, const ConstTensorView& from, const TensorView& to) {
  ConstTensorView source = from;
  if (!from.is_dense()) {
    const TensorView gathered = dense_on(queue.workspace(bytes_of(from.dtype(), from.extents())),
                                         from, queue.device().id());
    copy_on_device(queue.backend(), from, gathered);
    source = gathered;
  }
  if (to.is_dense()) return copy_run(queue.backend(), source, dense_on(to.data(), to, host));
  std::vector<std::byte> staged(bytes_of(to.dtype(), to.extents()));
  const TensorView dense = dense_on(staged.data(), to, host);
  copy_run(queue.backend(),
           ConstTensorView(source.data(), to.dtype(), to.extents(), source.device()), dense);
  queue.synchronize();
  copy_on_host(dense, to);
}

void copy_from_host(Queue& queue, const ConstTensorView& from, const TensorView& to) {
  std::vector<std::byte> staged;
  ConstTensorView source = from;
  if (!from.is_dense()) {
    queue.synchronize();  // earlier work may write what is read here
    staged.resize(bytes_of(from.dtype(), from.extents()));
    copy_on_host(from, dense_on(staged.data(), from, host));
    source = dense_on(staged.data(), from, host);
  }
  const TensorView target =
      to.is_dense()
          ? to
          : dense_on(queue.workspace(bytes_of(to.dtype(), to.extents())), to, queue.device().id());
  copy_run(queue.backend(), dense_on(const_cast<void*>(source.data()), source, source.device()),
           dense_on(target.data(), target, target.device()));
  if (!to.is_dense()) copy_on_device(queue.backend(), target, to);
  if (!staged.empty()) queue.synchronize();
}

void check_copy(const DeviceId& here, const ConstTensorView& from, const TensorView& to) {
  if (from.dtype() != to.dtype() || from.extents() != to.extents())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("copy from {} {} to {} {}; expected the same dtype and extents",
                            to_string(from.dtype()), to_string(from.extents()),
                            to_string(to.dtype()), to_string(to.extents())));
  check_layout("copy", "the view that is read", from.extents(), from.strides());
  check_output_layout("copy", "the view", to.extents(), to.strides());
  for (const DeviceId& side : {from.device(), to.device()})
    if (side != here && side != host)
      throw Error(ErrorCode::invalid_argument, fmt::format("copy on a queue of {} of a view on {}",
                                                           to_string(here), to_string(side)));
}

}  // namespace

void copy(Queue& queue, const ConstTensorView& from, const TensorView& to) {
  const DeviceId here = queue.device().id();
  check_copy(here, from, to);
  const std::int64_t elements = element_count(from.extents());
  if (elements == 0 || same_memory(from, to)) return;
  if (!from.data() || !to.data())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("copy of {} from {} to {}; expected no null pointer",
                            to_string(from.extents()), from.data(), to.data()));
  if (overlap(from, to))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("copy of {} from {} with strides {} to {} with strides {}, which "
                            "overlap; expected memory that is the same or has nothing in common",
                            to_string(from.extents()), from.data(), to_string(from.strides()),
                            to.data(), to_string(to.strides())));
  const bool same_order = from.strides() == to.strides();
  if (same_order && span_of(to.extents(), to.strides()).elements == elements)
    return copy_run(queue.backend(), from, to);
  if (from.device() == here && to.device() == here)
    return copy_on_device(queue.backend(), from, to);
  if (from.device() == here) return copy_to_host(queue, from, to);
  if (to.device() == here) return copy_from_host(queue, from, to);
  queue.synchronize();  // earlier work may write what is read here
  copy_on_host(from, to);
}

}  // namespace plumb
