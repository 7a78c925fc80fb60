#include "emulation.hpp"

#include <ucontext.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "device_words.hpp"
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

BlockCoordinate threadIdx, blockIdx, blockDim, gridDim;

namespace plumb_test::emulation {
namespace {

/// What a thread waits for.
enum class Wait : std::uint8_t { none, block, vote, warp, poll, cluster, ended };
constexpr std::size_t stack_bytes = 512 << 10, largest_shared = 227 << 10, guard_bytes = 256,
                      shared_alignment = 128;
/// What lies at a multiple of so many bytes lies so in each block of a cluster.
constexpr std::size_t shared_turn = 1 << 10;
constexpr unsigned warp_threads = 32, most_idle_rounds = 1000;

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  bool valid;

  void make() const {
    if (valid)
      std::memcpy(to, from, bytes);
    else
      std::memset(to, 0, bytes);
  }
};

struct Store {
  const char* from;
  std::function<void(const char*)> write;
};

/// Goes from one stack to another, and tells a sanitizer so. swapcontext() asks the kernel for the
/// signal mask each time, which takes longer than most threads run.
class Stack {
 public:
  /// Where the stack is not in use: the next to come begins `run` there.
  void begin_with(char* bottom, std::size_t bytes, void (*run)()) {
    bottom_ = bottom, bytes_ = bytes, begun_ = false;
    getcontext(&context_);
    context_.uc_stack.ss_sp = bottom;
    context_.uc_stack.ss_size = bytes;
    makecontext(&context_, run, 0);
    // The address sanitizer clears what it knows of a stack that stands here at each switch to it.
    context_.uc_stack = {};
  }
  void go_to(Stack& other) {
#if defined(__SANITIZE_ADDRESS__)
    void* left = nullptr;
    __sanitizer_start_switch_fiber(&left, other.bottom_, other.bytes_);
    swapcontext(&context_, &other.context_);
    __sanitizer_finish_switch_fiber(left, nullptr, nullptr);
#else
    if (__builtin_setjmp(left_at_) == 0) continue_at(other);
#endif
  }
  /// Is called first on a new stack, which one came to from `from`.
  static void begin([[maybe_unused]] Stack& from) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &from.bottom_, &from.bytes_);
#endif
  }

 private:
  /// Compilers want this in another function than the one that it comes back to.
  [[noreturn]] [[gnu::noinline]] static void continue_at(Stack& other) {
    if (other.begun_) __builtin_longjmp(other.left_at_, 1);
    other.begun_ = true;
    setcontext(&other.context_);
    std::abort();
  }

  ucontext_t context_{};
  void* left_at_[5] = {};
  bool begun_ = true;
  const void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Thread {
  Stack stack;
  std::unique_ptr<char[]> memory = std::make_unique_for_overwrite<char[]>(stack_bytes);
  bool ended = false;                     ///< whether nothing of it is left on the stack
  std::deque<std::vector<Copy>> groups;   ///< the last has no end yet
  std::deque<std::vector<Store>> stores;  ///< likewise
};

/// A block at work, one of its cluster's.
class Block {
 public:
  Block(std::span<Thread> threads, const std::function<void()>& kernel, std::size_t shared,
        unsigned number)
      : number_(number),
        threads_(threads),
        waits_(threads.size(), Wait::none),
        kernel_(kernel),
        memory_(shared + guard_bytes + shared_turn, '\xff'),
        shared_(memory_.data()) {
    while (reinterpret_cast<std::uintptr_t>(shared_) % shared_turn != shared_alignment) ++shared_;
    behind_ = shared_ + shared;
  }

