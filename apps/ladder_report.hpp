// What plumb ladder has seen, as tables, as JSON and as a picture.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ladder_rungs.hpp"
#include "plot/bar_chart.hpp"
#include "plumb/plumb.hpp"
#include "time_pipeline.hpp"

namespace plumb::app {

/// One algorithm on a rung, measured.
struct LadderVariant {
  Measurement measurement;
  Math math = Math::fp32;
  double roofline_fraction = 0;
};

/// A rung on one layer: the variants that ran, the fastest first, or why there are none.
struct LadderRung {
  const Rung* rung = nullptr;
  std::vector<LadderVariant> variants = {};
  std::string missing = {};
  const LadderVariant* best() const { return variants.empty() ? nullptr : &variants.front(); }
};

/// The way from host memory to host memory, all pinned.
struct LayerTime {
  std::string_view algorithm = {};
  double op_seconds = 0;          ///< the kernel alone, on tensors that lie on the device
  double one_stream_seconds = 0;  ///< copy in, kernel, copy out, one after the other
  double pipeline_seconds = 0;    ///< overlapped
  StageSeconds stages = {};
  double max_error_over_bound = 0;
};

struct BatchTime {
  std::int64_t n = 0;
  LayerTime time;
};

struct LadderLayer {
  std::string name;
  ConvProblem problem;           ///< as it was measured
  std::int64_t asked_batch = 0;  ///< N before it was cut to what memory holds
  double roofline_seconds = 0;   ///< of fp32
  double clock_hertz = 0;
  std::vector<LadderRung> rungs = {};
  LayerTime with_copies = {};
  std::vector<BatchTime> batches = {};
};

/// `all`: every variant of a rung, not the best alone.
void print(const LadderLayer& layer, bool all);
void print_batches(const std::vector<LadderLayer>& layers);
void write_ladder(const std::string& path, const Device& device, const DeviceCeilings& ceilings,
                  const std::vector<LadderLayer>& layers);
/// A panel for each layer, a bar for each rung that the device's backend has.
BarChart ladder_chart(const std::vector<LadderLayer>& layers, const Device& device);

}  // namespace plumb::app
