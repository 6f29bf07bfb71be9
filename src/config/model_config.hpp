#pragma once
// [model]: the shape of a transformer, and the options of its blocks; or a program of the user's own.
#include "base/activation.hpp"
#include "base/rope_angles.hpp"
#include "config/keys.hpp"
#include "config/model_program.hpp"

namespace trivium {

/// A family is a set of values of the options below (families.cpp), no more: graphs depend on the options.
/// Except the last: `graph` is a program from a file (ModelConfig::program), which has none of them.
enum class Family {
    llama,
    gpt2,
    mistral,
    qwen2,
    qwen3,
    olmo2,
    olmo3,
    gemma2,
    gemma3,
    phi3,
    neox,
    starcoder2,
    granite,
    smollm3,
    mixtral,
    qwen3_moe,
    olmoe,
    gpt_oss,
    deepseek2,
    deepseek3,
    graph
};
template <>
inline constexpr std::array<std::string_view, 21> names_of_enum<Family>{
    "llama",   "gpt2",      "mistral", "qwen2",   "qwen3",      "olmo2",     "olmo3",
    "gemma2",  "gemma3",    "phi3",    "neox",    "starcoder2", "granite",   "smollm3",
    "mixtral", "qwen3-moe", "olmoe",   "gpt-oss", "deepseek2",  "deepseek3", "graph"};
/// Families that are transformers: the first ones.
inline constexpr std::size_t transformer_families = names_of_enum<Family>.size() - 1;

enum class NormKind { rms, layer };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<NormKind>{"rms", "layer"};

/// Where an RMSNorm rounds to the compute type: the normed value and then its product with the weight, or
/// only the product.
enum class NormRounding { before_weight, after_weight };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<NormRounding>{"before-weight", "after-weight"};

/// Where a layer has norms, with its parts f: x + f(norm(x)); x + norm(f(x)); x + norm(f(norm(x))); or
/// x + attention(norm(x)) + ffn(norm(x)).
enum class Placement { pre, post, sandwich, parallel };
template <>
inline constexpr std::array<std::string_view, 4> names_of_enum<Placement>{"pre", "post", "sandwich",
                                                                          "parallel"};

/// Norms of queries and keys before their rotation: of each head, or over all heads together.
enum class QkNorm { none, head, width };
template <>
inline constexpr std::array<std::string_view, 3> names_of_enum<QkNorm>{"none", "head", "width"};

enum class Positions { rotary, learned };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<Positions>{"rotary", "learned"};

/// The pairs that rotate: dimensions j and j + n/2 of the n that do, or 2j and 2j + 1.
enum class RotaryLayout { half, interleaved };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<RotaryLayout>{"half", "interleaved"};

/// What the attention of a layer sees of the tokens before a query: all, the last `window`, or those of the
/// same `chunk`.
enum class LayerKind { full, sliding, chunked };
template <>
inline constexpr std::array<std::string_view, 3> names_of_enum<LayerKind>{"full", "sliding", "chunked"};

/// The scores of a router, from its logits.
enum class RouterScores { softmax, sigmoid };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<RouterScores>{"softmax", "sigmoid"};

/// The score of a group of experts: the largest of its experts' scores, or the sum of the two largest.
enum class GroupScore { max, top2 };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<GroupScore>{"max", "top2"};

struct ModelConfig {
    std::string preset{};
    Family family = Family::llama;
    std::string file{};   ///< of family `graph`
    NamedNumbers sizes{}; ///< of `file`, in place of those that it declares
    i64 layers = 2;
    i64 dim = 64;
    i64 heads = 4;
    i64 kv_heads = 0; ///< 0: as many as heads
    i64 head_dim = 0; ///< 0: dim / heads
    i64 ffn_dim = 0;  ///< 0: 8/3 dim rounded up to 64 (gated), 4 dim (not gated)
    i64 vocab = 0;    ///< 0: the tokenizer's
    i64 seq = 128;
    bool tied_embeddings = false;
    NormKind norm = NormKind::rms;
    NormRounding norm_rounding = NormRounding::after_weight;
    bool norm_offset = false; ///< norms multiply by 1 + weight
    double norm_eps = 1e-5;
    Placement placement = Placement::pre;
    QkNorm qk_norm = QkNorm::none;
    i64 q_latent = 0;           ///< 0: queries are products of x itself
    i64 kv_latent = 0;          ///< 0: keys and values are products of x itself
    i64 rope_head_dim = 0;      ///< with kv_latent; 0: a third of head_dim, rounded down to an even number
    i64 v_head_dim = 0;         ///< 0: head_dim, with kv_latent without what rotates
    double latent_norm_eps = 0; ///< 0: norm_eps
    bool qkv_bias = false;
    bool o_bias = false;
    bool ffn_bias = false;
    Positions positions = Positions::rotary;
    double rotary_part = 1; ///< of head_dim
    RotaryLayout rotary_layout = RotaryLayout::half;
    double rope_theta = 500000;
    double local_rope_theta = 0; ///< of sliding layers; 0: rope_theta
    RopeScaling rope_scaling{};
    bool scale_local = true;                ///< rope_scaling is for sliding layers, too
    std::vector<i64> rotary_pattern{};      ///< by layer, repeated; empty: all layers rotate
    std::vector<LayerKind> layer_pattern{}; ///< by layer, repeated; empty: kind_of_layer() says which
    i64 window = 0;
    i64 chunk = 0;
    double attention_scale = 0; ///< 0: scale_of_attention() has the rule
    double attention_cap = 0;   ///< 0: none
    bool attention_sinks = false;
    double embedding_scale = 1; ///< 0: sqrt(dim)
    double residual_scale = 1;
    double logit_divisor = 1;
    double logit_cap = 0; ///< 0: none
    i64 base_dim = 0;     ///< 0: initial weights and rates do not depend on the width
    i64 base_layers = 0;  ///< 0: nor on the depth
    Activation activation = Activation::silu;
    bool gated = true;
    i64 experts = 0; ///< 0: the feed-forward blocks are dense
    i64 expert_slots = 2;
    i64 expert_dim = 0;   ///< 0: ffn_dim
    i64 shared_dim = 0;   ///< 0: no shared experts
    i64 dense_layers = 0; ///< the first ones, of width ffn_dim
    bool router_bias = false;
    RouterScores router_scores = RouterScores::softmax;
    bool router_normalised = true;
    double router_scale = 1;
    i64 router_groups = 1;
    i64 router_top_groups = 1;
    GroupScore router_group_score = GroupScore::max;
    bool balance_bias = false;
    double expert_capacity = 0; ///< 0: no slot is dropped
    double dropout = 0;
    ModelProgram program{}; ///< not a key: of family `graph`, the content of `file`

