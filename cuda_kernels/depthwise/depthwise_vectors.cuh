// Neighbours in memory that a thread reads and writes as one word.
#pragma once

#include <cstring>

namespace plumb::cuda::depthwise {

/// Neighbours in memory, along the channels or along a row, which move as one word.
template <class Stored, int width>
struct alignas(width * sizeof(Stored)) Channels {
  Stored of[width];
};

template <int bytes>
struct Word;
template <>
struct Word<2> {
  unsigned short bits;
};
template <>
struct Word<4> {
  unsigned bits;
};
template <>
struct alignas(8) Word<8> {
  unsigned bits[2];
};
template <>
struct alignas(16) Word<16> {
  unsigned bits[4];
};

template <class Stored, int width>
__device__ Channels<Stored, width> read_channels(const Stored* from) {
  using Bits = Word<width * sizeof(Stored)>;
  const Bits bits = *reinterpret_cast<const Bits*>(from);
  Channels<Stored, width> values;
  memcpy(&values, &bits, sizeof(bits));
  return values;
}

template <class Stored, int width>
__device__ void write_channels(Stored* to, const Channels<Stored, width>& values) {
  using Bits = Word<width * sizeof(Stored)>;
  Bits bits;
  memcpy(&bits, &values, sizeof(bits));
  *reinterpret_cast<Bits*>(to) = bits;
}

}  // namespace plumb::cuda::depthwise
