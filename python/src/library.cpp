// What the library says of devices and algorithms, and what proves and times them.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <string>

#include "arrays.hpp"
#include "candidates.hpp"
#include "parts.hpp"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"
#include "plumb/tune.hpp"
#include "plumb/validate.hpp"
#include "queues.hpp"

namespace plumb::python {

using namespace nanobind::literals;

nb::list candidates_as_list(const std::vector<ConvCandidate>& candidates) {
  nb::list list;
  for (const ConvCandidate& candidate : candidates) {
    nb::dict row;
    row["algorithm"] = text(candidate.algorithm);
    row["chosen"] = candidate.chosen;
    row["reason"] = text(to_string(candidate.support.reason));
    row["sentence"] = text(candidate.support.sentence);
    row["estimate_seconds"] = candidate.estimate_seconds;
    row["measured_seconds"] = candidate.measured_seconds
                                  ? nb::object(nb::float_(*candidate.measured_seconds))
                                  : nb::none();
    row["workspace_bytes"] = candidate.workspace_bytes;
    row["math"] = text(to_string(candidate.error_class));
    row["deterministic"] = candidate.deterministic;
    row["reproducible"] = candidate.reproducible;
    row["invariant"] = candidate.invariant;
    row["provider"] = text(candidate.provider);
    list.append(row);
  }
  return list;
}

namespace {

nb::list devices() {
  std::vector<BackendReport> reports;
  {
    const nb::gil_scoped_release released;
    reports = backend_reports();
  }
  nb::list list;
  for (const BackendReport& report : reports) {
    for (const DeviceInfo& info : report.devices) {
      nb::dict row;
      row["device"] = text(to_string(info.id));
      row["name"] = text(info.name);
      row["instruction_set"] = text(info.instruction_set);
      row["units"] = info.units;
      row["memory_bytes"] = info.memory_bytes;
      row["reason"] = text(to_string(Reason::none));
      row["sentence"] = text("");
      list.append(row);
    }
    if (!report.devices.empty()) continue;
    nb::dict row;
    row["device"] = text(report.name);
    row["name"] = text("");
    row["instruction_set"] = text("");
    row["units"] = 0;
    row["memory_bytes"] = 0;
    row["reason"] = text(to_string(report.reason));
    row["sentence"] = text(report.sentence);
    list.append(row);
  }
  return list;
}

nb::list providers() {
  std::vector<ProviderReport> reports;
  {
    const nb::gil_scoped_release released;
    reports = provider_reports();
  }
  nb::list list;
  for (const ProviderReport& report : reports) {
    nb::dict row;
    row["provider"] = text(report.name);
    row["backend"] = text(report.backend);
    row["version"] = text(report.version);
    row["path"] = text(report.path);
    row["reason"] = text(to_string(report.reason));
    row["sentence"] = text(report.sentence);
    list.append(row);
  }
  return list;
}

ConvProblem problem_from(nb::handle problem, nb::handle dtype) {
  const nb::object text =
      nb::isinstance<nb::str>(problem) ? nb::borrow(problem) : problem.attr("problem");
  ConvProblem parsed = parse_problem(nb::borrow<nb::str>(text).c_str()).problem;
  parsed.dtype = dtype_from(dtype);
  return parsed;
}

nb::list validate_problem(nb::handle problem, const char* device_name, nb::handle dtype,
                          nb::handle algorithm, std::uint64_t seed, nb::handle providers) {
  const ConvProblem parsed = problem_from(problem, dtype);
  const Device device = opened(device_name, providers_from(providers));
  const std::string only = algorithm.is_none() ? "" : nb::str(algorithm).c_str();
  std::vector<const ConvAlgorithm*> algorithms;
  for (const ConvAlgorithm* one : conv_algorithms(device))
    if (only.empty() ? !one->forced_only : one->name == only) algorithms.push_back(one);
  if (algorithms.empty())
    throw Error(ErrorCode::invalid_argument,
                "algorithm is " + only + "; " + device_name + " has none of that name");
  std::vector<ValidationRecord> records;
  {
    const nb::gil_scoped_release released;
    records =
        validate(device, algorithms, validation_case({}, parsed, Placement::nchw), {.seed = seed});
  }
  nb::list list;
  for (const ValidationRecord& record : records) {
    nb::dict row;
    row["algorithm"] = text(record.algorithm);
    row["tier"] = text(record.verdict == Verdict::unsupported ? "" : to_string(record.tier));
    row["verdict"] = text(to_string(record.verdict));
    row["reason"] = text(to_string(record.reason));
    row["sentence"] = text(record.sentence);
    row["max_error_over_bound"] = record.max_error_over_bound;
    row["provider"] = text(record.provider);
    list.append(row);
  }
  return list;
}

nb::list tune_problem(nb::handle problem, const char* device_name, nb::handle dtype, double seconds,
                      bool write, nb::handle providers) {
  const ConvProblem parsed = problem_from(problem, dtype);
  const Device device = opened(device_name, providers_from(providers));
  TuneOptions options;
  options.measure.seconds_limit = seconds;
  options.write = write;
  TuneResult result;
  {
    const nb::gil_scoped_release released;
    result = tune(device, parsed, options);
  }
  nb::list list;
  for (const TunedAlgorithm& tuned : result.algorithms) {
    nb::dict row;
    row["algorithm"] = text(tuned.algorithm);
    row["reason"] = text(to_string(tuned.support.reason));
    row["sentence"] = text(tuned.support ? tuned.measurement.unsteady : tuned.support.sentence);
    row["seconds"] = tuned.support && tuned.measurement.failure.empty()
                         ? nb::object(nb::float_(tuned.measurement.median_seconds))
                         : nb::none();
    row["estimate_seconds"] = tuned.estimate_seconds;
    row["workspace_bytes"] = tuned.workspace_bytes;
    list.append(row);
  }
  return list;
}

}  // namespace

void bind_library(nb::module_& module) {
  module.def("_devices", devices);
  module.def("_providers", providers);
  module.def("_validate", validate_problem, "problem"_a, "device"_a, "dtype"_a,
             "algorithm"_a.none(), "seed"_a, "providers"_a.none());
  module.def("_tune", tune_problem, "problem"_a, "device"_a, "dtype"_a, "seconds"_a, "write"_a,
             "providers"_a.none());
}

}  // namespace plumb::python
