#include "cuda_kernels/primitives/tensor_map.hpp"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda_kernels/primitives/check.hpp"
#include "cuda_kernels/primitives/im2col_of_f32.hpp"
#include "cuda_kernels/primitives/swizzled_map.hpp"
#include "plumb/error.hpp"

namespace plumb::cuda {
namespace {

template <class Encode>
Encode find_encode(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult query{};
  if (cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &query) !=
      cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  return query == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(found) : nullptr;
}

CUtensorMapDataType map_type(DType dtype) {
  switch (dtype) {
    case DType::f16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::f32: return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
    case DType::f64: break;
  }
  throw Error(ErrorCode::unsupported, "no tensor map of " + std::string(to_string(dtype)));
}

bool encode_im2col_as(CUtensorMap& map, const Im2colMap& of, CUtensorMapDataType type,
                      const void* address) {
  static const auto encode =
      find_encode<PFN_cuTensorMapEncodeIm2col_v12000>("cuTensorMapEncodeIm2col");
  if (!encode) return false;
  cuuint64_t extents[5] = {static_cast<cuuint64_t>(of.channels_of_tensor)}, strides[4] = {};
  cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  // The axes of the corners follow each other as those of the extents do: w first.
  int lower[3] = {}, upper[3] = {};
  for (int i = 0; i < of.axes; ++i) {
    const Im2colAxis& axis = of.axis[i];
    extents[i + 1] = static_cast<cuuint64_t>(axis.extent);
    strides[i] = static_cast<cuuint64_t>(axis.stride_bytes);
    steps[i + 1] = static_cast<cuuint32_t>(axis.step);
    lower[i] = axis.lower, upper[i] = axis.upper;
  }
  extents[of.axes + 1] = static_cast<cuuint64_t>(of.images);
  strides[of.axes] = static_cast<cuuint64_t>(of.image_stride_bytes);
  return encode(&map, type, static_cast<cuuint32_t>(of.axes + 2), const_cast<void*>(address),
                extents, strides, lower, upper, static_cast<cuuint32_t>(of.channels),
                static_cast<cuuint32_t>(of.pixels), steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

bool encode_tiled_as(CUtensorMap& map, const TiledMap& of, CUtensorMapDataType type,
                     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                     const void* address) {
  static const auto encode =
      find_encode<PFN_cuTensorMapEncodeTiled_v12000>("cuTensorMapEncodeTiled");
  if (!encode) return false;
  cuuint64_t extents[TiledMap::rank], strides[TiledMap::rank - 1];
  cuuint32_t box[TiledMap::rank], steps[TiledMap::rank];
  for (int i = 0; i < TiledMap::rank; ++i) {
    extents[i] = static_cast<cuuint64_t>(of.extent[i]);
    if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(of.stride_bytes[i]);
    box[i] = static_cast<cuuint32_t>(of.box[i]), steps[i] = 1;
  }
  return encode(&map, type, TiledMap::rank, const_cast<void*>(address), extents, strides, box,
                steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

bool encode_im2col(CUtensorMap& map, const Im2colMap& of, DType dtype, const void* address) {
  return encode_im2col_as(map, of, map_type(dtype), address);
}

bool encode_im2col_of_f32(CUtensorMap& map, const Im2colMap& of, const void* address) {
  return encode_im2col_as(map, of, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, address);
}

bool encode_tiled(CUtensorMap& map, const TiledMap& of, DType dtype, const void* address) {
  return encode_tiled_as(
      map, of,
      dtype == DType::f64 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT64 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
      CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, address);
}

bool encode_swizzled_tiles(CUtensorMap& map, const TiledMap& of, DType dtype, const void* address) {
  return encode_tiled_as(map, of, map_type(dtype), CU_TENSOR_MAP_SWIZZLE_128B,
                         CU_TENSOR_MAP_L2_PROMOTION_L2_256B, address);
}

bool encode_swizzled_stores(CUtensorMap& map, const TiledMap& of, DType dtype, void* address) {
  return encode_tiled_as(map, of,
                         dtype == DType::f32 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : map_type(dtype),
                         CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, address);
}

bool has_copy_engine(const void* kernel) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  return attributes.ptxVersion >= 90;
}

}  // namespace plumb::cuda
