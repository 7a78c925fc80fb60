// plumb conv: one convolution on NumPy files.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "commands.hpp"
#include "errors.hpp"
#include "formats/npy.hpp"
#include "plumb/plumb.hpp"

namespace plumb::app {
namespace {

struct ConvArguments {
  std::string x, w, bias, out;
  std::vector<std::int64_t> stride{1}, dilation{1}, pad{0};
  std::int64_t groups = 1;
  std::string math = "fp32", activation = "none", device, algorithm;
};

/// One value serves both directions.
Pair as_pair(const std::vector<std::int64_t>& values) { return {values.front(), values.back()}; }

/// One value for all sides, two for height and width, or four: top, left, bottom, right.
Padding as_padding(const std::vector<std::int64_t>& values) {
  switch (values.size()) {
    case 1: return {values[0], values[0], values[0], values[0]};
    case 2: return {values[0], values[1], values[0], values[1]};
    case 4: return {values[0], values[1], values[2], values[3]};
    default:
      throw UsageError(
          fmt::format("--pad: {} values, expected 1 (all sides), 2 (height, width) or 4 (top, "
                      "left, bottom, right)",
                      values.size()));
  }
}

/// The problem that the two files make, before there is an output.
ConvProblem problem_of_files(const ConvArguments& arguments, const NpyArray& x, const NpyArray& w,
                             const ConvGeometry& geometry) {
  const auto require_four = [](const Extents& extents, const std::string& path, const char* what) {
    if (extents.rank() != 4)
      throw FileError(fmt::format("{}: shape {}, expected four dimensions, {}", path,
                                  to_string(extents), what));
  };
  require_four(x.extents, arguments.x, "N C H W");
  require_four(w.extents, arguments.w, "K C/G R S");
  ConvProblem problem;
  static_cast<ConvGeometry&>(problem) = geometry;
  problem.dtype = x.dtype;
  problem.n = x.extents[0], problem.c = x.extents[1];
  problem.h = x.extents[2], problem.w = x.extents[3];
  problem.k = w.extents[0], problem.r = w.extents[2], problem.s = w.extents[3];
  return check(problem);
}

/// An algorithm that the device does not have is a wrong name; one that refuses the problem is
/// left to the library, which says why.
void require_known_algorithm(const Device& device, const ConvProblem& problem,
                             const std::string& name) {
  const auto candidates = explain(device, problem);
  if (name.empty() || std::any_of(candidates.begin(), candidates.end(), [&](const auto& candidate) {
        return candidate.algorithm == name;
      }))
    return;
  std::string names;
  for (const ConvCandidate& candidate : candidates)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", candidate.algorithm);
  throw UsageError(fmt::format("--algorithm: {} has no '{}', expected one of: {}",
                               to_string(device.id()), name, names));
}

Tensor uploaded(Queue& queue, const NpyArray& array) {
  Tensor tensor(queue.device(), array.dtype, array.extents);
  copy(queue, array.view(), tensor);
  return tensor;
}

void run(const ConvArguments& arguments) {
  const ConvGeometry geometry{.stride = as_pair(arguments.stride),
                              .dilation = as_pair(arguments.dilation),
                              .padding = as_padding(arguments.pad),
                              .groups = arguments.groups};
  require_writable(arguments.out);
  const NpyArray x = read_npy(arguments.x), w = read_npy(arguments.w);
  const bool biased = !arguments.bias.empty();
  const NpyArray bias = biased ? read_npy(arguments.bias) : NpyArray{};
  const ConvProblem problem = problem_of_files(arguments, x, w, geometry);
  NpyArray y{x.dtype, problem.y_extents(), {}};

  const Device device = open_device(arguments.device);
  require_known_algorithm(device, problem, arguments.algorithm);
  Queue queue(device);
  const Tensor device_x = uploaded(queue, x), device_w = uploaded(queue, w);
  const Tensor device_bias = biased ? uploaded(queue, bias) : Tensor();
  const Tensor device_y(device, y.dtype, y.extents);
  const ConvTensors tensors{
      .x = device_x, .w = device_w, .bias = device_bias.view(), .y = device_y.view()};

  const ConvOptions options{
      .math = *parse_math(arguments.math),
      .algorithm = arguments.algorithm,
      .bias = biased,
      .activation = arguments.activation == "relu" ? Activation::relu : Activation::none};
  const ConvPlan plan(device, problem_of(tensors, geometry), options);
  const Event begin = queue.record();
  plan.execute(queue, tensors);
  const Event end = queue.record();

  y.data.resize(static_cast<std::size_t>(element_count(y.extents)) * size_in_bytes(y.dtype));
  copy(queue, device_y, TensorView(y.data.data(), y.dtype, y.extents));
  queue.synchronize();
  write_npy(arguments.out, y.view());
  fmt::print("device     {}\nalgorithm  {}\ny          {} {}\nop         {:.6f} s\n",
             to_string(device.id()), plan.algorithm().name, to_string(y.extents),
             to_string(y.dtype), seconds_between(begin, end));
}

}  // namespace

void add_conv(CLI::App& program) {
  CLI::App* command = program.add_subcommand("conv", "One convolution on NumPy files");
  const auto a = std::make_shared<ConvArguments>();
  command->add_option("--x", a->x, "Images, [N, C, H, W]: .npy of f32, f64 or f16 in C order")
      ->required();
  command->add_option("--w", a->w, "Filters, [K, C/G, R, S], of the same type")->required();
  command->add_option("--bias", a->bias, "Bias, [K], of the same type");
  command->add_option("--out", a->out, "The result, [N, K, P, Q], of the same type")->required();
  command->add_option("--stride", a->stride, "Step of the filter: one value, or height,width")
      ->delimiter(',')
      ->expected(1, 2)
      ->check(at_least(1));
  command
      ->add_option("--dilation", a->dilation, "Distance of filter taps: one value, or height,width")
      ->delimiter(',')
      ->expected(1, 2)
      ->check(at_least(1));
  command
      ->add_option("--pad", a->pad,
                   "Zeros around the image: one value, height,width, or top,left,bottom,right")
      ->delimiter(',')
      ->expected(1, 4)
      ->check(at_least(0));
  command->add_option("--groups", a->groups, "Groups G; divides C and K")->check(at_least(1));
  command
      ->add_option("--math", a->math,
                   "The least accurate arithmetic allowed: fp64, fp32, tf32, bf16, fp16")
      ->check(CLI::IsMember({"fp64", "fp32", "tf32", "bf16", "fp16"}))
      ->capture_default_str();
  command->add_option("--activation", a->activation, "Applied to the result: none or relu")
      ->check(CLI::IsMember({"none", "relu"}))
      ->capture_default_str();
  add_device_option(*command, a->device);
  command->add_option("--algorithm", a->algorithm,
                      "Run this algorithm or none; empty leaves the choice to Plumb");
  command->footer(
      "Example, held against SciPy or PyTorch afterwards:\n"
      "  plumb conv --x x.npy --w w.npy --bias b.npy --stride 2 --pad 3,3,2,2 --out y.npy");
  command->callback([a] { run(*a); });
}

}  // namespace plumb::app
