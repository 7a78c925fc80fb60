// Which device a rank opens.
#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "collective.hpp"
#include "plumb/distributed.hpp"

namespace plumb {
namespace {

/// This rank among those of its node.
struct OnNode {
  int rank = 0, ranks = 1;
};

OnNode find_on_node(MPI_Comm communicator) {
  OnNode place;
  MPI_Comm node = MPI_COMM_NULL;
  int rank = 0;
  mpi::check_mpi(MPI_Comm_rank(communicator, &rank), "MPI_Comm_rank");
  mpi::check_mpi(
      MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
      "MPI_Comm_split_type");
  MPI_Comm_rank(node, &place.rank);
  MPI_Comm_size(node, &place.ranks);
  MPI_Comm_free(&node);
  return place;
}

RankDevice open_for(const OnNode& place, const DeviceOptions& options) {
  const std::string who = fmt::format("rank {} of {} on its node", place.rank, place.ranks);
  if (const char* named = std::getenv("PLUMB_DEVICE"); named && *named) {
    Device device = Device::open(named, options);
    return {device, fmt::format("{}: {}, as PLUMB_DEVICE says", who, to_string(device.id()))};
  }
  std::string why = "cuda: no such backend";
  for (const BackendReport& report : backend_reports()) {
    if (report.name != "cuda") continue;
    const auto count = static_cast<int>(report.devices.size());
    why = fmt::format("cuda: {} ({})", report.sentence, to_string(report.reason));
    if (count == 0) break;
    const std::string name = fmt::format("cuda:{}", place.rank % count);
    try {
      Device device = Device::open(name, options);
      const char* shared = place.ranks > count ? ", which ranks share" : "";
      return {device, fmt::format("{}: {} of {} GPUs{}", who, name, count, shared)};
    } catch (const Error& e) {
      if (e.code() != ErrorCode::device_unavailable) throw;
      why = fmt::format("{}: {}", name, e.what());
    }
  }
  return {Device::open("cpu", options), fmt::format("{}: the CPU, since {}", who, why)};
}

}  // namespace

RankDevice device_for_rank(MPI_Comm of_caller, const DeviceOptions& options) {
  mpi::check_thread_level(1);
  constexpr double time_limit_seconds = 300;
  mpi::Communicator communicator(of_caller, time_limit_seconds);
  std::optional<RankDevice> opened;
  const OnNode place = find_on_node(communicator.get());
  agree_on(communicator, [&] { opened = open_for(place, options); });
  return *opened;
}

}  // namespace plumb
