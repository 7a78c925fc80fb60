// Depthwise convolutions: each filter has one channel. Here is the plan, which is made on the host
// before a launch.
#pragma once

#include <cstdint>
#include <optional>

#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// `planes` has lanes along a row and planes of images in shared memory, `channels` has lanes along
/// the channels and reads x through L1.
enum class DepthwiseKernel { planes, channels };

/// What a kernel is compiled for, beside its stored type.
struct DepthwiseForm {
  int width = 1;   ///< channels of a thread; of planes, groups of four columns
  int chunk = 1;   ///< taps along a row that one window of input serves
  int stride = 0;  ///< along a row; 0: any stride and dilation, and a chunk is one tap
};

/// How outputs are cut into blocks of one form of a kernel. A thread has `rows` rows of `columns`
/// columns.
struct DepthwiseCut {
  DepthwiseForm form;
  int lanes_c = 1, lanes_w = 1, lanes_u = 1;  ///< threads along channels, columns, rows
  int planes = 1;                             ///< of a block
  int row_lanes = 32;                         ///< threads that load a row together
  int rows = 0, columns = 0;                  ///< of the input under a block's outputs
  int pitch = 0;                              ///< elements from row to row of the input
  int filter_bytes = 0, shared_bytes = 0;

  int used() const { return lanes_c * lanes_w * lanes_u * planes; }
  int threads() const { return (used() + 31) / 32 * 32; }
};

struct DepthwisePlan {
  DepthwiseKernel kernel{};
  bool rows_are_images = false;  ///< where images have one row
  DepthwiseCut cut{};            ///< for any views
  /// With vectors of channels, where strides allow them; used where pointers are aligned too.
  std::optional<DepthwiseCut> wide{};
  double seconds = 0;
};

inline constexpr int depthwise_threads = 128;  ///< of a block, at most
/// Rows of a thread, and columns (of planes in one group).
constexpr int depthwise_rows(DepthwiseKernel kernel, const DepthwiseForm& form, int element_bytes) {
  return kernel == DepthwiseKernel::channels && form.width * element_bytes == 16 ? 2 : 4;
}
constexpr int depthwise_columns(DepthwiseKernel kernel, const DepthwiseForm& form,
                                int element_bytes) {
  const bool small = form.width * element_bytes == 16 || form.stride == 0;
  return kernel == DepthwiseKernel::planes || small ? 4 : 8;
}
/// The chunk of weights in the shared memory of planes, which is read in vectors.
constexpr int depthwise_room(int chunk) { return chunk == 1 ? 1 : (chunk + 3) / 4 * 4; }

/// What a caller may ask of the planner, to time other cuts than its own.
struct DepthwiseChoice {
  int threads = depthwise_threads;  ///< of a block, at most
  int lanes = 32;                   ///< along the columns of planes, or the channels, at most
  bool vectors = true;              ///< whether channels may come in vectors
};

/// Returns the plan, or nothing where no tile fits shared memory.
std::optional<DepthwisePlan> plan_depthwise(const ConvProblem& problem, DepthwiseKernel kernel,
                                            const DeviceInfo& device,
                                            const DepthwiseChoice& choice = {});

/// Launch for tensors stored as f32, f16, bf16 and f64.
void launch_depthwise_f32(const DepthwisePlan& plan, const ConvLaunch& call);
void launch_depthwise_f16(const DepthwisePlan& plan, const ConvLaunch& call);
void launch_depthwise_bf16(const DepthwisePlan& plan, const ConvLaunch& call);
void launch_depthwise_f64(const DepthwisePlan& plan, const ConvLaunch& call);

}  // namespace plumb::cuda
