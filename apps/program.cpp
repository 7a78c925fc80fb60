// The command line as a whole.
#include "program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "errors.hpp"
#include "plumb/plumb.hpp"
#include "plumb/quote.hpp"

namespace plumb::app {
namespace {

constexpr int done = 0, work_failed = 1, wrong_usage = 2;
constexpr int interrupted = 130;  // as shells have it after Ctrl-C

/// How a run ended; a message where it is not done.
struct Outcome {
  int exit_code = done;
  std::string message;
};

/// One printable line of bounded length, whatever the message holds and wherever it comes from:
/// what quotes text from outside has escaped it already, and its backslashes stay as they are.
std::string one_line(std::string_view message) {
  constexpr std::size_t longest = 8000;
  const bool cut = message.size() > longest;
  message = message.substr(0, longest);
  std::string line;
  while (!message.empty()) {
    const std::size_t end = std::min(message.find_first_of("\\\n"), message.size());
    const std::string printable = plumb::quoted(message.substr(0, end), longest);
    line.append(printable, 1, printable.size() - 2);
    if (end < message.size()) line += message[end] == '\n' ? ' ' : message[end];
    message.remove_prefix(std::min(end + 1, message.size()));
  }
  return line + (cut ? "..." : "");
}

/// An option as it was given, quoted only where it is long or cannot be printed.
std::string one_word(const std::string& argument) {
  std::string shown = plumb::quoted(argument);
  return shown.size() == argument.size() + 2 ? argument : shown;
}

/// CLI11 repeats arguments as they are: those that are long or cannot be printed are quoted.
std::string with_arguments_quoted(std::string message, std::span<const char* const> arguments) {
  for (const std::string_view argument : arguments) {
    std::string shown = plumb::quoted(argument);
    if (shown.size() == argument.size() + 2) continue;
    for (std::size_t at = 0; (at = message.find(argument, at)) != std::string::npos;
         at += shown.size())
      message.replace(at, argument.size(), shown);
  }
  return message;
}

/// An option that the command does not have, without its value; empty where all are known.
std::string unknown_option(const CLI::App& command) {
  for (const std::string& argument : command.remaining())
    if (argument.size() > 1 && argument[0] == '-' && (argument[1] < '0' || argument[1] > '9'))
      return argument.substr(0, argument.find('='));
  return {};
}

std::string no_such_option(const CLI::App& command, const std::string& unknown) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return fmt::format(
      "{}: {} has no such option{}", one_word(unknown), command.get_name(),
      did_you_mean(unknown, std::vector<std::string_view>(names.begin(), names.end())));
}

std::string no_such_command(const CLI::App& program, const std::string& unknown) {
  std::vector<std::string_view> names;
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return fmt::format("{}: expected a subcommand: {}{}", plumb::quoted(unknown),
                     fmt::join(names, ", "), did_you_mean(unknown, names));
}

/// The message of a command line that went wrong, with the help that the user was nearest to. What
/// is not known goes first: an option that is missing may be there by a name that is not right.
Outcome wrong(const CLI::App& program, std::string message) {
  const auto chosen = program.get_subcommands();
  const CLI::App& command = chosen.empty() ? program : *chosen.front();
  const auto unknown = program.remaining();
  if (const std::string option = unknown_option(command); !option.empty())
    message = no_such_option(command, option);
  else if (const std::string misplaced = unknown_option(program); !misplaced.empty())
    message = no_such_option(program, misplaced);
  else if (chosen.empty() && !unknown.empty())
    message = no_such_command(program, unknown.front());
  return {wrong_usage, fmt::format("{} (see plumb {}--help)", message,
                                   chosen.empty() ? "" : command.get_name() + " ")};
}

Outcome run_command(int argc, const char* const* argv) {
  CLI::App program("Plumb: convolution on any machine, held against a plumb line.", "plumb");
  program.set_version_flag("--version", fmt::format("plumb {}", version));
  program.require_subcommand(1);
  program.footer("Exit codes: 0 done, 1 the work failed, 2 wrong usage, 130 interrupted.");
  add_info(program);
  add_classify(program);
  add_infer(program);
  add_train(program);
  add_conv(program);
  add_validate(program);
  add_bench(program);
  add_tune(program);
  add_explain(program);
  add_pipeline(program);
  add_ladder(program);
  add_field(program);
  try {
    program.parse(argc, argv);
    return {};
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return {program.exit(error), {}};  // --help, --version
    return wrong(program, with_arguments_quoted(error.what(),
                                                {argv, argv + static_cast<std::ptrdiff_t>(argc)}));
  } catch (const UsageError& error) {
    return wrong(program, error.what());
  } catch (const Interrupted& error) {
    return {interrupted, error.what()};
  } catch (const Error& error) {
    const std::string code =
        error.reason() == Reason::none ? "" : fmt::format(" ({})", to_string(error.reason()));
    return {work_failed, error.what() + code};
  } catch (const std::bad_alloc&) {
    return {work_failed, "out of memory"};
  } catch (const std::exception& error) {
    return {work_failed, error.what()};
  }
}

/// Whether all that was printed has been written. A full disk shows itself only here, or has ended
/// an earlier print.
bool stdout_is_written() {
  const bool lost = std::ferror(stdout) != 0;
  return std::fflush(stdout) == 0 && !lost;
}

}  // namespace

void add_device_option(CLI::App& command, DeviceArguments& arguments) {
  command.add_option(
      "--device", arguments.name,
      "Device to run on: cpu, cuda, cuda:1, kokkos, or auto (the first GPU that works, otherwise "
      "the CPU). The default is PLUMB_DEVICE, or auto where that is not set");
  command.add_option(
      "--providers", arguments.providers,
      "List other libraries' algorithms too, and take them where they are the fastest by tuned "
      "times: cudnn,onednn, or none. The default is PLUMB_PROVIDERS");
}

Device open_device(const DeviceArguments& arguments) {
  try {
    return Device::open(arguments.name, {.providers = arguments.providers});
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_argument || error.reason() == Reason::unknown_backend)
      throw UsageError(error.what());
    throw;
  }
}

int run_program(int argc, const char* const* argv) {
  Outcome outcome = run_command(argc, argv);
  // A command that could not print may have failed for that.
  if (!stdout_is_written() && outcome.exit_code != wrong_usage)
    outcome = {work_failed, "standard output cannot be written" +
                                (outcome.message.empty() ? "" : ": " + outcome.message)};
  if (!outcome.message.empty())
    std::fputs(fmt::format("plumb: {}\n", one_line(outcome.message)).c_str(), stderr);
  return outcome.exit_code;
}

}  // namespace plumb::app
