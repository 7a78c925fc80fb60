// What stands behind the C handles, beside those of plumb/c_bridge.hpp.
#pragma once

#include <vector>

#include "plumb/c_bridge.hpp"
#include "plumb/conv.hpp"
#include "plumb/device.hpp"
#include "plumb/error.hpp"
#include "plumb/plumb.h"

struct plumb_event {
  plumb::Event event;
};
struct plumb_plan {
  plumb::ConvPlan plan;
};
struct plumb_packed_filters {
  plumb::PackedFilters filters;
};
struct plumb_explanation {
  std::vector<plumb::ConvCandidate> candidates;
};
