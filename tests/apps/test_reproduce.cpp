// The command line that runs a case again, and what a process that dies in a kernel says.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "crash_report.hpp"
#include "reproduce.hpp"

using namespace plumb;

TEST_CASE("a case is written as the options that make it") {
  const Device cpu = Device::open("cpu");
  const ConvProblem problem = parse_problem("mb2ic3ih8oc4kh3").problem;
  const std::string begin =
      "plumb validate --device cpu --algorithm A --problem g1mb2ic3ih8iw8oc4oh6ow6kh3kw3ph0pw0 ";
  CHECK(app::reproduce(cpu, "A", validation_case("", problem, Placement::nhwc), {.seed = 3}) ==
        begin + "--dtype f32 --layout nhwc --seed 3");

  ValidationCase test = validation_case("", problem, Placement::nchw);
  test.problem.dtype = DType::bf16;
  test.problem.x_strides = {-192, 64, 0, -1};
  test.problem.padding = {0, 0, 0, 1};
  test.problem.stride = {1, 2};
  test.problem.y_strides = {96, 1, 16, 4};
  test.placement = Placement::views;
  test.offset = 3;
  test.bias = true;
  test.activation = Activation::relu;
  test.problem = check(test.problem);
  // The column of padding is reached, and follows from ow.
  CHECK(app::reproduce(cpu, "A", test,
                       {.seed = 9,
                        .tiers = {Tier::exact, Tier::bounded},
                        .guard = GuardPages::before,
                        .threads = 2}) ==
        "plumb validate --device cpu --algorithm A --problem "
        "g1mb2ic3ih8iw8oc4oh6ow4kh3kw3sh1sw2ph0pw0 --dtype bf16 --layout nchw "
        "--x-strides=-192,64,0,-1 --y-strides=96,1,16,4 --offset 3 --bias --relu --seed 9 "
        "--guard before --threads 2 --tier exact,bounded");

  // Padding that no filter reaches is not in the text, and is beside it.
  ConvProblem unreached = problem;
  unreached.stride = 2;
  unreached.h = unreached.w = 9;
  unreached.padding.right = 1;
  unreached.y_strides = unreached.x_strides = {};
  CHECK(app::reproduce(cpu, "A", validation_case("", unreached, Placement::nchw), {})
            .find("--padding 0,0,0,1") != std::string::npos);
}

TEST_CASE("a crash says how to run the same again, and stays a crash") {
  void* const nobody = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(nobody != MAP_FAILED);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer's would print, and exit
    dup2(ends[1], STDERR_FILENO);
    app::CrashReport report;
    report.at("another");
    report.at("plumb validate --seed 7");
    *static_cast<volatile char*>(nobody) = 1;
    _exit(0);
  }
  REQUIRE(child > 0);
  close(ends[1]);
  std::string said;
  char buffer[256];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
  CHECK(said == "plumb: crashed; to run the same again:\n  plumb validate --seed 7\n");
}
