// Every reason code: reached by something that really happens, and documented in docs/reasons.md.
#include <elf.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <vector>

#include "fault.hpp"
#include "plumb/backend.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

std::vector<Reason> all_reasons() {
  std::vector<Reason> reasons;
  for (int i = 0; to_string(static_cast<Reason>(i)) != "?"; ++i)
    reasons.push_back(static_cast<Reason>(i));
  return reasons;
}

/// Why `cuda` cannot be had in another process, whose modules lie in `folder`: code and sentence.
std::array<std::string, 2> refused_elsewhere(const std::string& folder) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      "PLUMB_BACKEND_PATH='" + folder + "' '" + self + "' --reason-of cuda 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string text;
  for (int c; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  INFO(command << ": " << text);
  REQUIRE(pclose(pipe) == 0);  // it did not crash
  const std::size_t line = text.find('\n');
  return {text.substr(0, line), text.substr(std::min(line + 1, text.size()))};
}

Reason reason_elsewhere(const std::string& modules) {
  const std::string code = refused_elsewhere(PLUMB_FAKE_MODULES "/" + modules)[0];
  for (const Reason reason : all_reasons())
    if (to_string(reason) == code) return reason;
  FAIL("'" << code << "' is no reason");
  return Reason::none;
}

/// Why the device cannot be had under a fault.
Reason refused(const char* fault, const char* device = "cuda") {
  const Playing playing{fault};
  return refusal([&] { Device::open(device); }).reason();
}

ConvProblem small() {
  ConvProblem problem;
  problem.c = 2, problem.h = 5, problem.w = 5, problem.k = 3, problem.r = 3, problem.s = 3;
  return problem;
}

/// What an algorithm is refused for.
Reason explained(const char* device, std::string_view algorithm, const ConvProblem& problem,
                 const ConvOptions& options = {}, const char* providers = "") {
  for (const ConvCandidate& one :
       explain(Device::open(device, {.providers = providers}), problem, options))
    if (one.algorithm == algorithm) return one.support.reason;
  FAIL("no algorithm " << algorithm);
  return Reason::none;
}

const std::map<Reason, std::function<Reason()>>& provoked() {
  constexpr std::string_view im2col = "cpu.conv.im2col.fp32", direct = "cpu.conv.direct.fp32";
  static const std::map<Reason, std::function<Reason()>> all{
      {Reason::none, [=] { return explained("cpu", im2col, small()); }},
      {Reason::unknown_backend, [] { return refused("", "abacus"); }},
      {Reason::module_missing, [] { return reason_elsewhere("nowhere"); }},
      {Reason::module_broken, [] { return reason_elsewhere("no_symbol"); }},
      {Reason::module_version, [] { return reason_elsewhere("other_version"); }},
      {Reason::no_driver, [] { return refused("no_driver"); }},
      {Reason::driver_too_old, [] { return refused("driver_too_old"); }},
      {Reason::no_device, [] { return refused("", "cpu:7"); }},
      {Reason::no_code_for_device, [] { return refused("no_code_for_device"); }},
      {Reason::device_error, [] { return refused("device_error"); }},
      {Reason::out_of_memory,
       [] {
         const Device device = Device::open("auto");
         HostCase test;
         const Playing playing{"out_of_memory"};
         return conv_host(device, test.tensors()).passed_over().at(0).reason;
       }},
      {Reason::direction,
       [=] {
         ConvProblem problem = small();
         problem.direction = Direction::backward_data;
         return explained("cuda", "cuda.conv.fake.forced", problem,
                          {.algorithm = "cuda.conv.fake.forced"});
       }},
      {Reason::dtype,
       [=] {
         ConvProblem problem = small();
         problem.dtype = DType::f64;
         return explained("cpu", im2col, problem);
       }},
      {Reason::math, [=] { return explained("cpu", im2col, small(), {.math = Math::fp64}); }},
      {Reason::layout, [] { return explained("cuda", "cuda.conv.fake.layout", small()); }},
      {Reason::geometry, [] { return explained("cuda", "cuda.conv.fake.geometry", small()); }},
      {Reason::too_large,
       [=] {
         ConvProblem problem = small();  // as many workspaces as the direct one does not take
         problem.c = 1 << 20, problem.h = 3, problem.w = 3;
         problem.k = 1 << 12;
         return explained("cpu", direct, problem);
       }},
      {Reason::device_limit,
       [] { return explained("cuda", "cuda.conv.fake.device_limit", small()); }},
      {Reason::workspace_limit,
       [=] { return explained("cpu", im2col, small(), {.workspace_limit_bytes = 0}); }},
      {Reason::not_deterministic,
       [] { return explained("cuda", "cuda.conv.fake.loose", small(), {.deterministic = true}); }},
      {Reason::not_reproducible,
       [=] { return explained("cpu", im2col, small(), {.reproducible = true}); }},
      {Reason::not_forced,
       [=] { return explained("cpu", direct, small(), {.algorithm = std::string(im2col)}); }},
      {Reason::forced_only, [] { return explained("cuda", "cuda.conv.fake.forced", small()); }},
      {Reason::provider_missing,
       [] { return explained("cuda", "cudnn.conv.fake.missing", small(), {}, "cudnn"); }},
      {Reason::provider_version,
       [] { return explained("cuda", "cudnn.conv.fake.outdated", small(), {}, "cudnn"); }},
      {Reason::not_measured,
       [] { return explained("cuda", "cudnn.conv.fake.sum", small(), {}, "cudnn"); }},
  };
  return all;
}

}  // namespace

TEST_CASE("reasons: each is reached") {
  REQUIRE(all_reasons().size() > 20);
  for (const Reason reason : all_reasons()) {
    INFO(to_string(reason));
    const auto found = provoked().find(reason);
    REQUIRE(found != provoked().end());
    CHECK(to_string(found->second()) == to_string(reason));
  }
}