    bool is_program() const { return family == Family::graph; }
    /// Whether layer `layer` (from 0) has experts.
    bool has_experts(i64 layer) const { return experts > 0 && layer >= dense_layers; }
    /// What a run counts, in its reports.
    const char* units() const { return is_program() ? "samples" : "tokens"; }
    /// Units of pipeline stages: the embedding, the layers, the head; or the blocks of the program.
    i64 blocks() const { return is_program() ? program.blocks : layers + 2; }
    /// Blocks that may recompute.
    i64 repeated() const { return is_program() ? program.blocks : layers; }

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("preset", self.preset, KeyKind::free, "a named shape; every other key overrides it");
        visit("family", self.family, KeyKind::free,
              "a published block, as values of the keys from `norm` on; these override it, and it overrides "
              "those of `preset`. \"graph\": the program in `file` instead of a transformer");
        visit("file", self.file, KeyKind::free,
              "with family = \"graph\": a program of tensor ops with inputs, parameters and a scalar output "
              "`loss` (docs/graphs.md); the other keys of [model] do not apply");
        visit("sizes", self.sizes, KeyKind::free,
              "with family = \"graph\": numbers in place of those that the file's lines `size` declare, as a "
              "table [model.sizes] such as width = 512; the number of samples, b, follows from [train]");
        visit("layers", self.layers, KeyKind::shape, "number of transformer blocks");
        visit("dim", self.dim, KeyKind::shape, "width of the residual stream");
        visit("heads", self.heads, KeyKind::forward, "query heads; must divide dim, unless head_dim is set");
        visit("kv_heads", self.kv_heads, KeyKind::forward,
              "key-value heads (grouped-query attention); 0 = as many as heads");
        visit("head_dim", self.head_dim, KeyKind::forward,
              "width of a head of queries and keys; 0 = dim / heads");
        visit("ffn_dim", self.ffn_dim, KeyKind::shape,
              "hidden width of the feed-forward block; 0 = 8/3 dim rounded up to 64 (gated), 4 dim (not "
              "gated)");
        visit("vocab", self.vocab, KeyKind::shape, "vocabulary size in tokens; 0 = that of the tokenizer");
        visit("seq", self.seq, KeyKind::training, "tokens per sequence");
        visit("tied_embeddings", self.tied_embeddings, KeyKind::forward,
              "share the token embedding with the output head");
        visit("norm", self.norm, KeyKind::forward, "RMSNorm, or LayerNorm with a bias");
        visit("norm_rounding", self.norm_rounding, KeyKind::forward,
              "where an RMSNorm in bf16 rounds: the normed value and its product with the weight, or the "
              "product alone");
        visit("norm_offset", self.norm_offset, KeyKind::forward,
              "norms multiply by 1 + weight; weights begin at 0");
        visit("norm_eps", self.norm_eps, KeyKind::forward, "constant added to the variance in norms");
        visit("placement", self.placement, KeyKind::forward,
              "norms of a layer: before attention and feed-forward block (pre), after them (post), both "
              "(sandwich), or before both, which read the same x and are added to it together (parallel)");
        visit("qk_norm", self.qk_norm, KeyKind::forward,
              "norms of queries and keys before their rotation: none, of each head, or over the width of all "
              "heads");
        visit("q_latent", self.q_latent, KeyKind::forward,
              "with kv_latent: width of a vector per token, a product of x with an RMSNorm, of which queries "
              "are "
              "products; 0 = they are products of x");
        visit("kv_latent", self.kv_latent, KeyKind::forward,
              "the same for keys and values (multi-head latent attention, DeepSeek V2), whose KV cache has "
              "these "
              "vectors alone, with a key that rotates and that all heads share; 0 = products of x");
        visit("rope_head_dim", self.rope_head_dim, KeyKind::forward,
              "with kv_latent: dimensions of a head that rotate, the first ones, whose keys all heads share; "
              "0 = a "
              "third of head_dim, rounded down to an even number");
        visit("v_head_dim", self.v_head_dim, KeyKind::forward,
              "width of a head's values; 0 = head_dim, with kv_latent head_dim - rope_head_dim");
        visit("latent_norm_eps", self.latent_norm_eps, KeyKind::forward,
              "norm_eps of the norms of q_latent and kv_latent; 0 = norm_eps");
        visit("qkv_bias", self.qkv_bias, KeyKind::forward,
              "biases of the products for q, k and v; with kv_latent, of those that make the vectors of "
              "q_latent "
              "and kv_latent and the shared key");
        visit("o_bias", self.o_bias, KeyKind::forward, "bias of the product after attention");
        visit("ffn_bias", self.ffn_bias, KeyKind::forward, "biases of the feed-forward block");
        visit("positions", self.positions, KeyKind::forward,
              "rotary embeddings, or a learned vector for each of seq positions");
        visit("rotary_part", self.rotary_part, KeyKind::forward,
              "part of each head that rotates: its first dimensions");
        visit("rotary_layout", self.rotary_layout, KeyKind::forward,
              "pairs that rotate: dimensions of the first and the second half, or neighbours (interleaved)");
        visit("rope_theta", self.rope_theta, KeyKind::forward, "base of the rotary frequencies");
        visit("local_rope_theta", self.local_rope_theta, KeyKind::forward,
              "the same in sliding layers; 0 = rope_theta");
        visit("rope_scaling", self.rope_scaling, KeyKind::forward,
              "scaling of the rotary frequencies: \"none\", \"llama3\", Llama 3's [factor, low_freq_factor, "
              "high_freq_factor, original_seq], or a table {kind = \"yarn\", factor = 8, ...} whose kind is "
              "linear, dynamic, yarn, longrope or llama3, with original_seq, low_freq_factor, "
              "high_freq_factor, beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim, truncate, "
              "short_factors and long_factors");
        visit("scale_local", self.scale_local, KeyKind::forward, "rope_scaling is for sliding layers, too");
        visit("rotary_pattern", self.rotary_pattern, KeyKind::forward,
              "by layer, repeated over the layers: 1 = rotary embeddings, 0 = none; empty = 1 in all");
        visit("layer_pattern", self.layer_pattern, KeyKind::forward,
              "by layer, repeated over the layers: what attention sees, \"full\", \"sliding\" (window) or "
              "\"chunked\" (chunk); empty = sliding if window > 0, else chunked if chunk > 0, else full");
        visit("window", self.window, KeyKind::forward,
              "tokens that attention in sliding layers sees, with the query's own; 0 = none are sliding");
        visit("chunk", self.chunk, KeyKind::forward,
              "tokens per chunk: attention in chunked layers sees those of the query's chunk; 0 = none are "
              "chunked");
        visit("attention_scale", self.attention_scale, KeyKind::forward,
              "factor of the products of queries and keys; 0 = 1 / sqrt(head_dim), with kv_latent and "
              "rope_scaling "
              "of kind \"yarn\" times (0.1 mscale_all_dim ln(factor) + 1)^2");
        visit("attention_cap", self.attention_cap, KeyKind::forward,
              "attention scores s become cap * tanh(s / cap); 0 = no cap");
        visit("attention_sinks", self.attention_sinks, KeyKind::forward,
              "a learned score per head to which no value belongs");
        visit("embedding_scale", self.embedding_scale, KeyKind::forward,
              "factor of token embeddings, rounded to the compute type; 0 = sqrt(dim)");
        visit("residual_scale", self.residual_scale, KeyKind::forward,
              "factor of what attention and feed-forward block add");
        visit("logit_divisor", self.logit_divisor, KeyKind::forward, "divisor of the logits");
        visit("logit_cap", self.logit_cap, KeyKind::forward,
              "logits s become cap * tanh(s / cap); 0 = no cap");
        visit("base_dim", self.base_dim, KeyKind::forward,
              "width of a smaller model whose learning rate is good for this one, too: initial weights, "
              "learning rates and logits scale with dim / base_dim (muP); 0 = they do not");
        visit("base_layers", self.base_layers, KeyKind::forward,
              "its layers: what layers add scales with base_layers / layers (CompleteP); 0 = it does not");
        visit(
            "activation", self.activation, KeyKind::forward,
            "function of the feed-forward block; gelu is exact, relu2 is relu(x)^2, clipped that of gpt-oss, "
            "which needs gated = true");
        visit("gated", self.gated, KeyKind::forward,
              "the feed-forward block multiplies its activations by a second product");
        visit("experts", self.experts, KeyKind::shape,
              "experts of the feed-forward blocks, of which a router chooses some for each token (mixture of "
              "experts); 0 = one dense block for all tokens");
        visit("expert_slots", self.expert_slots, KeyKind::forward,
              "with experts: how many each token goes to; their weighted sum is the block's result");
        visit("expert_dim", self.expert_dim, KeyKind::shape, "hidden width of an expert; 0 = ffn_dim");
        visit("shared_dim", self.shared_dim, KeyKind::shape,
              "with experts: hidden width of a dense block for all tokens that is added to them (shared "
              "experts); 0 = none");
        visit("dense_layers", self.dense_layers, KeyKind::shape,
              "with experts: so many layers at the begin have a dense block of ffn_dim instead");
        visit("router_bias", self.router_bias, KeyKind::forward, "a trained bias of the router's logits");
        visit("router_scores", self.router_scores, KeyKind::forward,
              "scores of experts: softmax of the router's logits over all experts, or the sigmoid of each");
        visit("router_normalised", self.router_normalised, KeyKind::forward,
              "the weights of a token's experts are their scores divided by their sum; otherwise the scores "
              "themselves");
        visit("router_scale", self.router_scale, KeyKind::forward, "factor of these weights");
        visit("router_groups", self.router_groups, KeyKind::forward,
              "groups of neighbouring experts; a token chooses among those of its best groups. 1 = all");
        visit("router_top_groups", self.router_top_groups, KeyKind::forward,
              "how many groups a token chooses from");
        visit("router_group_score", self.router_group_score, KeyKind::forward,
              "score of a group: the largest of its experts', or the sum of the two largest (top2)");
        visit(
            "balance_bias", self.balance_bias, KeyKind::forward,
            "a bias per expert that only the choice of experts sees, not their weights; it has no gradient, "
            "but train.balance_rate");
        visit("expert_capacity", self.expert_capacity, KeyKind::forward,
              "tokens of a sequence that an expert takes at most, as a multiple of seq * expert_slots / "
              "experts; later ones are dropped and counted. 0 = none is dropped");
        visit("dropout", self.dropout, KeyKind::training,
              "in training, the probability that an element of the embeddings, or of what attention or "
              "feed-forward block add to the residual stream, is 0 (the others are divided by 1 - dropout)");
    }
};

