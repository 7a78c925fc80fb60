// Catch2's run, as ctest can tell its ends apart: Catch2 returns how many assertions failed, and 4
// where all tests were skipped.
#pragma once

#include <catch2/catch_session.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>

namespace plumb_test {

inline bool any_failed = false;

class Failures : public Catch::EventListenerBase {
 public:
  using EventListenerBase::EventListenerBase;
  void testRunEnded(const Catch::TestRunStats& stats) override {
    any_failed = stats.totals.assertions.failed > 0 || stats.totals.testCases.failed > 0;
  }
};
CATCH_REGISTER_LISTENER(Failures)

/// 1 where something failed.
inline int run_catch(int argc, char** argv) {
  const int code = Catch::Session().run(argc, argv);
  return any_failed ? 1 : code;
}

}  // namespace plumb_test
