// The program plumb.
#include <fcntl.h>

#include "program.hpp"

namespace {

/// A standard stream that the caller closed would be the next file that is opened, and get what is
/// printed. In its place stands one that cannot be used in its direction, so that using it fails.
void occupy_closed_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (fcntl(descriptor, F_GETFD) < 0 &&
        open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY) != descriptor)
      return;
}

}  // namespace

int main(int argc, char** argv) {
  occupy_closed_streams();
  return plumb::app::run_program(argc, argv);
}
