// The subcommands: each adds itself to the command line, and runs when it was chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "plumb/device.hpp"

namespace plumb::app {

void add_info(CLI::App& program);
void add_classify(CLI::App& program);
void add_train(CLI::App& program);
void add_conv(CLI::App& program);
void add_validate(CLI::App& program);
void add_bench(CLI::App& program);
void add_tune(CLI::App& program);
void add_explain(CLI::App& program);
void add_pipeline(CLI::App& program);
void add_ladder(CLI::App& program);
void add_infer(CLI::App& program);
void add_field(CLI::App& program);

struct DeviceArguments {
  std::string name;       ///< empty: nothing was said
  std::string providers;  ///< as in DeviceOptions
};
/// "--device" and "--providers", the same everywhere.
void add_device_option(CLI::App& command, DeviceArguments& arguments);
/// Device::open for what the command line says. A name that no device or provider could have is a
/// UsageError.
Device open_device(const DeviceArguments& arguments);

}  // namespace plumb::app
