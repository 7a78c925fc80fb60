// Times engines on random data. With PLUMB_VERBOSE, says on standard error what won.
#include "peers/cudnn/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>

#include "cuda_kernels/primitives/check.hpp"
#include "peers/cudnn/choice.hpp"
#include "peers/cudnn/epilogue.hpp"
#include "peers/placement.hpp"
#include "peers/problem_cache.hpp"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"

namespace plumb::cuda::cudnn {

using plumb::cuda::check;  // beside cuDNN's own

namespace {

/// Makes a device current for a search, which may be asked for from anywhere.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    check(cudaGetDevice(&previous_), "cudaGetDevice");
    check(cudaSetDevice(device), "cudaSetDevice");
  }
  ~OnDevice() { cudaSetDevice(previous_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int previous_ = 0;
};

/// A handle belongs to a device, and takes a stream before each use: one user at a time.
struct Session {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
};

/// Made with the device current. Never destroyed: at the end of the process the driver may be gone
/// before any destructor here would run.
Session& session(int device) {
  static std::mutex mutex;
  static auto& sessions = *new std::map<int, Session>;
  const std::lock_guard lock(mutex);
  Session& session = sessions[device];
  if (!session.handle) check(library().create(&session.handle), "cudnnCreate");
  return session;
}

class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::size_t bytes) { check(cudaMalloc(&data_, bytes), "cudaMalloc"); }
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(DeviceMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

DeviceMemory random_tensor(DType dtype, const Extents& extents) {
  const std::int64_t count = element_count(extents);
  DeviceMemory memory(static_cast<std::size_t>(count) * size_in_bytes(dtype));
  fill_randomly(dtype, count, memory.data(), nullptr);
  return memory;
}

class Stopwatch {
 public:
  Stopwatch() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  /// The least seconds of five runs, after one that is not counted, since it may load code; of
  /// fewer, where one takes three times `best_so_far` and five could not win, or they last long
  /// enough to be told apart; of the first alone, where that takes ten times as long and longer
  /// than loading.
  template <class Run>
  double seconds(const Run& run, double best_so_far) {
    constexpr double loading_seconds = 0.1, enough_seconds = 0.05;
    const double first = seconds_of(run);
    if (first > std::max(loading_seconds, 10 * best_so_far)) return first;
    double least = seconds_of(run), total = least;
    for (int i = 1; i < 5 && least <= 3 * best_so_far && total < enough_seconds; ++i) {
      const double seconds = seconds_of(run);
      least = std::min(least, seconds);
      total += seconds;
    }
    return least;
  }

 private:
  template <class Run>
  double seconds_of(const Run& run) {
    check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
    run(stream_);
    check(cudaEventRecord(end_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return milliseconds * 1e-3;
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

/// Engines of one problem take turns for no longer than this, as cuDNN orders them; after it only
/// those of a class that has none yet.
constexpr double search_seconds_limit = 10;

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// What a search reads and writes, and workspace that grows as engines ask.
class Bench {
 public:
  Bench(const ConvProblem& problem, const DeviceInfo& device)
      : device_(device),
        dtype_(problem.dtype),
        image_(random_tensor(problem.dtype, image_of(problem).extents)),
        filters_(random_tensor(problem.dtype, filters_of(problem).extents)),
        output_(random_tensor(problem.dtype, output_of(problem).extents)) {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    workspace_limit_bytes_ = free / 2;  // the caller has to have it too
  }

  /// Those that run.
  std::vector<Timed> time(const std::vector<std::shared_ptr<const Engine>>& engines) {
    const auto begin = Clock::now();
    std::vector<Timed> timed;
    for (const auto& engine : engines) {
      if (engine->workspace_bytes() > workspace_limit_bytes_) continue;
      if (Seconds(Clock::now() - begin).count() > search_seconds_limit &&
          !serves_another_class(*engine, dtype_, timed))
        continue;
      try {
        grow_workspace(engine->workspace_bytes());
        const auto run_once = [&](cudaStream_t stream) {
          run(*engine, device_, image_.data(), filters_.data(), output_.data(), workspace_.data(),
              stream);
        };
        timed.push_back({engine, stopwatch_.seconds(run_once, seconds_to_beat(dtype_, timed))});
      } catch (const Error&) {
        // Some engines refuse only when they are run. An error that broke the context shows in
        // every call after this one.
        cudaGetLastError();
      }
    }
    return timed;
  }

 private:
  void grow_workspace(std::size_t bytes) {
    if (bytes <= workspace_bytes_) return;
    workspace_ = DeviceMemory(bytes);
    workspace_bytes_ = bytes;
  }

  const DeviceInfo& device_;
  const DType dtype_;
  Stopwatch stopwatch_;
  DeviceMemory image_, filters_, output_, workspace_;
  std::size_t workspace_bytes_ = 0, workspace_limit_bytes_ = 0;
};

bool verbose() {
  const char* value = secure_getenv("PLUMB_VERBOSE");
  return value && *value && std::string_view(value) != "0";
}

/// What a search has cost.
struct Effort {
  std::size_t built = 0, ran = 0;
  double building_seconds = 0, timing_seconds = 0;
};

void report(const ConvProblem& problem, Accuracy accuracy, const Timed& best,
            const Effort& effort) {
  fmt::print(stderr,
             "plumb: cudnn.conv.{} of {} {} in {}: {}, {:.3g} s, {} bytes of workspace; {} of {} "
             "engines ran, built in {:.2f} s, timed in {:.2f} s\n",
             to_string(accuracy), to_string(problem.direction), to_string(problem),
             to_string(problem.dtype), describe(*best.engine), best.seconds,
             best.engine->workspace_bytes(), effort.ran, effort.built, effort.building_seconds,
             effort.timing_seconds);
}

Search search_now(const ConvProblem& problem, const DeviceInfo& device) {
  Search result;
  result.layout = *layout_of(problem);
  const OnDevice on_device(device.id.index);
  Bench bench(problem, device);
  Session& used = session(device.id.index);
  Effort effort;
  const auto timed = [&](float beta, const std::set<std::string>& wanted) {
    const auto begin = Clock::now();
    std::unique_lock lock(used.mutex);
    const auto built = engines(used.handle, problem, result.layout, beta, wanted);
    lock.unlock();
    const auto middle = Clock::now();
    std::vector<Timed> ran = bench.time(built);
    effort.built += built.size();
    effort.ran += ran.size();
    effort.building_seconds += Seconds(middle - begin).count();
    effort.timing_seconds += Seconds(Clock::now() - middle).count();
    return ran;
  };
  const std::vector<Timed> plain = timed(0, {});
  std::vector<Timed> onto_bias;
  if (adds_to_bias(problem)) {
    // The fastest that add to what is there are looked for among the fastest that do not.
    onto_bias = timed(1, names_of_fastest(problem.dtype, plain));
    if (lacks_a_class(problem.dtype, onto_bias, plain)) onto_bias = timed(1, {});
  }
  for (const Accuracy accuracy : all_accuracies) {
    Choice& choice = result.choices[static_cast<std::size_t>(accuracy)];
    if (const Timed* best = fastest(accuracy, problem.dtype, plain)) {
      choice.plain = best->engine;
      if (verbose()) report(problem, accuracy, *best, effort);
    }
    if (const Timed* best = fastest(accuracy, problem.dtype, onto_bias))
      choice.onto_bias = best->engine;
  }
  return result;
}

}  // namespace

bool adds_to_bias(const ConvProblem& problem) {
  return size_in_bytes(problem.dtype) == 2 && problem.direction != Direction::backward_weights;
}

std::optional<Layout> layout_of(const ConvProblem& problem) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc})
    if (lies_in(layout, problem.x_extents(), problem.x_strides) &&
        lies_in(layout, problem.w_extents(), problem.w_strides) &&
        lies_in(layout, problem.y_extents(), problem.y_strides))
      return layout;
  return std::nullopt;
}

std::shared_ptr<const Search> search(const ConvProblem& problem, const DeviceInfo& device) {
  static auto& cache = *new ProblemCache<Search>;  // engines, as sessions, are never destroyed
  return cache.get(device.id.index, problem, [&] {
    try {
      return search_now(problem, device);
    } catch (const Error& e) {
      Search none;
      none.support = {
          e.code() == ErrorCode::out_of_memory ? Reason::device_limit : Reason::geometry,
          fmt::format("cuDNN cannot be asked: {}", e.what())};
      return none;
    }
  });
}

void run(const Engine& engine, const DeviceInfo& device, const void* image, const void* filters,
         void* output, void* workspace, void* stream) {
  Session& used = session(device.id.index);
  const std::lock_guard lock(used.mutex);
  check(library().set_stream(used.handle, static_cast<cudaStream_t>(stream)), "cudnnSetStream");
  engine.run(used.handle, image, filters, output, workspace);
}

}  // namespace plumb::cuda::cudnn
