// Convolutions of bf16 with sums in fp32 by AMX or AVX512-BF16.
//
// Each sum is formed in one order, whatever else is computed, but not in the order of its terms:
// the instructions add products in pairs.
#include "cpu_kernels/tiles/conv_tiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/src/parallel/parallel.hpp"
#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/primitives/instruction_set.hpp"
#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/tiles/tiles_kernels.hpp"
#include "cpu_kernels/tiles/tiles_plan.hpp"
#include "plumb/support.hpp"

namespace plumb {
namespace {

using std::int64_t;

const TileKernels* kernels_of(const DeviceInfo& device) {
#ifdef PLUMB_TILES
  switch (instruction_set_of(device.instruction_set)) {
    case InstructionSet::amx: return &tiles_kernels_amx;
    case InstructionSet::avx512_bf16: return &tiles_kernels_avx512_bf16;
    default: return nullptr;
  }
#else
  (void)device;
  return nullptr;
#endif
}

/// The bias of a group's filters, in fp32, in front of the slab.
std::size_t bias_bytes(const TilesPlan& plan) {
  return padded(plan.blocks * block_side * int64_t{sizeof(float)});
}
std::size_t slot_bytes(const TilesPlan& plan) { return bias_bytes(plan) + plan.slab_bytes; }

int64_t slots(const ConvProblem& problem, const TilesPlan& plan, const DeviceInfo& device) {
  const int units = std::max(device.units, 1);
  return threads_with_room(
      std::min<int64_t>(worthwhile_threads(problem, units), plan.tasks(problem)), 0,
      slot_bytes(plan));
}

PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_dtypes({DType::bf16}, problem)};
  if (!result.support) return result;
  if (!kernels_of(device)) {
    result.support = {Reason::device_limit,
                      fmt::format("the instruction set is {}; expected avx512_bf16 or amx",
                                  device.instruction_set)};
    return result;
  }
  const double terms = static_cast<double>(problem.terms()) +
                       2.0 * tile_terms * static_cast<double>(problem.t * problem.r);
  if (terms > 1 << 26) {
    result.support = {Reason::too_large, "more than 2^26 terms with their padding"};
    return result;
  }
  auto plan = std::make_shared<TilesPlan>(problem, device.units);
  if (slot_bytes(*plan) > workspace_limit_bytes) {
    result.support = {
        Reason::too_large,
        fmt::format("the input of the smallest band takes {} bytes; expected at most {}",
                    plan->slab_bytes, workspace_limit_bytes)};
    return result;
  }
  result.filter_bytes = padded(plan->filter_elements(problem.groups) * int64_t{sizeof(BFloat16)});
  if (problem.n > 0) {
    result.workspace_bytes =
        static_cast<std::size_t>(slots(problem, *plan, device)) * slot_bytes(*plan);
    const bool amx = instruction_set_of(device.instruction_set) == InstructionSet::amx;
    // In fp32 operations: what the units do, and what of it is reached.
    const double rate = (amx ? 16 * 0.5 : 2 * 0.8) * device.nominal_fp32_flop_per_second;
    result.estimate_seconds =
        2 * plan->products / rate + 2 * problem.bytes() / device.nominal_bytes_per_second;
  }
  result.kernel = std::move(plan);
  return result;
}

/// Packs a block of filters; what is none is zero.
void pack_block(const FilterPacking& packing, const TilesPlan& plan, int64_t group, int64_t block,
                BFloat16* to) {
  const ConvProblem& p = packing.problem;
  const ImageSteps w = [&] {
    const Strides& s = p.w_strides;
    const bool deep = s.rank() == 5;
    return ImageSteps{s[0], s[1], deep ? s[2] : 0, s[deep ? 3 : 2], s[deep ? 4 : 3]};
  }();
  const int64_t filters = std::min<int64_t>(plan.group_k - block * block_side, block_side);
  const auto* const from =
      static_cast<const BFloat16*>(packing.w) + (group * plan.group_k + block * block_side) * w.n;
  std::fill_n(to, plan.block_elements(), BFloat16{});
  for (int64_t t = 0; t < p.t; ++t)
    for (int64_t r = 0; r < p.r; ++r)
      for (int64_t run = 0; run < plan.runs_of_row; ++run) {
        for (int64_t tap = 0; tap < plan.run_taps; ++tap)
          for (int64_t c = 0; c < plan.group_c; ++c) {
            const int64_t term = tap * plan.group_c + c, step = term / tile_terms;
            const int64_t pair = term % tile_terms / 2, second = term % 2;
            const BFloat16* const weight = from + c * w.c + t * w.d + r * w.h + (run + tap) * w.w;
            BFloat16* const place =
                to + step * tile_terms * block_side + pair * 2 * tile_side + second;
            for (int64_t k = 0; k < filters; ++k)
              place[k / tile_side * tile_side * tile_terms + k % tile_side * 2] = weight[k * w.n];
          }
        to += ceil_div(plan.run_terms, int64_t{tile_terms}) * tile_terms * block_side;
      }
}

