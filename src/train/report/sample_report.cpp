#include "train/report/sample_report.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "model/sample_slice.hpp"

#include <algorithm>

namespace trivium {

namespace {

constexpr std::size_t most_steps = 4; ///< whose outputs are kept

/// The slice of an array of a sample, from a box that has it without strides.
ShownSample read_slice(const std::string& name, const SampleArray& array, i64 sample)
{
    const SampleSlice slice = slice_of_sample(array.type.shape);
    const Box box{slice.start, slice.extent()};
    std::vector<std::byte> bytes(static_cast<std::size_t>(TensorType{array.type.dtype, box.shape}.bytes()));
    array.read(sample, box, bytes.data());
    ShownSample shown{name, sample, -1, {}, picture_shape(slice.shape), {}};
    with_tensor_type(array.type.dtype, [&](auto t) {
        const auto* numbers = reinterpret_cast<const decltype(t)*>(bytes.data());
        for (i64 i = 0; i < element_count(slice.shape); ++i) {
            i64 at = 0, rest = i, width = 1;
            for (std::size_t d = slice.shape.size(); d-- > 0; rest /= slice.shape[d], width *= box.shape[d])
                at += rest % slice.shape[d] * slice.stride[d] * width;
            shown.values.push_back(static_cast<float>(numbers[at]));
        }
    });
    return shown;
}

} // namespace

bool shows_samples(const RunConfig& config)
{
    return config.log.samples > 0 && !config.model.program.shown.empty() && !config.data.valid.list.empty();
}

SampleReport::SampleReport(const RunConfig& config, const Batches& data, i64 step)
    : dir_(config.log.dir), count_(std::min(config.log.samples, data.samples())),
      outputs_(config.model.program.shown)
{
    const Batch batch = data.at(0);
    for (i64 sample = 0; sample < count_; ++sample)
        for (const SampleSource::Array& array : data.source().arrays())
            if (!array.type.shape.empty())
                inputs_.push_back(read_slice(array.name, batch.arrays.at(array.name), sample));
    if (step > 0)
        earlier_ = read_shown_samples(dir_);
    else
        write_shown_samples(dir_, {}); // perhaps of another run
    std::erase_if(earlier_, [&](const ShownSample& shown) { return shown.step < 0 || shown.step > step; });
}

void SampleReport::take(const Engine& engine, i64 first, std::size_t program)
{
    if (first == 0)
        taken_.clear();
    const Graph& graph = engine.program(program).graph;
    const Executor& executor = engine.executor(program);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        const Value& value = graph[graph.outputs.at(1 + i)];
        const Shape slice(value.type.shape.begin() + 1, value.type.shape.end());
        const auto* numbers = reinterpret_cast<const float*>(executor.fetched_data(value.name));
        const i64 each = element_count(slice);
        for (i64 row = 0; row < value.type.shape[0] && first + row < count_; ++row)
            taken_.push_back({outputs_[i].name,
                              first + row,
                              -1,
                              outputs_[i].scale,
                              picture_shape(slice),
                              {numbers + row * each, numbers + (row + 1) * each}});
    }
}

void SampleReport::write(i64 step)
{
    std::erase_if(earlier_, [&](const ShownSample& shown) { return shown.step == step; });
    for (ShownSample& shown : taken_) {
        shown.step = step;
        earlier_.push_back(std::move(shown));
    }
    taken_.clear();
    thin_steps(earlier_, most_steps);
    std::vector<ShownSample> all = inputs_;
    all.insert(all.end(), earlier_.begin(), earlier_.end());
    try {
        write_shown_samples(dir_, all);
    } catch (const Error& error) {
        log_warning(str(error.what(), "\n  the report lacks the samples of this step"));
    }
}

} // namespace trivium
