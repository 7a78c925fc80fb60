// plumb conv: one convolution on NumPy files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "commands.hpp"
#include "errors.hpp"
#include "formats/npy.hpp"
#include "on_device.hpp"
#include "options.hpp"
#include "plumb/plumb.hpp"

namespace plumb::app {
namespace {

struct ConvArguments {
  std::string x, w, bias, out;
  std::vector<std::int64_t> stride{1}, dilation{1}, pad{0};
  std::int64_t groups = 1;
  std::string layout = "nchw", math = "fp32", activation = "none", pool = "none";
  std::string device, algorithm;
  bool channels_last() const { return layout == "nhwc"; }
};

/// One value serves both directions.
Pair as_pair(const std::vector<std::int64_t>& values) { return {values.front(), values.back()}; }

/// One value for all sides, two for height and width, or four: top, left, bottom, right.
Padding as_padding(const std::vector<std::int64_t>& values) {
  switch (values.size()) {
    case 1: return values[0];
    case 2: return {values[0], values[1]};
    case 4: return {values[0], values[1], values[2], values[3]};
    default:
      throw UsageError(
          fmt::format("--pad: {} values, expected 1 (all sides), 2 (height, width) or 4 (top, "
                      "left, bottom, right)",
                      values.size()));
  }
}

/// A file's four extents or strides, N H W C (of filters K R S C/G), as the library has them.
template <class Four>
Four channels_second(const Four& file) {
  return {file[0], file[3], file[1], file[2]};
}

/// The same elements with the channels behind the images, whichever way they lie.
template <class View>
View as_library_has_it(const View& file, bool channels_last) {
  if (!channels_last) return file;
  return {file.data(), file.dtype(), channels_second(file.extents()), file.device(),
          channels_second(file.strides())};
}

/// The extents of y in its file.
Extents y_in_file(const Extents& y, bool channels_last) {
  return channels_last ? Extents{y[0], y[2], y[3], y[1]} : y;
}

/// The problem that the two files make, before there is an output.
ConvProblem problem_of_files(const ConvArguments& arguments, const NpyArray& x, const NpyArray& w,
                             const ConvGeometry& geometry) {
  const auto require_four = [](const Extents& extents, const std::string& path, const char* what) {
    if (extents.rank() != 4)
      throw FileError(fmt::format("{}: shape {}, expected four dimensions, {}", shown_path(path),
                                  to_string(extents), what));
  };
  const bool last = arguments.channels_last();
  require_four(x.extents, arguments.x, last ? "N H W C" : "N C H W");
  require_four(w.extents, arguments.w, last ? "K R S C/G" : "K C/G R S");
  return problem_of(
      {.x = as_library_has_it(x.view(), last), .w = as_library_has_it(w.view(), last)}, geometry);
}

/// The output replaces its file as a whole, and an input that was that file would be lost.
void require_file_of_its_own(const ConvArguments& arguments) {
  if (!is_replaced(arguments.out)) return;
  const std::pair<const char*, const std::string&> inputs[] = {
      {"--x", arguments.x}, {"--w", arguments.w}, {"--bias", arguments.bias}};
  for (const auto& [option, path] : inputs)
    if (same_file(path, arguments.out))
      throw UsageError(fmt::format("--out: {} is the file of {}, {}; expected another file",
                                   shown_path(arguments.out), option, shown_path(path)));
}

/// An algorithm that the device does not have is a wrong name; one that refuses the problem is
/// left to the library, which says why.
void require_known_algorithm(const Device& device, const std::string& name) {
  const auto algorithms = conv_algorithms(device);
  if (name.empty() || std::any_of(algorithms.begin(), algorithms.end(),
                                  [&](const auto* algorithm) { return algorithm->name == name; }))
    return;
  std::vector<std::string_view> names;
  for (const ConvAlgorithm* algorithm : algorithms) names.push_back(algorithm->name);
  throw UsageError(fmt::format("--algorithm: {} has no {}, expected one of: {}{}",
                               to_string(device.id()), plumb::quoted(name), fmt::join(names, ", "),
                               did_you_mean(name, names)));
}

Tensor uploaded(Queue& queue, const NpyArray& array) {
  Tensor tensor(queue.device(), array.dtype, array.extents);
  copy(queue, array.view(), tensor);
  return tensor;
}

/// What is read once, whatever device it then goes to.
struct Inputs {
  NpyArray x, w, bias;  ///< bias without data: there is none
  ConvGeometry geometry;
  bool channels_last;  ///< x, w and y in their files
};

struct Result {
  NpyArray y;
  std::string_view algorithm;
  double seconds;
};

/// `y_extents`: as in y's file.
Result convolve(const Device& device, const Inputs& inputs, const ConvOptions& options,
                const Extents& y_extents) {
  Queue queue(device);
  const Tensor x = uploaded(queue, inputs.x), w = uploaded(queue, inputs.w);
  const Tensor bias = options.bias ? uploaded(queue, inputs.bias) : Tensor();
  const Tensor y(device, inputs.x.dtype, y_extents);
  const bool last = inputs.channels_last;
  const ConvTensors tensors{.x = as_library_has_it(ConstTensorView(x), last),
                            .w = as_library_has_it(ConstTensorView(w), last),
                            .bias = bias.view(),
                            .y = as_library_has_it(y.view(), last)};
  const ConvPlan plan(device, problem_of(tensors, inputs.geometry), options);
  const Event begin = queue.record();
  plan.execute(queue, tensors);
  const Event end = queue.record();

  Result result{.y = {inputs.x.dtype, y_extents, {}}, .algorithm = plan.algorithm().name};
  result.y.data.resize(static_cast<std::size_t>(element_count(y_extents)) *
                       size_in_bytes(inputs.x.dtype));
  copy(queue, y, TensorView(result.y.data.data(), result.y.dtype, y_extents));
  queue.synchronize();
  result.seconds = seconds_between(begin, end);
  return result;
}

void run(const ConvArguments& arguments) {
  require_file_of_its_own(arguments);
  require_writable(arguments.out);
  const bool biased = !arguments.bias.empty();
  const ConvGeometry geometry{.stride = as_pair(arguments.stride),
                              .dilation = as_pair(arguments.dilation),
                              .padding = as_padding(arguments.pad),
                              .groups = arguments.groups,
                              .pool = arguments.pool == "max_2x2" ? Pool::max_2x2 : Pool::none};
  const Inputs inputs{.x = read_npy(arguments.x),
                      .w = read_npy(arguments.w),
                      .bias = biased ? read_npy(arguments.bias) : NpyArray{},
                      .geometry = geometry,
                      .channels_last = arguments.channels_last()};
  const ConvProblem problem = problem_of_files(arguments, inputs.x, inputs.w, inputs.geometry);
  const ConvOptions options{
      .math = *parse_math(arguments.math),
      .algorithm = arguments.algorithm,
      .bias = biased,
      .activation = arguments.activation == "relu" ? Activation::relu : Activation::none};

  const Device first = open_device(arguments.device);
  require_known_algorithm(first, arguments.algorithm);
  const auto [device, result] = on_device_or_cpu(first, [&](const Device& one) {
    return convolve(one, inputs, options, y_in_file(problem.y_extents(), inputs.channels_last));
  });
  write_npy(arguments.out, result.y.view());
  fmt::print("device     {}\n", to_string(device.id()));
  if (!device.why().empty()) fmt::print("           passed over: {}\n", device.why());
  fmt::print("algorithm  {}\ny          {} {}\nop         {:.6f} s\n", result.algorithm,
             to_string(result.y.extents), to_string(result.y.dtype), result.seconds);
}

}  // namespace

void add_conv(CLI::App& program) {
  CLI::App* command = program.add_subcommand("conv", "Run one convolution on NumPy files");
  const auto a = std::make_shared<ConvArguments>();
  command
      ->add_option("--x", a->x, "Images, [N, C, H, W]: a .npy file of f32, f64 or f16 in C order")
      ->required();
  command->add_option("--w", a->w, "Filters, [K, C/G, R, S], of the same type")->required();
  command->add_option("--bias", a->bias, "Bias, [K], of the same type");
  command
      ->add_option("--out", a->out,
                   "Write the result, [N, K, P, Q] (pooled: [N, K, P/2, Q/2]), of the same type, "
                   "to this file, which must not be one of the inputs")
      ->required();
  command
      ->add_option("--layout", a->layout,
                   "Order of the dimensions in the files. nchw: as above. nhwc: x is "
                   "[N, H, W, C], w is [K, R, S, C/G], the result is [N, P, Q, K]")
      ->check(one_of({"nchw", "nhwc"}))
      ->capture_default_str();
  add_integer(*command, "--stride", a->stride, 1, "Stride: one value, or height,width")
      ->delimiter(',')
      ->expected(1, 2);
  add_integer(*command, "--dilation", a->dilation, 1, "Dilation: one value, or height,width")
      ->delimiter(',')
      ->expected(1, 2);
  add_integer(*command, "--pad", a->pad, 0,
              "Zero padding: one value, height,width, or top,left,bottom,right")
      ->delimiter(',')
      ->expected(1, 4);
  add_integer(*command, "--groups", a->groups, 1, "Number of groups G, which must divide C and K");
  command
      ->add_option("--math", a->math,
                   "Least accurate arithmetic allowed: fp64, fp32, tf32, bf16 or fp16")
      ->check(one_of({"fp64", "fp32", "tf32", "bf16", "fp16"}))
      ->capture_default_str();
  command->add_option("--activation", a->activation, "Activation after the bias: none or relu")
      ->check(one_of({"none", "relu"}))
      ->capture_default_str();
  command->add_option("--pool", a->pool, "Pooling after the activation: none or max_2x2")
      ->check(one_of({"none", "max_2x2"}))
      ->capture_default_str();
  add_device_option(*command, a->device);
  command->add_option("--algorithm", a->algorithm,
                      "Run this algorithm, and fail where it cannot run; without it Plumb chooses");
  command->footer(
      "TensorFlow keeps filters as [R, S, C/G, K]: np.transpose(w, (3, 0, 1, 2)) is what nhwc "
      "expects.\nExamples, to be compared with SciPy or PyTorch:\n  plumb conv --x x.npy --w w.npy "
      "--bias b.npy --stride 2 --pad 3,3,2,2 --out y.npy\n  plumb conv --layout nhwc --x x.npy --w "
      "w.npy --pad 1 --out y.npy");
  command->callback([a] { run(*a); });
}

}  // namespace plumb::app
