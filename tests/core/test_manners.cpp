// A good guest: what the library leaves alone in a process that is not its own, and that several
// threads, of the caller or of OpenMP, may use it at once.
#include <fcntl.h>
#include <omp.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>
#include <vector>

#include "support/devices.hpp"
#include "support/written_to.hpp"

using namespace plumb;

namespace {

ConvProblem problem_of_threads() {
  ConvProblem problem;  // enough work for more than one thread
  problem.n = 4, problem.c = 8, problem.h = 40, problem.w = 40;
  problem.k = 16, problem.r = 5, problem.s = 5;
  return check(problem);
}

std::vector<float> numbers(const Extents& extents, int first) {
  std::vector<float> values(static_cast<std::size_t>(element_count(extents)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<int>(i % 7) + first) % 7 - 3);
  return values;
}

/// One convolution on a queue of its own; the input differs with `first`.
std::vector<float> convolve(const ConvPlan& plan, int first) {
  const ConvProblem& problem = plan.problem();
  Queue queue(plan.device());
  const Tensor x(plan.device(), DType::f32, problem.x_extents());
  const Tensor w(plan.device(), DType::f32, problem.w_extents());
  const Tensor y(plan.device(), DType::f32, problem.y_extents());
  const std::vector<float> image = numbers(problem.x_extents(), first);
  const std::vector<float> filters = numbers(problem.w_extents(), 1);
  std::vector<float> out(static_cast<std::size_t>(element_count(problem.y_extents())));
  copy(queue, ConstTensorView(image.data(), problem.x_extents()), x);
  copy(queue, ConstTensorView(filters.data(), problem.w_extents()), w);
  plan.execute(queue, {.x = x, .w = w, .y = y});
  copy(queue, y, TensorView(out.data(), problem.y_extents()));
  queue.synchronize();
  return out;
}

/// Something of everything that a user calls, errors too.
void use_everything() {
  for (const Device& device : plumb_test::all_devices()) {
    ConvProblem problem = problem_of_threads();
    problem.n = 1, problem.k = 3;
    const ConvPlan plan(device, problem);
    convolve(plan, 0);
    CHECK_FALSE(plan.explain().empty());
    const std::vector<float> x = numbers(problem.x_extents(), 0),
                             w = numbers(problem.w_extents(), 0);
    std::vector<float> y(static_cast<std::size_t>(element_count(problem.y_extents())));
    conv_host(device, {.x = ConstTensorView(x.data(), problem.x_extents()),
                       .w = ConstTensorView(w.data(), problem.w_extents()),
                       .bias = {},
                       .y = TensorView(y.data(), problem.y_extents())});
    const ConvPlan plans[] = {plan};
    measure(plans, {.min_samples = 1, .max_samples = 1, .warm_up_seconds = 0, .cold_bytes = 0});
    tune(device, problem, {.measure = {.min_samples = 1, .max_samples = 1}, .write = false});
    CHECK_THROWS_AS(ConvPlan(device, problem, {.algorithm = "none.of.this.name"}), Error);
  }
  backend_reports();
  Device::open("auto");
  CHECK_THROWS_AS(Device::open("abacus"), Error);
}

/// What a second user of the process might trip over.
struct Surroundings {
  int threads = omp_get_max_threads(), dynamic = omp_get_dynamic();
  int levels = omp_get_max_active_levels();
  int rounding = std::fegetround(), traps = fegetexcept();
  bool denormals_are_kept = [] {  // not so in a process where something was linked with -ffast-math
    volatile float least = 1e-40f;
    return least * 2 > 0;
  }();
  mode_t file_mode = [] {
    const mode_t mask = umask(0);
    umask(mask);
    return mask;
  }();
  int cores = [] {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  }();
  std::string locale = std::setlocale(LC_ALL, nullptr);
  std::string folder = std::filesystem::current_path();
  std::map<int, void (*)(int)> handlers = [] {
    std::map<int, void (*)(int)> now;
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGINT, SIGTERM, SIGCHLD, SIGPIPE}) {
      struct sigaction action {};
      sigaction(signal, nullptr, &action);
      now[signal] = action.sa_handler;
    }
    return now;
  }();
  std::vector<std::string> environment = [] {
    std::vector<std::string> now;
    for (char** entry = environ; *entry; ++entry) now.emplace_back(*entry);
    std::sort(now.begin(), now.end());
    return now;
  }();
  bool operator==(const Surroundings&) const = default;
};

