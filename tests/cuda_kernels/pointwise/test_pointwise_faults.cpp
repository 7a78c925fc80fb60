// Planted faults of the mechanisms of pointwise/ are caught, on a GPU.
#include "cuda_kernels/wide/caught_copies.hpp"
#include "planted_pointwise.hpp"

TEST_CASE("cuda: planted faults of the pointwise kernel are caught", "[faults]") {
  plumb_test::check_copies(plumb_test::pointwise_copies(),
                           {"mb2ic96ih13oc72kh1", "mb3ic40ih8oc40kh1",
                            // Of few terms, so that a lost low half is beyond their bound.
                            "mb2ic4ih9oc8kh1"},
                           plumb::Direction::forward);
}
