#pragma once
// The building blocks of the model families, Llama and GPT-2.
#include "model/model.hpp"

namespace trivium {

/// Builds one forward graph. The graph and the ModelConfig must outlive the builder.
class ModelBuilder {
public:
    ModelBuilder(Graph& graph, const ModelConfig& model, const GraphConfig& config);

    /// In decode graphs: length of the KV cache, set before block(); 0 in training.
    i64 cache_capacity = 0;

    void inputs(i64 batch, i64 seq); ///< declares `tokens` and `positions`, i32[batch, seq]; call it first
    ValueId target_input(i64 batch, i64 seq);  ///< declares `targets`, i32[batch, seq]
    ValueId embed();                           ///< x_bsd
    ValueId block(i64 layer, ValueId x_bsd);   ///< one layer with its residual sums
    ValueId final_norm(ValueId x);             ///< over the last dimension
    ValueId head(ValueId x, const Rule& rule); ///< logits; `rule` e.g. "b s d, v d -> b s v"

    Builder& build() { return b_; }
    ValueId start; ///< in decode graphs, set before block(): hyper i32[], tokens in the cache

private:
    /// Names of dimensions, as in model.hpp: b, s, d, …
    using Dims = std::vector<std::string>;

    void enter(int block, const std::string& scope);
    /// Declares the parameter `scope.name` with normal initial values (standard deviation `std`); returns its
    /// compute_copy(). `rows`: its leading dimensions that are rows of a matrix; 0: a table.
    ValueId weight(const std::string& name, Shape shape, double std, int rows = 0);
    /// Declares a parameter filled with `fill`, without weight decay; returns its compute_copy().
    ValueId vector(const std::string& name, Shape shape, double fill);
    /// The parameter as the microbatches read it: cast to the compute type, in the prologue.
    ValueId compute_copy(ValueId parameter);
    /// The sharding of a tensor with these dimensions.
    Sharding sharding_of(const Dims& dims) const;
    /// Annotates x with sharding_of(dims) and returns x. Few values are annotated: tokens, positions,
    /// embedding table, the results of embedding and head, and in each layer the inputs of its last products.
    /// Propagation completes the others.
    ValueId annotate(ValueId x, const Dims& dims);
    ValueId norm(const std::string& name, ValueId x);
    /// x W; in GPT-2 plus a bias.
    ValueId linear(const std::string& name, ValueId x, const Rule& rule, Shape shape, double std);
    ValueId attention(i64 layer, ValueId x_bsd);
    ValueId feed_forward(ValueId x_bsd);
    ValueId rope_table();
    /// x after dropout, or x itself if the graph has none. `branch`: of the block's, from 0 to 1.
    ValueId dropped(ValueId x_bsd, i64 branch);

    Builder b_;
    const ModelConfig& m_;
    GraphConfig c_;
    ValueId tokens_, positions_, rope_table_, embed_, samples_;
    i64 batch_ = 0, seq_ = 0;
};

} // namespace trivium
