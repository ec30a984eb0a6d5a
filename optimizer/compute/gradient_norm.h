// The global norm of all gradients, and the factor that clips it.
//
// Each run of gradients (one unit of a Muon parameter; a run of whole chunks of
// an element-wise one) is cut into chunks of kSquaresChunkCount elements from
// its own start. Units and chunks follow from global shapes alone, so the sum,
// the norm and the factor have the same bits for any number of ranks.

#ifndef OPTIMIZER_COMPUTE_GRADIENT_NORM_H_
#define OPTIMIZER_COMPUTE_GRADIENT_NORM_H_

#include <cstdint>

#include "collectives/data_type.h"
#include "optimizer/compute/exact_sum.h"

namespace muonshard {

// Adds the squares of one run of `count` gradients to `squares`. Returns the
// number of them that are infinite or NaN; their chunks are left out.
int64_t AddSquares(DataType type, const void* gradients, int64_t count,
                   ExactSum& squares);

// The square root of the sum, divided by what the loss was multiplied by; fp64,
// each rounded once. With a loss scale that is a power of two the division is
// exact: the norm has the bits of the one without a loss scale, as far as
// gradients that are scaled keep theirs.
double GlobalNorm(const ExactSum& squares, double loss_scale = 1);

// min(1, clip_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ has it;
// 1 if `clip_norm` is 0, which means no clipping.
double ClipFactor(double norm, double clip_norm);

// What reduced gradients are multiplied by, in one: the clip factor over the
// loss scale; fp64.
double GradientFactor(double clip_factor, double loss_scale);

// Whether f32 holds that factor and what it makes of gradients whose norm is
// `norm`, as GlobalNorm has it. If not, good gradients could become infinite
// (a loss scale far below 1) or zero (one far above, and a clip). True without
// a loss scale, where a factor of at most 1 is what was asked for.
bool GradientFactorFits(double norm, double clip_factor, double loss_scale);

}  // namespace muonshard

#endif  // OPTIMIZER_COMPUTE_GRADIENT_NORM_H_