  void begin() {
    for (std::size_t i = 0; i < threads_.size(); ++i) begin(i);
  }
  /// Lets each thread go on to where it waits. Returns whether some then need not wait any longer.
  bool go_on(bool backwards) {
    running = this, blockIdx.x = number_;
    const unsigned count = static_cast<unsigned>(threads_.size());
    for (unsigned i = 0; i < count; ++i) step(backwards ? count - 1 - i : i);
    if (error_) std::rethrow_exception(error_);
    return release();
  }
  bool is_done() const { return alive() == 0; }
  std::size_t alive() const { return threads_.size() - count(Wait::ended); }
  std::size_t count(Wait kind) const {
    return static_cast<std::size_t>(std::ranges::count(waits_, kind));
  }
  void let_go(Wait kind) { std::ranges::replace(waits_, kind, Wait::none); }
  void check_guard() const {
    for (std::size_t i = 0; i < guard_bytes; ++i)
      if (behind_[i] != '\xff') throw std::runtime_error("a write behind the shared memory");
  }
  [[noreturn]] void hang() const {
    throw std::runtime_error("a block hangs: of " + std::to_string(threads_.size()) + " threads " +
                             std::to_string(alive()) + " have not ended, " +
                             std::to_string(count(Wait::block)) + " are at a barrier, " +
                             std::to_string(count(Wait::warp)) + " at a warp's, " +
                             std::to_string(count(Wait::cluster)) + " at the cluster's");
  }

  void wait(Wait kind) {
    waits_[threadIdx.x] = kind;
    current().stack.go_to(scheduler_);
  }
  bool vote(bool condition) {
    votes_ = votes_ || condition;
    wait(Wait::vote);
    return result_;
  }
  Thread& current() { return threads_[threadIdx.x]; }
  char* shared() { return shared_; }
  unsigned number() const { return number_; }

  static inline Block* running = nullptr;

 private:
  static void enter() {
    Block& block = *running;
    Stack::begin(block.scheduler_);
    try {
      block.kernel_();
      const auto& stores = block.current().stores;
      if (stores.size() > 1 || !stores.front().empty())
        throw std::runtime_error("a thread ends before its stores have read shared memory");
    } catch (...) {
      block.error_ = std::current_exception();
    }
    block.current().ended = true;
    block.wait(Wait::ended);
  }

  void begin(std::size_t index) {
    Thread& thread = threads_[index];
#if defined(__SANITIZE_ADDRESS__)
    // Where a block ended with an error, there are frames left on the stacks of its other threads;
    // and of a thread that has ended, enter() and what it called last.
    constexpr std::size_t of_enter = 8 << 10;
    const std::size_t left = thread.ended ? of_enter : stack_bytes;
    ASAN_UNPOISON_MEMORY_REGION(thread.memory.get() + (stack_bytes - left), left);
#endif
    thread.ended = false;
    thread.groups.assign(1, {}), thread.stores.assign(1, {});
    thread.stack.begin_with(thread.memory.get(), stack_bytes, enter);
  }

  void step(unsigned index) {
    if (waits_[index] != Wait::none || error_) return;
    threadIdx.x = index;
    scheduler_.go_to(threads_[index].stack);
  }

  /// Lets those go on whom all others have met.
  bool release() {
    bool any = false;
    for (std::size_t first = 0; first < waits_.size(); first += warp_threads) {
      const auto warp = std::span(waits_).subspan(first, warp_threads);
      if (std::ranges::count(warp, Wait::warp) != warp_threads) continue;
      std::ranges::fill(warp, Wait::none);
      any = true;
    }
    // The barrier of a block waits for the threads that have not ended, a vote for all.
    for (const Wait kind : {Wait::block, Wait::vote})
      if (alive() > 0 && count(kind) == (kind == Wait::block ? alive() : threads_.size())) {
        if (kind == Wait::vote) result_ = votes_, votes_ = false;
        let_go(kind);
        any = true;
      }
    return any;
  }

  unsigned number_;  ///< in the grid
  std::span<Thread> threads_;
  std::vector<Wait> waits_;  ///< of each thread: side by side, for they are looked at in each round
  const std::function<void()>& kernel_;
  std::vector<char> memory_;
  char *shared_, *behind_ = nullptr;
  Stack scheduler_;
  std::exception_ptr error_;
  bool votes_ = false, result_ = false;
};

