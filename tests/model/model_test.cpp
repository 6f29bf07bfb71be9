// Every preset as a graph: it prints, parses back and verifies; parameters by name, shape and number.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "model/model.hpp"
#include "passes/autodiff.hpp"
#include "passes/optimizer.hpp"
#include "passes/simplify.hpp"

#include <algorithm>
#include <map>

using namespace trivium;

namespace {

ModelConfig resolved_preset(const std::string& name)
{
    ModelConfig m = preset(name);
    resolve(m);
    if (m.vocab == 0)
        m.vocab = 259; // a preset with the tokenizer's vocabulary
    validate(m);
    return m;
}

Graph training_graph(const ModelConfig& m, const GraphConfig& config)
{
    return simplify(add_optimizer(autodiff(build_loss_graph(m, config), {}), {1, 0.1}));
}

void check_round_trip(const Graph& graph)
{
    verify(graph, Level::global);
    const std::string text = to_text(graph);
    const Graph back = parse_graph(text, "printed");
    verify(back, Level::global);
    const std::string again = to_text(back);
    if (again != text) { // not CHECK: it would print megabytes
        std::size_t at = 0;
        while (at < again.size() && again[at] == text[at])
            ++at;
        FAIL("printed again it differs at '" << text.substr(at, 80) << "'");
    }
}

} // namespace

TEST_CASE("every graph of every preset prints, parses back and verifies")
{
    for (const std::string& name : preset_names()) {
        INFO(name);
        const ModelConfig m = resolved_preset(name);
        if (contracts_on && m.layers > 12) // slow there
            continue;
        for (const DType compute : {DType::bf16, DType::f32}) {
            if (compute == DType::f32 && m.layers > 12) // the same ops, without casts
                continue;
            const GraphConfig config{2, compute, DType::f32};
            check_round_trip(build_loss_graph(m, config));
            check_round_trip(training_graph(m, config));
            check_round_trip(build_decode_graph(m, config, 1, 100));
            check_round_trip(build_decode_graph(m, config, 64, 4096));
        }
        if (m.layers <= 12)
            check_round_trip(training_graph(m, {1, DType::f64, DType::f64}));
    }
}

TEST_CASE("parameter_count agrees with the graph")
{
    for (const std::string& name : preset_names()) {
        INFO(name);
        const ModelConfig m = resolved_preset(name);
        const Graph graph = build_loss_graph(m, {1, DType::bf16, DType::f32});
        i64 count = 0;
        for (const ValueId id : graph.with_role(Role::parameter))
            count += graph[id].type.elements();
        CHECK(parameter_count(m) == count);
    }
}

TEST_CASE("published models have their published size")
{
    const std::map<std::string, i64> published{
        {"gpt2-124m",
         124439808}, // Radford et al. 2019, as released: 12 layers, 768 wide, 50257 tokens, 1024 positions
        {"llama3-8b", 8030261248},     // Meta Llama 3 8B's safetensors
        {"llama3-70b", 70553706496},   // 70B's
        {"llama3-405b", 405853388800}, // 3.1 405B's
    };
    const std::vector<std::string> names = preset_names();
    for (const auto& [name, count] : published) {
        INFO(name);
        REQUIRE(std::count(names.begin(), names.end(), name) == 1);
        CHECK(parameter_count(resolved_preset(name)) == count);
    }
}

TEST_CASE("parameters have their documented names, shapes and decay")
{
    ModelConfig m;
    m.layers = 1;
    m.dim = 12;
    m.heads = 6;
    m.kv_heads = 3;
    m.ffn_dim = 20;
    m.vocab = 30;
    m.seq = 7;
    using Shapes = std::map<std::string, Shape>;
    const auto shapes = [](const ModelConfig& model) {
        const Graph graph = build_loss_graph(model, {});
        Shapes all;
        for (const ValueId id : graph.with_role(Role::parameter)) {
            all[graph[id].name] = graph[id].type.shape;
            const bool spared = graph[id].name.find("norm") != std::string::npos ||
                                graph[id].name.find("bias") != std::string::npos;
            INFO(graph[id].name);
            CHECK(graph[id].decay == !spared);
        }
        return all;
    };
    const Shapes llama{
        {"embed.weight", {30, 12}},
        {"head.weight", {30, 12}},
        {"final_norm.weight", {12}},
        {"layers.0.attn_norm.weight", {12}},
        {"layers.0.ffn_norm.weight", {12}},
        {"layers.0.attn.q.weight", {12, 3, 2, 2}},
        {"layers.0.attn.k.weight", {12, 3, 2}},
        {"layers.0.attn.v.weight", {12, 3, 2}},
        {"layers.0.attn.o.weight", {3, 2, 2, 12}},
        {"layers.0.ffn.gate.weight", {12, 20}},
        {"layers.0.ffn.up.weight", {12, 20}},
        {"layers.0.ffn.down.weight", {20, 12}},
    };
    CHECK(shapes(m) == llama);
    set_family(m, Family::gpt2);
    m.tied_embeddings = true;
    const Shapes gpt2{
        {"embed.weight", {30, 12}},
        {"positions.weight", {7, 12}},
        {"final_norm.weight", {12}},
        {"final_norm.bias", {12}},
        {"layers.0.attn_norm.weight", {12}},
        {"layers.0.attn_norm.bias", {12}},
        {"layers.0.ffn_norm.weight", {12}},
        {"layers.0.ffn_norm.bias", {12}},
        {"layers.0.attn.q.weight", {12, 3, 2, 2}},
        {"layers.0.attn.k.weight", {12, 3, 2}},
        {"layers.0.attn.v.weight", {12, 3, 2}},
        {"layers.0.attn.o.weight", {3, 2, 2, 12}},
        {"layers.0.attn.q.bias", {3, 2, 2}},
        {"layers.0.attn.k.bias", {3, 2}},
        {"layers.0.attn.v.bias", {3, 2}},
        {"layers.0.attn.o.bias", {12}},
        {"layers.0.ffn.up.weight", {12, 20}},
        {"layers.0.ffn.up.bias", {20}},
        {"layers.0.ffn.down.weight", {20, 12}},
        {"layers.0.ffn.down.bias", {12}},
    };
    CHECK(shapes(m) == gpt2);
}
