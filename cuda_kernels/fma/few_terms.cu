// Filters of few terms, up to 32 of C R S: 1x1 over 32 channels, 2x2 over 8, 3x3 over 3. A thread
// holds all terms of its pixels in registers and goes through the filters, whose outputs it writes
// one after the other.
//
// Tiling: pixels of y are numbered through rows and images. A warp takes a run of an image's: 160
//   neighbours, of which it writes for each filter those 128 that are four lines of memory,
//   wherever planes of y begin (with more than 24 terms three lines). Where planes have gaps or are
//   small, and where rows of x and y are vectors of four, a thread makes four pixels by themselves
//   (two, with more than 16 terms), in vectors of 4, 2 or 1 neighbours; a plane without gaps,
//   strides and padding is one row then. A block is 128 threads with a share of the filters in
//   shared memory: all of them where 16 KB hold them and there are pixels enough for the device.
//   Blocks stay, and take tile after tile.
// Bytes: y once; x once for each share of the filters (from L2, but the first), where lines are
//   written a quarter of it twice, or a third, and from L1 each element for each of its taps; w
//   once a block.
// Wins: where terms are few: all that is left to do is to move x and y, and each is read or written
//   once and in the order in which it lies.
// Measured: docs/kernels/few_terms.md.
#include <algorithm>
#include <cstdint>
#include <string>

#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/cost/fma.hpp"
#include "cuda_kernels/fma/few_terms_input.cuh"
#include "cuda_kernels/fma/few_terms_work.cuh"

namespace plumb::cuda {
namespace {

using namespace few_terms_kernels;

template <int terms, int vector, bool padded>
__global__ void __launch_bounds__(block_threads, 4) few_terms(const __grid_constant__ Call call) {
  constexpr int vectors = pixels_of(terms) / vector;
  Share<terms> filters(call);
  for (std::int64_t item = blockIdx.x; item < call.work.items; item += gridDim.x) {
    const auto [tile, share] = call.work.shares.divide(static_cast<int>(item));
    const auto pixels_at = [&](int v) {
      return Pixels<padded>(call, vector,
                            (tile * vectors + v) * block_threads + static_cast<int>(threadIdx.x));
    };
    float values[vectors][terms][vector] = {};
    int y_at[vectors];
    bool exists[vectors];
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      const Pixels<padded> pixels = pixels_at(v);
      y_at[v] = pixels.y, exists[v] = pixels.exists;
      pixels.read(call, values[v]);
    }

    filters.take(share);
    float* y_plane = call.y + filters.first_k * call.shape.y_step.c;
    for (int k = 0; k < filters.count; ++k, y_plane += call.shape.y_step.c) {
      float weights[filters.pitch], sums[vectors][vector] = {};
      filters.read(k, weights);
#pragma unroll
      for (int i = 0; i < terms; ++i)
#pragma unroll
        for (int v = 0; v < vectors; ++v)
#pragma unroll
          for (int j = 0; j < vector; ++j)
            sums[v][j] = fma(values[v][i][j], weights[i], sums[v][j]);
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
#pragma unroll
        for (int j = 0; j < vector; ++j)
          sums[v][j] = call.epilogue.finish(sums[v][j], weights[terms]);
        if (exists[v]) write_row(y_plane + y_at[v], 1, vector, vector, sums[v]);
      }
    }
    if constexpr (padded) {
      if (filters.finite) continue;
      for (int v = 0; v < vectors; ++v)
        if (const Pixels<true> of = pixels_at(v); of.exists)
          for (int k = 0; k < filters.count; ++k)
            do_over(call.shape, call.x, call.w, call.y, call.epilogue, of.n, filters.first_k + k,
                    of.p, of.q);
    }
  }
}

/// The same where planes of y have no gaps and begin anywhere: a warp takes a run of an image's
/// pixels. Of each filter it writes run_lines() whole lines of memory, which begin up to a line
/// less one pixel behind its first; those in front are the run's before, or the plane's first.
template <int terms, bool padded>
__global__ void __launch_bounds__(block_threads, terms <= 8 ? 4 : 3)
    few_terms_lines(const __grid_constant__ Call call) {
  constexpr int lines = run_lines(terms), held_lines = lines + 1;
  const ConvShape<int>& shape = call.shape;
  Share<terms> filters(call);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int pixels = shape.p.value() * shape.q.value();
  for (std::int64_t item = blockIdx.x; item < call.work.items; item += gridDim.x) {
    const auto [tile, share] = call.work.shares.divide(static_cast<int>(item));
    const int number = tile * (block_threads / 32) + warp;
    const bool exists = number < shape.n * call.work.image_runs.value();
    const auto [n, run] = call.work.image_runs.divide(exists ? number : 0);
    const int first = run * run_pixels(terms);
    float values[held_lines][terms][1] = {};
#pragma unroll
    for (int v = 0; v < held_lines; ++v) {
      const int pixel = first + v * line_pixels + lane;
      Pixels<padded>(call, 1, n * pixels + min(pixel, pixels - 1)).read(call, values[v]);
    }

    filters.take(share);
    if (!exists) continue;
    // The lane's first pixel, and those of the plane that follow the run's first.
    float* const own_first =
        call.y + (n * shape.y_step.n + filters.first_k * shape.y_step.c + first + lane);
    const int left = pixels - first;
    int left_of_first = run == 0 ? left : 0;
    asm volatile("" : "+r"(left_of_first));  // or it is made anew for each filter
    // Of a filter whose first own pixel that is: those of the run in front of its first line.
    const auto lead_of = [&](const float* own) {
      const auto before = reinterpret_cast<std::uintptr_t>(own) / sizeof(float) - lane;
      return static_cast<int>(-before % line_pixels);
    };
    float* own = own_first;
    for (int k = 0; k < filters.count; ++k, own += shape.y_step.c) {
      float weights[filters.pitch], sums[held_lines] = {};
      filters.read(k, weights);
#pragma unroll
      for (int i = 0; i < terms; ++i)
#pragma unroll
        for (int v = 0; v < held_lines; ++v) sums[v] = fma(values[v][i][0], weights[i], sums[v]);
#pragma unroll
      for (int v = 0; v < held_lines; ++v) sums[v] = call.epilogue.finish(sums[v], weights[terms]);
      const int lead = lead_of(own);
      if (lane < min(lead, left_of_first)) *own = sums[0];
      float values_of_lines[lines];
#pragma unroll
      for (int line = 0; line < lines; ++line) {
        // No conditional expression: its operands would be places, and the choice an index.
        float value = sums[line + 1];
        if (lane >= lead) value = sums[line];
        values_of_lines[line] = __shfl_sync(0xffffffff, value, lane + lead);
      }
      const int left_of_lines = left - lead - lane;
#pragma unroll
      for (int line = 0; line < lines; ++line)
        if (line * line_pixels < left_of_lines)
          own[lead + line * line_pixels] = values_of_lines[line];
    }
    if constexpr (padded) {
      if (filters.finite) continue;
      own = own_first;
      for (int k = 0; k < filters.count; ++k, own += shape.y_step.c) {
        const auto over = [&](int pixel) {
          const auto [p, q] = shape.q.divide(pixel);
          do_over(shape, call.x, call.w, call.y, call.epilogue, n, filters.first_k + k, p, q);
        };
        const int lead = lead_of(own), end = min(lead + run_pixels(terms), left);
        if (lane < min(lead, left_of_first)) over(lane);
        for (int pixel = lead + lane; pixel < end; pixel += line_pixels) over(first + pixel);
      }
    }
  }
}

