// Where OpenMP would hang or end the process: in a forked child, where no thread can be had, and on
// small stacks. What needs a process of its own is a hidden test ("alone: ...") that another runs.
#include <omp.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "support/host_tensor.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
constexpr bool sanitized = true;
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif
#else
constexpr bool sanitized = false;
#endif

/// One of each kind of work: planes, panels, im2col's product and its pieces, pooling, resizing;
/// the bytes that come out.
std::vector<std::byte> work() {
  std::vector<std::byte> all;
  Queue queue(Device::open("cpu"));
  const auto keep = [&](const HostTensor& y) {
    all.insert(all.end(), y.bytes().begin(), y.bytes().end());
  };
  for (const auto& [c, side, k, r] : {std::array{3, 40, 8, 5}, {64, 14, 64, 3}, {256, 6, 8, 6}}) {
    ConvProblem problem;
    problem.n = 2, problem.c = c, problem.h = problem.w = side, problem.k = k;
    problem.r = problem.s = r;
    problem = check(problem);
    Random random(41);
    HostTensor x(DType::f32, problem.x_extents()), w(DType::f32, problem.w_extents());
    for (HostTensor* input : {&x, &w}) input->fill([&] { return random.normal(); });
    for (const char* algorithm :
         {"cpu.conv.direct.fp32", "cpu.conv.panels.fp32", "cpu.conv.im2col.fp32",
          "cpu.conv.im2col.fp64", "cpu.conv.channels.fp32"}) {
      HostTensor y(DType::f32, problem.y_extents());
      ConvPlan(queue.device(), problem, {.algorithm = algorithm})
          .execute(queue, {x.view(), w.view(), {}, y.view()});
      keep(y);
    }
    HostTensor pooled(DType::f32, {2, c, side / 2, side / 2});
    pool(queue, x.view(), pooled.view(), {.window = 2, .stride = 2});
    HostTensor resized(DType::f32, {2, c, side + 3, 2 * side});
    resize_bilinear(queue, x.view(), resized.view());
    keep(pooled);
    keep(resized);
  }
  return all;
}

std::ptrdiff_t threads_of_process() {
  using Folder = std::filesystem::directory_iterator;
  return std::distance(Folder("/proc/self/task"), Folder());
}