std::ptrdiff_t threads_of_process() {
  using Folder = std::filesystem::directory_iterator;
  return std::distance(Folder("/proc/self/task"), Folder());
}

}  // namespace

TEST_CASE("manners: nothing is written to standard output", "[manners]") {
  CHECK(plumb_test::written_to(stdout, use_everything) == "");
  setenv("PLUMB_VERBOSE", "1", 1);
  CHECK(plumb_test::written_to(stdout, use_everything) == "");
  unsetenv("PLUMB_VERBOSE");
}

TEST_CASE("manners: the process is left as it was", "[manners]") {
  const Surroundings before;
  CHECK(before.denormals_are_kept);
  use_everything();
  CHECK(Surroundings() == before);
}

TEST_CASE("threads: one plan on sixteen threads and queues, and the same results", "[threads]") {
  constexpr int count = 16;
  for (const Device& device : plumb_test::all_devices())
    for (const ConvCandidate& candidate : explain(device, problem_of_threads())) {
      if (!candidate.support) continue;
      CAPTURE(candidate.algorithm);
      const ConvPlan plan(device, problem_of_threads(),
                          {.algorithm = std::string(candidate.algorithm)});
      std::vector<std::vector<float>> alone(count), together(count);
      for (int i = 0; i < count; ++i) alone[i] = convolve(plan, i);
      CHECK(alone[0] != alone[1]);
      std::vector<std::thread> threads;
      for (int i = 0; i < count; ++i)
        threads.emplace_back([&, i] { together[i] = convolve(plan, i); });
      for (std::thread& thread : threads) thread.join();
      if (candidate.deterministic) CHECK(together == alone);
    }
}

TEST_CASE("threads: devices, plans and reports made on sixteen threads at once", "[threads]") {
  std::vector<std::string> chosen(16);
  std::vector<std::thread> threads;
  for (std::string& name : chosen)
    threads.emplace_back([&name] {
      const Device device = Device::open("auto");
      backend_reports();
      for (std::int64_t n = 1; n < 4; ++n) {
        ConvProblem problem = problem_of_threads();
        problem.n = n;
        problem.x_strides = problem.y_strides = {};
        name = ConvPlan(device, problem).algorithm().name;
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& name : chosen) CHECK(name == chosen[0]);
}

TEST_CASE("threads: inside a parallel region of the caller's no team is formed", "[threads]") {
  const ConvPlan plan(Device::open("cpu"), problem_of_threads());
  constexpr int team = 3;
  std::vector<std::vector<float>> results(team);
  // Threads that are there anyway: the caller's team, and what earlier tests of this process left.
#pragma omp parallel num_threads(team)
  results[static_cast<std::size_t>(omp_get_thread_num())].reserve(1);
  const std::ptrdiff_t before = threads_of_process();
  std::ptrdiff_t most = 0;
#pragma omp parallel num_threads(team) reduction(max : most)
  {
    results[static_cast<std::size_t>(omp_get_thread_num())] = convolve(plan, 0);
    most = std::max(most, threads_of_process());
  }
  CHECK(most <= before);
  for (const auto& result : results) CHECK((result.empty() || result == results[0]));

  // Asked for two levels, it may form one; the results are the same.
  const int levels = omp_get_max_active_levels();
  omp_set_max_active_levels(2);
#pragma omp parallel num_threads(team)
  results[static_cast<std::size_t>(omp_get_thread_num())] = convolve(plan, 0);
  omp_set_max_active_levels(levels);
  for (const auto& result : results) CHECK((result.empty() || result == results[0]));
}

TEST_CASE("threads: a caller who allows one thread gets one", "[threads]") {
  const ConvPlan plan(Device::open("cpu"), problem_of_threads());
  const int allowed = omp_get_max_threads();
  omp_set_num_threads(1);
  const std::ptrdiff_t before = threads_of_process();
  const std::vector<float> alone = convolve(plan, 0);
  CHECK(threads_of_process() == before);
  omp_set_num_threads(allowed);
  CHECK(convolve(plan, 0) == alone);
}
