/* How every stack is timed: one loop, so that figures differ by the stack
 * alone.
 *
 * In this file
 *   stack      what moves the data: a library, and how it was started
 *   cell       an operation and the bytes of its whole vector
 *   call       one operation, from its start until its result may be read
 *   batch      calls made one after another and timed as a whole
 *
 * Shapes       N ranks, a whole vector of `count` floats, which is `bytes`
 *              rounded down to a multiple of N:
 *              all-reduce      count in,     count out
 *              reduce-scatter  count in,     count / N out
 *              all-gather      count / N in, count out
 * Memory       Inputs and outputs are apart, lie in memory that was written to
 *              before, and are used again by every call.
 * Numerics     Inputs are random multiples of 1/4096 in [-1/2, 1/2), so that
 *              the sum of up to 4096 ranks is exact in any order. The first
 *              call of a cell is checked element by element; a wrong one ends
 *              the run.
 * Result       For each batch a barrier, then its calls; the time of one call
 *              is the slowest rank's time divided by the calls. Rank 0 prints
 *              the median, least and greatest batch of a cell as a line of
 *              JSON. How many calls make a batch is agreed upon by all ranks
 *              after a warm-up.
 * Errors       A function returns 0, or writes what went wrong to standard
 *              error and returns another number. */
#ifndef BENCHMARKS_PEERS_TIMING_H_
#define BENCHMARKS_PEERS_TIMING_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum TimingOperation {
  kTimingAllReduce = 0,
  kTimingReduceScatter = 1,
  kTimingAllGather = 2
} TimingOperation;

enum { kTimingOperationCount = 3, kTimingCellsMax = 64 };

typedef struct TimingCell {
  TimingOperation operation;
  size_t bytes; /* Of the whole vector. */
} TimingCell;

/* From the flags of a program, which are the same for all. */
typedef struct TimingOptions {
  int rank;           /* --rank=R    for ranks that no launcher numbers */
  int size;           /* --size=N    likewise */
  const char* store;  /* --store=F   a folder in which ranks find each other */
  const char* memory; /* --memory=M  plain, or what else a stack knows */
  int batches;        /* --batches=B */
  double batch_seconds; /* --batch-ms=T  least time of a batch */
  size_t cell_count;    /* --cells=OPERATION:BYTES,... */
  TimingCell cells[kTimingCellsMax];
} TimingOptions;

/* A stack that is up: this process is `rank` of `size`. */
typedef struct TimingStack {
  const char* name;
  int rank;
  int size;
  void* context; /* Handed to each function below. */

  /* Memory for inputs and outputs, kept until the process ends, or null where
   * there is none. The function is null where malloc's memory will do. */
  float* (*allocate)(void* context, size_t count);

  /* Another way to make the calls of a cell, `variant` counted from 0; returns
   * its name, or null after the last. Of several the best median counts. The
   * function is null where there is one way. */
  const char* (*prepare)(void* context, TimingOperation operation, int variant,
                         const float* in, float* out, size_t count);

  int (*call)(void* context, TimingOperation operation, const float* in,
              float* out, size_t count);
  int (*barrier)(void* context);
  /* Replaces `value` by the largest of all ranks. */
  int (*largest)(void* context, double* value);
} TimingStack;

int TimingReadFlags(int argc, char** argv, TimingOptions* options);

/* Times all cells and prints them. A collective call. */
int TimingRun(const TimingStack* stack, const TimingOptions* options);

#ifdef __cplusplus
}
#endif

#endif /* BENCHMARKS_PEERS_TIMING_H_ */
