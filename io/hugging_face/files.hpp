#pragma once
// The files of a Hugging Face folder other than tensors: those that a checkpoint keeps, and those that an
// export writes.
#include "config/model_config.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/hugging_face/architectures.hpp"
#include "io/hugging_face/tokenizer_files.hpp"

namespace trivium {

/// The files of the folder that a checkpoint keeps: config.json, generation_config.json,
/// tokenizer_config.json, chat templates and lists of special tokens. UserError if a file is damaged or too
/// large, or all of them together are.
TextFiles read_imported_files(const std::string& folder);

struct ExportedFiles {
    TextFiles files;
    const Architecture* architecture = nullptr; ///< the class that config.json names
    bool imported_tokenizer = false;            ///< the run has the tokenizer of the imported model
    std::string no_tokenizer_json; ///< why `files` has no tokenizer.json; empty: it has one, or no tokenizer
};

/// All files but the tensors. Imported files are exported again if they describe this model; other files are
/// generated. `type`: "float32" or "bfloat16". `tokenizer`: the run's; null if unknown. UserError if the
/// config.json of no class describes the model, as GPT-2 with grouped-query attention.
ExportedFiles exported_files(const ModelConfig& model, const std::string& type, const Tokenizer* tokenizer,
                             const RunState& state);

} // namespace trivium
