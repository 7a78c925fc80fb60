// Handles of the C interface, destroyed with their scope.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include "plumb/plumb.h"

namespace plumb_test {

class CDevice {
 public:
  explicit CDevice(const char* spec = "cpu", const plumb_device_options* options = nullptr) {
    INFO(plumb_last_message());
    REQUIRE(plumb_device_open(spec, options, &device_) == PLUMB_OK);
  }
  ~CDevice() { plumb_device_close(device_); }
  CDevice(const CDevice&) = delete;
  CDevice& operator=(const CDevice&) = delete;
  operator plumb_device*() const { return device_; }  // NOLINT: as the handle itself

 private:
  plumb_device* device_ = nullptr;
};

class CQueue {
 public:
  explicit CQueue(const plumb_device* device) {
    REQUIRE(plumb_queue_create(device, &queue_) == PLUMB_OK);
  }
  ~CQueue() { plumb_queue_destroy(queue_); }
  CQueue(const CQueue&) = delete;
  CQueue& operator=(const CQueue&) = delete;
  operator plumb_queue*() const { return queue_; }  // NOLINT

 private:
  plumb_queue* queue_ = nullptr;
};

class CPlan {
 public:
  CPlan(const plumb_device* device, const plumb_conv_problem& problem,
        const plumb_conv_options* options = nullptr) {
    const plumb_status status = plumb_plan_create(device, &problem, options, &plan_);
    INFO(plumb_last_message());
    REQUIRE(status == PLUMB_OK);
  }
  ~CPlan() { plumb_plan_destroy(plan_); }
  CPlan(const CPlan&) = delete;
  CPlan& operator=(const CPlan&) = delete;
  operator plumb_plan*() const { return plan_; }  // NOLINT

 private:
  plumb_plan* plan_ = nullptr;
};

/// Two images of six channels, 8 by 9; four filters of 3x3 in two groups. Every number of its
/// geometry is another, so that none can stand in for another. y is [2, 4, 4, 10].
inline plumb_conv_problem small_problem() {
  plumb_conv_problem problem;
  REQUIRE(plumb_conv_problem_init(&problem) == PLUMB_OK);
  problem.n = 2;
  problem.c = 6;
  problem.h = 8;
  problem.w = 9;
  problem.k = 4;
  problem.r = problem.s = 3;
  problem.geometry = {.stride_h = 2,
                      .stride_w = 1,
                      .dilation_h = 1,
                      .dilation_w = 2,
                      .padding_top = 1,
                      .padding_left = 2,
                      .padding_bottom = 0,
                      .padding_right = 3,
                      .groups = 2,
                      .pool = PLUMB_NO_POOL};
  return problem;
}

}  // namespace plumb_test
