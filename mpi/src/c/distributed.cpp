// The C interface of libplumb_mpi: plumb/distributed.h over plumb/distributed.hpp.
#include "plumb/distributed.h"

#include <fmt/format.h>

#include <algorithm>

#include "plumb/c_bridge.hpp"
#include "plumb/distributed.hpp"
#include "views.hpp"

using namespace plumb;
using plumb::c::at;
using plumb::c::made_at;
using plumb::c::refuse;
using plumb::c::run;

struct plumb_distributed {
  Distributed distributed;
  DistributedOptions options;
};

namespace {

constexpr bool same(std::int32_t c_value, Transport value) {
  return c_value == static_cast<std::int32_t>(value);
}
static_assert(same(PLUMB_TRANSPORT_AUTOMATIC, Transport::automatic) &&
              same(PLUMB_TRANSPORT_HOST_MEMORY, Transport::host_memory) &&
              same(PLUMB_TRANSPORT_DEVICE_MEMORY, Transport::device_memory) &&
              same(PLUMB_TRANSPORT_NCCL, Transport::nccl));

/// Of as many parts, or empty.
std::vector<std::int64_t> sizes_of(const std::int64_t* sizes, std::int64_t parts) {
  if (!sizes) return {};
  if (parts < 1) refuse(fmt::format("options.parts has {}; expected at least 1", parts));
  return {sizes, sizes + parts};
}

/// Five strides as a block of the problem's rank has them.
Strides strides_of(const std::int64_t* five, bool has_depth) {
  if (!five) return {};
  return has_depth ? Strides(five, 5) : Strides{five[0], five[1], five[3], five[4]};
}

DistributedGrid grid_of(const plumb_distributed_options& given) {
  return {given.parts[0], given.parts[1], given.parts[2], given.parts[3]};
}

DistributedOptions options_of(const plumb_distributed_options& given,
                              const plumb_conv_options_nd* conv, bool has_depth) {
  if (given.struct_size != sizeof(plumb_distributed_options))
    refuse(
        fmt::format("options.struct_size is {}; expected {} "
                    "(plumb_distributed_options_init() sets it)",
                    given.struct_size, sizeof(plumb_distributed_options)));
  if (given.transport < 0 || given.transport > PLUMB_TRANSPORT_NCCL)
    refuse(fmt::format("options.transport is {}; expected 0 to {}", given.transport,
                       PLUMB_TRANSPORT_NCCL));
  const auto* parts = given.parts;
  return {.conv = c::options_of(conv),
          .sizes = {.n = sizes_of(given.sizes[0], parts[0]),
                    .d = sizes_of(given.sizes[1], parts[1]),
                    .h = sizes_of(given.sizes[2], parts[2]),
                    .w = sizes_of(given.sizes[3], parts[3]),
                    .z = sizes_of(given.output_sizes[0], parts[1]),
                    .p = sizes_of(given.output_sizes[1], parts[2]),
                    .q = sizes_of(given.output_sizes[2], parts[3])},
          .x_strides = strides_of(given.x_strides, has_depth),
          .y_strides = strides_of(given.y_strides, has_depth),
          .time_limit_seconds = given.time_limit_seconds,
          .transport = static_cast<Transport>(given.transport),
          .nccl_communicator = given.nccl_communicator};
}

/// A NULL or a wrong number in a struct is this rank's alone: the others wait until their time
/// limit.
plumb_distributed* made_of(MPI_Comm communicator, const plumb_device* device,
                           const plumb_conv_problem_nd* problem, const plumb_conv_options_nd* conv,
                           const plumb_distributed_options* options) {
  const ConvProblem whole = c::problem_of(problem);
  const plumb_distributed_options& given = at(options, "options");
  const DistributedOptions all = options_of(given, conv, whole.has_depth());
  return new plumb_distributed{
      Distributed(communicator, at(device, "device").device, whole, grid_of(given), all), all};
}

void write_block(const DistributedBlock& block, std::int64_t begin[5], std::int64_t extents[5]) {
  at(begin, "begin");
  at(extents, "extents");
  std::fill_n(begin, 5, 0);
  std::fill_n(extents, 5, 1);
  const int rank = block.extents.rank();
  for (int i = 0; i < rank; ++i) {
    begin[mpi::place_of_axis(i, rank)] = block.begin[i];
    extents[mpi::place_of_axis(i, rank)] = block.extents[i];
  }
}

/// A tensor of a plan, of which the pointer is given; null: none.
TensorView view_of(const void* data, DType dtype, const Extents& extents, const DeviceId& device,
                   const Strides& strides = {}) {
  if (!data) return {};
  return TensorView(const_cast<void*>(data), dtype, extents, device, strides);
}

plumb_device* opened(const RankDevice& found, char* reason, std::size_t reason_bytes) {
  if (reason && reason_bytes > 0) {
    const std::size_t count = std::min(found.reason.size(), reason_bytes - 1);
    std::copy_n(found.reason.data(), count, reason);
    reason[count] = 0;
  }
  return new plumb_device{found.device, to_string(found.device.id())};
}

}  // namespace

