#pragma once
// An independent implementation of both families: double, one sequence after another, every product a triple
// loop, every backward pass written by hand. It shares no code with Trivium, so both cannot have the same
// error in the same function.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace reference {

using Vector = std::vector<double>;
using Tensors = std::map<std::string, Vector>; ///< by global parameter name, row-major
using Ids = std::vector<std::int32_t>;

struct Model {
    bool llama = true; ///< otherwise GPT-2
    int layers = 1, dim = 8, heads = 2, kv_heads = 2, ffn = 16, vocab = 11, seq = 4;
    bool tied = false;
    double theta = 10000, eps = 1e-5;
    double factor = 1, low_freq_factor = 1, high_freq_factor = 4, original_seq = 8192; ///< Llama 3's scaling
    double z_loss = 0, smoothing = 0, dropout = 0;
    /// Whether dropout keeps an element. Places: 0 the embeddings, 2n + 2 attention of layer n, 2n + 3 its
    /// feed-forward block.
    std::function<bool(int place, std::int64_t sample, int token, int column)> keeps{};
    int head_dim() const { return dim / heads; }
};

/// Number of values of each parameter, by name.
std::map<std::string, std::size_t> parameter_sizes(const Model& model);

struct Result {
    double loss_sum = 0; ///< over the counted tokens
    double tokens = 0;   ///< number of counted tokens
    Tensors gradients;   ///< of loss_sum
    Vector logits;       ///< [rows, seq, vocab]
};

/// `tokens` and `targets` are [rows, seq]; a target below 0 is ignored. Row 0 is sample `first`.
Result run(const Model& model, const Tensors& parameters, const Ids& tokens, const Ids& targets,
           std::int64_t first = 0);

} // namespace reference
