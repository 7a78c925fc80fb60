// Copies images with their padding: a row of y at a time, whose middle is a run of x.
#include <algorithm>
#include <type_traits>

#include "cpu_kernels/nn/operators.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

/// Where a row of y comes from: rows of x, or nowhere where the boundary shows no element of it.
struct SourceRow {
  int64_t offset;
  bool inside;
};

/// Writes one value to all of y. Axes from the columns up to the depth whose rows lie one behind
/// the other are one row.
template <class Stored>
void fill(const TensorView& tensor, Stored value) {
  const Extents& y = tensor.extents();
  const Strides& to = tensor.strides();
  auto* const output = static_cast<Stored*>(tensor.data());
  int64_t run = to[4] == 1 ? y[4] : 1, rows[] = {y[2], y[3]};
  for (int i = 1; i >= 0 && to[4] == 1 && to[2 + i] == run; --i) {
    run *= rows[i];
    rows[i] = 1;
  }
  parallel_for(threads_for(element_count(y)), y[0] * y[1], [&](int64_t image) {
    Stored* const plane = output + image / y[1] * to[0] + image % y[1] * to[1];
    for (int64_t i = 0; i < rows[0]; ++i)
      for (int64_t j = 0; j < rows[1]; ++j) {
        Stored* const row = plane + i * to[2] + j * to[3];
        if (to[4] == 1)
          std::fill_n(row, run, value);
        else
          for (int64_t k = 0; k < y[4]; ++k) row[k * to[4]] = value;
      }
  });
}

template <class Stored>
Stored rounded(double value) {
  if constexpr (std::is_same_v<Stored, double>)
    return value;
  else
    return Stored(static_cast<float>(value));
}

template <class Stored>
void pad(const PadLaunch& launch) {
  const Extents &x = launch.x.extents(), &y = launch.y.extents();
  const Strides &from = launch.x.strides(), &to = launch.y.strides();
  const auto* const input = static_cast<const Stored*>(launch.x.data());
  auto* const output = static_cast<Stored*>(launch.y.data());
  const int64_t begin = launch.begin.w, step = launch.step.w, columns = y[4];
  // Columns [middle, behind) of a row of y lie inside x.
  const int64_t middle = std::clamp<int64_t>(ceil_quotient(-begin, step), 0, columns);
  const int64_t behind = std::clamp<int64_t>(ceil_quotient(x[4] - begin, step), middle, columns);
  const Stored outside = rounded<Stored>(launch.outside);
  if (middle == behind && launch.boundary.w == Boundary::zeros) return fill(launch.y, outside);
  const auto source = [&](int64_t n, int64_t c, int64_t i, int64_t j) {
    const int64_t d = boundary_index(launch.boundary.d, launch.begin.d + i * launch.step.d, x[2]);
    const int64_t h = boundary_index(launch.boundary.h, launch.begin.h + j * launch.step.h, x[3]);
    return SourceRow{n * from[0] + c * from[1] + d * from[2] + h * from[3], d >= 0 && h >= 0};
  };
  const auto column = [&](const SourceRow& row, int64_t k) {
    const int64_t w = boundary_index(launch.boundary.w, begin + k * step, x[4]);
    return w >= 0 ? input[row.offset + w * from[4]] : outside;
  };
  const int64_t rows = y[0] * y[1] * y[2] * y[3];
  parallel_for(threads_for(element_count(y)), rows, [&](int64_t row) {
    const int64_t j = row % y[3], i = row / y[3] % y[2], c = row / y[3] / y[2] % y[1],
                  n = row / y[3] / y[2] / y[1];
    const SourceRow at = source(n, c, i, j);
    Stored* const line = output + n * to[0] + c * to[1] + i * to[2] + j * to[3];
    if (!at.inside) {
      for (int64_t k = 0; k < columns; ++k) line[k * to[4]] = outside;
      return;
    }
    for (int64_t k = 0; k < middle; ++k) line[k * to[4]] = column(at, k);
    const Stored* const run = input + at.offset;
    if (to[4] == 1 && from[4] == 1 && step == 1)
      std::copy_n(run + begin + middle, behind - middle, line + middle);
    else
      for (int64_t k = middle; k < behind; ++k) line[k * to[4]] = run[(begin + k * step) * from[4]];
    for (int64_t k = behind; k < columns; ++k) line[k * to[4]] = column(at, k);
  });
}

}  // namespace

void cpu_pad(const PadLaunch& launch) {
  if (element_count(launch.y.extents()) == 0) return;
  with_type(launch.x.dtype(), [&](auto stored) { pad<decltype(stored)>(launch); });
}

}  // namespace plumb
