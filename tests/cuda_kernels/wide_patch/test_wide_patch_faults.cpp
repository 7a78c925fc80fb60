// Planted faults of the patch kernel's own mechanisms are caught.
#include "cuda_kernels/wide/caught_copies.hpp"
#include "planted_wide_patch.hpp"

TEST_CASE("cuda: planted faults of the patch kernel are caught", "[faults]") {
  plumb_test::check_copies(plumb_test::wide_patch_copies(),
                           {"mb2ic72ih9iw10oc40kh3ph1", "mb3ic128ih14oc136kh3ph1",
                            "mb2ic64id4ih5iw6oc24kd3kh3kw3pd1ph1pw1", "g2mb2ic144ih9iw10oc40kh3ph1",
                            "mb2ic24ih17iw15oc24kh3ph2dh1", "mb2ic72ih19iw20oc40kh3ph1sh2",
                            "mb2ic72ih9iw31oc40kh3kw5ph1pw2sh1sw3"},
                           plumb::Direction::forward);
}
