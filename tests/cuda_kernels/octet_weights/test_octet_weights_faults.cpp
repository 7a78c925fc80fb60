// Planted faults of the mechanisms of octet_weights/ are caught, on a GPU.
#include "cuda_kernels/wide/caught_copies.hpp"
#include "planted_octet_weights.hpp"

TEST_CASE("cuda: planted faults of the kernel of octets' weights are caught", "[faults]") {
  plumb_test::check_copies(
      plumb_test::octet_weights_copies(),
      {"mb8ic2ih20oc12kh5ph2", "mb3ic5ih17iw23oc9kh3ph1sh2", "g2mb2ic12ih12oc32kh9ph3",
       // Of few terms, so that a lost low half is beyond their bound.
       "mb1ic2ih5oc9kh4ph0"},
      plumb::Direction::backward_weights);
}
