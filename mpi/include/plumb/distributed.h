/// @file
// Convolution across the ranks of an MPI communicator, from C and, by the functions that end in _f,
// from Fortran: what plumb/distributed.hpp has, behind an opaque handle. What plumb.h says of
// statuses, messages and handles, and plumb_nd.h of structs that begin with their size, holds here
// too; where one rank fails, all get its status, and a message that begins with that rank. It is in
// libplumb_mpi, which is built for one MPI.
#pragma once

#include <mpi.h>

#include "plumb/plumb.h"
#include "plumb/plumb_nd.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A convolution spread over ranks.
typedef struct plumb_distributed plumb_distributed;

/// How halos travel.
typedef int32_t plumb_transport;
/// Values of plumb_transport.
enum {
  PLUMB_TRANSPORT_AUTOMATIC = 0,      ///< NCCL where a communicator is given, else as MPI can
  PLUMB_TRANSPORT_HOST_MEMORY = 1,    ///< through host memory
  PLUMB_TRANSPORT_DEVICE_MEMORY = 2,  ///< MPI reads and writes the device's memory
  PLUMB_TRANSPORT_NCCL = 3            ///< NCCL
};

/// Into how many parts each axis is cut, and what else is asked for.
/// plumb_distributed_options_init() sets one part each, blocks as even as it goes, dense tensors,
/// 300 s, and automatic transport.
typedef struct plumb_distributed_options {
  size_t struct_size;  ///< sizeof(plumb_distributed_options)
  int64_t parts[4];    ///< of N, D, H and W; the last runs fastest over the ranks
  /// Sizes of the blocks along N, D, H and W of the image, parts[i] each; NULL: even.
  const int64_t* sizes[4];
  const int64_t* output_sizes[3];  ///< along Z, P and Q of the output; NULL: after the image
  const int64_t* x_strides;        ///< five, of this rank's block of x; NULL: dense
  const int64_t* y_strides;        ///< five, of this rank's block of y; NULL: dense
  double time_limit_seconds;       ///< how long a call waits for other ranks
  void* nccl_communicator;         ///< an ncclComm_t of the same ranks, or NULL
  plumb_transport transport;       ///< how halos travel
  int32_t reserved;                ///< 0
} plumb_distributed_options;
/// Sets one part along each axis, and the defaults.
PLUMB_API plumb_status plumb_distributed_options_init(plumb_distributed_options* options);

/// Plans `problem`, the whole one, over the ranks of a communicator, which is duplicated. `conv`
/// may be NULL. Collective, as all functions here that take a communicator or execute.
PLUMB_API plumb_status plumb_distributed_create(MPI_Comm communicator, const plumb_device* device,
                                                const plumb_conv_problem_nd* problem,
                                                const plumb_conv_options_nd* conv,
                                                const plumb_distributed_options* options,
                                                plumb_distributed** distributed);
/// The same for a communicator as Fortran has it.
PLUMB_API plumb_status plumb_distributed_create_f(MPI_Fint communicator, const plumb_device* device,
                                                  const plumb_conv_problem_nd* problem,
                                                  const plumb_conv_options_nd* conv,
                                                  const plumb_distributed_options* options,
                                                  plumb_distributed** distributed);
/// Destroys it, on every rank, before MPI_Finalize.
PLUMB_API void plumb_distributed_destroy(plumb_distributed* distributed);
/// Returns the rank of this process.
PLUMB_API plumb_status plumb_distributed_rank(const plumb_distributed* distributed, int32_t* rank);
/// Returns where a rank's block of x (or dx) begins and how large it is, along N C D H W.
PLUMB_API plumb_status plumb_distributed_x_block(const plumb_distributed* distributed, int32_t rank,
                                                 int64_t begin[5], int64_t extents[5]);
/// Returns the same of y (or dy), along N K Z P Q.
PLUMB_API plumb_status plumb_distributed_y_block(const plumb_distributed* distributed, int32_t rank,
                                                 int64_t begin[5], int64_t extents[5]);
/// Runs it on this rank's blocks, by their parts as plumb_plan_execute_gradient() takes them:
/// `image` x or dy, `filters` w (all of it) or this rank's dy, `output` y, dx or all of dw. `bias`,
/// `mask` (dense, as this rank's block of y) and `db` are NULL where the options have none.
PLUMB_API plumb_status plumb_distributed_execute(plumb_distributed* distributed, plumb_queue* queue,
                                                 const void* image, const void* filters,
                                                 const void* bias, const void* mask, void* output,
                                                 void* db);
/// Returns the bytes that this rank sends to others in one execute.
PLUMB_API plumb_status plumb_distributed_bytes_sent(const plumb_distributed* distributed,
                                                    size_t* bytes);

/// Opens the device of this rank: the GPUs of a node go round its ranks; the CPU where there is
/// none. The reason is written to `reason`, at most `reason_bytes` with its end; NULL: it is not.
PLUMB_API plumb_status plumb_device_for_rank(MPI_Comm communicator, plumb_device** device,
                                             char* reason, size_t reason_bytes);
/// The same for a communicator as Fortran has it.
PLUMB_API plumb_status plumb_device_for_rank_f(MPI_Fint communicator, plumb_device** device,
                                               char* reason, size_t reason_bytes);

#ifdef __cplusplus
}
#endif
