// What a stage is filled with, and one step's products, each by itself: a mistake in a tensor map,
// in a swizzle or in a descriptor shows here as the element that came in place of another.
#pragma once

#include <algorithm>

#include "wide_case.cuh"

namespace plumb_test {

/// Copies the pixels of one step to shared memory as the producer does, and from there out.
template <class Stored, int number>
__global__ void __launch_bounds__(wide_threads, 1)
    dump_pixels(const __grid_constant__ WideParams<Stored> params, int first, int of_step,
                char* out) {
  constexpr WideShape shape = wide_shapes[number];
  constexpr int pixels_of_copy = shape.pixels_of_copy();
  const WideShared<shape> shared;
  StageBarrier& full = shared.full(0);
  if (threadIdx.x == 0) {
    full.init(1);
    publish_barriers();
    full.arrive_expecting(shape.a_bytes());
    const WideStep step(params, of_step);
    const int offset[3] = {step.tap[0] * params.axis[0].dilation,
                           step.tap[1] * params.axis[1].dilation,
                           step.tap[2] * params.axis[2].dilation};
    for (int i = 0; i < shape.m / pixels_of_copy; ++i) {
      const WidePixel pixel = params.pixel(first + i * pixels_of_copy);
      int at[3];
      for (int axis = 0; axis < 3; ++axis)
        at[axis] = pixel.at[axis] * params.axis[axis].stride - params.axis[axis].before;
      full.copy_im2col(shared.pixels(0) + i * pixels_of_copy * swizzle_row_bytes, params.map,
                       params.axes, step.block * wide_channels, at, pixel.n, offset);
    }
  }
  __syncthreads();
  full.wait(0);
  for (int i = threadIdx.x; i < shape.a_bytes(); i += wide_threads) out[i] = shared.pixels(0)[i];
}

/// Copies the filters of one step to a cluster's blocks, and from each out.
template <class Stored, int number>
__global__ void __launch_bounds__(wide_threads, 1) PLUMB_CLUSTER(wide_shapes[number].cluster)
    dump_filters(const __grid_constant__ WideParams<Stored> params, int filter, int of_step,
                 char* out) {
  constexpr WideShape shape = wide_shapes[number];
  const WideShared<shape> shared;
  prepare_wide(params, shared);
  const WideWorkItem work{.pixel = 0, .filter = filter, .split = 0, .begin = 0, .end = 1};
  if (threadIdx.x == 0) copy_filters(params, shared, 0, work, of_step, 0);
  __syncthreads();
  shared.full(0).wait(0);
  for (int i = threadIdx.x; i < shape.b_bytes(); i += wide_threads)
    out[blockIdx.x * shape.b_bytes() + i] = shared.filters(0)[i];
  if constexpr (shape.cluster > 1) meet_cluster();
}

/// D = A B^T of one step, by one warpgroup; both operands lie as stages have them.
template <class Stored, int n8_tiles>
__global__ void __launch_bounds__(128, 1) one_step(const char* a, const char* b, float* d) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int a_bytes = 64 * swizzle_row_bytes, b_bytes = 8 * n8_tiles * swizzle_row_bytes;
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(dynamic_shared()));
  char* const shared = dynamic_shared() + (-base & (swizzle_atom_bytes - 1));
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < a_bytes; i += 128) shared[i] = a[i];
  for (int i = thread; i < b_bytes; i += 128) shared[a_bytes + i] = b[i];
  order_shared_writes();
  __syncthreads();
  float sums[4 * n8_tiles];
  const WgmmaMatrix a_at = wgmma_swizzled_matrix(shared),
                    b_at = wgmma_swizzled_matrix(shared + a_bytes);
  wgmma_settle(sums);
  wgmma_begin();
#pragma unroll
  for (int bytes = 0; bytes < swizzle_row_bytes; bytes += 32)
    wgmma_swizzled<Stored, n8_tiles>(sums, a_at + bytes / 16, b_at + bytes / 16, bytes > 0);
  wgmma_commit();
  wgmma_end();
  wgmma_settle(sums);
  const int lane = thread % 32, warp = thread / 32;
#pragma unroll
  for (int i = 0; i < 4 * n8_tiles; ++i)
    d[(warp * 16 + lane / 4 + i / 2 % 2 * 8) * 8 * n8_tiles + i / 4 * 8 + lane % 4 * 2 + i % 2] =
        sums[i];
#endif
}

template <class Kernel>
void allow_all(Kernel kernel, int bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "cudaFuncSetAttribute");
}

