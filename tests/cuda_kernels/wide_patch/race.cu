// Checks the patch kernel and what it takes for granted, and times its tiles, on a machine with a
// GPU of sm_90.
#include <algorithm>
#include <cstring>

#include "cuda_kernels/wide/wide_case.cuh"
#include "cuda_kernels/wide/wide_timing.cuh"
#include "cuda_kernels/wide_patch/wide_patch_entry.cuh"
#include "shift_check.cuh"

namespace {

using namespace plumb_test;

/// A convolution with its tensors, which are those of the wide kernel's.
class PatchCase {
 public:
  PatchCase(const std::string& text, bool planes, bool integers, int buffers)
      : tensors_(text, {.planes = planes, .x_planes = planes, .folded_axes = 0}, integers, buffers),
        info_(tensors_.info()) {
    const ConvProblem& p = tensors_.problem();
    const auto span = [](const Extents& extents, const Strides& strides) {
      std::int64_t last = 0;
      for (int i = 0; i < extents.rank(); ++i) last += (extents[i] - 1) * strides[i];
      return (last + 1 + 127) / 128 * 128;
    };
    x_count_ = span(p.x_extents(), p.x_strides), y_count_ = span(p.y_extents(), p.y_strides);
    tensors_.pack();
  }
  PatchCase(const PatchCase&) = delete;
  ~PatchCase() { cudaFree(workspace_); }

  WideCase<WideFp16>& tensors() { return tensors_; }
  PatchPlan plan(PatchChoice choice = {}) const {
    return PatchPlan(tensors_.problem(), WideFp16::host, info_, choice);
  }
  void launch(const PatchPlan& plan, int buffer = 0) {
    if (const std::size_t bytes = plan.workspace_bytes() + 256; bytes > workspace_bytes_) {
      cudaFree(workspace_);
      check(cudaMalloc(reinterpret_cast<void**>(&workspace_), bytes), "cudaMalloc");
      workspace_bytes_ = bytes;
    }
    const ConvLaunch call{.problem = tensors_.problem(),
                          .device = info_,
                          .x = tensors_.x(),
                          .w = nullptr,
                          .bias = nullptr,
                          .y = tensors_.y(),
                          .activation = Activation::none,
                          .workspace = nullptr,
                          .native_queue = nullptr};
    launch_planned_patches<WideFp16, WideFp16Across>(tensors_.problem(), plan,
                                                     {.x = tensors_.x() + buffer * x_count_,
                                                      .filters = tensors_.packed(),
                                                      .y = tensors_.y() + buffer * y_count_,
                                                      .workspace = workspace_},
                                                     Epilogue<__half>(call), info_, nullptr);
  }

