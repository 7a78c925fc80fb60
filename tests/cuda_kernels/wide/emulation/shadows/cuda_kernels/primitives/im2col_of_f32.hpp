// Tensor maps in im2col mode of f32 whose bits are copied, emulated.
#pragma once

#include "cuda_kernels/primitives/tensor_map.hpp"

namespace plumb::cuda {

inline bool encode_im2col_of_f32(CUtensorMap& map, const Im2colMap& of, const void* address) {
  const bool taken = encode_im2col(map, of, DType::f32, address);
  map.rounds = false;
  return taken;
}

}  // namespace plumb::cuda