void pack_filters(const FilterPacking& packing, const KernelPlan* kernel) {
  const auto& plan = static_cast<const TilesPlan&>(*kernel);
  const int threads =
      std::min(packing.device.units, worthwhile_threads(packing.problem, available_threads()));
  auto* const filters = static_cast<BFloat16*>(packing.filters);
  parallel_for(threads, packing.problem.groups * plan.blocks, [&](int64_t block) {
    pack_block(packing, plan, block / plan.blocks, block % plan.blocks,
               filters + block * plan.block_elements());
  });
}

/// One thread's work.
class TilesBand {
 public:
  TilesBand(const ConvLaunch& launch, const TilesPlan& plan, const TileKernels& kernels,
            std::byte* slot)
      : launch_(launch),
        p_(launch.problem),
        plan_(plan),
        kernels_(kernels),
        x_(image_steps(launch.problem)),
        y_(output_steps(launch.problem)),
        bias_(reinterpret_cast<float*>(slot)),
        slab_(reinterpret_cast<BFloat16*>(slot + bias_bytes(plan))) {
    kernels_.begin();
  }
  TilesBand(const TilesBand&) = delete;
  TilesBand& operator=(const TilesBand&) = delete;
  ~TilesBand() { kernels_.end(); }

  void run(int64_t task) {
    part_ = task % plan_.parts;
    const int64_t group = task / plan_.parts % p_.groups;
    const int64_t band = task / plan_.parts / p_.groups;
    group_ = group;
    first_row_ = band % plan_.bands * plan_.rows;
    z_ = band / plan_.bands % p_.z();
    n_ = band / plan_.bands / p_.z();
    rows_ = std::min(plan_.rows, p_.p() - first_row_);
    load_bias();
    if (!plan_.in_place) load_slab();
    const int64_t begin = plan_.blocks * part_ / plan_.parts,
                  end = plan_.blocks * (part_ + 1) / plan_.parts;
    for (int64_t block = begin; block < end; ++block)
      if (plan_.flat)
        run_flat(block);
      else
        for (int64_t row = 0; row < rows_; ++row)
          for (int64_t q = 0; q < p_.q(); q += block_side) {
            count_ = 0;
            for (int64_t i = q; i < std::min(q + block_side, p_.q()); ++i) place(row, i);
            run_block(block, (row * p_.stride.h * plan_.width + q * p_.stride.w) * plan_.group_c,
                      p_.stride.w * plan_.group_c, row == 0 && q == 0);
          }
  }

 private:
  void load_bias() {
    const int64_t filters = plan_.blocks * block_side;
    std::fill_n(bias_, filters, 0.0f);
    if (launch_.bias)
      load_row(static_cast<const BFloat16*>(launch_.bias) + group_ * plan_.group_k, 1,
               plan_.group_k, bias_);
  }

  /// The input under the band, zeros where there is none.
  void load_slab() {
    const int64_t row_elements = plan_.width * plan_.group_c;
    for (int64_t t = 0; t < p_.t; ++t) {
      const int64_t d = z_ * p_.stride.d + t * p_.dilation.d - p_.padding.front;
      for (int64_t i = 0; i < plan_.slab_rows; ++i) {
        const int64_t h = first_row_ * p_.stride.h + i - p_.padding.top;
        BFloat16* const row = slab_ + (t * plan_.slab_rows + i) * row_elements;
        if (d < 0 || d >= p_.d || h < 0 || h >= p_.h)
          std::fill_n(row, row_elements, BFloat16{});
        else
          load_slab_row(static_cast<const BFloat16*>(launch_.x) + n_ * x_.n +
                            group_ * plan_.group_c * x_.c + d * x_.d + h * x_.h,
                        row);
      }
    }
    BFloat16* const end = slab_ + p_.t * plan_.slab_rows * row_elements;
    std::fill(end,
              reinterpret_cast<BFloat16*>(reinterpret_cast<std::byte*>(slab_) + plan_.slab_bytes),
              BFloat16{});
  }

