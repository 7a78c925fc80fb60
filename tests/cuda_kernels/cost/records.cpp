#include "records.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "plumb/problem_text.hpp"

using nlohmann::json;
using namespace plumb;

namespace plumb_test {
namespace {

struct RecordFile {
  std::string_view name;
  bool held_out = false;
};
/// Times of kernels younger than the records, for problems of those.
constexpr std::string_view supplement = "2026-11-25-h200-fields-few.json";
constexpr RecordFile files[] = {
    {"2026-11-23-h200-four-fp32.json"},      {"2026-11-23-h200-four-tf32.json"},
    {"2026-11-23-h200-four-f16.json"},       {"2026-11-23-h200-four-bf16.json"},
    {"2026-11-24-h200-small-batches.json"},  {"2026-11-24-h200-choosing.json"},
    {"2026-11-24-h200-few200-kernels.json"}, {"2026-11-24-h200-before-after.json", true},
};

/// Records keep the names of their day.
std::string name_of_today(std::string name) {
  constexpr std::string_view prefix = "cuda.conv.";
  if (name.starts_with(prefix)) name.erase(0, prefix.size());
  for (const auto& [was, is] :
       {std::pair<std::string_view, std::string_view>{"single_filter.", "few_filters."},
        {"packed_half.", "half2."}})
    if (name.starts_with(was)) name.replace(0, was.size(), is);
  return std::string(prefix) + name;
}

DType dtype_of(const std::string& text) {
  return text == "f16" ? DType::f16 : text == "bf16" ? DType::bf16 : DType::f32;
}

ConvProblem problem_of(const json& text, const std::string& dtype) {
  ConvProblem problem = parse_problem(text.get<std::string>()).problem;
  problem.dtype = dtype_of(dtype);
  return check(problem);
}

/// What `plumb bench --json` writes: a record for each algorithm of each problem.
void add_bench(std::vector<RecordedProblem>& all, const std::string& file, const json& record) {
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  for (const json& one : record.at("records")) {
    const std::string algorithm = one.at("algorithm"), dtype = one.at("dtype");
    if (!algorithm.starts_with("cuda.conv.") || one.contains("failure") ||
        !one.value("unsteady", "").empty())
      continue;
    const auto [place, is_new] = places.try_emplace({one.at("problem"), dtype}, all.size());
    if (is_new) all.push_back({file, one.at("name"), problem_of(one.at("problem"), dtype), {}});
    all[place->second].seconds[name_of_today(algorithm)] = one.at("median_seconds");
  }
}

/// Problems with the microseconds of each algorithm.
void add_problems(std::vector<RecordedProblem>& all, const std::string& file, const json& record) {
  for (const json& one : record.at("problems")) {
    RecordedProblem of{
        file, one.at("name"), problem_of(one.at("problem"), one.value("dtype", "f32")), {}};
    for (const auto& [algorithm, microseconds] : one.at("microseconds").items())
      of.seconds[name_of_today(algorithm)] = microseconds.get<double>() * 1e-6;
    all.push_back(std::move(of));
  }
}

json parsed(const std::filesystem::path& path) {
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("no record " + path.string());
  return json::parse(stream);
}

/// Every record of a problem gets the younger kernels' times of it.
void add_supplement(std::vector<RecordedProblem>& all, const std::filesystem::path& path) {
  std::vector<RecordedProblem> younger;
  add_bench(younger, path.filename().string(), parsed(path));
  for (const RecordedProblem& one : younger)
    for (RecordedProblem& known : all)
      if (known.problem == one.problem)
        known.seconds.insert(one.seconds.begin(), one.seconds.end());
}

}  // namespace

std::vector<RecordedProblem> recorded_problems(const std::filesystem::path& results) {
  std::vector<RecordedProblem> all;
  for (const auto& [name, held_out] : files) {
    const std::string file(name);
    const std::size_t before = all.size();
    const json record = parsed(results / file);
    if (record.contains("records"))
      add_bench(all, file, record);
    else
      add_problems(all, file, record);
    for (std::size_t i = before; i < all.size(); ++i) all[i].held_out = held_out;
  }
  add_supplement(all, results / supplement);
  return all;
}

DeviceInfo recorded_device() {
  DeviceInfo info;
  info.id = {.backend = "cuda"};
  info.name = "NVIDIA H200";
  info.units = 132;
  info.memory_bytes = std::size_t{140} << 30;
  info.shared_memory_bytes = 227 << 10;
  info.compute_major = 9;
  info.nominal_bytes_per_second = 4.8e12;
  info.nominal_fp32_flop_per_second = 67e12;
  return info;
}

}  // namespace plumb_test
