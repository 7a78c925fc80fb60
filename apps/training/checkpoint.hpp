// Checkpoints in files: safetensors with the weights, their velocities, and everything else that a
// run needs to go on as if it had never ended.
#pragma once

#include <cstdint>
#include <string>

#include "training/trainer.hpp"

namespace plumb::app {

/// A checkpoint as it lies in a file.
struct StoredCheckpoint {
  TrainingOptions options;
  std::string data;  ///< fingerprint() of the training set
  Checkpoint checkpoint;
};

/// FNV-1a of sizes, pixels and labels: 16 hexadecimal digits that tell data sets apart.
std::string fingerprint(const Dataset& dataset);

void write_checkpoint(const std::string& path, const StoredCheckpoint& stored,
                      const NetworkShape& shape);

/// FileError where the file cannot be read, is cut off, was not written by write_checkpoint() for a
/// network of this shape, or was changed since.
StoredCheckpoint read_checkpoint(const std::string& path, const NetworkShape& shape);

}  // namespace plumb::app
