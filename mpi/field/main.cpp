// plumb field: a field stepped by a convolution over MPI's ranks, timed, written, and held against
// one rank. A program of its own, which `plumb field` becomes, so that plumb itself needs no MPI.
#include <fmt/format.h>
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>

#include "equation.hpp"
#include "output.hpp"
#include "plumb/error.hpp"

namespace plumb::field {
namespace {

struct Arguments {
  std::string grid, equation = "heat", dtype = "f64", size, device, algorithm, out, picture;
  int dims = 3;
  std::int64_t steps = 100;
  bool reproducible = false, verify = false, plant = false;
};

/// "2x2x1" as numbers; empty where it is none.
std::vector<std::int64_t> numbers_of(const std::string& text) {
  std::vector<std::int64_t> numbers;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t end = std::min(text.find('x', at), text.size());
    const std::string one = text.substr(at, end - at);
    if (one.empty() || one.size() > 9 || one.find_first_not_of("0123456789") != std::string::npos)
      return {};
    numbers.push_back(std::stoll(one));
    at = end + 1;
  }
  return numbers;
}

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

FieldProblem problem_of(const Arguments& arguments, int ranks) {
  FieldProblem problem;
  problem.equation = arguments.equation == "wave" ? Equation::wave : Equation::heat;
  problem.dims = arguments.dims;
  problem.dtype = *parse_dtype(arguments.dtype);
  problem.algorithm = arguments.algorithm;
  problem.reproducible = arguments.reproducible;
  const auto axes = static_cast<std::size_t>(arguments.dims);
  std::vector<std::int64_t> size = numbers_of(arguments.size.empty() ? "96" : arguments.size);
  if (size.size() == 1) size.resize(axes, size[0]);
  if (size.size() != axes || *std::min_element(size.begin(), size.end()) < 3)
    refuse(fmt::format("--size is '{}'; expected one number, or {} with x between, of at least 3",
                       arguments.size, axes));
  std::vector<std::int64_t> grid =
      numbers_of(arguments.grid.empty() ? std::to_string(ranks) : arguments.grid);
  if (grid.empty() || grid.size() > axes)
    refuse(fmt::format("--grid is '{}'; expected up to {} numbers with x between", arguments.grid,
                       axes));
  grid.resize(axes, 1);
  const std::size_t first = 3 - axes;
  problem.extents = {1, 1, 1};
  std::array<std::int64_t, 3> parts{1, 1, 1};
  for (std::size_t i = 0; i < axes; ++i) {
    problem.extents[first + i] = size[i];
    parts[first + i] = grid[i];
  }
  problem.grid = {.n = 1, .d = parts[0], .h = parts[1], .w = parts[2]};
  return problem;
}

FieldBlock block_of(const FieldProblem& problem, const Field& field,
                    const std::vector<std::byte>& values) {
  FieldBlock block{.whole = problem.extents,
                   .begin = {0, 0, 0},
                   .extents = {1, 1, 1},
                   .dtype = problem.dtype,
                   .values = &values};
  const DistributedBlock& own = field.block();
  const int rank = own.extents.rank();
  for (int i = 2; i < rank; ++i) {
    const auto axis = static_cast<std::size_t>(i + 3 - rank);
    block.begin[axis] = own.begin[i];
    block.extents[axis] = own.extents[i];
  }
  return block;
}

/// Whether this rank's block holds the bits that one rank by itself gets.
bool same_as_one_rank(const Device& device, const FieldProblem& problem, const FieldBlock& block,
                      std::int64_t steps) {
  FieldProblem whole = problem;
  whole.grid = {};
  Field alone(MPI_COMM_SELF, device, whole);
  for (std::int64_t i = 0; i < steps; ++i) alone.step();
  const std::vector<std::byte> expected = alone.values();
  const std::size_t bytes = size_in_bytes(problem.dtype);
  const std::size_t row = static_cast<std::size_t>(block.extents[2]) * bytes;
  for (std::int64_t d = 0; d < block.extents[0]; ++d)
    for (std::int64_t h = 0; h < block.extents[1]; ++h) {
      const std::int64_t from =
          ((block.begin[0] + d) * block.whole[1] + block.begin[1] + h) * block.whole[2] +
          block.begin[2];
      const std::int64_t own = (d * block.extents[1] + h) * block.extents[2];
      if (std::memcmp(expected.data() + static_cast<std::size_t>(from) * bytes,
                      block.values->data() + static_cast<std::size_t>(own) * bytes, row) != 0)
        return false;
    }
  return true;
}

int run(const Arguments& arguments) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const FieldProblem problem = problem_of(arguments, ranks);
  const RankDevice found = arguments.device.empty()
                               ? device_for_rank(MPI_COMM_WORLD)
                               : RankDevice{Device::open(arguments.device), "as --device says"};
  if (!arguments.out.empty() && !writes_hdf5())
    write_hdf5(MPI_COMM_WORLD, arguments.out, {});  // says why it cannot, before the work
  Field field(MPI_COMM_WORLD, found.device, problem);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (std::int64_t i = 0; i < arguments.steps; ++i) field.step();
  field.queue().synchronize();
  double seconds = MPI_Wtime() - begin;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  std::vector<std::byte> values = field.values();
  if (arguments.plant && rank == ranks - 1) values.back() ^= std::byte{1};
  const FieldBlock block = block_of(problem, field, values);
  if (rank == 0) {
    const double points = static_cast<double>(block.whole[0]) *
                          static_cast<double>(block.whole[1]) * static_cast<double>(block.whole[2]);
    fmt::print("{} of {}x{}x{} in {} on {} ranks, first on {}, halos by {}\n", arguments.equation,
               block.whole[0], block.whole[1], block.whole[2], arguments.dtype, ranks,
               to_string(found.device.id()), to_string(field.plan().transport()));
    if (arguments.steps > 0)
      fmt::print(
          "{} steps, {:.4g} ms each, {:.4g} million points a second; rank 0 sends {} bytes a "
          "step\n",
          arguments.steps, 1e3 * seconds / static_cast<double>(arguments.steps),
          1e-6 * points * static_cast<double>(arguments.steps) / seconds,
          field.plan().bytes_sent());
  }
  if (!arguments.out.empty()) write_hdf5(MPI_COMM_WORLD, arguments.out, block);
  if (!arguments.picture.empty()) write_picture(MPI_COMM_WORLD, arguments.picture, block);
  if (!arguments.verify) return 0;
  int differing = same_as_one_rank(found.device, problem, block, arguments.steps) ? 0 : 1;
  MPI_Allreduce(MPI_IN_PLACE, &differing, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    fmt::print("verified: {}\n",
               differing == 0 ? fmt::format("{} ranks give the bits of one", ranks)
                              : fmt::format("the bits of {} of {} ranks are not those of one rank",
                                            differing, ranks));
  return differing == 0 ? 0 : 1;
}

}  // namespace
}  // namespace plumb::field

