// Taps of folded axes become channels through a region of x in shared memory: what lies under some
// lines of the product's pixels is read once, along what lies side by side in x, and every 16 bytes
// of the repacked x are gathered from there. Padding is zeros of the region.
#pragma once

#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/wide/wide_input.cuh"

namespace plumb::cuda {

/// What the kernels of regions are told besides.
struct WideRegionParams {
  WideRegion cut;
  bool channels_inner;                            ///< of the region, as they lie in x
  int channels, unit_count;                       ///< of x; 16-byte units of a repacked pixel
  int column_step, channel_step;                  ///< of the region, in elements
  int line_elements, elements;                    ///< of a row of the region, and of all
  Divisor<int> of_line, of_inner, of_rows;        ///< an element's row, column or channel, plane
  Divisor<int> units, columns;                    ///< a unit's pixel, its column
  Divisor<int> column_tiles, line_tiles, planes;  ///< blocks
  std::int64_t image_elements;                    ///< of x, where an image lies dense

  WideRegionParams(const ConvProblem& p, const WideInputParams& input, const WideInput& plan)
      : cut(plan.region),
        channels_inner(lie_closer(input)),
        channels(static_cast<int>(p.c)),
        unit_count(plan.plane_channels() * plan.element_bytes / 16),
        column_step(channels_inner ? channels : 1),
        channel_step(channels_inner ? 1 : cut.span),
        line_elements(channels * cut.span),
        elements(input.of_x.of[2].taps * cut.rows * line_elements),
        of_line(line_elements),
        of_inner(channels_inner ? channels : cut.span),
        of_rows(cut.rows),
        units(unit_count),
        columns(cut.columns),
        column_tiles(ceil_div(input.w.value(), cut.columns)),
        line_tiles(ceil_div(input.h.value(), cut.lines)),
        planes(input.pixels / (input.w.value() * input.h.value())),
        image_elements(p.c * p.d * p.h * p.w) {}

 private:
  static bool lie_closer(const WideInputParams& input) {
    const WideImageAxis& along = input.of_x.of[0];
    return along.extent == 1 || std::abs(input.x_c) < std::abs(along.x_step);
  }
};

/// The lines of pixels of a block.
struct WideRegionPlace {
  int image, at[3];  ///< the first pixel's column, line, plane in the product

  __device__ WideRegionPlace(const WideRegionParams& region, int number) {
    const auto [above_columns, column] = region.column_tiles.divide(number);
    const auto [above_lines, line] = region.line_tiles.divide(above_columns);
    const auto [n, plane] = region.planes.divide(above_lines);
    image = n, at[0] = column * region.cut.columns, at[1] = line * region.cut.lines, at[2] = plane;
  }
};

/// Where the channels of a repacked pixel lie, in elements behind its first tap; -1 behind the
/// last.
__device__ inline void fill_terms(const WideInputParams& params, const WideRegionParams& region,
                                  int* terms) {
  const int all = region.unit_count * 16 / params.bytes_of_channel;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += wide_input_threads) {
    const WideTerm term = params.fold.term(i);
    const int row = term.tap[2] * region.cut.rows + term.tap[1] * params.of_x.of[1].dilation;
    terms[i] = i < params.own_channels
                   ? row * region.line_elements +
                         term.tap[0] * params.of_x.of[0].dilation * region.column_step +
                         term.channel * region.channel_step
                   : -1;
  }
}

/// Reads the region under a block's pixels, and zeros where there is none.
template <class Element>
__device__ void read_region(const WideInputParams& params, const WideRegionParams& region,
                            const WideRegionPlace& place, Element* to) {
  const auto* const image = static_cast<const Element*>(params.x) + place.image * params.x_n;
  int first[3];
#pragma unroll
  for (int i = 0; i < 3; ++i)
    first[i] = place.at[i] * params.of_x.of[i].stride - params.of_x.of[i].before;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < region.elements; i += wide_input_threads) {
    const auto [line, in_line] = region.of_line.divide(i);
    const auto [outer, inner] = region.of_inner.divide(in_line);
    const auto [plane, row] = region.of_rows.divide(line);
    const int channel = region.channels_inner ? inner : outer;
    const int at[3] = {first[0] + (region.channels_inner ? outer : inner), first[1] + row,
                       first[2] + plane * params.of_x.of[2].dilation};
    bool there = true;
    std::int64_t offset = channel * params.x_c;
#pragma unroll
    for (int j = 0; j < 3; ++j) {
      there =
          there && static_cast<unsigned>(at[j]) < static_cast<unsigned>(params.of_x.of[j].extent);
      offset += at[j] * params.of_x.of[j].x_step;
    }
    to[i] = there ? image[offset] : Element{0};
  }
}

