// The options of blocks: what is refused, what a family sets, and what the graphs of options have.
#include "base/check.hpp"
#include "catch.hpp"
#include "config/model_parameters.hpp"
#include "config/option_sets.hpp"
#include "config/run_config.hpp"
#include "has.hpp"
#include "ir/names.hpp"
#include "ir/verify.hpp"
#include "model/model.hpp"

#include <algorithm>
#include <functional>

using namespace trivium;

namespace {

ModelConfig valid_model()
{
    ModelConfig m;
    m.vocab = 32;
    return m;
}

/// The error about a model with this change.
std::string refusal(const std::function<void(ModelConfig&)>& change)
{
    ModelConfig m = valid_model();
    change(m);
    resolve(m);
    return message_of<UserError>([&] { validate(m); });
}

std::vector<const Op*> ops_of(const Graph& graph, OpKind kind)
{
    std::vector<const Op*> found;
    for (const Op& op : graph.ops)
        if (op.kind == kind)
            found.push_back(&op);
    return found;
}

} // namespace

TEST_CASE("options that cannot be combined are refused, with the key")
{
    using Change = std::function<void(ModelConfig&)>;
    struct Case {
        const char *key, *words;
        Change change;
    };
    const std::vector<Case> cases{
        {"model.expert_slots", "from 1 to 4", [](ModelConfig& m) { m.experts = 4, m.expert_slots = 5; }},
        {"model.experts", "must be from 0", [](ModelConfig& m) { m.experts = -1; }},
        {"model.expert_dim", "wide together", [](ModelConfig& m) { m.experts = 1 << 19, m.expert_dim = 64; }},
        {"model.dense_layers", "must have experts",
         [](ModelConfig& m) { m.experts = 4, m.dense_layers = m.layers; }},
        {"model.router_groups", "3 groups do not divide 4 experts",
         [](ModelConfig& m) { m.experts = 4, m.router_groups = 3; }},
        {"model.router_top_groups", "from 1 to 2",
         [](ModelConfig& m) { m.experts = 4, m.router_groups = 2, m.router_top_groups = 3; }},
        {"model.expert_slots", "1 group of 2 experts have 2",
         [](ModelConfig& m) { m.experts = 4, m.router_groups = 2, m.expert_slots = 3; }},
        {"model.router_group_score", "groups of one expert",
         [](ModelConfig& m) {
             m.experts = m.router_groups = m.router_top_groups = 4;
             m.router_group_score = GroupScore::top2;
         }},
        {"model.router_scale", "positive", [](ModelConfig& m) { m.experts = 4, m.router_scale = 0; }},
        {"model.expert_capacity", "at least 0",
         [](ModelConfig& m) { m.experts = 4, m.expert_capacity = -1; }},
        {"model.head_dim", "is too large", [](ModelConfig& m) { m.head_dim = 1 << 23; }},
        {"model.heads", "3 heads do not divide dim", [](ModelConfig& m) { m.heads = 3; }},
        {"model.kv_heads", "3 key-value heads", [](ModelConfig& m) { m.kv_heads = 3; }},
        {"model.heads", "even number", [](ModelConfig& m) { m.head_dim = 7; }},
        {"model.rotary_part", "even number", [](ModelConfig& m) { m.rotary_part = 0.2; }},
        {"model.rotary_part", "at most 1", [](ModelConfig& m) { m.rotary_part = 1.5; }},
        {"model.norm_offset", "\"rms\"",
         [](ModelConfig& m) { m.norm = NormKind::layer, m.norm_offset = true; }},
        {"model.chunk", "no layer is chunked",
         [](ModelConfig& m) { m.chunk = 8, m.layer_pattern = {LayerKind::full}; }},
        {"model.chunk", "all are sliding", [](ModelConfig& m) { m.chunk = 8, m.window = 8; }},
        {"model.window", "no layer is sliding",
         [](ModelConfig& m) { m.window = 8, m.layer_pattern = {LayerKind::full}; }},
        {"model.layer_pattern", "model.chunk is 0",
         [](ModelConfig& m) { m.layer_pattern = {LayerKind::chunked}; }},
        {"model.rotary_pattern", "the number 2",
         [](ModelConfig& m) {
             m.rotary_pattern = {1, 2};
         }},
        {"model.rope_scaling", "learned positions",
         [](ModelConfig& m) { m.positions = Positions::learned, m.rope_scaling = llama3_scaling(8); }},
        {"model.rotary_part", "learned positions",
         [](ModelConfig& m) { m.positions = Positions::learned, m.rotary_part = 0.5; }},
        {"model.rope_scaling", "short_factors has 3 numbers, but 8",
         [](ModelConfig& m) {
             m.rope_scaling = {.kind = RopeKind::longrope, .factor = 2};
             m.rope_scaling.short_factors = {1, 1, 1};
         }},
        {"model.rope_scaling", "long_factors is of kind \"longrope\"",
         [](ModelConfig& m) {
             m.rope_scaling = {.kind = RopeKind::yarn, .factor = 2};
             m.rope_scaling.long_factors = {1};
         }},
        {"model.rope_scaling", "factor must be",
         [](ModelConfig& m) { m.rope_scaling = {.kind = RopeKind::linear, .factor = 0.5}; }},
        {"model.rope_scaling", "mscale",
         [](ModelConfig& m) {
             m.rope_scaling = {.kind = RopeKind::linear, .factor = 2};
             m.rope_scaling.mscale = 1;
         }},
        {"model.rope_head_dim", "even number of dimensions, is 3",
         [](ModelConfig& m) { m.kv_latent = 8, m.rope_head_dim = 3; }},
        {"model.rope_head_dim", "some must not",
         [](ModelConfig& m) { m.kv_latent = 8, m.rope_head_dim = 16; }},
        {"model.head_dim", "some must not", [](ModelConfig& m) { m.kv_latent = 8, m.head_dim = 2; }},
        {"model.rope_head_dim", "kv_latent is 0", [](ModelConfig& m) { m.rope_head_dim = 4; }},
        {"model.q_latent", "kv_latent is 0", [](ModelConfig& m) { m.q_latent = 4; }},
        {"model.kv_latent", "is -1", [](ModelConfig& m) { m.kv_latent = -1; }},
        {"model.rotary_part", "kv_latent", [](ModelConfig& m) { m.kv_latent = 8, m.rotary_part = 0.5; }},
        {"model.qk_norm", "kv_latent", [](ModelConfig& m) { m.kv_latent = 8, m.qk_norm = QkNorm::head; }},
        {"model.v_head_dim", "is -3", [](ModelConfig& m) { m.v_head_dim = -3; }},
        {"model.latent_norm_eps", "at least 0", [](ModelConfig& m) { m.latent_norm_eps = -1; }},
        {"model.attention_cap", "at least 0", [](ModelConfig& m) { m.attention_cap = -1; }},
        {"model.logit_cap", "at least 0", [](ModelConfig& m) { m.logit_cap = -1; }},
        {"model.logit_divisor", "positive", [](ModelConfig& m) { m.logit_divisor = 0; }},
        {"model.residual_scale", "positive", [](ModelConfig& m) { m.residual_scale = 0; }},
        {"model.embedding_scale", "at least 0", [](ModelConfig& m) { m.embedding_scale = -2; }},
    };
    CHECK(refusal([](ModelConfig&) {}).empty());
    for (const Case& c : cases) {
        const std::string message = refusal(c.change);
        INFO(c.key << " " << c.words << ": " << message);
        CHECK((has(message, c.key) && has(message, c.words)));
    }
}

