// Devices, queues and events: thin handles over what a backend provides.
#include "plumb/device.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdio>
#include <span>

#include "environment.hpp"
#include "plan_cache.hpp"
#include "plumb/backend.hpp"
#include "plumb/did_you_mean.hpp"
#include "plumb/quote.hpp"
#include "probed_backend.hpp"
#include "providers.hpp"
#include "queue_workspace.hpp"

namespace plumb {

struct [[gnu::visibility("hidden")]] Device::State {
  void pass_over(std::string_view name, Reason reason, std::string sentence) {
    why += fmt::format("{}{}: {} ({})", why.empty() ? "" : "; ", name, sentence, to_string(reason));
    passed_over.push_back({name, reason, std::move(sentence)});
  }

  /// Takes the device, with its own algorithms and those of the providers.
  void take(std::unique_ptr<BackendDevice> opened) {
    const LoadedBackend loaded = load_backend(opened->info().id.backend);
    algorithms = listed(loaded.backend->conv_algorithms(), providers);
    backend = std::move(opened);
  }

  std::unique_ptr<BackendDevice> backend;
  std::span<const ConvAlgorithm* const> algorithms;
  std::vector<std::string> providers;
  bool automatic = false;  ///< chosen by `auto`
  std::vector<PassedOver> passed_over;
  std::string why;
  PlanCache plans;
  DeviceOptions options;
};

namespace {

struct Spec {
  std::string_view backend;
  int index = 0;
  std::string_view alias = {};  ///< in place of the index
};

Spec parse_spec(std::string_view text) {
  const std::size_t colon = text.find(':');
  Spec spec{text.substr(0, colon)};
  if (colon == std::string_view::npos) return spec;
  const std::string_view which = text.substr(colon + 1);
  if (!which.empty() && which[0] >= 'a' && which[0] <= 'z') {
    spec.alias = which;
    return spec;
  }
  const char* end = which.data() + which.size();
  const auto [stop, error] = std::from_chars(which.data(), end, spec.index);
  if (which.empty() || error != std::errc{} || stop != end || spec.index < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is no index; expected a name like cuda or cuda:1", quoted(which)));
  return spec;
}

/// The index of the device that goes by this alias.
int index_of(std::string_view alias, std::span<const DeviceInfo> devices) {
  std::vector<std::string_view> known;
  for (const DeviceInfo& device : devices) {
    if (device.alias == alias) return device.id.index;
    if (!device.alias.empty()) known.push_back(device.alias);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} is no device of it; expected an index or one of {}{}", quoted(alias),
                          fmt::join(known, ", "), did_you_mean(alias, known)));
}

/// Refuses a name in the place of an index where the backend, whether it can be had or not, has
/// indices alone: a wrong name is no missing driver.
void check_alias(const Spec& spec) {
  if (spec.alias.empty()) return;
  for (const BackendSource& source : backend_list())
    if (source.name == spec.backend && !source.has_aliases)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} is no index; devices of {} have indices alone, as in {}:0",
                              quoted(spec.alias), source.name, source.name));
}

[[noreturn]] void refuse(Reason obstacle, const std::string& sentence) {
  throw Error(
      obstacle == Reason::out_of_memory ? ErrorCode::out_of_memory : ErrorCode::device_unavailable,
      sentence, obstacle);
}

/// Throws Error: device_unavailable, out_of_memory, or invalid_argument for a name that no backend
/// has.
std::unique_ptr<BackendDevice> open_backend_device(const Spec& spec) {
  check_alias(spec);
  const auto [backend, probe] = probed_backend(spec.backend);
  const int index = spec.alias.empty() ? spec.index : index_of(spec.alias, probe.devices);
  if (index >= static_cast<int>(probe.devices.size()))
    refuse(Reason::no_device,
           fmt::format("no device {}:{}; there {} {}", spec.backend, index,
                       probe.devices.size() == 1 ? "is" : "are", probe.devices.size()));
  return backend.open(index);
}

/// Whether another device might do better.
bool is_of_the_device(const Error& failure) {
  return failure.code() == ErrorCode::out_of_memory ||
         failure.code() == ErrorCode::device_failure ||
         failure.code() == ErrorCode::device_unavailable;
}

/// Never `none`, which would read as if nothing were in the way.
Reason reason_of(const Error& failure) {
  if (failure.reason() != Reason::none) return failure.reason();
  return failure.code() == ErrorCode::out_of_memory ? Reason::out_of_memory : Reason::device_error;
}

}  // namespace

ProbedBackend probed_backend(std::string_view name) {
  const LoadedBackend loaded = load_backend(name);
  if (loaded.reason == Reason::unknown_backend)
    throw Error(ErrorCode::invalid_argument, loaded.sentence, loaded.reason);
  if (!loaded.backend) refuse(loaded.reason, loaded.sentence);
  BackendProbe probe = loaded.backend->probe();
  if (probe.devices.empty()) refuse(probe.reason, probe.sentence);
  return {*loaded.backend, std::move(probe)};
}

std::string to_string(const DeviceId& id) {
  return id == host ? std::string(id.backend) : fmt::format("{}:{}", id.backend, id.index);
}

double DeviceCeilings::flop_per_second(Math math) const {
  switch (math) {
    case Math::fp64: return fp64_flop_per_second;
    case Math::fp32: return fp32_flop_per_second;
    case Math::tf32: return tf32_flop_per_second;
    case Math::bf16: return bf16_flop_per_second;
    case Math::fp16: return fp16_flop_per_second;
  }
  return 0;
}

