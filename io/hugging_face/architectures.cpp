#include "io/hugging_face/architectures.hpp"

#include <string_view>

namespace trivium {

namespace {

constexpr const char* deepseek_experts =
    "aux_loss_alpha ep_size head_dim moe_intermediate_size moe_layer_freq n_group n_routed_experts "
    "n_shared_experts "
    "norm_topk_prob num_experts_per_tok num_mtp_layers num_nextn_predict_layers pretraining_tp qk_head_dim "
    "routed_scaling_factor scoring_func seq_aux topk_group topk_method";

} // namespace

// Defaults: the configuration_*.py of transformers 5.24. Those of 4.x are the same for keys that its
// save_pretrained leaves out; hand-written files may rely on either.
const std::vector<Architecture>& architectures()
{
    static const std::vector<Architecture> all{
        {"LlamaForCausalLM",
         "llama",
         Family::llama,
         TensorNames::llama,
         R"({"num_key_value_heads":null,"head_dim":null,"max_position_embeddings":2048,"rms_norm_eps":1e-6,
             "tie_word_embeddings":false,"hidden_act":"silu","rope_theta":10000.0,"attention_bias":false,"mlp_bias":false})",
         {},
         "pretraining_tp",
         "{}",
         false,
         true},
        {"MistralForCausalLM", "mistral", Family::mistral, TensorNames::llama,
         R"({"num_key_value_heads":8,"head_dim":null,"max_position_embeddings":131072,"rms_norm_eps":1e-6,
             "tie_word_embeddings":false,"hidden_act":"silu","rope_theta":10000.0,"sliding_window":4096})"},
        {"Qwen2ForCausalLM", "qwen2", Family::qwen2, TensorNames::llama,
         R"({"num_key_value_heads":32,"head_dim":null,"max_position_embeddings":32768,"rms_norm_eps":1e-6,
             "tie_word_embeddings":false,"hidden_act":"silu","rope_theta":10000.0,"use_sliding_window":false,
             "sliding_window":4096,"max_window_layers":28,"layer_types":null})"},
        {"Qwen3ForCausalLM", "qwen3", Family::qwen3, TensorNames::llama,
         R"({"num_key_value_heads":32,"head_dim":128,"max_position_embeddings":32768,"rms_norm_eps":1e-6,
             "tie_word_embeddings":false,"hidden_act":"silu","rope_theta":10000.0,"attention_bias":false,
             "use_sliding_window":false,"sliding_window":4096,"max_window_layers":28,"layer_types":null})"},
        {"Olmo2ForCausalLM", "olmo2", Family::olmo2, TensorNames::llama,
         R"({"num_key_value_heads":null,"head_dim":null,"max_position_embeddings":2048,"rms_norm_eps":1e-5,
             "tie_word_embeddings":false,"hidden_act":"silu","rope_theta":10000.0,"attention_bias":false})"},
        {"Olmo3ForCausalLM",
         "olmo3",
         Family::olmo3,
         TensorNames::llama,
         R"({"num_key_value_heads":null,"head_dim":null,"max_position_embeddings":2048,"rms_norm_eps":1e-5,
             "tie_word_embeddings":false,"hidden_act":"silu","rope_theta":500000.0,"attention_bias":false,
             "sliding_window":4096,"sliding_window_pattern":4,"layer_types":null})",
         {},
         "",
         "{}",
         true},
        {"Gemma2ForCausalLM",
         "gemma2",
         Family::gemma2,
         TensorNames::llama,
         R"({"num_key_value_heads":4,"head_dim":256,"max_position_embeddings":8192,"rms_norm_eps":1e-6,
             "tie_word_embeddings":true,"hidden_act":"gelu_pytorch_tanh","rope_theta":10000.0,"attention_bias":false,
             "query_pre_attn_scalar":256,"sliding_window":4096,"sliding_window_pattern":2,"layer_types":null,
             "final_logit_softcapping":30.0,"attn_logit_softcapping":50.0})",
         {{"hidden_act", "hidden_activation"}},
         "hidden_act sliding_window_size",
         "{}",
         false,
         true},
        // Gemma 3 has the key of Gemma 2's attention cap, but its attention does not apply it.
        {"Gemma3ForCausalLM",
         "gemma3_text",
         Family::gemma3,
         TensorNames::llama,
         R"({"num_key_value_heads":4,"head_dim":256,"max_position_embeddings":131072,"rms_norm_eps":1e-6,
             "tie_word_embeddings":true,"hidden_act":"gelu_pytorch_tanh","rope_theta":1000000.0,"attention_bias":false,
             "rope_local_base_freq":10000.0,"query_pre_attn_scalar":256,"sliding_window":4096,"sliding_window_pattern":6,
             "layer_types":null,"final_logit_softcapping":null})",
         {{"hidden_act", "hidden_activation"}},
         "hidden_act attn_logit_softcapping _sliding_window_pattern",
         "{}",
         true,
         true},
        {"Phi3ForCausalLM",
         "phi3",
         Family::phi3,
         TensorNames::phi3,
         R"({"num_key_value_heads":null,"head_dim":null,"max_position_embeddings":4096,"original_max_position_embeddings":4096,
             "rms_norm_eps":1e-5,"tie_word_embeddings":false,"hidden_act":"silu","rope_theta":10000.0,
             "partial_rotary_factor":1.0,"sliding_window":null})",
         {},
         "",
         R"({"embd_pdrop":0.0,"resid_pdrop":0.0})"},
        {"GPTNeoXForCausalLM",
         "gpt_neox",
         Family::neox,
         TensorNames::neox,
         R"({"max_position_embeddings":2048,"rms_norm_eps":1e-5,"tie_word_embeddings":false,"hidden_act":"gelu",
             "rope_theta":10000.0,"partial_rotary_factor":0.25,"attention_bias":true,"use_parallel_residual":true})",
         {{"rms_norm_eps", "layer_norm_eps"},
          {"rope_theta", "rotary_emb_base"},
          {"partial_rotary_factor", "rotary_pct"}},
         "classifier_dropout",
         "{}",
         false,
         true},
        {"Starcoder2ForCausalLM",
         "starcoder2",
         Family::starcoder2,
         TensorNames::starcoder2,
         R"({"num_key_value_heads":2,"head_dim":null,"max_position_embeddings":4096,"rms_norm_eps":1e-5,
             "tie_word_embeddings":true,"hidden_act":"gelu_pytorch_tanh","rope_theta":10000.0,"sliding_window":null,
             "use_bias":true})",
         {{"rms_norm_eps", "norm_epsilon"}}},
        {"GraniteForCausalLM", "granite", Family::granite, TensorNames::llama,
         R"({"num_key_value_heads":null,"head_dim":null,"max_position_embeddings":2048,"rms_norm_eps":1e-6,
             "tie_word_embeddings":false,"hidden_act":"silu","rope_theta":10000.0,"attention_bias":false,"mlp_bias":false,
             "embedding_multiplier":1.0,"logits_scaling":1.0,"residual_multiplier":1.0,"attention_multiplier":1.0})"},
        {"SmolLM3ForCausalLM",
         "smollm3",
         Family::smollm3,
         TensorNames::llama,
         R"({"num_key_value_heads":4,"head_dim":null,"max_position_embeddings":32768,"rms_norm_eps":1e-6,
             "tie_word_embeddings":true,"hidden_act":"silu","rope_theta":2000000.0,"use_sliding_window":false,
             "sliding_window":null,"no_rope_layers":null,"no_rope_layer_interval":4,"layer_types":null,
             "attention_bias":false,"mlp_bias":false})",
         {},
         "max_window_layers pretraining_tp"},
        // Keys of experts are for layers from first_k_dense_replace on. head_dim is that of what rotates.
        {"DeepseekV2ForCausalLM",
         "deepseek_v2",
         Family::deepseek2,
         TensorNames::deepseek,
         R"({"num_key_value_heads":null,"max_position_embeddings":2048,"rms_norm_eps":1e-6,
             "tie_word_embeddings":false,"hidden_act":"silu","rope_theta":10000.0,"attention_bias":false,"mlp_bias":false,
             "q_lora_rank":1536,"kv_lora_rank":512,"qk_rope_head_dim":64,"qk_nope_head_dim":128,"v_head_dim":128,
             "first_k_dense_replace":0})",
         {},
         deepseek_experts,
         "{}",
         false,
         true},
        {"DeepseekV3ForCausalLM",
         "deepseek_v3",
         Family::deepseek3,
         TensorNames::deepseek,
         R"({"num_key_value_heads":128,"max_position_embeddings":4096,"rms_norm_eps":1e-6,
             "tie_word_embeddings":false,"hidden_act":"silu","rope_theta":10000.0,"attention_bias":false,
             "q_lora_rank":1536,"kv_lora_rank":512,"qk_rope_head_dim":64,"qk_nope_head_dim":128,"v_head_dim":128,
             "rope_interleave":true,"first_k_dense_replace":3})",
         {},
         deepseek_experts},
        {"GPT2LMHeadModel",
         "gpt2",
         Family::gpt2,
         TensorNames::gpt2,
         R"({"intermediate_size":null,"max_position_embeddings":1024,"rms_norm_eps":1e-5,"tie_word_embeddings":true,
             "hidden_act":"gelu_new","scale_attn_weights":true})",
         {{"hidden_size", "n_embd"},
          {"intermediate_size", "n_inner"},
          {"num_hidden_layers", "n_layer"},
          {"num_attention_heads", "n_head"},
          {"max_position_embeddings", "n_positions"},
          {"rms_norm_eps", "layer_norm_epsilon"},
          {"hidden_act", "activation_function"}},
         "n_ctx reorder_and_upcast_attn summary_activation summary_first_dropout summary_proj_to_labels "
         "summary_type summary_use_proj",
         R"({"resid_pdrop":0.0,"embd_pdrop":0.0,"attn_pdrop":0.0})"},
    };
    return all;
}

const char* key_of(const Architecture& architecture, const char* key)
{
    for (const auto& [ours, theirs] : architecture.renamed)
        if (std::string_view(ours) == key)
            return theirs;
    return key;
}

ModelConfig fixed_options(const Architecture& architecture)
{
    ModelConfig model = options_of(architecture.family);
    model.family = architecture.family;
    if (architecture.family == Family::llama) // Trivium's own models round more exactly than transformers
        model.norm_rounding = NormRounding::before_weight;
    model.window = model.chunk = 0;
    model.layer_pattern.clear();
    model.rotary_pattern.clear();
    return model;
}

} // namespace trivium
