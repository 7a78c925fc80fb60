// Writes a block's outputs, which lie in the planes of its channels as they are stored. One that is
// NaN is summed anew by the definition: zeros of the padding or of the band may have met an Inf.
// That is rare, and done by a turn of its own: what it needs would take registers from the rest.
#pragma once

#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_planes.cuh"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_warp.cuh"

namespace plumb::cuda::depthwise_toeplitz {

template <class Stored>
__device__ bool is_nan(std::uint16_t bits) {
  constexpr int infinity = std::is_same_v<Stored, __half> ? 0x7c00 : 0x7f80;
  return (bits & 0x7fff) > infinity;
}

/// Returns the bits of an output by its definition. A NaN that comes from the data comes out again.
template <class Stored>
__device__ std::uint16_t defined_output(const Params& params, const Stored* x, const Stored* w,
                                        const Stored* y, const Epilogue<Stored>& epilogue, int n,
                                        int k, int p, int q) {
  const DeepShape<int>& shape = params.shape;
  float sum =
      deep_sum<float>(shape, x + (n * shape.x_n + k * shape.x_c), w + k * shape.w_k, 0, p, q);
  sum += epilogue.template bias_of<float>(k);
  const Stored& old =
      y[n * shape.y_n + k * shape.y_k + p * shape.rows.y_step + q * shape.columns.y_step];
  const Stored output = epilogue.finish(sum, epilogue.accumulate ? convert<float>(old) : 0.0f);
  return *reinterpret_cast<const std::uint16_t*>(&output);
}

/// Sums anew what is NaN of a warp's channels, where it lies.
template <class Stored>
__device__ void mend(const Params& params, const BlockShare& share, const Shared& shared,
                     const Stored* x, const Stored* w, const Stored* y,
                     const Epilogue<Stored>& epilogue, int thread) {
  const int columns = min(params.cut.columns(), params.w.outputs - share.q);
#pragma unroll 1
  for (int c = thread / 32; c < share.channels; c += params.cut.warps)
#pragma unroll 1
    for (int of_block = 0; of_block < share.m(params.cut); ++of_block) {
      const auto [image, row] = params.rows.divide(of_block);
      std::uint16_t* const outputs =
          shared.planes + params.cut.plane_at(c) + shared.y_rows[of_block].to;
#pragma unroll 1
      for (int q = thread % 32; q < columns; q += 32)
        if (is_nan<Stored>(outputs[q]))
          outputs[q] = defined_output(params, x, w, y, epilogue, share.n + image, share.c + c,
                                      share.p + row, share.q + q);
    }
}

/// The outputs that a thread writes.
template <class Stored>
class Writer {
 public:
  __device__ Writer(const Params& params, const BlockShare& share, const Shared& shared, Stored* y,
                    int thread)
      : params_(params),
        share_(share),
        shared_(shared),
        to_(reinterpret_cast<std::uint16_t*>(y + share.c * params.shape.y_k)),
        thread_(thread),
        columns_(min(params.cut.columns(), params.w.outputs - share.q)) {}

  __device__ void write() {
    switch (params_.cut.y_move) {
      case Move::columns:
        if (params_.cut.y_vector == 8)
          write_columns<4>();
        else if (params_.cut.y_vector == 4)
          write_columns<2>();
        else
          write_columns<1>();
        break;
      case Move::planes: write_planes(); break;
      case Move::channels: write_channels(); break;
      case Move::elements: write_elements(); break;
      case Move::elements_of_channels: write_elements_of_channels(); break;
    }
  }

 private:
  /// A warp has the channels that it summed.
  template <class Of>
  __device__ void for_own_channels(const Of& of) const {
#pragma unroll 1
    for (int c = thread_ / 32; c < share_.channels; c += params_.cut.warps)
      of(shared_.planes + params_.cut.plane_at(c), to_ + c * params_.shape.y_k);
  }

