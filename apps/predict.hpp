// Puts a set of images through the network on one device, batch by batch, and times each layer.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "formats/idx.hpp"
#include "model.hpp"

namespace plumb::app {

/// The device's time in one layer, over all batches.
struct LayerSeconds {
  double op = 0;     ///< its kernels
  double layer = 0;  ///< its kernels and the copies that belong to it
};

struct Predictions {
  std::vector<float> logits;         ///< [images, classes]
  std::vector<float> probabilities;  ///< [images, classes]
  std::vector<int> classes;          ///< the most probable for each image, the first among equals
  /// The upload of the images belongs to the first layer, the download of the results to the last.
  std::vector<LayerSeconds> layers;  ///< as layers_of() names them, for inference
  double setup_seconds = 0;          ///< allocating, and uploading the weights
  double run_seconds = 0;            ///< from the first batch to the last result
};

/// `progress` is called with the number of images done so far.
Predictions predict(
    const Device& device, const Model& model, const NetworkShape& shape, const IdxImages& images,
    std::int64_t batch, const std::function<void(std::int64_t)>& progress = [](std::int64_t) {});

}  // namespace plumb::app
