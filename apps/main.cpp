// The program plumb.
#include "program.hpp"

int main(int argc, char** argv) { return plumb::app::run_program(argc, argv); }
