// Named model shapes: published models, and small ones for experiments.
#include "base/check.hpp"
#include "config/model_config.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

struct Preset {
    std::string name;
    ModelConfig config;
    i64 parameters = 0;
};

struct Shape {
    i64 layers, dim, heads, kv_heads, ffn_dim, vocab, seq;
    i64 head_dim = 0;
};

ModelConfig of(Family family, const Shape& s)
{
    ModelConfig c{.layers = s.layers,
                  .dim = s.dim,
                  .heads = s.heads,
                  .kv_heads = s.kv_heads,
                  .head_dim = s.head_dim,
                  .ffn_dim = s.ffn_dim,
                  .vocab = s.vocab,
                  .seq = s.seq};
    set_family(c, family);
    return c;
}

ModelConfig llama_of(i64 layers, i64 dim, i64 heads, i64 kv_heads, i64 ffn_dim, i64 vocab, i64 seq)
{
    return of(Family::llama, {layers, dim, heads, kv_heads, ffn_dim, vocab, seq});
}

ModelConfig tied(ModelConfig c)
{
    c.tied_embeddings = true;
    return c;
}

ModelConfig gpt2_of(i64 layers, i64 dim, i64 heads, i64 vocab, i64 seq)
{
    return tied(of(Family::gpt2, {layers, dim, heads, heads, 4 * dim, vocab, seq}));
}

ModelConfig pythia_of(i64 layers, i64 dim, i64 heads, i64 vocab)
{
    return of(Family::neox, {layers, dim, heads, heads, 4 * dim, vocab, 2048});
}

ModelConfig with(ModelConfig c, double rope_theta, double norm_eps)
{
    c.rope_theta = rope_theta;
    c.norm_eps = norm_eps;
    return c;
}

/// Base 10000 of the rotary frequencies.
ModelConfig llama2(ModelConfig c) { return with(c, 10000, c.norm_eps); }
ModelConfig llama1(ModelConfig c) { return with(c, 10000, 1e-6); }

ModelConfig scaled(ModelConfig c, RopeScaling scaling)
{
    c.rope_scaling = std::move(scaling);
    return c;
}

/// Llama 3.1 and later: 131072 tokens by frequency scaling.
ModelConfig scaled(ModelConfig c, double factor) { return scaled(std::move(c), llama3_scaling(factor)); }

ModelConfig windowed(ModelConfig c, i64 window)
{
    c.window = window;
    return c;
}

/// Attention scores divided by the root of `width`, not of head_dim.
ModelConfig scaled_for(ModelConfig c, double width)
{
    c.attention_scale = 1 / std::sqrt(width);
    return c;
}

const RopeScaling gemma3_scaling{.kind = RopeKind::linear, .factor = 8};
const RopeScaling olmo3_scaling{.kind = RopeKind::yarn, .factor = 8, .original_seq = 8192};

ModelConfig phi4_mini()
{
    ModelConfig c = tied(of(Family::phi3, {32, 3072, 24, 8, 8192, 200064, 131072}));
    c.rotary_part = 0.75;
    c.rope_scaling = {.kind = RopeKind::longrope, .factor = 32, .original_seq = 4096};
    c.rope_scaling.short_factors.assign(48, 1);
    c.rope_scaling.long_factors = {
        1,           1.118320672, 1.250641126, 1.398617824, 1.564103225, 1.74916897,  1.956131817,
        2.187582649, 2.446418898, 2.735880826, 3.059592084, 3.421605075, 3.826451687, 4.279200023,
        4.785517845, 5.351743533, 5.984965424, 6.693110555, 7.485043894, 8.370679318, 9.36110372,
        10.4687158,  11.70738129, 13.09260651, 14.64173252, 16.37415215, 18.31155283, 20.47818807,
        22.90118105, 25.61086418, 28.64115884, 32.03,       32.1,        32.13,       32.23,
        32.6,        32.61,       32.64,       32.66,       32.7,        32.71,       32.93,
        32.97,       33.28,       33.49,       33.5,        44.16,       47.77};
    return c;
}

/// 3.1: 131072 tokens.
ModelConfig granite_of(const Shape& shape, double rope_theta, double attention_scale, double logit_divisor)
{
    ModelConfig c = tied(of(Family::granite, shape));
    c.rope_theta = rope_theta;
    c.attention_scale = attention_scale;
    c.logit_divisor = logit_divisor;
    return c;
}

