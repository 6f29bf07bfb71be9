#pragma once
// Models as one file for llama.cpp: GGUF. They have what a Hugging Face folder of the model has, and are made
// from the same tables (io/hugging_face).
#include "io/gguf/architectures.hpp"
#include "io/hugging_face/files.hpp"
#include "io/hugging_face/hugging_face.hpp"

namespace trivium {

/// A tensor of the file: one of Hugging Face's in llama.cpp's layout, or those of all experts; or constants.
struct GgufTensor {
    GgufTensorInfo info;
    std::vector<HuggingFaceTensor> sources{}; ///< one after another, if there are no `values`
    i64 pairs = 0;                            ///< if > 0, rows i and i + pairs of each head become neighbours
    float offset = 0;                         ///< added to each value
    std::vector<float> values{};
};

/// All tensors. Vectors, the table of positions and routers are f32; a matrix whose rows cannot be divided
/// into blocks of q8_0 is f16. `tensors`: hugging_face_tensors() of the model.
std::vector<GgufTensor> gguf_tensors(const ModelConfig& model, const GgufArchitecture& architecture,
                                     const std::vector<HuggingFaceTensor>& tensors, GgufType type);

/// The keys of the file. `files`: exported_files() of the model; `name`: general.name. UserError if llama.cpp
/// has no such tokenizer, or if it does not belong to the model. `tokenizer`: null: the file has none.
GgufKeys gguf_keys(const ModelConfig& model, const GgufArchitecture& architecture, GgufType type,
                   const ExportedFiles& files, const Tokenizer* tokenizer, const RunState& state,
                   const std::string& name);

/// Writes the values of `tensor`, read from `from`. Memory and errors as export_values and
/// GgufWriter::write.
void write_values(const GgufTensor& tensor, const ReadParameter& from, GgufWriter& to);

} // namespace trivium
