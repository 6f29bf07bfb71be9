#include "model/model.hpp"

#include "ir/names.hpp"
#include "model/blocks.hpp"
#include "model/program.hpp"

#include <tuple>

namespace trivium {

namespace {

/// Of a broadcast from [b] to the shape [b,s] of `like`.
Attributes each_token(const Value& like)
{
    Attributes attributes;
    attributes.lists.set(Attr::dims, {0});
    attributes.lists.set(Attr::shape, like.type.shape);
    return attributes;
}

} // namespace

Graph build_loss_graph(const ModelConfig& model, const GraphConfig& config)
{
    if (model.is_program())
        return build_program_graph(model, config);
    Graph graph;
    graph.name = "loss";
    ModelBuilder m(graph, model, config);
    Builder& b = m.build();
    m.inputs(config.batch, model.seq);
    ValueId targets = m.target_input(config.batch, model.seq);
    ValueId x = m.embed();
    for (i64 layer = 0; layer < model.layers; ++layer)
        x = m.block(layer, x);
    const ValueId logits = m.head(m.final_norm(x), "b s d, v d -> b s v");
    b.where.scope = "loss";
    targets = m.in_order(targets);
    Attributes smoothed, squared;
    if (const double epsilon = config.regularisers.label_smoothing; epsilon > 0) {
        smoothed.alpha = 1 - epsilon;
        smoothed.beta = epsilon / static_cast<double>(model.vocab);
    }
    if (config.regularisers.z_loss > 0)
        squared.beta = config.regularisers.z_loss;
    const std::vector<ValueId> stats =
        b.op(OpKind::xent_stats, {logits, targets}, smoothed, {"loss.lse", "loss.picked"});
    ValueId picked = stats[1];
    if (const ValueId more = m.router_loss()) // of each token whose loss counts
        picked = b.op1(OpKind::subtract,
                       {picked, b.op1(OpKind::broadcast, {more}, each_token(b.graph()[picked]))});
    const ValueId loss = b.op1(OpKind::token_loss, {stats[0], picked, targets}, squared, value_name::loss);
    for (const auto& [name, kind, of] : {std::tuple{value_name::loss_sum, OpKind::sum, loss},
                                         {value_name::token_count, OpKind::count_valid, targets}})
        b.output_sum(kind, of, name);
    graph.outputs.insert(graph.outputs.end(), m.loads().begin(), m.loads().end());
    sort_regions(graph);
    return graph;
}

Graph build_decode_graph(const ModelConfig& model, const GraphConfig& config, const DecodeShape& shape)
{
    Graph graph;
    graph.name = shape.all_rows ? "score" : shape.queries == 1 ? "decode" : "prefill";
    GraphConfig kept = config;
    kept.master = config.compute; // nothing is updated
    kept.regularisers = {};
    kept.documents = false; // a sequence is one
    kept.fp8 = false;       // the products of a single token do not benefit from it
    ModelBuilder m(graph, model, kept);
    Builder& b = m.build();
    m.cache_capacity = shape.capacity;
    m.inputs(config.batch, shape.queries);
    m.start = m.row_input(value_name::start);
    const ValueId last = shape.all_rows ? ValueId{} : m.row_input(value_name::last);
    ValueId x = m.embed();
    for (i64 layer = 0; layer < model.layers; ++layer)
        x = m.block(layer, x);
    b.where.scope = "";
    if (last)
        x = b.op1(OpKind::select_row, {x, last}, {}, "last_row");
    graph.outputs.push_back(m.head(m.final_norm(x), last ? "b d, v d -> b v" : "b s d, v d -> b s v"));
    sort_regions(graph);
    return graph;
}

} // namespace trivium
