#include "support/run_catch.hpp"

int main(int argc, char** argv) { return plumb_test::run_catch(argc, argv); }
