// Planted faults of the mechanisms of few_weights/ are caught, on a GPU.
#include "cuda_kernels/wide/caught_copies.hpp"
#include "planted_few_weights.hpp"

TEST_CASE("cuda: planted faults of the kernel of few weights are caught", "[faults]") {
  plumb_test::check_copies(
      plumb_test::few_weights_copies(),
      {"mb8ic2ih20oc4kh5ph2", "mb3ic5ih17iw23oc9kh3ph1sh2", "g2mb2ic6ih12oc8kh3ph1",
       // Of few terms, so that a lost low half is beyond their bound.
       "mb1ic2ih5oc4kh4ph0"},
      plumb::Direction::backward_weights);
}
