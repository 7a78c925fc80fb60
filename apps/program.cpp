// The command line as a whole.
#include "program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <new>

#include "commands.hpp"
#include "errors.hpp"
#include "plumb/plumb.hpp"

namespace plumb::app {
namespace {

constexpr int done = 0, work_failed = 1, wrong_usage = 2;

/// One line, whatever the message holds.
int report(int exit_code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fputs(fmt::format("plumb: {}\n", message).c_str(), stderr);
  return exit_code;
}

/// The message of a command line that went wrong, with the help that the user was nearest to.
int report_usage(const CLI::App& program, std::string message) {
  const auto chosen = program.get_subcommands();
  const auto unknown = program.remaining();
  if (chosen.empty() && !unknown.empty()) {
    std::vector<std::string> names;
    for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(command->get_name());
    message =
        fmt::format("'{}': expected a subcommand: {}", unknown.front(), fmt::join(names, ", "));
  }
  return report(wrong_usage, fmt::format("{} (see plumb {}--help)", message,
                                         chosen.empty() ? "" : chosen.front()->get_name() + " "));
}

}  // namespace

void add_device_option(CLI::App& command, std::string& spec) {
  command.add_option("--device", spec,
                     "cpu, cuda, cuda:1, kokkos, or auto: the first GPU that works, otherwise the "
                     "CPU. The default is what PLUMB_DEVICE says, or auto");
}

Device open_device(const std::string& spec) {
  try {
    return Device::open(spec);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_argument || error.reason() == Reason::unknown_backend)
      throw UsageError(error.what());
    throw;
  }
}

int run_program(int argc, const char* const* argv) {
  CLI::App program("Plumb: convolution on any machine, held against a plumb line.", "plumb");
  program.set_version_flag("--version", fmt::format("plumb {}", version));
  program.require_subcommand(1);
  program.footer("Exit codes: 0 done, 1 the work failed, 2 wrong usage.");
  add_info(program);
  add_classify(program);
  add_train(program);
  add_conv(program);
  add_validate(program);
  add_bench(program);
  add_tune(program);
  add_explain(program);
  add_pipeline(program);
  add_ladder(program);
  try {
    program.parse(argc, argv);
    // A full disk shows itself only here.
    if (std::fflush(stdout) != 0) return report(work_failed, "standard output cannot be written");
    return done;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);
    return report_usage(program, error.what());
  } catch (const UsageError& error) {
    return report_usage(program, error.what());
  } catch (const Error& error) {
    const std::string code =
        error.reason() == Reason::none ? "" : fmt::format(" ({})", to_string(error.reason()));
    return report(work_failed, error.what() + code);
  } catch (const std::bad_alloc&) {
    return report(work_failed, "out of memory");
  } catch (const std::exception& error) {
    return report(work_failed, error.what());
  }
}

}  // namespace plumb::app
