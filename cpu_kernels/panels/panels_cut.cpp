// Panels and blocks of terms get their sizes here.
#include "cpu_kernels/panels/panels_cut.hpp"

#include <algorithm>

#include "cpu_kernels/conv/micro_kernel.hpp"
#include "cpu_kernels/panels/panel.hpp"

namespace plumb {

namespace {

using std::int64_t;

/// Says whether panels lie in images. A panel then has outputs of one image, so images have to be
/// so large that at most a 33rd is wasted in the vectors at their ends.
template <class Real>
bool reads_images(const ConvProblem& p) {
  const int64_t image = p.p() * p.q();
  return lies_as_panel(p) && size_in_bytes(p.dtype) == sizeof(Real) &&
         32 * round_up(image, max_lanes) <= 33 * image;
}

}  // namespace

bool lies_as_panel(const ConvProblem& p) {
  return p.r == 1 && p.s == 1 && p.stride == Pair{} && p.padding == Padding{} &&
         p.x_strides == dense_strides(p.x_extents());
}

template <class Real>
PanelCut panel_cut(const ConvProblem& p, int threads) {
  // A panel of a block's terms and the sums of a task's filters fit into a level-2 cache. Blocks
  // are long, so that sums are seldom stored between them.
  constexpr int64_t max_terms = 512 * sizeof(float) / sizeof(Real);
  const int64_t image = p.p() * p.q(), group_k = p.k / p.groups;
  const int64_t outputs = std::max<int64_t>(p.n, 1) * image;
  const auto bytes_of = [](int64_t reals) { return padded(reals * int64_t{sizeof(Real)}); };
  PanelCut cut{};
  const bool in_images = reads_images<Real>(p);
  const int64_t positions = in_images ? image : outputs;
  const int64_t max_width = in_images ? image_positions : panel_positions;
  cut.width = round_up(ceil_div(positions, ceil_div(positions, max_width)), max_lanes);
  cut.panels = ceil_div(positions, cut.width);
  if (in_images) {
    cut.image_panels = cut.panels;
    cut.panels *= std::max<int64_t>(p.n, 1);
  }
  cut.blocks = ceil_div(p.terms(), max_terms);
  cut.block = ceil_div(p.terms(), cut.blocks);
  const int64_t panels = cut.panels * p.groups;
  cut.step = cut.width + max_lanes;
  cut.panel_reals = cut.block * cut.step;
  cut.filters_bytes = bytes_of(p.k * p.terms());
  cut.bias_bytes = bytes_of(p.k);
  cut.offsets_bytes = padded(2 * cut.block * int64_t{sizeof(int64_t)});
  const std::size_t panels_bytes = bytes_of(panels * cut.blocks * cut.panel_reals);
  cut.panel_bytes = bytes_of(cut.panel_reals);
  // With one block the sums of a run are stored before the next run. The last sum is read with a
  // whole vector.
  const int64_t kept = cut.blocks > 1 ? std::min(group_k, filters_of_pass) : max_run_filters;
  cut.sums_bytes = bytes_of(kept * cut.width + max_lanes);
  cut.packed_first = panels < 4 * threads && threads > 1 &&
                     cut.bytes(0) + panels_bytes + cut.sums_bytes <= workspace_limit_bytes;
  if (cut.packed_first) cut.panels_bytes = panels_bytes, cut.panel_bytes = 0;
  return cut;
}

template PanelCut panel_cut<float>(const ConvProblem&, int);
template PanelCut panel_cut<double>(const ConvProblem&, int);

}  // namespace plumb
