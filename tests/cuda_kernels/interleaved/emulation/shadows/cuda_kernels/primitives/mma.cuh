// What a lane holds of a matrix.
#pragma once

#include <cstdint>

namespace plumb::cuda {

using Fragment = std::uint32_t;

}  // namespace plumb::cuda
