// The rungs of the ladder: techniques in the order in which one leads to the next.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "plumb/plumb.hpp"

namespace plumb::app {

/// How a rung's time comes about.
enum class RungKind {
  technique,  ///< the best of the algorithms that its patterns name
  chosen,     ///< what a plan takes by estimate, without tuning
  pipeline,   ///< the whole way from host memory to host memory
  tuned,      ///< the fastest of all that plans may choose from
};

struct Rung {
  int number;
  std::string_view title;
  RungKind kind = RungKind::technique;
  std::string_view pattern = {};            ///< of algorithm names, with * and ?
  std::string_view except = {};             ///< but not these
  std::string_view pattern_elsewhere = {};  ///< of the same technique's on the CPU or in Kokkos
};

std::span<const Rung> ladder_rungs();

/// Whether the algorithm is one of the rung's variants.
bool is_variant(const Rung& rung, const ConvAlgorithm& algorithm);

/// Whether the technique is one that the backend has no algorithm for, so that its rung is empty
/// there whatever the problem. Rungs of other kinds are everywhere.
bool is_elsewhere(const Rung& rung, std::span<const ConvAlgorithm* const> algorithms);

/// What a variant's name has beyond its technique and arithmetic: "16x16", "restrict"; often
/// nothing.
std::string_view variant_name(std::string_view algorithm);

}  // namespace plumb::app