TEST_CASE("a config whose activations overflow the planner's sums is refused, for wide heads, too")
{
    RunConfig config;
    config.model = {.layers = 2,
                    .dim = 64,
                    .heads = 1 << 14,
                    .kv_heads = 1 << 14,
                    .head_dim = 1 << 10,
                    .ffn_dim = 192,
                    .vocab = 32,
                    .seq = 1 << 20};
    config.train.global_batch = 1 << 14;
    std::string message;
    try {
        resolve_and_validate(config);
    } catch (const UserError& error) {
        message = error.what();
    }
    CHECK(has(message, "too large to plan"));
}

TEST_CASE("so are empty places of expert ranks, unless parallel.expert_buffer bounds them")
{
    RunConfig config;
    config.model = {.layers = 2, .dim = 64, .heads = 4, .kv_heads = 4, .ffn_dim = 192, .vocab = 32};
    config.model.seq = 1 << 18;
    config.model.experts = 1 << 12;
    config.model.expert_dim = 64;
    config.train.global_batch = config.parallel.data = config.parallel.expert = 1 << 12;
    const auto refused = [](RunConfig c) {
        try {
            resolve_and_validate(c);
        } catch (const UserError& error) {
            return has(error.what(), "too large to plan");
        }
        return false;
    };
    CHECK(refused(config));
    config.parallel.expert_buffer = 1.25;
    CHECK_FALSE(refused(config));
    config.parallel.expert_buffer = 1e20;
    CHECK(refused(config));
}

