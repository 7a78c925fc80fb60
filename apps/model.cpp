// The network's weights on the host, and their files.
#include "model.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "formats/safetensors.hpp"

namespace plumb::app {
namespace {

namespace fs = std::filesystem;

}  // namespace

PerParameter<std::vector<float>> take_parameters(Safetensors& file, const std::string& path,
                                                 const NetworkShape& shape, std::string_view kind,
                                                 std::string_view prefix) {
  const PerParameter<Extents> extents = parameter_extents(shape);
  PerParameter<std::vector<float>> values;
  for (int i = 0; i < parameter_count; ++i) {
    const std::string name = fmt::format("{}{}", prefix, parameter_names[i]);
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end())
      throw FileError(fmt::format("{}: no tensor '{}' {}: not a {} of this network",
                                  shown_path(path), name, to_string(extents[i]), kind));
    if (!(found->second.extents == extents[i]))
      throw FileError(fmt::format("{}: tensor '{}' is {}, expected {}: a {} of another shape",
                                  shown_path(path), name, to_string(found->second.extents),
                                  to_string(extents[i]), kind));
    values[i] = as_floats(found->second);
    file.tensors.erase(found);
  }
  return values;
}

void require_no_others(const Safetensors& file, const std::string& path) {
  if (!file.tensors.empty())
    throw FileError(fmt::format("{}: tensor {} does not belong to this network", shown_path(path),
                                printable(file.tensors.begin()->first)));
}

void add_parameters(Safetensors& file, const PerParameter<std::vector<float>>& values,
                    const NetworkShape& shape, std::string_view prefix) {
  const PerParameter<Extents> extents = parameter_extents(shape);
  for (int i = 0; i < parameter_count; ++i) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(values[i].data());
    const Bytes data(begin, begin + values[i].size() * sizeof(float));
    file.tensors.emplace(fmt::format("{}{}", prefix, parameter_names[i]),
                         StoredTensor{DType::f32, extents[i], data});
  }
}

Model read_model(const std::string& path, const NetworkShape& shape) {
  Safetensors file = read_safetensors(path);
  Model model;
  model.values = take_parameters(file, path, shape);
  require_no_others(file, path);
  model.metadata = std::move(file.metadata);
  return model;
}

void write_model(const std::string& path, const Model& model, const NetworkShape& shape) {
  Safetensors file;
  file.metadata = model.metadata;
  add_parameters(file, model.values, shape);
  write_safetensors(path, file);
}

std::string default_model_path() {
  constexpr const char* file = "lenet_fashion_mnist.safetensors";
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path installed = program.parent_path().parent_path() / PLUMB_DATA_PATH / file;
  if (fs::exists(installed, ignored)) return installed.string();
  const fs::path source = fs::path(PLUMB_SOURCE_MODELS) / file;
  if (fs::exists(source, ignored)) return source.string();
  throw FileError(fmt::format("the default model is neither at {} nor at {}; name one with --model",
                              installed.string(), source.string()));
}

void upload(Queue& queue, const Model& model, const Network& network) {
  for (int i = 0; i < parameter_count; ++i) {
    const TensorView& parameter = network.parameters()[i].view();
    copy(queue, ConstTensorView(model.values[i].data(), parameter.extents()), parameter);
  }
  queue.synchronize();
}

}  // namespace plumb::app
