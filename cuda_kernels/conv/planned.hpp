// An algorithm's plan may be a single value, such as the tiles of each slice of the batch.
#pragma once

#include <memory>
#include <utility>

#include "plumb/algorithm.hpp"

namespace plumb::cuda {

template <class Value>
struct Planned final : KernelPlan {
  Value value;
  explicit Planned(Value of_plan) : value(std::move(of_plan)) {}
};

/// Wraps `value` as PlanResult::kernel holds it.
template <class Value>
std::shared_ptr<const KernelPlan> planned(Value value) {
  return std::make_shared<Planned<Value>>(std::move(value));
}

/// Returns the value given to planned(), in pack_filters() and launch() of the same algorithm.
template <class Value>
const Value& planned_value(const KernelPlan* plan) {
  return static_cast<const Planned<Value>&>(*plan).value;
}

}  // namespace plumb::cuda
