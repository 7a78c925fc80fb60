// The class of the header, over what state.hpp holds.
#include "plumb/distributed.hpp"

#include <fmt/format.h>

#include "plumb/error.hpp"
#include "state.hpp"

namespace plumb {

Distributed::Distributed(MPI_Comm communicator, const Device& device, const ConvProblem& problem,
                         const DistributedGrid& grid, const DistributedOptions& options)
    : state_(std::make_unique<State>(communicator, device, problem, grid, options)) {}

Distributed::Distributed(std::unique_ptr<State> state) : state_(std::move(state)) {}
Distributed::Distributed(Distributed&&) noexcept = default;
Distributed& Distributed::operator=(Distributed&&) noexcept = default;
Distributed::~Distributed() = default;

Distributed Distributed::from_fortran(MPI_Fint communicator, const Device& device,
                                      const ConvProblem& problem, const DistributedGrid& grid,
                                      const DistributedOptions& options) {
  mpi::check_thread_level(1);
  return {MPI_Comm_f2c(communicator), device, problem, grid, options};
}

void Distributed::execute(Queue& queue, const ConvTensors& tensors) {
  state_->execute(queue, tensors);
}

int Distributed::rank() const { return state_->communicator->rank(); }
int Distributed::ranks() const { return state_->communicator->size(); }
const ConvProblem& Distributed::problem() const { return state_->partition->problem(); }
const DistributedGrid& Distributed::grid() const { return state_->grid; }
DistributedBlock Distributed::x_block() const { return x_block(rank()); }
DistributedBlock Distributed::y_block() const { return y_block(rank()); }

DistributedBlock Distributed::x_block(int rank) const { return state_->block_of(rank, true); }
DistributedBlock Distributed::y_block(int rank) const { return state_->block_of(rank, false); }

DistributedBlock Distributed::State::block_of(int rank, bool of_x) const {
  if (rank < 0 || rank >= communicator->size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("distributed: the block of rank {}; expected 0 to {}", rank,
                            communicator->size() - 1));
  const DistributedBlock block = partition->block(rank, of_x);
  if (partition->problem().has_depth()) return block;
  const auto flat = [](const Dims& dims) { return Dims{dims[0], dims[1], dims[3], dims[4]}; };
  return {.begin = flat(block.begin), .extents = flat(block.extents)};
}

Transport Distributed::transport() const { return state_->messages().transport(); }
std::size_t Distributed::bytes_sent() const { return state_->messages().bytes_sent(); }

std::string Distributed::description() const {
  const DistributedBlock x = x_block(), y = y_block();
  std::string text =
      fmt::format("rank {} of {}: x {} from {}, y {} from {}, on {}, halos by {}\n", rank(),
                  ranks(), to_string(x.extents), to_string(x.begin), to_string(y.extents),
                  to_string(y.begin), to_string(state_->device.id()), to_string(transport()));
  const auto add = [&](const char* what, const BoxRun& run) {
    const auto& [d, h, w] = run.box.windows;
    text += fmt::format("{}: {}x{}x{} of {}x{}x{}, {}\n", what, d.count, h.count, w.count, d.length,
                        h.length, w.length, run.plan.algorithm().name);
  };
  if (state_->shares_) text += state_->shares_->description();
  if (state_->interior_) add("interior", *state_->interior_);
  for (const BoxRun& run : state_->others_) add(run.box.is_image() ? "image" : "side", run);
  const auto bytes = [&](const mpi::Message& message) {
    return static_cast<std::size_t>(message.elements) * size_in_bytes(problem().dtype);
  };
  for (const mpi::Message& message : state_->messages().sends())
    text += fmt::format("to rank {}: {} bytes\n", message.rank, bytes(message));
  for (const mpi::Message& message : state_->messages().receives())
    text += fmt::format("from rank {}: {} bytes\n", message.rank, bytes(message));
  return text;
}

}  // namespace plumb
