// Vectors over images on the CPU: batches that fill vectors and that do not, on every instruction
// set; and what a lost channel, a tap off at a border or a lost column would do.
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <set>
#include <string>
#include <string_view>

#include "all_tiers.hpp"
#include "conv_case.hpp"
#include "damaged_copy.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

constexpr const char* names[] = {"cpu.conv.images.fp32", "cpu.conv.images.fp64"};

constexpr const char* texts[] = {
    "mb16ic3ih9iw10oc12kh3ph1",          // runs of 8 and 4 filters, or of 6
    "mb17ic2ih7iw5oc15kh7ph6",           // lanes left over; all borders, 8 + 4 + 2 + 1 filters
    "mb5ic4ih6iw21oc3kh2kw5ph1pw2",      // fewer images than lanes
    "mb16ic300ih6iw9oc9kh3ph1",          // blocks of channels, and of rows
    "mb18ic24ih30iw25oc8kh5ph2",         // bands of rows, which share input
    "mb9ic3ih15iw14oc5kh3kw2sh3sw2ph1",  // strides
    "mb16ic2ih15iw14oc5kh3kw3sh4sw2ph2dh1dw2",  // strides and dilations with a divisor
    "mb4ic5ih17oc10kh3ph9dh8",                  // most taps in zeros, outputs of none
    "mb8ic8ih11oc10kh1sh2",                     // of a stride only each second element
    "g3mb16ic6ih8iw9oc15kh3ph1",                // groups
    "mb33ic2iw40oc4kw9pw4",                     // one row
    "mb16ic2ih90oc3kh40ph39",                   // more classes of borders than are cut
};

using Fault = ForwardFault;

const ConvAlgorithm* real = nullptr;

template <Fault fault>
constexpr ConvAlgorithm copy_with = with_fault<real, fault>({
    .name = "cpu.conv.images.copy.fp32",
    .accumulates = true,
});

std::set<Tier> tiers_that_caught(const ConvAlgorithm* copy) {
  return plumb_test::tiers_that_caught(
      copy, {problem_of("mb5ic5ih7iw8oc18kh3ph1"), problem_of("mb16ic40ih12oc16kh5ph2")},
      Placement::nchw);
}

}  // namespace

TEST_CASE("cpu images: all tiers, on every instruction set, in every dtype and layout", "[long]") {
  check_forward_tiers(names, texts, {Placement::nchw, Placement::nhwc, Placement::strided},
                      [](Reason reason, std::string_view text) {
                        return reason == Reason::too_large && text.ends_with("kh40ph39");
                      });
}

TEST_CASE("cpu images: a lost channel, a tap off at a border, a lost column are found") {
  real = &algorithm_of(Device::open("cpu"), names[0]);
  CHECK(tiers_that_caught(&copy_with<Fault::none>).empty());
  for (const ConvAlgorithm* copy :
       {&copy_with<Fault::lost_channel>, &copy_with<Fault::tap_off_at_border>,
        &copy_with<Fault::lost_column>}) {
    const std::set<Tier> caught = tiers_that_caught(copy);
    CHECK(caught.contains(Tier::exact));
    CHECK(caught.contains(Tier::bounded));
  }
}

TEST_CASE("cpu images: the same bits for any batch, any number of threads, and direct's") {
  // What auto chooses for backward data of few channels in batches that fill vectors.
  const Device device = Device::open("cpu");
  const ConvProblem chosen = problem_of("mb16ic24ih27oc12kh7ph6");
  CHECK(ConvPlan(device, chosen, {}).algorithm().name.starts_with("cpu.conv.images"));
  for (const char* text : {"mb17ic3ih9iw11oc5kh3ph2", "mb2ic30ih9iw11oc5kh3ph2"}) {
    CAPTURE(text);
    Random random(4);
    cpu_conv::Case data(problem_of(text));
    data.fill([&] { return random.normal(); });
    data.run(device, cpu_conv::forced(names[0]));
    const std::vector<std::byte> ours = data.y.bytes();
    data.run(device, cpu_conv::forced("cpu.conv.direct.fp32"));
    CHECK(data.y.bytes() == ours);
  }
}
