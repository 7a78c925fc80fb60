// Copies a block's input and taps to shared memory, over the zeros that stand for the padding.
#pragma once

#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_planes.cuh"
#include "cuda_kernels/primitives/async_copy.cuh"

namespace plumb::cuda::depthwise_toeplitz {

template <Fault fault>
class Loader {
 public:
  /// x from the block's first channel on, w likewise; elements are their bits.
  __device__ Loader(const Params& params, const BlockShare& share, const Shared& shared,
                    const std::uint16_t* x, const std::uint16_t* w, int thread)
      : params_(params),
        share_(share),
        shared_(shared),
        x_(x),
        w_(w),
        thread_(thread),
        threads_(params.cut.threads()) {}

  __device__ void load_x() const {
    switch (params_.cut.x_move) {
      case Move::columns:
        if (params_.cut.x_vector == 8)
          load_columns<8>();
        else if (params_.cut.x_vector == 4)
          load_columns<4>();
        else
          load_columns<2>();
        return;
      case Move::planes: return load_planes();
      case Move::channels: return load_channels();
      case Move::elements: return load_elements();
      case Move::elements_of_channels: return load_elements_of_channels();
    }
  }

  /// A row of taps is an array with zeros around it; the second copy has what the first has one
  /// element further on, so that all pairs are whole words of one or the other.
  __device__ void load_taps() const {
    const DepthwiseToeplitzCut& cut = params_.cut;
    const DeepShape<int>& shape = params_.shape;
    const int all = share_.channels * params_.taps.value();
    const int of_channel = cut.filter_words(params_.h.taps), of_row = cut.copies * cut.taps_words;
    const int first = cut.lead + 7 * params_.w.stride + (fault == Fault::wrong_tap ? 1 : 0);
    in_batches<4>(
        thread_, all, threads_,
        [&](int item) {
          const auto [c, tap] = params_.taps.divide(item);
          const auto [r, s] = params_.taps_w.divide(tap);
          return w_[c * shape.w_k + r * shape.rows.w_step + s * shape.columns.w_step];
        },
        [&](int item, std::uint16_t value) {
          const auto [c, tap] = params_.taps.divide(item);
          const auto [r, s] = params_.taps_w.divide(tap);
          auto* const row =
              reinterpret_cast<std::uint16_t*>(shared_.taps + c * of_channel + r * of_row);
          const int at = first + s * params_.w.dilation;
          row[at] = value;
          if (cut.copies == 2) row[2 * cut.taps_words + at - 1] = value;
        });
  }

 private:
  /// Reads so many items before it writes the first.
  template <int batch, class Read, class Write>
  __device__ static void in_batches(int first, int end, int step, const Read& read,
                                    const Write& write) {
#pragma unroll 1
    for (int item = first; item < end; item += batch * step) {
      decltype(read(0)) values[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i)
        if (item + i * step < end) values[i] = read(item + i * step);
#pragma unroll
      for (int i = 0; i < batch; ++i)
        if (item + i * step < end) write(item + i * step, values[i]);
    }
  }

  /// A warp has the channels that it sums.
  template <class Of>
  __device__ void for_own_channels(const Of& of) const {
#pragma unroll 1
    for (int c = thread_ / 32; c < share_.channels; c += params_.cut.warps)
      of(x_ + c * params_.shape.x_c, shared_.planes + params_.cut.plane_at(c));
  }

  template <int vector>
  __device__ void load_columns() const {
    const Turns turns(params_.x_items, share_.x_rows(), thread_ % 32, 32);
    for_own_channels([&](const std::uint16_t* from, std::uint16_t* to) {
      turns.for_places([&](int place) {
        const int column = share_.begin_w + place * vector;
        if (column >= share_.end_w) return;
        const std::uint16_t* const from_column = anew(from + (share_.first_w + column));
        turns.for_rows([&](int row) {
          const RowPlace at = shared_.x_rows[row];
          if constexpr (vector == 8)
            copy_16_bytes_async(to + column + at.to, from_column + at.from);
          else
            copy_bytes_async<2 * vector>(to + column + at.to, from_column + at.from, true);
        });
      });
    });
  }