/// Blocks that run at the same time, and not at the same pace: they rest in turn.
class Cluster {
 public:
  Cluster(std::span<Thread> threads, unsigned of_block, const std::function<void()>& kernel,
          std::size_t shared, unsigned first) {
    for (unsigned i = 0; i * of_block < threads.size(); ++i)
      blocks_.push_back(std::make_unique<Block>(threads.subspan(i * of_block, of_block), kernel,
                                                shared, first + i));
  }
  void run(bool backwards) {
    running = this;
    for (const auto& block : blocks_) block->begin();
    unsigned idle = 0;
    for (unsigned round = 0; !all([](const Block& block) { return block.is_done(); }); ++round) {
      bool any = false, all_go = true;
      for (const auto& block : blocks_)
        if (rests(*block, round))
          all_go = false;
        else
          any = block->go_on(backwards) || any;
      any = meet() || any;
      idle = any ? 0 : idle + 1;  // rounds in which threads have only looked at barriers
      const bool polls = let_polls_go() && idle < most_idle_rounds;
      for (const auto& block : blocks_)
        if (!any && !polls && all_go && !block->is_done()) block->hang();
      backwards = !backwards;
    }
    for (const auto& block : blocks_) block->check_guard();
  }
  Block& block(unsigned number) { return *blocks_.at(number); }
  unsigned first() const { return blocks_.front()->number(); }

  static inline Cluster* running = nullptr;

