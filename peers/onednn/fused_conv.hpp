// One convolution of oneDNN with its reorders, for one choice of bias and ReLU.
#pragma once

#include <cstddef>

#include "peers/onednn/objects.hpp"
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

 private:
  std::byte* memory_;
  std::size_t taken_ = 0;
};

/// A tensor as the caller has it and as the convolution wants it.
class Argument {
 public:
  enum class Direction { in, out };
  Argument(Direction direction, const Desc& given, const Desc& wanted);
  /// The memory that the convolution works on, reordered from `data` first if it is an input.
  Piece before(Stream* stream, const void* data, Workspace& workspace) const;
  /// Puts an output back into the caller's layout.
  void after(Stream* stream, void* data, const Piece& worked_on, Workspace& workspace) const;
  std::size_t workspace_bytes() const;

 private:
  Direction direction_;
  Desc given_, wanted_, scratchpad_;
  Operation reorder_;
};

/// The problem's filters as the caller has them, or dy in their part.
Desc given_filters(const ConvProblem& problem);
/// The same as they lie once packed, which does not depend on N: as the convolution of one image
/// wants them. One of more images that wants them otherwise reorders them in each run.
Desc packed_filters(const ConvProblem& problem, Layouts layouts);

/// Adds the bias to dx and applies the ReLU, which oneDNN does not fuse into gradients.
void finish_gradient(const ConvLaunch& launch);
/// Writes zeros, the sums of nothing.
void clear_output(const ConvLaunch& launch);

/// Throws Error where oneDNN has nothing for the problem.
class FusedConv {
 public:
  /// `filters`: as run() finds them.
  FusedConv(const ConvProblem& problem, Layouts layouts, bool bias, bool relu, const Desc& filters);
  std::size_t workspace_bytes() const;
  void run(const ConvLaunch& launch) const;

 private:
  FusedConv(const ConvProblem& problem, const Desc& bias, const Desc& filters,
            const Operation& chosen);

  Operation conv_;
  Argument x_, w_, y_;
  Desc bias_, scratchpad_;
};

}  // namespace plumb::onednn
