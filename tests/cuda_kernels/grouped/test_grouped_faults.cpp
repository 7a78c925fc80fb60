// Planted faults of the mechanisms of grouped/ are caught, on a GPU.
#include "cuda_kernels/wide/caught_copies.hpp"
#include "planted_grouped.hpp"

TEST_CASE("cuda: planted faults of the grouped kernel are caught", "[faults]") {
  plumb_test::check_copies(plumb_test::grouped_copies(),
                           {"mb2g8ic64ih13oc64kh3ph1", "mb3g16ic64ih8oc64kh3ph1"},
                           plumb::Direction::forward);
}
