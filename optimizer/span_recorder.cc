#include "optimizer/span_recorder.h"

#include <utility>

#include "absl/status/status.h"

namespace muonshard {

SpanRecorder::SpanRecorder(Runtime& runtime, StepTraceSink sink)
    : runtime_(runtime),
      sink_(std::move(sink)),
      mutex_(runtime.NewMutex()),
      reported_(runtime.NewCondition()) {}

SpanRecorder::~SpanRecorder() {
  MutexLock lock(*mutex_);
  while (due_ > 0) reported_->Wait(*mutex_, absl::InfiniteFuture());
}

void SpanRecorder::Record(SpanKind kind, int64_t step, int32_t index,
                          absl::Time begin, absl::Duration newton_schulz) {
  if (!on()) return;
  sink_({.kind = kind,
         .step = step,
         .index = index,
         .begin = begin,
         .end = runtime_.Now(),
         .newton_schulz = newton_schulz});
}

void SpanRecorder::RecordUntilDone(const Work& work, SpanKind kind,
                                   int64_t step, int32_t index,
                                   absl::Time begin) {
  if (!on()) return;
  {
    MutexLock lock(*mutex_);
    ++due_;
  }
  work.event().Then([this, kind, step, index, begin](const absl::Status&) {
    Record(kind, step, index, begin);
    // Notified under the mutex: after it this object may be gone.
    MutexLock lock(*mutex_);
    --due_;
    reported_->NotifyAll();
  });
}

}  // namespace muonshard
