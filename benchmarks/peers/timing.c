#define _POSIX_C_SOURCE 200809L
#include "benchmarks/peers/timing.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBatchesMax = 1000, kPageBytes = 4096, kTriesMin = 4 };

static const char* const kOperationNames[kTimingOperationCount] = {
    "all_reduce", "reduce_scatter", "all_gather"};

/* What one way to make the calls of a cell took. */
typedef struct Batches {
  const char* variant;
  long calls; /* Of one batch. */
  int count;
  double seconds[kBatchesMax]; /* Of one call. */
} Batches;

static double Seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The value of flag `name` in `argument`, or null. */
static const char* ValueOf(const char* argument, const char* name) {
  const size_t length = strlen(name);
  if (strncmp(argument, name, length) != 0 || argument[length] != '=') {
    return NULL;
  }
  return argument + length + 1;
}

static int ReadNumber(const char* text, const char* flag, long least, long most,
                      long* number) {
  char* end = NULL;
  *number = strtol(text, &end, 10);
  if (end == text || *end != '\0' || *number < least || *number > most) {
    fprintf(stderr, "%s: want a number from %ld to %ld, got \"%s\"\n", flag,
            least, most, text);
    return 1;
  }
  return 0;
}

static int ReadCell(const char* text, size_t length, TimingCell* cell) {
  for (int i = 0; i < kTimingOperationCount; ++i) {
    const size_t name = strlen(kOperationNames[i]);
    if (length <= name || strncmp(text, kOperationNames[i], name) != 0 ||
        text[name] != ':') {
      continue;
    }
    char* end = NULL;
    const unsigned long long bytes = strtoull(text + name + 1, &end, 10);
    if (end != text + length || bytes == 0) break;
    cell->operation = (TimingOperation)i;
    cell->bytes = (size_t)bytes;
    return 0;
  }
  fprintf(stderr, "--cells: want all_reduce:1024 and the like, got \"%.*s\"\n",
          (int)length, text);
  return 1;
}

static int ReadCells(const char* text, TimingOptions* options) {
  options->cell_count = 0;
  for (;;) {
    if (options->cell_count == kTimingCellsMax) {
      fprintf(stderr, "--cells: want at most %d\n", kTimingCellsMax);
      return 1;
    }
    const size_t length = strcspn(text, ",");
    if (ReadCell(text, length, &options->cells[options->cell_count++])) {
      return 1;
    }
    if (text[length] == '\0') return 0;
    text += length + 1;
  }
}

static int ReadFlag(const char* argument, TimingOptions* options) {
  long number = 0;
  const char* value = NULL;
  if ((value = ValueOf(argument, "--rank"))) {
    if (ReadNumber(value, "--rank", 0, 4095, &number)) return 1;
    options->rank = (int)number;
  } else if ((value = ValueOf(argument, "--size"))) {
    if (ReadNumber(value, "--size", 1, 4096, &number)) return 1;
    options->size = (int)number;
  } else if ((value = ValueOf(argument, "--store"))) {
    options->store = value;
  } else if ((value = ValueOf(argument, "--memory"))) {
    options->memory = value;
  } else if ((value = ValueOf(argument, "--batches"))) {
    if (ReadNumber(value, "--batches", 1, kBatchesMax, &number)) return 1;
    options->batches = (int)number;
  } else if ((value = ValueOf(argument, "--batch-ms"))) {
    if (ReadNumber(value, "--batch-ms", 0, 60000, &number)) return 1;
    options->batch_seconds = 1e-3 * (double)number;
  } else if ((value = ValueOf(argument, "--cells"))) {
    return ReadCells(value, options);
  } else {
    fprintf(stderr, "unknown flag %s; timing.h lists them\n", argument);
    return 1;
  }
  return 0;
}

int TimingReadFlags(int argc, char** argv, TimingOptions* options) {
  memset(options, 0, sizeof(*options));
  options->size = 1;
  options->store = "";
  options->memory = "plain";
  options->batches = 10;
  options->batch_seconds = 0.02;
  for (int i = 1; i < argc; ++i) {
    if (ReadFlag(argv[i], options)) return 1;
  }
  if (options->rank >= options->size) {
    fprintf(stderr, "--rank: want less than --size=%d, got %d\n", options->size,
            options->rank);
    return 1;
  }
  return 0;
}

