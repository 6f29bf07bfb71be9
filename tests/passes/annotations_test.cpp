// The models annotate few values, and propagation completes them to Megatron's shardings.
#include "catch.hpp"
#include "ir/text/text.hpp"
#include "model/model.hpp"
#include "passes/autodiff.hpp"
#include "passes/optimizer.hpp"
#include "passes/sharding/propagate.hpp"
#include "passes/simplify.hpp"

#include <algorithm>

using namespace trivium;

namespace {

ModelConfig annotated_preset(const std::string& name)
{
    ModelConfig m = preset(name);
    resolve(m);
    m.vocab = m.vocab ? m.vocab : 259;
    return m;
}

Graph loss_of(const ModelConfig& m, bool sequence)
{
    Graph g = build_loss_graph(m, {4, DType::bf16, DType::f32, {{"data"}, "tensor", sequence, false}});
    g.mesh = {{{"data", 2}, {"pipeline", 1}, {"tensor", 2}}};
    return g;
}

double annotations_of(const Graph& g)
{
    return static_cast<double>(std::count_if(g.values.begin(), g.values.end(), [](const Value& v) {
        return !v.sharding->dims.empty() || !v.sharding->partial.empty();
    }));
}

} // namespace

TEST_CASE("the models annotate less than 3 % of the values of a training step, with experts 4 %")
{
    double most = 0;
    for (const std::string& name : preset_names()) {
        const ModelConfig m = annotated_preset(name);
        if (contracts_on && m.layers > 12) // slow there
            continue;
        const Graph loss = loss_of(m, true);
        OptimizerConfig optimizer{1, 0.1};
        optimizer.shard_axis = "data";
        const Graph step =
            simplify(add_optimizer(autodiff(complete_annotations(Graph(loss)), {}), optimizer));
        const double share = annotations_of(loss) / static_cast<double>(step.values.size());
        INFO(name << " annotates " << annotations_of(loss) << " of " << step.values.size() << " values");
        CHECK(annotations_of(loss) > 0);
        CHECK(share < (m.experts > 0 ? 0.04 : 0.03));
        most = std::max(most, share);
    }
    WARN("at most " << 100 * most << " % of the values are annotated");
}

TEST_CASE("few annotations suffice for Megatron's shardings, with and without sequence parallelism")
{
    for (const bool sequence : {false, true})
        for (const bool gpt2 : {false, true}) {
            const Graph g =
                complete_annotations(loss_of(annotated_preset(gpt2 ? "toy-gpt2" : "toy"), sequence));
            const auto check = [&](const std::string& name, const std::string& expected) {
                const ValueId v = g.find(name);
                INFO((gpt2 ? "gpt2 " : "llama ") << (sequence ? "sequence " : "") << name);
                REQUIRE(v);
                CHECK(to_text(Sharding{g[v].sharding->dims, g[v].sharding->partial}) == expected);
            };
            const std::string s = sequence ? "tensor" : "-";
            check("targets", "<data,->");
            check("embed.weight", "<tensor?,-?>");
            check("layers.1.attn_norm.weight", "<-?>");
            check("layers.1.attn_norm.weight.used", "<->");
            check("layers.1.attn_norm.out", "<data," + s + ",->");
            check("layers.1.attn.q.weight", "<-?,tensor?,-?,-?>");
            check("layers.1.attn.q.weight.used", "<-,tensor,-,->");
            check("layers.1.attn.k.weight", "<-?,tensor?,-?>");
            check("layers.1.attn.v.weight.used", "<-,tensor,->");
            check("layers.1.attn.q.out", "<data,-,tensor,-,->");
            check("layers.1.attn.o.weight", "<tensor?,-?,-?,-?>");
            check("layers.1.attn.o.out", "<data," + s + ",->");
            check("layers.1.ffn.up.weight.used", "<-,tensor>");
            check("layers.1.ffn.up.out", "<data,-,tensor>");
            check("layers.1.ffn.down.weight", "<tensor?,-?>");
            check("layers.1.ffn.down.out", "<data," + s + ",->");
            check("logits", "<data,-,tensor>");
            if (gpt2) {
                check("layers.1.attn.q.bias", "<tensor?,-?,-?>");
                check("layers.1.ffn.down.bias.used", "<->");
                check("positions.weight", "<-?,-?>");
            } else {
                check("layers.1.ffn.gate.weight", "<-?,tensor?>");
            }
        }
}

TEST_CASE("the cast of a parameter stays as finely sharded as ZeRO shards it, so that the gather moves bf16")
{
    OptimizerConfig optimizer{1, 0.1};
    optimizer.shard_axis = "data";
    const Graph g = propagate(
        add_optimizer(autodiff(complete_annotations(loss_of(annotated_preset("toy"), true)), {}), optimizer));
    for (const char* name : {"layers.1.attn.q.weight", "layers.1.ffn.down.weight", "embed.weight"}) {
        INFO(name);
        const ValueId parameter = g.find(name), cast = g.find(name + std::string(".bf16")),
                      used = g.find(name + std::string(".used"));
        REQUIRE((parameter && cast && used));
        CHECK(g[cast].sharding->dims == g[parameter].sharding->dims);
        CHECK(to_text(g[cast].sharding).find("data") != std::string::npos);
        CHECK(to_text(g[used].sharding).find("data") == std::string::npos);
    }
}