/// Gathers 16 bytes of a pixel, of channels from `terms` on, and of split operands the low halves.
/// Floats become halves, elements that are bits are moved.
template <class Element, int products>
__device__ void gather_unit(const Element* from, const int* terms, float scale, char* to,
                            [[maybe_unused]] std::int64_t low_at) {
  constexpr bool scales = std::is_same_v<Element, float>;
  constexpr int of_word = scales ? 2 : 4 / static_cast<int>(sizeof(Element)), count = 4 * of_word;
  int at[count];
#pragma unroll
  for (int i = 0; i < count / 4; ++i) {
    const uint4 four = reinterpret_cast<const uint4*>(terms)[i];
    at[4 * i] = static_cast<int>(four.x), at[4 * i + 1] = static_cast<int>(four.y);
    at[4 * i + 2] = static_cast<int>(four.z), at[4 * i + 3] = static_cast<int>(four.w);
  }
  const auto element = [&](int i) { return at[i] < 0 ? Element{0} : from[at[i]]; };
  std::uint32_t words[4], low[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if constexpr (scales) {
      const WideHalves first(element(2 * i), scale), second(element(2 * i + 1), scale);
      words[i] = first.high | second.high << 16, low[i] = first.low | second.low << 16;
    } else if constexpr (of_word == 2) {
      words[i] = std::uint32_t{element(2 * i)} | std::uint32_t{element(2 * i + 1)} << 16;
    } else {
      words[i] = element(i);
    }
  *reinterpret_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
  if constexpr (products > 1)
    *reinterpret_cast<uint4*>(to + low_at) = {low[0], low[1], low[2], low[3]};
}

/// Repacks x with folded axes: a block some columns of some lines of pixels.
template <class Element, int products>
__global__ void __launch_bounds__(wide_input_threads)
    repack_wide_region(const __grid_constant__ WideInputParams params,
                       const __grid_constant__ WideRegionParams region) {
  constexpr bool scales = std::is_same_v<Element, float>;
  constexpr int bytes = scales ? 2 : sizeof(Element), of_unit = 16 / bytes;
  int* const terms = reinterpret_cast<int*>(dynamic_shared());
  auto* const elements = reinterpret_cast<Element*>(terms + region.unit_count * of_unit);
  wait_for_kernel_before();
  const WideRegionPlace place(region, static_cast<int>(blockIdx.x));
  fill_terms(params, region, terms);
  read_region(params, region, place, elements);
  float scale = 1;
  if constexpr (scales) {
    const WideScale of_image = scale_of_image(params, place.image);
    scale = power_of_two(of_image.exponent());
    // The same of all blocks that have it.
    if (threadIdx.x == 0) params.scales[params.one_scale ? 0 : place.image] = of_image.word;
  }
  __syncthreads();
  const int pixels = region.cut.lines * region.cut.columns;
  const int row_step = params.of_x.of[1].stride * region.line_elements;
  const int pixel_step = params.of_x.of[0].stride * region.column_step;
  for (int i = static_cast<int>(threadIdx.x); i < pixels * region.unit_count;
       i += wide_input_threads) {
    const auto [pixel, unit] = region.units.divide(i);
    const auto [line, column] = region.columns.divide(pixel);
    const int w = place.at[0] + column, h = place.at[1] + line;
    if (w >= params.w.value() || h >= params.h.value()) continue;
    const int number = (place.at[2] * params.h.value() + h) * params.w.value() + w;
    char* const to = params.packed +
                     (std::int64_t{place.image} * params.pixels + number) * params.pixel_bytes +
                     std::int64_t{unit} * 16;
    gather_unit<Element, products>(elements + line * row_step + column * pixel_step,
                                   terms + unit * of_unit, scale, to, params.pixel_bytes / 2);
  }
}

/// Finds the magnitudes of each part of an image that lies dense.
__global__ inline void __launch_bounds__(wide_input_threads)
    look_at_dense_image(const __grid_constant__ WideInputParams params,
                        const __grid_constant__ WideRegionParams region) {
  const int image = static_cast<int>(blockIdx.x) / params.parts,
            part = static_cast<int>(blockIdx.x) % params.parts;
  const auto* const x = static_cast<const float*>(params.x) + image * params.x_n;
  WideLook look;
#pragma unroll 8
  for (std::int64_t i = std::int64_t{part} * wide_input_threads + threadIdx.x;
       i < region.image_elements; i += std::int64_t{params.parts} * wide_input_threads)
    look.at(x[i]);
  const WideMagnitudes all = block_magnitudes(look.found());
  if (threadIdx.x == 0) params.magnitudes[blockIdx.x] = all.word();
}

/// Repacks so many images of `Stored` by regions.
template <class Stored, class Operand, int products>
void repack_regions(const WideInputParams& params, const WideRegionParams& region, int images,
                    void* stream) {
  const auto blocks =
      static_cast<unsigned>(std::int64_t{images} * region.planes.value() *
                            region.line_tiles.value() * region.column_tiles.value());
  const auto shared = static_cast<std::size_t>(region.cut.shared_bytes);
  if constexpr (!std::is_same_v<Stored, Operand>) {
    const auto looks = static_cast<unsigned>(images * params.parts);
    if (region.cut.image_is_dense)
      Launch(stream, looks, wide_input_threads, 0)(look_at_dense_image, params, region);
    else
      Launch(stream, looks, wide_input_threads, 0)(look_at_wide_input<float>, params);
    unite_magnitudes(params, images, stream);
    Launch(stream, blocks, wide_input_threads, shared)
        .early()(repack_wide_region<float, products>, params, region);
  } else {
    using Element = std::conditional_t<sizeof(Stored) == 4, std::uint32_t, std::uint16_t>;
    Launch(stream, blocks, wide_input_threads, shared)(repack_wide_region<Element, 1>, params,
                                                       region);
  }
}

}  // namespace plumb::cuda
