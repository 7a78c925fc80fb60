// One element of any stored type, as a double.
#pragma once

#include <cstdint>

#include "plumb/types.hpp"

namespace plumb {

/// Element `index` of `data`, exactly as stored: double holds every value of every dtype.
inline double element(const void* data, DType dtype, std::int64_t index) {
  switch (dtype) {
    case DType::f64: return static_cast<const double*>(data)[index];
    case DType::f32: return static_cast<const float*>(data)[index];
    case DType::f16: return static_cast<float>(static_cast<const Half*>(data)[index]);
    case DType::bf16: return static_cast<float>(static_cast<const BFloat16*>(data)[index]);
  }
  return 0;
}

}  // namespace plumb