 private:
  bool rests(const Block& block, unsigned round) const {
    constexpr unsigned rounds = 64;
    const auto count = static_cast<unsigned>(blocks_.size());
    return count > 1 && round / rounds % (count + 1) == block.number() - first();
  }
  template <class F>
  bool all(const F& f) const {
    return std::ranges::all_of(blocks_, [&](const auto& block) { return f(*block); });
  }
  /// Threads that have ended are not waited for.
  bool meet() {
    if (!all([](const Block& block) { return block.count(Wait::cluster) == block.alive(); }) ||
        all([](const Block& block) { return block.is_done(); }))
      return false;
    for (const auto& block : blocks_) block->let_go(Wait::cluster);
    return true;
  }
  bool let_polls_go() {
    bool any = false;
    for (const auto& block : blocks_)
      any = block->count(Wait::poll) > 0 || any, block->let_go(Wait::poll);
    return any;
  }

  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace

void run_grid(unsigned blocks, unsigned threads, std::size_t shared_bytes,
              const std::function<void()>& kernel, unsigned cluster) {
  if (shared_bytes > largest_shared) throw std::runtime_error("more shared memory than there is");
  if (threads == 0 || threads % warp_threads != 0) throw std::runtime_error("no whole warps");
  if (cluster == 0 || cluster > most_cluster_blocks || blocks % cluster != 0)
    throw std::runtime_error("no whole clusters of blocks");
  static std::vector<Thread> fibers;
  if (fibers.size() < threads * cluster) fibers.resize(threads * cluster);
  blockDim.x = threads, gridDim.x = blocks;
  for (unsigned first = 0; first < blocks; first += cluster)
    Cluster(std::span(fibers).first(threads * cluster), threads, kernel, shared_bytes, first)
        .run(first / cluster % 2 == 1);
}

char* shared_memory() { return Block::running->shared(); }

void meet_cluster() { Block::running->wait(Wait::cluster); }
unsigned block_of_cluster() { return Block::running->number() - Cluster::running->first(); }
char* in_block(const void* own, unsigned block) {
  Block& other = Cluster::running->block(block);
  if (other.is_done()) throw std::runtime_error("a block has ended that is still written to");
  return other.shared() + (static_cast<const char*>(own) - shared_memory());
}
unsigned warp_of_cluster() {
  return block_of_cluster() * most_block_warps + threadIdx.x / warp_threads;
}

void copy_async(void* to, const void* from, std::size_t bytes, bool valid) {
  if (reinterpret_cast<std::uintptr_t>(to) % bytes != 0 ||
      reinterpret_cast<std::uintptr_t>(from) % bytes != 0)
    throw std::runtime_error("a copy is not aligned to its " + std::to_string(bytes) + " bytes");
  Block::running->current().groups.back().push_back({to, from, bytes, valid});
}

void commit_copies() { Block::running->current().groups.emplace_back(); }

void wait_for_groups(std::size_t running) {
  auto& groups = Block::running->current().groups;
  while (groups.size() > running + 1) {
    for (const Copy& copy : groups.front()) copy.make();
    groups.pop_front();
  }
}

void wait_for_all() {
  commit_copies();
  wait_for_groups(0);
}

void store_late(const void* from, std::function<void(const char*)> write) {
  Block::running->current().stores.back().push_back(
      {static_cast<const char*>(from), std::move(write)});
}

void commit_stores() { Block::running->current().stores.emplace_back(); }

void wait_for_stores(std::size_t running) {
  auto& groups = Block::running->current().stores;
  while (groups.size() > running + 1) {
    for (const Store& store : groups.front()) store.write(store.from);
    groups.pop_front();
  }
}

namespace {
long boxes_copied = 0;
}

void Barrier::init(int arrivals) { *this = {}, arrivals_ = arrivals; }
void Barrier::arrive() {
  if (arrived_ == arrivals_ && !complete())
    throw std::runtime_error("a thread arrives at a barrier that waits for copies");
  ++arrived_;
}
bool Barrier::complete() {
  if (arrived_ < arrivals_ || bytes_ != 0) return false;
  for (const auto& copy : copies_) copy();
  copies_.clear();
  arrived_ = 0, parity_ ^= 1;
  return true;
}
void Barrier::wait(int parity) {
  while (parity == parity_ && !complete()) Block::running->wait(Wait::poll);
}
long Barrier::boxes() { return boxes_copied; }

void Barrier::copy_box(void* to, const plumb::cuda::TiledMap& map, const char* address,
                       int element_bytes, const int (&at)[plumb::cuda::TiledMap::rank]) {
  constexpr int rank = plumb::cuda::TiledMap::rank;
  if (reinterpret_cast<std::uintptr_t>(to) % plumb::cuda::tiled_box_alignment != 0)
    throw std::runtime_error("a box is not aligned in shared memory");
  if (std::int64_t{at[0]} * element_bytes % plumb::cuda::tiled_corner_alignment != 0)
    throw std::runtime_error("an illegal instruction: a box begins at column " +
                             std::to_string(at[0]) + ", which is no multiple of 16 bytes");
  std::int64_t first[rank];
  std::copy_n(at, rank, first);
  int elements = 1;
  for (const int count : map.box) elements *= count;
  bytes_ -= elements * element_bytes;
  ++boxes_copied;
  copies_.push_back([=] {
    for (int i = 0; i < elements; ++i) {
      std::int64_t offset = 0;
      bool inside = true;
      for (int axis = 0, rest = i; axis < rank; rest /= map.box[axis++]) {
        const std::int64_t index = first[axis] + rest % map.box[axis];
        inside = inside && index >= 0 && index < map.extent[axis];
        offset += index * (axis == 0 ? element_bytes : map.stride_bytes[axis]);
      }
      char* const here = static_cast<char*>(to) + std::ptrdiff_t{i} * element_bytes;
      if (inside)
        std::memcpy(here, address + offset, element_bytes);
      else
        std::memset(here, 0, element_bytes);
    }
  });
}

void mma_fp64(double (&d)[4], const double (&a)[4], const double (&b)[2]) {
  static double a_of[8][warp_threads][4], b_of[8][warp_threads][2];
  const unsigned warp = threadIdx.x / warp_threads, lane = threadIdx.x % warp_threads,
                 group = lane / 4, t = lane % 4;
  std::copy_n(a, 4, a_of[warp][lane]);
  std::copy_n(b, 2, b_of[warp][lane]);
  __syncwarp();
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = group + i / 2 * 8, column = 2 * t + i % 2;
    for (unsigned k = 0; k < 8; ++k)
      d[i] = std::fma(a_of[warp][row % 8 * 4 + k % 4][row / 8 + k / 4 * 2],
                      b_of[warp][column * 4 + k % 4][k / 4], d[i]);
  }
  __syncwarp();
}

}  // namespace plumb_test::emulation

using plumb_test::emulation::Block;
void __syncthreads() { Block::running->wait(plumb_test::emulation::Wait::block); }
void __syncwarp() { Block::running->wait(plumb_test::emulation::Wait::warp); }
int __syncthreads_or(int condition) { return Block::running->vote(condition != 0); }
