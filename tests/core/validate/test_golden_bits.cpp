// Hashes of a thousand reproducible results: every device, instruction set and layout gives the
// bits that stand in golden_bits.txt, which scripts/golden_bits writes by the plain loop.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "support/devices.hpp"
#include "support/forced_instruction_set.hpp"
#include "support/host_tensor.hpp"

using namespace plumb;
using plumb_test::DeviceTensor;
using plumb_test::HostTensor;

namespace {

/// One line of the file: the problem, its type, what is asked for beside it, and the hash.
struct Golden {
  std::string text;
  ConvProblem problem;
  bool bias, relu, accumulate, mask;
  std::uint64_t hash;

  ConvOptions options() const {
    return {.bias = bias,
            .activation = relu ? Activation::relu : Activation::none,
            .accumulate = accumulate,
            .relu_mask = mask,
            .reproducible = true};
  }
};

/// Integers alone (SplitMix64, Steele, Lea and Flood 2014), and a power of two: nothing here
/// depends on a library's elementary functions.
class Values {
 public:
  explicit Values(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Up to 24 digits, over sixteen powers of two; one in 16 is a zero, of either sign.
  double value() {
    const std::uint64_t bits = next();
    const double sign = bits & 1 ? -1 : 1;
    if ((bits >> 1) % 16 == 0) return sign * 0.0;
    return sign *
           std::ldexp(static_cast<double>(bits >> 40), -23 - static_cast<int>(bits >> 8 & 15));
  }

 private:
  std::uint64_t state_;
};

/// FNV-1a.
class Hash {
 public:
  void add(std::uint64_t bytes, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      hash_ = (hash_ ^ (bytes & 0xff)) * 0x100000001b3u;
      bytes >>= 8;
    }
  }
  void add(const HostTensor& tensor) {
    const DType dtype = tensor.dtype();
    const std::size_t count = size_in_bytes(dtype);
    for (const double value : tensor.values()) {
      if (std::isnan(value))  // which NaN is not promised
        add(0x7ff8000000000000u, 8);
      else if (dtype == DType::f64)
        add(std::bit_cast<std::uint64_t>(value), count);
      else if (dtype == DType::f32)
        add(std::bit_cast<std::uint32_t>(static_cast<float>(value)), count);
      else if (dtype == DType::f16)
        add(Half(static_cast<float>(value)).bits, count);
      else
        add(BFloat16(static_cast<float>(value)).bits, count);
    }
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

std::uint64_t seed_of(const std::string& text) {
  std::uint64_t seed = 2026;
  for (const char c : text) seed = seed * 31 + static_cast<unsigned char>(c);
  return seed;
}

/// The tensors of a line, by their parts, with the values that its text says.
struct Tensors {
  HostTensor image, filters, bias, output, mask, db;

  Tensors(const Golden& golden, const ConvProblem& p)
      : image(p.dtype, image_of(p).extents, image_of(p).strides),
        filters(p.dtype, filters_of(p).extents, filters_of(p).strides),
        bias(p.dtype, {bias_elements(p)}),
        output(p.dtype, output_of(p).extents, output_of(p).strides),
        mask(p.dtype, p.y_extents()),
        db(p.dtype, {p.k}) {
    Values values(seed_of(golden.text));
    for (HostTensor* tensor : {&image, &filters, &bias, &output, &mask, &db})
      tensor->fill([&] { return values.value(); });
  }
  bool sums_dy(const Golden& golden) const {
    return golden.bias && golden.problem.direction == Direction::backward_weights;
  }
  ConvTensors by_parts(const Golden& golden, const auto& x, const auto& w, const auto& b,
                       const auto& y, const auto& m, const auto& d) const {
    ConvTensors tensors{.x = x, .w = w, .y = y};
    if (golden.bias && !sums_dy(golden)) tensors.bias = b;
    if (golden.mask) tensors.mask = m;
    if (sums_dy(golden)) tensors.db = d;
    return tensors;
  }
  std::uint64_t hash(const Golden& golden) const {
    Hash hash;
    hash.add(output);
    if (sums_dy(golden)) hash.add(db);
    return hash.value();
  }
};

std::uint64_t plain_hash(const Golden& golden) {
  const ConvProblem problem = check(golden.problem);
  Tensors t(golden, problem);
  reproducible_conv(problem, golden.options(),
                    t.by_parts(golden, t.image.view(), t.filters.view(), t.bias.view(),
                               t.output.view(), t.mask.view(), t.db.view()));
  return t.hash(golden);
}

std::uint64_t hash_on(Queue& queue, const Golden& golden, Layout layout) {
  ConvProblem problem = golden.problem;
  problem.x_strides = strides_for(layout, problem.x_extents());
  problem.w_strides = strides_for(layout, problem.w_extents());
  problem.y_strides = strides_for(layout, problem.y_extents());
  problem = check(problem);
  Tensors t(golden, problem);
  const DeviceTensor x(queue, t.image), w(queue, t.filters), b(queue, t.bias), y(queue, t.output),
      m(queue, t.mask), d(queue, t.db);
  const auto view = [](const DeviceTensor& tensor) -> TensorView { return tensor; };
  const ConvPlan plan(queue.device(), problem, golden.options());
  plan.execute(queue, t.by_parts(golden, view(x), view(w), view(b), view(y), view(m), view(d)));
  y.read_back(queue, t.output);
  d.read_back(queue, t.db);
  return t.hash(golden);
}

/// PLUMB_TEST_GOLDEN names it where the sources are elsewhere.
std::string file_name() {
  if (const char* const named = std::getenv("PLUMB_TEST_GOLDEN"); named && *named) return named;
  return std::string(PLUMB_TEST_SOURCES) + "/core/validate/golden_bits.txt";
}

std::vector<Golden> read_golden() {
  std::vector<Golden> all;
  std::ifstream file(file_name());
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string text, dtype, flags, hash;
    words >> text >> dtype >> flags >> hash;
    Golden golden{text, parse_problem(text).problem, false, false, false, false, 0};
    golden.problem.dtype = parse_dtype(dtype).value();
    golden.bias = flags[0] == 'b', golden.relu = flags[1] == 'r';
    golden.accumulate = flags[2] == 'a', golden.mask = flags[3] == 'm';
    golden.hash = std::stoull(hash, nullptr, 16);
    all.push_back(golden);
  }
  return all;
}

}  // namespace

TEST_CASE("golden bits: a thousand hashes of the plain loop", "[golden]") {
  const std::vector<Golden> all = read_golden();
  REQUIRE(all.size() == 1000);
  int wrong = 0;
  for (const Golden& golden : all) {
    CAPTURE(golden.text, to_string(golden.problem.dtype));
    if (plain_hash(golden) != golden.hash && ++wrong < 5) CHECK(plain_hash(golden) == golden.hash);
  }
  CHECK(wrong == 0);
}

TEST_CASE("golden bits: every device, instruction set and layout gives them", "[golden]") {
  const std::vector<Golden> all = read_golden();
  const auto judge = [&](const Device& device, const std::string& what) {
    Queue queue(device);
    int wrong = 0, ran = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Layout layout = i % 2 == 0 ? Layout::nchw : Layout::nhwc;
      CAPTURE(what, all[i].text, to_string(all[i].problem.dtype), all[i].bias, all[i].relu,
              all[i].accumulate, all[i].mask, to_string(layout));
      const std::uint64_t hash = hash_on(queue, all[i], layout);
      ++ran;
      if (hash != all[i].hash && ++wrong < 5) CHECK(hash == all[i].hash);
    }
    CAPTURE(what);
    CHECK(wrong == 0);
    CHECK(ran == 1000);
    std::printf("golden bits: %s, %d of %d hashes are right\n", what.c_str(), ran - wrong, ran);
  };
  for (const Device& device : plumb_test::all_devices()) {
    if (device.info().instruction_set == "sse2") continue;  // refused: it has no FMA
    judge(device, to_string(device.id()) + " " + device.info().instruction_set);
  }
  const plumb_test::ForcedInstructionSet lowered("avx2");
  if (const Device device = Device::open("cpu"); device.info().instruction_set == "avx2")
    judge(device, "cpu lowered to avx2");
}