  void load_slab_row(const BFloat16* x, BFloat16* row) const {
    const int64_t c = plan_.group_c;
    const int64_t begin = std::min(p_.padding.left, plan_.width);
    const int64_t end = std::clamp(p_.w + p_.padding.left, begin, plan_.width);
    std::fill_n(row, begin * c, BFloat16{});
    std::fill_n(row + end * c, (plan_.width - end) * c, BFloat16{});
    const BFloat16* const from = x + (begin - p_.padding.left) * x_.w;
    row += begin * c;
    if (x_.c == 1 && x_.w == c) {
      std::copy_n(from, (end - begin) * c, row);
      return;
    }
    if (x_.c == 1) {
      for (int64_t i = 0; i < end - begin; ++i) std::copy_n(from + i * x_.w, c, row + i * c);
      return;
    }
    if (x_.w == 1) return kernels_.turn(from, x_.c, end - begin, c, row);
    // Squares, so that both sides stay in a few lines.
    constexpr int64_t side = 32;
    for (int64_t first = 0; first < end - begin; first += side)
      for (int64_t channel = 0; channel < c; channel += side)
        for (int64_t i = first; i < std::min(first + side, end - begin); ++i)
          for (int64_t j = channel; j < std::min(channel + side, c); ++j)
            row[i * c + j] = from[i * x_.w + j * x_.c];
  }

  /// Position `count_` of the block is output (row, q) of the band.
  void place(int64_t row, int64_t q) {
    row_of_[count_] = first_row_ + row;
    q_of_[count_] = q;
    y_at_[count_++] = (first_row_ + row) * y_.h + q * y_.w;
  }

  /// Positions are pixels of the slab, of which those behind a row's outputs are nobody's, or of x.
  void run_flat(int64_t block) {
    const int64_t end = (rows_ - 1) * plan_.width + p_.q();
    for (int64_t first = 0; first < end; first += block_side) {
      const int64_t wanted = std::min<int64_t>(block_side, end - first);
      // What lies behind the last pixel is not read: the block begins earlier.
      const int64_t pixel = (z_ * p_.p() + first_row_) * p_.q() + first;
      const int64_t more =
          plan_.in_place ? std::max<int64_t>(0, pixel + block_side - p_.d * p_.h * p_.w) : 0;
      TileBlock tile = plan_.in_place
                           ? tile_at(block, pixels_of_x() + (pixel - more) * x_.w, x_.w)
                           : tile_at(block, slab_ + first * plan_.group_c, plan_.group_c);
      tile.fetches = first == 0;
      tile.positions = static_cast<int>(more + wanted);
      kernels_.multiply(tile);
      const bool nan = plan_.meets_zeros && kernels_.any_nan(tile);
      // What is wanted moves up.
      count_ = 0;
      for (int64_t i = 0; i < wanted; ++i) {
        const int64_t row = (first + i) / plan_.width, q = (first + i) % plan_.width;
        if (q >= p_.q()) continue;
        if (count_ != more + i)
          std::copy_n(sums_ + (more + i) * block_side, block_side, sums_ + count_ * block_side);
        place(row, q);
      }
      finish(block, nan);
    }
  }

  void run_block(int64_t block, int64_t offset, int64_t step, bool fetches) {
    TileBlock tile = tile_at(block, slab_ + offset, step);
    tile.positions = static_cast<int>(count_);
    tile.fetches = fetches;
    kernels_.multiply(tile);
    finish(block, plan_.meets_zeros && kernels_.any_nan(tile));
  }

  const BFloat16* pixels_of_x() const {
    return static_cast<const BFloat16*>(launch_.x) + n_ * x_.n + group_ * plan_.group_c;
  }

  TileBlock tile_at(int64_t block, const BFloat16* position, int64_t step) {
    return {.slab = position,
            .step = step,
            .offsets = plan_.offsets.data(),
            .steps = plan_.steps(),
            .filters = static_cast<const BFloat16*>(launch_.filters) +
                       (group_ * plan_.blocks + block) * plan_.block_elements(),
            .positions = 0,
            .filter_count = filters_of(block),
            .fetches = false,
            .sums = sums_};
  }

  int filters_of(int64_t block) const {
    return static_cast<int>(std::min<int64_t>(block_side, plan_.group_k - block * block_side));
  }