plumb_status plumb_distributed_options_init(plumb_distributed_options* options) {
  return run(__func__, [&] {
    plumb_distributed_options& set = at(options, "options");
    set = {};
    set.struct_size = sizeof(plumb_distributed_options);
    std::fill_n(set.parts, 4, 1);
    set.time_limit_seconds = DistributedOptions{}.time_limit_seconds;
  });
}

plumb_status plumb_distributed_create(MPI_Comm communicator, const plumb_device* device,
                                      const plumb_conv_problem_nd* problem,
                                      const plumb_conv_options_nd* conv,
                                      const plumb_distributed_options* options,
                                      plumb_distributed** distributed) {
  return run(__func__, [&] {
    plumb_distributed*& made = made_at(distributed, "distributed");
    made = made_of(communicator, device, problem, conv, options);
  });
}

plumb_status plumb_distributed_create_f(MPI_Fint communicator, const plumb_device* device,
                                        const plumb_conv_problem_nd* problem,
                                        const plumb_conv_options_nd* conv,
                                        const plumb_distributed_options* options,
                                        plumb_distributed** distributed) {
  return run(__func__, [&] {
    plumb_distributed*& made = made_at(distributed, "distributed");
    made = made_of(MPI_Comm_f2c(communicator), device, problem, conv, options);
  });
}

void plumb_distributed_destroy(plumb_distributed* distributed) { delete distributed; }

plumb_status plumb_distributed_rank(const plumb_distributed* distributed, int32_t* rank) {
  return run(__func__, [&] {
    at(rank, "rank") = 0;
    *rank = at(distributed, "distributed").distributed.rank();
  });
}

plumb_status plumb_distributed_x_block(const plumb_distributed* distributed, int32_t rank,
                                       int64_t begin[5], int64_t extents[5]) {
  return run(__func__, [&] {
    write_block(at(distributed, "distributed").distributed.x_block(rank), begin, extents);
  });
}

plumb_status plumb_distributed_y_block(const plumb_distributed* distributed, int32_t rank,
                                       int64_t begin[5], int64_t extents[5]) {
  return run(__func__, [&] {
    write_block(at(distributed, "distributed").distributed.y_block(rank), begin, extents);
  });
}

plumb_status plumb_distributed_execute(plumb_distributed* distributed, plumb_queue* queue,
                                       const void* image, const void* filters, const void* bias,
                                       const void* mask, void* output, void* db) {
  return run(__func__, [&] {
    plumb_distributed& self = at(distributed, "distributed");
    Queue& on = at(queue, "queue").queue;
    const ConvProblem& whole = self.distributed.problem();
    const DeviceId device = on.device().id();
    const DType dtype = whole.dtype;
    const auto x = [&](const void* data) {
      return view_of(data, dtype, self.distributed.x_block().extents, device,
                     self.options.x_strides);
    };
    const auto y = [&](const void* data) {
      return view_of(data, dtype, self.distributed.y_block().extents, device,
                     self.options.y_strides);
    };
    const auto w = [&](const void* data) {
      return view_of(data, dtype, whole.w_extents(), device, whole.w_strides);
    };
    const bool backward = whole.direction == Direction::backward_data;
    const bool of_weights = whole.direction == Direction::backward_weights;
    self.distributed.execute(
        on, {.x = backward ? y(image) : x(image),
             .w = of_weights ? y(filters) : w(filters),
             .bias = view_of(bias, dtype, {bias_elements(whole)}, device),
             .y = of_weights ? w(output)
                  : backward ? x(output)
                             : y(output),
             .mask = view_of(mask, dtype, self.distributed.y_block().extents, device),
             .db = view_of(db, dtype, {whole.k}, device)});
  });
}

plumb_status plumb_distributed_bytes_sent(const plumb_distributed* distributed, size_t* bytes) {
  return run(__func__, [&] {
    at(bytes, "bytes") = 0;
    *bytes = at(distributed, "distributed").distributed.bytes_sent();
  });
}

plumb_status plumb_device_for_rank(MPI_Comm communicator, plumb_device** device, char* reason,
                                   size_t reason_bytes) {
  return run(__func__, [&] {
    plumb_device*& made = made_at(device, "device");
    made = opened(device_for_rank(communicator), reason, reason_bytes);
  });
}

plumb_status plumb_device_for_rank_f(MPI_Fint communicator, plumb_device** device, char* reason,
                                     size_t reason_bytes) {
  return run(__func__, [&] {
    plumb_device*& made = made_at(device, "device");
    made = opened(device_for_rank(MPI_Comm_f2c(communicator)), reason, reason_bytes);
  });
}
