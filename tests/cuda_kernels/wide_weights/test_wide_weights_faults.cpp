// Planted faults of the mechanisms of wide_weights/ are caught, on a GPU with wgmma.
#include "cuda_kernels/wide/caught_copies.hpp"
#include "planted_wide_weights.hpp"

TEST_CASE("cuda: planted faults of the wide kernel of backward weights are caught", "[faults]") {
  plumb_test::check_copies(
      plumb_test::wide_weights_copies(),
      {"mb4ic72ih9iw10oc136kh3ph1", "mb3ic128ih14oc136kh3ph1sh2", "g2mb2ic144ih9iw10oc40kh3ph1",
       // Of few terms, so that a lost low half is beyond their bound.
       "mb1ic8ih4iw5oc40kh1ph0"},
      plumb::Direction::backward_weights);
}
