#pragma once
// Models in the format of Hugging Face's transformers: a folder with config.json and safetensors files. One
// table maps their tensors to ours, for import and export. "Theirs" is Hugging Face, "ours" Trivium.
#include "config/model_config.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/hugging_face/architectures.hpp"
#include "io/hugging_face/safetensors.hpp"

#include <functional>

namespace trivium {

/// A parameter of Trivium (src/model/model.hpp), or a slice of it, as a matrix [inputs, outputs]; a vector is
/// one row.
struct OurTensor {
    std::string name; ///< without the checkpoint's "param/"
    Shape shape;      ///< of the whole parameter
    i64 rows = 1, columns = 1;
    i64 first = 0; ///< flattened index in the parameter of the first element

    i64 count() const { return rows * columns; } ///< elements
};

/// A tensor of Hugging Face: our tensors side by side along the columns, or the transpose of that.
struct HuggingFaceTensor {
    std::string name; ///< "model.layers.0.self_attn.q_proj.weight"
    Shape shape;      ///< [rows, sum of columns] of `ours`; [sum of columns, rows] if transposed; a vector:
                      ///< [columns]; of all experts together: rows are two dimensions
    bool transposed = false;
    /// In turn: the first of so many equal parts of each tensor's columns, the second parts, …
    i64 groups = 1;
    /// So many columns that are first in each part of ours are last in theirs.
    i64 moved = 0;
    bool mxfp4 = false; ///< in a folder that was opened: stored in blocks of 4-bit numbers (mxfp4.hpp)
    std::vector<OurTensor> ours;
};

/// All tensors in the order of the forward pass, slices of a parameter in their order; a tied embedding is
/// listed once. Heads have the same order in both programs, and the same pairs of elements rotate, with
/// latents the last ones of theirs. \pre a
/// valid model with vocab > 0 that `architecture` can express
std::vector<HuggingFaceTensor> hugging_face_tensors(const ModelConfig& model,
                                                    const Architecture& architecture);

/// The content of config.json.
struct HuggingFaceConfig {
    ModelConfig model; ///< resolved and validated; seq is the model's maximum sequence length
    const Architecture* architecture = nullptr;
    bool is_part = false;       ///< the text model of one that also reads images
    std::string balance_loss{}; ///< "router_aux_loss_coef = 0.02", which no training applies by itself; or ""
};
/// Parses config.json. UserError about `place` if it is invalid, or describes what [model] cannot express.
HuggingFaceConfig parse_hugging_face_config(const std::string& text, const std::string& place);

/// Generates config.json for transformers 4.43 and later. `type`: "float32" or "bfloat16". `eos`: id of the
/// token between documents in training, which also serves as bos; negative: unknown. Leaves out keys of
/// [model] that the class does not have; architecture_of() finds one that has them.
std::string print_hugging_face_config(const ModelConfig& model, const Architecture& architecture,
                                      const std::string& type, i64 eos = -1);

/// The class whose config.json describes the model: `preferred`, or else the class of its family, or any.
/// UserError about a key of [model] if there is none.
const Architecture& architecture_of(const ModelConfig& model, const Architecture* preferred = nullptr);

/// A key of [model], and its values in two models.
struct ModelDifference {
    std::string key, a, b;
};
/// The first key by which the models compute different things, beyond rounding and the length of sequences,
/// or have parameters of different shapes; an empty key: none. \pre valid models
ModelDifference difference_of_models(const ModelConfig& a, const ModelConfig& b);

/// A model in a Hugging Face folder, open for reading.
struct HuggingFaceModel {
    ModelConfig model;
    const Architecture* architecture;
    std::string balance_loss; ///< HuggingFaceConfig::balance_loss
    SafetensorsReader files;
    std::vector<HuggingFaceTensor> tensors; ///< with the names in the files, with or without "transformer."
};
/// UserError if a file is missing or invalid, or if the tensors do not match config.json; IoError.
HuggingFaceModel open_hugging_face(const std::string& folder);

/// Fills `to` with the values of one of our parameters, from flattened index `first`.
using ReadParameter = std::function<void(const std::string& name, i64 first, std::span<float> to)>;
/// Those of a checkpoint, which must outlive it. Errors as CheckpointReader::read.
ReadParameter parameters_of(const CheckpointReader& checkpoint);

/// Calls `sink` with the values of `tensor`, front to back. Memory: the whole tensor if it is transposed,
/// otherwise a bounded buffer. Errors as those of `from`.
void export_values(const HuggingFaceTensor& tensor, const ReadParameter& from,
                   const std::function<void(std::span<const float>)>& sink);

/// Columns of one of our tensors that are side by side in theirs.
struct ColumnRun {
    std::size_t part;
    i64 column, theirs, count; ///< first column there and here
};
/// All runs, by their place in `tensor`.
std::vector<ColumnRun> runs_of(const HuggingFaceTensor& tensor);

/// Fills `to` with the values of one of our tensors, from flattened index `first`.
using ValueSource = std::function<void(i64 first, std::span<float> to)>;
/// A source of the values of tensor.ours[part], read from `from`. If `tensor` is transposed, the source keeps
/// all of it until the last value has been read. `from` must outlive the source. Errors as
/// SafetensorsReader::read.
ValueSource imported_values(const HuggingFaceTensor& tensor, std::size_t part, const SafetensorsReader& from);

/// A parameter of Trivium, and its values in a Hugging Face model.
struct ImportedParameter {
    struct Slice {
        std::string theirs; ///< name of the tensor
        ValueSource values;
    };
    std::string name;
    Shape shape;
    std::vector<Slice> slices; ///< of equal size, in their order

    const Slice& slice_of(i64 index) const; ///< the one that has the element
    /// Fills `to` with the values from flattened index `first`. Errors as those of the sources.
    void read(i64 first, std::span<float> to) const;
};
/// All parameters, each once. `model` must outlive them.
std::vector<ImportedParameter> imported_parameters(const HuggingFaceModel& model);

} // namespace trivium