TEST_CASE("a family sets the options and leaves the shape")
{
    ModelConfig m = preset("llama3.2-1b");
    set_family(m, Family::gemma2);
    CHECK(m.dim == 2048);
    CHECK(m.kv_heads == 8);
    CHECK(m.placement == Placement::sandwich);
    CHECK(m.rope_scaling == RopeScaling{});
    CHECK(m.tied_embeddings);
    set_family(m, Family::llama);
    CHECK(m.placement == Placement::pre);
    CHECK(m.logit_cap == 0);
    for (std::size_t i = 0; i < transformer_families; ++i) {
        ModelConfig of = valid_model();
        set_family(of, static_cast<Family>(i));
        resolve(of);
        INFO(name_of(of.family));
        CHECK(of.family == static_cast<Family>(i));
        CHECK_NOTHROW(validate(of));
    }
}

TEST_CASE("graphs of every family and option set verify, and their parameters are the listed ones")
{
    std::vector<ModelConfig> models;
    for (std::size_t i = 0; i < transformer_families; ++i)
        set_family(models.emplace_back(valid_model()), static_cast<Family>(i));
    for (std::size_t i = 0; i < names_of_enum<OptionSet>.size(); ++i)
        set_options(models.emplace_back(valid_model()), static_cast<OptionSet>(i));
    for (ModelConfig& m : models) {
        INFO(name_of(m.family) << ", " << name_of(m.placement));
        resolve(m);
        validate(m);
        for (const bool documents : {false, true}) {
            const Graph graph =
                build_loss_graph(m, {.batch = 2, .compute = DType::bf16, .documents = documents});
            CHECK_NOTHROW(verify(graph, Level::global));
            i64 count = 0;
            for (const ValueId id : graph.with_role(Role::parameter))
                count += graph[id].type.elements();
            CHECK(count == parameter_count(m));
            CHECK(bool(graph.find(value_name::starts)) == documents);
        }
        CHECK_NOTHROW(verify(build_decode_graph(m, {.compute = DType::bf16}, {2, 64}), Level::global));
    }
}

TEST_CASE("each layer has the attention and the rotation of its place in the patterns")
{
    ModelConfig m = valid_model();
    m.layers = 5;
    m.layer_pattern = {LayerKind::sliding, LayerKind::chunked, LayerKind::full};
    m.window = 3;
    m.chunk = 4;
    m.local_rope_theta = 100;
    m.rotary_pattern = {1, 0};
    const Graph graph = build_loss_graph(m, {});
    const std::vector<const Op*> attention = ops_of(graph, OpKind::attention);
    REQUIRE(attention.size() == 5);
    for (std::size_t layer = 0; layer < 5; ++layer) {
        INFO(layer);
        CHECK((attention[layer]->attrs->lists.find(Attr::window) != nullptr) == (layer % 3 == 0));
        CHECK((attention[layer]->attrs->lists.find(Attr::chunk) != nullptr) == (layer % 3 == 1));
    }
    std::vector<std::string> tables; // of q and k of the layers 0, 2 and 4
    for (const Op* op : ops_of(graph, OpKind::rope))
        tables.push_back(graph[op->operands[2]].name);
    CHECK(tables == std::vector<std::string>{"rope_table.local", "rope_table.local", "rope_table",
                                             "rope_table", "rope_table", "rope_table"});
}