/// `experts` in each layer, of which a token goes to `slots`. `expert_dim`: 0: ffn_dim.
ModelConfig moe_of(Family family, const Shape& shape, i64 experts, i64 slots, i64 expert_dim = 0)
{
    ModelConfig c = of(family, shape);
    c.experts = experts;
    c.expert_slots = slots;
    c.expert_dim = expert_dim;
    return c;
}

struct Experts {
    i64 experts, slots, dim, shared, dense_layers, groups, top_groups;
    double scale;
};

/// 163840 tokens by YaRN.
ModelConfig deepseek_of(Family family, const Shape& shape, i64 q_latent, double mscale, const Experts& e)
{
    ModelConfig c = moe_of(family, shape, e.experts, e.slots, e.dim);
    c.q_latent = q_latent;
    c.rope_scaling = {.kind = RopeKind::yarn,
                      .factor = 40,
                      .original_seq = 4096,
                      .mscale = mscale,
                      .mscale_all_dim = mscale};
    c.shared_dim = e.shared * e.dim;
    c.dense_layers = e.dense_layers;
    c.router_groups = e.groups;
    c.router_top_groups = e.top_groups;
    c.router_scale = e.scale;
    return c;
}

/// A model of a family for experiments: toy-FAMILY.
Preset toy_of(Family family)
{
    const bool own_keys = family == Family::neox || has_latents(options_of(family)); // of each head
    ModelConfig c = of(family, {2, 64, 4, own_keys ? 4 : 2, 0, 0, 128});
    c.layers = std::max<i64>(
        {c.layers, static_cast<i64>(c.layer_pattern.size()), static_cast<i64>(c.rotary_pattern.size())});
    c.window = c.window > 0 ? 32 : 0;
    if (c.experts > 0) {
        c.experts = 8;
        c.expert_slots = 2;
        c.expert_dim = 64;
        c.router_groups = c.router_groups > 1 ? 4 : 1;
        c.router_top_groups = c.router_groups > 1 ? 2 : 1;
    }
    c.q_latent = c.q_latent > 0 ? 48 : 0;
    c.kv_latent = c.kv_latent > 0 ? 32 : 0;
    return {str("toy-", name_of(family)), c};
}

