// How halos travel on a device, and whether MPI takes its memory.
#pragma once

#include "plumb/distributed.hpp"

namespace plumb::mpi {

/// Whether this MPI says, at run time, that it reads and writes CUDA's memory.
bool mpi_takes_cuda_memory();

/// Error (unsupported) for one that the device, MPI or the caller's communicators do not allow.
Transport chosen_transport(Transport asked, const Device& device, bool has_nccl);

}  // namespace plumb::mpi
