// The order in which one stage of a pipeline runs its forwards and backwards:
// one forward, one backward ("1F1B"), plain and interleaved.
//
// In this file
//   P        stages
//   chunk    the layers of one stage that follow one another; with V chunks a
//            stage, chunk c of stage s is the (c P + s)-th in the model
//   passage  one micro-batch through one chunk, in one direction
//
// Source       Narayanan et al. 2021, "Efficient large-scale language model
//              training on GPU clusters", section 2.2.

#ifndef TESTING_PIPELINE_SCHEDULE_H_
#define TESTING_PIPELINE_SCHEDULE_H_

#include <cstdint>
#include <vector>

namespace muonshard::testing {

struct PipelineShape {
  int32_t stages = 2;
  int32_t chunks = 1;  // Of each stage.
  // A multiple of the stages if there are several chunks.
  int32_t micro_batches = 1;
};

struct Passage {
  bool forward = true;
  int32_t chunk = 0;
  int32_t micro_batch = 0;

  bool operator==(const Passage&) const = default;
};

// Every passage of `stage`, each once, micro-batches of a chunk in order.
std::vector<Passage> OneForwardOneBackward(const PipelineShape& shape,
                                           int32_t stage);

}  // namespace muonshard::testing

#endif  // TESTING_PIPELINE_SCHEDULE_H_
