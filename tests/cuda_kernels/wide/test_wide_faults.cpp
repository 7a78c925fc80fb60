// Planted faults of the wide kernel's own mechanisms are caught.
#include "caught_copies.hpp"
#include "planted_wide.hpp"

TEST_CASE("cuda: planted faults of the wide kernel are caught", "[faults]") {
  plumb_test::check_copies(plumb_test::wide_copies(),
                           {"mb2ic72ih9iw10oc40kh3ph1", "mb3ic128ih14oc136kh3ph1sh2",
                            "mb2ic64id4ih5iw6oc24kd3kh3kw3pd1ph1pw1", "g2mb2ic144ih9iw10oc40kh3ph1",
                            "mb2ic3ih32iw48oc40kh16sh16ph0",  // taps as channels
                            // Of few terms, so that a lost low half is beyond their bound.
                            "mb2ic8ih9iw10oc40kh1ph0", "mb2ic16ih9iw10oc24kh1ph0",
                            // Planes that begin at 16 bytes.
                            "mb2ic8ih8iw9oc40kh1ph0", "mb2ic72ih8iw9oc40kh1ph0"},
                           plumb::Direction::forward);
}
