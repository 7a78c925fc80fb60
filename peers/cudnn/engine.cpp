// Writes a problem down as a graph of one operation, and asks cuDNN what would run it.
#include "peers/cudnn/engine.hpp"

#include <fmt/format.h>

#include <set>

#include "plumb/error.hpp"

namespace plumb::cuda::cudnn {
namespace {

constexpr std::int64_t x_id = 'x', w_id = 'w', y_id = 'y';

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDNN_DATA_FLOAT;
    case DType::f64: return CUDNN_DATA_DOUBLE;
    case DType::f16: return CUDNN_DATA_HALF;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
  }
  return CUDNN_DATA_FLOAT;
}

Descriptor tensor(std::int64_t id, DType dtype, const Extents& extents, Layout layout) {
  const Strides strides = strides_for(layout, extents);
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, data_type(dtype));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Graph::pointer_alignment);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span(extents.begin(), extents.end()));
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, std::span(strides.begin(), strides.end()));
  tensor.finalize();
  return tensor;
}

/// Products of fp32 or fp64, or of the narrow type that tensors are stored in, summed in fp32 or
/// fp64.
Descriptor convolution(const ConvProblem& p) {
  Descriptor conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  conv.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
           p.dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
  conv.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  const int axes = p.has_depth() ? 3 : 2;
  const auto set = [&](cudnnBackendAttributeName_t name, std::int64_t d, std::int64_t h,
                       std::int64_t w) {
    const std::int64_t values[] = {d, h, w};
    conv.set(name, std::span(values).last(static_cast<std::size_t>(axes)));
  };
  conv.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{axes});
  set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, p.stride.d, p.stride.h, p.stride.w);
  set(CUDNN_ATTR_CONVOLUTION_DILATIONS, p.dilation.d, p.dilation.h, p.dilation.w);
  set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, p.padding.front, p.padding.top, p.padding.left);
  set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, p.padding.back, p.padding.bottom, p.padding.right);
  conv.finalize();
  return conv;
}

/// What cuDNN calls the operation of a direction, and what it has.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, w, y, conv, alpha, beta;
};
constexpr OperationNames names_of(Direction direction) {
  switch (direction) {
    case Direction::forward: break;
    case Direction::backward_data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Direction::backward_weights:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

Descriptor operation_on(const Descriptor& x, const Descriptor& w, const Descriptor& y,
                        const Descriptor& conv, const ConvProblem& problem, double beta) {
  const OperationNames names = names_of(problem.direction);
  Descriptor operation(names.type);
  operation.set(names.x, x);
  operation.set(names.w, w);
  operation.set(names.y, y);
  operation.set(names.conv, conv);
  const auto factor = [&](cudnnBackendAttributeName_t name, double value) {
    if (problem.dtype == DType::f64)
      operation.set(name, CUDNN_TYPE_DOUBLE, value);
    else
      operation.set(name, CUDNN_TYPE_FLOAT, static_cast<float>(value));
  };
  factor(names.alpha, 1);
  factor(names.beta, beta);
  operation.finalize();
  return operation;
}

Descriptor graph_of(cudnnHandle_t handle, const Descriptor& operation) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.finalize();
  return graph;
}

/// What one way of asking names. A way that this cuDNN or this problem does not know names nothing.
std::vector<Descriptor> configurations(const Graph& graph, cudnnBackendHeurMode_t mode) try {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.native());
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  heuristics.finalize();
  return heuristics.get_descriptors(
      CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
      heuristics.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR));
} catch (const Error&) {
  return {};
}

/// Every engine there is for a graph, as it comes: the heuristics leave some out, FFT and Winograd
/// among them.
std::vector<Descriptor> plain_configurations(const Graph& graph) {
  const auto count = graph.native().get_one<std::int64_t>(
      CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64);
  std::vector<Descriptor> configurations;
  for (std::int64_t index = 0; index < count; ++index) try {
      Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.native());
      engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, index);
      engine.finalize();
      Descriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      configuration.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
      configuration.finalize();
      configurations.push_back(std::move(configuration));
    } catch (const Error&) {
      // An engine for other graphs.
    }
  return configurations;
}

Descriptor engine_of(const Descriptor& configuration) {
  auto engines = configuration.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE,
                                               CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (engines.empty())
    throw Error(ErrorCode::device_failure, "cuDNN: a configuration without an engine");
  return std::move(engines.front());
}

/// Whether every row of x and y, along the dimension that lies densest, is so many 16 bytes.
bool rows_are_aligned(const ConvProblem& problem, Layout layout) {
  const bool nchw = layout == Layout::nchw;
  const auto bytes = static_cast<std::int64_t>(size_in_bytes(problem.dtype));
  return (nchw ? problem.w : problem.c) * bytes % Graph::pointer_alignment == 0 &&
         (nchw ? problem.q() : problem.k) * bytes % Graph::pointer_alignment == 0;
}

