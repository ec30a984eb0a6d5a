/* MPI's side: the blocking collectives of MPI_COMM_WORLD, as an application
 * calls them. */
#include <mpi.h>

#include "benchmarks/peers/timing.h"

static int Call(void* context, TimingOperation operation, const float* in,
                float* out, size_t count) {
  const int size = *(const int*)context;
  const int whole = (int)count;
  switch (operation) {
    case kTimingReduceScatter:
      return MPI_Reduce_scatter_block(in, out, whole / size, MPI_FLOAT, MPI_SUM,
                                      MPI_COMM_WORLD);
    case kTimingAllGather:
      return MPI_Allgather(in, whole / size, MPI_FLOAT, out, whole / size,
                           MPI_FLOAT, MPI_COMM_WORLD);
    case kTimingAllReduce:
    default:
      return MPI_Allreduce(in, out, whole, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
}

static int Barrier(void* context) {
  (void)context;
  return MPI_Barrier(MPI_COMM_WORLD);
}

static int Largest(void* context, double* value) {
  (void)context;
  return MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_DOUBLE, MPI_MAX,
                       MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  if (MPI_Init(&argc, &argv)) return 1;
  TimingStack stack = {
      .name = "mpi", .call = Call, .barrier = Barrier, .largest = Largest};
  TimingOptions options;
  MPI_Comm_rank(MPI_COMM_WORLD, &stack.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &stack.size);
  stack.context = &stack.size;
  if (TimingReadFlags(argc, argv, &options) || TimingRun(&stack, &options)) {
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return MPI_Finalize();
}
