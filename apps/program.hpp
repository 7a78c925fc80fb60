// The command line as a whole: what is asked for, what went wrong, and the exit code.
#pragma once

namespace plumb::app {

/// Runs the program: results on stdout, what went wrong on stderr as one line. 0: done. 1: the
/// work failed (a file, a device that cannot be had, memory). 2: the command line is wrong.
int run_program(int argc, const char* const* argv);

}  // namespace plumb::app
