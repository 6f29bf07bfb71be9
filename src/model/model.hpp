#pragma once
// A ModelConfig as a forward graph, with the loss or with a KV cache.
//
// Shapes: b sequences, s tokens each, d model width, g key-value heads, r query heads per key-value head,
// e head size, u value head size, f feed-forward width, v vocabulary size, x experts, h their width, w that
// of shared experts; with latents c, l, n and p as in config/model_parameters.hpp. Parameters by global name
// (all row-major):
//
//     embed.weight [v,d]; head.weight [v,d] if untied; positions.weight [seq,d] if learned
//     final_norm.weight [d]; layers.N.attn_norm.weight and .ffn_norm.weight [d] unless norms are `post`,
//         .attn_post_norm.weight and .ffn_post_norm.weight [d] with `post` and `sandwich`
//     layers.N.attn.q.weight [d,g,r,e], .k.weight [d,g,e], .v.weight [d,g,u], .o.weight [g,r,u,d]
//     with latents .q.weight [d,g,r,e] or [l,g,r,e] after .q_down.weight [d,l] and .q_latent_norm.weight [l],
//         .k.weight [c,g,n], .v.weight [c,g,u] after .kv_down.weight [d,c] and .kv_latent_norm.weight [c],
//         .k_rope.weight [d,p]
//     layers.N.attn.q_norm.weight [e], or over the width [g,r,e]; .k_norm.weight [e] or [g,e]; .sinks [g,r]
//     layers.N.ffn.up.weight [d,f], .down.weight [f,d]; gated also .gate.weight [d,f]
//     in layers with experts instead: layers.N.ffn.router.weight [d,x], .router.bias [x], .router.balance
//     [x];
//         .experts.up.weight [x,d,h], .experts.down.weight [x,h,d], gated also .experts.gate.weight [x,d,h],
//         with .bias [x,h], [x,d], [x,h]; .shared.up.weight [d,w], .shared.down.weight [w,d],
//         .shared.gate.weight [d,w]
//     and a .bias of each LayerNorm, and of the products that have one (config/model_parameters.hpp)
#include "config/trained_parameters.hpp"
#include "ir/builder.hpp"

#include <array>

namespace trivium {

/// The mesh axes that shard the model's dimensions (Megatron-LM, arXiv:1909.08053, and its sequence
/// parallelism, arXiv:2205.05198); empty: none.
struct ModelAxes {
    std::vector<std::string> batch; ///< major first
    std::string tensor;             ///< heads, feed-forward width and vocabulary
    bool sequence = false; ///< tensors between the tensor-parallel products are sharded along the sequence
    bool split_queries = false; ///< shard the query heads of each key-value head, not the key-value heads
    /// The sequence, major first, and in attention heads instead (Ulysses, arXiv:2309.14509): the fastest of
    /// the axes that share a sequence.
    std::vector<std::string> context, context_heads;
    i64 context_ranks = 1; ///< along `context`
    /// Groups of tokens, one per rank that has tokens of its own: along b and along s.
    std::array<i64, 2> token_groups{1, 1};
    /// Ranks that share the experts of a layer, and their axis, the fastest part of those that share tokens.
    i64 expert_ranks = 1;
    std::string experts;
    double expert_buffer = 0;    ///< ParallelConfig::expert_buffer
    bool drops_overflow = false; ///< rows beyond it are dropped, otherwise refused
};

/// What only a training has; zeros: nothing.
struct Regularisers {
    double dropout = 0;         ///< rate
    i64 seed = 0;               ///< of what dropout keeps
    double z_loss = 0;          ///< coefficient
    double label_smoothing = 0; ///< epsilon
    double balance_loss = 0;    ///< coefficient, of the loads of experts
    double router_z_loss = 0;   ///< coefficient
    double balance_rate = 0;    ///< by which a step changes balance biases
    double adapter_dropout = 0; ///< rate
};

/// How a graph computes.
struct GraphConfig {
    i64 batch = 1;              ///< sequences per microbatch
    DType compute = DType::f32; ///< activations and products
    DType master = DType::f32;  ///< parameters as they are stored; frozen ones are in the compute type
    ModelAxes axes{};
    bool fp8 = false;       ///< the products of the blocks round their operands to FP8
    bool documents = false; ///< attention stays within documents
    TrainedParameters trained{};
    Regularisers regularisers{};
    bool loads = false;   ///< with the loads of experts, as outputs
    bool metrics = false; ///< with what an evaluation of a program averages (model/program.hpp)
    i64 shown = 0;        ///< of how many samples it outputs the slices of ModelProgram::shown
};

/// Of a program build_program_graph(). Of a transformer: microbatch inputs `tokens`, `targets`, `positions`
/// (i32[b,s]); a target below 0 is ignored. With documents also `starts`: for each token the index in its
/// sequence of its document's first token; with dropout `samples` (i32[b,2]). Few values are annotated with a
/// sharding; complete_annotations() (passes/sharding/propagate.hpp) completes the others. The loss per token
/// is `loss` (accumulator type [b,s]); step outputs `loss_sum` and `token_count` (f64[], carried). With
/// `loads` follow, for each layer with experts, the slots of its most loaded expert, of all microbatches, and
/// with expert_capacity the slots that were not dropped, with drops_overflow the rows that were (f64[]).
Graph build_loss_graph(const ModelConfig& model, const GraphConfig& config);

/// What a decode graph computes for each sequence.
struct DecodeShape {
    i64 queries = 1;       ///< new tokens
    i64 capacity = 0;      ///< tokens of the KV cache
    bool all_rows = false; ///< the logits of every new token, not of one
};

/// Next-token logits of q = shape.queries tokens per sequence with a KV cache; parameters are in the compute
/// type, and `config.fp8` is ignored. Inputs `tokens`, `positions` (i32[b,q]), `start` (i32[b]: tokens in the
/// cache before this call) and, without all_rows, `last` (i32[b]: the new token whose logits are requested).
/// Output `logits` [b,v] or [b,q,v]. Caches `layers.N.attn.k_cache`, `.v_cache`
/// [b,capacity,g,e]; with latents `.latent_cache` [b,capacity,1,c+p].
Graph build_decode_graph(const ModelConfig& model, const GraphConfig& config, const DecodeShape& shape);

} // namespace trivium
