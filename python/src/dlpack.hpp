// DLPack's structures (https://dmlc.github.io/dlpack/latest/c_api.html, version 1.1, and of 1.3 the
// functions that a type of arrays exports), as far as arrays are taken by them: their layout is a
// stable interface.
#pragma once

#include <cstdint>

namespace plumb::python::dlpack {

/// Kinds of memory.
enum DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
/// Kinds of elements.
enum TypeCode : std::uint8_t { floating = 2, bfloat = 4 };
/// Of a versioned tensor: it may not be written.
inline constexpr std::uint64_t read_only = 1;

/// An array, whose memory is somebody else's.
struct Tensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t ndim;
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null: dense
  std::uint64_t byte_offset;
};

/// What a capsule named "dltensor" holds.
struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};

/// What a capsule named "dltensor_versioned" holds.
struct VersionedTensor {
  std::uint32_t major;
  std::uint32_t minor;
  void* context;
  void (*deleter)(VersionedTensor*);
  std::uint64_t flags;
  Tensor tensor;
};

/// What a capsule named "dlpack_exchange_api" holds, the attribute __dlpack_c_exchange_api__ of a
/// type of arrays.
struct ExchangeApi {
  std::uint32_t major;
  std::uint32_t minor;
  ExchangeApi* previous;
  void* allocate;
  void* lend;
  void* make;
  /// Describes an array without lending it: shape and strides are its own. Python's error is set
  /// where the result is not 0.
  int (*describe)(void* object, Tensor* described);
  void* current_stream;
};

}  // namespace plumb::python::dlpack
