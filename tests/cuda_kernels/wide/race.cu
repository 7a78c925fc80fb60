// The wide kernel by itself, on a machine with a GPU of sm_90: what its stages hold, whether
// outputs of each of its tiles are right, whether planted faults show, and how long tiles take.
// Prints lines of JSON. Each part runs in a process of its own, so that one that stops does not end
// the others.
//
//   plumb_race_wide check [SHAPE...]       all of the tests, about 20 s
//   plumb_race_wide time [--sweep] [--class f16|bf16|tf32|fp16x3|tf32x3] [--nchw] [--fold AXES]
//       [PROBLEM...]
//
// AXES is a sum of 1 for columns, 2 for rows and 4 for planes, whose taps are to be channels.
// Problems are in benchdnn's notation.
//
// Compiled with PLUMB_BOUNDED_WAITS, a barrier that is waited for in vain says so after two
// seconds.
#include <algorithm>
#include <string>
#include <vector>

#include "race_checks.cuh"
#include "race_times.cuh"

using namespace plumb_test;

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || (words[0] != "check" && words[0] != "time")) {
    std::fprintf(stderr,
                 "usage: plumb_race_wide check [SHAPE...] | time [--sweep] "
                 "[--class f16|bf16|tf32|fp16x3|tf32x3] [--nchw] [--fold AXES] "
                 "[PROBLEM...]\n");
    return 2;
  }
  if (words[0] == "check") {
    std::vector<int> shapes;
    for (std::size_t i = 1; i < words.size(); ++i) shapes.push_back(std::stoi(words[i]));
    if (shapes.empty())
      for (int i = 0; i < wide_shape_count; ++i) shapes.push_back(i);
    return std::min(check_all(shapes), 255);
  }
  bool sweep = false;
  WideOptions options;
  std::string wanted = "f16";
  std::vector<std::string> problems;
  for (std::size_t i = 1; i < words.size(); ++i)
    if (words[i] == "--sweep")
      sweep = true;
    else if (words[i] == "--nchw")
      options.planes = options.x_planes = true;
    else if (words[i] == "--fold" && i + 1 < words.size())
      options.folded_axes = std::stoi(words[++i]);
    else if (words[i] == "--class" && i + 1 < words.size())
      wanted = words[++i];
    else
      problems.push_back(words[i]);
  int failed = 0;
  for (const std::string& text : problems.empty() ? timed_problems : problems)
    failed += part(text.c_str(), -1, [&] {
      if (wanted == "f16") return time_problem<WideFp16>(text, sweep, options);
      if (wanted == "bf16") return time_problem<WideBf16>(text, sweep, options);
      if (wanted == "tf32") return time_problem<WideTf32>(text, sweep, options);
      if (wanted == "fp16x3") return time_problem<WideFp16x3>(text, sweep, options);
      if (wanted == "tf32x3") return time_problem<WideTf32x3>(text, sweep, options);
      std::fprintf(stderr, "no class %s; expected f16, bf16, tf32, fp16x3 or tf32x3\n",
                   wanted.c_str());
      return 1;
    });
  return std::min(failed, 255);
}
