// Puts a set of images through the network. Two batches are in flight: while the device works on
// one, the host prepares the next in staging memory of its own.
#include "predict.hpp"

#include <algorithm>

#include "stopwatch.hpp"

namespace plumb::app {
namespace {

/// A batch in flight: pinned host memory on both ends, and the events between its steps.
struct Stage {
  Tensor pixels;                 ///< [max_batch, 1, H, W]
  Tensor logits, probabilities;  ///< [max_batch, classes]
  std::int64_t first = 0, count = 0;
  std::vector<Event> events;  ///< begin, after the upload, after each layer, after the download
};

class Pipeline {
 public:
  /// For batches of these sizes, the largest first.
  Pipeline(const Device& device, const Model& model, const NetworkShape& shape,
           const std::vector<std::int64_t>& batches)
      : queue_(device),
        network_(device, shape, batches.front(), Purpose::inference),
        images_(device, DType::f32, {batches.front(), 1, shape.image_height, shape.image_width}) {
    for (Stage& stage : stages_) {
      const auto pinned = [&](const Extents& extents) {
        return Tensor(device, DType::f32, extents, {}, Memory::pinned_host);
      };
      stage.pixels = pinned(images_.extents());
      stage.logits = pinned({batches.front(), shape.classes});
      stage.probabilities = pinned({batches.front(), shape.classes});
    }
    upload(queue_, model, network_);
    network_.pack_filters(queue_, batches);
  }

  /// Puts a batch on the queue, into the stage that is longest in flight, whose results are taken
  /// first.
  void submit(const IdxImages& images, std::int64_t first, std::int64_t count,
              Predictions& results) {
    Stage& stage = stages_[next_];
    next_ = (next_ + 1) % stages_.size();
    collect(stage, results);
    stage.first = first;
    stage.count = count;
    convert(images, stage);

    const auto mark = [&] { stage.events.push_back(queue_.record()); };
    const TensorView input = slice(images_.view(), 0, 0, count);
    const Activations<TensorView> outputs = network_.activations(count);
    mark();
    copy(queue_, slice(stage.pixels.view(), 0, 0, count), input);
    mark();
    network_.forward(queue_, input, mark);
    copy(queue_, outputs.logits, slice(stage.logits.view(), 0, 0, count));
    copy(queue_, outputs.probabilities, slice(stage.probabilities.view(), 0, 0, count));
    mark();
  }

  void collect_rest(Predictions& results) {
    for (Stage& stage : stages_) collect(stage, results);
  }

 private:
  static void convert(const IdxImages& images, Stage& stage) {
    const auto pixels = static_cast<std::size_t>(images.height * images.width);
    const std::uint8_t* from =
        images.pixels.data() + static_cast<std::size_t>(stage.first) * pixels;
    std::transform(from, from + static_cast<std::size_t>(stage.count) * pixels,
                   stage.pixels.data_as<float>(),
                   [](std::uint8_t pixel) { return static_cast<float>(pixel) / 255.0f; });
  }

  /// Waits for the stage's batch, if there is one, and adds its results and times.
  void collect(Stage& stage, Predictions& results) const {
    if (stage.events.empty()) return;
    stage.events.back().synchronize();
    const auto classes = static_cast<std::size_t>(network_.shape().classes);
    const std::size_t count = static_cast<std::size_t>(stage.count) * classes;
    const auto at = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(stage.first) * classes);
    std::copy_n(stage.logits.data_as<float>(), count, results.logits.begin() + at);
    std::copy_n(stage.probabilities.data_as<float>(), count, results.probabilities.begin() + at);

    const auto seconds = [&](std::size_t step) {
      return seconds_between(stage.events[step], stage.events[step + 1]);
    };
    for (std::size_t layer = 0; layer < results.layers.size(); ++layer) {
      const double op = seconds(layer + 1);
      results.layers[layer].op += op;
      results.layers[layer].layer += op;
    }
    results.layers.front().layer += seconds(0);
    results.layers.back().layer += seconds(results.layers.size() + 1);
    stage.events.clear();
  }

  Queue queue_;
  Network network_;
  Tensor images_;
  std::array<Stage, 2> stages_;
  std::size_t next_ = 0;
};

}  // namespace

Predictions predict(const Device& device, const Model& model, const NetworkShape& shape,
                    const IdxImages& images, std::int64_t batch,
                    const std::function<void(std::int64_t)>& progress) {
  Stopwatch stopwatch;
  const auto classes = static_cast<std::size_t>(shape.classes);
  Predictions results;
  results.logits.resize(static_cast<std::size_t>(images.count) * classes);
  results.probabilities.resize(results.logits.size());
  results.layers.resize(layers_of(shape, Purpose::inference).size());
  std::vector<std::int64_t> batches{std::min(batch, images.count)};
  if (images.count > batch && images.count % batch > 0) batches.push_back(images.count % batch);
  Pipeline pipeline(device, model, shape, batches);
  results.setup_seconds = stopwatch.lap();

  for (std::int64_t first = 0; first < images.count; first += batch) {
    pipeline.submit(images, first, std::min(batch, images.count - first), results);
    progress(first);
  }
  pipeline.collect_rest(results);
  results.run_seconds = stopwatch.lap();

  for (auto row = results.probabilities.begin(); row != results.probabilities.end();
       row += static_cast<std::ptrdiff_t>(classes)) {
    const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(classes));
    results.classes.push_back(static_cast<int>(best - row));
  }
  return results;
}

}  // namespace plumb::app
