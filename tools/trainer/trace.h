// A run as a Chrome trace, which ui.perfetto.dev opens.
//
// Each rank is a process. Its rows: what the program does (forward, backward,
// finish), what it waits for, the control all-reduces, the update parts, and
// for each bucket one row of reductions and one of gathers, since those of
// different buckets overlap.

#ifndef TOOLS_TRAINER_TRACE_H_
#define TOOLS_TRAINER_TRACE_H_

#include <span>
#include <string>

#include "tools/trainer/step_meter.h"

namespace muonshard {

// JSON. Times count from the earliest span.
std::string TraceJson(std::span<const ProgramSpan> program_spans,
                      std::span<const RankSpan> rank_spans);

}  // namespace muonshard

#endif  // TOOLS_TRAINER_TRACE_H_
