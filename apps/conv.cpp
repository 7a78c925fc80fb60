// plumb conv: one convolution on NumPy files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "axes.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "formats/npy.hpp"
#include "on_device.hpp"
#include "options.hpp"
#include "plumb/plumb.hpp"

namespace plumb::app {
namespace {

struct ConvArguments {
  std::string x, w, bias, accumulate, out;
  std::vector<std::int64_t> stride{1}, dilation{1}, pad{0};
  std::vector<std::string> boundary;
  std::int64_t groups = 1;
  std::string layout = "nchw", math = "fp32", activation = "none", pool = "none";
  DeviceArguments device;
  std::string algorithm;
  bool channels_last() const { return layout == "nhwc"; }
};

/// A file's extents or strides, N H W C (of filters K R S C/G) and as many axes as there are, as
/// the library has them.
Dims channels_second(const Dims& file) {
  Dims library = file;
  library[1] = file[file.rank() - 1];
  for (int i = 2; i < file.rank(); ++i) library[i] = file[i - 1];
  return library;
}

/// The same elements with the channels behind the images, whichever way they lie.
template <class View>
View as_library_has_it(const View& file, bool channels_last) {
  if (!channels_last) return file;
  return {file.data(), file.dtype(), channels_second(file.extents()), file.device(),
          channels_second(file.strides())};
}

/// The extents of y in its file, of as many axes as x has in its own.
Extents y_in_file(const ConvProblem& problem, int rank, bool channels_last) {
  const Extents y = problem.y_extents();
  Extents file = rank == 3   ? Extents{y[0], y[1], y[y.rank() - 1]}
                 : rank == 4 ? Extents{y[0], y[1], y[y.rank() - 2], y[y.rank() - 1]}
                             : Extents{y[0], y[1], problem.z(), y[y.rank() - 2], y[y.rank() - 1]};
  if (!channels_last) return file;
  for (int i = 1; i + 1 < rank; ++i) std::swap(file[i], file[i + 1]);
  return file;
}

/// The number of axes that the images have in x's file, and then the filters in w's.
int axes_of_files(const ConvArguments& arguments, const NpyArray& x, const NpyArray& w) {
  const bool last = arguments.channels_last();
  const int rank = x.extents.rank();
  if (rank < 3 || rank > 5)
    throw FileError(
        fmt::format("{}: shape {}, expected three to five dimensions, {}", shown_path(arguments.x),
                    to_string(x.extents),
                    last ? "N W C, N H W C or N D H W C" : "N C W, N C H W or N C D H W"));
  constexpr std::string_view numbers[] = {"three", "four", "five"};
  constexpr std::string_view first[] = {"K C/G S", "K C/G R S", "K C/G T R S"};
  constexpr std::string_view behind[] = {"K S C/G", "K R S C/G", "K T R S C/G"};
  if (w.extents.rank() != rank)
    throw FileError(fmt::format("{}: shape {}, expected {} dimensions, {}, as many as x has",
                                shown_path(arguments.w), to_string(w.extents), numbers[rank - 3],
                                (last ? behind : first)[rank - 3]));
  return rank - 2;
}

/// The problem that the two files make, before there is an output.
ConvProblem problem_of_files(const ConvArguments& arguments, const NpyArray& x, const NpyArray& w,
                             const ConvGeometry& geometry) {
  const bool last = arguments.channels_last();
  return problem_of(
      {.x = as_library_has_it(x.view(), last), .w = as_library_has_it(w.view(), last)}, geometry);
}

/// What the result is added to is like the result.
void require_like_result(const ConvArguments& arguments, const NpyArray& held, DType dtype,
                         const Extents& y_extents) {
  if (held.dtype == dtype && held.extents == y_extents) return;
  throw FileError(fmt::format("{}: {} {}, expected {} {} as the result has",
                              shown_path(arguments.accumulate), to_string(held.dtype),
                              to_string(held.extents), to_string(dtype), to_string(y_extents)));
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
  NpyArray held;        ///< what the result is added to, where it is
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
  const Tensor y =
      options.accumulate ? uploaded(queue, inputs.held) : Tensor(device, inputs.x.dtype, y_extents);
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

ConvGeometry geometry_of(const ConvArguments& arguments, int axes) {
  return {.stride = along_axes("--stride", arguments.stride, axes),
          .dilation = along_axes("--dilation", arguments.dilation, axes),
          .padding = on_sides("--pad", arguments.pad, axes),
          .groups = arguments.groups,
          .pool = arguments.pool == "max_2x2" ? Pool::max_2x2 : Pool::none,
          .boundary = boundaries_of(arguments.boundary, axes)};
}

/// Numbers that are wrong for any image are refused before a file is read.
void require_some_axes(const ConvArguments& arguments) {
  if (arguments.pad.size() == 5)
    throw UsageError("--pad: 5 values, expected 1 (all sides), one an axis, or two an axis");
}

void run(const ConvArguments& arguments) {
  require_file_of_its_own(arguments);
  require_some_axes(arguments);
  require_writable(arguments.out);
  const bool biased = !arguments.bias.empty();
  Inputs inputs{.x = read_npy(arguments.x),
                .w = read_npy(arguments.w),
                .bias = biased ? read_npy(arguments.bias) : NpyArray{},
                .held = {},
                .geometry = {},
                .channels_last = arguments.channels_last()};
  inputs.geometry = geometry_of(arguments, axes_of_files(arguments, inputs.x, inputs.w));
  const ConvProblem problem = problem_of_files(arguments, inputs.x, inputs.w, inputs.geometry);
  const Extents y_extents = y_in_file(problem, inputs.x.extents.rank(), arguments.channels_last());
  const bool accumulate = !arguments.accumulate.empty();
  if (accumulate) {
    inputs.held = read_npy(arguments.accumulate);
    require_like_result(arguments, inputs.held, inputs.x.dtype, y_extents);
  }
  const ConvOptions options{
      .math = *parse_math(arguments.math),
      .algorithm = arguments.algorithm,
      .bias = biased,
      .activation = arguments.activation == "relu" ? Activation::relu : Activation::none,
      .accumulate = accumulate};

  const Device first = open_device(arguments.device);
  require_known_algorithm(first, arguments.algorithm);
  const auto [device, result] = on_device_or_cpu(
      first, [&](const Device& one) { return convolve(one, inputs, options, y_extents); });
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
      ->add_option("--x", a->x,
                   "Images, [N, C, W], [N, C, H, W] or [N, C, D, H, W]: a .npy file of f32, f64 or "
                   "f16 in C order")
      ->required();
  command
      ->add_option("--w", a->w,
                   "Filters, [K, C/G, S], [K, C/G, R, S] or [K, C/G, T, R, S], of the same type")
      ->required();
  command->add_option("--bias", a->bias, "Bias, [K], of the same type");
  command
      ->add_option("--out", a->out,
                   "Write the result, [N, K, Q], [N, K, P, Q] (pooled: [N, K, P/2, Q/2]) or "
                   "[N, K, Z, P, Q], of the same type, to this file, which must not be one of the "
                   "inputs")
      ->required();
  command->add_option("--accumulate", a->accumulate,
                      "Add the convolution to what this .npy file holds, before the activation; it "
                      "is like the result, and may be the file of --out");
  command
      ->add_option("--layout", a->layout,
                   "Order of the dimensions in the files. nchw: as above. nhwc: x is "
                   "[N, H, W, C], w is [K, R, S, C/G], the result is [N, P, Q, K], and so with one "
                   "axis or three")
      ->check(one_of({"nchw", "nhwc"}))
      ->capture_default_str();
  add_integer(*command, "--stride", a->stride, 1,
              "Stride: one value, or one an axis: [depth,]height,width")
      ->delimiter(',')
      ->expected(1, 3);
  add_integer(*command, "--dilation", a->dilation, 1,
              "Dilation: one value, or one an axis: [depth,]height,width")
      ->delimiter(',')
      ->expected(1, 3);
  add_integer(*command, "--pad", a->pad, 0,
              "Padding: one value, [depth,]height,width, or every side: top,left,bottom,right or "
              "front,top,left,back,bottom,right")
      ->delimiter(',')
      ->expected(1, 6);
  add_boundary(*command, a->boundary);
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
      "w.npy --pad 1 --out y.npy\n  plumb conv --x field.npy --w stencil.npy --pad 1 --boundary "
      "periodic --out next.npy");
  command->callback([a] { run(*a); });
}

}  // namespace plumb::app
