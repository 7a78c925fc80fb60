// Barriers in shared memory, emulated.
#pragma once

#include "cuda_kernels/fields/emulation/mbarrier.hpp"
