// gloo's side, over its TCP transport, which is the only one that it has.
//
// Where gloo offers several algorithms for a cell all are timed and the best
// counts. The halving-doubling and chunked ones work in place, which spares
// them what the others do to keep the input: they sum up their own results.

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "benchmarks/peers/timing.h"

namespace {

using Options = gloo::AllreduceOptions;

struct Peer {
  std::shared_ptr<gloo::Context> context;
  // Connections of their own for algorithms in place: beside messages of the
  // other kind their own get lost now and then, and the call hangs.
  std::shared_ptr<gloo::Context> in_place_context;
  // Of the variant at hand: one of these two.
  gloo::Algorithm* in_place = nullptr;
  Options::Algorithm algorithm = Options::Algorithm::RING;
  // All that were made: a message that comes for one that is gone blocks its
  // connection for ever.
  std::vector<std::unique_ptr<gloo::Algorithm>> made;
};

void AllReduce(const Peer& peer, const float* in, float* out, size_t count) {
  Options options(peer.context);
  options.setAlgorithm(peer.algorithm);
  options.setInput(const_cast<float*>(in), count);
  options.setOutput(out, count);
  options.setReduceFunction(
      [](void* sum, const void* left, const void* right, size_t n) {
        gloo::sum<float>(sum, left, right, n);
      });
  gloo::allreduce(options);
}

void AllGather(const Peer& peer, const float* in, float* out, size_t count) {
  gloo::AllgatherOptions options(peer.context);
  const auto size = static_cast<size_t>(peer.context->size);
  options.setInput(const_cast<float*>(in), count / size);
  options.setOutput(out, count);
  gloo::allgather(options);
}

// Runs `body`, whose exceptions become a number.
template <typename Body>
int Try(const Body& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo: %s\n", error.what());
    return 1;
  }
}

// Makes an algorithm that works on `out`.
template <typename Algorithm, typename... Arguments>
void Use(Peer& peer, float* out, int count, Arguments... arguments) {
  peer.made.push_back(std::make_unique<Algorithm>(
      peer.in_place_context, std::vector<float*>{out}, count, arguments...));
  peer.in_place = peer.made.back().get();
}

const char* PrepareAllReduce(Peer& peer, int variant, float* out, int count) {
  switch (variant) {
    case 0:
      peer.algorithm = Options::Algorithm::RING;
      return "ring";
    case 1:
      peer.algorithm = Options::Algorithm::BCUBE;
      return "bcube";
    case 2:
      Use<gloo::AllreduceHalvingDoubling<float>>(peer, out, count);
      return "halving doubling, in place";
    case 3:
      Use<gloo::AllreduceRingChunked<float>>(peer, out, count);
      return "chunked ring, in place";
    default:
      return nullptr;
  }
}

const char* Prepare(void* context, TimingOperation operation, int variant,
                    const float* in, float* out, size_t count) {
  Peer& peer = *static_cast<Peer*>(context);
  peer.in_place = nullptr;
  // For the algorithms in place.
  if (operation != kTimingAllGather) {
    std::memcpy(out, in, count * sizeof(float));
  }
  if (operation == kTimingAllReduce) {
    return PrepareAllReduce(peer, variant, out, static_cast<int>(count));
  }
  if (variant > 0) return nullptr;
  if (operation == kTimingAllGather) return "ring";
  const auto size = static_cast<size_t>(peer.context->size);
  Use<gloo::ReduceScatterHalvingDoubling<float>>(
      peer, out, static_cast<int>(count),
      std::vector<int>(size, static_cast<int>(count / size)));
  return "halving doubling, in place";
}

int Call(void* context, TimingOperation operation, const float* in, float* out,
         size_t count) {
  const Peer& peer = *static_cast<Peer*>(context);
  return Try([&] {
    if (peer.in_place != nullptr) {
      peer.in_place->run();
    } else if (operation == kTimingAllGather) {
      AllGather(peer, in, out, count);
    } else {
      AllReduce(peer, in, out, count);
    }
  });
}

int Barrier(void* context) {
  return Try([&] {
    gloo::BarrierOptions options(static_cast<Peer*>(context)->context);
    gloo::barrier(options);
  });
}

int Largest(void* context, double* value) {
  return Try([&] {
    Options options(static_cast<Peer*>(context)->context);
    options.setOutput(value, 1);
    options.setReduceFunction(
        [](void* largest, const void* left, const void* right, size_t n) {
          gloo::max<double>(largest, left, right, n);
        });
    gloo::allreduce(options);
  });
}

std::shared_ptr<gloo::Context> Connect(const TimingOptions& options,
                                       const char* name) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = "lo";
  std::shared_ptr<gloo::transport::Device> device =
      gloo::transport::tcp::CreateDevice(attributes);
  auto context =
      std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
  gloo::rendezvous::FileStore files(options.store);
  gloo::rendezvous::PrefixStore store(name, files);
  context->connectFullMesh(store, device);
  return context;
}

int Run(const TimingOptions& options) {
  Peer peer;
  peer.context = Connect(options, "calls");
  peer.in_place_context = Connect(options, "in_place");
  const TimingStack stack = {.name = "gloo",
                             .rank = options.rank,
                             .size = options.size,
                             .context = &peer,
                             .prepare = Prepare,
                             .call = Call,
                             .barrier = Barrier,
                             .largest = Largest};
  return TimingRun(&stack, &options);
}

}  // namespace

int main(int argc, char** argv) {
  TimingOptions options;
  if (TimingReadFlags(argc, argv, &options)) return 1;
  int result = 1;
  return Try([&] { result = Run(options); }) || result;
}