/// Names of all presets, smallest first.
std::vector<std::string> preset_names();
/// The preset called `name`. Throws UserError with the nearest name if there is none.
ModelConfig preset(const std::string& name);

/// The options of `family`, with the default shape.
const ModelConfig& options_of(Family family);
/// Gives the options of `config` (the keys from `norm` on) the values of `family`, and ties the embeddings if
/// the family does. The shape stays.
void set_family(ModelConfig& config, Family family);

/// Replaces zeros by the values that they stand for (kv_heads, head_dim, ffn_dim, expert_dim; not vocab), and
/// a scaling of frequencies that changes nothing by none.
void resolve(ModelConfig& config);
/// Throws UserError for the first key of a resolved config with an impossible value, also for vocab = 0.
void validate(const ModelConfig& config);

/// What attention sees in a layer (from 0).
LayerKind kind_of_layer(const ModelConfig& config, i64 layer);
/// Whether a layer rotates its queries and keys.
bool rotates(const ModelConfig& config, i64 layer);
/// Key-value heads of each of `tensor` ranks, at least. All if they share the query heads of each instead.
inline i64 kv_heads_of_rank(const ModelConfig& config, i64 tensor)
{
    return config.kv_heads < tensor ? config.kv_heads : config.kv_heads / tensor;
}
/// Whether keys and values are products of latent vectors.
inline bool has_latents(const ModelConfig& config) { return config.kv_latent > 0; }
/// Dimensions of a head that rotate, its first ones: head_dim * rotary_part, rounded down as transformers
/// does, or with latents rope_head_dim. \pre resolved
i64 rotary_dim(const ModelConfig& config);
/// Width of a head's values. \pre resolved
i64 value_dim(const ModelConfig& config);
/// Constant of the norms of latent vectors.
double latent_norm_eps(const ModelConfig& config);
/// Base of the rotary frequencies in sliding layers.
double local_theta(const ModelConfig& config);
/// Factor of the products of queries and keys. \pre resolved
double scale_of_attention(const ModelConfig& config);
/// Factor of token embeddings, before it is rounded to the compute type.
double scale_of_embeddings(const ModelConfig& config);

/// The width over model.base_dim, the layers over model.base_layers; 1 without them.
double width_factor(const ModelConfig& config);
double depth_factor(const ModelConfig& config);
/// The same forward pass without base_dim and base_layers.
ModelConfig without_base(ModelConfig config);

/// Number of trained elements; a tied embedding counts once. \pre the config is resolved, vocab > 0
i64 parameter_count(const ModelConfig& config);
/// Of these, how many a token reads: of a layer's experts those that it goes to.
i64 active_parameter_count(const ModelConfig& config);

} // namespace trivium
