// The plan of an algorithm that decides one value, such as the tiles of each slice of the batch.
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

/// For PlanResult::kernel.
template <class Value>
std::shared_ptr<const KernelPlan> planned(Value value) {
  return std::make_shared<Planned<Value>>(std::move(value));
}

/// What planned() was given, in pack_filters() and launch() of the same algorithm.
template <class Value>
const Value& planned_value(const KernelPlan* plan) {
  return static_cast<const Planned<Value>&>(*plan).value;
}

}  // namespace plumb::cuda
