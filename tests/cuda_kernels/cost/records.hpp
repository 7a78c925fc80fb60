// Times of several algorithms on one problem, as records under docs/results/ have them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "plumb/conv.hpp"

namespace plumb_test {

struct RecordedProblem {
  std::string record;  ///< its file
  std::string name;    ///< of the problem, in the record
  plumb::ConvProblem problem;
  std::map<std::string, double> seconds;  ///< by the algorithm's whole name, as it is today
  bool held_out = false;  ///< choices are judged by it, and no table is fitted to it
};

/// Of the records that choices are judged by and tables of costs are fitted to: those of an H200
/// whose kernels are those of today, with several of Plumb's own algorithms on each problem. Times
/// that were unsteady are left out.
std::vector<RecordedProblem> recorded_problems(const std::filesystem::path& results);

/// The H200 that they are of, as the CUDA backend describes it.
plumb::DeviceInfo recorded_device();

}  // namespace plumb_test