  void finish(int64_t block, bool nan) {
    const int filters = filters_of(block);
    const int64_t k = group_ * plan_.group_k + block * block_side;
    if (nan)
      for (int64_t i = 0; i < count_; ++i)
        for (int64_t j = 0; j < filters; ++j)
          if (float& sum = sums_[i * block_side + j]; sum != sum) sum = sum_again(i, k + j);
    kernels_.store({.sums = sums_,
                    .bias = bias_ + block * block_side,
                    .y_at = y_at_,
                    .y = static_cast<BFloat16*>(launch_.y) + n_ * y_.n + z_ * y_.d + k * y_.c,
                    .y_k = y_.c,
                    .positions = static_cast<int>(count_),
                    .filter_count = filters,
                    .accumulate = launch_.accumulate,
                    .relu = launch_.activation == Activation::relu});
  }

  /// A sum by the definition: zeros of padding, or behind a run, may have met Inf.
  float sum_again(int64_t position, int64_t k) const;

  const ConvLaunch& launch_;
  const ConvProblem& p_;
  const TilesPlan& plan_;
  const TileKernels& kernels_;
  ImageSteps x_, y_;
  float* bias_;
  BFloat16* slab_;
  int64_t part_ = 0, group_ = 0, first_row_ = 0, rows_ = 0, z_ = 0, n_ = 0;
  int64_t count_ = 0;
  int64_t row_of_[block_side], q_of_[block_side], y_at_[block_side];
  alignas(64) float sums_[block_side * block_side];
};

float TilesBand::sum_again(int64_t position, int64_t k) const {
  const int64_t width = tile_terms;
  float sum = 0;
  const auto* const x = static_cast<const BFloat16*>(launch_.x) + n_ * x_.n;
  const auto* filters =
      static_cast<const BFloat16*>(launch_.filters) +
      (group_ * plan_.blocks + (k - group_ * plan_.group_k) / block_side) * plan_.block_elements();
  const int64_t in_block = (k - group_ * plan_.group_k) % block_side;
  for (int64_t t = 0; t < p_.t; ++t)
    for (int64_t r = 0; r < p_.r; ++r)
      for (int64_t run = 0; run < plan_.runs_of_row; ++run) {
        for (int64_t term = 0; term < plan_.run_terms; ++term) {
          const int64_t s = run + term / plan_.group_c, c = term % plan_.group_c;
          const int64_t d = z_ * p_.stride.d + t * p_.dilation.d - p_.padding.front;
          const int64_t h = row_of_[position] * p_.stride.h + r * p_.dilation.h - p_.padding.top;
          const int64_t w = q_of_[position] * p_.stride.w + s * p_.dilation.w - p_.padding.left;
          if (d < 0 || d >= p_.d || h < 0 || h >= p_.h || w < 0 || w >= p_.w) continue;
          const BFloat16 weight =
              filters[term / width * width * block_side +
                      (in_block / tile_side * width + term % width / 2 * 2) * tile_side +
                      in_block % tile_side * 2 + term % 2];
          const BFloat16 value =
              x[(group_ * plan_.group_c + c) * x_.c + d * x_.d + h * x_.h + w * x_.w];
          sum += widen(value) * widen(weight);
        }
        filters += ceil_div(plan_.run_terms, width) * width * block_side;
      }
  return sum;
}

void launch(const ConvLaunch& launch, const KernelPlan* kernel) {
  const auto& plan = static_cast<const TilesPlan&>(*kernel);
  const ConvProblem& problem = launch.problem;
  if (problem.n == 0) return;
  const TileKernels& kernels = *kernels_of(launch.device);
  const int threads =
      std::min(static_cast<int>(slots(problem, plan, launch.device)), available_threads());
  parallel_shares(threads, plan.tasks(problem), [&](const auto& take, int thread) {
    TilesBand band(launch, plan, kernels,
                   static_cast<std::byte*>(launch.workspace) +
                       static_cast<std::size_t>(thread) * slot_bytes(plan));
    for (int64_t task = take(); task >= 0; task = take()) band.run(task);
  });
}

}  // namespace

const ConvAlgorithm conv_tiles_bf16{
    .name = "cpu.conv.tiles.bf16",
    .numerics = {.operand = Operand::bf16,
                 .accumulator = Accumulator::fp32_flushed,
                 .term_multiple = tile_terms,
                 .invariant = true},
    .takes_depth = true,
    .accumulates = true,
    .plan = plan,
    .pack_filters = pack_filters,
    .launch = launch,
};

}  // namespace plumb
