// Which gradients the kernel takes, and how it cuts them. The cut depends on the problem alone, and
// not on the device: it is the order of the sums.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "cuda_kernels/cost/wide_weights.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/wide/wide_axes.hpp"
#include "cuda_kernels/wide_weights/wide_weights.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

constexpr double sums_limit = 256 << 20;  // bytes of workspace beyond those of one split

ConvProblem forward_of(const ConvProblem& problem) {
  ConvProblem p = problem;
  p.direction = Direction::forward;
  return p;
}

/// The channels of x under the taps of folded axes, or those of dy, which are the groups' filters.
WideWeightsOperand operand_of(const ConvProblem& image, const WideClass& of, int folded_axes,
                              const WideGroups* groups) {
  WideWeightsOperand operand{.image = image, .channels = WideFilters(image, of, folded_axes)};
  WideFilters& channels = operand.channels;
  if (groups) {
    WideGroups& own = channels.groups;
    own = *groups;
    own.channels = own.filters, own.own_channels = own.own_filters;
    channels.fold.channels = own.own_channels;
  }
  channels.channel_blocks =
      static_cast<int>(ceil_div(channels.groups.channels, wide_weights_block(of)));
  operand.blocks = channels.channel_blocks;
  operand.input = WideInput(image, channels);
  // All images at once: each is a term of every sum.
  operand.input.images = static_cast<int>(std::max<std::int64_t>(image.n, 1));
  constexpr int max_magnitudes = 1 << 12;
  operand.input.parts = std::clamp(max_magnitudes / operand.input.images, 1, operand.input.parts);
  return operand;
}

WideWeightsCounts work_of(const WideWeightsPlan& plan) {
  const WideShape& shape = wide_shapes[plan.cut.shape];
  const bool in_registers = weights_in_registers(plan.of);
  const int parts = weights_parts(plan.of);
  const WeightsWarpShape warp(shape, parts);
  const bool directly = plan.can_store_directly();
  const double sums = static_cast<double>(plan.sums_bytes()) / sizeof(float);
  return {
      .m = shape.m,
      .n = shape.n,
      .loaded_rows = std::min(shape.m, plan.rows()) +
                     WeightsColumns(plan.column_blocks(), plan.cut.n_tiles).most() *
                         wide_weights_block(plan.of),
      .works = 1.0 * plan.cut.m_tiles * plan.cut.n_tiles * plan.groups().count * plan.cut.splits,
      .steps = static_cast<double>(plan.of.rounds() * ceil_div(plan.cut.steps, plan.cut.splits)),
      .warp_rows = in_registers ? warp.rows : 0,
      .warp_columns = in_registers ? warp.columns : 0,
      .step_parts = parts,
      .step_products = plan.of.splits_in_registers() ? plan.of.products : 1,
      .stored_bytes = directly ? static_cast<int>(size_in_bytes(plan.of.stored)) : 4 * parts,
      .sums = directly ? 0 : sums,
      .weights = directly ? 0 : sums / plan.all_sums()};
}

/// Kernels behind that of the products.
int kernels_behind(const WideWeightsPlan& plan) {
  return plan.can_store_directly() && !plan.repairs() ? 0 : 1;
}

/// What a cut's clocks are compared by.
double clocks_of_cut(const WideWeightsPlan& plan) {
  return plan.cut.clocks + wide_weights_moving_clocks({.other_kernels = kernels_behind(plan)});
}

/// Bytes that a repacking reads and writes.
void add_repacking(WideWeightsTraffic& traffic, const WideWeightsOperand& operand, bool across) {
  const double stored = static_cast<double>(element_count(operand.image.x_extents())) *
                        static_cast<double>(size_in_bytes(operand.image.dtype));
  if (!operand.input.repacks || across) {
    traffic.read_bytes += stored;
    return;
  }
  const double written =
      static_cast<double>(operand.image.n) * static_cast<double>(operand.input.image_bytes());
  const bool looks = operand.channels.of.scales();
  traffic.other_kernels += looks ? 3 : 1;
  traffic.repacked_bytes += (looks ? 2 : 1) * stored + written;
  traffic.read_bytes += written;
}

/// Says whether planes of a tensor can be read as they lie, if it is aligned.
bool lies_in_planes(const WideWeightsOperand& operand) {
  return lies_across(with_own_outputs(operand.image), operand.channels);
}

