// Decoder blocks with the options of every family, and with drawn options, against the plain reference: loss,
// every gradient, and the logits of a KV cache.
#include "base/check.hpp"
#include "catch.hpp"
#include "draw.hpp"
#include "harness.hpp"
#include "reference_block.hpp"
#include "train/generator.hpp"

#include <algorithm>
#include <cmath>

using namespace trivium;
using namespace trivium::runs;
using reference::Vector;

namespace {

/// The options of `family` in a small model whose windows and scalings have an effect.
ModelConfig small(Family family)
{
    ModelConfig m;
    set_family(m, family);
    m.layers = std::max<i64>(
        {2, static_cast<i64>(m.layer_pattern.size()), static_cast<i64>(m.rotary_pattern.size())});
    m.dim = 12;
    m.heads = 4;
    m.kv_heads = m.placement == Placement::parallel ? 4 : 2;
    m.head_dim = family == Family::neox ? 8 : 4;
    m.ffn_dim = 10;
    m.vocab = 17;
    m.seq = 9;
    m.window = m.window > 0 ? 3 : 0;
    m.norm_eps = 1e-2;
    m.rope_theta = 50;
    m.local_rope_theta = m.local_rope_theta > 0 ? 7 : 0;
    m.attention_cap = m.attention_cap > 0 ? 1.5 : 0;
    m.logit_cap = m.logit_cap > 0 ? 2.5 : 0;
    if (m.kv_latent > 0) {
        m.kv_latent = 5;
        m.q_latent = family == Family::deepseek2 ? 0 : 7;
        m.head_dim = 6;
        m.rope_head_dim = 4;
        m.v_head_dim = 3;
        m.latent_norm_eps = 2e-2;
        m.rope_scaling = {
            .kind = RopeKind::yarn, .factor = 4, .original_seq = 40, .mscale = 0.7, .mscale_all_dim = 1.1};
    }
    if (m.experts > 0) {
        m.experts = 6;
        m.expert_slots = 3;
        m.expert_dim = 5;
        m.shared_dim = m.kv_latent > 0 ? 7 : 0;
        m.dense_layers = m.kv_latent > 0 ? 1 : 0;
        m.router_groups = m.router_groups > 1 ? 3 : 1;
        m.router_top_groups = m.router_groups > 1 ? 2 : 1;
    }
    if (family == Family::gpt_oss)
        m.rope_scaling.original_seq = 40;
    if (family == Family::gemma3)
        m.rope_scaling = {.kind = RopeKind::linear, .factor = 8};
    if (family == Family::olmo3)
        m.rope_scaling = {.kind = RopeKind::yarn, .factor = 8, .original_seq = 40};
    if (family == Family::phi3) {
        m.rope_scaling = {.kind = RopeKind::longrope, .factor = 3, .original_seq = 4};
        m.rope_scaling.short_factors = {1, 1};
        m.rope_scaling.long_factors = {1.5, 4};
    }
    return m;
}

RopeScaling drawn_scaling(Draw& draw, i64 pairs)
{
    RopeScaling s;
    s.kind = static_cast<RopeKind>(below(draw, 6));
    if (s.kind == RopeKind::none || (s.kind == RopeKind::dynamic && pairs == 1))
        return {};
    s.factor = 1.5 + static_cast<double>(below(draw, 8));
    s.original_seq = 2 + below(draw, 60);
    if (s.kind == RopeKind::yarn) {
        s.beta_fast = 4;
        s.truncate = below(draw, 2) == 0;
        s.attention_factor = below(draw, 3) == 0 ? 1.25 : 0;
        if (below(draw, 3) == 0)
            s.mscale = 0.7, s.mscale_all_dim = 0.9;
    }
    if (s.kind == RopeKind::longrope)
        for (i64 pair = 0; pair < pairs; ++pair) {
            s.short_factors.push_back(1 + 0.1 * static_cast<double>(pair));
            s.long_factors.push_back(2 + static_cast<double>(pair));
        }
    return s;
}

ModelConfig drawn_model(std::uint64_t seed)
{
    Draw draw(seed);
    const auto flip = [&] { return below(draw, 2) == 0; };
    ModelConfig m;
    m.layers = 1 + below(draw, 3);
    m.kv_heads = 1 + below(draw, 2);
    m.heads = m.kv_heads * (1 + below(draw, 3));
    m.head_dim = 2 * (1 + below(draw, 4));
    m.dim = 5 + below(draw, 9);
    m.ffn_dim = 4 + below(draw, 9);
    m.vocab = 11 + below(draw, 9);
    m.seq = 5 + below(draw, 6);
    m.tied_embeddings = flip();
    m.norm = flip() ? NormKind::rms : NormKind::layer;
    m.norm_rounding = flip() ? NormRounding::before_weight : NormRounding::after_weight;
    m.norm_offset = m.norm == NormKind::rms && flip();
    m.norm_eps = 1e-2;
    m.placement = static_cast<Placement>(below(draw, 4));
    m.qk_norm = static_cast<QkNorm>(below(draw, 3));
    m.qkv_bias = flip();
    m.o_bias = flip();
    m.ffn_bias = flip();
    m.activation = static_cast<Activation>(below(draw, 4));
    m.gated = flip();
    m.attention_scale = flip() ? 0.3 : 0;
    m.attention_cap = flip() ? 1.5 : 0;
    m.attention_sinks = flip();
    m.embedding_scale = static_cast<double>(below(draw, 3));
    m.residual_scale = flip() ? 0.5 : 1;
    m.logit_divisor = flip() ? 2 : 1;
    m.logit_cap = flip() ? 2.5 : 0;
    if (const i64 kind = below(draw, 4); kind == 0) {
        m.v_head_dim = 1 + below(draw, 7);
    } else if (kind == 1) {
        m.kv_latent = 3 + below(draw, 4);
        m.q_latent = flip() ? 0 : 4;
        m.rope_head_dim = m.head_dim > 4 && flip() ? 4 : 2;
        m.head_dim = std::max(m.head_dim, m.rope_head_dim + 1);
        m.v_head_dim = flip() ? 0 : 5;
        m.latent_norm_eps = flip() ? 0 : 0.03;
        m.qk_norm = QkNorm::none;
    }
    for (i64 i = below(draw, 4); i > 0; --i)
        m.layer_pattern.push_back(static_cast<LayerKind>(below(draw, 3)));
    const auto has = [&](LayerKind kind) {
        return std::find(m.layer_pattern.begin(), m.layer_pattern.end(), kind) != m.layer_pattern.end();
    };
    if (has(LayerKind::sliding) || (m.layer_pattern.empty() && flip()))
        m.window = 1 + below(draw, m.seq + 1);
    if (has(LayerKind::chunked) || (m.layer_pattern.empty() && m.window == 0 && flip()))
        m.chunk = 1 + below(draw, m.seq + 1);
    if (below(draw, 4) == 0) {
        m.positions = Positions::learned;
        return m;
    }
    m.rotary_part = !has_latents(m) && m.head_dim % 4 == 0 && flip() ? 0.5 : 1;
    m.rotary_layout = flip() ? RotaryLayout::half : RotaryLayout::interleaved;
    m.rope_theta = 50;
    m.local_rope_theta = flip() ? 7 : 0;
    m.scale_local = flip();
    m.rope_scaling = drawn_scaling(draw, rotary_dim(m) / 2);
    for (i64 i = below(draw, 3); i > 0; --i)
        m.rotary_pattern.push_back(below(draw, 2));
    return m;
}

/// The feed-forward blocks of `m` become mixtures of experts.
ModelConfig with_drawn_experts(ModelConfig m, std::uint64_t seed)
{
    Draw draw(seed);
    const auto flip = [&] { return below(draw, 2) == 0; };
    m.router_groups = flip() ? 1 : 2 + below(draw, 2);
    const i64 of_group = 2 + below(draw, 2);
    m.experts = m.router_groups * of_group;
    m.router_top_groups = 1 + below(draw, m.router_groups);
    m.expert_slots = 1 + below(draw, std::min<i64>(3, m.router_top_groups * of_group));
    m.expert_dim = 3 + below(draw, 5);
    m.shared_dim = flip() ? 0 : 2 + below(draw, 5);
    m.dense_layers = below(draw, m.layers);
    m.router_bias = flip();
    m.router_scores = flip() ? RouterScores::softmax : RouterScores::sigmoid;
    m.router_normalised = flip();
    m.router_scale = flip() ? 1 : 1.7;
    m.router_group_score = flip() ? GroupScore::max : GroupScore::top2;
    m.balance_bias = flip();
    m.expert_capacity = flip() ? 0 : 0.8;
    return m;
}

std::string text_of(const ModelConfig& m)
{
    std::string text = str("family ", name_of(m.family));
    ModelConfig::keys(m, [&](const char* key, const auto& value, KeyKind, const char*) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_enum_v<T>)
            text += str(", ", key, " ", name_of(value));
        else if constexpr (std::is_arithmetic_v<T>)
            text += str(", ", key, " ", value);
    });
    return text + str(", scaling ", name_of(m.rope_scaling.kind));
}

