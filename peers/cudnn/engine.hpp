// cuDNN's engines for a problem: every kernel, with its settings, that its heuristics name.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "peers/cudnn/descriptor.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda::cudnn {

/// What an engine may do to numbers, by cuDNN's own notes on it. Operands are never rounded to a
/// type narrower than stated, and sums never run in less than fp32; of f64 tensors both are fp64.
enum class Accuracy {
  fp32,      ///< fp32 operands, or the narrower type that tensors are stored in; may transform
  tf32,      ///< fp32 operands may be rounded to TF32; may transform
  fp32_sum,  ///< as fp32, without FFT and Winograd, and the same bits every time
};
inline constexpr int accuracies = 3;

/// A convolution as cuDNN's graph interface has it: y = conv(x, w) + beta y. Pointers of all three
/// are multiples of `pointer_alignment`.
class Graph {
 public:
  static constexpr std::int64_t pointer_alignment = 16;
  /// The tensors lie in `layout`.
  Graph(cudnnHandle_t handle, const ConvProblem& problem, Layout layout, float beta);
  const Descriptor& native() const { return graph_; }

 private:
  Descriptor x_, w_, y_, conv_, operation_, graph_;
};

/// One engine with its settings, ready to run.
class Engine {
 public:
  /// Throws Error where cuDNN cannot build it.
  Engine(cudnnHandle_t handle, std::shared_ptr<const Graph> graph, Descriptor configuration);

  /// "engine 38, knobs 2=7 13=1", as cuDNN numbers both.
  std::string name() const;
  bool has(cudnnBackendNumericalNote_t note) const { return notes_ >> note & 1; }
  /// FFT or Winograd: no plain sum.
  bool transforms() const;
  /// cuDNN writes and compiles its kernel for the problem.
  bool compiled_at_run_time() const { return compiled_at_run_time_; }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  void run(cudnnHandle_t handle, const void* x, const void* w, void* y, void* workspace) const;

 private:
  std::shared_ptr<const Graph> graph_;  ///< which the plan may still refer to
  Descriptor configuration_, plan_;
  std::size_t workspace_bytes_ = 0;
  unsigned notes_ = 0;
  bool compiled_at_run_time_ = false;
};

/// Whether an engine's numerical notes allow a class for tensors stored so.
bool admits(Accuracy accuracy, DType dtype, const Engine& engine);

/// All that can be built of what heuristics A and B and the fallback list name, and FFT and
/// Winograd engines at their default settings, which the lists leave out; without doubles.
/// Engines that are compiled at run time are left out where the rows of x or y are no multiples of
/// 16 bytes: one of cuDNN 9.14's wrote to a misaligned address, which ends the process's use of
/// the GPU.
std::vector<std::shared_ptr<const Engine>> engines(cudnnHandle_t handle, const ConvProblem& problem,
                                                   Layout layout, float beta);

}  // namespace plumb::cuda::cudnn
