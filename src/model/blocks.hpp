#pragma once
// The building blocks of a decoder, with the options of ModelConfig.
#include "model/model.hpp"

#include <array>
#include <map>

namespace trivium {

/// Builds one forward graph. The graph must outlive the builder.
class ModelBuilder {
public:
    ModelBuilder(Graph& graph, const ModelConfig& model, const GraphConfig& config);

    /// In decode graphs: length of the KV cache, set before block(); 0 in training.
    i64 cache_capacity = 0;

    void inputs(i64 batch, i64 seq); ///< declares `tokens` and `positions`, i32[batch, seq]; call it first
    ValueId target_input(i64 batch, i64 seq); ///< declares `targets`, i32[batch, seq]
    ValueId row_input(const char* name);      ///< declares an input i32[b]
    /// An input, i32[b,s], in the order in which the ops of this block have tokens.
    ValueId in_order(ValueId input_bs);
    ValueId embed();                         ///< x_bsd
    ValueId block(i64 layer, ValueId x_bsd); ///< one layer with its residual sums
    /// What routers add to the loss of each token of a sequence, [b], summed over the layers so far; invalid:
    /// nothing.
    ValueId router_loss() const { return router_loss_; }
    const std::vector<ValueId>& loads() const { return loads_; } ///< the outputs of GraphConfig::loads so far
    ValueId final_norm(ValueId x);                               ///< over the last dimension
    ValueId head(ValueId x, const Rule& rule); ///< logits; `rule` e.g. "b s d, v d -> b s v"

    Builder& build() { return b_; }
    ValueId start; ///< in decode graphs, set before block(): i32[b], tokens in the cache

private:
    // GPT-2's initial standard deviation; products that write into the residual stream get it divided by
    // sqrt(2 layers), so that its variance does not grow with depth (Radford et al. 2019, section 2.3).
    static constexpr double init_std = 0.02;
    double std_into_stream() const;
    /// Names of dimensions, as in model.hpp: b, s, d, …
    using Dims = std::vector<std::string>;

