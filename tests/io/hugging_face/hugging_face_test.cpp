#include "base/check.hpp"
#include "catch.hpp"
#include "io/files/folders.hpp"
#include "io/hugging_face/hugging_face.hpp"
#include "io/temporary_folder.hpp"
#include "model/model.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

using namespace trivium;
using Json = nlohmann::json;

namespace {

ModelConfig llama_model()
{
    ModelConfig m;
    m.layers = 2;
    m.dim = 24;
    m.heads = 6;
    m.kv_heads = 2;
    m.ffn_dim = 40;
    m.vocab = 50;
    m.seq = 32;
    resolve(m);
    return m;
}

ModelConfig gpt2_model()
{
    ModelConfig m = llama_model();
    set_family(m, Family::gpt2);
    m.kv_heads = 6;
    m.tied_embeddings = true;
    return m;
}

ModelConfig small_model(Family family)
{
    ModelConfig m = llama_model();
    set_family(m, family);
    m.layers = 3;
    m.head_dim = m.positions == Positions::learned ? 4 : 8;
    m.dim = m.head_dim * m.heads; // some classes require it
    if (family == Family::neox || family == Family::gpt2)
        m.kv_heads = m.heads;
    return m;
}

/// One of each family, and others with the other kind of head.
std::vector<ModelConfig> models()
{
    std::vector<ModelConfig> all{llama_model(), gpt2_model(), llama_model(), gpt2_model()};
    all[2].tied_embeddings = true;
    all[3].tied_embeddings = false;
    for (std::size_t i = 0; i < names_of_enum<Family>.size(); ++i)
        all.push_back(small_model(static_cast<Family>(i)));
    return all;
}

std::vector<HuggingFaceTensor> tensors_of(const ModelConfig& model)
{
    return hugging_face_tensors(model, architecture_of(model));
}

std::string print_config(const ModelConfig& model, const std::string& type = "float32", i64 eos = -1)
{
    return print_hugging_face_config(model, architecture_of(model), type, eos);
}

ModelConfig parse_config(const std::string& text)
{
    return parse_hugging_face_config(text, "config.json").model;
}

/// All values differ.
float weight_of(const std::string& name, i64 index)
{
    return std::sin(static_cast<float>(index) * 0.37f +
                    static_cast<float>(std::hash<std::string>()(name) % 1000));
}

std::vector<float> values_of(const std::string& name, const Shape& shape)
{
    std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = weight_of(name, static_cast<i64>(i));
    return values;
}

/// A checkpoint of the model, saved by two ranks that shard first dimensions.
std::string save_model(const ModelConfig& model, const std::string& dir)
{
    run_on_threads(2, [&](Comm& world) {
        std::vector<std::vector<float>> values;
        std::vector<TensorPiece> pieces;
        for (const HuggingFaceTensor& theirs : tensors_of(model))
            for (const OurTensor& ours : theirs.ours) {
                TensorPiece piece = whole_tensor("param/" + ours.name, ours.shape, DType::f32, nullptr);
                values.push_back(values_of(piece.name, ours.shape));
                const i64 half = ours.shape[0] / 2, row = element_count(ours.shape) / ours.shape[0];
                piece.box.offset[0] = world.rank() == 0 ? 0 : half;
                piece.box.shape[0] = world.rank() == 0 ? half : ours.shape[0] - half;
                piece.data = values.back().data() + piece.box.offset[0] * row;
                pieces.push_back(piece);
            }
        save_checkpoint(world, dir, {}, pieces, 0);
    });
    return dir + "/" + checkpoint_name(0);
}

/// Exports the model to a folder, as bf16 or f32.
void export_model(const ModelConfig& model, const std::string& checkpoint, const std::string& folder,
                  const std::string& type = "F32")
{
    const CheckpointReader reader = CheckpointReader::open(checkpoint);
    std::vector<SafetensorsEntry> entries;
    for (const HuggingFaceTensor& tensor : tensors_of(model))
        entries.push_back({tensor.name, type, tensor.shape});
    make_whole_folder(folder, [&](const std::string& to) {
        SafetensorsWriter writer(to, entries, 10'000);
        for (const HuggingFaceTensor& tensor : tensors_of(model))
            export_values(tensor, reader, [&](std::span<const float> values) { writer.write(values); });
        writer.close();
        put(to + "/config.json", print_config(model));
    });
}

std::vector<float> read_all(const SafetensorsReader& reader, const std::string& name)
{
    const SafetensorsEntry* entry = reader.find(name);
    REQUIRE(entry);
    std::vector<float> values(static_cast<std::size_t>(element_count(entry->shape)));
    reader.read(*entry, i64{0}, std::span(values));
    return values;
}

/// Imports our values from a folder, `at_once` at a time.
void require_values(const HuggingFaceModel& theirs, i64 at_once)
{
    for (const HuggingFaceTensor& tensor : theirs.tensors)
        for (std::size_t part = 0; part < tensor.ours.size(); ++part) {
            const OurTensor& ours = tensor.ours[part];
            const ValueSource source = imported_values(tensor, part, theirs.files);
            std::vector<float> values(static_cast<std::size_t>(element_count(ours.shape)));
            for (i64 first = 0; first < static_cast<i64>(values.size()); first += at_once)
                source(first,
                       std::span(values).subspan(static_cast<std::size_t>(first),
                                                 static_cast<std::size_t>(std::min(
                                                     at_once, static_cast<i64>(values.size()) - first))));
            INFO(ours.name << " in pieces of " << at_once);
            CHECK(values == values_of("param/" + ours.name, ours.shape));
        }
}

/// The error for a Llama, or for GPT-2, after this change of its config.json.
std::string refusal(const ModelConfig& model, const Json& change)
{
    Json json = Json::parse(print_config(model));
    json.merge_patch(change); // null removes
    return message_of<UserError>([&] { (void)parse_hugging_face_config(json.dump(), "config.json"); });
}

} // namespace

TEST_CASE("the table has each parameter of the model once, with its shape")
{
    for (const ModelConfig& model : models()) {
        std::map<std::string, Shape> expected, found;
        const Graph graph = build_loss_graph(model, {});
        for (const ValueId id : graph.with_role(Role::parameter))
            expected[graph[id].name] = graph[id].type.shape;
        std::set<std::string> theirs;
        for (const HuggingFaceTensor& tensor : tensors_of(model)) {
            CHECK(theirs.insert(tensor.name).second);
            i64 count = 0;
            for (const OurTensor& ours : tensor.ours) {
                CHECK(found.emplace(ours.name, ours.shape).second);
                count += element_count(ours.shape);
            }
            CHECK(count == element_count(tensor.shape));
        }
        CHECK(found == expected);
    }
}

TEST_CASE("values have the layout that transformers expects")
{
    const TemporaryFolder folder;
    const ModelConfig m = llama_model();
    export_model(m, save_model(m, folder.path()), folder / "llama");
    const SafetensorsReader llama = SafetensorsReader::open(folder / "llama");
    CHECK(std::filesystem::exists(folder / "llama/model.safetensors.index.json"));
    // torch.nn.Linear: y = x W^T; heads that share a key are consecutive.
    const i64 d = m.dim, g = m.kv_heads, r = m.heads / g, e = m.head_dim, f = m.ffn_dim;
    const std::vector<float> q = read_all(llama, "model.layers.1.self_attn.q_proj.weight");
    const std::vector<float> o = read_all(llama, "model.layers.1.self_attn.o_proj.weight");
    for (i64 in = 0; in < d; ++in)
        for (i64 head = 0; head < g * r; ++head)
            for (i64 x = 0; x < e; ++x) {
                const i64 group = head / r, query = head % r;
                CHECK(q[static_cast<std::size_t>((head * e + x) * d + in)] ==
                      weight_of("param/layers.1.attn.q.weight", ((in * g + group) * r + query) * e + x));
                CHECK(o[static_cast<std::size_t>(in * d + head * e + x)] ==
                      weight_of("param/layers.1.attn.o.weight", ((group * r + query) * e + x) * d + in));
            }
    const std::vector<float> gate = read_all(llama, "model.layers.0.mlp.gate_proj.weight");
    CHECK(gate[static_cast<std::size_t>(7 * d + 3)] ==
          weight_of("param/layers.0.ffn.gate.weight", 3 * f + 7));
    CHECK(read_all(llama, "lm_head.weight") == values_of("param/head.weight", {m.vocab, d}));

    const ModelConfig n = gpt2_model();
    export_model(n, save_model(n, folder / "of-gpt2"), folder / "gpt2");
    const SafetensorsReader gpt2 = SafetensorsReader::open(folder / "gpt2");
    // Conv1D: y = x W, with query, key and value side by side.
    const std::vector<float> qkv = read_all(gpt2, "transformer.h.1.attn.c_attn.weight"),
                             bias = read_all(gpt2, "transformer.h.1.attn.c_attn.bias");
    for (i64 in = 0; in < d; ++in)
        for (i64 out = 0; out < d; ++out) {
            CHECK(qkv[static_cast<std::size_t>(in * 3 * d + out)] ==
                  weight_of("param/layers.1.attn.q.weight", in * d + out));
            CHECK(qkv[static_cast<std::size_t>(in * 3 * d + d + out)] ==
                  weight_of("param/layers.1.attn.k.weight", in * d + out));
            CHECK(qkv[static_cast<std::size_t>(in * 3 * d + 2 * d + out)] ==
                  weight_of("param/layers.1.attn.v.weight", in * d + out));
        }
    CHECK(bias[static_cast<std::size_t>(2 * d + 5)] == weight_of("param/layers.1.attn.v.bias", 5));
    CHECK(read_all(gpt2, "transformer.wpe.weight") == values_of("param/positions.weight", {n.seq, d}));
    CHECK(gpt2.find("lm_head.weight") == nullptr);
}

TEST_CASE("products that transformers joins have its layouts")
{
    const TemporaryFolder folder;
    const ModelConfig m = small_model(Family::neox), n = small_model(Family::phi3);
    const i64 d = m.dim, e = m.head_dim;
    const auto index = [](i64 i) { return static_cast<std::size_t>(i); };
    export_model(m, save_model(m, folder / "of-neox"), folder / "neox");
    const SafetensorsReader neox = SafetensorsReader::open(folder / "neox");
    const std::vector<float> qkv = read_all(neox, "gpt_neox.layers.2.attention.query_key_value.weight"),
                             bias = read_all(neox, "gpt_neox.layers.2.attention.query_key_value.bias");
    for (i64 head = 0; head < m.heads; ++head) // each head has its query, key and value
        for (i64 kind = 0; kind < 3; ++kind)
            for (i64 x = 0; x < e; ++x) {
                const std::string ours = str("param/layers.2.attn.", "qkv"[kind]);
                const i64 theirs = (head * 3 + kind) * e + x, column = head * e + x;
                CHECK(bias[index(theirs)] == weight_of(ours + ".bias", column));
                for (i64 in = 0; in < d; in += 7)
                    CHECK(qkv[index(theirs * d + in)] == weight_of(ours + ".weight", in * d + column));
            }
    CHECK(neox.find("embed_out.weight"));

    export_model(n, save_model(n, folder / "of-phi3"), folder / "phi3");
    const SafetensorsReader phi3 = SafetensorsReader::open(folder / "phi3");
    const std::vector<float> joined = read_all(phi3, "model.layers.0.self_attn.qkv_proj.weight"),
                             gate_up = read_all(phi3, "model.layers.0.mlp.gate_up_proj.weight");
    const i64 kv = n.kv_heads * e;
    CHECK(joined[index(3 * d + 5)] == weight_of("param/layers.0.attn.q.weight", 5 * d + 3));
    CHECK(joined[index((d + 3) * d + 5)] == weight_of("param/layers.0.attn.k.weight", 5 * kv + 3));
    CHECK(joined[index((d + kv + 3) * d + 5)] == weight_of("param/layers.0.attn.v.weight", 5 * kv + 3));
    CHECK(gate_up[index(3 * d + 5)] == weight_of("param/layers.0.ffn.gate.weight", 5 * n.ffn_dim + 3));
    CHECK(gate_up[index((n.ffn_dim + 3) * d + 5)] ==
          weight_of("param/layers.0.ffn.up.weight", 5 * n.ffn_dim + 3));
}

TEST_CASE("export and import are exact, for reads of any size")
{
    for (const ModelConfig& model : models()) {
        const TemporaryFolder folder;
        export_model(model, save_model(model, folder.path()), folder / "theirs");
        const HuggingFaceModel theirs = open_hugging_face(folder / "theirs");
        for (const i64 at_once : {i64{1} << 30, i64{1000}, i64{7}})
            require_values(theirs, at_once);
    }
}

TEST_CASE("tensors larger than a buffer are converted in parts")
{
    ModelConfig llama = llama_model(), gpt2 = gpt2_model();
    llama.layers = gpt2.layers = 1;
    llama.ffn_dim = 45'000; // 24 x 45000 > 2^20, transposed
    llama.vocab = 50'000;   // not transposed
    gpt2.dim = 600;         // 600 x 1800, three side by side
    gpt2.head_dim = 100;
    for (const ModelConfig& model : {llama, gpt2}) {
        const TemporaryFolder folder;
        export_model(model, save_model(model, folder.path()), folder / "theirs");
        require_values(open_hugging_face(folder / "theirs"), 100'003);
    }
}

TEST_CASE("config.json and [model] convert to each other")
{
    std::vector<ModelConfig> all = models();
    all[0].rope_scaling = llama3_scaling(8, 1, 4, 4096);
    all[2].rope_theta = 123456.789;
    all[4].rope_scaling = {.kind = ScalingKind::linear, .factor = 3};
    all[6].rope_scaling = {.kind = ScalingKind::dynamic, .factor = 2, .original_seq = 64};
    all[7].rope_scaling = {
        .kind = ScalingKind::yarn, .factor = 2, .original_seq = 64, .beta_fast = 16, .truncate = false};
    for (ModelConfig& model : all) {
        model.norm_eps = 1e-6;
        const ModelConfig back = parse_config(print_config(model, "bfloat16", 6));
        CHECK(print_config(back, "bfloat16", 6) == print_config(model, "bfloat16", 6));
        const ModelDifference difference = difference_of_models(back, model);
        INFO(name_of(model.family) << ": " << difference.key);
        CHECK(difference.key.empty());
        CHECK(parameter_count(back) == parameter_count(model));
        CHECK(back.family == model.family);
    }
    const Json json = Json::parse(print_config(all[0], "bfloat16", 6));
    CHECK(json["torch_dtype"] == "bfloat16");
    CHECK(json["eos_token_id"] == 6);
    CHECK(Json::parse(print_config(all[0]))["bos_token_id"].is_null());
}

TEST_CASE("config.json of published models yields their sizes")
{
    // The fields of Llama 3.1 8B, in the format before transformers 5 …
    const char* const llama =
        R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"bos_token_id":128000,"eos_token_id":[128001,128008],
        "hidden_act":"silu","hidden_size":4096,"intermediate_size":14336,"max_position_embeddings":131072,"mlp_bias":false,"model_type":"llama",
        "num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,"pretraining_tp":1,"rms_norm_eps":1e-05,
        "rope_scaling":{"factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192,"rope_type":"llama3"},
        "rope_theta":500000.0,"tie_word_embeddings":false,"torch_dtype":"bfloat16","vocab_size":128256})";
    const ModelConfig old = parse_hugging_face_config(llama, "config.json").model;
    CHECK(parameter_count(old) == 8'030'261'248);
    CHECK(old.rope_scaling == llama3_scaling(8));
    CHECK(old.rope_theta == 500000);
    CHECK(old.seq == 131072);
    // … and in the newer format.
    Json changed = Json::parse(llama);
    changed["rope_parameters"] = changed["rope_scaling"];
    changed["rope_parameters"]["rope_theta"] = changed["rope_theta"];
    changed.erase("rope_scaling");
    changed.erase("rope_theta");
    const ModelConfig newer = parse_hugging_face_config(changed.dump(), "config.json").model;
    CHECK(print_config(newer) == print_config(old));
    // GPT-2 small, which relies on defaults.
    const ModelConfig gpt2 =
        parse_hugging_face_config(
            R"({"model_type":"gpt2","n_embd":768,"n_head":12,"n_layer":12,"n_positions":1024,"vocab_size":50257})",
            "config.json")
            .model;
    CHECK(parameter_count(gpt2) == 124'439'808);
    CHECK(gpt2.norm_eps == 1e-5);
}

TEST_CASE("each preset has a class in transformers, with its parameters")
{
    for (const std::string& name : preset_names()) {
        INFO(name);
        ModelConfig model = preset(name);
        model.vocab = std::max<i64>(model.vocab, 300);
        resolve(model);
        CHECK(architecture_of(model).family == model.family);
        const ModelDifference difference = difference_of_models(parse_config(print_config(model)), model);
        CHECK(difference.key + difference.a + difference.b == "");
        i64 count = 0;
        for (const HuggingFaceTensor& tensor : tensors_of(model))
            count += element_count(tensor.shape);
        CHECK(count == parameter_count(model));
    }
}

TEST_CASE("config.json of published models is that of their presets")
{
    // As on the hub, without keys that do not matter.
    for (
        const auto& [name, text] : std::vector<std::pair<std::string, const char*>>{
            {"mistral-7b-v0.1",
             R"({"architectures":["MistralForCausalLM"],"hidden_act":"silu","hidden_size":4096,"intermediate_size":14336,
             "max_position_embeddings":32768,"num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,"rms_norm_eps":1e-05,
             "rope_theta":10000.0,"sliding_window":4096,"tie_word_embeddings":false,"use_cache":true,"vocab_size":32000})"},
            {"qwen2.5-7b",
             R"({"architectures":["Qwen2ForCausalLM"],"hidden_act":"silu","hidden_size":3584,"intermediate_size":18944,
             "max_position_embeddings":32768,"max_window_layers":28,"num_attention_heads":28,"num_hidden_layers":28,"num_key_value_heads":4,
             "rms_norm_eps":1e-06,"rope_theta":1000000.0,"sliding_window":131072,"tie_word_embeddings":false,"use_mrope":false,
             "use_sliding_window":false,"vocab_size":152064})"},
            {"gemma2-2b",
             R"({"architectures":["Gemma2ForCausalLM"],"attn_logit_softcapping":50.0,"cache_implementation":"hybrid",
             "final_logit_softcapping":30.0,"head_dim":256,"hidden_act":"gelu_pytorch_tanh","hidden_activation":"gelu_pytorch_tanh",
             "hidden_size":2304,"intermediate_size":9216,"max_position_embeddings":8192,"num_attention_heads":8,"num_hidden_layers":26,
             "num_key_value_heads":4,"query_pre_attn_scalar":256,"rms_norm_eps":1e-06,"rope_theta":10000.0,"sliding_window":4096,
             "vocab_size":256000})"},
            {"gemma3-1b",
             R"({"architectures":["Gemma3ForCausalLM"],"model_type":"gemma3_text","attn_logit_softcapping":null,"cache_implementation":"hybrid",
             "final_logit_softcapping":null,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh","hidden_size":1152,"intermediate_size":6912,
             "max_position_embeddings":32768,"num_attention_heads":4,"num_hidden_layers":26,"num_key_value_heads":1,"query_pre_attn_scalar":256,
             "rms_norm_eps":1e-06,"rope_local_base_freq":10000,"rope_scaling":null,"rope_theta":1000000,"sliding_window":512,
             "sliding_window_pattern":6,"vocab_size":262144})"},
            {"pythia-70m",
             R"({"architectures":["GPTNeoXForCausalLM"],"hidden_act":"gelu","hidden_size":512,"intermediate_size":2048,"layer_norm_eps":1e-05,
             "max_position_embeddings":2048,"num_attention_heads":8,"num_hidden_layers":6,"rotary_emb_base":10000,"rotary_pct":0.25,
             "tie_word_embeddings":false,"use_parallel_residual":true,"vocab_size":50304})"},
            {"starcoder2-3b",
             R"({"architectures":["Starcoder2ForCausalLM"],"hidden_act":"gelu_pytorch_tanh","hidden_size":3072,"intermediate_size":12288,
             "max_position_embeddings":16384,"mlp_type":"default","norm_epsilon":1e-05,"norm_type":"layer_norm","num_attention_heads":24,
             "num_hidden_layers":30,"num_key_value_heads":2,"rope_theta":999999.4420358813,"sliding_window":4096,"use_bias":true,
             "vocab_size":49152})"},
            {"smollm3-3b",
             R"({"architectures":["SmolLM3ForCausalLM"],"attention_bias":false,"hidden_act":"silu","hidden_size":2048,"intermediate_size":11008,
             "max_position_embeddings":65536,"max_window_layers":28,"mlp_bias":false,"no_rope_layer_interval":4,
             "no_rope_layers":[1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0],"num_attention_heads":16,
             "num_hidden_layers":36,"num_key_value_heads":4,"pretraining_tp":2,"rms_norm_eps":1e-06,"rope_scaling":null,"rope_theta":5000000.0,
             "sliding_window":null,"use_sliding_window":false,"vocab_size":128256})"},
            {"granite3.1-2b",
             R"({"architectures":["GraniteForCausalLM"],"attention_bias":false,"attention_multiplier":0.015625,"embedding_multiplier":12.0,
             "hidden_act":"silu","hidden_size":2048,"intermediate_size":8192,"logits_scaling":8.0,"max_position_embeddings":131072,
             "mlp_bias":false,"num_attention_heads":32,"num_hidden_layers":40,"num_key_value_heads":8,"residual_multiplier":0.22,
             "rms_norm_eps":1e-05,"rope_scaling":null,"rope_theta":5000000.0,"tie_word_embeddings":true,"vocab_size":49152})"}}) {
        INFO(name);
        ModelConfig expected = preset(name);
        resolve(expected);
        const ModelDifference difference = difference_of_models(parse_config(text), expected);
        CHECK(difference.key + difference.a + difference.b == "");
    }
}