RunConfig run_config(const ModelConfig& model, Precision precision, i64 rows)
{
    RunConfig c;
    c.model = model;
    c.train.precision = precision;
    c.train.global_batch = rows;
    c.parallel.threads = 1;
    resolve_and_validate(c);
    return c;
}

TokenBatch batch_of(const ModelConfig& model, i64 rows, std::uint64_t seed)
{
    reference::Model shape;
    shape.vocab = static_cast<int>(model.vocab);
    shape.seq = static_cast<int>(model.seq);
    return random_batch(shape, rows, seed);
}

void compare_gradients(const ModelConfig& model, Precision precision, double tolerance,
                       const reference::RouterLosses& losses = {})
{
    INFO(text_of(model));
    constexpr i64 rows = 2;
    RunConfig config = run_config(model, precision, rows);
    config.train.balance_loss = losses.balance;
    config.train.router_z_loss = losses.z;
    Run run(config);
    const TokenBatch batch = batch_of(model, rows, 6);
    run.differentiate(batch);
    const reference::Result want = reference::run(run.config.model, run.parameters(), batch.tokens,
                                                  batch.targets, static_cast<std::size_t>(model.seq), losses);
    require_result(run, want, tolerance, 1e-7);
    run.require_planned_is_used(batch);
}

/// Prefill in chunks and single tokens, up to a full cache.
void compare_logits(const ModelConfig& model)
{
    INFO(text_of(model));
    start_runtime();
    RunConfig config = run_config(model, Precision::f64, 1);
    constexpr i64 chunk = 4;
    config.model.seq = 10;
    Engine engine(compile_generation(config, {1, chunk, config.model.seq}, small_machine()));
    engine.initialise(1);
    draw_parameters(engine.program(prefill_program), engine.arenas(), 17, "test", 0.4);
    const TokenBatch batch = batch_of(config.model, 1, 3);
    const Vector want =
        reference::run(config.model, read_parameters(engine.program(prefill_program), engine.arenas()),
                       batch.tokens, reference::Ids(batch.tokens.size(), -1),
                       static_cast<std::size_t>(config.model.seq))
            .logits;
    Generator generator(engine);
    for (const std::vector<i64>& pieces : std::vector<std::vector<i64>>{{3, 1, 1, 4, 1}, {4, 6}}) {
        generator.reset();
        i64 length = 0;
        for (const i64 piece : pieces) {
            const std::span<const double> got = generator.append(
                std::span(batch.tokens)
                    .subspan(static_cast<std::size_t>(length), static_cast<std::size_t>(piece)));
            length += piece;
            const auto last = want.begin() + length * model.vocab;
            INFO(length << " tokens");
            CHECK(scaled_difference(Vector(got.begin(), got.end()), Vector(last - model.vocab, last)) <=
                  1e-9);
        }
    }
}

