// Depthwise convolutions: each filter has one channel. Here is the plan, which is made on the host
// before a launch.
#pragma once

#include <cstdint>
#include <optional>

#include "cuda_kernels/primitives/host_device.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// `march` keeps weights and sums in registers and is compiled for the common small filters.
/// `planes` has lanes along a row and planes of images in shared memory, `channels` has lanes along
/// the channels and reads x through L1.
enum class DepthwiseKernel { march, planes, channels };

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

/// What the kernel that marches is compiled for, beside its stored type. A thread has `width`
/// channels of `columns` neighbouring columns.
struct MarchForm {
  int width = 1, columns = 1;
  int taps_m = 1, taps_r = 1, taps_s = 1;  ///< along the march, the rows, the columns
  int stride = 1;                          ///< along the march and the columns
  bool operator==(const MarchForm&) const = default;
  constexpr int taps() const { return taps_m * taps_r * taps_s; }
};

/// The forms that are compiled, for outputs side by side along a row and along the channels.
inline constexpr MarchForm march_row_forms[] = {
    {1, 4, 3, 1, 3, 1}, {1, 4, 3, 1, 3, 2}, {1, 4, 5, 1, 5, 1}, {1, 4, 5, 1, 5, 2},
    {1, 4, 7, 1, 7, 1}, {1, 4, 3, 3, 3, 1}, {1, 4, 1, 1, 3, 1}, {1, 4, 1, 1, 4, 1}};
inline constexpr MarchForm march_channel_forms[] = {
    {4, 2, 3, 1, 3, 1}, {4, 2, 3, 1, 3, 2}, {2, 2, 5, 1, 5, 1}, {2, 2, 5, 1, 5, 2},
    {2, 2, 7, 1, 7, 1}, {2, 2, 3, 3, 3, 1}, {4, 1, 3, 1, 1, 1}, {4, 1, 4, 1, 1, 1}};
/// Doubles have half the registers, and halves come 16 bytes a thread where there are few sums.
constexpr MarchForm march_form_for(MarchForm form, int element_bytes) {
  const bool along_row = form.width == 1;
  if (element_bytes == 8) {
    if (along_row) form.columns = 2;
    form.width = (form.width + 1) / 2;
  }
  if (element_bytes == 2 && form.columns == 1) form.width = 8;
  return form;
}
/// Of a filter's taps along a row, those before the first column of the outputs, where rows are
/// read in vectors of columns: the padding that keeps a row's length, or that of a causal filter.
constexpr int march_lead(int taps) { return taps % 2 == 1 ? taps / 2 : taps - 1; }
constexpr bool march_reads_vectors(int width, int columns, int taps, int stride) {
  return width == 1 && columns > 1 && stride == 1 && taps > 1 && march_lead(taps) <= columns;
}

/// The columns of input that a thread reads in a step, for each tap along the rows.
constexpr int march_window(const MarchForm& form) {
  return (form.columns - 1) * form.stride + form.taps_s;
}
/// So many steps ahead of the sums the input is read.
constexpr int march_ahead(const MarchForm& form) { return form.taps() <= 9 ? 2 : 1; }
/// About as many registers as a thread has in use: weights, sums of the outputs under way, input,
/// which comes a second time where it is widened, and addresses.
constexpr int march_registers(const MarchForm& form, int element_bytes) {
  const int words = element_bytes == 8 ? 2 : 1;
  const int read = (form.width * element_bytes + 3) / 4;
  const int live = (form.taps_m + form.stride - 1) / form.stride;
  const int window = march_window(form);
  return words * (form.taps() + live * form.columns) * form.width +
         ((march_ahead(form) + 1) * form.taps_r * read + 1) * window +
         words * window * form.width * (element_bytes == 2 ? 1 : 0) + 36;
}

/// Which axis of the image is marched along: that of the depth, the rows or the columns, or N.
enum class MarchAxis { depth, rows, columns, images };

struct MarchCut {
  MarchForm form;
  MarchAxis axis{};
  bool lanes_along_channels = false;
  int length = 1;   ///< outputs of a thread along the march
  int threads = 0;  ///< of a block
  int shared_bytes = 0;
};

/// What the kernel of whole planes is compiled for, along a row; rows of taps may be any number.
struct WholeForm {
  int taps = 1, stride = 1;
  int dilation = 1;  ///< 0: any
  bool operator==(const WholeForm&) const = default;
};
inline constexpr WholeForm whole_forms[] = {{3, 1, 1}, {3, 2, 1}, {5, 1, 1}, {5, 2, 1},
                                            {7, 1, 1}, {3, 1, 2}, {3, 1, 0}, {5, 1, 0}};
