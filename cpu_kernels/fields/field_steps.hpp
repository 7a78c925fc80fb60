// A step of a field's convolution is a plane of a band of output rows. Its input lies in a ring of
// planes. While its outputs are summed, the plane that the next step lacks is loaded into the
// ring's free place, a share with each tile: memory is read all the time, and waited for rarely.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_kernels/fields/field_plan.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// What all steps of a launch share.
template <class Real>
struct FieldLaunch {
  FieldLaunch(const ConvLaunch& call, const FieldPlan& cut, const FieldKernels<Real>& functions);

  const ConvLaunch& launch;
  const ConvProblem& problem;
  const FieldPlan& plan;
  const FieldKernels<Real>& kernels;
  FieldAxes axes;
  std::int64_t z, p, q;
  const Real* filters;
  bool finite;  ///< whether every weight is
  bool stream;  ///< whether y is so large that no cache would keep it

  std::int64_t steps() const {
    return problem.n * problem.groups * plan.column_blocks * plan.bands * z;
  }
};

/// Computes steps one after another, in a thread's own part of the workspace.
template <class Real>
class FieldSteps {
 public:
  FieldSteps(const FieldLaunch<Real>& shared, std::byte* slot);
  /// Computes steps [first, end).
  void run(std::int64_t first, std::int64_t end);

 private:
  /// A step's outputs are plane z of rows [p, p + rows) and columns [q, q + columns).
  struct Step {
    std::int64_t n, group, z, p, q, rows, columns;
    bool same_band(const Step& other) const {
      return n == other.n && group == other.group && p == other.p && q == other.q;
    }
  };
  Step step_of(std::int64_t index) const;
  std::int64_t tiles_of(const Step& step) const;
  void find_columns(const Step& step);
  void begin_plane(const Step& step, std::int64_t plane, std::int64_t place, std::int64_t tiles);
  void write_zeros();
  void end_plane();
  void place_taps(std::int64_t place);
  void sum(const Step& step);
  void sum_filter(const Step& step, std::int64_t k, FieldRun<Real> run);
  static void correct(const void* context, std::int64_t row, std::int64_t rows, std::int64_t column,
                      std::int64_t count, Real* sums, std::int64_t step);
  Real sum_inside(std::int64_t p, std::int64_t q) const;

  const FieldLaunch<Real>& shared_;
  std::int64_t* outside_;  ///< of columns, as SlabLoad has them
  std::int64_t* offsets_;  ///< of rows
  TapColumns* taps_;
  TapColumn* columns_;
  std::int64_t taps_count_ = 0;
  Real* slab_;
  SlabLoad<Real> load_;
  std::int64_t without_zeros_ = 0;  ///< places of the ring to be loaded next, without the band's
  std::int64_t end_ = 0, last_place_ = 0;  ///< of the steps done last, and of the last one's planes
  // What correct() computes again.
  Step step_{};
  std::int64_t k_ = 0, row_ = 0, column_ = 0;
};

}  // namespace plumb
