#pragma once
// The building blocks of both families.
#include "model/model.hpp"

namespace trivium {

/// Builds one forward graph; holds what every block needs.
class ModelBuilder {
public:
    ModelBuilder(Graph& graph, const ModelConfig& model, const GraphConfig& config);

    /// In decode graphs: length of the KV cache; 0 in training.
    i64 cache_capacity = 0;

    void inputs(i64 batch, i64 seq); ///< declares tokens and positions
    ValueId target_input(i64 batch, i64 seq);
    ValueId embed(); ///< x_bsd
    ValueId block(i64 layer, ValueId x_bsd);
    ValueId final_norm(ValueId x);             ///< over the last dimension
    ValueId head(ValueId x, const Rule& rule); ///< logits; `rule` e.g. "b s d, v d -> b s v"

    Builder& build() { return b_; }
    ValueId start; ///< hyper i32[], in decode graphs

private:
    /// Names of dimensions, as in model.hpp: b, s, d, …
    using Dims = std::vector<std::string>;

    void enter(int block, const std::string& scope);
    /// The parameter `scope.name`, in the compute type. The first `rows` dimensions are a matrix's rows; 0:
    /// a table.
    ValueId weight(const std::string& name, Shape shape, double std, int rows = 0);
    ValueId vector(const std::string& name, Shape shape, double fill);
    /// The parameter as the microbatches read it: in the compute type.
    ValueId compute_copy(ValueId parameter);
    /// How a tensor of these dimensions is sharded.
    Sharding sharding_of(const Dims& dims) const;
    /// Annotates x with that sharding. Few values are: the tokens, what embedding and head compute, and of
    /// each layer what its last products read. Propagation completes the others.
    ValueId annotate(ValueId x, const Dims& dims);
    ValueId norm(const std::string& name, ValueId x);
    /// x W (+ bias where the family has biases).
    ValueId linear(const std::string& name, ValueId x, const Rule& rule, Shape shape, double std);
    ValueId attention(i64 layer, ValueId x_bsd);
    ValueId feed_forward(ValueId x_bsd);
    ValueId rope_table();

    Builder b_;
    const ModelConfig& m_;
    GraphConfig c_;
    ValueId tokens_, positions_, rope_table_, embed_;
    i64 batch_ = 0, seq_ = 0;
};

} // namespace trivium
