#include "base/check.hpp"
#include "catch.hpp"
#include "io/files/folders.hpp"
#include "io/hugging_face/small_models.hpp"
#include "io/temporary_folder.hpp"
#include "model/model.hpp"

#include <nlohmann/json.hpp>
#include <set>

using namespace trivium;
using Json = nlohmann::json;

namespace {

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
            export_values(tensor, parameters_of(reader),
                          [&](std::span<const float> values) { writer.write(values); });
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
    for (const ImportedParameter& parameter : imported_parameters(theirs)) {
        std::vector<float> values(static_cast<std::size_t>(element_count(parameter.shape)));
        for (i64 first = 0; first < static_cast<i64>(values.size()); first += at_once)
            parameter.read(first,
                           std::span(values).subspan(static_cast<std::size_t>(first),
                                                     static_cast<std::size_t>(std::min(
                                                         at_once, static_cast<i64>(values.size()) - first))));
        INFO(parameter.name << " in pieces of " << at_once);
        CHECK(values == values_of("param/" + parameter.name, parameter.shape));
    }
}

} // namespace

TEST_CASE("the table has each parameter of the model once, with its shape")
{
    for (const ModelConfig& model : models()) {
        std::map<std::string, Shape> expected;
        std::map<std::string, i64> found; // how many elements, slices in their order
        const Graph graph = build_loss_graph(model, {});
        for (const ValueId id : graph.with_role(Role::parameter))
            expected[graph[id].name] = graph[id].type.shape;
        std::set<std::string> theirs;
        for (const HuggingFaceTensor& tensor : tensors_of(model)) {
            CHECK(theirs.insert(tensor.name).second);
            i64 count = 0;
            for (const OurTensor& ours : tensor.ours) {
                CHECK(ours.shape == expected[ours.name]);
                CHECK(ours.first == found[ours.name]);
                found[ours.name] += ours.count();
                count += ours.count();
            }
            CHECK(count == element_count(tensor.shape));
        }
        CHECK(found.size() == expected.size());
        for (const auto& [name, count] : found)
            CHECK(count == element_count(expected[name]));
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

    // The dimensions that rotate are the last ones of theirs, the first ones of ours.
    const ModelConfig l = small_model(Family::deepseek3);
    export_model(l, save_model(l, folder / "of-deepseek"), folder / "deepseek");
    const SafetensorsReader deepseek = SafetensorsReader::open(folder / "deepseek");
    const std::vector<float> q_b = read_all(deepseek, "model.layers.1.self_attn.q_b_proj.weight"),
                             kv_b = read_all(deepseek, "model.layers.1.self_attn.kv_b_proj.weight"),
                             kv_a = read_all(deepseek, "model.layers.1.self_attn.kv_a_proj_with_mqa.weight");
    const i64 wide = l.head_dim, rotary = rotary_dim(l), rest = wide - rotary, u = l.v_head_dim,
              c = l.kv_latent;
    for (i64 head = 0; head < l.heads; ++head) {
        for (i64 in = 0; in < l.q_latent; ++in)
            for (i64 x = 0; x < wide; ++x)
                CHECK(q_b[static_cast<std::size_t>((head * wide + x) * l.q_latent + in)] ==
                      weight_of("param/layers.1.attn.q.weight",
                                (in * l.heads + head) * wide + (x < rest ? rotary + x : x - rest)));
        for (i64 in = 0; in < c; ++in)
            for (i64 x = 0; x < rest + u; ++x)
                CHECK(kv_b[static_cast<std::size_t>((head * (rest + u) + x) * c + in)] ==
                      (x < rest ? weight_of("param/layers.1.attn.k.weight", (in * l.heads + head) * rest + x)
                                : weight_of("param/layers.1.attn.v.weight",
                                            (in * l.heads + head) * u + x - rest)));
    }
    for (i64 in = 0; in < l.dim; ++in)
        for (i64 x = 0; x < c + rotary; ++x)
            CHECK(kv_a[static_cast<std::size_t>(x * l.dim + in)] ==
                  (x < c ? weight_of("param/layers.1.attn.kv_down.weight", in * c + x)
                         : weight_of("param/layers.1.attn.k_rope.weight", in * rotary + x - c)));

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

TEST_CASE("experts have the layouts that transformers expects")
{
    const TemporaryFolder folder;
    const auto index = [](i64 i) { return static_cast<std::size_t>(i); };
    const ModelConfig m = small_model(Family::mixtral), n = small_model(Family::gpt_oss);
    const i64 d = m.dim, h = m.expert_dim, experts = m.experts;
    const auto weight = [&](const char* name, i64 expert, i64 rows, i64 row, i64 columns, i64 column) {
        return weight_of(str("param/layers.1.ffn.experts.", name, ".weight"),
                         (expert * rows + row) * columns + column);
    };
    export_model(m, save_model(m, folder / "of-mixtral"), folder / "mixtral");
    const SafetensorsReader mixtral = SafetensorsReader::open(folder / "mixtral");
    const std::vector<float> router = read_all(mixtral, "model.layers.1.block_sparse_moe.gate.weight");
    for (i64 expert = 0; expert < experts; ++expert) {
        const std::string name = str("model.layers.1.block_sparse_moe.experts.", expert, ".w");
        const std::vector<float> gate = read_all(mixtral, name + "1.weight"),
                                 up = read_all(mixtral, name + "3.weight"),
                                 down = read_all(mixtral, name + "2.weight");
        for (i64 in = 0; in < d; ++in) {
            CHECK(router[index(expert * d + in)] ==
                  weight_of("param/layers.1.ffn.router.weight", in * experts + expert));
            for (i64 out = 0; out < h; out += 5) {
                CHECK(gate[index(out * d + in)] == weight("gate", expert, d, in, h, out));
                CHECK(up[index(out * d + in)] == weight("up", expert, d, in, h, out));
                CHECK(down[index(in * h + out)] == weight("down", expert, h, out, d, in));
            }
        }
    }
    // [experts, in, out], with gate and up in turn.
    export_model(n, save_model(n, folder / "of-oss"), folder / "oss");
    const SafetensorsReader oss = SafetensorsReader::open(folder / "oss");
    const std::vector<float> joined = read_all(oss, "model.layers.1.mlp.experts.gate_up_proj"),
                             bias = read_all(oss, "model.layers.1.mlp.experts.gate_up_proj_bias");
    CHECK(oss.find("model.layers.1.mlp.experts.gate_up_proj")->shape == Shape{experts, d, 2 * h});
    CHECK(oss.find("model.layers.1.mlp.experts.gate_up_proj_bias")->shape == Shape{experts, 2 * h});
    for (i64 expert = 0; expert < experts; ++expert)
        for (i64 out = 0; out < h; ++out)
            for (const auto& [name, place] : {std::pair{"gate", 0}, std::pair{"up", 1}}) {
                CHECK(bias[index(expert * 2 * h + 2 * out + place)] ==
                      weight_of(str("param/layers.1.ffn.experts.", name, ".bias"), expert * h + out));
                for (i64 in = 0; in < d; in += 7)
                    CHECK(joined[index((expert * d + in) * 2 * h + 2 * out + place)] ==
                          weight(name, expert, d, in, h, out));
            }
    CHECK(read_all(oss, "model.layers.1.mlp.experts.down_proj") ==
          values_of("param/layers.1.ffn.experts.down.weight", {experts, h, d}));
    CHECK(read_all(oss, "model.layers.1.self_attn.sinks") ==
          values_of("param/layers.1.attn.sinks", {n.heads}));
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

TEST_CASE("a folder whose tensors do not match its config.json is refused")
{
    const TemporaryFolder folder;
    ModelConfig model = gpt2_model();
    const std::string home = folder / "theirs";
    export_model(model, save_model(model, folder.path()), home);
    const auto message = [&] { return message_of<UserError>([&] { (void)open_hugging_face(home); }); };
    const auto config = [&](const ModelConfig& m) {
        put(home + "/config.json", print_hugging_face_config(m, architecture_of(gpt2_model()), "float32"));
    };
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