/// Neighbouring outputs that a thread makes.
constexpr int whole_columns(std::size_t element_bytes) { return element_bytes == 8 ? 4 : 8; }
/// The columns of input that it reads for them, in whole vectors.
constexpr int whole_window(const WholeForm& form, int columns) {
  return ((columns - 1) * form.stride + (form.taps - 1) * form.dilation + 4) / 4 * 4;
}
/// So many blocks a multiprocessor's registers have room for.
constexpr int whole_blocks(std::size_t element_bytes) { return element_bytes == 8 ? 6 : 8; }

/// Of small images that are dense planes a block has so many whole, with their padding.
struct WholeCut {
  WholeForm form;
  int planes = 1;                                       ///< of a block
  int rows = 0, pitch = 0;                              ///< of a plane in shared memory
  int filter_bytes = 0, y_bytes = 0, shared_bytes = 0;  ///< parts of shared memory, and all of it
};

/// What the march over staged rows is compiled for: square filters, of any dilation with stride 1.
struct StagedForm {
  int taps = 1, stride = 1;
  bool operator==(const StagedForm&) const = default;
};
inline constexpr StagedForm staged_forms[] = {{3, 1}, {3, 2}, {5, 1}, {5, 2}, {7, 1}};
inline constexpr int staged_columns = 7;    ///< of outputs, of a thread
inline constexpr int staged_threads = 128;  ///< of a block, at most
/// Neighbouring channels of a thread.
constexpr int staged_width(std::size_t element_bytes) { return element_bytes == 8 ? 1 : 2; }
/// Where weights stay in registers.
constexpr bool staged_few_taps(int taps) { return taps == 3; }
/// Columns of input under `runs` runs of outputs.
PLUMB_HOST_DEVICE constexpr int staged_window(const StagedForm& form, int runs) {
  return (runs * staged_columns - 1) * form.stride + form.taps;
}
/// Rows of a warp's ring: one is summed, the others are on their way.
constexpr int staged_depth(int stride, std::size_t element_bytes) {
  return stride > 1 && element_bytes > 2 ? 3 : 4;
}
/// Copies of 16 bytes by a lane for a row, at most.
constexpr int staged_copies(int taps, int stride, std::size_t element_bytes) {
  const int bytes = staged_window({taps, stride}, 1) * 32 * staged_width(element_bytes) *
                    static_cast<int>(element_bytes);
  return (bytes + 511) / 512;
}
/// So many blocks a multiprocessor's registers have room for.
constexpr int staged_blocks(int taps, int stride) { return taps / stride > 5 ? 3 : 4; }

/// A warp has a slice of the channels, `runs` runs of columns and `length` outputs down the rows,
/// of `images` images one after another. A dilation parts rows and columns into phases, of which a
/// warp has one. A block's warps have the same channels.
struct StagedCut {
  StagedForm form;
  int channels = 1, runs = 1, length = 1, images = 1;
  int column_phases = 1, row_phases = 1;
  int threads = 32;  ///< of a block
  int filter_bytes = 0, shared_bytes = 0;
};

/// Warps beside each other along the columns of a phase, segments of its rows, and blocks.
std::int64_t staged_chunks(const StagedCut& cut, const ConvProblem& problem);
std::int64_t staged_segments(const StagedCut& cut, const ConvProblem& problem);
std::int64_t staged_blocks_of(const StagedCut& cut, const ConvProblem& problem);

/// What the kernel of few outputs is compiled for: square filters without dilation. 5×5 was slower
/// than staged rows.
inline constexpr StagedForm direct_forms[] = {{3, 1}, {3, 2}};
inline constexpr int direct_columns = 2;    ///< of outputs, of a thread
inline constexpr int direct_threads = 128;  ///< of a block
/// So many blocks a multiprocessor's registers have room for, with all of x in flight.
inline constexpr int direct_blocks = 4;
/// Neighbouring channels of a thread.
constexpr int direct_width(std::size_t element_bytes) { return element_bytes == 8 ? 2 : 4; }

/// Neighbouring outputs of a thread of planes, and blocks of a multiprocessor.
constexpr int direct_row_columns(std::size_t element_bytes) { return element_bytes == 8 ? 2 : 4; }
inline constexpr int direct_row_blocks = 8;

/// A block has `lanes` vectors of channels of `places` chunks of columns, or of planes chunks of
/// rows.
struct DirectCut {
  StagedForm form;
  bool rows = false;   ///< of planes
  bool whole = false;  ///< of rows: y has whole chunks, in vectors
  int lanes = 1, places = 1;
  int shared_bytes = 0;
};

/// Blocks of a cut.
std::int64_t direct_blocks_of(const DirectCut& cut, const ConvProblem& problem);

