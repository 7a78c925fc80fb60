// Convolution of a tensor that is spread over the ranks of an MPI communicator: each rank has a
// block of the batch and of the image, halos travel between neighbours while the interior is
// computed. libplumb_mpi is a library of its own, built for one MPI; libplumb itself knows none.
//
// All functions that take a communicator are collective: every rank of it makes the same calls in
// the same order. Where one rank fails, all of them throw the same Error, whose message begins with
// that rank. MPI is initialised by the caller; MPI is called by the calling thread alone, which has
// to be the main thread unless the thread level is MPI_THREAD_SERIALIZED or more. The level has to
// be MPI_THREAD_FUNNELED or more where the device computes with several threads of the host.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plumb/plumb.hpp"

namespace plumb {

/// Into how many parts each axis is cut. Ranks are counted with the last one running fastest, as
/// MPI_Cart_create counts them: rank = ((n * grid.d + d) * grid.h + h) * grid.w + w.
struct DistributedGrid {
  std::int64_t n = 1;  ///< parts of the batch
  std::int64_t d = 1;  ///< parts of the depth
  std::int64_t h = 1;  ///< parts of the height
  std::int64_t w = 1;  ///< parts of the width
  friend bool operator==(const DistributedGrid&, const DistributedGrid&) = default;  ///< in all
};

/// How large the blocks are along each axis, one size a part, in their order. Empty: as even as it
/// goes, part i beginning at extent * i / parts. Every block has at least one element.
struct DistributedSizes {
  std::vector<std::int64_t> n = {};  ///< of the batch
  std::vector<std::int64_t> d = {};  ///< of the image's depth
  std::vector<std::int64_t> h = {};  ///< of the image's height
  std::vector<std::int64_t> w = {};  ///< of the image's width
  /// Of the output's depth, height and width. Empty: as the image is cut, where the stride is 1 and
  /// the extents are the same; otherwise each output lies with the rank that has the middle of its
  /// window.
  std::vector<std::int64_t> z = {};
  std::vector<std::int64_t> p = {};  ///< of the output's height
  std::vector<std::int64_t> q = {};  ///< of the output's width
};

/// How halos travel.
enum class Transport : std::uint8_t {
  automatic,      ///< nccl where a communicator is given, else device_memory where MPI says so
  host_memory,    ///< through host memory, page-locked where the device is not the CPU
  device_memory,  ///< MPI reads and writes the device's memory (CUDA-aware MPI)
  nccl,           ///< NCCL sends and receives, beside the caller's stream
};
PLUMB_API std::string_view to_string(Transport);  ///< "host_memory"

/// What is asked for beside the problem. All but the strides are the same on every rank.
struct DistributedOptions {
  ConvOptions conv = {};        ///< bias, activation, accumulate and so on, of the whole problem
  DistributedSizes sizes = {};  ///< uneven blocks
  /// Strides of this rank's blocks, in the rank of the problem's tensors, in elements; empty:
  /// dense. They may lie in larger arrays, and differ between ranks.
  Strides x_strides = {};
  Strides y_strides = {};  ///< likewise
  /// How long a call waits for other ranks before it is an Error. What is under way is then given
  /// up with the object, and the caller may end the program (MPI_Abort).
  double time_limit_seconds = 300;
  Transport transport = Transport::automatic;  ///< how halos travel
  /// An ncclComm_t of the same ranks in the same order; NCCL is opened at run time.
  void* nccl_communicator = nullptr;
};

/// The part of a tensor that one rank has.
struct DistributedBlock {
  Dims begin = {};       ///< index of its first element in the whole tensor
  Extents extents = {};  ///< of the block; channels are never cut
};

/// A convolution spread over ranks. Whatever it needs is made once: the widths of halos, buffers,
/// persistent MPI requests, and the plans of the pieces (interior, and a slab for each side that
/// has a halo).
///
/// Forward, each rank gives its block of x and all of w, and gets its block of y; backward data
/// likewise dy and dx; in backward weights each gives its blocks of x and dy, and all get the whole
/// dw (and db), summed over the ranks in their order. With ConvOptions::reproducible each rank
/// computes dw of a share of the channels over the whole batch and image, which it gathers: the
/// bits are those of one rank, and memory is that of its channels of the whole x and dy. Where it
/// is accumulated, dw and db then hold the same on every rank. The object moves, and does not copy.
/// It is destroyed on every rank, before MPI_Finalize.
class PLUMB_API Distributed {
 public:
  /// Plans `problem`, which is the whole one, without strides of x and y. The communicator is
  /// duplicated, so that messages of the caller are never met. Throws Error on every rank, with the
  /// reason of the first that has one: invalid_argument as check() does, for a grid of another
  /// number of ranks, for an axis that is cut into blocks thinner than their halos or into more
  /// parts than elements, for padding along a cut axis that is as wide as the filter, for problems
  /// or options that differ between ranks, for pooling, and for an MPI that is not initialised or
  /// of too low a thread level; unsupported and out_of_memory as plans and tensors do, and
  /// unsupported for messages of 2^31 bytes or more; device_failure where MPI fails or the time
  /// limit passes.
  Distributed(MPI_Comm communicator, const Device& device, const ConvProblem& problem,
              const DistributedGrid& grid, const DistributedOptions& options = {});
  /// The same with a communicator as Fortran has it (`comm%MPI_VAL` in mpi_f08).
  static Distributed from_fortran(MPI_Fint communicator, const Device& device,
                                  const ConvProblem& problem, const DistributedGrid& grid,
                                  const DistributedOptions& options = {});
  Distributed(Distributed&&) noexcept;             ///< moves
  Distributed& operator=(Distributed&&) noexcept;  ///< moves
  ~Distributed();                                  ///< on every rank

  /// Runs it on this rank's blocks, by their parts as ConvPlan::execute() takes them. On a GPU the
  /// call returns when the halos have come and what is left has been put on the queue; in backward
  /// weights when the sum is there. Throws Error on every rank where one fails.
  void execute(Queue& queue, const ConvTensors& tensors);

  int rank() const;                          ///< of this process
  int ranks() const;                         ///< how many there are
  const ConvProblem& problem() const;        ///< the whole one, checked
  const DistributedGrid& grid() const;       ///< as given
  DistributedBlock x_block() const;          ///< of x, or dx, that this rank has
  DistributedBlock y_block() const;          ///< of y, or dy
  DistributedBlock x_block(int rank) const;  ///< of another rank
  DistributedBlock y_block(int rank) const;  ///< of another rank
  Transport transport() const;               ///< how halos travel
  /// Returns the bytes that this rank sends to others in one execute(), without the weights' sum.
  std::size_t bytes_sent() const;
  /// Returns what is computed and sent, for people: a line a piece, a line a neighbour.
  std::string description() const;

 private:
  struct State;
  explicit Distributed(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The device of a rank, and why it is that one.
struct RankDevice {
  Device device;       ///< opened
  std::string reason;  ///< "rank 1 of 4 on its node: cuda:1 of 2 GPUs"
};
/// Opens a device for this rank: the GPUs of a node go round its ranks, in their order on the node;
/// where it has none, or none that works, each takes the CPU. PLUMB_DEVICE, where it is set, is
/// taken as it is. Collective. Throws Error on every rank where one fails.
PLUMB_API RankDevice device_for_rank(MPI_Comm communicator, const DeviceOptions& options = {});

}  // namespace plumb
