#include "spread_case.hpp"

#include <algorithm>

namespace plumb_test {

using namespace plumb;

namespace {

using Engine = std::mt19937;

std::int64_t draw(Engine& engine, std::int64_t low, std::int64_t high) {
  // Not uniform_int_distribution, which each C++ library draws in its own way: all ranks agree.
  return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
}

/// All ways to cut into so many parts, as {n, d, h, w}.
std::vector<DistributedGrid> grids_of(int ranks) {
  std::vector<DistributedGrid> grids;
  for (int n = 1; n <= ranks; ++n)
    for (int d = 1; d <= ranks; ++d)
      for (int h = 1; h <= ranks; ++h)
        if (ranks % (n * d * h) == 0) grids.push_back({n, d, h, ranks / (n * d * h)});
  return grids;
}

/// Sizes of blocks that add up to the extent, each at least half of its even share.
std::vector<std::int64_t> uneven(Engine& engine, std::int64_t extent, std::int64_t parts) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(parts), extent / parts);
  sizes.back() += extent % parts;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const std::int64_t moved = draw(engine, 0, sizes[i] / 2);
    sizes[i] -= moved;
    sizes[i + 1] += moved;
  }
  return sizes;
}

/// Strides of this rank's block with gaps behind rows: it lies in a larger array.
Strides in_larger(const Extents& extents) {
  Strides strides = extents;
  std::int64_t step = 1;
  for (int i = extents.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= extents[i] + 2;
  }
  return strides;
}

