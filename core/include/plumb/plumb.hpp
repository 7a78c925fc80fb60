// This header includes all of Plumb's C++ interface.
#pragma once

#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"
#include "plumb/device.hpp"
#include "plumb/did_you_mean.hpp"
#include "plumb/error.hpp"
#include "plumb/mdspan.hpp"
#include "plumb/measure.hpp"
#include "plumb/nn.hpp"
#include "plumb/pipeline.hpp"
#include "plumb/problem_text.hpp"
#include "plumb/quote.hpp"
#include "plumb/suites.hpp"
#include "plumb/tensor.hpp"
#include "plumb/tune.hpp"
#include "plumb/types.hpp"
#include "plumb/validate.hpp"
#include "plumb/version.hpp"

/// The namespace holds all of the C++ interface.
namespace plumb {}
