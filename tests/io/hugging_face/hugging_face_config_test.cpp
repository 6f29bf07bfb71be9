// config.json of transformers <-> [model].
#include "base/check.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "io/hugging_face/small_models.hpp"

#include <nlohmann/json.hpp>

using namespace trivium;
using Json = nlohmann::json;

namespace {

/// The error for a Llama, or for GPT-2, after this change of its config.json.
std::string refusal(const ModelConfig& model, const Json& change)
{
    Json json = Json::parse(print_config(model));
    json.merge_patch(change); // null removes
    return message_of<UserError>([&] { (void)parse_hugging_face_config(json.dump(), "config.json"); });
}

} // namespace

TEST_CASE("config.json and [model] convert to each other")
{
    std::vector<ModelConfig> all = models();
    all[0].rope_scaling = llama3_scaling(8, 1, 4, 4096);
    all[2].rope_theta = 123456.789;
    all[4].rope_scaling = {.kind = RopeKind::linear, .factor = 3};
    all[6].rope_scaling = {.kind = RopeKind::dynamic, .factor = 2, .original_seq = 64};
    all[7].rope_scaling = {
        .kind = RopeKind::yarn, .factor = 2, .original_seq = 64, .beta_fast = 16, .truncate = false};
    for (ModelConfig& model : all) {
        model.norm_eps = 1e-6;
        const ModelConfig back = parsed(print_config(model, "bfloat16", 6));
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
        const ModelDifference difference = difference_of_models(parsed(print_config(model)), model);
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
             "rms_norm_eps":1e-05,"rope_scaling":null,"rope_theta":5000000.0,"tie_word_embeddings":true,"vocab_size":49152})"},
            {"mixtral-8x7b",
             R"({"architectures":["MixtralForCausalLM"],"attention_dropout":0.0,"hidden_act":"silu","hidden_size":4096,
             "intermediate_size":14336,"max_position_embeddings":32768,"model_type":"mixtral","num_attention_heads":32,
             "num_experts_per_tok":2,"num_hidden_layers":32,"num_key_value_heads":8,"num_local_experts":8,
             "output_router_logits":false,"rms_norm_eps":1e-05,"rope_theta":1000000.0,"router_aux_loss_coef":0.02,
             "sliding_window":null,"tie_word_embeddings":false,"use_cache":true,"vocab_size":32000})"},
            {"qwen3-30b-a3b",
             R"({"architectures":["Qwen3MoeForCausalLM"],"attention_bias":false,"decoder_sparse_step":1,"head_dim":128,"hidden_act":"silu",
             "hidden_size":2048,"intermediate_size":6144,"max_position_embeddings":40960,"max_window_layers":48,"mlp_only_layers":[],
             "model_type":"qwen3_moe","moe_intermediate_size":768,"norm_topk_prob":true,"num_attention_heads":32,"num_experts":128,
             "num_experts_per_tok":8,"num_hidden_layers":48,"num_key_value_heads":4,"output_router_logits":false,"rms_norm_eps":1e-06,
             "rope_scaling":null,"rope_theta":1000000.0,"router_aux_loss_coef":0.001,"sliding_window":null,"tie_word_embeddings":false,
             "use_sliding_window":false,"vocab_size":151936})"},
            {"olmoe-1b-7b",
             R"({"architectures":["OlmoeForCausalLM"],"attention_bias":false,"clip_qkv":null,"hidden_act":"silu","hidden_size":2048,
             "intermediate_size":1024,"max_position_embeddings":4096,"model_type":"olmoe","norm_topk_prob":false,"num_attention_heads":16,
             "num_experts":64,"num_experts_per_tok":8,"num_hidden_layers":16,"num_key_value_heads":16,"output_router_logits":false,
             "rms_norm_eps":1e-05,"rope_scaling":null,"rope_theta":10000.0,"router_aux_loss_coef":0.01,"tie_word_embeddings":false,
             "vocab_size":50304})"},
            {"gpt-oss-20b", // dequantised
             R"({"architectures":["GptOssForCausalLM"],"attention_bias":true,"experts_per_token":4,"head_dim":64,"hidden_act":"silu",
             "hidden_size":2880,"initial_context_length":4096,"intermediate_size":2880,"max_position_embeddings":131072,
             "model_type":"gpt_oss","num_attention_heads":64,"num_experts_per_tok":4,"num_hidden_layers":24,"num_key_value_heads":8,
             "num_local_experts":32,"rms_norm_eps":1e-05,"rope_scaling":{"beta_fast":32.0,"beta_slow":1.0,"factor":32.0,
             "original_max_position_embeddings":4096,"rope_type":"yarn","truncate":false},"rope_theta":150000,
             "router_aux_loss_coef":0.9,"sliding_window":128,"swiglu_limit":7.0,"tie_word_embeddings":false,"vocab_size":201088})"},
            {"deepseek2-lite",
             R"({"architectures":["DeepseekV2ForCausalLM"],"attention_bias":false,"aux_loss_alpha":0.001,"first_k_dense_replace":1,
             "hidden_act":"silu","hidden_size":2048,"intermediate_size":10944,"kv_lora_rank":512,"max_position_embeddings":163840,
             "model_type":"deepseek_v2","moe_intermediate_size":1408,"moe_layer_freq":1,"n_group":1,"n_routed_experts":64,
             "n_shared_experts":2,"norm_topk_prob":false,"num_attention_heads":16,"num_experts_per_tok":6,"num_hidden_layers":27,
             "num_key_value_heads":16,"pretraining_tp":1,"q_lora_rank":null,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
             "rms_norm_eps":1e-06,"rope_scaling":{"beta_fast":32,"beta_slow":1,"factor":40,"mscale":0.707,"mscale_all_dim":0.707,
             "original_max_position_embeddings":4096,"type":"yarn"},"rope_theta":10000,"routed_scaling_factor":1.0,
             "scoring_func":"softmax","seq_aux":true,"tie_word_embeddings":false,"topk_group":1,"topk_method":"greedy","v_head_dim":128,
             "vocab_size":102400})"},
            {"deepseek3",
             R"({"architectures":["DeepseekV3ForCausalLM"],"attention_bias":false,"aux_loss_alpha":0.001,"ep_size":1,
             "first_k_dense_replace":3,"hidden_act":"silu","hidden_size":7168,"intermediate_size":18432,"kv_lora_rank":512,
             "max_position_embeddings":163840,"model_type":"deepseek_v3","moe_intermediate_size":2048,"moe_layer_freq":1,"n_group":8,
             "n_routed_experts":256,"n_shared_experts":1,"norm_topk_prob":true,"num_attention_heads":128,"num_experts_per_tok":8,
             "num_hidden_layers":61,"num_key_value_heads":128,"num_nextn_predict_layers":1,"pretraining_tp":1,"q_lora_rank":1536,
             "qk_nope_head_dim":128,"qk_rope_head_dim":64,"rms_norm_eps":1e-06,"rope_scaling":{"beta_fast":32,"beta_slow":1,"factor":40,
             "mscale":1.0,"mscale_all_dim":1.0,"original_max_position_embeddings":4096,"type":"yarn"},"rope_theta":10000,
             "routed_scaling_factor":2.5,"scoring_func":"sigmoid","seq_aux":true,"tie_word_embeddings":false,"topk_group":4,
             "topk_method":"noaux_tc","v_head_dim":128,"vocab_size":129280})"}}) {
        INFO(name);
        ModelConfig expected = preset(name);
        resolve(expected);
        const ModelDifference difference = difference_of_models(parsed(text), expected);
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
    CHECK(parsed(json.dump()).layer_pattern == std::vector{sliding, full});
    json["layer_types"] = {"full_attention", "full_attention", "full_attention", "sliding_attention",
                           "full_attention"};
    CHECK(parsed(json.dump()).layer_pattern == std::vector{full, full, full, sliding});
    json["layer_types"] = {"sliding_attention"};
    CHECK(says(message_of<UserError>([&] { (void)parsed(json.dump()); }), "layer_types", "5 layers"));
    json["layer_types"] = std::vector<std::string>(5, "chunked_attention");
    CHECK(says(message_of<UserError>([&] { (void)parsed(json.dump()); }), "chunked_attention"));
    json["layer_types"] = std::vector<std::string>(5, "sliding_attention");
    json["sliding_window"] = nullptr;
    CHECK(says(message_of<UserError>([&] { (void)parsed(json.dump()); }), "no sliding_window"));

    Json qwen = Json::parse(print_config(small_model(Family::qwen2)));
    qwen.erase("layer_types");
    qwen.update({{"use_sliding_window", true}, {"sliding_window", 9}, {"max_window_layers", 1}});
    CHECK(parsed(qwen.dump()).layer_pattern == std::vector{full, sliding, sliding});
    CHECK(parsed(qwen.dump()).window == 9);
    qwen["use_sliding_window"] = false;
    CHECK(parsed(qwen.dump()).window == 0);
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
    CHECK(std::string(architecture_of(model).name) == "SmolLM3ForCausalLM");
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
             {{{"quantization_config", {{"bits", 4}}}}, "quantised"},
             {{{"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
             {{{"rope_scaling", {{"type", "proportional"}, {"factor", 2.0}}}}, "proportional"},
             {{{"rope_scaling", {{"rope_type", "yarn"}, {"alpha", 3}}}}, "alpha"},
             {{{"architectures", {"JambaForCausalLM"}}}, "Jamba"}})
        CHECK(says(refusal(llama, change), "cannot be imported", expected));
    for (const auto& [change, expected] : std::vector<std::pair<Json, std::string>>{
             {{{"activation_function", "relu"}}, "activation_function"},
             {{{"scale_attn_by_inverse_layer_idx", true}}, "scale_attn_by_inverse_layer_idx"},
             {{{"add_cross_attention", true}}, "add_cross_attention"}})
        CHECK(says(refusal(gpt2, change), "cannot be imported", expected));
    for (const auto& [change, expected] : std::vector<std::pair<Json, std::string>>{
             {{{"scoring_func", "softmax"}}, "\"scoring_func\" is \"softmax\""},
             {{{"num_key_value_heads", 2}}, "each of the 6 heads"},
             {{{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {"mscale_all_dim", 1.0}}}},
              "mscale_all_dim"},
             {{{"topk", 2}}, "\"topk\" is 2"}})
        CHECK(says(refusal(small_model(Family::deepseek3), change), "cannot be imported", expected));
    const ModelConfig qwen = small_model(Family::qwen3_moe), oss = small_model(Family::gpt_oss);
    CHECK(says(refusal(qwen, {{"mlp_only_layers", {0, 2}}}), "cannot be imported", "its layer 2 is dense"));
    CHECK(says(refusal(qwen, {{"decoder_sparse_step", 2}}), "cannot be imported", "its layer 2 is dense"));
    CHECK(says(refusal(qwen, {{"num_local_experts", 7}}), "num_experts = 6", "num_local_experts is 7"));
    CHECK(says(refusal(qwen, {{"num_experts_per_tok", 7}}), "model.expert_slots"));
    CHECK(says(refusal(qwen, {{"num_experts", 0}}), "num_experts = 0"));
    CHECK(says(refusal(small_model(Family::olmoe), {{"clip_qkv", 8}}), "cannot be imported",
               "\"clip_qkv\" is 8"));
    CHECK(
        says(refusal(oss, {{"swiglu_limit", 6.5}}), "cannot be imported", "\"swiglu_limit\" is 6.5", "7.0"));
    CHECK(refusal(oss, {{"quantization_config", {{"quant_method", "mxfp4"}}}}).empty());
    CHECK(says(refusal(oss, {{"quantization_config", {{"quant_method", "fp8"}}}}), "cannot be imported",
               "fp8"));
    CHECK(says(refusal(qwen, {{"quantization_config", {{"quant_method", "mxfp4"}}}}), "cannot be imported",
               "mxfp4"));
    CHECK(says(refusal(small_model(Family::deepseek2), {{"topk_method", "noaux_tc"}}), "cannot be imported",
               "noaux_tc"));
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
