// What a stage is filled with, and one step's products, each by itself: a mistake in a tensor map,
// in a swizzle or in a descriptor shows here as the element that came in place of another.
#pragma once

#include <algorithm>

#include "cuda_kernels/primitives/bulk_copy.cuh"
#include "wide_case.cuh"

namespace plumb_test {

/// Copies the pixels of one step to shared memory as the producer does, and from there out.
template <class Arithmetic, int number>
__global__ void __launch_bounds__(wide_threads, 1)
    dump_pixels(const __grid_constant__ WideParams<Arithmetic> params, int first, int group,
                int of_step, char* out) {
  constexpr WideShape shape = wide_shapes[number];
  constexpr int copies = shape.m / shape.pixels_of_copy();
  const WideShared<shape> shared;
  prepare_wide(shared, params.map);
  if (threadIdx.x == 0) {
    shared.full(0).arrive_expecting(shape.a_bytes());
    WideCorner corners[copies];
    for (int i = 0; i < copies; ++i)
      corners[i] = WideCorner(params, first + i * shape.pixels_of_copy());
    const WideWorkItem work{
        .pixel = first, .group = group, .filter = 0, .split = 0, .begin = 0, .end = 1};
    copy_pixels<shape, WideFault::none>(params, shared, 0, work, WideStep(params, of_step),
                                        corners);
  }
  __syncthreads();
  shared.full(0).wait(0);
  for (int i = threadIdx.x; i < shape.a_bytes(); i += wide_threads) out[i] = shared.pixels(0)[i];
}

/// Copies the filters of one step to shared memory, and from there out.
template <class Arithmetic, int number>
__global__ void __launch_bounds__(wide_threads, 1)
    dump_filters(const __grid_constant__ WideParams<Arithmetic> params, int group, int filter,
                 int of_step, char* out) {
  constexpr WideShape shape = wide_shapes[number];
  const WideShared<shape> shared;
  prepare_wide(shared, params.map);
  const WideWorkItem work{
      .pixel = 0, .group = group, .filter = filter, .split = 0, .begin = 0, .end = 1};
  if (threadIdx.x == 0) copy_filters(params, shared, 0, work, WideStep(params, of_step), 0);
  __syncthreads();
  shared.full(0).wait(0);
  for (int i = threadIdx.x; i < shape.b_bytes(); i += wide_threads) out[i] = shared.filters(0)[i];
}

/// D = A B^T of one step, by one warpgroup; both operands lie as stages have them.
template <class Operand, int n8_tiles>
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
    wgmma_swizzled<Operand, n8_tiles>(sums, a_at + bytes / 16, b_at + bytes / 16, bytes > 0);
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

/// The element of an operand at a byte, as a number.
template <class Operand>
double value_at(const std::vector<char>& of, std::int64_t byte) {
  const auto read = [&]<class Element>(Element element) {
    std::copy_n(of.data() + byte, sizeof(element), reinterpret_cast<char*>(&element));
    return element;
  };
  if constexpr (std::is_same_v<Operand, float>)
    return read(0.0f);
  else if constexpr (std::is_same_v<Operand, __half>)
    return static_cast<float>(read(Half{}));
  else
    return static_cast<float>(read(BFloat16{}));
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

/// What elements are filled with so that each tells where it is from: integers that every operand
/// holds and whose low halves are zero.
inline int mark(std::int64_t index) { return static_cast<int>(index * 7 % 251) + 1; }

/// What a row of 128 bytes of a step has channels of: c is that of the problem, or -1.
struct StepChannels {
  int block, tap, product;
  const WideFilters& filters;

  StepChannels(const WideFilters& of, int step)
      : block(step % of.steps() % of.channel_blocks),
        tap(step % of.steps() / of.channel_blocks),
        product(step / of.steps()),
        filters(of) {}
  std::int64_t channel(int group, int i) const {
    const int in_group = block * filters.of.step_channels() + i;
    return in_group < filters.groups.channels ? group * filters.groups.channels + in_group : -1;
  }
};

template <class Stored>
void put_marks(Stored* device, std::int64_t count) {
  std::vector<Stored> marks(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(mark(i));
    if constexpr (std::is_same_v<Stored, float>)
      marks[i] = value;
    else if constexpr (std::is_same_v<Stored, __half>)
      marks[i] = __float2half_rn(value);
    else
      marks[i] = __float2bfloat16_rn(value);
  }
  check(cudaMemcpy(device, marks.data(), sizeof(Stored) * marks.size(), cudaMemcpyHostToDevice),
        "marks");
}

/// The im2col loads of a problem, as it lies or repacked. Rows are pixels, columns channels; 0 is a
/// zero. Split halves are scaled: the largest mark is 251, so the scale is 2^7.
template <class Arithmetic, int number>
int check_pixels(const std::string& text, WideOptions options = {}) {
  options.folded_axes = 0;
  using Operand = typename Arithmetic::Operand;
  constexpr WideShape shape = wide_shapes[number];
  WideCase<Arithmetic> of(text, options, true);
  const ConvProblem& p = of.problem();
  std::int64_t last = 0;
  for (int i = 0; i < p.x_extents().rank(); ++i) last += (p.x_extents()[i] - 1) * p.x_strides[i];
  put_marks(of.x(), last + 1);
  const WidePlan plan = of.plan({.shape = number, .splits = 1});
  WideParams<Arithmetic> params = of.params(plan);
  const bool lies = of.prepare(params, plan);
  std::printf(R"({"map":"%s","as_it_lies":%d,"axes":%d,"groups":%d})"
              "\n",
              text.c_str(), lies, params.axes, plan.filters.groups.count);
  allow_all(dump_pixels<Arithmetic, number>, shape.shared_bytes());
  int wrong = 0;
  const bool deep = p.has_depth();
  const Strides& xs = p.x_strides;
  const int rank = xs.rank(), steps = Arithmetic::products * plan.filters.steps();
  for (int group = 0; group < plan.filters.groups.count; ++group)
    for (int first = 0; first < plan.tiles.pixels; first += shape.m)
      for (int step = 0; step < steps; step += std::max(1, steps / 5)) {
        Dump dump(shape.a_bytes());
        dump_pixels<Arithmetic, number>
            <<<1, wide_threads, shape.shared_bytes()>>>(params, first, group, step, dump.device());
        const std::vector<char>& met = dump.fetch();
        Verdict verdict("pixels", text + " group " + std::to_string(group) + " from " +
                                      std::to_string(first) + " step " + std::to_string(step));
        const StepChannels at(plan.filters, step);
        const std::int64_t s = at.tap % p.s, r = at.tap / p.s % p.r, t = at.tap / p.s / p.r;
        for (int row = 0; row < shape.m; ++row) {
          std::int64_t rest = first + row;
          const std::int64_t q = rest % p.q(), ph = rest / p.q() % p.p(),
                             z = rest / p.q() / p.p() % p.z(), n = rest / p.q() / p.p() / p.z();
          const std::int64_t w = q * (p.q() > 1 ? p.stride.w : 1) + s * p.dilation.w -
                                 p.padding.left,
                             h = ph * (p.p() > 1 ? p.stride.h : 1) + r * p.dilation.h -
                                 p.padding.top,
                             d = z * (p.z() > 1 ? p.stride.d : 1) + t * p.dilation.d -
                                 p.padding.front;
          const bool inside =
              n < p.n && w >= 0 && w < p.w && h >= 0 && h < p.h && d >= 0 && d < p.d;
          for (int i = 0; i < Arithmetic::step_channels; ++i) {
            const std::int64_t c = at.channel(group, i);
            if (c < 0) continue;  // zeros of filters meet it, or are it
            const std::int64_t index = n * xs[0] + (deep ? d * xs[2] : 0) + h * xs[rank - 2] +
                                       w * xs[rank - 1] + c * xs[1];
            const double high = Arithmetic::splits_operands ? std::ldexp(mark(index), 7)
                                                            : static_cast<double>(mark(index));
            const bool low = Arithmetic::splits_operands && at.product == 0;
            verdict.expect(row, static_cast<int>(c), inside && !low ? high : 0,
                           value_at<Operand>(met, swizzle_128(row * swizzle_row_bytes +
                                                              Arithmetic::operand_bytes * i)));
          }
        }
        wrong += verdict.print();
      }
  return wrong;
}

/// The packing of filters, and their way to shared memory.
template <class Arithmetic, int number>
int check_filters(const std::string& text) {
  using Operand = typename Arithmetic::Operand;
  constexpr WideShape shape = wide_shapes[number];
  WideCase<Arithmetic> of(text, {.folded_axes = 0}, true);
  const ConvProblem& p = of.problem();
  put_marks(of.w(), element_count(p.w_extents()));
  of.pack();
  const WidePlan plan = of.plan({.shape = number, .splits = 1});
  const WideParams<Arithmetic> params = of.params(plan);
  allow_all(dump_filters<Arithmetic, number>, shape.shared_bytes());
  int wrong = 0;
  const WideFilters& filters = of.filters();
  const WideGroups& groups = filters.groups;
  const int steps = Arithmetic::products * filters.steps();
  for (int group = 0; group < groups.count; ++group)
    for (int filter = 0; filter < filters.rows; filter += shape.n)
      for (const int step : {0, steps / 2, steps - 1}) {
        Dump dump(shape.b_bytes());
        dump_filters<Arithmetic, number>
            <<<1, wide_threads, shape.shared_bytes()>>>(params, group, filter, step, dump.device());
        const std::vector<char>& met = dump.fetch();
        Verdict verdict("filters", text + " shape " + std::to_string(number) + " group " +
                                       std::to_string(group) + " from " + std::to_string(filter) +
                                       " step " + std::to_string(step));
        const StepChannels at(filters, step);
        for (int row = 0; row < std::min(shape.n, filters.rows - filter); ++row) {
          const int in_group = filter + row;
          const std::int64_t k = std::int64_t{group} * groups.filters + in_group;
          std::int64_t most = 1;
          for (std::int64_t i = 0; i < p.terms(); ++i)
            most = std::max<std::int64_t>(most, mark(k * p.terms() + i));
          int scale = 0;
          if (Arithmetic::splits_operands) scale = 14 - static_cast<int>(std::ilogb(most));
          for (int i = 0; i < Arithmetic::step_channels; ++i) {
            const std::int64_t c = at.channel(group, i),
                               own = c - k / groups.own_filters * groups.own_channels;
            const bool there =
                in_group < groups.filters && c >= 0 && own >= 0 && own < groups.own_channels;
            const std::int64_t index =
                (k * groups.own_channels + own) * filters.all_taps() + at.tap;
            const bool low = Arithmetic::splits_operands && at.product == 1;
            verdict.expect(row, i, there && !low ? std::ldexp(mark(index), scale) : 0,
                           value_at<Operand>(met, swizzle_128(row * swizzle_row_bytes +
                                                              Arithmetic::operand_bytes * i)));
          }
        }
        wrong += verdict.print();
      }
  return wrong;
}

/// One step's products of small integers.
template <class Operand, int n8_tiles>
int check_step() {
  constexpr int n = 8 * n8_tiles, element = sizeof(Operand), terms = swizzle_row_bytes / element,
                bytes = (64 + n) * swizzle_row_bytes;
  std::vector<char> tiles(bytes);
  const auto value = [](int row, int term) { return (row * 7 + term * 5 + row * term) % 7 - 3; };
  for (int row = 0; row < 64 + n; ++row)
    for (int term = 0; term < terms; ++term) {
      const auto of = static_cast<float>(value(row, term));
      char* const to = tiles.data() + swizzle_128(row * swizzle_row_bytes + element * term);
      if constexpr (element == 4) {
        std::copy_n(reinterpret_cast<const char*>(&of), 4, to);
      } else {
        const std::uint16_t bits =
            dtype_of_stored<Operand> == DType::f16 ? Half(of).bits : BFloat16(of).bits;
        std::copy_n(reinterpret_cast<const char*>(&bits), 2, to);
      }
    }
  Dump in(bytes), out(64 * n * sizeof(float));
  check(cudaMemcpy(in.device(), tiles.data(), bytes, cudaMemcpyHostToDevice), "tiles");
  allow_all(one_step<Operand, n8_tiles>, bytes + swizzle_atom_bytes);
  one_step<Operand, n8_tiles><<<1, 128, bytes + swizzle_atom_bytes>>>(
      in.device(), in.device() + 64 * swizzle_row_bytes, reinterpret_cast<float*>(out.device()));
  const auto* const met = reinterpret_cast<const float*>(out.fetch().data());
  Verdict verdict("step",
                  std::string(to_string(dtype_of_stored<Operand>)) + " 64x" + std::to_string(n));
  for (int m = 0; m < 64; ++m)
    for (int k = 0; k < n; ++k) {
      int sum = 0;
      for (int term = 0; term < terms; ++term) sum += value(m, term) * value(64 + k, term);
      verdict.expect(m, k, sum, met[m * n + k]);
    }
  return verdict.print();
}

/// Which way the copy engine rounds f32 to TF32: the entry promises to the nearest.
inline int check_rounding() {
  const WideOptions options{};
  WideCase<WideTf32> of("mb1ic32ih1iw1oc8kh1ph0", options, true);
  const float up = 1 + 0x3p-12f, down = 1 + 0x1p-12f;
  std::vector<float> x(32, up);
  for (std::size_t i = 0; i < x.size(); i += 2) x[i] = down;
  check(cudaMemcpy(of.x(), x.data(), 128, cudaMemcpyHostToDevice), "x");
  const WidePlan plan = of.plan({.shape = 3, .splits = 1});
  WideParams<WideTf32> params = of.params(plan);
  int wrong = of.prepare(params, plan) ? 0 : 1;
  allow_all(dump_pixels<WideTf32, 3>, wide_shapes[3].shared_bytes());
  Dump dump(wide_shapes[3].a_bytes());
  dump_pixels<WideTf32, 3>
      <<<1, wide_threads, wide_shapes[3].shared_bytes()>>>(params, 0, 0, 0, dump.device());
  const std::vector<char>& met = dump.fetch();
  Verdict verdict("rounding", "1 + 2^-12 and 1 + 3 2^-12 to TF32");
  for (int c = 0; c < 32; ++c)
    verdict.expect(0, c, c % 2 == 0 ? 1 : 1 + 0x1p-10, value_at<float>(met, swizzle_128(4 * c)));
  return wrong + verdict.print();
}

}  // namespace plumb_test
