// Adds up the tensors of a trial, each of which lies on the host and on the device.
#include "memory.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "../memory_need.hpp"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"

namespace plumb {
namespace {

double span_bytes(DType dtype, const Extents& extents, const Strides& strides) {
  double elements = 1;
  for (int i = 0; i < extents.rank(); ++i)
    elements += static_cast<double>(std::max<std::int64_t>(extents[i] - 1, 0)) *
                std::abs(static_cast<double>(strides[i]));
  constexpr double guards = 2048;
  return elements * static_cast<double>(size_in_bytes(dtype)) + guards;
}

/// Of a checked problem, for an algorithm with so much workspace: no less than its trial allocates.
MemoryNeed validation_memory(const ValidationCase& test, const ValidationOptions& options,
                             std::size_t workspace_bytes) {
  const ConvProblem& p = test.problem;
  const auto span = [&](const ConvOperand& operand) {
    return span_bytes(p.dtype, operand.extents, operand.strides);
  };
  const double x = span(image_of(p)), w = span(filters_of(p)), y = span(output_of(p));
  const double bias = test.bias ? static_cast<double>(bias_elements(p)) * 8 : 0;
  // And dy with zeros, in doubles once, while it is masked.
  const auto dy = static_cast<double>(element_count(p.y_extents()));
  const double mask =
      test.relu_mask ? 2 * span_bytes(p.dtype, p.y_extents(), dense_strides(p.y_extents())) + 8 * dy
                     : 0;
  const bool repeats = std::find(options.tiers.begin(), options.tiers.end(), Tier::repeatable) !=
                       options.tiers.end();
  // What y held before is another. Two runs are held against each other, beside two threads with an
  // output and a workspace each; otherwise filters packed before are held against those packed in
  // the launch, with another w.
  const double outputs = (repeats ? 4 : 2) + (test.accumulate ? 1 : 0);
  const double workspaces = repeats ? 2 : 1;
  const double tensors =
      x + 2 * w + bias + mask + outputs * y + workspaces * static_cast<double>(workspace_bytes);
  // The expected outputs, a term and its place each, and the copy of an input that was read back.
  constexpr double bytes_of_a_point = 64, max_points = 4e6;
  const double points =
      std::min(max_points, static_cast<double>(element_count(output_of(p).extents)));
  // Which bytes are elements is a bit for each.
  const double bits = std::max(y, static_cast<double>(workspace_bytes)) / 8;
  return {.host_bytes = tensors + std::max(x, w) + bits + points * bytes_of_a_point,
          .device_bytes = tensors};
}

ValidationRecord refusal(const Device& device, const ConvAlgorithm& algorithm,
                         const ValidationCase& test, const Support& support) {
  ValidationRecord record;
  record.problem = to_string(test.problem);
  record.name = test.name;
  record.direction = test.problem.direction;
  record.dtype = test.problem.dtype;
  record.placement = test.placement;
  record.accumulate = test.accumulate;
  record.relu_mask = test.relu_mask;
  record.device = to_string(device.id());
  record.algorithm = algorithm.name;
  if (algorithm.provider) record.provider = algorithm.provider->library().version;
  record.verdict = Verdict::unsupported;
  record.reason = support.reason;
  record.sentence = support.sentence;
  return record;
}

/// Whether the algorithm runs, for which it has the better reason, and then whether memory holds
/// it.
Support held(const Device& device, const ConvAlgorithm& algorithm, const ValidationCase& test,
             const ValidationOptions& options) {
  const ConvCandidate candidate =
      ask(algorithm, test.problem, device.info(), test.accumulate, test.relu_mask);
  if (!candidate.support) return candidate.support;
  return fits(device, validation_memory(test, options, candidate.workspace_bytes), "validating");
}

}  // namespace

std::vector<ValidationRecord> judge_within_memory(const Device& device,
                                                  std::span<const ConvAlgorithm* const> algorithms,
                                                  const ValidationCase& test,
                                                  const ValidationOptions& options,
                                                  const JudgeAll& judge) {
  ValidationCase checked = test;
  checked.problem = check(test.problem);
  std::vector<const ConvAlgorithm*> judged;
  std::vector<ValidationRecord> records;
  for (const ConvAlgorithm* algorithm : algorithms)
    if (const Support support = held(device, *algorithm, checked, options); support)
      judged.push_back(algorithm);
    else
      records.push_back(refusal(device, *algorithm, checked, support));
  const auto ran_out = [&](const char* message) {
    for (const ConvAlgorithm* algorithm : judged)
      records.push_back(refusal(device, *algorithm, checked, {Reason::out_of_memory, message}));
    return records;
  };
  if (judged.empty()) return records;
  try {
    const auto verdicts = judge(judged);
    records.insert(records.end(), verdicts.begin(), verdicts.end());
    return records;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::out_of_memory) throw;
    return ran_out(e.what());
  } catch (const std::bad_alloc&) {
    return ran_out("the host's memory ran out");
  }
}

}  // namespace plumb
