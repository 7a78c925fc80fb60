// What the program throws besides plumb::Error. Each message is one line for the user.
#pragma once

#include <stdexcept>

namespace plumb::app {

/// A file that cannot be read or written, or does not hold what it should. Exit code 1.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A command line that makes no sense. Exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A kernel that did not pass, or nothing to judge. Exit code 1.
class ValidationFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user or the system asked the program to end. What was done has been reported and kept. Exit
/// code 130.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace plumb::app
