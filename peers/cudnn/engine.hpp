// cuDNN's engines for a problem: every kernel, with its settings, that its heuristics name.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "peers/cudnn/descriptor.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda::cudnn {

/// What an engine may do to numbers, by cuDNN's own notes on it. Operands are never rounded to a
/// type narrower than stated, and sums never run in less than fp32; of f64 tensors both are fp64.
enum class Accuracy {
  fp32,  ///< fp32 operands, or the narrower type that tensors are stored in; may transform
  tf32,  ///< fp32 operands may be rounded to TF32; may transform
  fp32_deterministic,  ///< as fp32, and the same bits every time
  tf32_deterministic,  ///< as tf32, and the same bits every time
  fp32_sum,            ///< as fp32_deterministic, without FFT and Winograd
  tf32_sum,            ///< as tf32_deterministic, without them, and on tensor cores: always TF32
};
inline constexpr std::array all_accuracies{Accuracy::fp32,
                                           Accuracy::tf32,
                                           Accuracy::fp32_deterministic,
                                           Accuracy::tf32_deterministic,
                                           Accuracy::fp32_sum,
                                           Accuracy::tf32_sum};

/// A convolution, or a gradient, as cuDNN's graph interface has it: what is written becomes the
/// result + beta times what it was. Pointers of all three tensors are multiples of
/// `pointer_alignment`.
class Graph {
 public:
  static constexpr std::int64_t pointer_alignment = 16;
  /// The tensors lie in `layout`.
  Graph(cudnnHandle_t handle, const ConvProblem& problem, Layout layout, float beta);
  const Descriptor& native() const { return graph_; }
  /// Of image, filters and output, the parts that x, w and y take in the problem's direction.
  std::span<const std::int64_t, 3> ids() const { return ids_; }

 private:
  std::array<std::int64_t, 3> ids_;
  Descriptor x_, w_, y_, conv_, operation_, graph_;
};

/// What cuDNN notes on an engine, known before it is built.
class EngineNotes {
 public:
  explicit EngineNotes(const Descriptor& configuration);
  bool has(cudnnBackendNumericalNote_t note) const { return numerical_ >> note & 1; }
  /// FFT or Winograd: no plain sum.
  bool transforms() const;
  /// cuDNN writes and compiles its kernel for the problem.
  bool compiled_at_run_time() const { return compiled_at_run_time_; }

 private:
  unsigned numerical_ = 0;
  bool compiled_at_run_time_ = false;
};

/// One engine with its settings, ready to run.
class Engine {
 public:
  /// Throws Error where cuDNN cannot build it.
  Engine(cudnnHandle_t handle, std::shared_ptr<const Graph> graph, Descriptor configuration,
         const EngineNotes& notes);

  /// "engine 38, knobs 2=7 13=1", as cuDNN numbers both.
  std::string name() const;
  bool has(cudnnBackendNumericalNote_t note) const { return notes_.has(note); }
  bool transforms() const { return notes_.transforms(); }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// The tensors by their parts, as a launch has them.
  void run(cudnnHandle_t handle, const void* image, const void* filters, void* output,
           void* workspace) const;

 private:
  std::shared_ptr<const Graph> graph_;  ///< which the plan may still refer to
  Descriptor configuration_, plan_;
  EngineNotes notes_;
  std::size_t workspace_bytes_ = 0;
};

/// Whether an engine's numerical notes allow a class for tensors stored so.
bool admits(Accuracy accuracy, DType dtype, const Engine& engine);

/// All that can be built of what heuristics A and B and the fallback list name, and at their
/// default settings FFT and Winograd engines, and for gradients all that are deterministic, of
/// which the lists leave some out; without doubles. Engines that are compiled at run time are left
/// out where the rows of x or y are no multiples of 16 bytes: one of cuDNN 9.14's wrote to a
/// misaligned address, which ends the process's use of the GPU. Where `wanted` names engines, of
/// those alone.
std::vector<std::shared_ptr<const Engine>> engines(cudnnHandle_t handle, const ConvProblem& problem,
                                                   Layout layout, float beta,
                                                   const std::set<std::string>& wanted = {});

}  // namespace plumb::cuda::cudnn
