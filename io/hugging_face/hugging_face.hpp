#pragma once
// Models in the form of Hugging Face's transformers: a folder with config.json and safetensors files. One
// table says which of their tensors is which of ours, for both directions.
#include "config/model_config.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/hugging_face/safetensors.hpp"

#include <functional>

namespace trivium {

/// A tensor of ours (src/model/model.hpp), seen as a matrix: inputs by outputs, a vector as one row.
struct OurTensor {
    std::string name; ///< without the checkpoint's "param/"
    Shape shape;
    i64 rows = 1, columns = 1;
};

/// One tensor of theirs: ours side by side, or the transpose of one of ours.
struct HuggingFaceTensor {
    std::string name; ///< "model.layers.0.self_attn.q_proj.weight"
    Shape shape; ///< rows, columns of all of ours; the other way round where transposed; a vector has columns
                 ///< alone
    bool transposed = false;
    std::vector<OurTensor> ours;
};

/// All tensors of LlamaForCausalLM or GPT2LMHeadModel, in the order of the forward pass. Tied tables stand
/// once. Nothing is permuted: our heads are in their order, and rotary pairs are halves apart on both sides.
/// \pre a valid model with vocab > 0, GPT-2 with kv_heads = heads
std::vector<HuggingFaceTensor> hugging_face_tensors(const ModelConfig& model);

/// What config.json says.
struct HuggingFaceConfig {
    ModelConfig model; ///< resolved and validated; seq is the longest that the model was made for
    i64 window = 0;    ///< tokens that a token attends to, itself included; 0: all before it
};
/// config.json. UserError about `place` where it is wrong, or describes what [model] cannot say, which is
/// named.
HuggingFaceConfig parse_hugging_face_config(const std::string& text, const std::string& place);

/// Token ids that config.json states; below 0: none.
struct SpecialTokens {
    i64 bos = -1, eos = -1;
};
/// config.json, in the form that transformers 4.43 and later read. `type`: "float32" or "bfloat16".
/// UserError if the model is not one of theirs (GPT-2 with grouped queries).
std::string print_hugging_face_config(const ModelConfig& model, const std::string& type,
                                      const SpecialTokens& tokens = {});

/// A folder of theirs.
struct HuggingFaceModel {
    ModelConfig model;
    i64 window = 0; ///< as in HuggingFaceConfig
    SafetensorsReader files;
    std::vector<HuggingFaceTensor>
        tensors; ///< under the names that the files use, with or without "transformer."
};
/// UserError if a file is missing or wrong, or the tensors are not those of the model.
HuggingFaceModel open_hugging_face(const std::string& folder);

/// Gives the values of a tensor of theirs to `sink`, front to back. Holds one tensor where it is transposed,
/// else a bounded buffer. Errors as CheckpointReader::read.
void export_values(const HuggingFaceTensor& tensor, const CheckpointReader& from,
                   const std::function<void(std::span<const float>)>& sink);

/// Fills `to` with the values from flattened index `first` on of one of our tensors.
using ValueSource = std::function<void(i64 first, std::span<float> to)>;
/// Our tensor tensor.ours[part] out of theirs; holds memory as export_values does, until its last value was
/// asked for. `from` must outlive it.
ValueSource imported_values(const HuggingFaceTensor& tensor, std::size_t part, const SafetensorsReader& from);

} // namespace trivium
