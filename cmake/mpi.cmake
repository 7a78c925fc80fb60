# Sets PLUMB_HAVE_MPI, and MPI::MPI_CXX with it: the MPI that libplumb_mpi is built for, which is what
# find_package(MPI) finds. -DMPI_CXX_COMPILER=mpicxx.mpich chooses another.
set(PLUMB_HAVE_MPI OFF)
if(NOT PLUMB_MPI)
  message(STATUS "libplumb_mpi: off (PLUMB_MPI=OFF)")
  return()
endif()
if(PLUMB_SANITIZE)  # MPI itself is not built with them, and keeps what it allocates
  message(STATUS "libplumb_mpi: off, host code is built with sanitizers")
  return()
endif()
set(MPI_CXX_SKIP_MPICXX ON)  # the C++ bindings of MPI 2, which are gone
if(PLUMB_MPI STREQUAL "AUTO")
  find_package(MPI QUIET COMPONENTS CXX)
else()
  find_package(MPI REQUIRED COMPONENTS CXX)
endif()
if(NOT MPI_CXX_FOUND)
  message(STATUS "libplumb_mpi: off, no MPI found (MPI_CXX_COMPILER tells where its mpicxx is)")
  return()
endif()
set(PLUMB_HAVE_MPI ON)
message(STATUS "libplumb_mpi: MPI ${MPI_CXX_VERSION} of ${MPI_CXX_COMPILER}")