  template <int words>
  __device__ void write_columns() const {
    const Turns turns(params_.y_items, share_.m(params_.cut), thread_ % 32, 32);
    for_own_channels([&](std::uint16_t* plane, std::uint16_t* to) {
      turns.for_places([&](int place) {
        const int column = 2 * words * place;
        if (column >= columns_) return;
        std::uint16_t* const to_column = anew(to + (share_.q + column));
        turns.for_rows([&](int row) {
          const RowPlace at = shared_.y_rows[row];
          std::uint16_t* const from = plane + column + at.to;
          Packed<words>::read(from).write(to_column + at.from);
        });
      });
    });
  }

  __device__ void write_planes() const {
    const Turns turns(params_.y_items, share_.images, thread_, params_.cut.threads());
    turns.for_places([&](int place) {
      const int first = eight * place;
      if (first >= share_.channels * params_.y_plane.value()) return;
      std::uint16_t* const to = anew(to_ + (share_.n * params_.shape.y_n + first));
      turns.for_rows(
          [&](int image) { gather_eight(image, first).write(to + image * params_.shape.y_n); });
    });
  }
  __device__ Packed<4> gather_eight(int image, int first) const {
    const std::uint16_t* const from =
        shared_.planes + image * params_.cut.image_rows * params_.cut.pitch;
    std::uint32_t of[eight];
    for_eight_places(shared_.y_table, first, [&](int at, int i) { of[i] = from[at]; });
    return {{low_halves(of[0], of[1]), low_halves(of[2], of[3]), low_halves(of[4], of[5]),
             low_halves(of[6], of[7])}};
  }

  __device__ void write_elements() const {
    const Turns turns(params_.y_items, share_.m(params_.cut), thread_ % 32, 32);
    for_own_channels([&](std::uint16_t* plane, std::uint16_t* to) {
      turns.for_places([&](int column) { write_elements(turns, column, plane, to); });
    });
  }
  __device__ void write_elements_of_channels() const {
    const Turns turns(params_.y_items, share_.m(params_.cut), thread_, params_.cut.threads());
    turns.for_places([&](int place) {
      const auto [column, c] = params_.channels.divide(place);
      if (c < share_.channels)
        write_elements(turns, column, shared_.planes + params_.cut.plane_at(c),
                       to_ + c * params_.shape.y_k);
    });
  }
  __device__ void write_elements(const Turns& turns, int column, std::uint16_t* plane,
                                 std::uint16_t* to) const {
    if (column >= columns_) return;
    std::uint16_t* const to_column = anew(to + (share_.q + column) * params_.shape.columns.y_step);
    turns.for_rows([&](int row) {
      const RowPlace at = shared_.y_rows[row];
      std::uint16_t* const from = plane + column + at.to;
      to_column[at.from] = *from;
    });
  }

  /// A word of each of eight planes becomes eight channels of two neighbouring columns.
  __device__ void write_channels() const {
    const Turns turns(params_.y_items, share_.m(params_.cut), thread_, params_.cut.threads());
    turns.for_places([&](int place) {
      const auto [of_row, group] = params_.groups.divide(place);
      const int column = 2 * of_row, c = 8 * group;
      if (column >= columns_ || c >= share_.channels) return;
      std::uint16_t* const plane = shared_.planes + params_.cut.plane_at(c) + column;
      const int step = params_.shape.columns.y_step;
      std::uint16_t* const to = anew(to_ + ((share_.q + column) * step + c));
      std::uint16_t* const second = anew(to + step);
      const bool has_second = column + 1 < columns_;
      turns.for_rows([&](int row) {
        const RowPlace at = shared_.y_rows[row];
        Packed<4> pixels[2];
        gather(plane + at.to, pixels);
        pixels[0].write(to + at.from);
        if (has_second) pixels[1].write(second + at.from);
      });
    });
  }
  __device__ void gather(const std::uint16_t* from, Packed<4> (&pixels)[2]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto a = Packed<1>::read(from).of[0];
      from += params_.cut.plane;
      const auto b = Packed<1>::read(from).of[0];
      from += params_.cut.plane;
      pixels[0].of[i] = low_halves(a, b), pixels[1].of[i] = high_halves(a, b);
    }
  }

  const Params& params_;
  const BlockShare& share_;
  const Shared& shared_;
  std::uint16_t* to_;
  int thread_, columns_;
};

}  // namespace plumb::cuda::depthwise_toeplitz