TEST_CASE("a KV cache of latents has one row per token, and attention one key-value head")
{
    ModelConfig m = valid_model();
    set_options(m, OptionSet::latent);
    m.layers = 1;
    resolve(m);
    const Graph graph = build_decode_graph(m, {}, {2, 64});
    const std::vector<ValueId> caches = graph.with_role(Role::state);
    REQUIRE(caches.size() == 1);
    CHECK(graph[caches[0]].name == "layers.0.attn.latent_cache");
    CHECK(graph[caches[0]].type.shape == Shape{1, 64, 1, m.kv_latent + m.rope_head_dim});
    const std::vector<const Op*> attention = ops_of(graph, OpKind::attention_cached);
    REQUIRE(attention.size() == 1);
    CHECK(attention[0]->operands[1] == attention[0]->operands[2]);
    CHECK(graph[attention[0]->operands[0]].type.shape ==
          Shape{1, 2, 1, m.heads, m.kv_latent + m.rope_head_dim});
}

TEST_CASE("the scale of attention is that of DeepSeek V2 and V3")
{
    // modeling_deepseek_v3.py: 192^-0.5 * (0.1 * 1 * ln 40 + 1)^2
    CHECK(scale_of_attention(preset("deepseek3")) == Approx(0.1352337788608801).epsilon(1e-12));
    ModelConfig plain = preset("deepseek3");
    plain.rope_scaling = {};
    CHECK(scale_of_attention(plain) == Approx(1 / std::sqrt(192.0)).epsilon(1e-12));
}

TEST_CASE("weights, rates and multipliers scale with width and depth as in CompleteP")
{
    // N. Dey et al. 2025, "Don't be lazy: CompleteP enables compute-efficient deep transformers",
    // arXiv:2505.01618, table 1 with alpha = 1: width 4 times, depth twice that of the base.
    ModelConfig m = valid_model();
    m.layers = 6;
    m.base_layers = 3;
    m.base_dim = m.dim / 4;
    m.tied_embeddings = false;
    resolve(m);
    const Graph graph = build_loss_graph(m, {});
    struct Row {
        const char* name;
        double std, rate, decay, eps; ///< std 0: no random numbers
    };
    for (const Row& row :
         {Row{"embed.weight", 0.02, 1, 1, 1.0 / 4}, Row{"head.weight", 0.02, 1, 1, 1.0 / 4},
          Row{"final_norm.weight", 0, 1, 1, 1.0 / 4},
          Row{"layers.5.attn.q.weight", 0.02 / 2, 1.0 / 4, 4, 1.0 / 8},
          Row{"layers.0.ffn.down.weight", 0.02 / 2 / std::sqrt(2.0 * 3), 1.0 / 4, 4, 1.0 / 8},
          Row{"layers.0.ffn_norm.weight", 0, 1, 1, 1.0 / 8}}) {
        INFO(row.name);
        const Value& v = graph[graph.find(row.name)];
        CHECK(v.factors == UpdateFactors{row.rate, row.decay, row.eps});
        const auto* normal = std::get_if<NormalInit>(&*v.init);
        CHECK((normal ? normal->std : 0) == Approx(row.std));
    }
    std::vector<double> factors;
    for (const Op* op : ops_of(graph, OpKind::affine))
        factors.push_back(*op->attrs->alpha);
    CHECK(factors == std::vector<double>{.5, .5, .5, .5, .5, .5, .5, .5, .5, .5, .5, .5, .25});
    const ModelConfig plain = without_base(m);
    CHECK((plain.residual_scale == 0.5 && plain.logit_divisor == 4 && plain.base_dim == 0));
}

TEST_CASE("parallel parts are summed before their biases, in one reduction over tensor ranks")
{
    ModelConfig m = valid_model();
    set_options(m, OptionSet::parallel);
    m.layers = 1;
    const Graph graph = build_loss_graph(m, {});
    const ValueId o = graph.find("layers.0.attn.o.out"), down = graph.find("layers.0.ffn.down.out");
    REQUIRE((o && down));
    const bool together = std::ranges::any_of(graph.ops, [&](const Op& op) {
        return op.kind == OpKind::add && op.operands == std::vector<ValueId>{o, down};
    });
    CHECK(together);
}
