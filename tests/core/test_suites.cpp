// The suites of problems: what is in them, the same on every machine.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/plumb.hpp"
#include "plumb/suites.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// FNV-1a (Fowler, Noll and Vo).
std::uint64_t checksum(const std::vector<NamedProblem>& problems) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const NamedProblem& one : problems)
    for (const char c : one.name + " " + to_string(one.problem) + "\n")
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

void require_few_channels(const ConvProblem& p) {
  CAPTURE(to_string(p));
  const auto within = [](std::int64_t low, std::int64_t value, std::int64_t high) {
    return low <= value && value <= high;
  };
  REQUIRE((within(1, p.c, 16) && within(1, p.k, 64) && p.groups == 1 && p.pool == Pool::none));
  REQUIRE((within(1, p.r, 11) && within(1, p.s, 11) && p.dilation == Pair{}));
  REQUIRE((within(1, p.stride.h, 2) && within(1, p.stride.w, 2)));
  REQUIRE((p.n >= 1 && p.p() >= 1 && p.q() >= 1 && p.dtype == DType::f32));
  REQUIRE(check(p) == p);
}

}  // namespace

TEST_CASE("few200: the same 200 problems of few channels everywhere") {
  const auto problems = suite("few200");
  REQUIRE(problems.size() == 200);
  std::set<std::string> texts;
  for (const auto& [name, p] : problems) {
    require_few_channels(p);
    REQUIRE((p.h <= 2048 && p.w <= 2048));
    const double image_bytes = 4.0 * static_cast<double>(p.k * p.p() * p.q());
    const double bytes = image_bytes * static_cast<double>(p.n);
    REQUIRE(((bytes <= 1e9 && bytes + image_bytes > 1e9) || p.n == 1));
    texts.insert(to_string(p));
  }
  REQUIRE(texts.size() == 200);
  const auto count = [&](const auto& is) {
    return std::count_if(problems.begin(), problems.end(),
                         [&](const NamedProblem& one) { return is(one.problem); });
  };
  // Enough of each kind to say something.
  REQUIRE(count([](const ConvProblem& p) { return p.stride.w == 2; }) > 50);
  REQUIRE(count([](const ConvProblem& p) { return p.q() % 4 != 0; }) > 50);
  REQUIRE(count([](const ConvProblem& p) { return p.w > 512; }) > 20);
  REQUIRE(count([](const ConvProblem& p) { return p.w < 32; }) > 20);
  REQUIRE(count([](const ConvProblem& p) { return p.n < 100; }) > 20);
  REQUIRE(count([](const ConvProblem& p) { return p.c <= 3; }) > 20);
  REQUIRE(count([](const ConvProblem& p) { return p.padding.left != p.padding.right; }) > 20);
  REQUIRE(checksum(problems) == 0x3d06c6883bdf606u);
}

TEST_CASE("few_special: it has the largest image, a small batch and odd widths") {
  const auto problems = suite("few_special");
  const auto any = [&](const auto& is) {
    return std::any_of(problems.begin(), problems.end(),
                       [&](const NamedProblem& one) { return is(one.problem); });
  };
  for (const NamedProblem& one : problems) require_few_channels(one.problem);
  REQUIRE(any([](const ConvProblem& p) {
    return p.c == 1 && p.k == 1 && p.h == 16384 && p.w == 16384 && p.r == 11 && p.s == 11;
  }));
  REQUIRE(any([](const ConvProblem& p) { return p.n > 1 && p.n < 8; }));
  REQUIRE(any([](const ConvProblem& p) { return p.w % 2 == 1 && p.q() % 2 == 1; }));
}

TEST_CASE("wide: layers of every kind, each with the name of its network") {
  const auto problems = suite("wide");
  REQUIRE(problems.size() >= 60);
  std::set<std::string> names, texts;
  for (const auto& [name, p] : problems) {
    CAPTURE(name, to_string(p));
    REQUIRE(check(p) == p);
    REQUIRE((p.n == 64 || p.n == 8 || p.n == 1));
    // What is not 64 says so, so that a table's rows tell themselves apart.
    const std::string_view last = std::string_view(name).substr(name.rfind(", ") + 2);
    const bool counts = last.find("channels") == std::string_view::npos;
    REQUIRE((counts && last.starts_with("8 ")) == (p.n == 8));
    REQUIRE((counts && last.starts_with("1 ")) == (p.n == 1));
    REQUIRE(p.bytes() < 32e9);
    names.insert(name);
    texts.insert(to_string(p));
  }
  REQUIRE(names.size() == problems.size());
  REQUIRE(texts.size() == problems.size());
  for (const std::string_view network :
       {"ResNet-50", "VGG-16", "UNet", "ConvNeXt", "ResNeXt", "MobileNet", "EfficientNet",
        "DeepLab", "3-D UNet", "R3D", "patch embedding", "tubelet"})
    REQUIRE(std::any_of(problems.begin(), problems.end(), [&](const NamedProblem& one) {
      return one.name.find(network) != std::string::npos;
    }));
  const auto count = [&](const auto& is) {
    return std::count_if(problems.begin(), problems.end(),
                         [&](const NamedProblem& one) { return is(one.problem); });
  };
  const auto depthwise = [](const ConvProblem& p) { return p.groups == p.c && p.c > 1; };
  REQUIRE(count([](const ConvProblem& p) { return p.groups == 1; }) >= 60);
  REQUIRE(count(depthwise) >= 15);
  REQUIRE(count([&](const ConvProblem& p) { return p.groups > 1 && !depthwise(p); }) >= 6);
  REQUIRE(count([](const ConvProblem& p) { return p.has_depth(); }) >= 10);
  REQUIRE(count([](const ConvProblem& p) { return p.h == 1 && p.r == 1 && p.w > 1; }) >= 6);
  REQUIRE(count([](const ConvProblem& p) { return p.dilation.h > 1; }) >= 4);
  REQUIRE(count([](const ConvProblem& p) { return p.n == 1; }) >= 10);
  REQUIRE(checksum(problems) == 0x65b4ce7f8a88d9f9u);
}

TEST_CASE("suites are problems with names") {
  for (const std::string_view name : suite_names) {
    const auto problems = suite(name, 17);
    REQUIRE_FALSE(problems.empty());
    for (const NamedProblem& one : problems) {
      REQUIRE_FALSE(one.name.empty());
      REQUIRE(one.problem.n == 17);
    }
  }
  REQUIRE(suite("four").size() == 4);
  REQUIRE(suite("four")[0].problem.n == 10000);
  REQUIRE(suite("resnet50")[0].problem.n == 128);
  REQUIRE_THROWS_MATCHES(suite("five", 1), Error,
                         MessageMatches(ContainsSubstring("four, resnet50")));
}
