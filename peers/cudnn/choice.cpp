#include "peers/cudnn/choice.hpp"

#include <algorithm>
#include <limits>

namespace plumb::cuda::cudnn {

const Timed* fastest(Accuracy accuracy, DType dtype, std::span<const Timed> timed) {
  const Timed* best = nullptr;
  for (const Timed& one : timed)
    if (admits(accuracy, dtype, *one.engine) && (!best || one.seconds < best->seconds)) best = &one;
  return best;
}

std::set<std::string> names_of_fastest(DType dtype, std::span<const Timed> timed) {
  std::set<std::string> names;
  for (const Accuracy accuracy : all_accuracies)
    if (const Timed* best = fastest(accuracy, dtype, timed)) names.insert(best->engine->name());
  return names;
}

bool lacks_a_class(DType dtype, std::span<const Timed> some, std::span<const Timed> all) {
  return std::any_of(all_accuracies.begin(), all_accuracies.end(), [&](Accuracy accuracy) {
    return fastest(accuracy, dtype, all) && !fastest(accuracy, dtype, some);
  });
}

bool serves_another_class(const Engine& engine, DType dtype, std::span<const Timed> timed) {
  return std::any_of(all_accuracies.begin(), all_accuracies.end(), [&](Accuracy accuracy) {
    return admits(accuracy, dtype, engine) && !fastest(accuracy, dtype, timed);
  });
}

double seconds_to_beat(DType dtype, std::span<const Timed> timed) {
  const Timed* best = fastest(Accuracy::fp32_sum, dtype, timed);
  return best ? best->seconds : std::numeric_limits<double>::infinity();
}

std::string_view to_string(Accuracy accuracy) {
  switch (accuracy) {
    case Accuracy::fp32: return "best.fp32";
    case Accuracy::tf32: return "best.tf32";
    case Accuracy::fp32_deterministic: return "deterministic.fp32";
    case Accuracy::tf32_deterministic: return "deterministic.tf32";
    case Accuracy::fp32_sum: return "sum.fp32";
    case Accuracy::tf32_sum: return "sum.tf32";
  }
  return "";
}

std::string describe(const Engine& engine) {
  std::string text = engine.name();
  if (engine.has(CUDNN_NUMERICAL_NOTE_FFT))
    text += ", FFT";
  else if (engine.transforms())
    text += ", Winograd";
  if (engine.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) text += ", tensor cores";
  if (engine.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) text += ", not deterministic";
  return text;
}

}  // namespace plumb::cuda::cudnn
