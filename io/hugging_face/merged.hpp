#pragma once
// The weights of a run with adapters (train.lora) with the adapters in them: W + s A B, with magnitudes m of
// that length by column.
#include "config/trained_parameters.hpp"
#include "io/hugging_face/hugging_face.hpp"

#include <memory>

namespace trivium {

/// What rounding a weight to bf16 loses of what its adapter changed.
struct MergeLoss {
    double changed = 0; ///< sum over the weights of the squares of the changes
    double lost = 0;    ///< of the squares of the differences between merged and rounded values
    double worst = 0;   ///< largest rms of the loss of a weight, relative to the rms of its change
    std::string weight; ///< which
};

/// Reads parameters with their adapters. Not thread-safe.
class MergedParameters {
public:
    /// `from` must outlive it. \pre the model is resolved
    MergedParameters(const ModelConfig& model, const TrainedParameters& trained, ReadParameter from);

    /// As ReadParameter. Computes in double and rounds once. A head that the run does not have, because it
    /// was tied, is the embedding without its adapter. Keeps the adapter of one weight. Errors as those of
    /// the source.
    void read(const std::string& name, i64 first, std::span<float> to);
    /// Of all values with adapters that were read.
    MergeLoss loss() const;

private:
    struct Adapter;
    const Adapter* adapter_of_weight(const std::string& name);

    ModelConfig model_;
    TrainedParameters trained_;
    ReadParameter from_;
    std::map<std::string, ModelParameter> weights_; ///< with adapters, by name
    std::shared_ptr<Adapter> last_;
    struct Loss {
        double changed = 0, lost = 0;
    };
    std::map<std::string, Loss> losses_;
};

/// All values of a parameter.
std::vector<float> whole_parameter(const ModelConfig& model, const ModelParameter& parameter, i64 rank,
                                   const ReadParameter& from);
/// The lengths of the columns of a weight, over the dimensions `in`, in double; of one expert, or with -1 of
/// all, one after the other.
std::vector<double> column_lengths(const ModelConfig& model, const ModelParameter& weight,
                                   const ReadParameter& from, i64 expert = -1);

} // namespace trivium
