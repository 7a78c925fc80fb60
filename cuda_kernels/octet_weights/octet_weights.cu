// Backward weights of few channels and many taps by wgmma, of f32 as accurate as fp32: fp16 halves
// in three products, the small ones first (Ootomo & Yokota 2022).
#include "cuda_kernels/octet_weights/octet_weights_launch.cuh"

namespace plumb::cuda {

void launch_octet_weights(const OctetWeightsPlan& plan, const WeightsCall& call, void* stream) {
  const auto launch = [&]<std::size_t i>() {
    constexpr OctetForm form = octet_forms[i];
    if (!(form == plan.cut.form)) return false;
    octet_weights::launch_form<form.filters, form.tiles, form.blocks_at_once>(plan, call, stream);
    return true;
  };
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    if (!(launch.template operator()<i>() || ...))
      throw std::logic_error("no kernel is compiled for the form of backward weights");
  }
  (std::make_index_sequence<std::size(octet_forms)>());
}

}  // namespace plumb::cuda
