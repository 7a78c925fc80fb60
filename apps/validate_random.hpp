// plumb validate --random: problems from the whole space.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "options.hpp"
#include "plumb/plumb.hpp"

namespace plumb::app {

struct RandomArguments {
  std::int64_t count = -1;             ///< of problems in all shares; below 0: none are drawn
  Share share;                         ///< of those problems
  double seconds = 0;                  ///< after which no more are begun; 0: no limit
  std::int64_t failures = 0;           ///< after so many no more are begun; 0: no limit
  double products = 0;                 ///< multiplications of one problem at most; 0: the default
  std::uint64_t seed = 1;              ///< of the problems, and with their number of their data
  std::vector<Tier> tiers;             ///< to be judged by
  std::optional<Direction> direction;  ///< of all; without it of every kind
  std::string math, json;              ///< as elsewhere; empty: none
};

/// Draws problems, runs the algorithms that take them, shrinks what fails, prints and writes what
/// came of it. ValidationFailure where something failed or nothing was run.
void validate_random(const Device& device, std::span<const ConvAlgorithm* const> algorithms,
                     const RandomArguments& arguments);

}  // namespace plumb::app
