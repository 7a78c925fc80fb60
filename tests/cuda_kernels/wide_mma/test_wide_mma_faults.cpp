// Planted faults of the mechanisms of wide_mma/ are caught, on a GPU.
#include "cuda_kernels/wide/caught_copies.hpp"
#include "planted_wide_mma.hpp"

TEST_CASE("cuda: planted faults of the wide_mma kernel are caught", "[faults]") {
  plumb_test::check_copies(plumb_test::wide_mma_copies(),
                           {"mb2ic96ih13oc72kh3ph1", "mb3ic40ih8oc136kh3"},
                           plumb::Direction::forward, 8);
}
