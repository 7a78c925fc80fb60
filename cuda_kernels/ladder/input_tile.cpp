// Computes how large tiles of input are.
#include "cuda_kernels/ladder/input_tile.hpp"

#include <cmath>

#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/conv_support.hpp"

namespace plumb::cuda {
namespace {

/// Returns the number of elements under `tile` neighbouring outputs along one direction. A stride
/// to no second output moves nothing and may be any number; so may the dilation of one tap.
double swept(int tile, std::int64_t outputs, std::int64_t stride, std::int64_t taps,
             std::int64_t dilation) {
  const double moved = outputs > 1 ? (tile - 1) * static_cast<double>(stride) : 0;
  return moved + static_cast<double>(taps - 1) * static_cast<double>(dilation) + 1;
}

struct Size {
  double rows, columns, pitch;

  Size(const ConvProblem& problem, const SharedTile& shared)
      : rows(swept(shared.tile, problem.p(), problem.stride.h, problem.r, problem.dilation.h)),
        columns(swept(shared.tile, problem.q(), problem.stride.w, problem.s, problem.dilation.w)),
        pitch(shared.odd_pitch && std::fmod(columns, 2) == 0 ? columns + 1 : columns) {}
};

}  // namespace

double shared_bytes(const ConvProblem& problem, const SharedTile& shared) {
  const Size size(problem, shared);
  const double taps =
      shared.filter ? static_cast<double>(problem.r) * static_cast<double>(problem.s) : 0;
  return (size.rows * size.pitch + taps) * sizeof(float);
}

Support fits_shared_tile(const ConvProblem& problem, const DeviceInfo& device,
                         const SharedTile& shared) {
  if (Support memory = fits_shared_memory(shared_bytes(problem, shared), device); !memory)
    return memory;
  return fits_in_slices(problem);
}

InputTile input_tile(const ConvProblem& problem, const SharedTile& shared) {
  const Size size(problem, shared);
  return {static_cast<int>(size.rows), static_cast<int>(size.columns), static_cast<int>(size.pitch),
          static_cast<int>(size.rows * size.pitch)};
}

}  // namespace plumb::cuda