/// Device memory that the host reads.
class Dump {
 public:
  explicit Dump(std::size_t bytes) : host_(bytes) {
    check(cudaMalloc(&device_, bytes), "cudaMalloc");
  }
  Dump(const Dump&) = delete;
  ~Dump() { cudaFree(device_); }
  char* device() const { return device_; }
  const std::vector<char>& fetch() {
    check(cudaMemcpy(host_.data(), device_, host_.size(), cudaMemcpyDeviceToHost), "fetch");
    return host_;
  }

 private:
  std::vector<char> host_;
  char* device_ = nullptr;
};

inline std::uint16_t bits_at(const std::vector<char>& of, std::int64_t byte) {
  std::uint16_t bits = 0;
  std::copy_n(of.data() + byte, 2, reinterpret_cast<char*>(&bits));
  return bits;
}

/// Prints what was met, and returns the number of elements that were wrong.
class Verdict {
 public:
  Verdict(std::string check, std::string what) : check_(std::move(check)), what_(std::move(what)) {}
  void expect(int row, int column, double expected, double met) {
    ++all_;
    if (expected == met) return;
    if (wrong_++ < 6)
      first_ += (first_.empty() ? "" : "; ") + std::to_string(row) + "," + std::to_string(column) +
                ": " + std::to_string(met) + " for " + std::to_string(expected);
  }
  int print() const {
    std::printf(R"({"check":"%s","what":"%s","elements":%lld,"wrong":%lld,"first":"%s"})"
                "\n",
                check_.c_str(), what_.c_str(), all_, wrong_, first_.c_str());
    std::fflush(stdout);
    return wrong_ > 0;
  }

 private:
  std::string check_, what_, first_;
  long long all_ = 0, wrong_ = 0;
};

/// The im2col loads of a problem: each element of x is its own index (modulo 2^16), so that what
/// comes in place of another is known. Rows are pixels, columns channels; 0 is a zero.
template <int number>
int check_pixels(const std::string& text) {
  using Stored = __half;
  constexpr WideShape shape = wide_shapes[number];
  WideCase<Stored> of(text, {}, true);
  const ConvProblem& p = of.problem();
  std::int64_t last = 0;
  for (int i = 0; i < p.x_extents().rank(); ++i) last += (p.x_extents()[i] - 1) * p.x_strides[i];
  std::vector<std::uint16_t> x(static_cast<std::size_t>(last + 1));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint16_t>(i);
  check(cudaMemcpy(of.x(), x.data(), 2 * x.size(), cudaMemcpyHostToDevice), "x");
  const WidePlan plan = of.plan({.shape = number, .splits = 1});
  const WideParams<Stored> params = of.params(plan);
  std::printf(R"({"map":"%s","gathers":%d,"axes":%d,"lower":[%d,%d,%d],"upper":[%d,%d,%d]})"
              "\n",
              text.c_str(), params.gathers, plan.map.axes, plan.map.axis[0].lower,
              plan.map.axis[1].lower, plan.map.axis[2].lower, plan.map.axis[0].upper,
              plan.map.axis[1].upper, plan.map.axis[2].upper);
  allow_all(dump_pixels<Stored, number>, shape.shared_bytes());
  int wrong = params.gathers;
  const bool deep = p.has_depth();
  const Strides& xs = p.x_strides;
  const int rank = xs.rank();
  for (int first = 0; first < plan.tiles.pixels; first += shape.m)
    for (int step = 0; step < of.filters().steps(); step += std::max(1, of.filters().steps() / 5)) {
      Dump dump(shape.a_bytes());
      dump_pixels<Stored, number>
          <<<1, wide_threads, shape.shared_bytes()>>>(params, first, step, dump.device());
      const std::vector<char>& met = dump.fetch();
      Verdict verdict("pixels",
                      text + " from " + std::to_string(first) + " step " + std::to_string(step));
      const int block = step % of.filters().channel_blocks,
                tap = step / of.filters().channel_blocks;
      const std::int64_t s = tap % p.s, r = tap / p.s % p.r, t = tap / p.s / p.r;
      for (int row = 0; row < shape.m; ++row) {
        std::int64_t rest = first + row;
        const std::int64_t q = rest % p.q(), ph = rest / p.q() % p.p(),
                           z = rest / p.q() / p.p() % p.z(), n = rest / p.q() / p.p() / p.z();
        const std::int64_t w = q * (p.q() > 1 ? p.stride.w : 1) + s * p.dilation.w - p.padding.left,
                           h = ph * (p.p() > 1 ? p.stride.h : 1) + r * p.dilation.h - p.padding.top,
                           d = z * (p.z() > 1 ? p.stride.d : 1) + t * p.dilation.d -
                               p.padding.front;
        const bool inside = n < p.n && w >= 0 && w < p.w && h >= 0 && h < p.h && d >= 0 && d < p.d;
        for (int i = 0; i < wide_channels; ++i) {
          const int c = block * wide_channels + i;
          const std::int64_t index =
              n * xs[0] + (deep ? d * xs[2] : 0) + h * xs[rank - 2] + w * xs[rank - 1] + c;
          verdict.expect(row, c, inside && c < p.c ? index & 0xffff : 0,
                         bits_at(met, swizzle_128(row * swizzle_row_bytes + 2 * i)));
        }
      }
      wrong += verdict.print();
    }
  return wrong;
}

