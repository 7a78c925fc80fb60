// What plumb conv reads and writes: the tensors of one direction as they are in NumPy files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/npy.hpp"
#include "plumb/plumb.hpp"

namespace plumb::app {

/// What the command line says of a convolution, a gradient or a transposed convolution.
struct ConvArguments {
  std::string x, w, dy, bias, mask, accumulate, out, db;
  std::string direction = "forward";
  bool transposed = false;
  std::vector<std::int64_t> stride{1}, dilation{1}, pad{0}, output_padding, filter;
  std::vector<std::string> boundary;
  std::int64_t groups = 1;
  std::string layout = "nchw", math = "fp32", activation = "none", pool = "none";

  bool channels_last() const { return layout == "nhwc"; }
  /// Backward data under either name.
  bool of_data() const { return transposed || direction == "backward_data"; }
  bool of_weights() const { return direction == "backward_weights"; }
};

/// The two tensors that are convolved, by their options and files, and what the output is called.
struct ConvFiles {
  const char *image_option, *filters_option, *output;
  const std::string &image, &filters;
};
ConvFiles files_of(const ConvArguments& arguments);

/// Refuses options that the direction does not take or lacks, or whose numbers are wrong for any
/// image, before a file is read: UsageError.
void require_fitting_options(const ConvArguments& arguments);

/// The same elements with the channels behind the images, whichever way they lie in the file.
template <class View>
View as_library_has_it(const View& file, bool channels_last) {
  if (!channels_last) return file;
  const auto behind_images = [](const Dims& in_file) {
    Dims library = in_file;
    library[1] = in_file[in_file.rank() - 1];
    for (int i = 2; i < in_file.rank(); ++i) library[i] = in_file[i - 1];
    return library;
  };
  return {file.data(), file.dtype(), behind_images(file.extents()), file.device(),
          behind_images(file.strides())};
}

/// The problem of the files, and the extents of its output as the file of that has them.
struct ConvOfFiles {
  ConvProblem problem;
  Extents output;
};
/// Errors name the file, its shape and what was expected.
ConvOfFiles conv_of_files(const ConvArguments& arguments, const NpyArray& image,
                          const NpyArray& filters);

}  // namespace plumb::app
