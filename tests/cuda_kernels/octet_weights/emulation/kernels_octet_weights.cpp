// The sources of octet_weights/ compiled for the host.
#include "cuda_kernels/octet_weights/octet_weights.cu"
#include "octet_weights_run.hpp"

namespace plumb_test::emulation {

using namespace plumb::cuda;

void run_octet_weights(const OctetWeightsPlan& plan, const WeightsCall& call,
                       FewWeightsFault fault) {
  if (fault == FewWeightsFault::none) return launch_octet_weights(plan, call, nullptr);
  constexpr OctetForm form = mistaken_form;
  if (!(plan.cut.form == form)) throw std::logic_error("a form without mistakes");
  const auto is = [&]<FewWeightsFault of>() {
    if (fault != of) return;
    octet_weights::launch_form<form.filters, form.tiles, form.blocks_at_once, of>(plan, call,
                                                                                  nullptr);
  };
  is.template operator()<FewWeightsFault::lost_warp>();
  is.template operator()<FewWeightsFault::wrong_tap>();
  is.template operator()<FewWeightsFault::no_low>();
  is.template operator()<FewWeightsFault::stale_stage>();
  is.template operator()<FewWeightsFault::lost_range>();
}

}  // namespace plumb_test::emulation
