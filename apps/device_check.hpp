// Whether a device that the driver shows does what it should.
#pragma once

#include <string>

#include "plumb/algorithm.hpp"

namespace plumb::app {

/// Opens the device and has it convolve an image of small whole numbers, a few thousand
/// multiplications: none, or why it cannot be had, what it reported, or that it was wrong.
Support try_device(const std::string& spec);

}  // namespace plumb::app