TEST_CASE("kinds of layers are read from lists and from the rules of the classes")
{
    Json json = Json::parse(print_config(small_model(Family::gemma3)));
    json["num_hidden_layers"] = 5;
    json.erase("layer_types");
    json["sliding_window_pattern"] = 2;
    using enum LayerKind;
    CHECK(parse_config(json.dump()).layer_pattern == std::vector{sliding, full});
    json["layer_types"] = {"full_attention", "full_attention", "full_attention", "sliding_attention",
                           "full_attention"};
    CHECK(parse_config(json.dump()).layer_pattern == std::vector{full, full, full, sliding});
    json["layer_types"] = {"sliding_attention"};
    CHECK(says(message_of<UserError>([&] { (void)parse_config(json.dump()); }), "layer_types", "5 layers"));
    json["layer_types"] = std::vector(5, "chunked_attention");
    CHECK(says(message_of<UserError>([&] { (void)parse_config(json.dump()); }), "chunked_attention"));
    json["layer_types"] = std::vector(5, "sliding_attention");
    json["sliding_window"] = nullptr;
    CHECK(says(message_of<UserError>([&] { (void)parse_config(json.dump()); }), "no sliding_window"));

    Json qwen = Json::parse(print_config(small_model(Family::qwen2)));
    qwen.erase("layer_types");
    qwen.update({{"use_sliding_window", true}, {"sliding_window", 9}, {"max_window_layers", 1}});
    CHECK(parse_config(qwen.dump()).layer_pattern == std::vector{full, sliding, sliding});
    CHECK(parse_config(qwen.dump()).window == 9);
    qwen["use_sliding_window"] = false;
    CHECK(parse_config(qwen.dump()).window == 0);
}

