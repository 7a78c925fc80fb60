// The network's weights on the host, and their files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/safetensors.hpp"
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

/// Takes the tensors that are named as the parameters, behind `prefix`, out of a file's content.
/// FileError, naming the file by `path`, where one is missing or of other extents, with `kind` for
/// what the file should have been.
PerParameter<std::vector<float>> take_parameters(Safetensors& file, const std::string& path,
                                                 const NetworkShape& shape,
                                                 std::string_view kind = "model",
                                                 std::string_view prefix = "");
/// FileError where a file's content has tensors left.
void require_no_others(const Safetensors& file, const std::string& path);
/// Adds them, as f32.
void add_parameters(Safetensors& file, const PerParameter<std::vector<float>>& values,
                    const NetworkShape& shape, std::string_view prefix = "");

/// The weights that come with the program: beside an installed program in share/plumb, otherwise
/// in the source tree. FileError where they are in neither place.
std::string default_model_path();

/// Copies the weights into a network of f32 on the queue's device; done when it returns.
void upload(Queue& queue, const Model& model, const Network& network);

}  // namespace plumb::app
