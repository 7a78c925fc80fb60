// Writes a block's outputs, which lie in the planes of its channels as they are stored. One that is
// NaN is summed anew by the definition: zeros of the padding or of the band may have met an Inf.
// That is rare, and done in a second turn: what it needs would take registers from the first.
#pragma once

#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_planes.cuh"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_warp.cuh"

namespace plumb::cuda::depthwise_toeplitz {

/// Some 16-bit numbers, in words.
template <int words>
struct alignas(4 * words) Packed {
  std::uint32_t of[words];

  __device__ static Packed read(const std::uint16_t* from) {
    return *reinterpret_cast<const Packed*>(from);
  }
  __device__ void write(std::uint16_t* to) const { write_words(to, of); }
};

/// Whether some numbers are NaN, or infinite: their product with zero is NaN.
template <class Stored, int words>
__device__ bool is_suspect(const Packed<words>& values) {
  std::uint32_t sum = 0;
#pragma unroll
  for (const std::uint32_t word : values.of) sum = plus_zero_times<Stored>(sum, word);
  return (sum & 0x7fff7fff) != 0;
}
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

/// The outputs that a thread writes. In the first turn it leaves out what moves together with a
/// suspect, and says so; in the turn that mends it makes and writes that alone.
template <class Stored, bool mends>
class Writer {
 public:
  __device__ Writer(const Params& params, const BlockShare& share, const Shared& shared,
                    const Stored* x, const Stored* w, Stored* y, const Epilogue<Stored>& epilogue,
                    int thread)
      : params_(params),
        share_(share),
        shared_(shared),
        x_(x),
        w_(w),
        y_(y),
        to_(reinterpret_cast<std::uint16_t*>(y + share.c * params.shape.y_k)),
        epilogue_(epilogue),
        thread_(thread),
        columns_(min(params.cut.columns(), params.w.outputs - share.q)) {}

  /// Returns whether something was left out.
  __device__ bool write() {
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
    return left_out_;
  }

 private:
  /// Whether this turn has something else to do with what moves together than to write it.
  __device__ bool passes(bool suspect) {
    left_out_ = left_out_ || suspect;
    return suspect != mends;
  }
  /// Sums an output anew where it lies, if it is NaN.
  __device__ void mend(std::uint16_t* at, int c, int of_block, int column) const {
    if (!is_nan<Stored>(*at)) return;
    const auto [image, row] = params_.rows.divide(of_block);
    *at = defined_output(params_, x_, w_, y_, epilogue_, share_.n + image, share_.c + c,
                         share_.p + row, share_.q + column);
  }

  /// A warp has the channels that it summed.
  template <class Of>
  __device__ void for_own_channels(const Of& of) const {
#pragma unroll 1
    for (int c = thread_ / 32; c < share_.channels; c += params_.cut.warps)
      of(c, shared_.planes + params_.cut.plane_at(c), to_ + c * params_.shape.y_k);
  }

  template <int words>
  __device__ void write_columns() {
    const int all = share_.m(params_.cut) * params_.y_items.value();
    for_own_channels([&](int c, std::uint16_t* plane, std::uint16_t* to) {
#pragma unroll 1
      for (int item = thread_ % 32; item < all; item += 32) {
        const auto [of_block, of_row] = params_.y_items.divide(item);
        const int column = 2 * words * of_row;
        if (column >= columns_) continue;
        const RowPlace row = shared_.y_rows[of_block];
        std::uint16_t* const at = plane + row.to + column;
        auto values = Packed<words>::read(at);
        if (passes(is_suspect<Stored>(values))) continue;
        if constexpr (mends) {
#pragma unroll 1
          for (int i = 0; i < 2 * words; ++i) mend(at + i, c, of_block, column + i);
          values = Packed<words>::read(at);
        }
        values.write(to + (row.from + share_.q + column));
      }
    });
  }

