// plumb conv: one convolution, gradient or transposed convolution on NumPy files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <span>

#include "axes.hpp"
#include "commands.hpp"
#include "conv_files.hpp"
#include "errors.hpp"
#include "on_device.hpp"
#include "options.hpp"
#include "plumb/plumb.hpp"

namespace plumb::app {
namespace {

/// What the result is added to is like the result.
void require_like_result(const ConvArguments& arguments, const NpyArray& held, DType dtype,
                         const Extents& y_extents) {
  if (held.dtype == dtype && held.extents == y_extents) return;
  throw FileError(fmt::format("{}: {} {}, expected {} {} as the result has",
                              shown_path(arguments.accumulate), to_string(held.dtype),
                              to_string(held.extents), to_string(dtype), to_string(y_extents)));
}

/// What a ReLU left behind is like dy.
void require_like_dy(const ConvArguments& arguments, const NpyArray& mask, const NpyArray& dy) {
  if (mask.dtype == dy.dtype && mask.extents == dy.extents) return;
  throw FileError(fmt::format("{}: {} {}, expected {} {} as dy has", shown_path(arguments.mask),
                              to_string(mask.dtype), to_string(mask.extents), to_string(dy.dtype),
                              to_string(dy.extents)));
}

/// Outputs replace their files as a whole, and an input that was such a file would be lost.
void require_files_of_their_own(const ConvArguments& arguments) {
  const std::pair<const char*, const std::string&> inputs[] = {
      {"--x", arguments.x},       {"--w", arguments.w},       {"--dy", arguments.dy},
      {"--bias", arguments.bias}, {"--mask", arguments.mask}, {"--db", arguments.db}};
  const auto require = [&](const char* output, const std::string& path, const auto& others) {
    if (path.empty() || !is_replaced(path)) return;
    for (const auto& [option, other] : others)
      if (!other.empty() && same_file(other, path))
        throw UsageError(fmt::format("{}: {} is the file of {}, {}; expected another file", output,
                                     shown_path(path), option, shown_path(other)));
  };
  require("--out", arguments.out, inputs);
  require("--db", arguments.db, std::span(inputs).first(5));
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
  NpyArray image, filters;
  NpyArray bias, mask;  ///< without data: there is none
  NpyArray held;        ///< what the result is added to, where it is
  ConvOfFiles all;
  bool channels_last;  ///< all of them in their files
};

struct Result {
  NpyArray output, db;
  std::string_view algorithm;
  double seconds;
};

NpyArray downloaded(Queue& queue, const Tensor& tensor) {
  NpyArray array{tensor.dtype(), tensor.extents(), {}};
  array.data.resize(static_cast<std::size_t>(element_count(array.extents)) *
                    size_in_bytes(array.dtype));
  copy(queue, tensor, TensorView(array.data.data(), array.dtype, array.extents));
  return array;
}

Result convolve(const Device& device, const Inputs& inputs, const ConvOptions& options) {
  Queue queue(device);
  const DType dtype = inputs.image.dtype;
  const ConvProblem& problem = inputs.all.problem;
  const bool weights = problem.direction == Direction::backward_weights;
  const Tensor image = uploaded(queue, inputs.image), filters = uploaded(queue, inputs.filters);
  const Tensor none;
  const Tensor bias = options.bias && !weights ? uploaded(queue, inputs.bias) : none;
  const Tensor mask = options.relu_mask ? uploaded(queue, inputs.mask) : none;
  const Tensor db = options.bias && weights ? Tensor(device, dtype, {problem.k}) : none;
  const Tensor output =
      options.accumulate ? uploaded(queue, inputs.held) : Tensor(device, dtype, inputs.all.output);
  const bool last = inputs.channels_last;
  ConvTensors tensors{.x = as_library_has_it(ConstTensorView(image), last),
                      .w = as_library_has_it(ConstTensorView(filters), last),
                      .bias = bias.view(),
                      .y = as_library_has_it(output.view(), last),
                      .db = db.view()};
  if (options.relu_mask) tensors.mask = as_library_has_it(ConstTensorView(mask), last);
  const ConvPlan plan(device, problem, options);
  const Event begin = queue.record();
  plan.execute(queue, tensors);
  const Event end = queue.record();

  Result result{.output = downloaded(queue, output), .algorithm = plan.algorithm().name};
  if (!tensors.db.empty()) result.db = downloaded(queue, db);
  queue.synchronize();
  result.seconds = seconds_between(begin, end);
  return result;
}

Inputs read_inputs(const ConvArguments& arguments) {
  const ConvFiles files = files_of(arguments);
  const auto read = [](const std::string& path) {
    return path.empty() ? NpyArray{} : read_npy(path);
  };
  Inputs inputs{.image = read_npy(files.image),
                .filters = read_npy(files.filters),
                .bias = read(arguments.bias),
                .mask = read(arguments.mask),
                .held = {},
                .all = {},
                .channels_last = arguments.channels_last()};
  inputs.all = conv_of_files(arguments, inputs.image, inputs.filters);
  if (!arguments.mask.empty())
    require_like_dy(arguments, inputs.mask, arguments.of_weights() ? inputs.filters : inputs.image);
  if (!arguments.accumulate.empty()) {
    inputs.held = read_npy(arguments.accumulate);
    require_like_result(arguments, inputs.held, inputs.image.dtype, inputs.all.output);
  }
  return inputs;
}

void print(const ConvArguments& arguments, const Device& device, const Result& result) {
  fmt::print("device     {}\n", to_string(device.id()));
  if (!device.why().empty()) fmt::print("           passed over: {}\n", device.why());
  fmt::print("algorithm  {}\n{:<9}  {} {}\n", result.algorithm, files_of(arguments).output,
             to_string(result.output.extents), to_string(result.output.dtype));
  if (!arguments.db.empty())
    fmt::print("db         {} {}\n", to_string(result.db.extents), to_string(result.db.dtype));
  fmt::print("op         {:.6f} s\n", result.seconds);
}

void run(const ConvArguments& arguments, const DeviceArguments& device_arguments,
         const std::string& algorithm, bool reproducible) {
  require_fitting_options(arguments);
  require_files_of_their_own(arguments);
  require_writable(arguments.out);
  if (!arguments.db.empty()) require_writable(arguments.db);
  const Inputs inputs = read_inputs(arguments);
  const ConvOptions options{
      .math = *parse_math(arguments.math),
      .algorithm = algorithm,
      .bias = !arguments.bias.empty() || !arguments.db.empty(),
      .activation = arguments.activation == "relu" ? Activation::relu : Activation::none,
      .accumulate = !arguments.accumulate.empty(),
      .relu_mask = !arguments.mask.empty(),
      .reproducible = reproducible};

  const Device first = open_device(device_arguments);
  require_known_algorithm(first, algorithm);
  const auto [device, result] =
      on_device_or_cpu(first, [&](const Device& one) { return convolve(one, inputs, options); });
  write_npy(arguments.out, result.output.view());
  if (!arguments.db.empty()) write_npy(arguments.db, result.db.view());
  print(arguments, device, result);
}

void add_file_options(CLI::App& command, ConvArguments& a) {
  command
      .add_option(
          "--direction", a.direction,
          "Which convolution: forward (y from x and w), backward_data (dx from dy and w) or "
          "backward_weights (dw from x and dy)")
      ->check(one_of({"forward", "backward_data", "backward_weights"}))
      ->capture_default_str();
  command.add_flag("--transposed", a.transposed,
                   "The transposed convolution, which is backward data by another name: x is "
                   "[N, K, P, Q] and the result [N, C, H, W]");
  command.add_option("--x", a.x,
                     "Images, [N, C, W], [N, C, H, W] or [N, C, D, H, W]: a .npy file of f32, f64 "
                     "or f16 in C order");
  command.add_option("--w", a.w,
                     "Filters, [K, C/G, S], [K, C/G, R, S] or [K, C/G, T, R, S], of the same type");
  command.add_option("--dy", a.dy,
                     "In gradients, the gradient by the convolution's result y: [N, K, P, Q], and "
                     "so with one axis or three");
  command.add_option("--bias", a.bias,
                     "Bias, [K], of the same type; [C] for backward data and transposed");
  command.add_option("--mask", a.mask,
                     "In gradients, the result of the ReLU that followed, like dy, which counts "
                     "where this is above 0 (NaN is not)");
  command
      .add_option("--out", a.out,
                  "Write the result, [N, K, Q], [N, K, P, Q] (pooled: [N, K, P/2, Q/2]) or "
                  "[N, K, Z, P, Q], or dx as x or dw as w, of the same type, to this file, which "
                  "must not be one of the inputs")
      ->required();
  command.add_option("--db", a.db, "Also write the bias's gradient, [K], in backward weights");
}

void add_geometry_options(CLI::App& command, ConvArguments& a) {
  const auto add_list = [&](const char* name, auto& values, std::int64_t least, int most,
                            const char* help) {
    add_integer(command, name, values, least, help)->delimiter(',')->expected(1, most);
  };
  add_list("--stride", a.stride, 1, 3, "Stride: one value, or one an axis: [depth,]height,width");
  add_list("--dilation", a.dilation, 1, 3,
           "Dilation: one value, or one an axis: [depth,]height,width");
  add_list("--pad", a.pad, 0, 6,
           "Padding: one value, [depth,]height,width, or every side: top,left,bottom,right or "
           "front,top,left,back,bottom,right");
  add_boundary(command, a.boundary);
  add_integer(command, "--groups", a.groups, 1, "Number of groups G, which must divide C and K");
  add_list("--filter", a.filter, 1, 3,
           "In backward weights, the filter's reach: one value, or one an axis: "
           "[depth,]height,width");
  add_list("--output-padding", a.output_padding, 0, 3,
           "In backward data and transposed, how far the result goes beyond the least extents, "
           "less than the stride: one value, or one an axis");
}

}  // namespace

void add_conv(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "conv", "Run one convolution, gradient or transposed convolution on NumPy files");
  const auto a = std::make_shared<ConvArguments>();
  const auto device = std::make_shared<DeviceArguments>();
  const auto algorithm = std::make_shared<std::string>();
  const auto reproducible = std::make_shared<bool>(false);
  add_file_options(*command, *a);
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
  add_geometry_options(*command, *a);
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
  add_device_option(*command, *device);
  command->add_option("--algorithm", *algorithm,
                      "Run this algorithm, and fail where it cannot run; without it Plumb chooses");
  add_reproducible(*command, *reproducible);
  command->footer(
      "TensorFlow keeps filters as [R, S, C/G, K]: np.transpose(w, (3, 0, 1, 2)) is what nhwc "
      "expects.\nExamples, to be compared with SciPy or PyTorch:\n  plumb conv --x x.npy --w w.npy "
      "--bias b.npy --stride 2 --pad 3,3,2,2 --out y.npy\n  plumb conv --layout nhwc --x x.npy --w "
      "w.npy --pad 1 --out y.npy\n  plumb conv --x field.npy --w stencil.npy --pad 1 --boundary "
      "periodic --out next.npy\n  plumb conv --direction backward_weights --x x.npy --dy dy.npy "
      "--filter 3 "
      "--pad 1 --db db.npy --out dw.npy\n  plumb conv --transposed --x small.npy --w w.npy "
      "--stride 2 "
      "--output-padding 1 --pad 1 --out large.npy");
  command->callback(
      [a, device, algorithm, reproducible] { run(*a, *device, *algorithm, *reproducible); });
}

}  // namespace plumb::app
