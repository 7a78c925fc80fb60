// Which of the engines that were timed serves which class of accuracy. There is nothing of a GPU
// here.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "peers/cudnn/engine.hpp"

namespace plumb::cuda::cudnn {

/// An engine with its seconds for a run.
struct Timed {
  std::shared_ptr<const Engine> engine;
  double seconds;
};

/// The fastest of a class for tensors stored so; of equals the first. Null where there is none.
const Timed* fastest(Accuracy accuracy, DType dtype, std::span<const Timed> timed);

/// The names of the fastest of each class.
std::set<std::string> names_of_fastest(DType dtype, std::span<const Timed> timed);

/// Whether some class has an engine among `all` and none among `some`.
bool lacks_a_class(DType dtype, std::span<const Timed> some, std::span<const Timed> all);

/// Whether the engine is of a class that none of those timed is of.
bool serves_another_class(const Engine& engine, DType dtype, std::span<const Timed> timed);

/// The fastest seconds of those that serve every class but one that asks for tensor cores: an
/// engine that is far slower is the fastest of no class that has one. Infinity where there is none.
double seconds_to_beat(DType dtype, std::span<const Timed> timed);

/// As in the algorithms' names, without the type: "best.fp32", "deterministic.tf32".
std::string_view to_string(Accuracy accuracy);
/// "engine 6, knobs 2=7, Winograd, tensor cores, not deterministic", for people.
std::string describe(const Engine& engine);

}  // namespace plumb::cuda::cudnn
