// Text from outside in messages: printable, valid UTF-8 and short, whatever was given.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <string>
#include <utility>

#include "plumb/plumb.hpp"
#include "support/c_handles.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using plumb_test::refusal;
using namespace std::string_literals;

TEST_CASE("quoted: printable text stands as it is, between quotes") {
  CHECK(plumb::quoted("") == "''");
  CHECK(plumb::quoted("cuda:1") == "'cuda:1'");
  CHECK(plumb::quoted("größe 漢字 \U0001f600") == "'größe 漢字 \U0001f600'");
  CHECK(plumb::quoted(std::string(80, 'a')) == "'" + std::string(80, 'a') + "'");
}

TEST_CASE("quoted: what a terminal would act on is escaped") {
  CHECK(plumb::quoted("a\nb\r\tc\\") == "'a\\nb\\r\\tc\\\\'");
  CHECK(plumb::quoted("\x1b[2J\x7f"s) == "'\\x1b[2J\\x7f'");
  CHECK(plumb::quoted("a\0b"s) == "'a\\x00b'");
  CHECK(plumb::quoted("\u009b2J") == "'\\u009b2J'");  // CSI in one character
  CHECK(plumb::quoted("a\u202e\u2066b\u2028\u200f") == "'a\\u202e\\u2066b\\u2028\\u200f'");
}

TEST_CASE("quoted: bytes that are no UTF-8 are escaped one by one") {
  CHECK(plumb::quoted("\xff") == "'\\xff'");
  CHECK(plumb::quoted("\x80") == "'\\x80'");
  CHECK(plumb::quoted("a\xc3") == "'a\\xc3'");                           // cut off
  CHECK(plumb::quoted("\xc3(") == "'\\xc3('");                           // not continued
  CHECK(plumb::quoted("\xc0\xaf") == "'\\xc0\\xaf'");                    // '/' in two bytes
  CHECK(plumb::quoted("\xe0\x80\xaf") == "'\\xe0\\x80\\xaf'");           // and in three
  CHECK(plumb::quoted("\xed\xa0\x80") == "'\\xed\\xa0\\x80'");           // a surrogate
  CHECK(plumb::quoted("\xf4\x90\x80\x80") == "'\\xf4\\x90\\x80\\x80'");  // U+110000
  CHECK(plumb::quoted("\xf4\x8f\xbf\xbf") == "'\xf4\x8f\xbf\xbf'");      // U+10FFFF
}

TEST_CASE("quoted: long text is cut between characters, and its size is told") {
  CHECK(plumb::quoted("abcd", 3) == "'abc...' (the first 3 of 4 bytes)");
  CHECK(plumb::quoted("äöü", 2) == "'äö...' (the first 4 of 6 bytes)");
  CHECK(plumb::quoted(std::string(1'000'000, 'x')) ==
        "'" + std::string(80, 'x') + "...' (the first 80 of 1000000 bytes)");
  CHECK(plumb::quoted(std::string(1'000'000, '\1')).size() < 400);
  CHECK(plumb::quoted("x", 0) == "'...' (the first 0 of 1 bytes)");
}

namespace {

void require_readable(const std::string& message) {
  INFO(message);
  CHECK(message.size() < 1500);
  CHECK(std::none_of(message.begin(), message.end(),
                     [](unsigned char c) { return c < 0x20 || c >= 0x7f; }));
}

}  // namespace

TEST_CASE("messages: whatever a caller gives, in C++ and C, is quoted") {
  const std::string raw = "\x1b]0;\x07\xff\n" + std::string(1'000'000, 'x');
  const Device cpu = Device::open("cpu");
  ConvProblem problem;
  problem.h = problem.w = 4;
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"a device", [&] { Device::open(raw); }},
      {"an index", [&] { Device::open("cpu:" + raw); }},
      {"an alias", [&] { Device::open("cpu:a" + raw); }},
      {"a problem", [&] { parse_problem(raw); }},
      {"a problem's field", [&] { parse_problem("ic3ih8oc4kh3" + raw); }},
      {"lines of problems", [&] { parse_problems("ic3ih8oc4kh3\n\x1b" + raw); }},
      {"a problem without sizes", [&] { parse_problem("ic3n" + raw); }},
      {"a suite", [&] { suite(raw); }},
      {"an algorithm", [&] { ConvPlan(cpu, problem, {.algorithm = raw}); }},
  };
  for (const auto& [what, call] : calls) {
    CAPTURE(what);
    require_readable(refusal(call).what());
  }
  for (const ConvCandidate& candidate : explain(cpu, problem, {.algorithm = raw}))
    require_readable(candidate.support.sentence);

  const plumb_test::CDevice device;
  plumb_device* opened = nullptr;
  std::int32_t count = 0;
  CHECK(plumb_device_open(raw.c_str(), nullptr, &opened) == PLUMB_INVALID_ARGUMENT);
  require_readable(plumb_last_message());
  CHECK(plumb_device_count(raw.c_str(), &count) == PLUMB_INVALID_ARGUMENT);
  require_readable(plumb_last_message());
  plumb_conv_options options;
  plumb_conv_options_init(&options);
  options.algorithm = raw.c_str();
  plumb_conv_problem small;
  plumb_conv_problem_init(&small);
  plumb_plan* plan = nullptr;
  CHECK(plumb_plan_create(device, &small, &options, &plan) == PLUMB_UNSUPPORTED);
  require_readable(plumb_last_message());
}