std::string name_of(const Descriptor& configuration) {
  std::string name = fmt::format(
      "engine {}", engine_of(configuration)
                       .get_one<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64));
  const auto knobs = configuration.get_descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                                   CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, max_knobs);
  std::string settings;
  for (const Descriptor& knob : knobs) {
    const auto type = knob.get_one<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                                           CUDNN_TYPE_KNOB_TYPE);
    const auto value =
        knob.get_one<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64);
    settings += fmt::format(" {}={}", static_cast<int>(type), value);
  }
  return settings.empty() ? name : name + ", knobs" + settings;
}

/// By their parts, as image_of(), filters_of() and output_of() name them.
constexpr std::array<std::int64_t, 3> ids_of(Direction direction) {
  switch (direction) {
    case Direction::forward: break;
    case Direction::backward_data: return {y_id, w_id, x_id};
    case Direction::backward_weights: return {x_id, y_id, w_id};
  }
  return {x_id, w_id, y_id};
}

}  // namespace

Graph::Graph(cudnnHandle_t handle, const ConvProblem& problem, Layout layout, float beta)
    : ids_(ids_of(problem.direction)),
      x_(tensor(x_id, problem.dtype, problem.x_extents(), layout)),
      w_(tensor(w_id, problem.dtype, problem.w_extents(), layout)),
      y_(tensor(y_id, problem.dtype, problem.y_extents(), layout)),
      conv_(convolution(problem)),
      operation_(operation_on(x_, w_, y_, conv_, problem, beta)),
      graph_(graph_of(handle, operation_)) {}

EngineNotes::EngineNotes(const Descriptor& configuration) {
  const Descriptor engine = engine_of(configuration);
  for (const auto note : engine.get<cudnnBackendNumericalNote_t>(
           CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, max_notes))
    if (note >= 0 && note < max_notes) numerical_ |= 1u << note;
  for (const auto note : engine.get<cudnnBackendBehaviorNote_t>(
           CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, max_notes))
    compiled_at_run_time_ |= note == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
}

bool EngineNotes::transforms() const {
  for (const auto note :
       {CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13})
    if (has(note)) return true;
  return false;
}

Engine::Engine(cudnnHandle_t handle, std::shared_ptr<const Graph> graph, Descriptor configuration,
               const EngineNotes& notes)
    : graph_(std::move(graph)),
      configuration_(std::move(configuration)),
      plan_(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR),
      notes_(notes) {
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration_);
  plan_.finalize();
  workspace_bytes_ = static_cast<std::size_t>(
      plan_.get_one<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64));
}

std::string Engine::name() const { return name_of(configuration_); }

void Engine::run(cudnnHandle_t handle, const void* image, const void* filters, void* output,
                 void* workspace) const {
  // cuDNN's pointers have no const; inputs are only read.
  void* const pointers[] = {const_cast<void*>(image), const_cast<void*>(filters), output};
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, graph_->ids());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize();
  check(library().execute(handle, plan_.native(), pack.native()), "cudnnBackendExecute");
}

bool admits(Accuracy accuracy, DType dtype, const Engine& engine) {
  if (engine.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return false;
  if (engine.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return false;
  // Tensor cores have no products of fp32: on f32 tensors the note means TF32.
  const bool tf32 = dtype == DType::f32 && engine.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  const bool deterministic = !engine.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  const bool sum = deterministic && !engine.transforms();
  switch (accuracy) {
    case Accuracy::fp32: return !tf32;
    case Accuracy::tf32: return true;
    case Accuracy::fp32_deterministic: return !tf32 && deterministic;
    case Accuracy::tf32_deterministic: return deterministic;
    case Accuracy::fp32_sum: return !tf32 && sum;
    case Accuracy::tf32_sum: return tf32 && sum;
  }
  return false;
}

std::vector<std::shared_ptr<const Engine>> engines(cudnnHandle_t handle, const ConvProblem& problem,
                                                   Layout layout, float beta,
                                                   const std::set<std::string>& wanted) {
  const auto graph = std::make_shared<const Graph>(handle, problem, layout, beta);
  std::vector<std::shared_ptr<const Engine>> built;
  std::set<std::string> seen;
  const auto left_out = [&](const EngineNotes& notes) {
    return notes.transforms() || (problem.direction != Direction::forward &&
                                  !notes.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
  };
  // Notes first: an engine that is not wanted may take cuDNN 40 s to compile.
  const auto build = [&](std::vector<Descriptor> configurations, bool all) {
    for (Descriptor& configuration : configurations) try {
        const std::string name = name_of(configuration);
        if (!seen.insert(name).second || (!wanted.empty() && !wanted.contains(name))) continue;
        const EngineNotes notes(configuration);
        if (!all && !left_out(notes)) continue;
        if (notes.compiled_at_run_time() && !rows_are_aligned(problem, layout)) continue;
        built.push_back(
            std::make_shared<const Engine>(handle, graph, std::move(configuration), notes));
      } catch (const Error&) {
        // More is named than can be built: that is how cuDNN says so.
      }
  };
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK})
    build(configurations(*graph, mode), true);
  build(plain_configurations(*graph), false);
  return built;
}

}  // namespace plumb::cuda::cudnn