/// Of equal clocks the first is taken.
void cut(WideWeightsPlan& plan, WideWeightsChoice choice) {
  const int steps = plan.cut.steps;
  WideWeightsCut best;
  double least = std::numeric_limits<double>::infinity();
  for (int number = 0; number < wide_shape_count; ++number) {
    if (choice.shape >= 0 && choice.shape != number) continue;
    const WideShape& shape = wide_shapes[number];
    if (!wide_weights_has(shape, moves_sums(plan.of))) continue;
    plan.cut = {.shape = number,
                .steps = steps,
                .m_tiles = static_cast<int>(ceil_div(plan.rows(), shape.m)),
                .n_tiles = static_cast<int>(ceil_div(plan.columns(), shape.n))};
    const double tiles = 1.0 * plan.cut.m_tiles * plan.cut.n_tiles * plan.groups().count;
    const double most = std::min<double>(
        std::max(steps, 1), std::max(1.0, sums_limit / static_cast<double>(plan.sums_bytes())));
    for (const int waves : {0, 1, 2, 3, 4}) {
      plan.cut.splits =
          static_cast<int>(std::clamp(std::floor(waves * wide_weights_units / tiles), 1.0, most));
      if (choice.splits > 0) plan.cut.splits = std::clamp(choice.splits, 1, std::max(steps, 1));
      plan.cut.clocks = wide_weights_clocks(work_of(plan));
      if (const double clocks = clocks_of_cut(plan); clocks < least)
        best = plan.cut, least = clocks;
    }
  }
  plan.cut = best;
}

void lay_out(WideWeightsPlan& plan) {
  constexpr std::size_t alignment = 256;
  std::size_t end = 0;
  const auto add = [&](std::size_t bytes) {
    const std::size_t at = end;
    end += (bytes + alignment - 1) / alignment * alignment;
    return at;
  };
  for (WideWeightsOperand* operand : {&plan.x, &plan.dy}) {
    const auto images = static_cast<std::size_t>(operand->input.images);
    operand->packed = add(images * static_cast<std::size_t>(operand->input.image_bytes()));
    if (!plan.of.scales()) continue;
    operand->magnitudes =
        add(images * static_cast<std::size_t>(operand->input.parts) * sizeof(int));
    operand->scale = add(sizeof(int));
  }
  plan.sums = add(plan.sums_bytes());
  plan.workspace_bytes = end;
}

/// Among the axes that can be folded, those by which the least time goes by.
int choose_fold(const ConvProblem& p, const WideClass& of, const WideWeightsChoice& choice) {
  const WideMapAxes axes(p);
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int folded = 0; folded < 8; ++folded) {
    const auto has_taps = [&](int axis) {
      return (folded >> axis & 1) == 0 || axes.axis[axis].taps > 1 || axes.axis[axis].step() > 1;
    };
    if (!has_taps(0) || !has_taps(1) || !has_taps(2)) continue;
    if (!supports_folded(p, of, folded)) continue;
    WideWeightsChoice tried = choice;
    tried.folded_axes = folded;
    const WideWeightsPlan plan(p, of, tried);
    const double clocks = clocks_of_cut(plan) + wide_weights_moving_clocks([&] {
                            WideWeightsTraffic traffic;
                            add_repacking(traffic, plan.x, plan.across);
                            add_repacking(traffic, plan.dy, plan.across);
                            return traffic;
                          }());
    if (clocks < least) best = folded, least = clocks;
  }
  return best;
}

}  // namespace

ConvProblem with_own_outputs(const ConvProblem& image) {
  ConvProblem p = image;
  p.y_strides = p.x_strides;
  return p;
}

ConvProblem image_of_gradients(const ConvProblem& p) {
  ConvProblem image;
  image.dtype = p.dtype;
  image.n = p.n, image.c = image.k = p.k, image.groups = p.groups;
  image.d = p.z(), image.h = p.p(), image.w = p.q();
  // Where z is 1 the image has no depth, whatever rank y has.
  const Strides& y = p.y_strides;
  if (image.has_depth() || y.rank() == 4)
    image.x_strides = y;
  else
    image.x_strides = {y[0], y[1], y[3], y[4]};
  return image;
}

WideWeightsPlan::WideWeightsPlan(const ConvProblem& problem, const WideClass& arithmetic,
                                 WideWeightsChoice choice)
    : of(arithmetic) {
  const ConvProblem p = forward_of(problem);
  const int folded = choice.folded_axes >= 0 ? choice.folded_axes : choose_fold(p, of, choice);
  x = operand_of(p, of, folded, nullptr);
  dy = operand_of(image_of_gradients(p), of, 0, &x.channels.groups);
  sizes = *weights_sizes(p);
  strides = weights_strides(p);
  across =
      choice.across != 0 && weights_in_registers(of) && lies_in_planes(x) && lies_in_planes(dy);
  cut.steps = steps(across);
  cuda::cut(*this, choice);
  lay_out(*this);
}

int WideWeightsPlan::steps(bool reads_across) const {
  const std::int64_t pixels = dy.image.d * dy.image.h * dy.image.w, block = wide_weights_block(of);
  return static_cast<int>(reads_across ? dy.image.n * ceil_div(pixels, block)
                                       : ceil_div(dy.image.n * pixels, block));
}

std::size_t WideWeightsPlan::sums_bytes() const {
  return static_cast<std::size_t>(all_sums()) * static_cast<std::size_t>(groups().count) *
         static_cast<std::size_t>(rows()) * static_cast<std::size_t>(columns()) * sizeof(float);
}