TEST_CASE("reasons: docs/reasons.md has each, with what would change it") {
  std::ifstream in(PLUMB_SOURCE "/docs/reasons.md");
  std::map<std::string, std::string> rows;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("| `")) continue;
    const std::size_t end = line.find('`', 3);
    rows[line.substr(3, end - 3)] = line;
  }
  for (const Reason reason : all_reasons()) {
    const std::string name(to_string(reason));
    INFO(name);
    REQUIRE(rows.contains(name));
    CHECK(rows[name].find("| " + std::string(remedy(reason)) + " |") != std::string::npos);
    rows.erase(name);
  }
  for (const auto& [name, row] : rows) FAIL_CHECK("docs/reasons.md: there is no reason " << name);
}

TEST_CASE("modules: what one throws while it is loaded is a reason of its own") {
  const struct {
    const char* module;
    const char* reason;
    const char* words;
  } cases[] = {{"nothing", "module_broken", "plumb_backend_module returned nothing"},
               {"throws", "module_broken", "something was thrown that is no exception"},
               {"throws_words", "module_broken", "a module's own words"},
               {"throws_memory", "out_of_memory", "out of memory"},
               {"throws_out_of_memory", "out_of_memory", "no memory for the driver"},
               {"throws_reason", "no_driver", "no driver"},
               {"throws_no_reason", "module_broken", "it broke"}};
  for (const auto& one : cases) {
    INFO(one.module);
    const auto [reason, sentence] =
        refused_elsewhere(PLUMB_FAKE_MODULES "/" + std::string(one.module));
    CHECK(reason == one.reason);
    CHECK(sentence.find(one.words) != std::string::npos);
  }
}

TEST_CASE("modules: where they are looked for") {
  const auto [reason, sentence] = refused_elsewhere("modules/fake");
  CHECK(reason == "module_missing");
  CHECK(sentence.find("PLUMB_BACKEND_PATH has 'modules/fake'; expected absolute folders") !=
        std::string::npos);
  const auto [missing, folders] = refused_elsewhere("/nowhere:/not/here");
  CHECK(missing == "module_missing");
  CHECK(folders.find("no libplumb_cuda.so in /nowhere, /not/here") != std::string::npos);
}

TEST_CASE("modules: one that is broken is a reason, whatever is wrong with it") {
  const std::string modules = PLUMB_FAKE_MODULES;
  CHECK(refused_elsewhere(modules + "/fake")[0] == "none");
  CHECK(refused_elsewhere(modules + "/nowhere:" + modules + "/fake")[0] == "none");
  CHECK(refused_elsewhere("::" + modules + "/fake:")[0] == "none");
  const auto version = refused_elsewhere(modules + "/other_version");
  CHECK(version[0] == "module_version");
  CHECK(version[1].find("of Plumb 0.0.9") != std::string::npos);
  const auto abi = refused_elsewhere(modules + "/other_abi");
  CHECK(abi[0] == "module_version");
  CHECK(abi[1].find("interface 4711") != std::string::npos);

  std::ifstream whole(modules + "/fake/libplumb_cuda.so", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(whole), {}};
  REQUIRE(bytes.size() > 10'000);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("plumb-module-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& text) {
    std::ofstream(folder / "libplumb_cuda.so", std::ios::binary) << text;
    return refused_elsewhere(folder);
  };
  // Cut off anywhere, from nothing at all to the last byte.
  std::vector<std::size_t> lengths{0, 1, 4, 16, 63, 64, 65, 120, bytes.size() - 1};
  for (std::size_t length = 500; length < bytes.size(); length += bytes.size() / 40)
    lengths.push_back(length);
  for (const std::size_t length : lengths) {
    INFO(length << " of " << bytes.size() << " bytes");
    const auto refusal = write(bytes.substr(0, length));
    CHECK(refusal[0] == "module_broken");
    CHECK(refusal[1].find("cut off after " + std::to_string(length)) != std::string::npos);
  }
  CHECK(write("#!/bin/sh\n" + std::string(100, '\n'))[0] == "module_broken");
  std::string other = bytes;
  other[EI_CLASS] = ELFCLASS32;
  CHECK(write(other)[0] == "module_broken");
  other = bytes;
  other[offsetof(Elf64_Ehdr, e_phentsize)] = 1;
  CHECK(write(other)[0] == "module_broken");
  CHECK(write(bytes)[0] == "none");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "libplumb_cuda.so");
  CHECK(refused_elsewhere(folder)[0] == "module_broken");
  std::filesystem::remove_all(folder);
}

TEST_CASE("modules: one whose static constructor finds no memory") {
  const std::string folder = PLUMB_FAKE_MODULES "/constructor_throws";
  if (!std::filesystem::exists(folder))
    SKIP("sanitizers end a program that throws through dlopen()");
  CHECK(refused_elsewhere(folder)[0] == "out_of_memory");
}

TEST_CASE("modules: one with a C++ runtime of its own") {
  const std::string folder = PLUMB_FAKE_MODULES "/own_runtime";
  if (!std::filesystem::exists(folder)) SKIP("no C++ runtime to link statically");
  CHECK(refused_elsewhere(folder)[0] == "none");
  // What it throws, and what it catches and asks failed_probe() of.
  const std::map<std::string, std::string> reasons{{"no_code_for_device", "no_code_for_device"},
                                                   {"probe_memory", "out_of_memory"},
                                                   {"probe_throws", "device_error"}};
  for (const auto& [fault, reason] : reasons) {
    const Playing playing{fault};
    INFO(fault);
    CHECK(refused_elsewhere(folder)[0] == reason);
  }
}
