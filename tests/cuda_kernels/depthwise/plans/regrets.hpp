// What is lost by the plans of the depthwise kernels, over the cuts that were timed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "recorded_cuts.hpp"

namespace plumb_test {

/// Of a stored type and a layout: times of what is planned over those of the fastest cuts.
struct PlanRegrets {
  std::vector<double> regrets;
  std::string worst;  ///< the problem
  int untimed = 0;    ///< plans whose cut has no time
  double geometric_mean() const;
  double greatest() const;
  void add(double regret, const std::string& name);
};

/// By "f32 nchw" and its like: of the march as it is planned now, or was on the day of the record.
std::map<std::string, PlanRegrets> march_regrets(const std::vector<RecordedCase>& cases,
                                                 bool of_that_day = false);

/// Of the problems that were timed by several kernels, and of channels and planes alone: the time
/// of the kernel with the least estimate, by its plan, over the fastest cut of all.
PlanRegrets kernel_regrets(const std::vector<RecordedCase>& cases);

/// The root mean square of the logarithms of estimates over times, where events around a launch
/// take so many seconds beside it.
double miss(const std::vector<RecordedCase>& cases, double event_seconds);

std::string to_string(const std::map<std::string, PlanRegrets>& regrets);

}  // namespace plumb_test