bool WideWeightsPlan::repairs() const {
  return x.image.padding != Padding{} || of.scales() || of.products == 3;
}

bool WideWeightsPlan::has_vectors(int count) const {
  const auto fits = [&](std::int64_t step) { return step % count == 0; };
  return strides.w_c == 1 && fits(x.channels.fold.channels) && fits(strides.w_k) &&
         fits(strides.w_t) && fits(strides.w_r) && fits(strides.w_s);
}

bool WideWeightsPlan::can_store_directly() const {
  const int vector = 16 / static_cast<int>(size_in_bytes(of.stored));
  return cut.splits == 1 && !weights_in_registers(of) && x.channels.fold.axes == 0 &&
         groups().joined() == 1 && has_vectors(vector);
}

double WideWeightsPlan::seconds(const DeviceInfo& device) const {
  WideWeightsTraffic traffic;
  add_repacking(traffic, x, across), add_repacking(traffic, dy, across);
  traffic.other_kernels += kernels_behind(*this);
  traffic.written_bytes =
      static_cast<double>(sizes.weights()) * static_cast<double>(size_in_bytes(of.stored));
  constexpr int few_channels = 16;
  traffic.scaled_few = of.scales() && sizes.group_c <= few_channels;
  return wide_weights_seconds(device, cut.clocks, traffic, weights_in_registers(of));
}

Support supports_wide_weights(const ConvProblem& problem, const WideClass& of,
                              const DeviceInfo& device) {
  if (Support cut = supports_cut(problem, of); !cut) return cut;
  return supports_wgmma(device);
}

Support supports_cut(const ConvProblem& problem, const WideClass& of) {
  if (problem.direction != Direction::backward_weights)
    return {Reason::direction,
            std::string(to_string(problem.direction)) + "; expected backward weights"};
  const ConvProblem p = forward_of(problem);
  if (Support stored = supports_dtypes({of.stored}, p); !stored) return stored;
  if (p.boundary != Boundaries{})
    return {Reason::geometry, "a boundary other than zeros; expected zeros"};
  // Sums of a group of filters and channels that are filled up to whole blocks. Joined groups have
  // fewer, and no more than 64 for each weight.
  constexpr double most = 0x7fff0000;
  const double weights = static_cast<double>(element_count(p.w_extents()));
  const auto filled = [&](std::int64_t count) {
    return static_cast<double>(ceil_div(count / std::max<std::int64_t>(p.groups, 1), 64)) * 64;
  };
  const double taps = static_cast<double>(p.t * p.r * p.s);
  const double sums = static_cast<double>(p.groups) * filled(p.k) * filled(p.c) * taps;
  if (!weights_sizes(p) || std::min(64 * weights, sums) >= most)
    return {
        Reason::too_large,
        "taps, strides or weights; expected fewer than 2^20 taps and below 2^31 sums, of filters "
        "and channels in whole blocks of 64"};
  if (Support gradients = supports_folded(image_of_gradients(p), of, 0); !gradients)
    return gradients;
  Support plain = supports_folded(p, of, 0);
  for (int folded = 1; !plain && folded < 8; ++folded)
    if (supports_folded(p, of, folded)) return {};
  return plain;
}

double wide_weights_chain(const WideWeightsPlan& plan) {
  const std::int64_t pixels = ceil_div(plan.cut.steps, plan.cut.splits) *
                              std::int64_t{wide_weights_block(plan.of) / weights_parts(plan.of)},
                     longest = wide_weights_run(plan.of);
  const bool moves = moves_sums(plan.of);
  const std::int64_t run = moves ? std::min(pixels, longest) : pixels;
  const std::int64_t moved = moves ? ceil_div(pixels, longest) : 0;
  const std::int64_t splits = plan.all_sums(), tree = 3;
  const std::int64_t added = splits > wide_weights_chains
                                 ? ceil_div(splits, std::int64_t{wide_weights_chains}) + tree
                                 : splits;
  const std::int64_t products = plan.of.splits_in_registers() ? plan.of.products : 1;
  const auto additions = static_cast<double>(run * products + moved);
  // The small ones of three products of fp16, which go over the split's pixels by themselves, are
  // 2^-11 of the sum of magnitudes each.
  const double small = plan.of.splits_in_memory() ? 0x1p-10 * additions : 0;
  return additions + small + static_cast<double>(added);
}

double wide_weights_chain(const ConvProblem& problem, const WideClass& of) {
  // A bound is asked for each element of dw.
  thread_local struct {
    ConvProblem problem;
    WideClass of{DType::f64, DType::f64, 1};
    double chain = 0;
  } last;
  if (problem != last.problem || of != last.of)
    last = {problem, of,
            supports_cut(problem, of) ? wide_weights_chain(WideWeightsPlan(problem, of))
                                      : static_cast<double>(problem.terms())};
  return last.chain;
}

}  // namespace plumb::cuda
