// NCCL as the transport, where there are a GPU and libnccl.so.2. It takes one rank a GPU: ranks
// that share one have no communicator of it.
#include <dlfcn.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "spread_case.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

/// A communicator of all ranks, made by NCCL itself.
class NcclCommunicator {
 public:
  /// ncclUniqueId: 128 bytes, passed by value.
  struct Id {
    std::array<char, 128> bytes;
  };
  explicit NcclCommunicator(void* library) : library_(library) {
    Id id{};
    if (world_rank() == 0) REQUIRE(find<int(Id*)>("ncclGetUniqueId")(&id) == 0);
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    REQUIRE(find<int(void**, int, Id, int)>("ncclCommInitRank")(&communicator_, world_size(), id,
                                                                world_rank()) == 0);
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator() { find<int(void*)>("ncclCommDestroy")(communicator_); }
  void* get() const { return communicator_; }

 private:
  template <class Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }
  void* library_;
  void* communicator_ = nullptr;
};

}  // namespace

TEST_CASE("halos by NCCL have the bits of one rank", "[nccl]") {
  const Device device = test_device();
  if (device.id().backend != "cuda") SKIP("no GPU");
  if (world_size() > 1) SKIP("ranks may share a GPU, which NCCL refuses");
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);
  if (!library) SKIP("no libnccl.so.2");
  Queue queue(device);  // makes the device the thread's, which NCCL takes
  const NcclCommunicator communicator(library);
  int computed = 0;
  for (const auto direction :
       {Direction::forward, Direction::backward_data, Direction::backward_weights})
    for (std::uint32_t seed = 1; seed < 40; ++seed) {
      std::optional<SpreadCase> spread = random_case(seed, 1, direction);
      if (!spread) continue;
      spread->options.conv.reproducible = true;
      spread->options.nccl_communicator = communicator.get();
      const WholeTensors before = whole_tensors(*spread, false);
      WholeTensors whole = before;
      compute_whole(device, *spread, whole);
      INFO(spread->text());
      const SpreadResult result = compute_spread(device, *spread, before, whole);
      REQUIRE(result.values == result.expected);
      ++computed;
    }
  CHECK(computed > 30);
  ConvProblem problem{.h = 16, .w = 16};
  const Distributed plan(MPI_COMM_WORLD, device, problem, {},
                         {.nccl_communicator = communicator.get()});
  CHECK(plan.transport() == Transport::nccl);
}