int main(int argc, char** argv) {
  using namespace plumb;
  field::Arguments arguments;
  CLI::App program("Steps a field in a periodic box by a convolution over the ranks of mpirun.",
                   "plumb field");
  program.add_option("--grid", arguments.grid,
                     "Parts along the axes: 4, 2x2, 2x2x2; the last ones whole");
  program.add_option("--equation", arguments.equation, "heat or wave")
      ->check(CLI::IsMember({"heat", "wave"}));
  program.add_option("--dims", arguments.dims, "2 or 3")->check(CLI::IsMember({2, 3}));
  program.add_option("--size", arguments.size, "Points along each axis: 96, 64x96x96");
  program.add_option("--dtype", arguments.dtype, "f64 or f32")
      ->check(CLI::IsMember({"f64", "f32"}));
  program.add_option("--steps", arguments.steps, "How many")->check(CLI::Range(0, 1000000000));
  program.add_option("--device", arguments.device, "Of every rank; by its place on its node");
  program.add_option("--algorithm", arguments.algorithm, "This one or none");
  program.add_flag("--reproducible", arguments.reproducible,
                   "The specified bits, the same on every device and in every grid");
  program.add_option("--out", arguments.out, "An HDF5 file, with an XDMF file beside it");
  program.add_option("--picture", arguments.picture, "A PNG picture of the middle plane");
  program.add_flag("--verify", arguments.verify,
                   "Compare the bits with one rank; the last line says what came of it");
  program.add_flag("--plant", arguments.plant, "Change one bit, which --verify must find")
      ->group("");
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : 2;
  }
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
  int code = 1;
  try {
    code = field::run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plumb field: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  std::fflush(stdout);
  MPI_Finalize();
  return code;
}
