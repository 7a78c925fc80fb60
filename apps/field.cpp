// plumb field: a field over MPI's ranks. The work is done by plumb-field, beside this program, so
// that plumb itself needs no MPI.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "commands.hpp"
#include "plumb/error.hpp"

namespace plumb::app {
namespace {

/// Does not return: this process becomes plumb-field.
[[noreturn]] void become_field(std::vector<std::string> arguments) {
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::string path = (program.parent_path() / "plumb-field").string();
  std::vector<char*> pointers{const_cast<char*>(path.c_str())};
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(path.c_str(), pointers.data());
  throw Error(ErrorCode::unsupported,
              fmt::format("field: {}: {}; a build where CMake finds an MPI (PLUMB_MPI) has it",
                          path, std::strerror(errno)));
}

}  // namespace

void add_field(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "field", "Step a field over the ranks of mpirun: heat or waves, verified against one rank");
  command->prefix_command();
  command->set_help_flag();
  command->callback([command] { become_field(command->remaining()); });
}

}  // namespace plumb::app
