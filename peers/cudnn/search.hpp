// Every engine that cuDNN offers for a problem, tried on the device, and the fastest of each class.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "peers/cudnn/engine.hpp"
#include "plumb/algorithm.hpp"

namespace plumb::cuda::cudnn {

/// The fastest engine of a class.
struct Choice {
  std::shared_ptr<const Engine> plain;
  /// Which adds to what y (dx) holds, where the bias has to be added before rounding to a narrow
  /// stored type. dw has no bias.
  std::shared_ptr<const Engine> onto_bias;
};

struct Search {
  Support support;  ///< of the problem as such
  Layout layout = Layout::nchw;
  std::array<Choice, all_accuracies.size()> choices;
  const Choice& operator[](Accuracy accuracy) const {
    return choices[static_cast<std::size_t>(accuracy)];
  }
};

/// Whether a bias is added before the convolution, by Choice::onto_bias.
bool adds_to_bias(const ConvProblem& problem);

/// The layout that all three tensors are dense in, if there is one.
std::optional<Layout> layout_of(const ConvProblem& problem);

/// Done once for a device and problem that cuDNN can be asked about. Allocates and times.
std::shared_ptr<const Search> search(const ConvProblem& problem, const DeviceInfo& device);

/// Runs on a stream of the device, which is current, on the tensors by their parts. An engine is
/// used by one thread at a time.
void run(const Engine& engine, const DeviceInfo& device, const void* image, const void* filters,
         void* output, void* workspace, void* stream);

}  // namespace plumb::cuda::cudnn
