// What plumb train has done, as tables, as JSON and as pictures.
#pragma once

#include <string>
#include <vector>

#include "training/drift.hpp"
#include "training/trainer.hpp"

namespace plumb::app {

void print_heading(const Device& device);
void print(const EpochFigures& figures);
void write_training(const std::string& path, const Device& device, const TrainingOptions& options,
                    const std::vector<EpochFigures>& epochs);
/// Loss and accuracy over the epochs.
std::string learning_curve(const Device& device, const TrainingOptions& options,
                           const std::vector<EpochFigures>& epochs);

/// The two names of the sides of a comparison: "cpu", "cuda:0 in f64".
struct DriftNames {
  std::string a, b;
};
void print(const DriftNames& names, const std::vector<DriftStep>& steps);
void write_drift(const std::string& path, const DriftNames& names, const TrainingOptions& options,
                 const std::vector<DriftStep>& steps);
std::string drift_chart(const DriftNames& names, const std::vector<DriftStep>& steps);

}  // namespace plumb::app