/// The loss of each token alone: -log of the probability of its target.
std::vector<double> losses_of(Run& run, TokenBatch batch)
{
    const reference::Ids targets = batch.targets;
    std::vector<double> losses;
    for (std::size_t i = 0; i < targets.size(); ++i) {
        batch.targets.assign(targets.size(), -1);
        batch.targets[i] = targets[i];
        run.differentiate(batch);
        losses.push_back(run.loss_sum());
    }
    return losses;
}

/// Two documents in a sequence: a token has no effect on what stands before it or in the other document, to
/// the bit, and each has the losses that it has alone.
void require_documents_apart(const ModelConfig& model, Recompute recompute)
{
    INFO(text_of(model));
    RunConfig config = run_config(model, Precision::f64, 1);
    config.data.attention = SampleAttention::document;
    config.parallel.recompute = recompute;
    Run run(config);
    run.randomise(5);
    const auto seq = static_cast<std::size_t>(model.seq), second = seq / 2 - 1;
    TokenBatch batch = batch_of(model, 1, 4);
    for (std::size_t i = 0; i < seq; ++i) {
        batch.starts.push_back(static_cast<std::int32_t>(i < second ? 0 : second));
        batch.targets[i] = std::max(batch.targets[i], 0);
    }
    const std::vector<double> losses = losses_of(run, batch);
    for (const std::size_t changed : {std::size_t{0}, second - 1, second, seq - 2}) {
        TokenBatch other = batch;
        other.tokens[changed] = (other.tokens[changed] + 1) % static_cast<std::int32_t>(model.vocab);
        const std::vector<double> now = losses_of(run, other);
        for (std::size_t i = 0; i < seq; ++i)
            if (i < changed || (changed < second && i >= second))
                CHECK(now[i] == losses[i]);
        CHECK(now[changed] != losses[changed]);
    }
    TokenBatch alone = batch;
    std::rotate(alone.tokens.begin(), alone.tokens.begin() + second, alone.tokens.end());
    std::rotate(alone.targets.begin(), alone.targets.begin() + second, alone.targets.end());
    alone.starts.clear(); // what follows in the sequence is no part of its past
    const std::vector<double> own = losses_of(run, alone);
    for (std::size_t i = second; i < seq; ++i)
        CHECK(std::abs(own[i - second] - losses[i]) <= 1e-9 * losses[i]);
}

