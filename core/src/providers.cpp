// Names of other libraries are those that the list of backends has.
#include "providers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <vector>

#include "environment.hpp"
#include "plumb/backend.hpp"
#include "plumb/did_you_mean.hpp"
#include "plumb/error.hpp"
#include "plumb/quote.hpp"

namespace plumb {
namespace {

constexpr std::string_view nobody = "none";

/// What was asked for, and where.
struct Asked {
  std::string names;
  std::string_view by;
};
Asked asked_for(std::string_view providers) {
  if (!providers.empty()) return {std::string(providers), "providers"};
  return {environment("PLUMB_PROVIDERS"), "PLUMB_PROVIDERS"};
}

/// The same list as long as the process lives: one for each backend and choice of libraries.
std::span<const ConvAlgorithm* const> kept(std::vector<const ConvAlgorithm*> algorithms) {
  constinit static std::mutex mutex;
  static auto& lists = *new std::set<std::vector<const ConvAlgorithm*>>;
  const std::lock_guard lock(mutex);
  return *lists.insert(std::move(algorithms)).first;
}

/// Between the name of an algorithm and the version of its library.
constexpr std::string_view of = " of ";

}  // namespace

std::vector<std::string> provider_names(std::string_view providers) {
  const Asked asked = asked_for(providers);
  std::vector<std::string> names;
  if (asked.names.empty() || asked.names == nobody) return names;
  std::vector<std::string_view> known;
  for (const BackendSource& source : backend_list())
    if (!source.provider.empty()) known.push_back(source.provider);
  for (std::size_t begin = 0; begin <= asked.names.size();) {
    const std::size_t end = std::min(asked.names.find(',', begin), asked.names.size());
    std::string name = asked.names.substr(begin, end - begin);
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("{} has {}; expected {}, with commas between, or {}{}", asked.by,
                      quoted(name), fmt::join(known, " and "), nobody, did_you_mean(name, known)));
    names.push_back(std::move(name));
    begin = end + 1;
  }
  return names;
}

std::span<const ConvAlgorithm* const> listed(std::span<const ConvAlgorithm* const> all,
                                             const std::vector<std::string>& names) {
  std::vector<const ConvAlgorithm*> algorithms;
  for (const ConvAlgorithm* algorithm : all)
    if (!algorithm->provider ||
        std::find(names.begin(), names.end(), algorithm->provider->name) != names.end())
      algorithms.push_back(algorithm);
  return kept(std::move(algorithms));
}

std::string tuned_name(const ConvAlgorithm& algorithm) {
  std::string name(algorithm.name);
  return algorithm.provider ? fmt::format("{}{}{}", name, of, algorithm.provider->library().version)
                            : name;
}

std::optional<double> time_of(const TunedTimes& tuned, const ConvAlgorithm& algorithm) {
  if (tuned.times.empty()) return std::nullopt;
  const std::string wanted = tuned_name(algorithm);
  for (const TunedTime& time : tuned.times)
    if (time.algorithm == wanted) return time.seconds;
  return std::nullopt;
}

Support refused_unmeasured(const ConvAlgorithm& algorithm, const TunedTimes& tuned,
                           const std::optional<double>& seconds) {
  const LibraryReport library = algorithm.provider->library();
  if (library.reason != Reason::none) return {library.reason, library.sentence};
  if (seconds) return {};
  const std::string prefix = fmt::format("{}{}", algorithm.name, of);
  for (const TunedTime& time : tuned.times)
    if (time.algorithm.starts_with(prefix))
      return {Reason::not_measured,
              fmt::format("was timed with {}; this is {}",
                          std::string_view(time.algorithm).substr(prefix.size()), library.version)};
  return {Reason::not_measured, "another library's, chosen by a measured time alone; it has none"};
}

std::vector<ProviderReport> provider_reports() {
  std::vector<ProviderReport> reports;
  for (const BackendSource& source : backend_list()) {
    if (source.provider.empty()) continue;
    const LoadedBackend loaded = load_backend(source.name);
    ProviderReport report{.name = std::string(source.provider),
                          .backend = std::string(source.name),
                          .version = {},
                          .path = {},
                          .reason = loaded.reason,
                          .sentence = loaded.sentence};
    if (loaded.backend) {
      report.reason = Reason::provider_missing;
      report.sentence = fmt::format("this build of {} has no algorithms of it", source.name);
      for (const ConvAlgorithm* algorithm : loaded.backend->conv_algorithms()) {
        if (!algorithm->provider || algorithm->provider->name != source.provider) continue;
        LibraryReport found = algorithm->provider->library();
        report.version = std::move(found.version);
        report.path = std::move(found.path);
        report.reason = found.reason;
        report.sentence = std::move(found.sentence);
        break;
      }
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace plumb