/// The packing of filters, and their way to the blocks of a cluster.
template <int number>
int check_filters(const std::string& text) {
  using Stored = __half;
  constexpr WideShape shape = wide_shapes[number];
  WideCase<Stored> of(text, {}, true);
  const ConvProblem& p = of.problem();
  const std::int64_t count = element_count(p.w_extents());
  std::vector<std::uint16_t> w(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<std::uint16_t>(i);
  check(cudaMemcpy(of.w(), w.data(), 2 * w.size(), cudaMemcpyHostToDevice), "w");
  of.pack();
  const WidePlan plan = of.plan({.shape = number, .splits = 1});
  const WideParams<Stored> params = of.params(plan);
  allow_all(dump_filters<Stored, number>, shape.shared_bytes());
  int wrong = 0;
  const int steps = of.filters().steps();
  for (int filter = 0; filter < of.filters().rows; filter += shape.n)
    for (const int step : {0, steps / 2, steps - 1}) {
      Dump dump(static_cast<std::size_t>(shape.cluster) * shape.b_bytes());
      dump_filters<Stored, number><<<shape.cluster, wide_threads, shape.shared_bytes()>>>(
          params, filter, step, dump.device());
      const std::vector<char>& met = dump.fetch();
      Verdict verdict("filters", text + " shape " + std::to_string(number) + " from " +
                                     std::to_string(filter) + " step " + std::to_string(step));
      const int block = step % of.filters().channel_blocks,
                tap = step / of.filters().channel_blocks;
      for (int rank = 0; rank < shape.cluster; ++rank)
        for (int row = 0; row < std::min(shape.n, of.filters().rows - filter); ++row)
          for (int i = 0; i < wide_channels; ++i) {
            const std::int64_t c = block * wide_channels + i, k = filter + row;
            const bool there = k < p.k && c < p.c;
            const std::int64_t taps = p.t * p.r * p.s;
            verdict.expect(rank * 1000 + row, static_cast<int>(c),
                           there ? ((k * p.c + c) * taps + tap) & 0xffff : 0,
                           bits_at(met, rank * shape.b_bytes() +
                                            swizzle_128(row * swizzle_row_bytes + 2 * i)));
          }
      wrong += verdict.print();
    }
  return wrong;
}

/// One step's products of small integers.
template <class Stored, int n8_tiles>
int check_step() {
  constexpr int n = 8 * n8_tiles, bytes = (64 + n) * swizzle_row_bytes;
  std::vector<std::uint16_t> tiles(bytes / 2);
  const auto value = [](int row, int term) { return (row * 7 + term * 5 + row * term) % 7 - 3; };
  const auto bits = [](int of) {
    return dtype_of_stored<Stored> == DType::f16 ? Half(static_cast<float>(of)).bits
                                                 : BFloat16(static_cast<float>(of)).bits;
  };
  for (int row = 0; row < 64 + n; ++row)
    for (int term = 0; term < 64; ++term)
      tiles[swizzle_128(row * swizzle_row_bytes + 2 * term) / 2] = bits(value(row, term));
  Dump in(bytes), out(64 * n * sizeof(float));
  check(cudaMemcpy(in.device(), tiles.data(), bytes, cudaMemcpyHostToDevice), "tiles");
  allow_all(one_step<Stored, n8_tiles>, bytes + swizzle_atom_bytes);
  one_step<Stored, n8_tiles><<<1, 128, bytes + swizzle_atom_bytes>>>(
      in.device(), in.device() + 64 * swizzle_row_bytes, reinterpret_cast<float*>(out.device()));
  const auto* const met = reinterpret_cast<const float*>(out.fetch().data());
  Verdict verdict("step",
                  std::string(to_string(dtype_of_stored<Stored>)) + " 64x" + std::to_string(n));
  for (int m = 0; m < 64; ++m)
    for (int k = 0; k < n; ++k) {
      int sum = 0;
      for (int term = 0; term < 64; ++term) sum += value(m, term) * value(64 + k, term);
      verdict.expect(m, k, sum, met[m * n + k]);
    }
  return verdict.print();
}

}  // namespace plumb_test
