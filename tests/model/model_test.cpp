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
#include <set>

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
    std::set<Family> large;
    for (const std::string& name : preset_names()) {
        INFO(name);
        const ModelConfig m = resolved_preset(name);
        if (m.layers > 12 && (contracts_on || !large.insert(m.family).second)) // one of each family
            continue;
        for (const DType compute : {DType::bf16, DType::f32}) {
            if (compute == DType::f32 && m.layers > 12) // the same ops, without casts
                continue;
            const GraphConfig config{2, compute, DType::f32};
            check_round_trip(build_loss_graph(m, config));
            check_round_trip(training_graph(m, config));
            check_round_trip(build_decode_graph(m, config, {1, 100}));
            check_round_trip(build_decode_graph(m, config, {64, 4096}));
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
    // The elements of the tensors that the models' safetensors have.
    const std::map<std::string, i64> published{
        {"gpt2-124m", 124439808}, // Radford et al. 2019, as released: 12 layers, 768 wide, 50257 tokens, 1024
                                  // positions
        {"llama1-7b", 6738415616},
        {"llama2-70b", 68976648192},
        {"llama3-8b", 8030261248},
        {"llama3.1-8b", 8030261248},
        {"llama3-70b", 70553706496},
        {"llama3-405b", 405853388800},
        {"llama3.2-1b", 1235814400},
        {"llama3.2-3b", 3212749824},
        {"mistral-7b-v0.1", 7241732096},
        {"mistral-7b-v0.3", 7248023552},
        {"mistral-nemo-12b", 12247782400},
        {"qwen2.5-0.5b", 494032768},
        {"qwen2.5-1.5b", 1543714304},
        {"qwen2.5-3b", 3085938688},
        {"qwen2.5-7b", 7615616512},
        {"qwen2.5-14b", 14770033664},
        {"qwen2.5-32b", 32763876352},
        {"qwen3-0.6b", 596049920},
        {"qwen3-1.7b", 1720574976},
        {"qwen3-4b", 4022468096},
        {"qwen3-8b", 8190735360},
        {"qwen3-14b", 14768307200},
        {"qwen3-32b", 32762123264},
        {"olmo2-7b", 7298617344},
        {"olmo2-13b", 13716198400},
        {"olmo3-7b", 7298617344},
        {"gemma2-2b", 2614341888},
        {"gemma2-9b", 9241705984},
        {"gemma2-27b", 27227128320},
        {"gemma3-1b", 999885952},
        {"phi3-mini-4k", 3821079552},
        {"phi4-mini", 3836021760},
        {"phi4-14b", 14659507200},
        {"pythia-70m", 70426624},
        {"pythia-160m", 162322944},
        {"pythia-410m", 405334016},
        {"pythia-1b", 1011781632},
        {"pythia-1.4b", 1414647808},
        {"pythia-2.8b", 2775208960},
        {"pythia-6.9b", 6857302016},
        {"pythia-12b", 11846072320},
        {"starcoder2-3b", 3030371328},
        {"starcoder2-7b", 7173923840},
        {"starcoder2-15b", 15957889024},
        {"smollm3-3b", 3075098624},
        {"mixtral-8x7b", 46702792704},
        {"mixtral-8x22b", 140620634112},
        {"qwen3-30b-a3b", 30532122624},
        {"qwen3-235b-a22b", 235093634560},
        {"olmoe-1b-7b", 6919161856},
        {"gpt-oss-20b", 20914757184},
        {"gpt-oss-120b", 116829156672},
        {"deepseek2-lite", 15706484224},
        {"deepseek2", 235741434880},
        {"deepseek3", 671026419200},
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
    ModelConfig m{.layers = 1, .dim = 12, .heads = 6, .kv_heads = 3, .ffn_dim = 20, .vocab = 30, .seq = 7};
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
