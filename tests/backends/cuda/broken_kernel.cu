// A kernel that writes where nothing is: CUDA then fails every call of the process on that device.
#include "broken_kernel.hpp"

namespace plumb_test {
namespace {

__global__ void write_nowhere(int* nowhere) { *nowhere = 1; }

}  // namespace

void launch_broken_kernel() { write_nowhere<<<1, 1>>>(reinterpret_cast<int*>(64)); }

}  // namespace plumb_test
