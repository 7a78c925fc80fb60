// The list of backends: what is linked in, and what comes as a module or, in a static build, not.
#include <malloc.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "plumb/backend.hpp"
#include "plumb/device.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("backends: the list is what is reported, and the CPU is its last") {
  const auto reports = backend_reports();
  REQUIRE(reports.size() == backend_list().size());
  for (std::size_t i = 0; i < reports.size(); ++i) CHECK(reports[i].name == backend_list()[i].name);
  CHECK(backend_list().back().name == "cpu");
  CHECK(backend_list().back().linked);
}

TEST_CASE("backends: names that no backend has are not kept") {
  const auto ask = [](int number) {
    const std::string name = std::to_string(number) + std::string(10'000, 'x');
    const LoadedBackend loaded = load_backend(name);
    REQUIRE(loaded.reason == Reason::unknown_backend);
    REQUIRE(loaded.sentence.size() < 300);
  };
  ask(0);
  const std::size_t before = mallinfo2().uordblks;
  for (int number = 1; number <= 1000; ++number) ask(number);
  CHECK(mallinfo2().uordblks < before + 1'000'000);
}

TEST_CASE("backends: one that is linked in needs no module, and no other is made up") {
  for (const BackendSource& source : backend_list()) {
    CAPTURE(source.name);
    const LoadedBackend loaded = load_backend(source.name);
    if (source.linked) {
      CHECK(loaded.backend == &source.linked());
      CHECK(loaded.reason == Reason::none);
      CHECK(loaded.backend->name() == source.name);
      continue;
    }
#ifdef PLUMB_TEST_STATIC
    CHECK_FALSE(loaded.backend);
    CHECK(loaded.reason == Reason::module_missing);
    CHECK_THAT(loaded.sentence, ContainsSubstring("static build"));
#else
    CHECK((loaded.backend == nullptr) == (loaded.reason != Reason::none));
#endif
  }
}
