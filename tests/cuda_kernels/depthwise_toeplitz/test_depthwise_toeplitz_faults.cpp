// Planted faults of the mechanisms of depthwise_toeplitz/ are caught, on a GPU.
#include "cuda_kernels/wide/caught_copies.hpp"
#include "planted_depthwise_toeplitz.hpp"

TEST_CASE("cuda: planted faults of the depthwise kernel on tensor cores are caught", "[faults]") {
  plumb_test::check_copies(
      plumb_test::depthwise_toeplitz_copies(),
      {"g24mb2ic24ih28oc24kh7ph3", "g16mb5ic16ih9iw7oc16kh3ph1", "g8mb1ic8ih20iw40oc8kh5ph2dh1dw1"},
      plumb::Direction::forward);
}
