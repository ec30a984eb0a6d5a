// The ceiling on one host: ranks that read each other's inputs and write each
// other's outputs straight through a shared mapping. No messages, no matching
// of calls, no deadlines, no errors; what is left is the memory and two
// barriers for each call.
//
//   all-reduce      a rank adds up its part of all inputs, into all outputs
//   reduce-scatter  the same, into its own output
//   all-gather      a rank copies all inputs into its own output
//
// Sums go from rank 0 on, as in the canonical order. Ranks are forked here.

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>
#include <span>

#include "benchmarks/peers/timing.h"

namespace {

constexpr int kRanksMin = 2;
constexpr int kRanksMax = 8;
// Inputs, and outputs.
constexpr size_t kAllocations = 2;
// Polls before others may run, which they must where cores are few.
constexpr int kPollsBeforeYield = 200;
// Elements of a sum that stay in the first cache while inputs are added.
constexpr size_t kTileCount = 1024;

struct Shared {
  alignas(64) std::atomic<int> arrived = 0;
  alignas(64) std::atomic<int> round = 0;
  alignas(64) std::array<double, kRanksMax> values = {};
};

// A rank's view; buffers lie rank after rank.
struct Probe {
  Shared* shared = nullptr;
  float* memory = nullptr;
  size_t capacity = 0;  // Elements of one allocation.
  size_t allocations = 0;
  int rank = 0;
  int size = 0;

  float* Of(int owner, size_t allocation) const {
    return memory +
           (static_cast<size_t>(owner) * kAllocations + allocation) * capacity;
  }
  const float* In(int owner) const { return Of(owner, 0); }
  float* Out(int owner) const { return Of(owner, 1); }
};

void Meet(const Probe& probe) {
  Shared& shared = *probe.shared;
  const int round = shared.round.load(std::memory_order_acquire);
  if (shared.arrived.fetch_add(1, std::memory_order_acq_rel) ==
      probe.size - 1) {
    shared.arrived.store(0, std::memory_order_relaxed);
    shared.round.store(round + 1, std::memory_order_release);
    return;
  }
  for (int polls = 0; shared.round.load(std::memory_order_acquire) == round;
       ++polls) {
    if (polls >= kPollsBeforeYield) sched_yield();
  }
}

// Adds up `count` elements of all inputs, from rank 0 on.
void Sum(const Probe& probe, size_t begin, size_t count, float* sum) {
  const float* first = probe.In(0) + begin;
  const float* second = probe.In(1) + begin;
  for (size_t i = 0; i < count; ++i) sum[i] = first[i] + second[i];
  for (int rank = 2; rank < probe.size; ++rank) {
    const float* next = probe.In(rank) + begin;
    for (size_t i = 0; i < count; ++i) sum[i] += next[i];
  }
}

void ReduceOwnPart(const Probe& probe, size_t part, bool into_all) {
  const size_t begin = static_cast<size_t>(probe.rank) * part;
  for (size_t at = 0; at < part; at += kTileCount) {
    const size_t count = std::min(kTileCount, part - at);
    float* own = probe.Out(probe.rank) + at + (into_all ? begin : 0);
    Sum(probe, begin + at, count, own);
    for (int rank = 0; into_all && rank < probe.size; ++rank) {
      if (rank == probe.rank) continue;
      std::memcpy(probe.Out(rank) + begin + at, own, count * sizeof(float));
    }
  }
}

void Gather(const Probe& probe, size_t part) {
  for (int rank = 0; rank < probe.size; ++rank) {
    std::memcpy(probe.Out(probe.rank) + static_cast<size_t>(rank) * part,
                probe.In(rank), part * sizeof(float));
  }
}

// `in` and `out` are where `Allocate` put them.
int Call(void* context, TimingOperation operation, const float*, float*,
         size_t count) {
  const Probe& probe = *static_cast<Probe*>(context);
  const size_t part = count / static_cast<size_t>(probe.size);
  Meet(probe);
  if (operation == kTimingAllGather) {
    Gather(probe, part);
  } else {
    ReduceOwnPart(probe, part, operation == kTimingAllReduce);
  }
  Meet(probe);
  return 0;
}

int Largest(void* context, double* value) {
  const Probe& probe = *static_cast<Probe*>(context);
  auto& values = probe.shared->values;
  values[static_cast<size_t>(probe.rank)] = *value;
  Meet(probe);
  *value = *std::max_element(values.begin(), values.begin() + probe.size);
  Meet(probe);
  return 0;
}

float* Allocate(void* context, size_t count) {
  Probe& probe = *static_cast<Probe*>(context);
  if (probe.allocations == kAllocations || count > probe.capacity) {
    return nullptr;
  }
  return probe.Of(probe.rank, probe.allocations++);
}

// Maps what all ranks share, before they are forked.
bool Map(const TimingOptions& options, Probe& probe) {
  constexpr size_t kPage = 4096;
  size_t bytes = 0;
  for (const TimingCell& cell : std::span(options.cells, options.cell_count)) {
    bytes = std::max(bytes, (cell.bytes + kPage - 1) / kPage * kPage);
  }
  probe.size = options.size;
  probe.capacity = bytes / sizeof(float);
  bytes = kPage + bytes * kAllocations * static_cast<size_t>(options.size);
  void* shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return false;
  probe.shared = new (shared) Shared();
  probe.memory = static_cast<float*>(shared) + kPage / sizeof(float);
  return true;
}

// Forks the other ranks, none of which outlives rank 0.
bool Fork(Probe& probe) {
  const pid_t parent = getpid();
  for (int rank = 1; rank < probe.size; ++rank) {
    const pid_t child = fork();
    if (child < 0) return false;
    if (child > 0) continue;
    probe.rank = rank;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return getppid() == parent;
  }
  return true;
}

// Ranks that fail take the others along, which would wait for ever.
int Finish(const Probe& probe, int result) {
  if (probe.rank > 0) {
    if (result != 0) kill(getppid(), SIGTERM);
    return result;
  }
  while (result == 0 && wait(nullptr) > 0) {
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  TimingOptions options;
  if (TimingReadFlags(argc, argv, &options)) return 1;
  Probe probe;
  if (options.size < kRanksMin || options.size > kRanksMax ||
      !Map(options, probe) || !Fork(probe)) {
    std::fprintf(stderr, "probe: want %d to %d ranks, got %d (%s)\n", kRanksMin,
                 kRanksMax, options.size, std::strerror(errno));
    return 1;
  }
  const TimingStack stack = {.name = "probe",
                             .rank = probe.rank,
                             .size = probe.size,
                             .context = &probe,
                             .allocate = Allocate,
                             .call = Call,
                             .barrier =
                                 [](void* context) {
                                   Meet(*static_cast<Probe*>(context));
                                   return 0;
                                 },
                             .largest = Largest};
  return Finish(probe, TimingRun(&stack, &options));
}
