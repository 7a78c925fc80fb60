#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {

/// The symbol is weak because fit_costs.cpp defines it anew.
[[gnu::weak]] const CostTables& cost_tables() {
  static constexpr CostTables tables;
  return tables;
}

}  // namespace plumb::cuda
