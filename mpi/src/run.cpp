// What is done on every call: packing, the interior while halos travel, then what waited for them.
#include <fmt/format.h>

#include <exception>

#include "plumb/backend.hpp"
#include "plumb/error.hpp"
#include "state.hpp"
#include "views.hpp"

namespace plumb {

using mpi::run_of_view;

namespace {

/// Work of which the first failure is kept, so that the messages of this rank go all the same.
class Attempts {
 public:
  template <class Work>
  void operator()(const Work& work) {
    if (failure_) return;
    try {
      work();
    } catch (const mpi::TimeLimit&) {
      throw;
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
};

/// The box of a block's view that holds targets, or where `run` says sources.
template <class View>
View targets_of(View view, const mpi::Box& box, const Dims& begin) {
  for (int i = 0; i < 3; ++i) {
    const mpi::Window& window = box.windows[static_cast<std::size_t>(i)];
    view = run_of_view(view, 2 + i, window.begin - begin[2 + i], window.count);
  }
  return view;
}

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, "distributed: " + message);
}

/// That a tensor is one of the problem's, whatever its rank: five extents but for those of 1.
void check_extents(const ConstTensorView& view, const char* name, DType dtype,
                   const Extents& expected) {
  const bool has_rank = view.rank() >= 3 && view.rank() <= 5;
  if (!has_rank || view.dtype() != dtype || mpi::with_five_axes(view).extents() != expected)
    refuse(fmt::format("{} is {} {}; expected {} {} on this rank", name, to_string(view.dtype()),
                       to_string(view.extents()), to_string(dtype), to_string(expected)));
  if (!view.data() && element_count(expected) > 0)
    refuse(
        fmt::format("{} is a null pointer; expected {} on this rank", name, to_string(expected)));
}

}  // namespace

TensorView Distributed::State::check_view(const TensorView& view, const char* name,
                                          bool of_x) const {
  const Extents expected = own_block(of_x).extents;
  check_extents(view, name, partition->problem().dtype, expected);
  const TensorView in_five = mpi::with_five_axes(view);
  const Strides& given = of_x ? options.x_strides : options.y_strides;
  Strides planned = dense_strides(expected);
  if (!given.empty()) {
    std::int64_t kept[5];
    for (int i = 0; i < given.rank(); ++i) kept[i] = expected[mpi::place_of_axis(i, given.rank())];
    planned =
        mpi::with_five_axes(ConstTensorView(nullptr, view.dtype(),
                                            Extents(kept, static_cast<std::size_t>(given.rank())),
                                            host, given))
            .strides();
  }
  for (int i = 0; i < 5; ++i)
    if (expected[i] > 1 && in_five.stride(i) != planned[i])
      refuse(fmt::format("{} has strides {}; expected {}, as planned", name,
                         to_string(in_five.strides()), to_string(planned)));
  return in_five;
}

Distributed::State::Call Distributed::State::call_of(Queue& queue, const ConvTensors& t) {
  const auto writable = [](const ConstTensorView& view) {  // to be checked, and read
    return TensorView(const_cast<void*>(view.data()), view.dtype(), view.extents(), view.device(),
                      view.strides());
  };
  Call call{.source = {}, .filters = t.w, .bias = t.bias, .target = t.y, .db = {}, .dy = {}};
  if (is(Direction::backward_weights)) {
    call.source = check_view(writable(t.x), "x", true);
    call.dy = check_view(writable(t.w), "dy", false);
    const ConvProblem& whole = partition->problem();
    check_extents(t.y, "dw", whole.dtype, weights_extents());
    if (options.conv.bias && (t.db.extents() != Extents{whole.k} || t.db.dtype() != whole.dtype))
      refuse(fmt::format("db is {} {}; expected {} [{}]", to_string(t.db.dtype()),
                         to_string(t.db.extents()), to_string(whole.dtype), whole.k));
    if (!options.conv.bias && !t.db.empty())
      refuse("a db where the options have no bias; expected none");
    if (options.conv.relu_mask) call.dy = masked(queue, t.mask, call.dy);
    call.target = shares_ ? mpi::with_five_axes(t.y) : dw_.view();
    if (options.conv.bias) call.db = shares_ ? t.db : db_.view();
    return call;
  }
  const bool backward = is(Direction::backward_data);
  call.source = check_view(writable(t.x), backward ? "dy" : "x", !backward);
  call.target = check_view(t.y, backward ? "dx" : "y", backward);
  if (boxes_.folds && options.conv.bias && call.bias.extents() != Extents{partition->problem().c})
    refuse(fmt::format("bias is {}; expected [{}]", to_string(call.bias.extents()),
                       partition->problem().c));
  if (backward && options.conv.relu_mask) call.source = masked(queue, t.mask, call.source);
  return call;
}

ConstTensorView Distributed::State::masked(Queue& queue, const ConstTensorView& mask,
                                           const ConstTensorView& dy) {
  check_extents(mask, "mask", partition->problem().dtype, masked_.extents());
  relu_backward(queue, mpi::with_five_axes(mask), dy, masked_);
  return masked_;
}

ConstTensorView Distributed::State::lying_source(const Call& call, const mpi::Box& box) const {
  const Dims begin = own_block(!is(Direction::backward_data)).begin;
  ConstTensorView view = call.source;
  for (int i = 0; i < 3; ++i) {
    const mpi::Run& run = box.windows[static_cast<std::size_t>(i)].runs[0];
    view = run_of_view(view, 2 + i, run.source - begin[2 + i], run.count);
  }
  return view;
}

void Distributed::State::gather_own(Queue& queue, const Call& call, const BoxRun& run) const {
  if (run.input.view().empty()) return;
  const Dims begin = own_block(!is(Direction::backward_data)).begin;
  for (const mpi::Piece& piece : pieces_of(*partition, communicator->rank(), run.box)) {
    if (piece.rank != communicator->rank()) continue;
    ConstTensorView from = call.source;
    TensorView to = run.input;
    for (int i = 0; i < 3; ++i) {
      const mpi::Run& along = piece.runs[static_cast<std::size_t>(i)];
      from = run_of_view(from, 2 + i, along.source - begin[2 + i], along.count, along.step);
      to = run_of_view(to, 2 + i, along.at, along.count);
    }
    copy(queue, from, to);
  }
}

void Distributed::State::run_box(Queue& queue, const Call& call, const BoxRun& run) const {
  const ConstTensorView source =
      run.input.view().empty() ? lying_source(call, run.box) : ConstTensorView(run.input);
  if (is(Direction::backward_weights)) {
    run.plan.execute(queue, {.x = source,
                             .w = targets_of(call.dy, run.box, own_block(false).begin),
                             .y = call.target,
                             .db = call.db});
    return;
  }
  const TensorView block = main_.view().empty() ? call.target : main_.view();
  const TensorView target =
      run.box.is_image()
          ? run.output.view()
          : targets_of(block, run.box, own_block(is(Direction::backward_data)).begin);
  run.plan.execute(queue, {.x = source,
                           .w = call.filters,
                           .bias = boxes_.folds ? ConstTensorView() : call.bias,
                           .y = target});
}

/// In core's order: columns, outwards, those before the image first; then rows; then planes.
void Distributed::State::fold(Queue& queue, const TensorView& dx) const {
  const auto view_of = [&](const std::array<int, 3>& images) {
    if (images == std::array<int, 3>{-1, -1, -1}) return dx;
    for (const BoxRun& run : others_)
      if (run.box.images == images) return run.output.view();
    return TensorView();
  };
  const Dims begin = own_block(true).begin;
  for (std::size_t axis = 3; axis-- > 0;) {
    const auto last = [&](std::size_t i) {  // axes behind have been folded
      return i < axis ? static_cast<int>(boxes_.targets[i].images.size()) : 0;
    };
    const auto& images = boxes_.targets[axis].images;
    for (int d = -1; d < last(0); ++d)
      for (int h = -1; h < last(1); ++h)
        for (std::size_t i = 0; i < images.size(); ++i) {
          std::array<int, 3> from{d, h, -1}, to{d, h, -1};
          from[axis] = static_cast<int>(i);
          to[axis] = -1;
          const TensorView image = view_of(from);
          if (image.empty()) continue;
          queue.backend().add({.x = image,
                               .y = run_of_view(view_of(to), 2 + static_cast<int>(axis),
                                                images[i].shown - begin[2 + static_cast<int>(axis)],
                                                images[i].window.count, images[i].step)});
        }
  }
}

/// As core does it behind a fold: the sum, the bias, and what dx held last.
void Distributed::State::finish(Queue& queue, const Call& call, const TensorView& dx) const {
  if (main_.view().empty()) return;
  const ConvOptions& asked = options.conv;
  BackendQueue& backend = queue.backend();
  if (asked.bias) {
    const ConstTensorView bias(call.bias.data(), dx.dtype(), dx.extents(), call.bias.device(),
                               {0, 1, 0, 0, 0});
    if (asked.accumulate)
      backend.add({.x = bias, .y = main_.view()});
    else
      copy(queue, bias, dx);
  }
  if (asked.accumulate || asked.bias)
    return backend.add({.x = main_, .y = dx, .activation = asked.activation});
  copy(queue, main_, dx);
  if (asked.activation == Activation::relu) relu(queue, dx, dx);
}

void Distributed::State::read_sums(Queue& queue) {
  const DType dtype = dw_.dtype();
  const TensorView dw(staged_.data(), dtype, dw_.extents());
  copy(queue, dw_, dw);
  const std::int64_t weights = element_count(dw_.extents());
  if (!db_.view().empty())
    copy(queue, db_,
         TensorView(staged_.data() + weights * static_cast<std::int64_t>(size_in_bytes(dtype)),
                    dtype, db_.extents()));
  queue.synchronize();
  std::vector<double>& numbers = sum_->numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = load_element(dw, static_cast<std::int64_t>(i));
}

void Distributed::State::write_sums(Queue& queue, const ConvTensors& tensors) {
  const DType dtype = dw_.dtype();
  const std::int64_t weights = element_count(dw_.extents());
  const TensorView dw(staged_.data(), dtype, dw_.extents());
  const TensorView db =
      db_.view().empty()
          ? TensorView()
          : TensorView(staged_.data() + weights * static_cast<std::int64_t>(size_in_bytes(dtype)),
                       dtype, db_.extents());
  const TensorView out = mpi::with_five_axes(tensors.y);
  const std::vector<double>& sums = sum_->numbers();
  if (options.conv.accumulate) {
    copy(queue, out, dw);
    if (!db.empty()) copy(queue, tensors.db, db);
    queue.synchronize();
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    store_element(dw, at, sums[i] + (options.conv.accumulate ? load_element(dw, at) : 0.0));
  }
  copy(queue, dw, out);
  if (!db.empty()) copy(queue, db, tensors.db);
  queue.synchronize();  // the next call writes what is copied from here
}

void Distributed::State::execute_boxes(Queue& queue, const ConvTensors& tensors) {
  Attempts attempt;
  Call call;
  attempt([&] {
    mpi::check_thread_level(1);
    call = call_of(queue, tensors);
    exchange_->pack(queue, call.source);
  });
  // On a GPU the interior is on the queue before the host waits for what has been packed.
  const auto run_interior = [&] {
    if (interior_) run_box(queue, call, *interior_);
  };
  const bool is_asynchronous = device.id() != host;
  if (is_asynchronous) attempt(run_interior);
  attempt([&] { exchange_->settle(); });
  exchange_->start();
  const auto gather = [&] {
    for (const BoxRun& run : others_) gather_own(queue, call, run);
  };
  // Between ranks of one node halos come at once, while what was packed and what is gathered is in
  // the caches: the sides then come first. Sums over boxes keep their order.
  bool sides_first = false;
  if (!is_asynchronous && !is(Direction::backward_weights)) {
    attempt(gather);
    sides_first = exchange_->come_at_once();
    if (!sides_first) attempt(run_interior);
  } else {
    if (!is_asynchronous) attempt(run_interior);
    attempt(gather);
  }
  exchange_->wait(queue, "halos");
  attempt([&] {
    for (std::size_t i = 0; i < others_.size(); ++i) {
      exchange_->unpack(queue, i, others_[i].input);
      run_box(queue, call, others_[i]);
    }
    if (sides_first) run_interior();
    if (boxes_.folds) fold(queue, main_.view().empty() ? call.target : main_.view());
    finish(queue, call, call.target);
  });
  if (sum_) {
    attempt([&] { read_sums(queue); });
    sum_->run();
    attempt([&] { write_sums(queue, tensors); });
  }
  attempt.rethrow();
}

void Distributed::State::execute_shares(Queue& queue, const ConvTensors& tensors, Call& call) {
  Attempts attempt;
  attempt([&] {
    mpi::check_thread_level(1);
    call = call_of(queue, tensors);
    shares_->pack(queue, call.source, call.dy);
  });
  attempt([&] { shares_->settle(); });
  shares_->start();
  attempt([&] { shares_->gather_own(queue, call.source, call.dy); });
  shares_->wait(queue, "channels of x and dy");
  attempt([&] { shares_->compute(queue, call.target, call.db); });
  shares_->exchange_results();
  attempt.rethrow();
}

void Distributed::State::execute(Queue& queue, const ConvTensors& tensors) {
  if (!shares_) return agree_on(*communicator, [&] { execute_boxes(queue, tensors); });
  Call call;
  agree_on(*communicator, [&] { execute_shares(queue, tensors, call); });
  // What a rank that failed sent is of no use: nothing is written before all agree.
  agree_on(*communicator, [&] { shares_->write(queue, call.target, call.db); });
}

}  // namespace plumb
