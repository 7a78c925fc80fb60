// Which convolutions are fields.
#include <string>

#include "cuda_kernels/fields/fields.hpp"
#include "plumb/conv.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

Support refuse(std::string sentence) { return {Reason::geometry, std::move(sentence)}; }

/// A stride to no second output and a dilation of one tap move nothing.
bool moves_one_by_one(const ConvProblem& p) {
  const auto plain = [](std::int64_t step, std::int64_t places) {
    return step == 1 || places <= 1;
  };
  return plain(p.stride.d, p.z()) && plain(p.stride.h, p.p()) && plain(p.stride.w, p.q()) &&
         plain(p.dilation.d, p.t) && plain(p.dilation.h, p.r) && plain(p.dilation.w, p.s);
}

}  // namespace

Support supports_fields(const ConvProblem& p, DType dtype, const FieldLimits& limits) {
  if (const Support stored = supports_dtypes({dtype}, p); !stored) return stored;
  if (p.groups != 1) return refuse(std::to_string(p.groups) + " groups; expected 1");
  if (p.c > limits.channels || p.k > limits.filters)
    return refuse(std::to_string(p.c) + " channels and " + std::to_string(p.k) +
                  " filters; expected at most " + std::to_string(limits.channels) + " and " +
                  std::to_string(limits.filters));
  if (!moves_one_by_one(p)) return refuse("strides or dilations; expected none");
  return {};
}

/// The line has one row of taps, channel by channel. The queue has planes rise along u, and in each
/// the rows and taps of a channel, but all channels of a plane before the next one's. Columns do so
/// too, with all rows for a tap along w before the next. Whatever axes are u and v, they rise as d,
/// h, w do: one without taps has no place in the order. The tile takes taps along w by chunks
/// unless it is told to; the Toeplitz kernel leaves the order to tensor cores.
bool sums_in_order(const FieldPlan& plan) {
  const FieldView& view = plan.view;
  switch (plan.kernel) {
    case FieldKernel::line: return true;
    case FieldKernel::queue: return view.c == 1;
    case FieldKernel::columns: return view.c == 1 && view.v.taps == 1;
    case FieldKernel::tile: return plan.in_order;
    case FieldKernel::toeplitz: break;
  }
  return false;
}

}  // namespace plumb::cuda
