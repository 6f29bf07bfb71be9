#pragma once
// The modules of a model that PEFT adapts, and our weights in them.
#include "config/trained_parameters.hpp"
#include "io/hugging_face/hugging_face.hpp"

#include <algorithm>

namespace trivium {

inline constexpr const char *peft_prefix = "base_model.model.", *adapter_config_file = "adapter_config.json",
                            *adapter_file = "adapter_model.safetensors";

/// One of our weights in a module of theirs.
struct PeftPart {
    ModelParameter weight;
    i64 expert = -1; ///< of a tensor of one expert; -1: the whole weight
    i64 in = 0, out = 0;
    bool adapted = false;
    std::vector<std::pair<i64, i64>> columns; ///< of `out`: ours, theirs; for each run the first
    std::vector<i64> counts;                  ///< of the runs
};

/// A linear layer or an embedding of theirs.
struct PeftModule {
    std::string name; ///< "model.layers.0.self_attn.q_proj"
    bool is_table = false;
    std::vector<PeftPart> parts;
    i64 in = 0, out = 0;

    i64 adapted() const { return std::ranges::count_if(parts, &PeftPart::adapted); }
};

/// Those with a weight of two dimensions. Experts in one tensor have none.
std::vector<PeftModule> modules_of(const ModelConfig& model, const TrainedParameters& trained,
                                   const Architecture& architecture);

/// Calls visit(ours, theirs) for each column of a part.
template <class Visit>
void each_column(const PeftPart& part, Visit&& visit)
{
    for (std::size_t run = 0; run < part.columns.size(); ++run)
        for (i64 i = 0; i < part.counts[run]; ++i)
            visit(part.columns[run].first + i, part.columns[run].second + i);
}

} // namespace trivium
