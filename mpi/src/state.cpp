// What is made once: the partition, the boxes with their plans and buffers, the messages.
#include "state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plumb/error.hpp"
#include "views.hpp"

namespace plumb {

using mpi::Box;

namespace {

[[noreturn]] void refuse(ErrorCode code, const std::string& message) {
  throw Error(code, "distributed: " + message);
}

/// Dense strides where none are given, of the rank that `extents` has or a smaller one.
Strides strides_in_five(const Strides& given, const Extents& extents, const char* name) {
  if (given.empty()) return dense_strides(extents);
  if (given.rank() < 3 || given.rank() > 5)
    refuse(ErrorCode::invalid_argument,
           fmt::format("{} has {} strides; expected 3 to 5", name, given.rank()));
  Extents own = extents;
  std::int64_t kept[5];
  for (int i = 0; i < given.rank(); ++i) kept[i] = extents[mpi::place_of_axis(i, given.rank())];
  own = Extents(kept, static_cast<std::size_t>(given.rank()));
  return mpi::with_five_axes(ConstTensorView(nullptr, DType::f32, own, host, given)).strides();
}

/// Host threads that a device computes with.
int host_threads(const Device& device) {
  return device.id().backend == "cuda" ? 1 : device.info().units;
}

}  // namespace

Distributed::State::State(MPI_Comm of_caller, const Device& on, const ConvProblem& problem,
                          const DistributedGrid& cut, const DistributedOptions& given)
    : device(on), grid(cut), options(given) {
  mpi::check_thread_level(host_threads(on));
  communicator = std::make_unique<mpi::Communicator>(of_caller, options.time_limit_seconds);
  agree_on(*communicator, [&] { check_and_cut(problem); });
  require_same(*communicator, fingerprint());
  agree_on(*communicator, [&] { make(); });
}

void Distributed::State::check_and_cut(const ConvProblem& problem) {
  if (!problem.x_strides.empty() || !problem.y_strides.empty())
    refuse(ErrorCode::invalid_argument,
           "the problem has strides of x or y; expected none, and those of this rank's blocks in "
           "DistributedOptions");
  std::int64_t product = 1;
  for (const std::int64_t parts : {grid.n, grid.d, grid.h, grid.w}) {
    if (parts < 1 || parts > communicator->size())
      refuse(ErrorCode::invalid_argument,
             fmt::format("a grid of {}x{}x{}x{} parts (N, D, H, W); expected {} in all, as the "
                         "communicator has ranks",
                         grid.n, grid.d, grid.h, grid.w, communicator->size()));
    product = std::min<std::int64_t>(product * parts, std::int64_t{1} << 40);
  }
  if (product != communicator->size())
    refuse(
        ErrorCode::invalid_argument,
        fmt::format("a grid of {}x{}x{}x{} parts (N, D, H, W) makes {} ranks; the communicator has "
                    "{}",
                    grid.n, grid.d, grid.h, grid.w, product, communicator->size()));
  partition.emplace(check(problem), grid, options.sizes);
  // Shares have no halos: blocks may be of any size.
  const bool has_shares = options.conv.reproducible && is(Direction::backward_weights);
  if (!has_shares) check_halos(*partition);
}

std::string Distributed::State::fingerprint() const {
  const ConvProblem& p = partition->problem();
  const ConvOptions& o = options.conv;
  const DistributedSizes& s = options.sizes;
  return fmt::format(
      "{} {} {} in {}x{}x{}x{} parts, blocks n{} d{} h{} w{} z{} p{} q{}, math {}, bias {}, "
      "activation "
      "{}, accumulate {}, mask {}, reproducible {}",
      to_string(p.direction), to_string(p), to_string(p.dtype), grid.n, grid.d, grid.h, grid.w, s.n,
      s.d, s.h, s.w, s.z, s.p, s.q, to_string(o.math), o.bias, to_string(o.activation),
      o.accumulate, o.relu_mask, o.reproducible);
}

bool Distributed::State::finishes() const {
  const ConvOptions& o = options.conv;
  return boxes_.folds && (o.bias || o.accumulate || o.activation != Activation::none);
}

ConvOptions Distributed::State::options_of_box(bool is_first) const {
  ConvOptions of_box = options.conv;
  of_box.relu_mask = false;  // dy has been masked
  if (is(Direction::backward_weights)) of_box.accumulate = !is_first;
  if (boxes_.folds) {
    of_box.bias = of_box.accumulate = false;
    of_box.activation = Activation::none;
  }
  return of_box;
}

BoxRun Distributed::State::make_run(const Box& box, bool is_first) const {
  const std::int64_t images = partition->images_of(communicator->rank());
  const mpi::Place place = partition->place_of(communicator->rank());
  ConvProblem local = problem_of_box(*partition, box, images);
  local.w_strides = partition->problem().w_strides;
  const bool backward = is(Direction::backward_data);
  const auto dense = [&](bool of_source) {
    Extents extents{images, of_source == backward ? local.k : local.c, 1, 1, 1};
    for (int i = 0; i < 3; ++i) {
      const mpi::Window& window = box.windows[static_cast<std::size_t>(i)];
      extents[2 + i] = of_source ? window.length : window.count;
    }
    return extents;
  };
  const auto block_strides = [&](bool of_x) {
    return strides_in_five(of_x ? options.x_strides : options.y_strides, own_block(of_x).extents,
                           of_x ? "x_strides" : "y_strides");
  };
  bool lies_here = true;
  for (std::size_t i = 0; i < 3; ++i)
    lies_here = lies_here && box.windows[i].lies_in(place.axes[i]);
  // Sources that lie here are read where they are; of a masked dy that is a dense copy.
  const bool source_is_masked = options.conv.relu_mask && backward;
  const Strides source = lies_here ? (source_is_masked ? dense_strides(own_block(false).extents)
                                                       : block_strides(!backward))
                                   : dense_strides(dense(true));
  Strides target = block_strides(backward);
  if (is(Direction::backward_weights) && options.conv.relu_mask)
    target = dense_strides(own_block(false).extents);
  if (box.is_image()) target = dense_strides(dense(false));
  if (!box.is_image() && finishes()) target = dense_strides(own_block(true).extents);
  if (is(Direction::backward_weights)) {
    local.x_strides = source;
    local.y_strides = target;
    local.w_strides = {};  // summed in dense memory
  } else {
    local.x_strides = backward ? target : source;
    local.y_strides = backward ? source : target;
  }
  BoxRun run{.box = box,
             .plan = ConvPlan(device, local, options_of_box(is_first)),
             .input = {},
             .output = {}};
  if (!lies_here) run.input = Tensor(device, local.dtype, dense(true));
  if (box.is_image()) run.output = Tensor(device, local.dtype, dense(false));
  return run;
}

Extents Distributed::State::weights_extents() const {
  const ConvProblem& whole = partition->problem();
  return {whole.k, whole.c / whole.groups, whole.t, whole.r, whole.s};
}

void Distributed::State::make() {
  if (options.conv.relu_mask) {
    if (is(Direction::forward))
      refuse(ErrorCode::invalid_argument,
             "relu_mask of a forward convolution; expected a gradient");
    masked_ = Tensor(device, partition->problem().dtype, own_block(false).extents);
  }
  if (!is(Direction::backward_weights) || !options.conv.reproducible) return make_boxes();
  ConvOptions of_share = options.conv;
  of_share.relu_mask = false;  // dy has been masked
  shares_ = std::make_unique<mpi::WeightsShares>(*communicator, device, *partition, of_share,
                                                 options.transport, options.nccl_communicator);
}

void Distributed::State::make_boxes() {
  const int rank = communicator->rank();
  const ConvProblem& whole = partition->problem();
  boxes_ = boxes_of(*partition, rank);
  if (boxes_.interior) interior_ = make_run(*boxes_.interior, true);
  for (std::size_t i = 0; i < boxes_.others.size(); ++i)
    others_.push_back(make_run(boxes_.others[i], !interior_ && i == 0));
  exchange_ = std::make_unique<mpi::Exchange>(*communicator, device, *partition, boxes_.others,
                                              options.transport, options.nccl_communicator);
  if (finishes()) main_ = Tensor(device, whole.dtype, own_block(true).extents);
  if (is(Direction::backward_weights)) {
    const Extents w = weights_extents();
    dw_ = Tensor(device, whole.dtype, w);
    const std::int64_t biases = options.conv.bias ? whole.k : 0;
    if (biases > 0) db_ = Tensor(device, whole.dtype, {biases});
    sum_ = std::make_unique<mpi::RankSum>(*communicator, element_count(w) + biases);
    staged_.resize(static_cast<std::size_t>(element_count(w) + biases) *
                   size_in_bytes(whole.dtype));
  }
}

}  // namespace plumb