/// The exit code of what `child` returns in a child of this process, 128 and more for a signal.
int in_child(const std::function<int()>& child) {
  const pid_t id = fork();
  REQUIRE(id >= 0);
  if (id == 0) {
    alarm(60);  // a child that hangs
    _exit(child());
  }
  int status = 0;
  waitpid(id, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Of a hidden test, in a process of its own with a variable set.
int exit_code_of(const char* test, const char* variable = nullptr, const char* value = nullptr) {
  return in_child([&] {
    if (variable) setenv(variable, value, 1);
    execl("/proc/self/exe", "plumb_tests", test, nullptr);
    return 127;
  });
}

bool thread_can_be_had() {
  pthread_t thread;
  if (pthread_create(
          &thread, nullptr, [](void* data) { return data; }, nullptr) != 0)
    return false;
  pthread_join(thread, nullptr);
  return true;
}

/// A limit under which no thread can be had, as long as this lives.
class NoThreads {
 public:
  NoThreads() {
    // Root has as many processes as it likes; the limit is of the user who it is not.
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) SKIP("root stays root here");
    limit(RLIMIT_NPROC, 1);
    if (!thread_can_be_had()) return;
    std::ifstream sizes("/proc/self/statm");
    rlim_t pages = 0;
    sizes >> pages;
    limit(RLIMIT_AS, pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (6 << 20));
    if (thread_can_be_had()) SKIP("no limit keeps this process from threads");
  }
  ~NoThreads() {
    for (const auto& [resource, before] : before_) setrlimit(resource, &before);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  void limit(__rlimit_resource resource, rlim_t value) {
    rlimit limits{};
    REQUIRE(getrlimit(resource, &limits) == 0);
    before_.emplace_back(resource, limits);
    limits.rlim_cur = value;
    REQUIRE(setrlimit(resource, &limits) == 0);
  }
  std::vector<std::pair<__rlimit_resource, rlimit>> before_;
};

}  // namespace

TEST_CASE("limits: a child of a fork works, without the threads that its parent had") {
  const int before = omp_get_max_threads();
  omp_set_num_threads(2);
  const std::vector<std::byte> expected = work();
  REQUIRE(in_child([&] { return work() == expected ? 0 : 1; }) == 0);
  CHECK(in_child([&] {
          const bool alone = Device::open("cpu").info().units == 1;
          if (!alone || work() != expected) return 1;
          return sanitized || threads_of_process() == 1 ? 0 : 2;
        }) == 0);
  CHECK(work() == expected);
  CHECK(Device::open("cpu").info().units == 2);
  omp_set_num_threads(before);
}

TEST_CASE("alone: a child of a process of one thread", "[.]") {
  omp_set_num_threads(2);
  REQUIRE(threads_of_process() == 1);
  CHECK(in_child([] {
          work();
          return threads_of_process() == 2 ? 0 : 1;
        }) == 0);
}
TEST_CASE("limits: a child of a process of one thread has threads of its own") {
  if (sanitized) SKIP("a sanitizer has threads of its own");
  CHECK(exit_code_of("alone: a child of a process of one thread") == 0);
}

TEST_CASE("alone: no thread can be had", "[.]") {
  omp_set_num_threads(1);
  const std::vector<std::byte> expected = work();
  omp_set_num_threads(2);
  {
    const NoThreads limit;
    CHECK(work() == expected);
    CHECK(threads_of_process() == 1);
  }
  // A limit that has passed is not held against the process.
  CHECK(work() == expected);
  CHECK(threads_of_process() == 2);
  const NoThreads limit;  // those that are there serve on
  CHECK(work() == expected);
  CHECK(threads_of_process() == 2);
  omp_set_num_threads(3);
  CHECK(work() == expected);
  CHECK(threads_of_process() == 2);
}
TEST_CASE("limits: where no thread can be had the caller's does the work") {
  if (sanitized) SKIP("a sanitizer has threads of its own");
  const int code = exit_code_of("alone: no thread can be had");
  if (code == 4) SKIP("no limit keeps a process from threads here");
  CHECK(code == 0);
}

TEST_CASE("alone: all threads have small stacks", "[.]") {
  omp_set_num_threads(2);
  const std::vector<std::byte> expected = work();
  // The caller's too.
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, sanitized ? 1 << 20 : 1 << 16) == 0);
  std::vector<std::byte> results;
  pthread_t thread;
  REQUIRE(pthread_create(
              &thread, &attributes,
              [](void* data) -> void* {
                *static_cast<std::vector<std::byte>*>(data) = work();
                return nullptr;
              },
              &results) == 0);
  pthread_join(thread, nullptr);
  CHECK(results == expected);
}
TEST_CASE("limits: a stack of 64 KiB is enough, the caller's and each thread's of OpenMP") {
  CHECK(exit_code_of("alone: all threads have small stacks", "OMP_STACKSIZE",
                     sanitized ? "1M" : "64K") == 0);
}

TEST_CASE("alone: threads of the stack size that OpenMP is told", "[.]") {
  omp_set_num_threads(1);
  const std::vector<std::byte> expected = work();
  omp_set_num_threads(2);
  CHECK(work() == expected);
  CHECK((sanitized || threads_of_process() == 2));
}
TEST_CASE("limits: stack sizes are read as OpenMP reads them, and wrong ones passed over") {
  for (const char* size : {"1024", "2 M", " 1048576B", "2097152 b", "1m", "none", "64x", "-1", ""})
    for (const char* name : {"OMP_STACKSIZE", "GOMP_STACKSIZE"}) {
      INFO(name << "='" << size << "'");
      CHECK(exit_code_of("alone: threads of the stack size that OpenMP is told", name, size) == 0);
    }
}
