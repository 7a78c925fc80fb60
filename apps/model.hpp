// The network's weights on the host, and their files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "network.hpp"

namespace plumb::app {

struct Model {
  PerParameter<std::vector<float>> values;      ///< dense, in the order of parameter_extents()
  std::map<std::string, std::string> metadata;  ///< where the weights come from: seed, figures
};

/// A safetensors file's weights, whatever their element type, as float. FileError where it is no
/// such file, a tensor is missing, left over, or of other extents than the network's.
Model read_model(const std::string& path, const NetworkShape& shape);
void write_model(const std::string& path, const Model& model, const NetworkShape& shape);

/// The weights that come with the program: beside an installed program in share/plumb, otherwise
/// in the source tree. FileError where they are in neither place.
std::string default_model_path();

/// Copies the weights into a network of f32 on the queue's device; done when it returns.
void upload(Queue& queue, const Model& model, const Network& network);

}  // namespace plumb::app