Device Device::open(std::string_view spec, DeviceOptions options) {
  if (!options.allocator.allocate != !options.allocator.deallocate)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("device {}: an allocator that cannot {}; expected both functions, or "
                            "neither",
                            quoted(spec), options.allocator.allocate ? "deallocate" : "allocate"));
  const std::string from_environment = spec.empty() ? environment("PLUMB_DEVICE") : "";
  if (spec.empty()) spec = from_environment.empty() ? std::string_view("auto") : from_environment;

  const auto state = std::make_shared<State>();
  try {
    state->providers = provider_names(options.providers);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("device {}: {}", quoted(spec), e.what()));
  }
  state->options = std::move(options);
  if (spec != "auto") {
    try {
      state->take(open_backend_device(parse_spec(spec)));
    } catch (const Error& e) {
      throw Error(e.code(), fmt::format("device {}: {}", quoted(spec), e.what()), e.reason());
    }
    return Device(state);
  }
  state->automatic = true;
  for (const BackendSource& source : backend_list()) {
    if (source.by_name_only) continue;
    // Every device of a backend is tried: the first may be one that there is no code for.
    const LoadedBackend loaded = load_backend(source.name);
    const std::size_t count = loaded.backend ? loaded.backend->probe().devices.size() : 0;
    for (int index = 0; index < std::max(1, static_cast<int>(count)); ++index) {
      try {
        state->take(open_backend_device({source.name, index}));
        const Device device(state);
        if (!state->why.empty() && device.logs())
          device.log(
              fmt::format("auto is {}; passed over: {}", to_string(device.id()), state->why));
        return device;
      } catch (const Error& e) {
        state->pass_over(source.name, reason_of(e), e.what());
      }
    }
  }
  throw Error(ErrorCode::device_unavailable, "no device at all: " + state->why);
}

Device Device::fall_back(const Error& failure) const {
  if (!state_->automatic || id() == host || !is_of_the_device(failure)) throw failure;
  const auto state = std::make_shared<State>();
  state->options.providers = options().providers;
  state->providers = state_->providers;
  state->take(open_backend_device({host.backend}));
  state->automatic = true;
  state->passed_over = state_->passed_over;
  state->why = state_->why;
  state->pass_over(id().backend, reason_of(failure),
                   fmt::format("{} failed: {}", to_string(id()), failure.what()));
  state->options.log = options().log;
  const Device cpu(state);
  if (cpu.logs()) cpu.log(fmt::format("goes on with the CPU; passed over: {}", cpu.why()));
  return cpu;
}

const DeviceInfo& Device::info() const { return state_->backend->info(); }
std::size_t Device::free_bytes() const { return state_->backend->free_bytes(); }
const std::vector<PassedOver>& Device::passed_over() const { return state_->passed_over; }
const std::string& Device::why() const { return state_->why; }
DeviceCeilings Device::measure_ceilings() const { return state_->backend->measure_ceilings(); }
double Device::measure_clock_hertz() const { return state_->backend->clock_hertz(); }
BackendDevice& Device::backend() const { return *state_->backend; }
PlanCache& Device::plans() const { return state_->plans; }
const DeviceOptions& Device::options() const { return state_->options; }
std::span<const ConvAlgorithm* const> Device::algorithms() const { return state_->algorithms; }

bool Device::logs() const { return options().log || environment_flag("PLUMB_VERBOSE"); }
void Device::log(std::string_view line) const {
  if (options().log)
    options().log(line);
  else
    fmt::print(stderr, "plumb: {}\n", line);
}

void* Device::allocate(std::size_t bytes, Memory memory) const {
  bytes = std::max<std::size_t>(bytes, 1);
  if (!options().allocator.allocate) return backend().allocate(bytes, memory);
  return allocate_by_caller(*this, bytes, memory, nullptr);
}
void Device::deallocate(void* data, std::size_t bytes, Memory memory) const noexcept {
  if (!data) return;
  if (options().allocator.deallocate)
    options().allocator.deallocate(data, std::max<std::size_t>(bytes, 1), memory, nullptr);
  else
    backend().deallocate(data, memory);
}

std::vector<BackendReport> backend_reports() {
  std::vector<BackendReport> reports;
  for (const BackendSource& source : backend_list()) {
    const LoadedBackend loaded = load_backend(source.name);
    BackendReport report{
        .name = std::string(source.name), .reason = loaded.reason, .sentence = loaded.sentence};
    if (loaded.backend) {
      BackendProbe probe = loaded.backend->probe();
      report.version = loaded.backend->version();
      report.reason = probe.reason;
      report.sentence = std::move(probe.sentence);
      report.devices = std::move(probe.devices);
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

void Event::synchronize() const { backend_->synchronize(); }
bool Event::done() const { return backend_->done(); }

double seconds_between(const Event& from, const Event& to) {
  from.synchronize();
  to.synchronize();
  return to.backend()->seconds_since(*from.backend());
}

Queue::Queue(const Device& device) : Queue(device, device.backend().make_queue()) {}
Queue::Queue(const Device& device, std::shared_ptr<BackendQueue> backend)
    : device_(device),
      backend_(std::move(backend)),
      workspace_(device.options().allocator.allocate
                     ? std::make_shared<QueueWorkspace>(device, backend_)
                     : nullptr) {}
Queue Queue::wrap(const Device& device, void* native) {
  return Queue(device, device.backend().wrap_queue(native));
}
void* Queue::native() const { return backend_->native(); }
void Queue::synchronize() { backend_->synchronize(); }
Event Queue::record() { return Event(backend_->record()); }
void* Queue::workspace(std::size_t bytes) {
  return workspace_ ? workspace_->at_least(bytes) : backend_->workspace(bytes);
}
void Queue::wait(const Event& event) { backend_->wait(*event.backend()); }

}  // namespace plumb
