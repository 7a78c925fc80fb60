// Checkpoints in files. The metadata of the safetensors file has one entry: a JSON object as text,
// whose numbers are written so that they are read as the same.
#include "training/checkpoint.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>

namespace plumb::app {
namespace {

using nlohmann::json;

constexpr const char* metadata_key = "plumb_training_checkpoint";
constexpr const char* velocity_prefix = "velocity.";
constexpr int format_version = 1;

class Hash {
 public:
  void add(std::span<const std::uint8_t> bytes) {
    for (const std::uint8_t byte : bytes) value_ = (value_ ^ byte) * 0x100000001b3;
  }
  void add(std::int64_t number) {
    for (int shift = 0; shift < 64; shift += 8)
      value_ = (value_ ^ (static_cast<std::uint64_t>(number) >> shift & 255)) * 0x100000001b3;
  }
  std::string digits() const { return fmt::format("{:016x}", value_); }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

std::string hash_of(const Safetensors& file) {
  Hash hash;
  for (const auto& [name, stored] : file.tensors) hash.add(stored.data);
  return hash.digits();
}

json to_json(const TrainingOptions& options) {
  json object;
  for_each_option([&](const char* name, auto member) { object[name] = options.*member; });
  return object;
}

TrainingOptions options_of(const json& object) {
  // Zero where a checkpoint is older than the option: what was done then.
  const std::set<std::string_view> later{"warmup", "mirror", "final_rate", "average"};
  TrainingOptions options;
  for_each_option([&](const char* name, auto member) {
    if (later.contains(name) && !object.contains(name))
      options.*member = {};
    else
      object.at(name).get_to(options.*member);
  });
  return options;
}

json to_json(const EpochFigures& figures) {
  return {figures.epoch,     figures.loss,          figures.train_accuracy,
          figures.test_loss, figures.test_accuracy, figures.seconds};
}

EpochFigures figures_of(const json& array) {
  return {array.at(0).get<std::int64_t>(), array.at(1).get<double>(), array.at(2).get<double>(),
          array.at(3).get<double>(),       array.at(4).get<double>(), array.at(5).get<double>()};
}

/// Whether it is a training run after some of its epochs that could have been begun.
bool makes_sense(const StoredCheckpoint& stored) {
  const TrainingOptions& o = stored.options;
  const std::vector<EpochFigures>& epochs = stored.checkpoint.epochs;
  if (o.epochs < 1 || o.batch < 1 || !(o.learning_rate > 0) || !(o.final_rate >= 0) ||
      o.final_rate > 1 || !(o.momentum >= 0) || o.momentum >= 1 || !(o.weight_decay >= 0) ||
      !(o.warmup >= 0))
    return false;
  if (epochs.empty() || static_cast<std::int64_t>(epochs.size()) > o.epochs) return false;
  for (std::size_t i = 0; i < epochs.size(); ++i)
    if (epochs[i].epoch != static_cast<std::int64_t>(i) + 1) return false;
  return true;
}

}  // namespace

std::string fingerprint(const Dataset& dataset) {
  Hash hash;
  hash.add(dataset.images.count);
  hash.add(dataset.images.height);
  hash.add(dataset.images.width);
  hash.add(dataset.images.pixels);
  hash.add(dataset.labels);
  return hash.digits();
}

void write_checkpoint(const std::string& path, const StoredCheckpoint& stored,
                      const NetworkShape& shape) {
  Safetensors file;
  add_parameters(file, stored.checkpoint.state.weights, shape);
  add_parameters(file, stored.checkpoint.state.velocity, shape, velocity_prefix);
  json epochs = json::array();
  for (const EpochFigures& figures : stored.checkpoint.epochs) epochs.push_back(to_json(figures));
  const json header = {{"version", format_version},
                       {"options", to_json(stored.options)},
                       {"data", stored.data},
                       {"tensors", hash_of(file)},
                       {"epochs", std::move(epochs)}};
  file.metadata[metadata_key] = header.dump();
  write_safetensors(path, file);
}

StoredCheckpoint read_checkpoint(const std::string& path, const NetworkShape& shape) {
  Safetensors file = read_safetensors(path);
  const std::string name = shown_path(path);
  const auto found = file.metadata.find(metadata_key);
  if (found == file.metadata.end())
    throw FileError(fmt::format("{}: no checkpoint of plumb train: its metadata has no '{}'{}",
                                name, metadata_key,
                                file.metadata.contains("made_by") ? " (the weights alone?)" : ""));
  StoredCheckpoint stored;
  std::string tensors;
  try {
    const json header = json::parse(found->second);
    if (const int version = header.at("version").get<int>(); version != format_version)
      throw FileError(fmt::format("{}: a checkpoint of version {}, expected {}", name, version,
                                  format_version));
    stored.options = options_of(header.at("options"));
    header.at("data").get_to(stored.data);
    header.at("tensors").get_to(tensors);
    for (const json& figures : header.at("epochs"))
      stored.checkpoint.epochs.push_back(figures_of(figures));
  } catch (const json::exception&) {
    throw FileError(
        fmt::format("{}: its metadata '{}' is not what plumb train writes", name, metadata_key));
  }
  if (!makes_sense(stored))
    throw FileError(
        fmt::format("{}: its metadata '{}' has values that no training has", name, metadata_key));
  if (tensors != hash_of(file))
    throw FileError(
        fmt::format("{}: its tensors have the hash {}, expected {}: the file was "
                    "changed",
                    name, hash_of(file), tensors));
  TrainingState& state = stored.checkpoint.state;
  state.weights = take_parameters(file, path, shape, "checkpoint");
  state.velocity = take_parameters(file, path, shape, "checkpoint", velocity_prefix);
  require_no_others(file, path);
  return stored;
}

}  // namespace plumb::app
