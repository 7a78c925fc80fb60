// The tests of libplumb_mpi, the same cases on every rank of mpirun. A rank that fails leaves the
// others waiting, which their time limit ends; then the whole run fails.
#include <mpi.h>

#include <cstdio>

#include "support/run_catch.hpp"

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  const int code = plumb_test::run_catch(argc, argv);
  if (code != 0) {
    std::fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, code);
  }
  MPI_Finalize();
  return code;
}
