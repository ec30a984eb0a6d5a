// Reports the spans of a step to a sink, also those that end elsewhere.
//
// Threads    All methods from any task.
// Lifetime   The destructor waits for the reports that are due, so the sink is
//            never called after it. Works that are recorded have ended by then.

#ifndef OPTIMIZER_SPAN_RECORDER_H_
#define OPTIMIZER_SPAN_RECORDER_H_

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "collectives/runtime/runtime.h"
#include "collectives/work.h"
#include "optimizer/step_trace.h"

namespace muonshard {

class SpanRecorder {
 public:
  // `sink` may be empty: then nothing is recorded.
  SpanRecorder(Runtime& runtime, StepTraceSink sink);
  ~SpanRecorder();
  SpanRecorder(const SpanRecorder&) = delete;
  SpanRecorder& operator=(const SpanRecorder&) = delete;

  bool on() const { return static_cast<bool>(sink_); }

  // A span that has ended now.
  void Record(SpanKind kind, int64_t step, int32_t index, absl::Time begin,
              absl::Duration newton_schulz = absl::ZeroDuration());

  // A span that ends when `work` does.
  void RecordUntilDone(const Work& work, SpanKind kind, int64_t step,
                       int32_t index, absl::Time begin);

 private:
  Runtime& runtime_;
  const StepTraceSink sink_;
  const std::unique_ptr<Mutex> mutex_;
  const std::unique_ptr<Condition> reported_;
  int64_t due_ = 0;  // Reports that works still owe; guarded by mutex_.
};

}  // namespace muonshard

#endif  // OPTIMIZER_SPAN_RECORDER_H_
