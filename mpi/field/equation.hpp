// A field that is stepped by a convolution over the ranks: heat or waves in a periodic box.
#pragma once

#include <mpi.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "plumb/distributed.hpp"

namespace plumb::field {

enum class Equation { heat, wave };

/// What is stepped, the same on every rank.
struct FieldProblem {
  Equation equation = Equation::heat;
  int dims = 3;                           ///< 2 or 3
  std::array<std::int64_t, 3> extents{};  ///< depth, height, width; a depth of 1 in two dimensions
  DType dtype = DType::f64;
  DistributedGrid grid;
  std::string algorithm;      ///< of Plumb's; empty: the one for fields, which keeps its order
  bool reproducible = false;  ///< ConvOptions::reproducible; any algorithm that keeps that order
};

/// This rank's block of the field, and the plans that step it.
class Field {
 public:
  /// Collective. Throws Error as Distributed does.
  Field(MPI_Comm communicator, const Device& device, const FieldProblem& problem);

  /// u' = u + a Laplace u, or u'' = 2 u' - u + c Laplace u'.
  void step();
  /// This rank's block of the field on the host, in the dtype.
  std::vector<std::byte> values();
  const DistributedBlock& block() const { return block_; }
  const Distributed& plan() const { return *plans_[0]; }
  Queue& queue() { return queue_; }

 private:
  void fill(const TensorView& to, bool zeros);

  FieldProblem problem_;
  Device device_;
  Queue queue_;
  /// Of waves the stencil and its negative: the buffer that is added to holds -u in every other
  /// pair of steps, so that nothing but the convolution is needed.
  std::array<std::optional<Distributed>, 2> plans_;
  std::array<Tensor, 2> stencils_;
  std::array<Tensor, 2> fields_;
  DistributedBlock block_;
  std::int64_t steps_ = 0;
};

/// The field at the start: warm balls, or a bump that spreads. Coordinates in the whole field.
double start_value(const FieldProblem& problem, const std::array<std::int64_t, 3>& at);

}  // namespace plumb::field
