// ONNX's own test vectors, as Debian's libonnx-testdata has them, through the public interface on
// every device; and the reader that they are read with.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "onnx/evaluate.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::onnx;

namespace {

/// Where the vectors are. Without them the test is a counted skip, or a failure where they are
/// required.
std::filesystem::path data_folder() {
  const char* named = std::getenv("PLUMB_ONNX_DATA");
  const std::filesystem::path folder = named ? named : "/usr/share/libonnx-testdata/data";
  if (!std::filesystem::is_directory(folder)) {
    const std::string missing = folder.string() + " is not there (package libonnx-testdata)";
    if (named || std::getenv("PLUMB_REQUIRE_ONNX") || std::getenv("CI")) FAIL(missing);
    SKIP(missing);
  }
  return folder;
}

/// The cases that are run or counted as unsupported: those with an operator of the family.
std::vector<Case> family_cases(const std::filesystem::path& data) {
  std::vector<Case> cases;
  for (Case& test : read_cases(data))
    if (std::any_of(test.model.nodes.begin(), test.model.nodes.end(),
                    [](const Node& node) { return is_of_the_family(node.op); }))
      cases.push_back(std::move(test));
  return cases;
}

bool convolves(const Case& test) {
  return test.model.has("Conv") || test.model.has("Gemm") || test.model.has("MatMul");
}

struct Tally {
  int run = 0, pass = 0, unsupported = 0;
  std::map<std::string, std::string> reasons;  ///< of the unsupported, by the case's name

  void add(const Case& test, const Outcome& outcome) {
    if (outcome.verdict == Verdict::unsupported) {
      ++unsupported;
      reasons[test.name] = outcome.reason;
      return;
    }
    ++run;
    if (outcome.verdict == Verdict::pass)
      ++pass;
    else
      FAIL_CHECK(test.name << ": " << outcome.reason);
  }
  void print(std::string_view where) const {
    fmt::print("onnx on {}: {} run, {} pass, {} unsupported\n", where, run, pass, unsupported);
  }
};

std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

/// A field of fewer than 128 bytes.
std::string field(int number, const std::string& content) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())} +
         content;
}

/// y = Relu(x), where x is {1} and the node has axes = [1, 2], once plain, once packed.
const std::string small_graph = [] {
  const std::string axes = field(1, "axes") + "\x40\x01" + field(8, "\x02");
  const std::string node = field(1, "x") + field(2, "y") + field(4, "Relu") + field(5, axes);
  const std::string x =
      "\x08\x01\x10\x01" + field(8, "x") + field(9, std::string("\0\0\x80\x3f", 4));
  return field(7,
               field(1, node) + field(5, x) + field(11, field(1, "x")) + field(12, field(1, "y")));
}();
const std::vector<std::uint8_t> small_model = bytes_of(small_graph + field(8, "\x10\x0d"));

}  // namespace

TEST_CASE("onnx: the standard's test vectors") {
  const std::vector<Case> cases = family_cases(data_folder());
  for (const Device& device : all_devices()) {
    const std::string name = to_string(device.id());
    CAPTURE(name);
    Tally tally;
    for (const Case& test : cases) tally.add(test, run_case(device, test));
    for (const auto& [test, reason] : tally.reasons)
      fmt::print("onnx on {}: unsupported {}: {}\n", name, test, reason);
    for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
      if (!algorithm->numerics.bounded) continue;  // another library's, which promises nothing
      CAPTURE(algorithm->name);
      Tally forced;
      for (const Case& test : cases)
        if (convolves(test)) forced.add(test, run_case(device, test, std::string(algorithm->name)));
      forced.print(algorithm->name);
    }
    tally.print(name);
    // The vectors of version 1.12 give more; far fewer would mean that they are not found.
    CHECK(tally.run >= 40);
  }
}

TEST_CASE("onnx: the reader of models and tensors") {
  const Model model = parse_model(small_model);
  CHECK(model.opset == 13);
  REQUIRE(model.nodes.size() == 1);
  CHECK(model.nodes[0].op == "Relu");
  CHECK(model.nodes[0].inputs == std::vector<std::string>{"x"});
  CHECK(model.nodes[0].outputs == std::vector<std::string>{"y"});
  CHECK(model.nodes[0].integers("axes", {}) == std::vector<std::int64_t>{1, 2});
  CHECK(model.initializers.at("x").values == std::vector<double>{1});
  CHECK(model.inputs == std::vector<std::string>{"x"});
  CHECK(model.outputs == std::vector<std::string>{"y"});

  const auto values = [](std::string_view text) { return parse_array(bytes_of(text)).values; };
  using Values = std::vector<double>;
  using namespace std::literals;
  CHECK(values("\x08\x02\x10\x01\x22\x08\x00\x00\x80\x3f\x00\x00\x20\xc0"sv) == Values{1, -2.5});
  CHECK(values("\x08\x01\x10\x0b\x4a\x08\x00\x00\x00\x00\x00\x00\xe0\x3f"sv) == Values{0.5});
  CHECK(values("\x08\x02\x10\x0a\x4a\x04\x00\x38\x00\xc0"sv) == Values{0.5, -2});
  CHECK(values("\x08\x02\x10\x0a\x2a\x04\x80\x70\x80\x78"sv) == Values{0.5, 1});
  CHECK(values("\x08\x02\x10\x07\x3a\x0b\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv) ==
        Values{5, -1});
  CHECK(values("\x10\x01\x4a\x04\x00\x00\x80\x3f"sv) == Values{1});  // a scalar
  CHECK(to_string(parse_array(bytes_of("\x08\x01\x10\x02\x4a\x01\x07"sv)).type) == "uint8");
}

TEST_CASE("onnx: the reader refuses what is damaged") {
  using namespace std::literals;
  for (const std::string_view text : {
           "\x08"sv,                                              // a field without its value
           "\x0a\x05x"sv,                                         // five bytes announced, one there
           "\x0b"sv,                                              // wire type 3
           "\x02\x00"sv,                                          // field number 0
           "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv,  // a varint without an end
           "\x08\x03\x10\x01\x4a\x04\x00\x00\x80\x3f"sv,          // three elements, bytes for one
           "\x08\x01\x10\x01\x4a\x03\x00\x00\x80"sv,              // three quarters of an element
           "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x01"sv,  // an extent of -1
           "\x10\x01\x70\x01\x4a\x04\x00\x00\x80\x3f"sv,              // kept in another file
           "\x12\x01\x01"sv,                                          // a type that is no varint
       })
    CHECK_THROWS_AS(parse_array(bytes_of(text)), ParseError);
  // Cut off anywhere, it is refused or means less, and is never read beyond its end.
  for (std::size_t size = 0; size < small_model.size(); ++size) {
    CAPTURE(size);
    const std::vector<std::uint8_t> cut(small_model.begin(),
                                        small_model.begin() + static_cast<std::ptrdiff_t>(size));
    if (size == small_graph.size())
      CHECK(parse_model(cut).opset == 0);
    else
      CHECK_THROWS_AS(parse_model(cut), ParseError);
  }
}
