// The kernel of depthwise_toeplitz/ on the host, where no GPU is: its sources as they are, every
// tile, type and layout, are the oracle's bit for bit or within the bound; and planted faults are
// found.
#include <optional>
#include <set>

#include "cuda_kernels/fields/emulation/draw.hpp"
#include "depthwise_toeplitz_case.hpp"
#include "plumb/problem_text.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;
using plumb::cuda::depthwise_toeplitz_tiles;
using plumb::cuda::DepthwiseToeplitzChoice;
using plumb::cuda::DepthwiseToeplitzMove;
using plumb::cuda::DepthwiseToeplitzTile;
using plumb::cuda::plan_depthwise_toeplitz;

namespace {

constexpr std::uint32_t every = is_sanitized ? 7 : 1;

DeviceInfo device() {
  DeviceInfo info;
  info.units = 132, info.shared_memory_bytes = 227 << 10;
  info.nominal_bytes_per_second = 3.35e12;
  return info;
}

enum class Layout { nchw, nhwc, any };

Strides in_layout(const Extents& extents, bool channels_last) {
  return strides_in_order(extents, channels_last ? Dims{0, 2, 3, 1} : Dims{0, 1, 2, 3}, 0);
}

/// A depthwise problem in words, whose groups are added.
ConvProblem problem_of(std::string_view text, DType dtype = DType::f16,
                       bool channels_last = false) {
  ConvProblem p = parse_problem(text).problem;
  p.dtype = dtype, p.groups = p.k = p.c;
  p.x_strides = in_layout(p.x_extents(), channels_last);
  p.y_strides = in_layout(p.y_extents(), channels_last);
  p.w_strides = dense_strides(p.w_extents());
  return check(p);
}

class Draw : public Drawing {
 public:
  using Drawing::Drawing;

  ConvProblem problem() {
    ConvProblem p;
    p.dtype = one_in(2) ? DType::f16 : DType::bf16;
    p.n = one_in(3) ? number(2, 6) : 1;
    p.c = p.k = p.groups = one_in(2) ? 8 * number(1, 3) : number(2, 13);
    const int square = one_in(2) ? 0 : one_in(2) ? 7 : 14;
    if (!one_in(5))
      axis(square, 40, p.h, p.r, p.stride.h, p.dilation.h, p.padding.top, p.padding.bottom);
    axis(square, p.h == 1 ? 200 : 60, p.w, p.s, p.stride.w, p.dilation.w, p.padding.left,
         p.padding.right);
    const Layout layout = one_in(3) ? Layout::any : one_in(2) ? Layout::nhwc : Layout::nchw;
    const auto strides_of = [&](const Extents& extents) {
      return layout == Layout::any ? strides(extents) : in_layout(extents, layout == Layout::nhwc);
    };
    p.x_strides = strides_of(p.x_extents()), p.y_strides = strides_of(p.y_extents());
    p.w_strides = strides(p.w_extents());
    return check(p);
  }
  DepthwiseToeplitzOptions options() {
    return {.data = one_in(4)   ? Data::infinite
                    : one_in(3) ? Data::normal
                                : Data::integers,
            .bias = one_in(2),
            .relu = one_in(3),
            .accumulate = one_in(3),
            .shifted = one_in(5) ? 2 * static_cast<std::size_t>(number(1, 7)) : 0};
  }
  DepthwiseToeplitzChoice choice() {
    if (one_in(2)) return {};
    return {.tile = one_in(2) ? &depthwise_toeplitz_tiles[number(0, 3)] : nullptr,
            .channels = number(1, 16),
            .images = number(1, 5),
            .rows = number(1, 40),
            .tiles = one_in(3) ? number(1, 8) : 0};
  }

