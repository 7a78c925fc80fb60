// Fuzzes the text of the tuning cache: what is damaged gives no entries, and what is accepted is
// the same after it is written again.
#include "core/src/tune/cache_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace {

using plumb::ParsedTuneCache;
using plumb::TuneEntry;

/// Times are written with six digits, so one that was read may differ in the last.
bool same(const TuneEntry& a, const TuneEntry& b) {
  return a.key == b.key &&
         std::equal(a.times.begin(), a.times.end(), b.times.begin(), b.times.end(),
                    [](const plumb::TunedTime& s, const plumb::TunedTime& t) {
                      return s.algorithm == t.algorithm &&
                             (s.seconds == t.seconds ||
                              std::abs(s.seconds - t.seconds) <= 1e-5 * s.seconds);
                    });
}

void require_well_read(std::string_view text) {
  const ParsedTuneCache parsed = plumb::parse_tune_cache(text);
  if (!parsed.damage.empty()) {
    if (!parsed.entries.empty()) std::abort();
    return;
  }
  if (!parsed.ours) std::abort();
  const std::string written = plumb::write_tune_cache(parsed.entries);
  const ParsedTuneCache again = plumb::parse_tune_cache(written);
  if (!again.damage.empty() ||
      !std::equal(again.entries.begin(), again.entries.end(), parsed.entries.begin(),
                  parsed.entries.end(), same) ||
      plumb::write_tune_cache(again.entries) != written)
    std::abort();
}

/// The input as the lines of a file whose first and last line are right: no search finds a
/// checksum.
std::string sealed(std::string_view lines) {
  std::string text = plumb::write_tune_cache({});
  text.resize(text.rfind("end "));
  text += lines;
  if (!text.ends_with('\n')) text += '\n';
  std::size_t entries = 0;
  for (std::size_t at = 0; (at = text.find("\nproblem ", at)) != std::string::npos; ++at) ++entries;
  return plumb::sealed_tune_cache(std::move(text), entries);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  require_well_read(text);
  require_well_read(sealed(text));
  return 0;
}
