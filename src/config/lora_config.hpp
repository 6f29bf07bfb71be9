#pragma once
// train.lora: low-rank adapters (E. Hu et al. 2021, "LoRA: low-rank adaptation of large language models",
// arXiv:2106.09685).
#include "base/units.hpp"

#include <string>
#include <vector>

namespace trivium {

/// With a rank, weights W [in,out] that `targets` names compute x W + s (dropout(x) A) B, with A [in,rank]
/// and B [rank,out]; A, B and what `train` names are trained, all other parameters are frozen.
struct LoraConfig {
    i64 rank = 0;                     ///< 0: no adapters
    double alpha = 0;                 ///< s = alpha / rank; 0: twice the rank
    bool rank_stable = false;         ///< s = alpha / sqrt(rank) (rsLoRA, arXiv:2312.03732)
    double dropout = 0;               ///< of x
    bool magnitudes = false;          ///< DoRA (arXiv:2402.09353): a trained length per column of W + s A B
    std::vector<std::string> targets; ///< patterns of parameters; empty: all matrices of layers but routers
    std::vector<std::string> train;   ///< patterns of parameters that are trained as a whole

    bool operator==(const LoraConfig&) const = default;

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("rank", self.rank);
        visit("alpha", self.alpha);
        visit("rank_stable", self.rank_stable);
        visit("dropout", self.dropout);
        visit("magnitudes", self.magnitudes);
        visit("targets", self.targets);
        visit("train", self.train);
    }
};

} // namespace trivium
