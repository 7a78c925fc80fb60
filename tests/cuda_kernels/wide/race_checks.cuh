// What plumb_race_wide checks: outputs of each tile, of every class, and that planted faults show.
#pragma once

#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "race_report.cuh"
#include "stage_checks.cuh"

namespace plumb_test {

/// Small problems that between them reach every branch.
inline const Case small_cases[] = {
    {"mb2ic64ih9iw11oc64kh3ph1"},
    {"mb3ic64ih13iw7oc128kh1ph0"},
    {"mb2ic128ih14oc256kh3ph1", {.bias = true, .relu = true}},
    {"mb5ic8ih10iw9oc40kh3ph1", {.bias = true}},
    {"mb2ic24ih12oc8kh3ph1sh2"},
    {"mb2ic72ih17iw15oc72kh3ph2dh1", {.accumulate = true}},
    {"mb1ic72ih23iw19oc264kh5ph2sh3", {.bias = true, .relu = true, .accumulate = true}},
    {"mb2ic64ih8iw10oc1kh3ph1", {.bias = true}},
    {"mb2ic40ih8iw10oc21kh3ph1", {.bias = true, .accumulate = true}},
    {"mb2ic64ih8iw10oc24kh3ph1", {.pitch = 27}},
    {"mb2ic64ih8iw10oc24kh3ph1", {.pitch = 32}},
    {"mb2ic13ih8iw10oc24kh3ph1"},
    {"mb2ic64ih8iw10oc96kh3ph1", {.bias = true, .planes = true}},
    {"mb2ic64ih8iw10oc96kh3ph1", {.accumulate = true, .planes = true}},
    {"mb2ic72ih8iw10oc96kh3ph1", {.shifted_x = true}},
    {"mb2ic64ih8iw10oc96kh3ph1", {.accumulate = true, .shifted_y = true}},
    {"mb3ic64iw200oc96kw5pw2"},
    {"mb2ic16iw301oc200kw7pw3sw2dw2", {.relu = true}},
    {"mb2ic32id6ih7iw8oc48kd3kh3kw3pd1ph1pw1"},
    {"mb2ic64id7ih9iw8oc136kd3kh2kw3pd1ph0pw2sd2sh2sw1", {.bias = true}},
    {"mb1ic512ih7oc512kh3ph1"},
    {"mb9ic64ih7iw7oc320kh1ph0sh2"},
    {"mb1ic64ih40iw33oc64kh7ph3sh8"},
    {"mb1ic8ih3iw3oc8kh3ph0"},
    {"mb1ic64ih5iw300oc64kh3kw1ph1pw0"},
    {"mb2ic72ih9iw11oc72kh3ph1", {.bias = true, .x_planes = true}},
    {"mb3ic13ih6iw7oc24kh3ph1sh2", {.planes = true, .x_planes = true}},
    {"mb2ic1ih9iw10oc72kh3ph1", {.x_planes = true}},
    {"mb2ic40id5ih6iw7oc24kd3kh3kw3pd1ph1pw1", {.accumulate = true, .x_planes = true}},
    {"mb7ic24ih9iw8oc40kh3ph1", {.accumulate = true, .x_planes = true, .images_at_once = 3}},
    {"mb7ic24ih9iw8oc40kh3ph1", {.shifted_x = true, .images_at_once = 3}},
    {"g2mb2ic128ih7iw9oc144kh3ph1", {.bias = true, .accumulate = true}},
    {"g2mb2ic144ih7iw9oc144kh3ph1", {.bias = true}},
    {"g32mb2ic128ih7iw9oc128kh3ph1", {.bias = true, .relu = true}},
    {"g32mb2ic128ih7iw9oc128kh3ph1", {.planes = true, .x_planes = true}},
    {"g6mb1ic18ih9iw8oc12kh3ph1sh2", {.accumulate = true}},
    {"g3mb2ic201ih5iw6oc15kh1ph0"},
    {"g48mb2ic48ih9iw8oc48kh5ph2", {.bias = true}},
    {"mb3ic3ih33iw45oc40kh11kw9ph0sh11sw9", {.bias = true}},
    {"mb3ic3ih33iw48oc72kh16ph0sh16", {.x_planes = true}},
    {"mb2ic3ih19iw21oc40kh7ph3sh2", {.x_planes = true, .folded_axes = 1}},
    {"mb2ic3ih19iw21oc40kh7ph3sh2", {.accumulate = true, .folded_axes = 3}},
    {"mb5ic3ih9iw10oc24kh4ph0sh4", {.images_at_once = 2, .folded_axes = 3}},
    {"g4mb2ic8ih19iw21oc40kh3ph1sh2", {.bias = true, .x_planes = true, .folded_axes = 3}},
    {"mb2ic3id4ih20iw31oc40kd2kh10kw9pd0ph1pw2sd2sh10sw9", {.x_planes = true}},
    {"mb2ic128ih8oc136kh3ph1", {.accumulate = true, .planes = true}},
    {"mb2ic128ih6oc40kh3ph1", {.bias = true, .planes = true}},
};

/// Convolves as it is planned, and prints what is wrong with y. Returns 1 where something is.
template <class Arithmetic>
int check_planned(const char* kind, const Case& of, WideCase<Arithmetic>& convolution,
                  const WideChoice& choice, std::int64_t samples = 0) {
  const WidePlan plan = convolution.plan(choice);
  convolution.clear();
  convolution.launch(plan);
  return print(kind, of, convolution, plan, samples);
}

/// Tiles of a shape without splits, with splits to workspace, and in clusters.
inline std::vector<WideChoice> choices_of_splits(int shape) {
  std::vector<WideChoice> all{{.shape = shape, .splits = 1}, {.shape = shape, .splits = 3}};
  for (int blocks = 2; blocks <= wide_max_cluster; blocks *= 2)
    all.push_back({.shape = shape, .cluster = blocks});
  return all;
}

template <class Arithmetic>
int check_shape(int shape) {
  int wrong = 0;
  std::vector<Case> cases(std::begin(small_cases), std::end(small_cases));
  // Those that would be folded are tried without it too.
  for (const Case& of : small_cases)
    if (of.options.folded_axes < 0) {
      const ConvProblem problem = wide_problem(of.text, Arithmetic::host.stored, of.options);
      const bool folds = choose_folded_axes(problem, Arithmetic::host, device_info()) > 0;
      if (!folds || problem.stride.h > max_im2col_step) continue;
      cases.push_back(of);
      cases.back().options.folded_axes = 0;
    }
  for (const Case& of : cases)
    for (const WideChoice& choice : choices_of_splits(shape)) {
      WideCase<Arithmetic> convolution(of.text, of.options, true);
      convolution.pack();
      wrong += check_planned("outputs", of, convolution, choice);
    }
  return wrong;
}

/// Many tiles a block, so that stages and parities go round.
template <class Arithmetic>
int check_rounds(int shape) {
  const Case of{"mb40ic192ih28oc256kh3ph1"};
  WideCase<Arithmetic> convolution(of.text, of.options, false);
  convolution.pack();
  int wrong = 0;
  for (int i = 0; i < 3; ++i)
    wrong += check_planned("rounds", of, convolution, {.shape = shape, .splits = 1}, 200000);
  return wrong;
}

/// An Inf under a tap in the padding leaves no NaN, nor one beside another group's channels; those
/// of the image do.
template <class Arithmetic>
int check_infinities(int shape) {
  using Stored = typename Arithmetic::Stored;
  int wrong = 0;
  for (const Case& of : {Case{"mb2ic64ih9iw10oc72kh3ph1"}, Case{"g8mb2ic64ih9iw10oc72kh3ph1"}})
    for (const int splits : {1, 2}) {
      WideCase<Arithmetic> convolution(of.text, of.options, true);
      const bool half = sizeof(Stored) == 2;
      const bool bf16 = dtype_of_stored<Stored> == DType::bf16;
      const std::uint32_t infinity = !half ? 0x7f800000 : bf16 ? 0x7f80 : 0x7c00;
      const std::int64_t of_filter = convolution.problem().terms();
      for (const int tap : {0, 4, 8})
        check(cudaMemcpy(convolution.w() + tap * of_filter + 3 * tap % (of_filter / 9) * 9 + tap,
                         &infinity, sizeof(Stored), cudaMemcpyHostToDevice),
              "Inf");
      convolution.pack();
      wrong += check_planned("infinities", of, convolution, {.shape = shape, .splits = splits});
    }
  return wrong;
}

/// Sums of random numbers are within their bound, with few terms too.
template <class Arithmetic>
int check_bounds(int shape) {
  int wrong = 0;
  for (const Case& of :
       {Case{"mb2ic8ih17iw19oc72kh1ph0"}, Case{"mb2ic16ih17iw19oc72kh1ph0", {.x_planes = true}},
        Case{"mb2ic72ih17iw19oc136kh3ph1", {.bias = true, .accumulate = true}}})
    for (const int splits : {1, 2}) {
      WideCase<Arithmetic> convolution(of.text, of.options, false);
      convolution.pack();
      wrong += check_planned("bounds", of, convolution, {.shape = shape, .splits = splits});
    }
  return wrong;
}

/// Values that no common scale fits halves to are summed by the definition.
inline int check_far_apart(int shape) {
  const Case of{"mb2ic24ih9iw10oc40kh3ph1", {.x_planes = true}};
  int wrong = 0;
  for (const int splits : {1, 2}) {
    WideCase<WideFp16x3> convolution(of.text, of.options, true);
    // Beside integers up to 2; no output sees both, whose sum fp32 would round.
    const float large = 0x1p20f, small = 0x1p-12f;
    check(cudaMemcpy(convolution.x() + 100, &large, 4, cudaMemcpyHostToDevice), "large");
    check(cudaMemcpy(convolution.x() + 355, &small, 4, cudaMemcpyHostToDevice), "small");
    convolution.pack();
    wrong += check_planned("far apart", of, convolution, {.shape = shape, .splits = splits});
  }
  return wrong;
}

constexpr int faulty_shape = 3;

/// A kernel with a mistake must come out wrong; returns 1 where it does not.
template <class Arithmetic, WideFault fault>
int plant(const char* name, const char* text, int splits, bool integers = true, int cluster = 1) {
  const Case of{text};
  WideCase<Arithmetic> convolution(of.text, of.options, integers);
  convolution.template pack<fault>();
  const WidePlan plan =
      convolution.plan({.shape = faulty_shape, .splits = splits, .cluster = cluster});
  convolution.clear();
  convolution.template launch_faulty<faulty_shape, fault>(plan);
  const bool wrong = print(name, of, convolution, plan) > 0;
  return wrong == (fault == WideFault::none);
}

inline int check_faults() {
  const char *const one = "mb2ic128ih14oc128kh3ph1", *const groups = "g2mb2ic256ih14oc128kh3ph1",
                    *const few = "mb2ic16ih14oc128kh1ph0",
                    *const patches = "mb2ic3ih48oc40kh16ph0sh16";
  return plant<WideFp16, WideFault::none>("no fault", one, 1) +
         plant<WideFp16, WideFault::none>("no fault", one, 3) +
         plant<WideFp16, WideFault::wrong_swizzle>("wrong_swizzle", one, 1) +
         plant<WideFp16, WideFault::stale_stage>("stale_stage", one, 1) +
         plant<WideFp16, WideFault::lost_split>("lost_split", one, 3) +
         plant<WideFp16, WideFault::none>("no fault", one, 1, true, 2) +
         plant<WideFp16, WideFault::lost_split>("lost_split", one, 1, true, 2) +
         plant<WideFp16, WideFault::none>("no fault", groups, 1) +
         plant<WideFp16, WideFault::wrong_group>("wrong_group", groups, 1) +
         plant<WideFp16, WideFault::none>("no fault", patches, 1) +
         plant<WideFp16, WideFault::wrong_term>("wrong_term", patches, 1) +
         plant<WideFp16x3, WideFault::none>("no fault", few, 1, false) +
         plant<WideFp16x3, WideFault::low_twice>("low_twice", few, 1, false) +
         plant<WideTf32x3, WideFault::none>("no fault", few, 1, false) +
         plant<WideTf32x3, WideFault::lost_low>("lost_low", few, 1, false) +
         plant<WideTf32x3, WideFault::stale_fragment>("stale_fragment", one, 1) +
         plant<WideTf32x3, WideFault::swapped_terms>("swapped_terms", one, 1);
}

inline int check_loads() {
  int wrong = 0;
  for (const char* text :
       {"mb2ic64ih9iw11oc64kh3ph1", "mb3ic16ih12iw9oc8kh3ph1sh2", "mb2ic72ih7iw8oc8kh3ph2dh1",
        "mb2ic64iw90oc8kw5pw2", "mb2ic8iw300oc8kw7pw3sw2dw2",
        "mb2ic8id6ih7iw8oc8kd3kh3kw3pd1ph1pw1", "mb1ic16id7ih9iw8oc8kd3kh2kw3pd1ph0pw2sd2sh2sw1",
        "mb2ic13ih8iw10oc24kh3ph1", "g2mb2ic144ih7iw8oc16kh3ph1", "g16mb2ic64ih7iw8oc64kh3ph1"})
    wrong += check_pixels<WideFp16, 3>(text) + check_pixels<WideTf32, 3>(text) +
             check_pixels<WideFp16x3, 3>(text) +
             check_pixels<WideFp16, 3>(text, {.x_planes = true}) +
             check_pixels<WideTf32, 3>(text, {.x_planes = true}) +
             check_pixels<WideFp16x3, 3>(text, {.x_planes = true});
  return wrong + check_pixels<WideBf16, 1>("mb3ic24ih14iw13oc8kh3ph1") +
         check_pixels<WideFp16, 6>("mb3ic24ih14iw13oc8kh3ph1");
}

/// The parts of one arithmetic.
template <class Arithmetic>
int check_class(int shape) {
  if (!has_wide_shape(Arithmetic::host, false, shape)) return 0;
  return part((std::string("outputs ") + class_name<Arithmetic>()).c_str(), shape, [=] {
    return check_shape<Arithmetic>(shape) + check_infinities<Arithmetic>(shape) +
           check_bounds<Arithmetic>(shape) + check_rounds<Arithmetic>(shape);
  });
}

inline int check_all(const std::vector<int>& shapes) {
  int failed = part("step", -1, [] {
    return check_step<__half, 8>() + check_step<__half, 16>() + check_step<__half, 24>() +
           check_step<__half, 32>() + check_step<__nv_bfloat16, 16>() + check_step<float, 8>() +
           check_step<float, 16>() + check_step<float, 24>() + check_step<float, 32>();
  });
  failed += part("rounding", -1, check_rounding);
  failed += part("pixels", -1, check_loads);
  failed += part("filters", -1, [] {
    return check_filters<WideFp16, 3>("mb1ic72ih8oc136kh3ph1") +
           check_filters<WideFp16, 0>("mb1ic72ih8oc264kh3ph1") +
           check_filters<WideTf32, 0>("mb1ic72ih8oc264kh3ph1") +
           check_filters<WideFp16x3, 0>("mb1ic72ih8oc264kh3ph1") +
           check_filters<WideFp16, 3>("g16mb1ic64ih8oc96kh3ph1") +
           check_filters<WideFp16x3, 3>("g6mb1ic18ih8oc12kh3ph1");
  });
  for (const int shape : shapes)
    failed += check_class<WideFp16>(shape) + check_class<WideBf16>(shape) +
              check_class<WideTf32>(shape) + check_class<WideFp16x3>(shape) +
              check_class<WideTf32x3>(shape);
  failed += part("far apart", faulty_shape, [] { return check_far_apart(faulty_shape); });
  failed += part("faults", faulty_shape, check_faults);
  std::printf(R"({"parts_failed":%d})"
              "\n",
              failed);
  return failed;
}

}  // namespace plumb_test