/* Element `index` of what `rank` gives: a hash, so that every rank knows it. */
static float Given(int rank, size_t index) {
  uint64_t bits =
      ((uint64_t)rank << 40) + (uint64_t)index + UINT64_C(0x9e3779b97f4a7c15);
  bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
  bits ^= bits >> 31;
  return (float)((int)(bits & 4095) - 2048) / 4096;
}

static float Summed(int size, size_t index) {
  float sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += Given(rank, index);
  return sum;
}

static size_t InCount(TimingOperation operation, size_t count, int size) {
  return operation == kTimingAllGather ? count / (size_t)size : count;
}

static size_t OutCount(TimingOperation operation, size_t count, int size) {
  return operation == kTimingReduceScatter ? count / (size_t)size : count;
}

/* Element `index` of the right result on `rank`. */
static float Wanted(TimingOperation operation, int rank, int size, size_t count,
                    size_t index) {
  const size_t part = count / (size_t)size;
  switch (operation) {
    case kTimingReduceScatter:
      return Summed(size, (size_t)rank * part + index);
    case kTimingAllGather:
      return Given((int)(index / part), index % part);
    case kTimingAllReduce:
    default:
      return Summed(size, index);
  }
}

static int CheckResult(const TimingStack* stack, TimingCell cell,
                       const char* variant, const float* out, size_t count) {
  const size_t wrote = OutCount(cell.operation, count, stack->size);
  for (size_t i = 0; i < wrote; ++i) {
    const float want =
        Wanted(cell.operation, stack->rank, stack->size, count, i);
    if (out[i] == want) continue;
    fprintf(stderr,
            "%s%s%s: %s of %zu bytes on rank %d of %d: element %zu: want %g, "
            "got %g\n",
            stack->name, *variant ? ", " : "", variant,
            kOperationNames[cell.operation], cell.bytes, stack->rank,
            stack->size, i, (double)want, (double)out[i]);
    return 1;
  }
  return 0;
}

static int TimeCalls(const TimingStack* stack, TimingCell cell, const float* in,
                     float* out, size_t count, long calls, double* seconds) {
  if (stack->barrier(stack->context)) return 1;
  const double start = Seconds();
  for (long i = 0; i < calls; ++i) {
    if (stack->call(stack->context, cell.operation, in, out, count)) return 1;
  }
  *seconds = Seconds() - start;
  return stack->largest(stack->context, seconds);
}

/* Doubles the calls until they make a batch, which also warms up. The fastest
 * try counts, because one that was interrupted says nothing. */
static int ChooseCalls(const TimingStack* stack, TimingCell cell,
                       const float* in, float* out, size_t count,
                       double batch_seconds, long* calls) {
  double fastest = 0; /* Of one call. */
  for (int tries = 1;; ++tries) {
    double seconds = 0;
    *calls = 1L << (tries - 1);
    if (TimeCalls(stack, cell, in, out, count, *calls, &seconds)) return 1;
    const double one = seconds / (double)*calls;
    if (tries == 1 || one < fastest) fastest = one;
    const double expected = fastest * (double)*calls;
    if (expected >= batch_seconds / 2 &&
        (tries >= kTriesMin || expected >= kTriesMin * batch_seconds)) {
      break;
    }
  }
  *calls = fastest < batch_seconds ? (long)(batch_seconds / fastest) + 1 : 1;
  return 0;
}

static int CompareSeconds(const void* left, const void* right) {
  const double a = *(const double*)left;
  const double b = *(const double*)right;
  return (a > b) - (a < b);
}

static double Median(const Batches* batches) {
  const int middle = batches->count / 2;
  return batches->count % 2
             ? batches->seconds[middle]
             : (batches->seconds[middle - 1] + batches->seconds[middle]) / 2;
}