std::vector<Preset> all_presets()
{
    using enum Family;
    std::vector<Preset> all{
        {"toy", llama_of(2, 64, 4, 2, 192, 0, 128)},
        {"toy-gpt2", gpt2_of(2, 64, 4, 0, 128)},
        {"llama-1m", llama_of(4, 128, 4, 2, 384, 0, 256)},
        {"llama-5m", tied(llama_of(6, 256, 8, 4, 704, 0, 256))},
        {"llama-10m", tied(llama_of(8, 320, 10, 5, 896, 0, 256))},
        {"llama-100m", llama_of(12, 768, 12, 4, 2048, 32000, 1024)},
        {"gpt2-124m", gpt2_of(12, 768, 12, 50257, 1024)},
        {"gpt2-355m", gpt2_of(24, 1024, 16, 50257, 1024)},
        {"gpt2-774m", gpt2_of(36, 1280, 20, 50257, 1024)},
        {"gpt2-1.5b", gpt2_of(48, 1600, 25, 50257, 1024)},
        {"llama1-7b", llama1(llama_of(32, 4096, 32, 32, 11008, 32000, 2048))},
        {"llama1-13b", llama1(llama_of(40, 5120, 40, 40, 13824, 32000, 2048))},
        {"llama1-33b", llama1(llama_of(60, 6656, 52, 52, 17920, 32000, 2048))},
        {"llama1-65b", llama1(llama_of(80, 8192, 64, 64, 22016, 32000, 2048))},
        {"llama3.2-1b", tied(scaled(llama_of(16, 2048, 32, 8, 8192, 128256, 8192), 32))},
        {"llama3.2-3b", tied(scaled(llama_of(28, 3072, 24, 8, 8192, 128256, 8192), 32))},
        {"llama2-7b", llama2(llama_of(32, 4096, 32, 32, 11008, 32000, 4096))},
        {"llama3-8b", llama_of(32, 4096, 32, 8, 14336, 128256, 8192)},
        {"llama3.1-8b", scaled(llama_of(32, 4096, 32, 8, 14336, 128256, 8192), 8)},
        {"llama2-13b", llama2(llama_of(40, 5120, 40, 40, 13824, 32000, 4096))},
        {"llama2-70b", llama2(llama_of(80, 8192, 64, 8, 28672, 32000, 4096))},
        {"llama3-70b", llama_of(80, 8192, 64, 8, 28672, 128256, 8192)},
        {"llama3.1-70b", scaled(llama_of(80, 8192, 64, 8, 28672, 128256, 8192), 8)},
        {"llama3-405b", llama_of(126, 16384, 128, 8, 53248, 128256, 8192)},
        {"llama3.1-405b", scaled(llama_of(126, 16384, 128, 8, 53248, 128256, 8192), 8)},
        {"mistral-7b-v0.1",
         windowed(with(of(mistral, {32, 4096, 32, 8, 14336, 32000, 32768}), 10000, 1e-5), 4096)},
        {"mistral-7b-v0.3", of(mistral, {32, 4096, 32, 8, 14336, 32768, 32768})},
        {"mistral-nemo-12b", of(mistral, {40, 5120, 32, 8, 14336, 131072, 131072, 128})},
        {"qwen2.5-0.5b", tied(of(qwen2, {24, 896, 14, 2, 4864, 151936, 32768}))},
        {"qwen2.5-1.5b", tied(of(qwen2, {28, 1536, 12, 2, 8960, 151936, 32768}))},
        {"qwen2.5-3b", tied(of(qwen2, {36, 2048, 16, 2, 11008, 151936, 32768}))},
        {"qwen2.5-7b", of(qwen2, {28, 3584, 28, 4, 18944, 152064, 32768})},
        {"qwen2.5-14b", with(of(qwen2, {48, 5120, 40, 8, 13824, 152064, 32768}), 1e6, 1e-5)},
        {"qwen2.5-32b", with(of(qwen2, {64, 5120, 40, 8, 27648, 152064, 32768}), 1e6, 1e-5)},
        {"qwen3-0.6b", tied(of(qwen3, {28, 1024, 16, 8, 3072, 151936, 40960, 128}))},
        {"qwen3-1.7b", tied(of(qwen3, {28, 2048, 16, 8, 6144, 151936, 40960, 128}))},
        {"qwen3-4b", tied(of(qwen3, {36, 2560, 32, 8, 9728, 151936, 40960, 128}))},
        {"qwen3-8b", of(qwen3, {36, 4096, 32, 8, 12288, 151936, 40960, 128})},
        {"qwen3-14b", of(qwen3, {40, 5120, 40, 8, 17408, 151936, 40960, 128})},
        {"qwen3-32b", of(qwen3, {64, 5120, 64, 8, 25600, 151936, 40960, 128})},
        {"olmo2-7b", of(olmo2, {32, 4096, 32, 32, 11008, 100352, 4096})},
        {"olmo2-13b", of(olmo2, {40, 5120, 40, 40, 13824, 100352, 4096})},
        {"olmo2-32b", of(olmo2, {64, 5120, 40, 8, 27648, 100352, 4096})},
        {"olmo3-7b", scaled(of(olmo3, {32, 4096, 32, 32, 11008, 100352, 65536}), olmo3_scaling)},
        {"olmo3-32b", scaled(of(olmo3, {64, 5120, 40, 8, 27648, 100352, 65536}), olmo3_scaling)},
        {"gemma2-2b", of(gemma2, {26, 2304, 8, 4, 9216, 256000, 8192, 256})},
        {"gemma2-9b", of(gemma2, {42, 3584, 16, 8, 14336, 256000, 8192, 256})},
        {"gemma2-27b", scaled_for(of(gemma2, {46, 4608, 32, 16, 36864, 256000, 8192, 128}), 144)},
        {"gemma3-1b", windowed(of(gemma3, {26, 1152, 4, 1, 6912, 262144, 32768, 256}), 512)},
        {"gemma3-4b", scaled(of(gemma3, {34, 2560, 8, 4, 10240, 262144, 131072, 256}), gemma3_scaling)},
        {"gemma3-12b", scaled(of(gemma3, {48, 3840, 16, 8, 15360, 262144, 131072, 256}), gemma3_scaling)},
        {"gemma3-27b",
         scaled_for(scaled(of(gemma3, {62, 5376, 32, 16, 21504, 262144, 131072, 128}), gemma3_scaling), 168)},
        {"phi3-mini-4k", windowed(of(phi3, {32, 3072, 32, 32, 8192, 32064, 4096}), 2047)},
        {"phi4-mini", phi4_mini()},
        {"phi4-14b", with(of(phi3, {40, 5120, 40, 10, 17920, 100352, 16384}), 250000, 1e-5)},
        {"pythia-70m", pythia_of(6, 512, 8, 50304)},
        {"pythia-160m", pythia_of(12, 768, 12, 50304)},
        {"pythia-410m", pythia_of(24, 1024, 16, 50304)},
        {"pythia-1b", pythia_of(16, 2048, 8, 50304)},
        {"pythia-1.4b", pythia_of(24, 2048, 16, 50304)},
        {"pythia-2.8b", pythia_of(32, 2560, 32, 50304)},
        {"pythia-6.9b", pythia_of(32, 4096, 32, 50432)},
        {"pythia-12b", pythia_of(36, 5120, 40, 50688)},
        {"starcoder2-3b",
         tied(with(of(starcoder2, {30, 3072, 24, 2, 12288, 49152, 16384}), 999999.4420358813, 1e-5))},
        {"starcoder2-7b", tied(of(starcoder2, {32, 4608, 36, 4, 18432, 49152, 16384}))},
        {"starcoder2-15b", with(of(starcoder2, {40, 6144, 48, 4, 24576, 49152, 16384}), 100000, 1e-5)},
        {"granite3.1-2b", granite_of({40, 2048, 32, 8, 8192, 49152, 131072}, 5e6, 1.0 / 64, 8)},
        {"granite3.1-8b", granite_of({40, 4096, 32, 8, 12800, 49152, 131072}, 1e7, 1.0 / 128, 16)},
        {"smollm3-3b", of(smollm3, {36, 2048, 16, 4, 11008, 128256, 65536})},
        {"mixtral-8x7b", moe_of(mixtral, {32, 4096, 32, 8, 14336, 32000, 32768}, 8, 2)},
        {"mixtral-8x22b", moe_of(mixtral, {56, 6144, 48, 8, 16384, 32000, 65536}, 8, 2)},
        {"qwen3-30b-a3b", moe_of(qwen3_moe, {48, 2048, 32, 4, 6144, 151936, 40960, 128}, 128, 8, 768)},
        {"qwen3-235b-a22b", moe_of(qwen3_moe, {94, 4096, 64, 4, 12288, 151936, 40960, 128}, 128, 8, 1536)},
        {"olmoe-1b-7b", moe_of(olmoe, {16, 2048, 16, 16, 1024, 50304, 4096}, 64, 8)},
        {"gpt-oss-20b", moe_of(gpt_oss, {24, 2880, 64, 8, 2880, 201088, 131072, 64}, 32, 4)},
        {"gpt-oss-120b", moe_of(gpt_oss, {36, 2880, 64, 8, 2880, 201088, 131072, 64}, 128, 4)},
        {"deepseek2-lite", deepseek_of(deepseek2, {27, 2048, 16, 16, 10944, 102400, 163840, 192}, 0, 0.707,
                                       {64, 6, 1408, 2, 1, 1, 1, 1})},
        {"deepseek2", deepseek_of(deepseek2, {60, 5120, 128, 128, 12288, 102400, 163840, 192}, 1536, 0.707,
                                  {160, 6, 1536, 2, 1, 8, 3, 16})},
        {"deepseek3", deepseek_of(deepseek3, {61, 7168, 128, 128, 18432, 129280, 163840, 192}, 1536, 1,
                                  {256, 8, 2048, 1, 3, 8, 4, 2.5})},
    };
    for (std::size_t i = 0; i < transformer_families; ++i)
        if (const auto family = static_cast<Family>(i); family != Family::llama && family != gpt2)
            all.push_back(toy_of(family));
    for (Preset& p : all) {
        ModelConfig c = p.config;
        c.vocab = std::max<i64>(c.vocab, 256);
        resolve(c);
        p.parameters = parameter_count(c);
    }
    std::ranges::stable_sort(all, {}, &Preset::parameters);
    return all;
}

const std::vector<Preset>& presets()
{
    static const std::vector<Preset> all = all_presets();
    return all;
}

} // namespace

std::vector<std::string> preset_names()
{
    std::vector<std::string> names;
    for (const Preset& p : presets())
        names.push_back(p.name);
    return names;
}

ModelConfig preset(const std::string& name)
{
    for (const Preset& p : presets())
        if (name == p.name) {
            ModelConfig config = p.config;
            config.preset = name;
            return config;
        }
    throw UserError({"model.preset", str("there is no preset '", name, "'"),
                     str("the presets are ", one_of(preset_names())),
                     did_you_mean(name, preset_names(), "use one of them, or set the keys of the shape")});
}

} // namespace trivium
