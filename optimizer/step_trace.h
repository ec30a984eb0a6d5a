// What one rank did when, for trace files and for measuring.

#ifndef OPTIMIZER_STEP_TRACE_H_
#define OPTIMIZER_STEP_TRACE_H_

#include <cstdint>
#include <functional>

#include "absl/time/time.h"

namespace muonshard {

enum class SpanKind : uint8_t {
  kReduction,  // Of a bucket: from its launch to the end of its last level.
  kControl,    // The control all-reduces: from their launch to their end.
  kUpdate,     // Of a part: the update rules of the own segments.
  kGather,     // Of a bucket: from its launch to the end.
  kWait,       // The program waited for another rank: exposed communication.
};

struct StepSpan {
  SpanKind kind = SpanKind::kReduction;
  int64_t step = 0;
  int32_t index = 0;  // Bucket of kReduction and kGather, part of kUpdate.
  absl::Time begin = absl::UnixEpoch();
  absl::Time end = absl::UnixEpoch();
  // Of kUpdate: the share that Newton-Schulz batches took.
  absl::Duration newton_schulz = absl::ZeroDuration();
};

// Called from any task, also from several at once; must not block,
// nor call the optimizer.
using StepTraceSink = std::function<void(const StepSpan&)>;

}  // namespace muonshard

#endif  // OPTIMIZER_STEP_TRACE_H_
