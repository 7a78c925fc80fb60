// plumb info: what this machine offers.
#include <fmt/format.h>

#include <memory>

#include "commands.hpp"
#include "device_check.hpp"
#include "json_file.hpp"
#include "plumb/plumb.hpp"

namespace plumb::app {
namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

/// A backend, and what came of trying each of its devices.
struct Tried {
  BackendReport report;
  std::vector<Support> devices;
};

std::vector<Tried> try_all() {
  std::vector<Tried> all;
  for (BackendReport& report : backend_reports()) {
    Tried tried{.report = std::move(report), .devices = {}};
    for (const DeviceInfo& device : tried.report.devices)
      tried.devices.push_back(try_device(to_string(device.id)));
    all.push_back(std::move(tried));
  }
  return all;
}

nlohmann::ordered_json to_json(const DeviceInfo& device, const Support& works) {
  return {{"device", to_string(device.id)},
          {"name", device.name},
          {"instruction_set", device.instruction_set},
          {"units", device.units},
          {"memory_bytes", device.memory_bytes},
          {"shared_memory_bytes", device.shared_memory_bytes},
          {"driver_version", device.driver_version},
          {"works", static_cast<bool>(works)},
          {"reason", to_string(works.reason)},
          {"sentence", works.sentence}};
}

nlohmann::ordered_json to_json(const Tried& tried) {
  const BackendReport& report = tried.report;
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < report.devices.size(); ++i)
    devices.push_back(to_json(report.devices[i], tried.devices[i]));
  return {{"name", report.name},
          {"version", report.version},
          {"reason", to_string(report.reason)},
          {"sentence", report.sentence},
          {"devices", std::move(devices)}};
}

void print(const Tried& tried) {
  const BackendReport& report = tried.report;
  fmt::print("{:<10} {}\n", report.name,
             report.version.empty() ? std::string("not loaded") : report.version);
  if (report.devices.empty())
    fmt::print("           none: {} ({})\n", report.sentence, to_string(report.reason));
  for (std::size_t i = 0; i < report.devices.size(); ++i) {
    const DeviceInfo& device = report.devices[i];
    const Support& works = tried.devices[i];
    fmt::print("           {}  {}, {}, {} {}, {:.1f} GiB\n", to_string(device.id), device.name,
               device.instruction_set, device.units,
               device.compute_major > 0 ? "multiprocessors" : "threads",
               static_cast<double>(device.memory_bytes) / gib);
    if (!works)
      fmt::print("           does not work: {} ({})\n", works.sentence, to_string(works.reason));
  }
}

void print(const TuneCacheReport& tuning) {
  if (!tuning.sentence.empty()) {
    fmt::print("tuning     none: {}\n", tuning.sentence);
    return;
  }
  fmt::print("tuning     {}: {} problems tuned on the device of auto", shown_path(tuning.path),
             tuning.problems);
  if (tuning.stale > 0) fmt::print(", {} with another driver or Plumb", tuning.stale);
  fmt::print("\n");
}

void print(const ProviderReport& report) {
  fmt::print("{:<10} {} on {}\n", report.name,
             report.version.empty() ? std::string("not opened") : report.version, report.backend);
  if (!report.path.empty()) fmt::print("           {}\n", shown_path(report.path));
  if (report.reason != Reason::none)
    fmt::print("           cannot be used: {} ({})\n", report.sentence, to_string(report.reason));
}

nlohmann::ordered_json to_json(const ProviderReport& report) {
  return {
      {"name", report.name}, {"backend", report.backend},          {"version", report.version},
      {"path", report.path}, {"reason", to_string(report.reason)}, {"sentence", report.sentence}};
}

void run(const std::string& json_path) {
  if (!json_path.empty()) require_writable(json_path);
  const std::vector<Tried> backends_tried = try_all();
  const Device automatic = Device::open("auto");

  fmt::print("plumb      {}\n", version);
  for (const Tried& tried : backends_tried) print(tried);
  fmt::print("auto       {}\n", to_string(automatic.id()));
  if (!automatic.why().empty()) fmt::print("           passed over: {}\n", automatic.why());
  const TuneCacheReport tuning = tune_cache_report(automatic);
  print(tuning);
  const std::vector<ProviderReport> providers = provider_reports();
  fmt::print("\nOther libraries, whose algorithms may be listed (PLUMB_PROVIDERS, --providers):\n");
  for (const ProviderReport& report : providers) print(report);

  if (json_path.empty()) return;
  nlohmann::ordered_json backends = nlohmann::ordered_json::array();
  for (const Tried& tried : backends_tried) backends.push_back(to_json(tried));
  nlohmann::ordered_json libraries = nlohmann::ordered_json::array();
  for (const ProviderReport& report : providers) libraries.push_back(to_json(report));
  write_json(json_path, {{"version", version},
                         {"auto", to_string(automatic.id())},
                         {"auto_why", automatic.why()},
                         {"tuning",
                          {{"path", tuning.path},
                           {"problems", tuning.problems},
                           {"stale", tuning.stale},
                           {"sentence", tuning.sentence}}},
                         {"backends", std::move(backends)},
                         {"providers", std::move(libraries)}});
}

}  // namespace

void add_info(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("info", "List devices and backends, and say why one cannot be used");
  const auto json_path = std::make_shared<std::string>();
  command->add_option("--json", *json_path, "Also write the list to this file as JSON");
  command->footer("Example:\n  plumb info --json machine.json");
  command->callback([json_path] { run(*json_path); });
}

}  // namespace plumb::app