bool is_valid(const ConvProblem& problem) {
  try {
    check(problem);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string SpreadCase::text() const {
  return "seed " + std::to_string(seed) + ", " + std::string(to_string(problem.direction)) + " " +
         to_string(problem) + ", grid " + std::to_string(grid.n) + "x" + std::to_string(grid.d) +
         "x" + std::to_string(grid.h) + "x" + std::to_string(grid.w);
}

std::optional<SpreadCase> random_case(std::uint32_t seed, int ranks, Direction direction) {
  Engine engine(seed);
  SpreadCase spread{.problem = {}, .grid = {}, .options = {}, .seed = seed};
  const std::vector<DistributedGrid> grids = grids_of(ranks);
  spread.grid = grids[static_cast<std::size_t>(draw(engine, 0, std::ssize(grids) - 1))];
  const DistributedGrid& grid = spread.grid;
  ConvProblem& p = spread.problem;
  p.direction = direction;
  // Sums of small integers are exact in f16 too, but for those over a whole image.
  const bool of_weights = direction == Direction::backward_weights;
  const DType dtypes[] = {DType::f64, DType::f32, DType::f16};
  p.dtype = dtypes[draw(engine, 0, of_weights ? 1 : 2)];
  p.n = grid.n * draw(engine, 1, 2) + draw(engine, 0, 1);
  p.groups = draw(engine, 1, 2);
  p.c = p.groups * draw(engine, 1, 2);
  p.k = p.groups * draw(engine, 1, 2);
  const std::int64_t dims = grid.d > 1 ? 3 : grid.h > 1 ? draw(engine, 2, 3) : draw(engine, 1, 3);
  const auto axis = [&](std::int64_t parts, bool exists, std::int64_t& in, std::int64_t& taps,
                        std::int64_t& stride, std::int64_t& dilation, std::int64_t& before,
                        std::int64_t& after, Boundary& boundary) {
    if (!exists) return;
    in = parts * draw(engine, 2, 9) + draw(engine, 0, parts - 1);
    taps = draw(engine, 1, 4);
    stride = draw(engine, 0, 2) ? 1 : draw(engine, 2, 3);
    dilation = draw(engine, 0, 2) ? 1 : 2;
    const std::int64_t reach = (taps - 1) * dilation + 1;
    before = draw(engine, 0, reach - 1);
    after = draw(engine, 0, 1) ? reach - 1 - before : draw(engine, 0, reach - 1);
    boundary = static_cast<Boundary>(draw(engine, 0, 4));
  };
  axis(grid.d, dims == 3, p.d, p.t, p.stride.d, p.dilation.d, p.padding.front, p.padding.back,
       p.boundary.d);
  axis(grid.h, dims >= 2, p.h, p.r, p.stride.h, p.dilation.h, p.padding.top, p.padding.bottom,
       p.boundary.h);
  axis(grid.w, true, p.w, p.s, p.stride.w, p.dilation.w, p.padding.left, p.padding.right,
       p.boundary.w);
  if (!is_valid(p)) return std::nullopt;
  if (draw(engine, 0, 2) == 0) {
    DistributedSizes& sizes = spread.options.sizes;
    sizes.n = uneven(engine, p.n, grid.n);
    sizes.h = uneven(engine, p.h, grid.h);
    sizes.w = uneven(engine, p.w, grid.w);
    if (p.z() == p.d && p.stride.d == 1) sizes.d = sizes.z = uneven(engine, p.d, grid.d);
  }
  ConvOptions& conv = spread.options.conv;
  conv.bias = draw(engine, 0, 2) == 0;
  conv.accumulate = draw(engine, 0, 2) == 0;
  if (direction != Direction::backward_weights && draw(engine, 0, 2) == 0)
    conv.activation = Activation::relu;
  if (direction != Direction::forward) conv.relu_mask = draw(engine, 0, 2) == 0;
  spread.options.time_limit_seconds = time_limit_seconds;
  if (const char* const name = std::getenv("PLUMB_MPI_TEST_TRANSPORT"); name && *name)
    spread.options.transport =
        std::string(name) == "device_memory" ? Transport::device_memory : Transport::host_memory;
  return spread;
}

WholeTensors whole_tensors(const SpreadCase& spread, bool integers) {
  const ConvProblem problem = check(spread.problem);
  Random random(spread.seed + 1);
  const auto made = [&](const Extents& extents) {
    HostTensor tensor(problem.dtype, extents);
    tensor.fill([&] { return integers ? random.integer(-3, 3) : random.normal(); });
    return tensor;
  };
  WholeTensors whole{made(image_of(problem).extents),
                     made(filters_of(problem).extents),
                     made(output_of(problem).extents),
                     {},
                     {},
                     {}};
  const ConvOptions& conv = spread.options.conv;
  const bool of_weights = problem.direction == Direction::backward_weights;
  if (conv.bias) (of_weights ? whole.db : whole.bias) = made({bias_elements(problem)});
  if (conv.relu_mask) whole.mask = made(problem.y_extents());
  return whole;
}

HostTensor block_of(const HostTensor& whole, const DistributedBlock& block,
                    const Strides& strides) {
  HostTensor part(whole.dtype(), block.extents, strides);
  for_each_index(block.extents, [&](const Dims& index) {
    Dims from = index;
    for (int i = 0; i < from.rank(); ++i) from[i] += block.begin[i];
    part.set(index, whole.at(from));
  });
  return part;
}

namespace {

/// A call's tensors in the memory of a device: where that is the host, they stay where they are.
class DeviceTensors {
 public:
  DeviceTensors(Queue& queue, WholeTensors& on_host) : queue_(queue), on_host_(on_host) {
    if (queue.device().id() == host) return;
    const auto move = [&](HostTensor& tensor) { moved_.emplace_back(queue, tensor); };
    move(on_host.source);
    move(on_host.filters);
    move(on_host.target);
    for (std::optional<HostTensor>* tensor : {&on_host.bias, &on_host.mask, &on_host.db})
      if (*tensor) move(**tensor);
    queue.synchronize();
  }
  ConvTensors views() {
    std::size_t next = 0;
    const auto view = [&](HostTensor& tensor) -> TensorView {
      return moved_.empty() ? tensor.view() : moved_[next++];
    };
    ConvTensors tensors{.x = view(on_host_.source)};
    tensors.w = view(on_host_.filters);
    tensors.y = view(on_host_.target);
    if (on_host_.bias) tensors.bias = view(*on_host_.bias);
    if (on_host_.mask) tensors.mask = view(*on_host_.mask);
    if (on_host_.db) tensors.db = view(*on_host_.db);
    return tensors;
  }
  /// What was written; waits.
  void read_back() {
    queue_.synchronize();
    if (moved_.empty()) return;
    moved_[2].read_back(queue_, on_host_.target);
    if (on_host_.db) moved_.back().read_back(queue_, *on_host_.db);
  }

 private:
  Queue& queue_;
  WholeTensors& on_host_;
  std::vector<DeviceTensor> moved_;
};

}  // namespace

void compute_whole(const Device& device, const SpreadCase& spread, WholeTensors& whole) {
  Queue queue(device);
  DeviceTensors tensors(queue, whole);
  ConvPlan(device, spread.problem, spread.options.conv).execute(queue, tensors.views());
  tensors.read_back();
}

SpreadResult compute_spread(const Device& device, const SpreadCase& spread,
                            const WholeTensors& before, const WholeTensors& whole, int times) {
  DistributedOptions options = spread.options;
  const Direction direction = spread.problem.direction;
  const bool of_weights = direction == Direction::backward_weights;
  // Strides are known once the blocks are: a first plan says which.
  const bool has_gaps = spread.seed % 3 == 0;
  if (has_gaps) {
    const Distributed first(MPI_COMM_WORLD, device, spread.problem, spread.grid, options);
    options.x_strides = in_larger(first.x_block().extents);
    options.y_strides = in_larger(first.y_block().extents);
  }
  Distributed spread_plan(MPI_COMM_WORLD, device, spread.problem, spread.grid, options);
  const DistributedBlock x = spread_plan.x_block(), y = spread_plan.y_block();
  const DistributedBlock of_source = direction == Direction::backward_data ? y : x;
  const DistributedBlock of_target = direction == Direction::backward_data ? x : y;
  const auto strides = [&](const DistributedBlock& block) {
    return !has_gaps ? Strides() : in_larger(block.extents);
  };
  WholeTensors own{
      block_of(before.source, of_source, strides(of_source)),
      of_weights ? block_of(before.filters, y, strides(y)) : before.filters,
      of_weights ? before.target : block_of(before.target, of_target, strides(of_target)),
      before.bias,
      before.mask ? std::optional(block_of(*before.mask, y)) : std::nullopt,
      before.db};
  Queue queue(device);
  const WholeTensors old = own;
  for (int i = 0; i < times; ++i) {
    own.target = old.target;  // what is accumulated to
    own.db = old.db;
    DeviceTensors tensors(queue, own);
    spread_plan.execute(queue, tensors.views());
    tensors.read_back();
  }
  SpreadResult result{
      .values = own.target.values(),
      .expected = of_weights ? whole.target.values() : block_of(whole.target, of_target).values(),
      .surroundings_untouched = own.target.surroundings_untouched()};
  if (own.db)
    for (const double value : own.db->values()) result.values.push_back(value);
  if (whole.db)
    for (const double value : whole.db->values()) result.expected.push_back(value);
  return result;
}

}  // namespace plumb_test
