// When each segment of a pipeline was in which stage.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "plumb/pipeline.hpp"

namespace plumb {

/// Collects spans, or does nothing where nobody asked for them.
class Recorder {
 public:
  Recorder(Queue& queue, std::vector<PipelineSpan>* timeline) : timeline_(timeline) {
    if (!timeline_) return;
    queue.synchronize();
    begin_ = Clock::now();
    origin_ = queue.record();
  }

  /// Puts `work` on the queue and returns the event behind it.
  template <class Work>
  Event on_queue(Queue& queue, const PipelineSpan& span, const Work& work) {
    std::optional<Event> begin;
    if (timeline_) begin = queue.record();
    work();
    const Event end = queue.record();
    if (timeline_) device_spans_.push_back({span, *begin, end});
    return end;
  }

  template <class Work>
  void on_host(PipelineSpan span, const Work& work) {
    if (!timeline_) return work();
    span.begin_seconds = seconds();
    work();
    span.end_seconds = seconds();
    timeline_->push_back(span);
  }

  /// Once the queues have passed everything.
  void finish() {
    for (auto& [span, begin, end] : device_spans_) {
      span.begin_seconds = seconds_between(*origin_, begin);
      span.end_seconds = seconds_between(*origin_, end);
      timeline_->push_back(span);
    }
  }

 private:
  struct DeviceSpan {
    PipelineSpan span;
    Event begin, end;
  };

  using Clock = std::chrono::steady_clock;

  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  std::vector<PipelineSpan>* timeline_;
  Clock::time_point begin_{};
  std::optional<Event> origin_;
  std::vector<DeviceSpan> device_spans_;
};

}  // namespace plumb