struct DepthwisePlan {
  DepthwiseKernel kernel{};
  bool rows_are_images = false;  ///< where images have one row
  DepthwiseCut cut{};            ///< for any views
  /// With vectors of channels, where strides allow them; used where pointers are aligned too.
  std::optional<DepthwiseCut> wide{};
  /// Of a kernel that marches, in the place of those above: for any views, and with vectors of
  /// channels.
  std::optional<MarchCut> march{}, wide_march{};
  /// Of a march, in the place of the others where pointers are aligned: over staged rows.
  std::optional<StagedCut> staged{};
  /// Of a march, in the place of all others where pointers are aligned: of few outputs.
  std::optional<DirectCut> direct{};
  /// Of planes, in the place of the cut, where images are small and their planes dense.
  std::optional<WholeCut> whole{};
  double seconds = 0;
};

/// Outputs of a segment, at most: each has a bit of a word.
inline constexpr int march_max_length = 64;
inline constexpr int depthwise_march_threads = 128;  ///< of a block that marches, at most
inline constexpr int depthwise_threads = 128;        ///< of a block, at most
/// So many blocks that march a multiprocessor holds at a time: that leaves each thread its
/// registers.
constexpr int march_blocks(const MarchForm& form, int element_bytes) {
  const int blocks = 65536 / (depthwise_march_threads * march_registers(form, element_bytes));
  return blocks < 2 ? 2 : blocks > 8 ? 8 : blocks;
}
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
  int lanes = 0;  ///< along the columns of planes, or the channels; 0: the planner's
  std::optional<bool> vectors{};  ///< whether channels come in vectors; empty: the planner's
  int length = 0;                 ///< of a march; 0: the planner's
  int images = 0;                 ///< of a warp of staged rows; 0: the planner's
  std::optional<bool> whole{};    ///< whether planes are held whole; empty: the planner's
  std::optional<bool> staged{};   ///< whether a march's rows are staged; empty: the planner's
  std::optional<bool> direct{};   ///< whether few outputs are read directly; empty: the planner's
};

/// Sets the cuts of a march and its time, where a form is compiled for the filters; otherwise
/// returns false.
bool plan_march(const ConvProblem& problem, const DeviceInfo& device, const DepthwiseChoice& choice,
                DepthwisePlan& plan);
/// Sets the fastest cut of whole planes and its time, where a form is compiled for the filters and
/// the planes are dense; otherwise returns false.
bool plan_whole(const ConvProblem& problem, const DeviceInfo& device, DepthwisePlan& plan);
/// Sets the fastest cut of a march over staged rows, and returns its time, where a form is compiled
/// for the filters and channels lie side by side; otherwise returns nothing.
std::optional<double> plan_staged(const ConvProblem& problem, const DeviceInfo& device,
                                  const DepthwiseChoice& choice, DepthwisePlan& plan);
/// Sets the cut of few outputs and returns its time, where a form is compiled for the filters,
/// channels or columns lie side by side and all blocks are on the device at once; otherwise returns
/// nothing.
std::optional<double> plan_direct(const ConvProblem& problem, const DeviceInfo& device,
                                  DepthwisePlan& plan);
struct DepthwiseWork;  // cuda_kernels/cost/depthwise.hpp
/// What the threads of a plan of planes do, and those of a cut of channels.
DepthwiseWork work_of_planes(const ConvProblem& problem, const DepthwisePlan& plan);
DepthwiseWork work_of_channels(const ConvProblem& problem, const DepthwisePlan& plan,
                               const DepthwiseCut& cut);
/// Whether images have no depth, padding is zeros and each channel has one filter.
bool is_plain_image(const ConvProblem& problem);
/// Whether columns, or channels, lie side by side, and all other strides are multiples of `width`.
bool columns_in_vectors(const Extents& extents, const Strides& strides, int width);
bool channels_in_vectors(const Extents& extents, const Strides& strides, int width);
/// Whether channels do in x and y, and there are whole vectors of them.
bool channels_in_vectors(const ConvProblem& problem, int width);

/// Returns the plan, or nothing where no form of the kernel is compiled for the filters, or no tile
/// fits shared memory.
std::optional<DepthwisePlan> plan_depthwise(const ConvProblem& problem, DepthwiseKernel kernel,
                                            const DeviceInfo& device,
                                            const DepthwiseChoice& choice = {});

/// Launch for tensors stored as f32, f16, bf16 and f64.
void launch_depthwise_f32(const DepthwisePlan& plan, const ConvLaunch& call);
void launch_depthwise_f16(const DepthwisePlan& plan, const ConvLaunch& call);
void launch_depthwise_bf16(const DepthwisePlan& plan, const ConvLaunch& call);
void launch_depthwise_f64(const DepthwisePlan& plan, const ConvLaunch& call);

}  // namespace plumb::cuda
