// Attestation: what a kernel computed with, told from its results alone.
#pragma once

#include "trial.hpp"

namespace plumb {

/// Runs probes through the trial's problem: a few taps of one output carry the probe, all other
/// elements are zero. Leaves the trial's inputs changed.
Arithmetic attest(Trial& trial, const ConvAlgorithm& algorithm, Queue& queue);

}  // namespace plumb
