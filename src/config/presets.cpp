// Named model shapes: published models, and small ones for experiments.
#include "base/check.hpp"
#include "config/model_config.hpp"

namespace trivium {

namespace {

struct Preset {
    const char* name;
    ModelConfig config;
};

ModelConfig llama(i64 layers, i64 dim, i64 heads, i64 kv_heads, i64 ffn_dim, i64 vocab, i64 seq)
{
    ModelConfig c;
    c.family = Family::llama;
    c.layers = layers;
    c.dim = dim;
    c.heads = heads;
    c.kv_heads = kv_heads;
    c.ffn_dim = ffn_dim;
    c.vocab = vocab;
    c.seq = seq;
    return c;
}

ModelConfig gpt2(i64 layers, i64 dim, i64 heads, i64 vocab, i64 seq)
{
    ModelConfig c = llama(layers, dim, heads, heads, 4 * dim, vocab, seq);
    c.family = Family::gpt2;
    c.tied_embeddings = true;
    return c;
}

/// Llama 2: base 10000 of the rotary frequencies.
ModelConfig llama2(ModelConfig c)
{
    c.rope_theta = 10000;
    return c;
}

/// Llama 3.1 and later: 131072 tokens by frequency scaling.
ModelConfig scaled(ModelConfig c, double factor)
{
    c.rope_scaling.factor = factor;
    return c;
}

ModelConfig tied(ModelConfig c)
{
    c.tied_embeddings = true;
    return c;
}

const std::vector<Preset>& presets()
{
    static const std::vector<Preset> all{
        {"toy", llama(2, 64, 4, 2, 192, 0, 128)},
        {"toy-gpt2", gpt2(2, 64, 4, 0, 128)},
        {"llama-1m", llama(4, 128, 4, 2, 384, 0, 256)},
        {"llama-5m", tied(llama(6, 256, 8, 4, 704, 0, 256))},
        {"llama-10m", tied(llama(8, 320, 10, 5, 896, 0, 256))},
        {"llama-100m", llama(12, 768, 12, 4, 2048, 32000, 1024)},
        {"gpt2-124m", gpt2(12, 768, 12, 50257, 1024)},
        {"gpt2-355m", gpt2(24, 1024, 16, 50257, 1024)},
        {"gpt2-774m", gpt2(36, 1280, 20, 50257, 1024)},
        {"gpt2-1.5b", gpt2(48, 1600, 25, 50257, 1024)},
        {"llama3.2-1b", tied(scaled(llama(16, 2048, 32, 8, 8192, 128256, 8192), 32))},
        {"llama3.2-3b", tied(scaled(llama(28, 3072, 24, 8, 8192, 128256, 8192), 32))},
        {"llama2-7b", llama2(llama(32, 4096, 32, 32, 11008, 32000, 4096))},
        {"llama3-8b", llama(32, 4096, 32, 8, 14336, 128256, 8192)},
        {"llama3.1-8b", scaled(llama(32, 4096, 32, 8, 14336, 128256, 8192), 8)},
        {"llama2-13b", llama2(llama(40, 5120, 40, 40, 13824, 32000, 4096))},
        {"llama2-70b", llama2(llama(80, 8192, 64, 8, 28672, 32000, 4096))},
        {"llama3-70b", llama(80, 8192, 64, 8, 28672, 128256, 8192)},
        {"llama3.1-70b", scaled(llama(80, 8192, 64, 8, 28672, 128256, 8192), 8)},
        {"llama3-405b", llama(126, 16384, 128, 8, 53248, 128256, 8192)},
        {"llama3.1-405b", scaled(llama(126, 16384, 128, 8, 53248, 128256, 8192), 8)},
    };
    return all;
}

} // namespace

std::vector<std::string> preset_names()
{
    std::vector<std::string> names;
    for (const Preset& p : presets())
        names.emplace_back(p.name);
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
    const std::string near = nearest_word(name, preset_names());
    throw UserError(
        {"model.preset", str("there is no preset '", name, "'"),
         str("the presets are ", one_of(preset_names())),
         near.empty() ? "use one of them, or set the keys of the shape" : str("did you mean '", near, "'?")});
}

} // namespace trivium