    void enter(int block, const std::string& scope);
    /// `scope.name`; and as the lists of parameters call it, without "layers.N".
    std::string scoped(const std::string& name) const;
    std::string listed(const std::string& name) const;
    /// Declares the parameter `scope.name`, with the shape that its list states, in the master type, or with
    /// `exact` in an accumulator type at least.
    ValueId parameter(const std::string& name, const Init& init, bool exact = false);
    void scale_with_size(Value& parameter) const;            ///< by model.base_dim and base_layers
    void decays(ValueId parameter, int rows, int stack = 0); ///< if it is trained
    /// Declares a parameter with normal initial values (standard deviation `std`); returns its
    /// compute_copy(). `rows`: its leading dimensions that are rows of a matrix, after the `stack` that
    /// count matrices; 0: a table.
    ValueId weight(const std::string& name, double std, int rows = 0, int stack = 0);
    /// Declares a parameter filled with `fill`, without weight decay; returns its compute_copy().
    ValueId vector(const std::string& name, double fill);
    /// The parameter as the microbatches read it: cast to `type`, in the prologue.
    ValueId compute_copy(ValueId parameter, DType type);
    /// The sharding of a tensor with these dimensions.
    Sharding sharding_of(const Dims& dims) const;
    /// Annotates x with sharding_of(dims) and returns x. Few values are annotated: tokens, positions,
    /// embedding table, the results of embedding and head, and in each layer the inputs of its last products.
    /// Propagation completes the others.
    ValueId annotate(ValueId x, const Dims& dims);
    ValueId times(ValueId x, double factor);
    Attributes order_attributes() const; ///< of an op that must know it
    Attributes rms_attributes() const;
    ValueId rms_norm(ValueId x, double eps); ///< with the weight of this scope
    ValueId norm(const std::string& name, ValueId x);
    /// `heads`: the dimensions after b and s.
    ValueId qk_norm(const std::string& name, ValueId x, const std::string& heads);
    ValueId add_bias(const std::string& name, ValueId y); ///< if the model has it
    ValueId product(const std::string& name, ValueId x, const Rule& rule, double std);
    ValueId linear(const std::string& name, ValueId x, const Rule& rule); ///< a product and its bias
    /// The last product of a part of a layer; with parallel parts block() adds its bias.
    ValueId into_stream(const std::string& name, ValueId x, const Rule& rule);
    // Low-rank adapters (adapters.cpp).
    /// y = x W with the adapter of this scope's weight, if it has one. `rule`: of the product.
    ValueId adapted(ValueId x, ValueId y, const Rule& rule);
    /// x whole along the sequence, for x W and for x A, if x W will read it so.
    ValueId whole_input(ValueId x, const Rule& rule);
    /// A parameter of the adapter of this scope's weight, as a whole.
    ValueId adapter_part(const std::string& name, DType type);
    /// The rows of this scope's table, with its adapter.
    ValueId looked_up(ValueId table, ValueId rows);
    bool has_adapter() const;         ///< this scope's weight
    ValueId adapter_input(ValueId x); ///< x_bs… after dropout
    struct Magnitudes {
        ValueId merged;          ///< W + s A B
        ValueId before, inverse; ///< lengths of the columns of W, and 1 / those of `merged`
    };
    /// In the prologue, of this scope's weight, in the accumulator type. They have no gradient.
    Magnitudes magnitudes();
    /// What multiplies the columns of W + s A B, of this scope's weight, less 1.
    ValueId column_factors(const Magnitudes& lengths, Region region);
    ValueId merged_weight(ValueId weight); ///< in the prologue of decode graphs
    // Attention (attention.cpp).
    struct Heads {
        ValueId q, k, v; ///< q_bsgre, k_bsge, v_bsgu
    };
    /// With latents: queries, normed latent vectors and the key that all heads share, of which `rotary_dim`
    /// elements have rotated.
    struct Latents {
        ValueId q, c, k_rope; ///< q_bsgre, c_bsc, k_rope_bsh
    };
    ValueId attention(i64 layer, ValueId x_bsd);
    ValueId feed_forward(i64 layer, ValueId x_bsd);
    /// The function between the products; `gate` is invalid if there is none.
    ValueId activated(ValueId gate, ValueId up);
    /// The last operand of the product "down" of a dense block; `f`: its width.
    ValueId dense_hidden(ValueId x_bsd, const std::string& f);
    // Mixtures of experts: experts.cpp.
    ValueId experts(ValueId x_bsd);
    struct Routed {
        ValueId weights, experts; // [b,s,k], the latter i32
    };
    Routed route(ValueId x_bsd);
    /// Adds the losses of a layer's router to router_loss().
    void add_router_loss(ValueId logits_bsx, ValueId experts_bsk);
    void add_load(ValueId experts_bsk); ///< to loads()
    void add_overflow(ValueId counts_qx);
    /// The rows of tokens, sorted by expert.
    struct Rows {
        ValueId rows, slots, counts; // [q,n,d]; [b,s,k]; [q,x]
        ValueId experts;             // [b,s,k], i32
    };
    /// To the rows of their experts, on the ranks that have these.
    Rows dispatched(ValueId x_bsd, ValueId experts_bsk);
    /// Each row [q,n,i] times the matrix of its expert, plus the bias, if the model has it. `to`: where rows
    /// are; `in`: the letter of i.
    ValueId grouped(const std::string& name, ValueId rows, const Rows& to, const std::string& in, double std);
    /// The adapter of grouped(): its product added to y, and the columns of y at the length of magnitudes.
    ValueId grouped_adapted(ValueId rows, ValueId y, const Rows& to, const std::string& in,
                            const Attributes& of_product);
    /// Rows to the ranks of their experts, or back; `count`: rows of the result.
    ValueId exchanged(ValueId rows, ValueId counts, i64 count, bool backwards);
    Attributes routing() const;
    i64 rows_of_group() const; ///< slots of the tokens of a group
    i64 rows_of_rank() const;  ///< for which an expert rank has places, after the exchange
    bool has_capacity() const { return m_.expert_capacity > 0 && cache_capacity == 0; }
    i64 capacity_of_expert() const; ///< rows of a sequence
    Heads heads_of(i64 layer, ValueId x_bsd);
    Latents latents_of(i64 layer, ValueId x_bsd);
    ValueId latent(const std::string& name, ValueId x_bsd); ///< a product with a norm
    Heads heads_of(const Latents& latents);
    /// For a cache of latents: all query heads share one key-value head whose rows, [c p], are both key and
    /// value. The product that would make keys of c is applied to the queries instead, and that of the values
    /// to the sums over c: scores (q W_k') c' = q (c W_k)' (DeepSeek-V2, arXiv:2405.04434, section 2.1.2).
    Heads absorbed(const Latents& latents);
    ValueId values_of(ValueId sums); ///< o_bsgru of the result of attention by absorbed() heads
    /// The weights `name`, with their dimensions in the order `dims`.
    ValueId head_weights(const std::string& name, const std::vector<i64>& dims);
    ValueId attend(i64 layer, Heads heads); ///< o_bsgru; with a cache over its tokens
    ValueId rotated(i64 layer, ValueId x);  ///< x itself if the layer has no rotation
    ValueId turned(ValueId x, const std::vector<i64>& dims);
    ValueId shaped(ValueId x, const Shape& shape);
    ValueId rope_table(LayerKind kind);
    /// Whether the branches of a block are added before their biases.
    bool sums_branches() const { return m_.placement == Placement::parallel && c_.regularisers.dropout == 0; }
    /// x after dropout, or x itself if the graph has none. `branch`: of the block's, from 0 to 1.
    ValueId dropped(ValueId x_bsd, i64 branch);
    ValueId sample_numbers(); ///< the input `samples`

    Builder b_;
    ModelConfig m_; // resolved
    GraphConfig c_;
    std::map<std::string, ModelParameter> listed_; // by listed(), with adapters
    std::map<ValueId, ValueId> whole_inputs_;      // whole_input()
    std::map<std::string, ValueId> stored_;        // the parameters so far, by global name
    ValueId tokens_, positions_, starts_, embed_, samples_, router_loss_;
    std::array<ValueId, 2> rope_tables_;                 // the second: of sliding layers, if theirs differs
    std::map<std::pair<ValueId, int>, ValueId> ordered_; // inputs, by block
    std::vector<ValueId> loads_;
    i64 batch_ = 0, seq_ = 0, adapters_ = 0; // how many have an input with dropout
};

} // namespace trivium