 private:
  WideCase<WideFp16> tensors_;
  DeviceInfo info_;
  std::int64_t x_count_ = 0, y_count_ = 0;
  char* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
};

std::string tiles_of(const PatchPlan& plan) {
  const PatchTiles& tiles = plan.across ? *plan.across : plan.tiles;
  char text[200];
  std::snprintf(text, sizeof(text),
                R"("images":%d,"rows":%d,"columns":%d,"pitch":%d,"positions":%d,"n":%d,)"
                R"("patches":%d,"stages":%d,"keeps":%d,"across":%d)",
                tiles.tile.images, tiles.tile.rows, tiles.tile.columns, tiles.tile.pitch,
                tiles.tile.positions(), 8 * patch_n8_tiles[tiles.kernel], tiles.patches,
                tiles.stages, tiles.keeps_filters, plan.across.has_value());
  return text;
}

int check_problems() {
  struct Case {
    const char* text;
    PatchChoice choice;
  };
  int failed = 0;
  for (const Case& of : {Case{"mb1ic64ih8oc64kh1ph0", {}},
                         Case{"mb1ic64ih8oc64kh3ph1", {}},
                         Case{"mb4ic64ih56oc64kh3ph1", {}},
                         Case{"mb64ic64ih56oc64kh3ph1", {}},
                         Case{"mb8ic64ih224oc64kh3ph1", {}},
                         Case{"mb64ic256ih14oc256kh3ph1", {}},
                         Case{"mb64ic512ih7oc512kh3ph1", {}},
                         Case{"mb64ic128ih28oc128kh3ph1", {}},
                         Case{"mb3ic72ih19oc40kh5ph2dh1", {}},
                         Case{"g2mb2ic144ih30oc144kh3ph1", {}},
                         Case{"mb2ic64id9ih14oc64kd3kh3kw3pd1ph1pw1", {}},
                         Case{"mb64ic128ih56oc128kh3ph1sh2", {}},
                         Case{"mb64ic512ih14oc512kh3ph1sh2", {}},
                         Case{"mb8ic256ih56oc512kh1ph0sh2", {}},
                         Case{"mb3ic72ih19oc40kh5ph2dh1sh3", {}},
                         Case{"g2mb2ic144ih31iw30oc144kh3kw3ph1pw1sh1sw2", {}},
                         Case{"mb2ic32id17ih28oc64kd3kh3kw3pd1ph1pw1sd2sh2sw2", {}},
                         Case{"mb2ic128iw1999oc64kw3pw0sw2", {}},
                         Case{"mb3ic200ih8iw25oc136kh1ph0", {.across = 1}},
                         Case{"mb64ic64ih56oc256kh1ph0", {.across = 1}},
                         Case{"mb5ic64ih7oc64kh3ph1", {.images = 4, .rows = 7, .columns = 7}},
                         Case{"mb2ic64ih16iw15oc64kh3ph1", {.rows = 16, .columns = 15}}})
    for (const bool planes : {false, true}) {
      PatchCase convolution(of.text, planes, true, 1);
      const PatchPlan plan = convolution.plan(of.choice);
      convolution.tensors().clear();
      convolution.launch(plan);
      check(cudaDeviceSynchronize(), of.text);
      const Wrong wrong = convolution.tensors().wrong(200000);
      std::printf("%s %s {%s}: %llu wrong%s\n", of.text, planes ? "nchw" : "nhwc",
                  tiles_of(plan).c_str(), wrong.count, wrong.count ? " ***" : "");
      if (wrong.count)
        std::printf("  the first is output %llu: %g, expected %g\n", wrong.first, wrong.met,
                    wrong.expected);
      std::fflush(stdout);
      failed += wrong.count != 0;
    }
  return failed;
}

void time_problem(const std::string& text, bool planes, bool sweep) {
  const ConvProblem problem = wide_problem(text, DType::f16);
  constexpr double rotated_bytes = 400e6;
  const int buffers =
      1 + static_cast<int>(std::min(20.0, rotated_bytes / std::max(problem.bytes(), 1.0)));
  PatchCase convolution(text, planes, true, buffers);
  const auto line = [&](const char* kind, const PatchPlan& plan) {
    const double ms = milliseconds(convolution, plan, buffers);
    std::printf(R"({"problem":"%s","layout":"%s","kind":"%s",%s,"ms":%.4f,"predicted_ms":%.4f,)"
                R"("tflops":%.1f})"
                "\n",
                text.c_str(), planes ? "nchw" : "nhwc", kind, tiles_of(plan).c_str(), ms,
                1e3 * (plan.across ? *plan.across : plan.tiles).seconds,
                problem.flop() / ms * 1e-9);
    std::fflush(stdout);
  };
  line("planned", convolution.plan());
  PatchTiles before;
  for (int part = 1; sweep && part <= 8; ++part) {
    const int columns = static_cast<int>((problem.q() + part - 1) / part);
    for (const int rows : {1, 2, 4, 7, 8, 14}) {
      const PatchPlan plan = convolution.plan({.rows = rows, .columns = columns});
      if (plan.tiles.kernel < 0 || rows > problem.p() || plan.tiles.tile == before.tile) continue;
      line("swept", plan);
      before = plan.tiles;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1 && words[0] == "shift") return shifted::check_shifts() ? 0 : 1;
  if (words.size() == 1 && words[0] == "check") return std::min(check_problems(), 255);
  if (words.empty() || words[0] != "time") {
    std::fprintf(
        stderr,
        "usage: plumb_race_wide_patch shift | check | time [--sweep] [--nchw] PROBLEM...\n");
    return 2;
  }
  bool sweep = false, planes = false;
  for (std::size_t i = 1; i < words.size(); ++i)
    if (words[i] == "--sweep")
      sweep = true;
    else if (words[i] == "--nchw")
      planes = true;
    else
      time_problem(words[i], planes, sweep);
  return 0;
}
