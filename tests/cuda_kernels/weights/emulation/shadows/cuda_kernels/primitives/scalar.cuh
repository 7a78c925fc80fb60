// Stored types, emulated: the host's compiler has a type of 16 bits.
#pragma once

#include <type_traits>

namespace plumb::cuda {

template <class To, class From>
To convert(From value) {
  return static_cast<To>(value);
}

}  // namespace plumb::cuda
