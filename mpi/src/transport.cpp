#include "transport.hpp"

#include <fmt/format.h>
#include <mpi.h>
#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif

#include "plumb/error.hpp"

namespace plumb {

std::string_view to_string(Transport transport) {
  switch (transport) {
    case Transport::automatic: return "automatic";
    case Transport::host_memory: return "host_memory";
    case Transport::device_memory: return "device_memory";
    case Transport::nccl: return "nccl";
  }
  return "?";
}

namespace mpi {

bool mpi_takes_cuda_memory() {
#if (defined(OPEN_MPI) && defined(MPIX_CUDA_AWARE_SUPPORT)) || \
    (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 30400000)
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

Transport chosen_transport(Transport asked, const Device& device, bool has_nccl) {
  const bool is_cuda = device.id().backend == "cuda";
  const bool is_cpu = device.id() == host;
  const auto refuse = [&](const char* why) {
    throw Error(ErrorCode::unsupported, fmt::format("distributed: transport {} on {}: {}",
                                                    to_string(asked), to_string(device.id()), why));
  };
  switch (asked) {
    case Transport::automatic:
      if (is_cuda && has_nccl) return Transport::nccl;
      return is_cuda && mpi_takes_cuda_memory() ? Transport::device_memory : Transport::host_memory;
    case Transport::host_memory: return asked;
    case Transport::device_memory:
      if (is_cpu) return Transport::host_memory;  // which is the device's own
      if (!is_cuda || !mpi_takes_cuda_memory())
        refuse(
            "MPIX_Query_cuda_support says that MPI does not take this memory; expected "
            "host_memory");
      return asked;
    case Transport::nccl:
      if (!is_cuda) refuse("NCCL is for CUDA alone; expected host_memory");
      if (!has_nccl) refuse("no nccl_communicator is given");
      return asked;
  }
  return asked;
}

}  // namespace mpi
}  // namespace plumb
