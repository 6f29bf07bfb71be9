// The files of a Hugging Face model other than tensors: import keeps them, export writes them.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/hugging_face/files.hpp"
#include "io/hugging_face/hugging_face.hpp"
#include "io/temporary_folder.hpp"

#include <nlohmann/json.hpp>

using namespace trivium;
using Json = nlohmann::json;

namespace {

Json llama_config()
{
    return Json::parse(
        R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":32,"intermediate_size":56,"num_hidden_layers":3,"num_attention_heads":4,
        "num_key_value_heads":2,"max_position_embeddings":4096,"vocab_size":300,"rms_norm_eps":1e-05,"bos_token_id":7,"eos_token_id":[8,9,10],"pad_token_id":11,
        "initializer_range":0.3,"dtype":"bfloat16","auto_map":{"AutoModel":"modeling.py"}})");
}

ModelConfig model_of(const Json& config)
{
    return parse_hugging_face_config(config.dump(), "config.json").model;
}

RunState imported_state(const Json& config)
{
    RunState state;
    state.imported = {
        {"config.json", config.dump()},
        {"generation_config.json", R"({"eos_token_id":[8,9],"top_p":0.9})"},
        {"chat_template.jinja", "{{ messages }}"},
        {"tokenizer_config.json", R"({"tokenizer_class":"LlamaTokenizer","model_max_length":99})"}};
    state.imported_tokenizer = state.tokenizer = "bytes";
    return state;
}

} // namespace

TEST_CASE("imported files are exported again")
{
    const auto bytes = make_tokenizer("bytes");
    Json config = llama_config();
    ModelConfig model = model_of(config);
    model.seq = 128; // the run's
    const ExportedFiles out = exported_files(model, "float32", bytes.get(), imported_state(config));
    config["dtype"] = "float32";
    config.erase("auto_map");
    CHECK(Json::parse(out.files.at("config.json")) == config);
    CHECK(out.files.at("generation_config.json") == R"({"eos_token_id":[8,9],"top_p":0.9})");
    CHECK(out.files.at("chat_template.jinja") == "{{ messages }}");
    CHECK(Json::parse(out.files.at("tokenizer_config.json"))["model_max_length"] == 99);
    CHECK(std::string(out.architecture->name) == "LlamaForCausalLM");

    model.seq = 8192; // trained with longer sequences
    CHECK(Json::parse(exported_files(model, "float32", bytes.get(), imported_state(config))
                          .files.at("config.json"))["max_position_embeddings"] == 8192);
}

TEST_CASE("files that do not describe the exported model are generated")
{
    const auto bytes = make_tokenizer("bytes");
    const Json config = llama_config();
    ModelConfig model = model_of(config);
    RunState state = imported_state(config);
    state.tokenizer = "another";
    ExportedFiles out = exported_files(model, "float32", bytes.get(), state);
    CHECK(Json::parse(out.files.at("config.json"))["eos_token_id"] == 257);
    CHECK(Json::parse(out.files.at("config.json"))["bos_token_id"] == 257);
    CHECK(Json::parse(out.files.at("generation_config.json"))["eos_token_id"] == 257);
    CHECK(!out.files.contains("chat_template.jinja"));
    model.layers = 2;
    out = exported_files(model, "float32", bytes.get(), imported_state(config));
    CHECK(Json::parse(out.files.at("config.json"))["num_hidden_layers"] == 2);
    CHECK(Json::parse(out.files.at("config.json"))["max_position_embeddings"] == 4096);
    CHECK(Json::parse(out.files.at("config.json"))["eos_token_id"] == Json{8, 9, 10}); // the same tokenizer

    // A model that was not imported.
    out = exported_files(model, "bfloat16", bytes.get(), {});
    CHECK(Json::parse(out.files.at("generation_config.json"))["bos_token_id"] == 257);
    CHECK(Json::parse(out.files.at("config.json"))["bos_token_id"] == 257); // 256 was never trained
    CHECK(out.files.contains("tokenizer.json"));
    CHECK(exported_files(model, "bfloat16", nullptr, {}).files.size() == 1);
}

TEST_CASE("a model that config.json cannot describe is not exported")
{
    const auto message = [](const ModelConfig& model, const RunState& state) {
        return message_of<UserError>([&] { (void)exported_files(model, "float32", nullptr, state); });
    };
    const Json gpt2 = Json::parse(
        R"({"model_type":"gpt2","n_embd":32,"n_head":4,"n_layer":2,"n_positions":64,"vocab_size":300})");
    ModelConfig model = model_of(gpt2);
    model.rope_theta = 100; // GPT-2 does not read it
    CHECK(message(model, {}).empty());
    CHECK(message(model, imported_state(gpt2)).empty());
    model.kv_heads = 2;
    for (const RunState& state : {RunState{}, imported_state(gpt2)})
        CHECK(says(message(model, state), "model.kv_heads: is 2", "computes with 4"));

    ModelConfig llama = model_of(llama_config());
    llama.rope_scaling = llama3_scaling(1, 2, 3, 4); // factor 1 scales nothing
    CHECK(message(llama, {}).empty());
    llama.rope_scaling = llama3_scaling(8, 1, 4, 64);
    CHECK(message(llama, imported_state(llama_config())).empty());
}

TEST_CASE("a model is exported as the class of the import, with its window")
{
    Json config = llama_config();
    config["architectures"] = {"MistralForCausalLM"};
    config["model_type"] = "mistral";
    CHECK(model_of(config).window == 4096); // if the key is missing
    config["sliding_window"] = nullptr;
    CHECK(model_of(config).window == 0);
    CHECK(difference_of_models(model_of(config), model_of(llama_config())).key.empty());
    for (const Json& window : {Json(), Json(1024)}) {
        config["sliding_window"] = window;
        ModelConfig model = model_of(config);
        model.seq = 2048;
        const ExportedFiles out = exported_files(model, "float32", nullptr, imported_state(config));
        CHECK(std::string(out.architecture->name) == "MistralForCausalLM");
        CHECK(Json::parse(out.files.at("config.json"))["sliding_window"] == window);
    }
    for (const Json& wrong : {Json(0), Json(-1), Json("all"), Json(1.5)}) {
        config["sliding_window"] = wrong;
        CHECK(says(message_of<UserError>([&] { (void)model_of(config); }), "sliding_window"));
    }
}

TEST_CASE("a checkpoint keeps imported files; damaged or huge files are refused")
{
    const TemporaryFolder folder;
    const RunState state = imported_state(llama_config());
    for (const auto& [name, text] : state.imported)
        put(folder / name, text);
    put(folder / "README.md", "not kept");
    CHECK(read_imported_files(folder.path()) == state.imported);
    Manifest manifest;
    manifest.state = state;
    CHECK(parse_manifest(print_manifest(manifest), "test") == manifest);

    const auto message = [&] {
        return message_of<UserError>([&] { (void)read_imported_files(folder.path()); });
    };
    put(folder / "generation_config.json", "{\"a\": 1,\n]");
    CHECK(says(message(), "generation_config.json", "line 2, column 1"));
    put(folder / "generation_config.json", "[]");
    CHECK(says(message(), "generation_config.json", "object"));
    put(folder / "generation_config.json", "{}");
    put(folder / "chat_template.jinja", "\xff");
    CHECK(says(message(), "chat_template.jinja", "UTF-8"));
    std::filesystem::resize_file(folder / "chat_template.jinja", 60'000'000'000); // sparse
    CHECK(says(message(), "chat_template.jinja", "too large"));
}