// Hidden: scripts/golden_bits runs it.
TEST_CASE("golden bits: the file is written anew", "[.write_golden]") {
  const char* const to = std::getenv("PLUMB_WRITE_GOLDEN");
  REQUIRE(to);
  std::ofstream file(to);
  file << "# Written by scripts/golden_bits. A problem, its type, what is asked for beside it "
          "(bias,\n"
          "# relu, accumulate, mask), and the hash of the bits that docs/numerics.md specifies.\n";
  RandomCases cases(2026, {.max_products = 2e4});
  for (int written = 0; written < 1000;) {
    const ValidationCase test = cases.next();
    Golden golden{
        to_string(test.problem), test.problem,   test.bias, test.activation == Activation::relu,
        test.accumulate,         test.relu_mask, 0};
    golden.problem.x_strides = golden.problem.w_strides = golden.problem.y_strides = {};
    if (golden.problem.n == 0) continue;
    ++written;
    file << golden.text << ' ' << to_string(golden.problem.dtype) << ' '
         << (golden.bias ? 'b' : '-') << (golden.relu ? 'r' : '-')
         << (golden.accumulate ? 'a' : '-') << (golden.mask ? 'm' : '-') << ' ' << std::hex
         << plain_hash(golden) << std::dec << '\n';
  }
  CHECK(file.good());
}
