// The Error that a call is expected to throw.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include "plumb/error.hpp"

namespace plumb_test {

template <class F>
plumb::Error refusal(F&& call) {
  try {
    call();
  } catch (const plumb::Error& e) {
    return e;
  }
  FAIL("an Error was expected");
  throw;
}

}  // namespace plumb_test
