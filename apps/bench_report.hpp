// What a bench has seen, as a table and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plumb/plumb.hpp"

namespace plumb::app {

/// One algorithm on one problem.
struct BenchRecord {
  Measurement measurement;
  Math math = Math::fp32;                    ///< that its arithmetic keeps, for the problem's type
  bool peer = false;                         ///< another library's
  bool deterministic = true;                 ///< the same bits every time, as its numerics promise
  bool reproducible = false;                 ///< the bits that are specified were asked for
  double roofline_fraction = 0;              ///< of the speed that the device's ceilings leave
  std::string compared_with;                 ///< the fastest peer of no less accuracy; empty: none
  double speed_over_peer = 0;                ///< its time over ours: above 1 ours is faster
  std::string deterministic_peer;            ///< the fastest of those that are deterministic
  double speed_over_deterministic_peer = 0;  ///< likewise
};

struct BenchRefusal {
  std::string_view algorithm;
  Support support;
};

/// All that is known of one problem.
struct BenchCase {
  ValidationCase test;           ///< as it was measured
  std::int64_t asked_batch = 0;  ///< N before it was cut to what memory holds
  int buffer_sets = 1;
  double clock_hertz = 0;
  std::vector<BenchRecord> records;
  std::vector<BenchRefusal> refusals;
};

void print(const BenchCase& bench);
struct BenchSummary;
nlohmann::ordered_json to_json(const Device& device, const DeviceCeilings& ceilings,
                               const MeasureOptions& options, const std::vector<BenchCase>& benches,
                               const BenchSummary& summary);

/// UTC, "2026-01-31T12:00:00Z".
std::string timestamp();

}  // namespace plumb::app
