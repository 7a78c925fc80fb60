// One convolution of oneDNN with its reorders, for one choice of bias and ReLU.
#pragma once

#include <cstddef>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "plumb/conv.hpp"

namespace plumb::onednn {

/// Whose layouts the convolution works in.
enum class Layouts {
  given,   ///< the caller's
  chosen,  ///< oneDNN's own; what differs from the caller's is reordered
};

/// Scratch memory of one launch, handed out piece by piece.
class Workspace {
 public:
  explicit Workspace(void* memory) : memory_(static_cast<std::byte*>(memory)) {}
  void* take(std::size_t bytes);
  std::size_t taken() const { return taken_; }

 private:
  std::byte* memory_;
  std::size_t taken_ = 0;
};

/// A tensor as the caller has it and as the convolution wants it.
class Argument {
 public:
  enum class Direction { in, out };
  Argument(const dnnl::engine& engine, Direction direction, const dnnl::memory::desc& given,
           const dnnl::memory::desc& wanted);
  /// The memory that the convolution works on, reordered from `data` first if it is an input.
  dnnl::memory before(const dnnl::stream& stream, void* data, Workspace& workspace) const;
  /// Puts an output back into the caller's layout.
  void after(const dnnl::stream& stream, void* data, dnnl::memory& worked_on,
             Workspace& workspace) const;
  std::size_t workspace_bytes() const;

 private:
  void reorder(const dnnl::stream& stream, dnnl::memory from, dnnl::memory to,
               Workspace& workspace) const;

  dnnl::engine engine_;
  Direction direction_;
  dnnl::memory::desc given_, wanted_, scratchpad_;
  std::optional<dnnl::reorder> reorder_;
};

/// The problem's filters as the caller has them.
dnnl::memory::desc given_filters(const ConvProblem& problem);
/// The same as they lie once packed, which does not depend on N: as the convolution of one image
/// wants them. One of more images that wants them otherwise reorders them in each run.
dnnl::memory::desc packed_filters(const dnnl::engine& engine, const ConvProblem& problem,
                                  Layouts layouts);

/// Throws dnnl::error where oneDNN has nothing for the problem.
class FusedConv {
 public:
  /// `filters`: as run() finds them.
  FusedConv(const dnnl::engine& engine, const ConvProblem& problem, Layouts layouts, bool bias,
            bool relu, const dnnl::memory::desc& filters);
  std::size_t workspace_bytes() const;
  void run(const ConvLaunch& launch) const;

 private:
  FusedConv(const dnnl::engine& engine, const ConvProblem& problem,
            const dnnl::memory::desc& filters,
            const dnnl::convolution_forward::primitive_desc& chosen);

  dnnl::engine engine_;
  dnnl::convolution_forward conv_;
  Argument x_, w_, y_;
  dnnl::memory::desc bias_, scratchpad_;
};

}  // namespace plumb::onednn
