// What a run leaves: one HDF5 file that all ranks write, an XDMF file beside it for ParaView, and a
// picture of a slice.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "plumb/distributed.hpp"

namespace plumb::field {

/// A rank's part of a field.
struct FieldBlock {
  std::array<std::int64_t, 3> whole{};  ///< extents of the field
  std::array<std::int64_t, 3> begin{};
  std::array<std::int64_t, 3> extents{};
  DType dtype = DType::f64;
  const std::vector<std::byte>* values = nullptr;
};

/// Whether this program writes HDF5.
bool writes_hdf5();
/// Writes the dataset "u" of `path`, of all ranks, and `path` with .xdmf in the place of its
/// ending. The bytes do not depend on how the field is cut. Collective. Throws Error (unsupported
/// without HDF5, device_failure where the file cannot be written).
void write_hdf5(MPI_Comm communicator, const std::string& path, const FieldBlock& block);

/// Writes the middle plane as a PNG picture, from blue over white to red. Collective; rank 0
/// writes. Throws Error (device_failure) on rank 0 where it cannot.
void write_picture(MPI_Comm communicator, const std::string& path, const FieldBlock& block);

}  // namespace plumb::field
