// Tensors for the oracle, which is asked for many outputs and reads each element often.
#pragma once

#include <vector>

#include "guarded_tensor.hpp"
#include "plumb/tensor.hpp"

namespace plumb {

/// A dense copy in double, which holds any element as it is; the tensor itself where a copy takes
/// too much memory. Halves take long to read.
class InDouble {
 public:
  explicit InDouble(const ConstTensorView& of) : view_(of) {
    constexpr std::int64_t most = std::int64_t{1} << 24;
    if (of.empty() || of.dtype() == DType::f64 || element_count(of.extents()) > most) return;
    values_.reserve(static_cast<std::size_t>(element_count(of.extents())));
    for_each_offset(of.extents(), of.strides(),
                    [&](std::int64_t offset) { values_.push_back(load_element(of, offset)); });
    view_ = ConstTensorView(values_.data(), of.extents());
  }
  InDouble(const InDouble&) = delete;
  InDouble& operator=(const InDouble&) = delete;

  const ConstTensorView& view() const { return view_; }

 private:
  std::vector<double> values_;
  ConstTensorView view_;
};

}  // namespace plumb
