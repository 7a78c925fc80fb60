// Vectors over filters on the CPU: each way to read x, in one to three dimensions, on every
// instruction set; and what a lost channel, a tap off at a border or a lost column would do.
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "all_tiers.hpp"
#include "conv_case.hpp"
#include "damaged_copy.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

constexpr const char* names[] = {"cpu.conv.channels.fp32", "cpu.conv.channels.fp64"};

constexpr const char* texts[] = {
    "g21mb1ic42ih40iw3oc63kh16kw16ph8pw8_padclamp",  // blocks of channels that lanes have copies of
    "mb2ic19ih9iw30oc40kh1",                         // rows and images joined, read in place
    "mb70ic24ih3oc35kh3ph0",                         // a row of images of one output
    "mb2ic520ih6iw5oc33kh3ph1",                      // blocks of channels
    "mb1ic512ih5oc20kh1",                            // columns that share sets of a cache
    "mb2ic7ih13iw29oc50kh5kw3ph2pw1",                // taps left out above and below
    "mb1ic5ih17oc18kh3ph9dh8",                       // most taps in zeros
    "mb2ic9ih7oc40kh3ph1",                           // rows of one tile, between zeros
    "mb1ic12ih5iw22oc33kh3kw5ph1pw2",                // more than one column of zeros
    "mb1ic12ih6iw22oc33kh2kw4sw2pw1",                // zeros on one side
    "mb1ic20ih4iw1oc33kh3ph1",                       // one output with zeros on both
    "mb1ic520ih7oc65kh3ph1",                         // filters that come beside tiles
    "mb2ic700ih3iw4oc330kh1",                        // the same of one tap
    "g2mb1ic300ih5iw4oc400kh3ph1",                   // and of groups
    "mb2ic6ih15iw14oc17kh3kw2sh3sw2ph1",             // strides
    "mb1ic6ih15iw14oc17kh3kw3sh4sw2ph2dh1dw2",       // strides and dilations with a divisor
    "mb2ic8ih11oc24kh1sh2",                          // of a stride only each second element
    "g32mb2ic32ih9iw18oc32kh3ph1",                   // depthwise, read in place
    "g37mb2ic37ih9iw18oc37kh3ph1",                   // with lanes left over
    "g70mb1ic70ih8iw9oc140kh3ph1",                   // two filters a channel
    "g9mb2ic36ih8iw7oc36kh3ph1",                     // groups of four in common vectors
    "g9mb2ic27ih8iw7oc45kh2ph1",                     // groups that no vector has whole
    "g4mb2ic32ih8iw7oc32kh3ph1",                     // groups of half a vector
    "g5mb2ic40ih9iw17oc40kh3ph1",                    // with a group left over
    "g6mb1ic66ih7iw9oc48kh2kw5ph1pw2",               // channels that no vector has whole, two taps
    "g10mb2ic50ih11iw13oc40kh3sh2ph1",               // of a quarter, strides
    "g9mb1ic36ih8iw19oc36kh3kw4ph1pw2dw1",           // taps that are no neighbours
    "g6mb1ic24ih6iw40oc24kh2kw3sw2pw1",              // neighbours, two of them a position
    "g8mb2ic8ih9iw18oc32kh3ph1",                     // four filters a channel, read in place
    "g12mb1ic12ih7iw18oc96kh3",                      // eight
    "g4mb1ic2400ih3iw5oc32kh3ph1",                   // blocks of channels of groups in one vector
    "g16mb1ic64id4ih5iw6oc64kd2kh3kw3pd1ph1pw1",     // three dimensions
    "g8mb1ic40ih8iw9oc64kh3kw4ph2pw3_padreflect",
    "g3mb1ic60ih7oc150kh3ph1",                       // of many
    "mb2ic4iw190oc20kw9pw20dw3",                     // one dimension
    "mb1ic3id7ih6iw9oc20kd3kh2kw3sd2pd1ph1pw2",      // three
    "g17mb1ic17id5ih6iw7oc17kd3kh3kw3pd1ph1pw1dd1",  // depthwise
    "mb2ic5id11ih4iw5oc18kd3kh2kw2sd2pd3dd1",        // planes that neighbours share, some of them
    "mb2ic5id9ih4iw5oc18kd4kh2kw2pd1",               // and all but one
    "mb2ic70id4ih18iw21oc18kd3kh3kw3pd1ph1pw1",      // in several bands
    "mb1ic6id5ih8iw9oc20kd3kh3kw3pd2ph2pw3_padperiodic",
    "mb2ic6ih8iw9oc20kh3kw4ph2pw3_padreflect",
    "g18mb1ic18ih8iw9oc18kh3kw4ph2pw3_padsymmetric",
    "g5mb1ic20ih8iw9oc20kh3kw4ph2pw3_padclamp",
};

using Fault = ForwardFault;

const ConvAlgorithm* real = nullptr;

template <Fault fault>
constexpr ConvAlgorithm copy_with = with_fault<real, fault>({
    .name = "cpu.conv.channels.copy.fp32",
    .takes_depth = true,
    .takes_boundaries = true,
    .accumulates = true,
});

std::set<Tier> tiers_that_caught(const ConvAlgorithm* copy) {
  return plumb_test::tiers_that_caught(
      copy, {problem_of("mb2ic5ih7iw8oc18kh3ph1"), problem_of("mb1ic40ih20oc16kh5ph2")},
      Placement::nhwc);
}

}  // namespace

TEST_CASE("cpu channels: all tiers, on every instruction set, in every dtype and layout",
          "[long]") {
  check_forward_tiers(names, texts, {Placement::nhwc, Placement::nchw, Placement::strided},
                      [](Reason, std::string_view) { return false; });
}

TEST_CASE("cpu channels: a row of one pixel may have a step of zero") {
  for (const char* set : {"sse2", "avx2", "avx512"}) {
    const ForcedInstructionSet forced(set);
    const Device device = Device::open("cpu");
    for (const char* name : names)
      for (const char* text : {"g8mb1ic8ih1oc8kh1", "g8mb1ic8ih1oc16kh1", "g8mb1ic8ih1oc32kh1",
                               "g8mb1ic8ih1oc64kh1"}) {
        ValidationCase test = validation_case("", problem_of(text), Placement::nhwc);
        test.problem.x_strides[3] = 0;
        const ConvAlgorithm* const algorithm = &algorithm_of(device, name);
        for (const ValidationRecord& record :
             validate(device, {&algorithm, 1}, test,
                      {.tiers = {Tier::exact}, .guard = GuardPages::behind})) {
          CAPTURE(set, name, text, record.sentence);
          CHECK(record.verdict == Verdict::pass);
        }
      }
  }
}

TEST_CASE("cpu channels: a lost channel, a tap off at a border, a lost column are found") {
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
