#pragma once
// The files of a Hugging Face folder besides the tensors: what a checkpoint keeps of them, and what an export
// writes.
#include "config/model_config.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/hugging_face/tokenizer_files.hpp"

namespace trivium {

/// Those of the folder's settings that a checkpoint keeps: config.json, generation_config.json,
/// tokenizer_config.json, chat templates and lists of special tokens. UserError if one is damaged or
/// unusually large.
TextFiles read_imported_files(const std::string& folder);

struct ExportedFiles {
    TextFiles files;
    std::string architecture;      ///< "LlamaForCausalLM"
    std::string no_tokenizer_json; ///< why the tokenizer has none, where it has a file
};

/// All but the tensors. What was imported goes out again, as far as it describes this model; the rest is
/// written anew. `type`: "float32" or "bfloat16". `tokenizer`: the run's, null where it is unknown. UserError
/// as print_hugging_face_config.
ExportedFiles exported_files(const ModelConfig& model, const std::string& type, const Tokenizer* tokenizer,
                             const RunState& state);

} // namespace trivium
