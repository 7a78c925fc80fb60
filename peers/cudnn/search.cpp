// Times engines on random data. With PLUMB_VERBOSE, says on standard error what won.
#include "peers/cudnn/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>

#include "cuda_kernels/primitives/check.hpp"
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

  /// The least seconds of five runs, after one that is not counted; of fewer, where one takes three
  /// times `best_so_far` and five could not win.
  template <class Run>
  double seconds(const Run& run, double best_so_far) {
    run(stream_);
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    float least = std::numeric_limits<float>::infinity();
    for (int i = 0; i < 5 && !(i > 0 && least * 1e-3 > 3 * best_so_far); ++i) {
      check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
      run(stream_);
      check(cudaEventRecord(end_, stream_), "cudaEventRecord");
      check(cudaEventSynchronize(end_), "cudaEventSynchronize");
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
      least = std::min(least, milliseconds);
    }
    return least * 1e-3;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

struct Timed {
  std::shared_ptr<const Engine> engine;
  double seconds;
};

/// The inputs and the output of a search, and workspace that grows as engines ask.
class Bench {
 public:
  Bench(const ConvProblem& problem, const DeviceInfo& device)
      : device_(device),
        dtype_(problem.dtype),
        x_(random_tensor(problem.dtype, problem.x_extents())),
        w_(random_tensor(problem.dtype, problem.w_extents())),
        y_(random_tensor(problem.dtype, problem.y_extents())) {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    workspace_limit_bytes_ = free / 2;  // the caller has to have it too
  }

  /// Those that run, fastest first.
  std::vector<Timed> time(const std::vector<std::shared_ptr<const Engine>>& engines) {
    std::vector<Timed> timed;
    // Of those that every class of accuracy admits.
    double best = std::numeric_limits<double>::infinity();
    for (const auto& engine : engines) {
      if (engine->workspace_bytes() > workspace_limit_bytes_) continue;
      try {
        grow_workspace(engine->workspace_bytes());
        const auto run_once = [&](cudaStream_t stream) {
          run(*engine, device_, x_.data(), w_.data(), y_.data(), workspace_.data(), stream);
        };
        timed.push_back({engine, stopwatch_.seconds(run_once, best)});
        if (admits(Accuracy::fp32_sum, dtype_, *engine))
          best = std::min(best, timed.back().seconds);
      } catch (const Error&) {
        // Some engines refuse only when they are run. An error that broke the context shows in
        // every call after this one.
        cudaGetLastError();
      }
    }
    std::stable_sort(timed.begin(), timed.end(),
                     [](const Timed& a, const Timed& b) { return a.seconds < b.seconds; });
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
  DeviceMemory x_, w_, y_, workspace_;
  std::size_t workspace_bytes_ = 0, workspace_limit_bytes_ = 0;
};

const Timed* fastest(Accuracy accuracy, DType dtype, const std::vector<Timed>& timed) {
  const auto found = std::find_if(timed.begin(), timed.end(), [&](const Timed& candidate) {
    return admits(accuracy, dtype, *candidate.engine);
  });
  return found == timed.end() ? nullptr : &*found;
}

std::string describe(const Engine& engine) {
  std::string text = engine.name();
  if (engine.has(CUDNN_NUMERICAL_NOTE_FFT))
    text += ", FFT";
  else if (engine.transforms())
    text += ", Winograd";
  if (engine.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) text += ", tensor cores";
  return text;
}

bool verbose() {
  const char* value = secure_getenv("PLUMB_VERBOSE");
  return value && *value && std::string_view(value) != "0";
}

void report(const ConvProblem& problem, Accuracy accuracy, const Timed& best, std::size_t tried) {
  constexpr std::string_view names[] = {"best.fp32", "best.tf32", "sum.fp32"};
  fmt::print(stderr,
             "plumb: cudnn.conv.{} of {} in {}: {}, {:.3g} s, {} bytes of workspace, {} "
             "engines tried\n",
             names[static_cast<int>(accuracy)], to_string(problem), to_string(problem.dtype),
             describe(*best.engine), best.seconds, best.engine->workspace_bytes(), tried);
}

Search search_now(const ConvProblem& problem, const DeviceInfo& device) {
  Search result;
  result.layout = *layout_of(problem);
  const OnDevice on_device(device.id.index);
  Bench bench(problem, device);
  Session& used = session(device.id.index);
  const auto timed_with = [&](float beta) {
    std::unique_lock lock(used.mutex);
    const auto built = engines(used.handle, problem, result.layout, beta);
    lock.unlock();
    return bench.time(built);
  };
  const std::vector<Timed> plain = timed_with(0);
  std::vector<Timed> onto_bias;
  if (size_in_bytes(problem.dtype) == 2) onto_bias = timed_with(1);
  for (const Accuracy accuracy : {Accuracy::fp32, Accuracy::tf32, Accuracy::fp32_sum}) {
    Choice& choice = result.choices[static_cast<int>(accuracy)];
    if (const Timed* best = fastest(accuracy, problem.dtype, plain)) {
      choice.plain = best->engine;
      if (verbose()) report(problem, accuracy, *best, plain.size());
    }
    if (const Timed* best = fastest(accuracy, problem.dtype, onto_bias))
      choice.onto_bias = best->engine;
  }
  return result;
}

}  // namespace

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

void run(const Engine& engine, const DeviceInfo& device, const void* x, const void* w, void* y,
         void* workspace, void* stream) {
  Session& used = session(device.id.index);
  const std::lock_guard lock(used.mutex);
  check(library().set_stream(used.handle, static_cast<cudaStream_t>(stream)), "cudnnSetStream");
  engine.run(used.handle, x, w, y, workspace);
}

}  // namespace plumb::cuda::cudnn
