// A program of somebody else's: it convolves through the installed Plumb and checks the result
// against loops of its own. Arguments are backends that must be there (a machine may lack the
// device, but not the backend), or, behind a minus, must not.
#include <plumb/plumb.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

static_assert(plumb::version == USES_PLUMB_VERSION, "headers of another version than the package");

extern "C" float mean_of_nine(const float* numbers);

namespace {

int failures = 0;

void expect(bool truth, const char* what) {
  if (truth) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}

/// x [2,3,17,19] with w [4,3,3,3], one row and column of padding, ReLU.
void convolve() {
  constexpr int N = 2, C = 3, H = 17, W = 19, K = 4, R = 3;
  const plumb::Extents x_extents{N, C, H, W}, w_extents{K, C, R, R}, y_extents{N, K, H, W};
  std::vector<float> x(N * C * H * W), w(K * C * R * R), y(N * K * H * W, NAN);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) - 6;
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 7) - 3;

  const plumb::Device device = plumb::Device::open();
  conv_host(device,
            {.x = {x.data(), x_extents}, .w = {w.data(), w_extents}, .y = {y.data(), y_extents}},
            {.padding = 1}, {.activation = plumb::Activation::relu});
  std::printf("plumb %s on %s\n", plumb::version.data(), device.info().name.c_str());

  bool same = true;  // small integers: every order of summation gives the same bits
  for (int n = 0; n < N; ++n)
    for (int k = 0; k < K; ++k)
      for (int p = 0; p < H; ++p)
        for (int q = 0; q < W; ++q) {
          float sum = 0;
          for (int c = 0; c < C; ++c)
            for (int r = 0; r < R; ++r)
              for (int s = 0; s < R; ++s) {
                const int h = p + r - 1, v = q + s - 1;
                if (h >= 0 && h < H && v >= 0 && v < W)
                  sum += x[((n * C + c) * H + h) * W + v] * w[((k * C + c) * R + r) * R + s];
              }
          same = same && y[((n * K + k) * H + p) * W + q] == std::fmax(sum, 0.0f);
        }
  expect(same, "a convolution");
}

void catch_errors() {
  try {
    plumb::Device::open("abacus");
    expect(false, "a device 'abacus' was opened");
  } catch (const plumb::Error& e) {
    expect(e.code() == plumb::ErrorCode::invalid_argument, "the code of an unknown backend");
    expect(e.reason() == plumb::Reason::unknown_backend, "the reason of an unknown backend");
  }
}

void find_backend(std::string name) {
  const bool wanted = !name.starts_with("-");
  if (!wanted) name.erase(0, 1);
  for (const plumb::BackendReport& report : plumb::backend_reports()) {
    if (report.name != name) continue;
    std::printf("%s: %zu devices %s\n", name.c_str(), report.devices.size(),
                report.sentence.c_str());
    if (wanted)
      expect(!report.version.empty(), "the backend was not loaded");
    else
      expect(report.reason == plumb::Reason::module_missing && report.version.empty(),
             "a backend that was not built in is there");
    return;
  }
  expect(false, "no such backend");
}

}  // namespace

int main(int count, char** arguments) try {
  convolve();
  catch_errors();
  for (int i = 1; i < count; ++i) find_backend(arguments[i]);
  const float numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  expect(std::fabs(mean_of_nine(numbers) - 5) < 1e-5f, "the mean of nine numbers");
  return failures ? 1 : 0;
} catch (const std::exception& e) {
  std::printf("threw: %s\n", e.what());
  return 1;
}
