// GGUF files: keys, names, layouts and values, as an own reader finds them.
#include "io/gguf/gguf.hpp"

#include "base/check.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "io/files/files.hpp"
#include "io/gguf/gguf_reader.hpp"
#include "io/hugging_face/small_models.hpp"
#include "io/temporary_folder.hpp"

#include <numbers>
#include <set>

using namespace trivium;

namespace {

/// What llama.cpp calls the tensors of a layer.
const std::map<Family, std::set<std::string>>& layer_names()
{
    const std::set<std::string> llama{"attn_norm.weight", "attn_q.weight",      "attn_k.weight",
                                      "attn_v.weight",    "attn_output.weight", "ffn_norm.weight",
                                      "ffn_gate.weight",  "ffn_up.weight",      "ffn_down.weight"};
    const auto with = [](std::set<std::string> names, const std::set<std::string>& more,
                         const std::set<std::string>& without = {}) {
        names.insert(more.begin(), more.end());
        for (const std::string& name : without)
            names.erase(name);
        return names;
    };
    const std::set<std::string> norms{"attn_q_norm.weight", "attn_k_norm.weight"},
        after{"post_attention_norm.weight", "post_ffw_norm.weight"},
        biases{"attn_norm.bias", "ffn_norm.bias", "attn_output.bias", "ffn_up.bias", "ffn_down.bias"};
    const std::set<std::string> gemma2 = with(llama, after),
                                olmo2 =
                                    with(with(llama, after), norms, {"attn_norm.weight", "ffn_norm.weight"}),
                                joined = with(
                                    with(llama, biases), {"attn_qkv.weight", "attn_qkv.bias"},
                                    {"attn_q.weight", "attn_k.weight", "attn_v.weight", "ffn_gate.weight"});
    const std::set<std::string> experts = with(
        llama, {"ffn_gate_inp.weight", "ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"},
        {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"});
    static const std::map<Family, std::set<std::string>> all{
        {Family::llama, llama},
        {Family::mistral, llama},
        {Family::granite, llama},
        {Family::smollm3, llama},
        {Family::qwen2, with(llama, {"attn_q.bias", "attn_k.bias", "attn_v.bias"})},
        {Family::qwen3, with(llama, norms)},
        {Family::olmo2, olmo2},
        {Family::olmo3, olmo2},
        {Family::gemma2, gemma2},
        {Family::gemma3, with(gemma2, norms)},
        {Family::phi3, with(llama, {"attn_qkv.weight"},
                            {"attn_q.weight", "attn_k.weight", "attn_v.weight", "ffn_gate.weight"})},
        {Family::neox, joined},
        {Family::gpt2, joined},
        {Family::starcoder2,
         with(with(llama, biases), {"attn_q.bias", "attn_k.bias", "attn_v.bias"}, {"ffn_gate.weight"})},
        {Family::mixtral, experts},
        {Family::qwen3_moe, with(experts, norms)},
        {Family::olmoe, with(experts, norms)}};
    return all;
}

/// A small model of the family whose blocks llama.cpp can compute.
ModelConfig exportable(Family family)
{
    ModelConfig model = small_model(family);
    model.heads = 8;
    model.head_dim = 8;
    model.dim = 64; // two blocks of q8_0; the feed-forward block is not a multiple
    model.kv_heads = family == Family::neox || family == Family::gpt2 ? 8 : 2;
    if (model.window > 0)
        model.window = 8;
    model.dense_layers = 0;
    if (family == Family::olmoe)
        model.kv_heads = 8;
    if (family == Family::starcoder2)
        model.window = 64; // longer than the sequences
    return model;
}

ExportedFiles files_of(const ModelConfig& model, const Tokenizer* tokenizer = nullptr,
                       const RunState& state = {})
{
    return exported_files(model, "float32", tokenizer, state);
}

GgufFile export_gguf(const ModelConfig& model, const std::string& checkpoint, const std::string& path,
                     GgufType type, const Tokenizer* tokenizer = nullptr, const RunState& state = {})
{
    const CheckpointReader reader = CheckpointReader::open(checkpoint);
    const ExportedFiles files = files_of(model, tokenizer, state);
    const GgufArchitecture& architecture = gguf_architecture_of(model, *files.architecture);
    const std::vector<GgufTensor> tensors =
        gguf_tensors(model, architecture, hugging_face_tensors(model, *files.architecture), type);
    std::vector<GgufTensorInfo> infos;
    for (const GgufTensor& tensor : tensors)
        infos.push_back(tensor.info);
    GgufWriter writer(path, gguf_keys(model, architecture, type, files, tokenizer, state, "small"), infos);
    for (const GgufTensor& tensor : tensors)
        write_values(tensor, parameters_of(reader), writer);
    writer.close();
    return GgufFile::read(path);
}

/// Of our parameter, which has its inputs first.
float weight(const std::string& name, i64 in, i64 outputs, i64 out)
{
    return weight_of("param/" + name, in * outputs + out);
}

std::string refusal(const ModelConfig& model)
{
    return message_of<UserError>([&] {
        const ExportedFiles files = files_of(model);
        (void)gguf_architecture_of(model, *files.architecture);
    });
}

} // namespace

TEST_CASE("each family has llama.cpp's tensors, with its shapes, in each type")
{
    for (const auto& [family, in_layer] : layer_names()) {
        INFO(name_of(family));
        const TemporaryFolder folder;
        const ModelConfig model = exportable(family);
        const std::string checkpoint = save_model(model, folder.path());
        const GgufFile exact = export_gguf(model, checkpoint, folder / "f32", GgufType::f32);
        std::set<std::string> expected{"token_embd.weight", "output_norm.weight"};
        if (!model.tied_embeddings)
            expected.insert("output.weight");
        if (model.norm == NormKind::layer)
            expected.insert("output_norm.bias");
        if (model.positions == Positions::learned)
            expected.insert("position_embd.weight");
        for (i64 layer = 0; layer < model.layers; ++layer)
            for (const std::string& name : in_layer)
                expected.insert(str("blk.", layer, ".", name));
        CHECK(std::set<std::string>(exact.names.begin(), exact.names.end()) == expected);
        const i64 d = model.dim, q = model.heads * model.head_dim, kv = model.kv_heads * model.head_dim,
                  f = model.ffn_dim;
        const auto shape = [&](const std::string& name) { return exact.tensors.at(name).shape; };
        CHECK(shape("token_embd.weight") == Shape{model.vocab, d});
        CHECK(shape("blk.0.attn_output.weight") == Shape{d, q});
        if (model.experts > 0) {
            CHECK(shape("blk.0.ffn_gate_inp.weight") == Shape{model.experts, d});
            CHECK(shape("blk.0.ffn_up_exps.weight") == Shape{model.experts, model.expert_dim, d});
            CHECK(shape("blk.0.ffn_down_exps.weight") == Shape{model.experts, d, model.expert_dim});
        } else {
            CHECK(shape("blk.0.ffn_up.weight") == Shape{family == Family::phi3 ? 2 * f : f, d});
            CHECK(shape("blk.0.ffn_down.weight") == Shape{d, f});
        }
        if (in_layer.contains("attn_qkv.weight"))
            CHECK(shape("blk.0.attn_qkv.weight") == Shape{q + 2 * kv, d});
        else
            CHECK(shape("blk.2.attn_k.weight") == Shape{kv, d});

        CHECK(exact.keys["general.file_type"] == 0);
        CHECK(exact.keys["tokenizer.ggml.model"] == "no_vocab");
        const std::string arch = exact.keys["general.architecture"];
        CHECK(arch == (family == Family::mistral || family == Family::mixtral ? "llama"
                       : family == Family::qwen3_moe                          ? "qwen3moe"
                       : family == Family::olmo3                              ? "olmo2"
                       : family == Family::neox                               ? "gptneox"
                                                : std::string(name_of(family))));
        const auto key = [&](const std::string& name) {
            return exact.keys.value(arch + "." + name, nlohmann::json());
        };
        CHECK(key("block_count") == 3);
        CHECK(key("embedding_length") == d);
        CHECK(key("feed_forward_length") == (model.experts > 0 ? model.expert_dim : f));
        CHECK(key("expert_count") == (model.experts > 0 ? nlohmann::json(model.experts) : nlohmann::json()));
        CHECK(key("context_length") == model.seq);
        CHECK(key("vocab_size") == model.vocab);
        CHECK(key("attention.head_count") == model.heads);
        CHECK(key("attention.head_count_kv") == model.kv_heads);
        CHECK(key("attention.key_length") == model.head_dim);
        CHECK(key("attention.value_length") == model.head_dim);
        CHECK(key(model.norm == NormKind::layer
                      ? "attention.layer_norm_epsilon"
                      : "attention.layer_norm_rms_epsilon") == static_cast<float>(model.norm_eps));
        CHECK(key("rope.dimension_count") == (family == Family::gpt2   ? nlohmann::json()
                                              : family == Family::neox ? nlohmann::json(2)
                                                                       : nlohmann::json(8)));

        for (const GgufType type : {GgufType::bf16, GgufType::f16, GgufType::q8_0}) {
            const GgufFile rounded = export_gguf(model, checkpoint, folder / "rounded", type);
            CHECK(rounded.names == exact.names);
            for (const auto& [name, tensor] : exact.tensors) {
                const GgufFile::Tensor& other = rounded.tensors.at(name);
                INFO(name << " of type " << other.type);
                const bool blocks = type == GgufType::q8_0 && tensor.shape.back() % 32 != 0;
                CHECK(other.type ==
                      (tensor.shape.size() == 1 || name == "position_embd.weight" || has(name, "ffn_gate_inp")
                           ? 0
                       : blocks ? 1
                                : static_cast<std::uint32_t>(type)));
                REQUIRE(other.values.size() == tensor.values.size());
                double worst = 0; // in units of half a step
                for (std::size_t i = 0; i < tensor.values.size(); ++i) {
                    const float error = std::abs(other.values[i] - tensor.values[i]),
                                half_step = other.type == 8 ? other.steps[i] / 2
                                            : other.type == 30
                                                ? std::abs(tensor.values[i]) * 0x1p-8f
                                                : std::abs(tensor.values[i]) * 0x1p-11f + 0x1p-25f;
                    worst =
                        std::max<double>(worst, other.type == 0 ? (error > 0 ? 2 : 0) : error / half_step);
                }
                CHECK(worst <= 1 + 1e-4);
            }
        }
    }
}

TEST_CASE("values are where llama.cpp reads them")
{
    const TemporaryFolder folder;
    const auto exported = [&](const ModelConfig& model, const std::string& name) {
        return export_gguf(model, save_model(model, folder / ("of-" + name)), folder / name, GgufType::f32);
    };
    // Llama's code rotates neighbours: rows j and j + half of a head are 2j and 2j + 1 there.
    ModelConfig m = exportable(Family::llama);
    m.qkv_bias = m.o_bias = m.ffn_bias = true;
    const GgufFile llama = exported(m, "llama");
    const i64 d = m.dim, e = m.head_dim, half = e / 2;
    for (const auto& [name, heads] : {std::pair{"q", m.heads}, std::pair{"k", m.kv_heads}}) {
        const std::vector<float>& values = llama.tensors.at(str("blk.1.attn_", name, ".weight")).values;
        const std::vector<float>& bias = llama.tensors.at(str("blk.1.attn_", name, ".bias")).values;
        for (i64 head = 0; head < heads; ++head)
            for (i64 x = 0; x < e; ++x) {
                const i64 ours = head * e + x, theirs = head * e + (x < half ? 2 * x : 2 * (x - half) + 1);
                CHECK(bias[static_cast<std::size_t>(theirs)] ==
                      weight(str("layers.1.attn.", name, ".bias"), 0, 0, ours));
                for (const i64 in : {i64{0}, d - 1})
                    CHECK(values[static_cast<std::size_t>(theirs * d + in)] ==
                          weight(str("layers.1.attn.", name, ".weight"), in, heads * e, ours));
            }
    }
    const auto linear = [&](const GgufFile& file, const std::string& theirs, i64 row, i64 in, i64 inputs,
                            const std::string& ours, i64 outputs, i64 out) {
        CHECK(file.tensors.at(theirs).values[static_cast<std::size_t>(row * inputs + in)] ==
              weight(ours, in, outputs, out));
    };
    linear(llama, "blk.0.attn_v.weight", 3, 5, d, "layers.0.attn.v.weight", m.kv_heads * e, 3);
    linear(llama, "blk.2.attn_output.weight", 3, 5, d, "layers.2.attn.o.weight", d, 3);
    linear(llama, "blk.2.ffn_gate.weight", 3, 5, d, "layers.2.ffn.gate.weight", m.ffn_dim, 3);
    linear(llama, "blk.2.ffn_down.weight", 3, 5, m.ffn_dim, "layers.2.ffn.down.weight", d, 3);
    CHECK(llama.tensors.at("token_embd.weight").values == values_of("param/embed.weight", {m.vocab, d}));
    CHECK(llama.tensors.at("output.weight").values == values_of("param/head.weight", {m.vocab, d}));

    // Others rotate dimensions of two halves.
    const ModelConfig qwen = exportable(Family::qwen3);
    linear(exported(qwen, "qwen3"), "blk.0.attn_q.weight", 3, 5, qwen.dim, "layers.0.attn.q.weight", qwen.dim,
           3);

    // GPT-NeoX has query, key and value of each head in turn in transformers, but not here.
    for (const Family family : {Family::neox, Family::gpt2, Family::phi3}) {
        const ModelConfig j = exportable(family);
        const GgufFile joined = exported(j, std::string(name_of(family)));
        const i64 q = j.heads * j.head_dim, kv = j.kv_heads * j.head_dim;
        linear(joined, "blk.1.attn_qkv.weight", q - 2, 5, j.dim, "layers.1.attn.q.weight", q, q - 2);
        linear(joined, "blk.1.attn_qkv.weight", q + kv - 2, 5, j.dim, "layers.1.attn.k.weight", kv, kv - 2);
        linear(joined, "blk.1.attn_qkv.weight", q + kv + 3, 5, j.dim, "layers.1.attn.v.weight", kv, 3);
        if (family != Family::phi3)
            CHECK(joined.tensors.at("blk.1.attn_qkv.bias").values[static_cast<std::size_t>(q + 3)] ==
                  weight_of("param/layers.1.attn.k.bias", 3));
        else
            linear(joined, "blk.1.ffn_up.weight", j.ffn_dim + 3, 5, j.dim, "layers.1.ffn.up.weight",
                   j.ffn_dim, 3);
    }
    // Gemma's norms multiply by 1 + weight, llama.cpp's by the weight.
    const GgufFile gemma = exported(exportable(Family::gemma3), "gemma3");
    for (const char* name : {"attn_norm", "attn_q_norm", "post_ffw_norm"}) {
        const std::string ours = std::string(name) == "attn_q_norm"     ? "attn.q_norm"
                                 : std::string(name) == "post_ffw_norm" ? "ffn_post_norm"
                                                                        : name;
        CHECK(gemma.tensors.at(str("blk.1.", name, ".weight")).values[2] ==
              weight_of(str("param/layers.1.", ours, ".weight"), 2) + 1);
    }
    // The experts of a layer are one tensor, [experts, out, in].
    const ModelConfig mixtral = exportable(Family::mixtral);
    const GgufFile experts = exported(mixtral, "mixtral");
    const i64 h = mixtral.expert_dim;
    CHECK(experts.tensors.at("blk.1.ffn_gate_exps.weight")
              .values[static_cast<std::size_t>((2 * h + 5) * 64 + 7)] ==
          weight_of("param/layers.1.ffn.experts.gate.weight", (2 * 64 + 7) * h + 5));
    CHECK(experts.tensors.at("blk.1.ffn_down_exps.weight")
              .values[static_cast<std::size_t>((2 * 64 + 7) * h + 5)] ==
          weight_of("param/layers.1.ffn.experts.down.weight", (2 * h + 5) * 64 + 7));
    // A head of its own where the architecture has one.
    ModelConfig tied = exportable(Family::olmo2);
    tied.tied_embeddings = true;
    const GgufFile olmo = exported(tied, "olmo2");
    CHECK(olmo.tensors.at("output.weight").values == olmo.tensors.at("token_embd.weight").values);
}

TEST_CASE("options of blocks become keys and tensors")
{
    const TemporaryFolder folder;
    const auto exported = [&](const ModelConfig& model) { // all but the tensors of a checkpoint
        const ExportedFiles files = files_of(model);
        const GgufArchitecture& architecture = gguf_architecture_of(model, *files.architecture);
        const std::vector<GgufTensor> tensors = gguf_tensors(
            model, architecture, hugging_face_tensors(model, *files.architecture), GgufType::f32);
        std::vector<GgufTensorInfo> infos;
        std::vector<float> values;
        for (const GgufTensor& tensor : tensors)
            if (!tensor.values.empty()) {
                infos.push_back(tensor.info);
                values.insert(values.end(), tensor.values.begin(), tensor.values.end());
            }
        GgufWriter writer(folder / "file",
                          gguf_keys(model, architecture, GgufType::f32, files, nullptr, {}, "small"), infos);
        writer.write(values);
        writer.close();
        return GgufFile::read(folder / "file");
    };
    ModelConfig m = exportable(Family::gemma3);
    m.layers = 7;
    m.rope_scaling = {RopeKind::linear, 8};
    nlohmann::json keys = exported(m).keys;
    CHECK(keys["gemma3.attention.sliding_window"] == 8);
    CHECK(keys["gemma3.attention.sliding_window_pattern"] == 6);
    CHECK(keys["gemma3.rope.freq_base"] == 1e6);
    CHECK(keys["gemma3.rope.freq_base_swa"] == 1e4);
    CHECK(keys["gemma3.rope.scaling.type"] == "linear");
    CHECK(keys["gemma3.rope.scaling.factor"] == 8);
    m.layer_pattern = {LayerKind::sliding, LayerKind::sliding, LayerKind::full};
    CHECK(exported(m).keys["gemma3.attention.sliding_window_pattern"] == 3);

    keys = exported(exportable(Family::gemma2)).keys;
    CHECK(keys["gemma2.attn_logit_softcapping"] == 50);
    CHECK(keys["gemma2.final_logit_softcapping"] == 30);
    keys = exported(exportable(Family::neox)).keys;
    CHECK(keys["gptneox.use_parallel_residual"] == true);
    keys = exported(exportable(Family::granite)).keys;
    CHECK(keys["granite.attention.scale"] == 1.0 / 64);
    CHECK(keys["granite.embedding_scale"] == 12);
    CHECK(keys["granite.residual_scale"] == 0.22f);
    CHECK(keys["granite.logit_scale"] == 8);
    m = exportable(Family::mistral);
    m.seq = 20;
    m.window = 24; // no query sees a token that it would leave out, unless a text is longer
    keys = exported(m).keys;
    CHECK(!keys.contains("llama.attention.sliding_window"));
    CHECK(keys["llama.context_length"] == 20);

    // Llama 3.1's scaling, as Meta's code computes it.
    m = exportable(Family::llama);
    m.head_dim = 16;
    m.dim = 96;
    m.rope_theta = 1e4;
    m.rope_scaling = llama3_scaling(8, 1, 4, 256);
    const GgufFile llama3 = exported(m);
    CHECK(!llama3.keys.contains("llama.rope.scaling.type"));
    const std::vector<float>& factors = llama3.tensors.at("rope_freqs.weight").values;
    REQUIRE(factors.size() == 8);
    CHECK(factors[0] == 1); // wavelengths 6.3, 19.9, 62.8 are below 256 / 4
    CHECK(factors[2] == 1);
    const double smooth = (256 / (2 * std::numbers::pi * std::pow(10, 1.5)) - 1) / 3; // 198.7
    CHECK(factors[3] == Approx(1 / ((1 - smooth) / 8 + smooth)));
    CHECK(factors[4] == 8); // 628 and more are above 256
    CHECK(factors[7] == 8);

    m.rope_scaling = {RopeKind::yarn, 4};
    m.rope_scaling.original_seq = 16;
    keys = exported(m).keys;
    CHECK(keys["llama.rope.scaling.type"] == "yarn");
    CHECK(keys["llama.rope.scaling.factor"] == 4);
    CHECK(keys["llama.rope.scaling.original_context_length"] == 16);
    CHECK(keys["llama.rope.scaling.attn_factor"] == 1);
    m.rope_scaling.attention_factor = 1.5; // llama.cpp multiplies it by YaRN's usual one
    CHECK(exported(m).keys["llama.rope.scaling.attn_factor"].get<double>() ==
          Approx(1.5 / (1 + 0.1 * std::log(4.0))));

    m = exportable(Family::phi3);
    m.rope_scaling = {RopeKind::longrope, 4};
    m.rope_scaling.original_seq = 16;
    m.rope_scaling.short_factors = {1, 1.5, 2, 3};
    m.rope_scaling.long_factors = {1, 2, 4, 8};
    const GgufFile phi3 = exported(m);
    CHECK(phi3.tensors.at("rope_factors_long.weight").values == std::vector<float>{1, 2, 4, 8});
    CHECK(phi3.tensors.at("rope_factors_short.weight").values == std::vector<float>{1, 1.5, 2, 3});
    CHECK(phi3.keys["phi3.rope.scaling.attn_factor"].get<double>() ==
          Approx(std::sqrt(1 + std::log(4) / std::log(16))));
    CHECK(phi3.keys["phi3.rope.scaling.original_context_length"] == 16);
    CHECK(phi3.keys["phi3.context_length"] == 64);
}

TEST_CASE("what llama.cpp does not compute is refused, by the key")
{
    const auto refused = [](Family family, const std::function<void(ModelConfig&)>& change) {
        ModelConfig model = exportable(family);
        CHECK(refusal(model).empty());
        change(model);
        return refusal(model);
    };
    using M = ModelConfig;
    CHECK(says(refused(Family::mistral, [](M& m) { m.window = 16; }), "model.window: is 16",
               "llama has no sliding layers", "32"));
    CHECK(says(refused(Family::qwen3, [](M& m) { m.qkv_bias = m.o_bias = true; }), "model.qkv_bias: is true",
               "qwen3"));
    CHECK(says(refused(Family::neox, [](M& m) { m.qkv_bias = m.o_bias = false; }), "model.qkv_bias: is false",
               "gptneox always has"));
    CHECK(says(refused(Family::qwen2, [](M& m) { m.head_dim = 16; }), "model.head_dim: is 16", "8"));
    CHECK(says(refused(Family::llama, [](M& m) { m.activation = Activation::gelu_tanh; }),
               "model.activation: is gelu-tanh", "silu"));
    CHECK(says(refused(Family::gemma2, [](M& m) { m.attention_cap = 0; }), "model.attention_cap: is 0"));
    CHECK(says(refused(Family::gemma3, [](M& m) { m.logit_cap = 30; }), "model.logit_cap: is 30"));
    CHECK(says(refused(Family::gemma3, [](M& m) { m.attention_scale = 0.5; }),
               "model.attention_scale: is 0.5", "1 / sqrt(8)"));
    CHECK(says(refused(Family::gemma2, [](M& m) { m.tied_embeddings = false; }), "model.tied_embeddings"));
    CHECK(says(refused(Family::gemma2,
                       [](M& m) {
                           m.layer_pattern = {LayerKind::full, LayerKind::sliding};
                       }),
               "model.layer_pattern"));
    CHECK(says(refused(Family::smollm3,
                       [](M& m) {
                           m.rotary_pattern = {1, 0};
                       }),
               "model.rotary_pattern", "layer 1"));
    CHECK(says(refused(Family::qwen2, [](M& m) { m.rope_scaling = llama3_scaling(8, 1, 4, 16); }),
               "model.rope_scaling: is of kind \"llama3\"", "qwen2"));
    CHECK(says(refused(Family::llama,
                       [](M& m) {
                           m.rope_scaling = {RopeKind::dynamic, 2};
                           m.rope_scaling.original_seq = 32;
                       }),
               "model.rope_scaling: is of kind \"dynamic\""));
    CHECK(says(refused(Family::olmo3, [](M& m) { m.local_rope_theta = 1e4; }), "model.local_rope_theta"));
    CHECK(says(refused(Family::qwen3_moe, [](M& m) { m.dense_layers = 1; }), "model.dense_layers: is 1",
               "qwen3moe"));
    CHECK(says(refused(Family::qwen3_moe, [](M& m) { m.router_normalised = false; }),
               "model.router_normalised"));
    CHECK(says(refused(Family::olmoe, [](M& m) { m.router_normalised = true; }), "model.router_normalised"));
    CHECK(says(refused(Family::olmoe, [](M& m) { m.kv_heads = 2; }), "model.kv_heads: is 2"));
    CHECK(says(refusal(exportable(Family::gpt_oss)), "model.family: is gpt-oss"));
}

TEST_CASE("values that a type cannot hold are refused, and a block of zeros is zeros")
{
    const TemporaryFolder folder;
    const auto written = [&](GgufType type, std::vector<float> values) {
        GgufWriter writer(folder / "file", {}, {{"t", {2, 32}, type}});
        values.resize(64);
        for (const float& value : values) // any pieces
            writer.write({&value, 1});
        writer.close();
        return GgufFile::read(folder / "file").tensors.at("t").values;
    };
    const auto message = [&](GgufType type, float value) {
        return message_of<UserError>([&] { (void)written(type, {0, value}); });
    };
    CHECK(message(GgufType::f16, 65519).empty());
    CHECK(says(message(GgufType::f16, -65520), "t: has the value -65520", "--type bf16"));
    CHECK(message(GgufType::q8_0, 8e6f).empty());
    CHECK(says(message(GgufType::q8_0, 9e6f), "t: has the value 9e+06"));
    CHECK(says(message(GgufType::q8_0, std::nanf("")), "t: has the value", "nan"));
    CHECK(written(GgufType::q8_0, {}) == std::vector<float>(64));
    CHECK(written(GgufType::q8_0, {127, -127, 1})[2] == 1);
}
