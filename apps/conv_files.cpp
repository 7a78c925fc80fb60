// Shapes in NumPy files, and the problems that they make.
#include "conv_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "axes.hpp"
#include "errors.hpp"

namespace plumb::app {
namespace {

/// The dimensions of one tensor in files of rank 3 to 5, for messages.
struct Letters {
  const char* first[3];   ///< channels second
  const char* behind[3];  ///< channels last
};
constexpr Letters of_x{{"N C W", "N C H W", "N C D H W"}, {"N W C", "N H W C", "N D H W C"}};
constexpr Letters of_w{{"K C/G S", "K C/G R S", "K C/G T R S"},
                       {"K S C/G", "K R S C/G", "K T R S C/G"}};
constexpr Letters of_y{{"N K Q", "N K P Q", "N K Z P Q"}, {"N Q K", "N P Q K", "N Z P Q K"}};

/// The number of axes that the images have in their file, and then the other tensor in its own.
int axes_of_files(const ConvArguments& arguments, const NpyArray& image, const NpyArray& filters) {
  const bool last = arguments.channels_last();
  const ConvFiles files = files_of(arguments);
  const Letters &of_image = arguments.of_data() ? of_y : of_x,
                &of_filters = arguments.of_weights() ? of_y : of_w;
  const auto letters = [&](const Letters& all, int rank) {
    return (last ? all.behind : all.first)[rank - 3];
  };
  const int rank = image.extents.rank();
  if (rank < 3 || rank > 5)
    throw FileError(fmt::format("{}: shape {}, expected three to five dimensions, {}, {} or {}",
                                shown_path(files.image), to_string(image.extents),
                                letters(of_image, 3), letters(of_image, 4), letters(of_image, 5)));
  constexpr std::string_view numbers[] = {"three", "four", "five"};
  if (filters.extents.rank() != rank)
    throw FileError(fmt::format("{}: shape {}, expected {} dimensions, {}, as many as {} has",
                                shown_path(files.filters), to_string(filters.extents),
                                numbers[rank - 3], letters(of_filters, rank),
                                files.image_option + 2));
  return rank - 2;
}

ConvGeometry geometry_of(const ConvArguments& arguments, int axes) {
  return {.stride = along_axes("--stride", arguments.stride, axes),
          .dilation = along_axes("--dilation", arguments.dilation, axes),
          .padding = on_sides("--pad", arguments.pad, axes),
          .groups = arguments.groups,
          .pool = arguments.pool == "max_2x2" ? Pool::max_2x2 : Pool::none,
          .boundary = boundaries_of(arguments.boundary, axes)};
}

/// Extents of the library's, of as many axes as the files have, as a file has them.
Extents in_file(const Extents& library, int rank, bool channels_last) {
  const int last = library.rank() - 1;
  const std::int64_t depth = library.rank() == 5 ? library[2] : 1;
  Extents file = rank == 3 ? Extents{library[0], library[1], library[last]}
                 : rank == 4
                     ? Extents{library[0], library[1], library[last - 1], library[last]}
                     : Extents{library[0], library[1], depth, library[last - 1], library[last]};
  if (!channels_last) return file;
  for (int i = 1; i + 1 < rank; ++i) std::swap(file[i], file[i + 1]);
  return file;
}

/// The filters' extents, of which no file tells how far they reach.
Extents filter_extents(const ConvArguments& arguments, const Extents& x, const Extents& dy,
                       int axes) {
  const Triple reach = along_axes("--filter", arguments.filter, axes);
  const std::int64_t taps[] = {reach.d, reach.h, reach.w};
  Extents w = dy;
  w[0] = dy[1];
  w[1] = x[1] / arguments.groups;
  for (int axis = 0; axis < axes; ++axis) w[2 + axis] = taps[3 - axes + axis];
  return w;
}

}  // namespace

ConvFiles files_of(const ConvArguments& a) {
  if (a.transposed) return {"--x", "--w", "y", a.x, a.w};
  if (a.of_data()) return {"--dy", "--w", "dx", a.dy, a.w};
  if (a.of_weights()) return {"--x", "--dy", "dw", a.x, a.dy};
  return {"--x", "--w", "y", a.x, a.w};
}

void require_fitting_options(const ConvArguments& a) {
  const bool forward = !a.of_data() && !a.of_weights();
  const std::string what =
      a.transposed ? "a transposed convolution" : fmt::format("--direction {}", a.direction);
  if (a.transposed && a.direction != "forward")
    throw UsageError(fmt::format(
        "--transposed: beside --direction {}, expected one of them; it is backward_data by "
        "another name",
        a.direction));
  const ConvFiles files = files_of(a);
  const struct {
    const char* option;
    bool given, taken, needed;
  } options[] = {
      {"--x", !a.x.empty(), !a.of_data() || a.transposed, true},
      {"--w", !a.w.empty(), !a.of_weights(), true},
      {"--dy", !a.dy.empty(), !forward && !a.transposed, true},
      {"--filter", !a.filter.empty(), a.of_weights(), true},
      {"--bias", !a.bias.empty(), !a.of_weights(), false},
      {"--db", !a.db.empty(), a.of_weights(), false},
      {"--mask", !a.mask.empty(), !forward && !a.transposed, false},
      {"--output-padding", !a.output_padding.empty(), a.of_data(), false},
  };
  for (const auto& [option, given, taken, needed] : options) {
    if (given && !taken)
      throw UsageError(fmt::format("{}: not for {}, which reads {} and {}", option, what,
                                   files.image_option, files.filters_option));
    if (!given && taken && needed)
      throw UsageError(fmt::format("{} is required for {}", option, what));
  }
  if (!a.db.empty() && !a.accumulate.empty())
    throw UsageError("--db: beside --accumulate, expected one of them");
  if (a.pad.size() == 5)
    throw UsageError("--pad: 5 values, expected 1 (all sides), one an axis, or two an axis");
}

ConvOfFiles conv_of_files(const ConvArguments& arguments, const NpyArray& image,
                          const NpyArray& filters) {
  const bool last = arguments.channels_last();
  const int axes = axes_of_files(arguments, image, filters), rank = axes + 2;
  const ConvGeometry geometry = geometry_of(arguments, axes);
  const ConstTensorView x = as_library_has_it(image.view(), last),
                        w = as_library_has_it(filters.view(), last);
  /// An output that is not there yet.
  const auto output = [&](const Extents& extents) {
    return as_library_has_it(TensorView(nullptr, image.dtype, in_file(extents, rank, last)), last);
  };
  if (arguments.of_data()) {
    const Triple more = arguments.output_padding.empty()
                            ? Triple{0, 0, 0}
                            : along_axes("--output-padding", arguments.output_padding, axes);
    const Extents extents = transposed_extents(x.extents(), w.extents(), geometry, more);
    const ConvProblem problem =
        arguments.transposed
            ? transposed_problem({.x = x, .w = w, .y = output(extents)}, geometry)
            : backward_data_problem({.dy = x, .w = w, .dx = output(extents)}, geometry);
    return {problem, in_file(extents, rank, last)};
  }
  if (arguments.of_weights()) {
    const Extents extents = filter_extents(arguments, x.extents(), w.extents(), axes);
    return {backward_weights_problem({.x = x, .dy = w, .dw = output(extents)}, geometry),
            in_file(extents, rank, last)};
  }
  const Extents extents = problem_of({.x = x, .w = w}, geometry).y_extents();
  return {problem_of({.x = x, .w = w, .y = output(extents)}, geometry),
          in_file(extents, rank, last)};
}

}  // namespace plumb::app
