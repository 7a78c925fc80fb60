// The text of the tuning cache.
//
//   plumb tune cache 1
//   problem f32 g1mb10000ic1... x 7396,7396,86,1 w 49,49,7,1 y 25600,6400,80,1
//   device NVIDIA H200, sm_90, 132 units
//   software plumb 0.1.0, driver 13000
//   seconds 7.5e-04 cuda.conv.direct.fp32
//   seconds inf cuda.conv.one_that_failed
//   end 1 c8f1a7e2b5d3906f
//
// An entry is its problem, device and software, and a line for each algorithm. The last line has
// the number of entries and a checksum of all before it, so that a part of a file, or one that was
// changed by hand or by a disk, is not taken for the whole.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plumb/conv.hpp"
#include "plumb/tune.hpp"

namespace plumb {

/// Where times hold: each a line of text.
struct TuneKey {
  std::string problem;   ///< sizes, stored type and strides
  std::string device;    ///< its name and size, whatever its index
  std::string software;  ///< Plumb and the driver
  friend auto operator<=>(const TuneKey&, const TuneKey&) = default;
};
TuneKey tune_key(const DeviceInfo& device, const ConvProblem& problem);

struct TuneEntry {
  TuneKey key;
  std::vector<TunedTime> times;
};

std::string write_tune_cache(const std::vector<TuneEntry>& entries);
/// All but the last line of a file with so many entries, and that line.
std::string sealed_tune_cache(std::string text, std::size_t entries);

struct ParsedTuneCache {
  std::vector<TuneEntry> entries;
  bool ours = true;    ///< begins as a tuning cache does (or is empty), damaged or not
  std::string damage;  ///< what is wrong with it, and then there are no entries
};
ParsedTuneCache parse_tune_cache(std::string_view text);

}  // namespace plumb