 private:
  void axis(int square, int most, std::int64_t& extent, std::int64_t& taps, std::int64_t& stride,
            std::int64_t& dilation, std::int64_t& before, std::int64_t& after) {
    extent = square > 0 ? square : one_in(3) ? 8 * number(1, most / 8) : number(1, most);
    taps = one_in(6) ? number(1, 21) : 2 * number(0, 4) + 1;
    stride = one_in(3) ? number(2, 4) : 1;
    dilation = one_in(4) ? number(2, 3) : 1;
    const std::int64_t reach = (taps - 1) * dilation + 1;
    before = one_in(3) ? number(0, 9) : reach / 2;
    after = one_in(3) ? number(0, 9) : reach / 2;
    if (one_in(10)) before = reach + 3;
    after += std::max<std::int64_t>(0, reach - before - extent - after);
  }
};

/// Runs a problem as it is planned under a choice; returns what is wrong.
std::string run(const ConvProblem& problem, const DepthwiseToeplitzOptions& options,
                std::uint32_t seed, const DepthwiseToeplitzChoice& choice = {},
                bool* ran = nullptr) {
  const auto planned = plan_depthwise_toeplitz(problem, device(), choice);
  if (ran) *ran = planned.has_value();
  if (!planned) return ran ? "" : "no plan";
  const plumb::cuda::DepthwiseToeplitzCut& cut = planned->cut;
  CAPTURE(seed, to_string(problem), to_string(problem.dtype), static_cast<int>(options.data),
          options.bias, options.relu, options.accumulate, options.shifted, cut.tile.m, cut.tile.n,
          cut.warps, cut.channels, cut.images, cut.rows, cut.tiles, cut.lead, cut.halves,
          cut.image_rows, cut.pitch, static_cast<int>(cut.x_move), static_cast<int>(cut.y_move),
          cut.x_vector, cut.y_vector);
  std::string wrong;
  try {
    wrong = DepthwiseToeplitzCase(problem, options, seed).run(*planned);
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  if (options.fault == DepthwiseToeplitzFault::none) CHECK(wrong == "");
  return wrong;
}

}  // namespace

TEST_CASE("depthwise toeplitz, emulated: random problems of every tile and layout") {
  std::set<std::vector<int>> forms;
  int failures = 0, ran = 0, all = 0;
  for (std::uint32_t seed = 0; seed < 500 && failures < 5; seed += every) {
    Draw draw(seed);
    const ConvProblem problem = draw.problem();
    const DepthwiseToeplitzOptions options = draw.options();
    const DepthwiseToeplitzChoice choice = draw.choice();
    bool could = false;
    failures += run(problem, options, seed, choice, &could) != "";
    ran += could, ++all;
    if (!could) continue;
    const auto planned = plan_depthwise_toeplitz(problem, device(), choice);
    forms.insert({static_cast<int>(problem.dtype), planned->cut.tile.m, planned->cut.tile.n,
                  planned->w.stride > 1});
    forms.insert({-1, static_cast<int>(planned->cut.x_move), planned->cut.x_vector});
    forms.insert({-2, static_cast<int>(planned->cut.y_move), planned->cut.y_vector});
  }
  CHECK(ran >= all * 9 / 10);
  // Kernels of both types, five ways to move x and y each, of columns 2, 4 and 8.
  if (!is_sanitized) CHECK(forms.size() == 2 * 2 * std::size(depthwise_toeplitz_tiles) + 2 * 7);
}

TEST_CASE("depthwise toeplitz, emulated: common layers") {
  unsigned turn = 0;
  for (const bool channels_last : {false, true})
    for (const char* text :
         {"mb1ic16ih56oc16kh7ph3", "mb2ic8ih28oc8kh5ph2", "mb1ic8ih112oc8kh3ph1",
          "mb1ic8ih112oc8kh3sh2ph1", "mb3ic16ih7oc16kh3ph1", "mb5ic8ih14oc8kh5ph2",
          "mb1ic8ih32oc8kh31ph15", "mb17ic8ih7oc8kh7ph3", "mb2ic9ih13oc9kh3dh1dw1ph2",
          "mb1ic24ih15iw33oc24kh5sh2ph2", "mb1ic2iw300oc2kw9pw4", "mb1ic8ih9iw400oc8kh3ph1"})
      for (const DType dtype : {DType::f16, DType::bf16}) {
        if (is_left_out(turn++)) continue;
        run(problem_of(text, dtype, channels_last), {.bias = true}, 7);
        if (!is_sanitized) run(problem_of(text, dtype, channels_last), {.data = Data::normal}, 8);
      }
}

TEST_CASE("depthwise toeplitz, emulated: filters of 1 to 63 taps") {
  for (int taps = 1; taps <= 63; taps += is_sanitized ? 31 : taps < 18 ? 1 : 15)
    for (const bool channels_last : {false, true}) {
      ConvProblem p = problem_of("mb1ic8ih9iw21oc8kh1", DType::f16, channels_last);
      p.r = p.s = taps;
      p.padding = {taps / 2, taps / 2, taps / 2, taps / 2};
      p.x_strides = p.w_strides = p.y_strides = {};
      p = check(p);
      p.x_strides = in_layout(p.x_extents(), channels_last);
      p.y_strides = in_layout(p.y_extents(), channels_last);
      run(p, {}, static_cast<std::uint32_t>(taps));
    }
}

TEST_CASE("depthwise toeplitz, emulated: Inf and NaN come out where the definition has them") {
  for (std::uint32_t seed = 1000; seed < (is_sanitized ? 1005u : 1060u); ++seed) {
    Draw draw(seed);
    DepthwiseToeplitzOptions options = draw.options();
    options.data = Data::infinite;
    bool ran = false;
    run(draw.problem(), options, seed, draw.choice(), &ran);
  }
  const ConvProblem problem = problem_of("mb1ic2ih9oc2kh3ph1");
  DepthwiseToeplitzCase of(problem, {.data = Data::infinite}, 3);
  of.launch(*plan_depthwise_toeplitz(problem, device()));
  CHECK(of.by_definition() > 0);
}

TEST_CASE("depthwise toeplitz, emulated: backward data of stride 1, by turned filters") {
  for (const bool channels_last : {false, true})
    for (const char* text :
         {"mb2ic8ih14oc8kh5ph2", "mb1ic8ih16iw24oc8kh3ph0pw1", "mb1ic16ih20oc16kh7dh1dw1ph6"}) {
      CAPTURE(text, channels_last);
      const ConvProblem forward = problem_of(text, DType::f16, channels_last);
      ConvProblem p = forward;  // of dy, to dx
      p.h = forward.p(), p.w = forward.q();
      const auto reach = [](std::int64_t taps, std::int64_t dilation) {
        return (taps - 1) * dilation;
      };
      const Padding& padding = forward.padding;
      p.padding.top = reach(p.r, p.dilation.h) - padding.top;
      p.padding.bottom = reach(p.r, p.dilation.h) - padding.bottom;
      p.padding.left = reach(p.s, p.dilation.w) - padding.left;
      p.padding.right = reach(p.s, p.dilation.w) - padding.right;
      p.x_strides = forward.y_strides, p.y_strides = forward.x_strides;
      p.w_strides[2] = -p.w_strides[2], p.w_strides[3] = -p.w_strides[3];
      p = check(p);
      const auto planned = plan_depthwise_toeplitz(p, device());
      REQUIRE(planned);
      DepthwiseToeplitzCase of(p, {}, 5);
      const std::vector<double> values = of.launch(*planned);
      CHECK(of.judge(values) == "");
      ConvProblem gradient = forward;
      gradient.direction = Direction::backward_data;
      HostTensor w(p.dtype, gradient.w_extents());
      for_each_index(w.extents(), [&](const Dims& at) {
        Dims turned = at;
        turned[2] = p.r - 1 - at[2], turned[3] = p.s - 1 - at[3];
        w.set(at, of.w().at(turned));
      });
      gradient.w_strides = w.strides();
      const auto oracle = conv_oracle(check(gradient), of.x().view(), w.view());
      CHECK(first_wrong(values, [&](std::size_t i) -> Expected {
              return {stored_as(p.dtype, oracle[i].y), 0};
            }) == "");
    }
}

TEST_CASE("depthwise toeplitz, emulated: an image has the same bits whatever the batch is") {
  for (const char* text :
       {"mb5ic3ih7oc3kh3ph1", "mb3ic8ih20oc8kh7ph3", "mb4ic2ih17iw24oc2kh5sh2ph2"})
    for (const bool channels_last : {false, true}) {
      const ConvProblem many = problem_of(text, DType::f16, channels_last);
      ConvProblem one = many;
      one.n = 1;
      DepthwiseToeplitzCase all(many, {.data = Data::normal}, 3),
          first(one, {.data = Data::normal}, 3);
      for_each_index(first.x().extents(),
                     [&](const Dims& at) { first.x().set(at, all.x().at(at)); });
      for_each_index(first.w().extents(),
                     [&](const Dims& at) { first.w().set(at, all.w().at(at)); });
      std::vector<double> of_all = all.launch(*plan_depthwise_toeplitz(many, device()));
      const std::vector<double> of_one = first.launch(*plan_depthwise_toeplitz(one, device()));
      of_all.resize(of_one.size());
      CHECK(of_all == of_one);
    }
}

TEST_CASE("depthwise toeplitz, emulated: planted faults are found") {
  using enum DepthwiseToeplitzFault;
  for (const bool channels_last : {false, true}) {
    const ConvProblem problem = problem_of("mb2ic8ih20iw24oc8kh7ph3", DType::f16, channels_last);
    const auto is_caught = [&](DepthwiseToeplitzFault fault) {
      return run(problem, {.fault = fault}, 3, {.tile = &mistaken_tile}) != "";
    };
    CAPTURE(channels_last);
    CHECK_FALSE(is_caught(none));
    if (!channels_last) CHECK(is_caught(stale_stage));  // copies that are not waited for
    CHECK(is_caught(wrong_tap));
    CHECK(is_caught(wrong_parity));
    CHECK(is_caught(exchanged_halves));
    CHECK(is_caught(padding_of_ones));
  }
}

TEST_CASE("depthwise toeplitz, emulated: damaged plans are found") {
  const ConvProblem problem = problem_of("mb2ic8ih20iw24oc8kh7ph3");
  const auto planned = plan_depthwise_toeplitz(problem, device());
  REQUIRE(planned);
  const auto wrong = [&](const DepthwiseToeplitzPlan& damaged) {
    return DepthwiseToeplitzCase(problem, {}, 3).run(damaged) != "";
  };
  REQUIRE_FALSE(wrong(*planned));
  DepthwiseToeplitzPlan damaged = *planned;  // the last half of a band is lost
  --damaged.cut.halves;
  CHECK(wrong(damaged));
  damaged = *planned;  // the input is off by a row at the border
  --damaged.h.before;
  CHECK(wrong(damaged));
  damaged = *planned;  // the last row of taps is lost
  --damaged.h.taps;
  CHECK(wrong(damaged));
  damaged = *planned;  // a column of the padding is read
  ++damaged.w.extent;
  CHECK(wrong(damaged));
}

TEST_CASE("depthwise toeplitz: plans fit several blocks, and fill the machine") {
  for (const char* text :
       {"mb64ic96ih56oc96kh7ph3", "mb64ic384ih32oc384kh31ph15", "mb64ic240ih28oc240kh5ph2",
        "mb64ic32ih112oc32kh3ph1", "mb64ic96ih112oc96kh3sh2ph1", "mb64ic960ih7oc960kh3ph1",
        "mb8ic96ih56oc96kh7ph3", "mb1ic384ih14oc384kh3ph1"})
    for (const bool channels_last : {false, true}) {
      const auto planned =
          plan_depthwise_toeplitz(problem_of(text, DType::f16, channels_last), device());
      REQUIRE(planned);
      const plumb::cuda::DepthwiseToeplitzCut& cut = planned->cut;
      CAPTURE(text, channels_last, cut.tile.m, cut.tile.n, cut.warps, cut.channels, cut.images,
              cut.rows, cut.tiles, cut.lead, cut.halves, cut.pitch, cut.shared_bytes, cut.blocks(),
              planned->seconds * 1e3);
      CHECK(cut.shared_bytes <= (227 << 10));
      CHECK(cut.blocks() >= (text[2] == '1' ? 24 : 66));
      CHECK(cut.m() > 0);
      // Filters of 31x31 alone take 6 KB a channel.
      const bool large = std::string_view(text).ends_with("kh31ph15");
      if (!large) CHECK(2 * cut.shared_bytes <= (226 << 10));
    }
}

TEST_CASE(
    "depthwise toeplitz: rows that no shared memory holds whole are cut, and too large filters "
    "refused") {
  CHECK(plan_depthwise_toeplitz(problem_of("mb1ic8ih3iw30000oc8kh3ph1"), device()));
  CHECK(plan_depthwise_toeplitz(problem_of("mb1ic2ih64oc2kh63ph31"), device()));
  CHECK_FALSE(plan_depthwise_toeplitz(problem_of("mb1ic2ih2000iw2000oc2kh1001ph500"), device()));
}