constexpr std::uint64_t draws = 60;

} // namespace

TEST_CASE("gradients of every family agree with the reference in f64 and f32")
{
    for (std::size_t i = 0; i < transformer_families; ++i) {
        const ModelConfig model = small(static_cast<Family>(i));
        compare_gradients(model, Precision::f64, 1e-9);
        compare_gradients(model, Precision::f32, 3e-4);
    }
}

TEST_CASE("gradients of blocks with drawn options agree with the reference in f64")
{
    for (std::uint64_t seed = 1; seed <= draws; ++seed)
        compare_gradients(drawn_model(seed), Precision::f64, 1e-8);
}

TEST_CASE(
    "gradients of drawn mixtures of experts and of the losses of their routers agree with the reference")
{
    for (std::uint64_t seed = 301; seed <= 300 + draws; ++seed) {
        const ModelConfig model = with_drawn_experts(drawn_model(seed), seed);
        const bool regular = seed % 2 == 0;
        compare_gradients(model, Precision::f64, 1e-8, {regular ? 0.3 : 0, seed % 3 == 0 ? 0.2 : 0});
        if (seed % 8 == 0)
            compare_gradients(model, Precision::f32, 1e-3, {regular ? 0.3 : 0, 0});
    }
}

TEST_CASE("the logits of a KV cache are those of the whole sequence, for every family and drawn options")
{
    for (std::size_t i = 0; i < transformer_families; ++i)
        compare_logits(small(static_cast<Family>(i)));
    for (std::uint64_t seed = 101; seed <= 100 + draws / 2; ++seed)
        compare_logits(drawn_model(seed));
    for (std::uint64_t seed = 401; seed <= 410; ++seed) {
        ModelConfig model = with_drawn_experts(drawn_model(seed), seed);
        model.expert_capacity = 0; // generation drops nothing
        compare_logits(model);
    }
}

TEST_CASE("documents in a sequence do not see each other, nor tokens those after them")
{
    for (std::size_t i = 0; i < transformer_families; ++i)
        require_documents_apart(small(static_cast<Family>(i)), static_cast<Recompute>(i % 3));
    for (std::uint64_t seed = 201; seed <= 210; ++seed)
        require_documents_apart(drawn_model(seed), static_cast<Recompute>(seed % 3));
}
