// What a call writes: the caller's array, or a new one of the caller's kind.
#pragma once

#include <optional>

#include "arrays.hpp"

namespace plumb::python {

/// The output of one call.
class Output {
 public:
  /// Takes `out`, or where that is None makes an array like `like`.
  Output(nb::handle out, const Array& like, const Extents& extents, std::string_view name = "out") {
    if (!out.is_none()) {
      array_.emplace(out, name, Access::write);
      result_.object = nb::borrow(out);
      view_ = array_->view();
      return;
    }
    const TensorView& view = like.view();
    result_ = make_result(like.object(), like.framework(), view.device(), view.dtype(), extents);
    if (result_.tensor) {
      view_ = result_.tensor->view();
    } else {
      array_.emplace(result_.object, name, Access::write);
      view_ = array_->view();
    }
  }

  const TensorView& view() const { return view_; }  ///< its memory
  /// Returns what is handed to the caller, once everything that writes it has been put on a queue.
  nb::object take() { return finish(std::move(result_)); }

 private:
  Result result_;
  std::optional<Array> array_;
  TensorView view_;
};

}  // namespace plumb::python