static int TimeVariant(const TimingStack* stack, const TimingOptions* options,
                       TimingCell cell, const float* in, float* out,
                       size_t count, Batches* batches) {
  if (stack->barrier(stack->context) ||
      stack->call(stack->context, cell.operation, in, out, count) ||
      CheckResult(stack, cell, batches->variant, out, count) ||
      ChooseCalls(stack, cell, in, out, count, options->batch_seconds,
                  &batches->calls)) {
    return 1;
  }
  batches->count = options->batches;
  for (int i = 0; i < batches->count; ++i) {
    if (TimeCalls(stack, cell, in, out, count, batches->calls,
                  &batches->seconds[i])) {
      return 1;
    }
    batches->seconds[i] /= (double)batches->calls;
  }
  qsort(batches->seconds, (size_t)batches->count, sizeof(double),
        CompareSeconds);
  return 0;
}

static void PrintCell(const TimingStack* stack, TimingCell cell,
                      const Batches* batches) {
  printf(
      "{\"stack\": \"%s\", \"variant\": \"%s\", \"ranks\": %d, "
      "\"operation\": \"%s\", \"bytes\": %zu, \"calls\": %ld, "
      "\"batches\": %d, \"median_us\": %.4f, \"min_us\": %.4f, "
      "\"max_us\": %.4f}\n",
      stack->name, batches->variant, stack->size,
      kOperationNames[cell.operation], cell.bytes, batches->calls,
      batches->count, 1e6 * Median(batches), 1e6 * batches->seconds[0],
      1e6 * batches->seconds[batches->count - 1]);
  fflush(stdout);
}

static int TimeCell(const TimingStack* stack, const TimingOptions* options,
                    TimingCell cell, float* in, float* out) {
  static Batches best;
  static Batches batches;
  const size_t part = cell.bytes / sizeof(float) / (size_t)stack->size;
  const size_t count = part * (size_t)stack->size;
  const size_t in_count = InCount(cell.operation, count, stack->size);
  for (size_t i = 0; i < in_count; ++i) in[i] = Given(stack->rank, i);

  for (int variant = 0;; ++variant) {
    /* What was there before must not pass for a result. */
    memset(out, 0xff, count * sizeof(*out));
    batches.variant = "";
    if (stack->prepare) {
      batches.variant = stack->prepare(stack->context, cell.operation, variant,
                                       in, out, count);
    }
    if (!batches.variant || (variant > 0 && !stack->prepare)) break;
    if (TimeVariant(stack, options, cell, in, out, count, &batches)) return 1;
    if (variant == 0 || Median(&batches) < Median(&best)) best = batches;
  }
  if (stack->rank == 0) PrintCell(stack, cell, &best);
  return 0;
}

static float* Allocate(const TimingStack* stack, size_t bytes) {
  const size_t pages = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  void* memory = NULL;
  if (stack->allocate) {
    memory = stack->allocate(stack->context, pages / sizeof(float));
  } else if (posix_memalign(&memory, kPageBytes, pages)) {
    memory = NULL;
  }
  if (memory) {
    memset(memory, 0, pages);
  } else {
    fprintf(stderr, "%s: no memory of %zu bytes\n", stack->name, pages);
  }
  return memory;
}

int TimingRun(const TimingStack* stack, const TimingOptions* options) {
  size_t bytes_max = 0;
  for (size_t i = 0; i < options->cell_count; ++i) {
    const size_t bytes = options->cells[i].bytes;
    if (bytes < sizeof(float) * (size_t)stack->size) {
      fprintf(stderr, "--cells: want an element for each of %d ranks\n",
              stack->size);
      return 1;
    }
    if (bytes > bytes_max) bytes_max = bytes;
  }
  float* in = Allocate(stack, bytes_max);
  float* out = Allocate(stack, bytes_max);
  int result = !in || !out;
  for (size_t i = 0; !result && i < options->cell_count; ++i) {
    result = TimeCell(stack, options, options->cells[i], in, out);
  }
  if (!stack->allocate) {
    free(in);
    free(out);
  }
  return result;
}
