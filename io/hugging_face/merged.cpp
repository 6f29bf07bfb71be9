#include "io/hugging_face/merged.hpp"

#include "base/bf16.hpp"
#include "base/check.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

i64 product_of(const ModelConfig& model, const std::string& dims, i64 rank)
{
    i64 product = 1;
    for (const char dim : dims)
        product *= dim == rank_dim ? rank : extent_of(model, dim);
    return product;
}

/// The place of the elements of a weight.
struct WeightLayout {
    i64 experts, in, out;
    bool turned; ///< [out, in]

    WeightLayout(const ModelConfig& model, const ModelParameter& weight)
        : experts(weight.has_experts() ? extent_of(model, 'x') : 1), in(product_of(model, weight.in, 0)),
          out(product_of(model, weight.out, 0)), turned(weight.dims == weight.out + weight.in)
    {
    }
    i64 row(i64 index) const { return turned ? index % in : index / out % in; }
    /// Of all experts, one after the other.
    i64 column(i64 index) const { return turned ? index / in : expert(index) * out + index % out; }
    i64 expert(i64 index) const { return index / (in * out); }
};

constexpr i64 values_at_once = i64{1} << 20;

} // namespace

std::vector<float> whole_parameter(const ModelConfig& model, const ModelParameter& parameter, i64 rank,
                                   const ReadParameter& from)
{
    std::vector<float> values(static_cast<std::size_t>(product_of(model, parameter.dims, rank)));
    from(parameter.name, 0, values);
    return values;
}

std::vector<double> column_lengths(const ModelConfig& model, const ModelParameter& weight,
                                   const ReadParameter& from, i64 expert)
{
    const WeightLayout layout(model, weight);
    const i64 begin = std::max<i64>(0, expert), count = expert < 0 ? layout.experts : 1,
              each = layout.in * layout.out, end = (begin + count) * each;
    std::vector<double> lengths(static_cast<std::size_t>(count * layout.out));
    std::vector<float> values;
    for (i64 first = begin * each; first < end; first += values_at_once) {
        values.resize(static_cast<std::size_t>(std::min(values_at_once, end - first)));
        from(weight.name, first, values);
        for (std::size_t i = 0; i < values.size(); ++i)
            lengths[static_cast<std::size_t>(layout.column(first + static_cast<i64>(i)) -
                                             begin * layout.out)] +=
                static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    for (double& length : lengths)
        length = std::sqrt(length);
    return lengths;
}

struct MergedParameters::Adapter {
    std::string weight;
    WeightLayout layout;
    i64 rank;
    double scale;
    std::vector<float> a, b;
    std::vector<double> factors; ///< by column; empty: 1

    double change(i64 index) const
    {
        const i64 x = layout.expert(index), i = layout.row(index), o = layout.column(index) - x * layout.out;
        const float* of_a = a.data() + (x * layout.in + i) * rank;
        const float* of_b = b.data() + x * rank * layout.out + o;
        double sum = 0;
        for (i64 r = 0; r < rank; ++r)
            sum += static_cast<double>(of_a[r]) * static_cast<double>(of_b[r * layout.out]);
        return scale * sum;
    }
};

MergedParameters::MergedParameters(const ModelConfig& model, const TrainedParameters& trained,
                                   ReadParameter from)
    : model_(model), trained_(trained), from_(std::move(from))
{
    for (const ModelParameter& parameter : all_parameters(model))
        if (trained.has_adapter(parameter))
            weights_[parameter.name] = parameter;
}

const MergedParameters::Adapter* MergedParameters::adapter_of_weight(const std::string& name)
{
    const auto at = weights_.find(name);
    if (at == weights_.end())
        return nullptr;
    if (last_ && last_->weight == name)
        return last_.get();
    const ModelParameter& weight = at->second;
    const i64 rank = trained_.lora.rank;
    const std::vector<ModelParameter> parts = adapter_of(weight, trained_.lora);
    last_ = std::make_shared<Adapter>(Adapter{name,
                                              WeightLayout(model_, weight),
                                              rank,
                                              trained_.scale(),
                                              whole_parameter(model_, parts[0], rank, from_),
                                              whole_parameter(model_, parts[1], rank, from_),
                                              {}});
    if (trained_.lora.magnitudes) {
        const Adapter& adapter = *last_;
        const std::vector<double> before = column_lengths(model_, weight, from_);
        const std::vector<double> after =
            column_lengths(model_, weight, [&](const std::string& of, i64 first, std::span<float> to) {
                from_(of, first, to);
                for (std::size_t i = 0; i < to.size(); ++i)
                    to[i] = static_cast<float>(static_cast<double>(to[i]) +
                                               adapter.change(first + static_cast<i64>(i)));
            });
        const std::vector<float> change = whole_parameter(model_, parts[2], rank, from_);
        for (std::size_t o = 0; o < before.size(); ++o)
            last_->factors.push_back((before[o] + static_cast<double>(change[o])) / after[o]);
    }
    return last_.get();
}

void MergedParameters::read(const std::string& name, i64 first, std::span<float> to)
{
    if (name == "head.weight" && model_.tied_embeddings)
        return from_("embed.weight", first, to);
    from_(name, first, to);
    const Adapter* const adapter = adapter_of_weight(name);
    if (!adapter)
        return;
    Loss& loss = losses_[name];
    for (std::size_t i = 0; i < to.size(); ++i) {
        const i64 at = first + static_cast<i64>(i);
        const auto before = static_cast<double>(to[i]);
        double merged = before + adapter->change(at);
        if (!adapter->factors.empty())
            merged *= adapter->factors[static_cast<std::size_t>(adapter->layout.column(at))];
        to[i] = static_cast<float>(merged);
        const double rounded = static_cast<float>(bf16(to[i]));
        loss.changed += (merged - before) * (merged - before);
        loss.lost += (merged - rounded) * (merged - rounded);
    }
}

MergeLoss MergedParameters::loss() const
{
    MergeLoss all;
    for (const auto& [name, loss] : losses_) {
        all.changed += loss.changed;
        all.lost += loss.lost;
        const double part = loss.changed > 0 ? std::sqrt(loss.lost / loss.changed) : 0;
        if (part > all.worst) {
            all.worst = part;
            all.weight = name;
        }
    }
    return all;
}

} // namespace trivium