TEST_CASE("a model is exported as any class that computes what it does")
{
    ModelConfig model = llama_model();
    model.window = 16;
    CHECK(std::string(architecture_of(model).name) == "MistralForCausalLM");
    model.layer_pattern = {LayerKind::full, LayerKind::sliding};
    model.qkv_bias = true;
    CHECK(std::string(architecture_of(model).name) == "Qwen2ForCausalLM");
    model.o_bias = true;
    CHECK(says(message_of<UserError>([&] { (void)architecture_of(model); }), "can be exported"));
    model = llama_model();
    model.attention_sinks = true;
    CHECK(says(message_of<UserError>([&] { (void)architecture_of(model); }), "model.attention_sinks: is true",
               "LlamaForCausalLM computes with false"));
}

TEST_CASE("errors name unsupported and invalid keys of config.json")
{
    const ModelConfig llama = llama_model(), gpt2 = gpt2_model();
    CHECK(refusal(llama, {{"head_dim", nullptr}, {"hidden_act", "swish"}, {"unknown", false}}).empty());
    for (const auto& [change, expected] : std::vector<std::pair<Json, std::string>>{
             {{{"unknown", 5}}, "\"unknown\" is 5"},
             {{{"sliding_window", 16}}, "sliding_window"},
             {{{"hidden_act", "relu"}}, "hidden_act"},
             {{{"quantization_config", Json::object()}}, "quantised"},
             {{{"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
             {{{"rope_scaling", {{"type", "proportional"}, {"factor", 2.0}}}}, "proportional"},
             {{{"rope_scaling", {{"rope_type", "yarn"}, {"alpha", 3}}}}, "alpha"},
             {{{"architectures", {"MixtralForCausalLM"}}}, "Mixtral"}})
        CHECK(says(refusal(llama, change), "cannot be imported", expected));
    for (const auto& [change, expected] : std::vector<std::pair<Json, std::string>>{
             {{{"activation_function", "relu"}}, "activation_function"},
             {{{"scale_attn_by_inverse_layer_idx", true}}, "scale_attn_by_inverse_layer_idx"},
             {{{"add_cross_attention", true}}, "add_cross_attention"}})
        CHECK(says(refusal(gpt2, change), "cannot be imported", expected));
    const auto lists = [](const std::string& text, const std::string& problem, const std::string& supported) {
        CHECK(has(text, problem));
        CHECK(has(text, supported));
        CHECK(!has(text, "\\"));
    };
    lists(refusal(llama, {{"hidden_act", "relu"}}), R"(hidden_act is "relu")", R"("silu", "swish")");
    lists(refusal(gpt2, {{"activation_function", "relu"}}), R"(activation_function is "relu")",
          R"("gelu_pytorch_tanh", "gelu_new")");
    lists(refusal(llama, {{"hidden_size", "24"}}), R"(hidden_size = "24")", "whole number");
    for (const Json& change : std::vector<Json>{{{"hidden_size", nullptr}},
                                                {{"hidden_size", 1.5}},
                                                {{"hidden_size", -24}},
                                                {{"hidden_size", "24"}},
                                                {{"hidden_size", 99999999999999}},
                                                {{"num_attention_heads", 0}},
                                                {{"num_key_value_heads", 4}},
                                                {{"intermediate_size", 0}},
                                                {{"vocab_size", nullptr}},
                                                {{"rms_norm_eps", "1"}},
                                                {{"rms_norm_eps", 0}},
                                                {{"tie_word_embeddings", 1}},
                                                {{"rope_scaling", 5}},
                                                {{"rope_scaling", {{"rope_type", "llama3"}}}},
                                                {{"rope_scaling", {{"rope_type", 3}}}},
                                                {{"architectures", {1}}},
                                                {{"architectures", Json::array()}},
                                                {{"architectures", {"a", "b"}}}}) {
        INFO(change.dump());
        CHECK(says(refusal(llama, change), "config.json"));
    }
    for (const char* text : {"", "[]", "{", "5", "{}", R"({"model_type":"llama","model_type":"gpt2"})"})
        CHECK(says(message_of<UserError>([&] { (void)parse_hugging_face_config(text, "config.json"); }),
                   "config.json"));
}

TEST_CASE("a folder whose tensors do not match its config.json is refused")
{
    const TemporaryFolder folder;
    ModelConfig model = gpt2_model();
    const std::string home = folder / "theirs";
    export_model(model, save_model(model, folder.path()), home);
    const auto message = [&] { return message_of<UserError>([&] { (void)open_hugging_face(home); }); };
    const auto config = [&](const ModelConfig& m) { put(home + "/config.json", print_config(m)); };
    CHECK(message().empty());
    model.layers = 3;
    config(model);
    CHECK(says(message(), "no tensor \"transformer.h.2.ln_1.weight\""));
    model.layers = 1;
    config(model);
    CHECK(says(message(), "a tensor \"transformer.h.1."));
    model.layers = 2'000'000'000; // no list of this length is allocated
    config(model);
    CHECK(says(message(), "layers", "2000000000"));
    model = gpt2_model();
    model.vocab = 51;
    config(model);
    CHECK(says(message(), "transformer.wte.weight", "[50, 24]", "[51, 24]"));
    model = gpt2_model();
    model.tied_embeddings = false;
    config(model);
    CHECK(says(message(), "lm_head.weight"));
    std::filesystem::remove(home + "/config.json");
    CHECK(says(message(), "no config.json"));

    // A tied head that is stored nevertheless.
    model.tied_embeddings = false;
    export_model(model, save_model(model, folder / "untied"), folder / "head");
    model.tied_embeddings = true;
    put(folder / "head/config.json", print_config(model));
    CHECK(says(message_of<UserError>([&] { (void)open_hugging_face(folder / "head"); }), "lm_head.weight",
               "tie_word_embeddings"));
}