void launch(const ConvLaunch& whole, const KernelPlan* plan) {
  const auto& work = planned_value<SlicePlans<SliceWork>>(plan);
  for_each_slice(whole, work, [](const ConvLaunch& call, const SliceWork& planned) {
    const ConvProblem& problem = planned.problem;
    const int vector = vector_of(call.problem, problem, call.x, call.y);
    const auto launch_kernel = [&](auto kernel, const Work& of_kernel) {
      const std::size_t bytes = of_kernel.filters * filter_pitch(planned.terms) * sizeof(float);
      Launch(call.native_queue, blocks_for(of_kernel.items, 1), block_threads, bytes)
          .resident(kernel, call.device)(
              kernel, Call{ConvShape<int>(problem), Terms(call.problem), of_kernel,
                           static_cast<const float*>(call.x), static_cast<const float*>(call.w),
                           static_cast<float*>(call.y), Epilogue<float>(call)});
    };
    const auto launch_terms = [&]<int terms, bool padded>() {
      if (planned.lines && vector <= max_vector_for_lines)
        return launch_kernel(few_terms_lines<terms, padded>, planned.in_lines);
      CompileTime<1, 2, 4>::with(vector, [&]<int width>() {
        if constexpr (width <= pixels_of(terms) && !(padded && width > 1))
          launch_kernel(few_terms<terms, width, padded>, planned.in_vectors[width / 2]);
      });
    };
    TermCounts::with(planned.terms, [&]<int terms>() {
      if (problem.padding == Padding{})
        launch_terms.template operator()<terms, false>();
      else
        launch_terms.template operator()<terms, true>();
    });
  });
}

Support supports(const ConvProblem& problem) {
  if (const Support usual = supports_dtypes_in_slices({DType::f32}, problem); !usual) return usual;
  if (problem.groups != 1)
    return {Reason::geometry, std::to_string(problem.groups) + " groups; expected 1"};
  if (problem.terms() > max_terms)
    return {Reason::geometry, std::to_string(problem.terms()) + " terms; expected at most " +
                                  std::to_string(max_terms)};
  return {};
}

double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  const ConvProblem flat = flattened(problem);
  const int terms = TermCounts::at_least(flat.terms());
  const int vector = vector_of(problem, flat, nullptr, nullptr);
  const bool lines = may_write_lines(flat) && vector <= max_vector_for_lines;
  const int writes = lines ? run_lines(terms) : pixels_of(terms);
  const int makes = lines ? writes + 1 : writes;
  const std::int64_t pixels = flat.p() * flat.q();
  const std::int64_t image =
      lines ? ceil_div(pixels, run_pixels(terms)) * run_pixels(terms) : pixels;
  const std::int64_t of_share =
      share_filters(flat, device, terms, pixel_tiles(flat, terms, lines ? 1 : vector, lines));
  return few_terms_seconds(
      problem, device,
      {.terms = terms,
       .filter_pitch = filter_pitch(terms),
       .makes = makes,
       .reads = lines ? makes : makes / std::min(makes, vector),
       .writes = writes,
       .threads = static_cast<double>(flat.n) * static_cast<double>(image) / writes,
       .lines = lines,
       .vector = vector,
       .image_pixels = pixels,
       .share_filters = of_share,
       .shares = ceil_div(problem.k, of_share)});
}

PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  if (const Support support = supports(problem); !support) return {support};
  return {.estimate_seconds = estimate(problem, device),
          .kernel = planned(SlicePlans<SliceWork>(
              problem, [&](const ConvProblem& slice) { return SliceWork(slice, device); }))};
}

}  // namespace

extern const ConvAlgorithm few_terms_fp32{
    .name = "cuda.conv.few_terms.fp32",
    .numerics = {.operand = Operand::fp32,
                 .accumulator = Accumulator::fp32_fma,
                 .reproducible = true,
                 .invariant = true},
    .plan = plan,
    .launch = launch,
};

}  // namespace plumb::cuda
