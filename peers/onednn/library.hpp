// The part of oneDNN's C interface that is used here, of versions 2 and 3, declared from its
// documentation: a build needs nothing of oneDNN's, and runs with whichever of them is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "plumb/algorithm.hpp"

namespace plumb::onednn {

// Opaque in the interface too, but for MemoryDesc, a struct in version 2: there it is only ever
// read and written by oneDNN, in room that is larger than it.
struct Engine;
struct Stream;
struct Attributes;
struct PostOps;
struct MemoryDesc;
struct OperationDesc;  ///< version 2 alone
struct PrimitiveDesc;
struct Primitive;
struct Memory;

using Status = int;
inline constexpr Status success = 0, out_of_memory = 1;

inline constexpr int max_dimensions = 12;
using Dimensions = std::int64_t[max_dimensions];

/// What is executed on, by number: x, w, bias, y, scratch memory; `from` and `to` of a reorder.
struct ExecutionArgument {
  int number;
  Memory* memory;
};
inline constexpr int x_argument = 1, w_argument = 33, bias_argument = 41, y_argument = 17,
                     dx_argument = 129, dw_argument = 161, dy_argument = 145,
                     scratchpad_argument = 80, from_argument = 1, to_argument = 17;

// Values of enumerations, the same in both versions.
inline constexpr int cpu_kind = 1, bf16_type = 2, f32_type = 3, any_format = 1,
                     forward_training = 64, forward_inference = 96, convolution_direct = 1,
                     user_scratchpad = 1, strict_fpmath = 0;
inline constexpr unsigned in_order = 1;
inline constexpr int x_query = 129, dx_query = 130, w_query = 131, dw_query = 132, y_query = 133,
                     dy_query = 134, scratchpad_query = 136;

struct Version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};
inline constexpr unsigned sequential_runtime = 1, openmp_runtime = 2;

/// What version 2 wants instead of what version 3 wants.
struct Version2 {
  Status (*memory_desc_by_strides)(MemoryDesc*, int rank, const Dimensions, int type,
                                   const Dimensions strides);
  Status (*memory_desc_by_tag)(MemoryDesc*, int rank, const Dimensions, int type, int tag);
  Status (*convolution)(OperationDesc*, int kind, int algorithm, const MemoryDesc* x,
                        const MemoryDesc* w, const MemoryDesc* bias, const MemoryDesc* y,
                        const Dimensions strides, const Dimensions dilations,
                        const Dimensions before, const Dimensions after);
  Status (*backward_data)(OperationDesc*, int algorithm, const MemoryDesc* dx, const MemoryDesc* w,
                          const MemoryDesc* dy, const Dimensions strides,
                          const Dimensions dilations, const Dimensions before,
                          const Dimensions after);
  Status (*backward_weights)(OperationDesc*, int algorithm, const MemoryDesc* x,
                             const MemoryDesc* dw, const MemoryDesc* db, const MemoryDesc* dy,
                             const Dimensions strides, const Dimensions dilations,
                             const Dimensions before, const Dimensions after);
  Status (*primitive_desc)(PrimitiveDesc**, const OperationDesc*, const Attributes*, Engine*,
                           const PrimitiveDesc* hint);
  Status (*append_eltwise)(PostOps*, float scale, int algorithm, float alpha, float beta);
};
struct Version3 {
  Status (*memory_desc_by_strides)(MemoryDesc**, int rank, const Dimensions, int type,
                                   const Dimensions strides);
  Status (*memory_desc_by_tag)(MemoryDesc**, int rank, const Dimensions, int type, int tag);
  Status (*destroy_memory_desc)(MemoryDesc*);
  Status (*convolution)(PrimitiveDesc**, Engine*, int kind, int algorithm, const MemoryDesc* x,
                        const MemoryDesc* w, const MemoryDesc* bias, const MemoryDesc* y,
                        const Dimensions strides, const Dimensions dilations,
                        const Dimensions before, const Dimensions after, const Attributes*);
  Status (*backward_data)(PrimitiveDesc**, Engine*, int algorithm, const MemoryDesc* dx,
                          const MemoryDesc* w, const MemoryDesc* dy, const Dimensions strides,
                          const Dimensions dilations, const Dimensions before,
                          const Dimensions after, const PrimitiveDesc* hint, const Attributes*);
  Status (*backward_weights)(PrimitiveDesc**, Engine*, int algorithm, const MemoryDesc* x,
                             const MemoryDesc* dw, const MemoryDesc* db, const MemoryDesc* dy,
                             const Dimensions strides, const Dimensions dilations,
                             const Dimensions before, const Dimensions after,
                             const PrimitiveDesc* hint, const Attributes*);
  Status (*append_eltwise)(PostOps*, int algorithm, float alpha, float beta);
};

struct Library {
  LibraryReport report;
  int major = 0;  ///< 2 or 3, where there is a library
  Version2 v2{};
  Version3 v3{};
  Engine* engine = nullptr;  ///< the CPU

  const Version* (*version)();
  const char* (*status_text)(Status);
  Status (*create_engine)(Engine**, int kind, std::size_t index);
  Status (*create_stream)(Stream**, Engine*, unsigned flags);
  Status (*wait)(Stream*);
  Status (*destroy_stream)(Stream*);
  Status (*create_attributes)(Attributes**);
  Status (*destroy_attributes)(Attributes*);
  Status (*set_scratchpad_mode)(Attributes*, int);
  Status (*set_fpmath_mode)(Attributes*, int);
  Status (*set_post_ops)(Attributes*, const PostOps*);
  Status (*create_post_ops)(PostOps**);
  Status (*destroy_post_ops)(PostOps*);
  int (*equal)(const MemoryDesc*, const MemoryDesc*);
  std::size_t (*size)(const MemoryDesc*);
  const MemoryDesc* (*query_memory_desc)(const PrimitiveDesc*, int what, int index);
  Status (*destroy_primitive_desc)(PrimitiveDesc*);
  Status (*reorder)(PrimitiveDesc**, const MemoryDesc* from, Engine*, const MemoryDesc* to, Engine*,
                    const Attributes*);
  Status (*create_primitive)(Primitive**, const PrimitiveDesc*);
  Status (*execute)(const Primitive*, Stream*, int count, const ExecutionArgument*);
  Status (*destroy_primitive)(Primitive*);
  Status (*create_memory)(Memory**, const MemoryDesc*, Engine*, void* data);
  Status (*destroy_memory)(Memory*);
};

/// oneDNN, or the reason why there is none. Only where there is a library may its functions be
/// called.
const Library& library();

/// Throws Error: out_of_memory, or device_failure with oneDNN's own word.
void check(Status status, std::string_view call);

extern const Provider provider;

}  // namespace plumb::onednn
