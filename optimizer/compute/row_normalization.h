// NorMuon's normalization: every neuron of an update gets about the same share
// of it.
//
// In this file
//   O        the orthogonal factor of a block, [rows, cols], row-major
//   neuron   what makes one output: a row of O where fan-out is dimension 0, a
//            column where it is dimension 1. It has n weights, and a moment v
//            that is 0 at first.
//
// Result     For each neuron i, whose weights are O_ij:
//              v_i  = beta2 v_i + (1 - beta2) mean_j(O_ij^2)
//              P_ij = O_ij / (sqrt(v_i) + epsilon)
//            and then O = P |O| / |P|, where |.| is the Frobenius norm. Zero in
//            gives zero out.
//            Li et al., "NorMuon: Making Muon more efficient and scalable",
//            arXiv 2510.05491, Algorithm 1. There the last factor is
//            0.2 sqrt(rows cols) / |P|; the norm is kept here, as in the
//            authors' own code (github.com/zichongli5/NorMuon), so that a scale
//            rule means the same with it and without.
// Numerics   Sums are f64 in an order that the shape alone decides; v is f32.

#ifndef OPTIMIZER_COMPUTE_ROW_NORMALIZATION_H_
#define OPTIMIZER_COMPUTE_ROW_NORMALIZATION_H_

#include <cstdint>
#include <span>

namespace muonshard {

// A block that is normalized; borrows its matrix.
struct NeuronBlock {
  std::span<float> matrix;  // [rows, cols]
  int64_t rows = 0;
  int64_t cols = 0;
  int32_t fan_out_dimension = 0;  // As in ParameterSpec.

  int64_t neuron_count() const { return fan_out_dimension == 0 ? rows : cols; }
  int64_t weight_count() const { return fan_out_dimension == 0 ? cols : rows; }
};

// `moments` has one value for each neuron.
void NormalizeRows(const NeuronBlock& block, double beta2, double epsilon,
                   std::span<float> moments);

}  // namespace muonshard

#endif  // OPTIMIZER_COMPUTE_ROW_NORMALIZATION_H_
