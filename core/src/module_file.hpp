// Whether a module's file is all there, before the loader maps it.
#pragma once

#include <filesystem>
#include <string>

namespace plumb {

/// What of a shared object is missing, or empty. dlopen() maps what the headers promise and touches
/// it: where the file has been cut off behind them, that ends the process (SIGBUS). What is no ELF
/// file of this machine is left to dlopen(), which says so.
std::string missing_part(const std::filesystem::path& file);

}  // namespace plumb