  __device__ void write_planes() {
    const int all = share_.images * params_.y_items.value();
#pragma unroll 1
    for (int item = thread_; item < all; item += params_.cut.threads()) {
      const auto [image, vector] = params_.y_items.divide(item);
      const int first = eight * vector;
      if (first >= share_.channels * params_.y_plane.value()) continue;
      Packed<4> values = gather_eight(image, first);
      if (passes(is_suspect<Stored>(values))) continue;
      if constexpr (mends) {
#pragma unroll 1
        for (int i = 0; i < eight; ++i) mend_of_planes(image, first + i);
        values = gather_eight(image, first);
      }
      values.write(to_ + ((share_.n + image) * params_.shape.y_n + first));
    }
  }
  __device__ Packed<4> gather_eight(int image, int first) const {
    Packed<4> values{};
    for_eight_places(params_.cut, params_.y_plane, params_.y_row, first, params_.cut.rows,
                     image * params_.cut.image_rows * params_.cut.pitch, [&](int at, int i) {
                       const std::uint32_t bits = shared_.planes[at];
                       values.of[i / 2] |= bits << 16 * (i % 2);
                     });
    return values;
  }
  __device__ void mend_of_planes(int image, int element) const {
    const auto [c, of_plane] = params_.y_plane.divide(element);
    const auto [p, q] = params_.y_row.divide(of_plane);
    const int of_block = image * params_.cut.rows + p;
    mend(shared_.planes + params_.cut.plane_at(c) + shared_.y_rows[of_block].to + q, c, of_block,
         q);
  }

  __device__ void write_elements() {
    const int all = share_.m(params_.cut) * params_.y_items.value();
    for_own_channels([&](int c, std::uint16_t* plane, std::uint16_t* to) {
#pragma unroll 1
      for (int item = thread_ % 32; item < all; item += 32) {
        const auto [of_block, column] = params_.y_items.divide(item);
        if (column >= columns_) continue;
        write_element(plane, to, c, of_block, column);
      }
    });
  }
  __device__ void write_elements_of_channels() {
    const int all = share_.m(params_.cut) * params_.y_items.value() * params_.channels.value();
#pragma unroll 1
    for (int item = thread_; item < all; item += params_.cut.threads()) {
      const auto [place, c] = params_.channels.divide(item);
      const auto [of_block, column] = params_.y_items.divide(place);
      if (column >= columns_ || c >= share_.channels) continue;
      write_element(shared_.planes + params_.cut.plane_at(c), to_ + c * params_.shape.y_k, c,
                    of_block, column);
    }
  }
  __device__ void write_element(std::uint16_t* plane, std::uint16_t* to, int c, int of_block,
                                int column) {
    const RowPlace row = shared_.y_rows[of_block];
    std::uint16_t* const at = plane + row.to + column;
    if (passes(is_nan<Stored>(*at))) return;
    if constexpr (mends) mend(at, c, of_block, column);
    to[row.from + (share_.q + column) * params_.shape.columns.y_step] = *at;
  }

  /// A word of each of eight planes becomes eight channels of two neighbouring columns.
  __device__ void write_channels() {
    const int all = share_.m(params_.cut) * params_.y_items.value() * params_.groups.value();
#pragma unroll 1
    for (int item = thread_; item < all; item += params_.cut.threads()) {
      const auto [place, group] = params_.groups.divide(item);
      const auto [of_block, of_row] = params_.y_items.divide(place);
      const int column = 2 * of_row;
      if (column >= columns_ || 8 * group >= share_.channels) continue;
      const RowPlace row = shared_.y_rows[of_block];
      std::uint16_t* const at = shared_.planes + params_.cut.plane_at(8 * group) + row.to + column;
      Packed<4> pixels[2];
      gather(at, pixels);
      const int there = min(2, columns_ - column);
      const bool second = there == 2 && is_suspect<Stored>(pixels[1]);
      if (passes(is_suspect<Stored>(pixels[0]) || second)) continue;
      if constexpr (mends) {
#pragma unroll 1
        for (int i = 0; i < 8 * there; ++i)
          mend(at + i / there * params_.cut.plane + i % there, 8 * group + i / there, of_block,
               column + i % there);
        gather(at, pixels);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (i < there)
          pixels[i].write(to_ + (row.from + (share_.q + column + i) * params_.shape.columns.y_step +
                                 8 * group));
    }
  }
  __device__ void gather(const std::uint16_t* from, Packed<4> (&pixels)[2]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto a = Packed<1>::read(from).of[0],
                 b = Packed<1>::read(from + params_.cut.plane).of[0];
      pixels[0].of[i] = (a & 0xffff) | b << 16, pixels[1].of[i] = a >> 16 | (b & 0xffff0000);
      from += 2 * params_.cut.plane;
    }
  }

  const Params& params_;
  const BlockShare& share_;
  const Shared& shared_;
  const Stored *x_, *w_;
  Stored* y_;
  std::uint16_t* to_;
  const Epilogue<Stored>& epilogue_;
  int thread_, columns_;
  bool left_out_ = false;
};

}  // namespace plumb::cuda::depthwise_toeplitz