  __device__ void load_planes() const {
    const Turns turns(params_.x_items, share_.images, thread_, threads_);
    const int first = -share_.first_h * params_.cut.pitch - share_.first_w;
    turns.for_places([&](int place) {
      if (eight * place >= share_.channels * params_.x_plane.value()) return;
      const std::uint16_t* const from = anew(x_ + (share_.n * params_.shape.x_n + eight * place));
      turns.for_rows<2>(
          [&](int image) {
            return *reinterpret_cast<const Packed<4>*>(from + image * params_.shape.x_n);
          },
          [&](int image, const Packed<4>& values) {
            std::uint16_t* const to =
                shared_.planes + (first + image * params_.cut.image_rows * params_.cut.pitch);
            for_eight_places(shared_.x_table, eight * place, [&](int at, int i) {
              const std::uint32_t word = values.of[i / 2];
              to[at] = static_cast<std::uint16_t>(i % 2 == 0 ? word : word >> 16);
            });
          });
    });
  }

  __device__ void load_elements() const {
    const Turns turns(params_.x_items, share_.x_rows(), thread_ % 32, 32);
    for_own_channels([&](const std::uint16_t* from, std::uint16_t* to) {
      turns.for_places([&](int place) {
        const int column = share_.begin_w + place;
        if (column >= share_.end_w) return;
        const std::uint16_t* const from_column =
            anew(from + (share_.first_w + column) * params_.shape.columns.x_step);
        turns.for_rows<4>(
            [&](int row) { return from_column[shared_.x_rows[row].from]; },
            [&](int row, std::uint16_t value) { to[column + shared_.x_rows[row].to] = value; });
      });
    });
  }

  __device__ void load_elements_of_channels() const {
    const Turns turns(params_.x_items, share_.x_rows(), thread_, threads_);
    turns.for_places([&](int place) {
      const auto [of_row, c] = params_.channels.divide(place);
      const int column = share_.begin_w + of_row;
      if (column >= share_.end_w || c >= share_.channels) return;
      const std::uint16_t* const from = anew(
          x_ + (c * params_.shape.x_c + (share_.first_w + column) * params_.shape.columns.x_step));
      std::uint16_t* const to = shared_.planes + params_.cut.plane_at(c) + column;
      turns.for_rows<4>([&](int row) { return from[shared_.x_rows[row].from]; },
                        [&](int row, std::uint16_t value) { to[shared_.x_rows[row].to] = value; });
    });
  }

  /// Eight channels of two neighbouring columns become a word in each of eight planes.
  struct TwoPixels {
    Packed<4> of[2];
  };
  __device__ void load_channels() const {
    const Turns turns(params_.x_items, share_.x_rows(), thread_, threads_);
    turns.for_places([&](int place) {
      const auto [of_row, group] = params_.groups.divide(place);
      const int column = (share_.begin_w & ~1) + 2 * of_row;
      if (column >= share_.end_w || 8 * group >= share_.channels) return;
      const int step = params_.shape.columns.x_step;
      const std::uint16_t* const from = anew(x_ + ((share_.first_w + column) * step + 8 * group));
      const std::uint16_t* const second = anew(from + step);
      std::uint16_t* const to = shared_.planes + params_.cut.plane_at(8 * group) + column;
      const bool has_first = column >= share_.begin_w, has_second = column + 1 < share_.end_w;
      turns.for_rows<2>(
          [&](int row) {
            TwoPixels pixels{};
            const int at = shared_.x_rows[row].from;
            if (has_first) pixels.of[0] = Packed<4>::read(from + at);
            if (has_second) pixels.of[1] = Packed<4>::read(second + at);
            return pixels;
          },
          [&](int row, const TwoPixels& pixels) { put(pixels, to + shared_.x_rows[row].to); });
    });
  }
  __device__ void put(const TwoPixels& pixels, std::uint16_t* to) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t first = pixels.of[0].of[i], second = pixels.of[1].of[i];
      *reinterpret_cast<std::uint32_t*>(to) = low_halves(first, second);
      to += params_.cut.plane;
      *reinterpret_cast<std::uint32_t*>(to) = high_halves(first, second);
      to += params_.cut.plane;
    }
  }

  const Params& params_;
  const BlockShare& share_;
  const Shared& shared_;
  const std::uint16_t *x_, *w_;
  int thread_, threads_;
};

}  // namespace plumb::cuda::depthwise_toeplitz
