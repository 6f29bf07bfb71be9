#include "train/data/training_data.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "config/about_key.hpp"
#include "io/files/files.hpp"
#include "io/tokens/store_list.hpp"
#include "ir/names.hpp"
#include "model/program.hpp"
#include "train/data/array_samples.hpp"
#include "train/data/inputs.hpp"
#include "train/data/store_samples.hpp"

#include <algorithm>
#include <cstddef>

namespace trivium {

namespace {

/// What all sources of a run have in common.
struct RunSources {
    const RunConfig& config;
    const Grid& grid;
    const SampleTypes& inputs; ///< empty: token stores
    TokenStoreOptions options;
};

/// The arrays that data must give: Batches::at() makes the others.
SampleTypes without_made(SampleTypes inputs)
{
    const auto leave_out = [&](const char* name, const TensorType& type) {
        if (const auto found = inputs.find(name); found != inputs.end() && found->second == type)
            inputs.erase(found);
    };
    leave_out(value_name::samples, {DType::i32, {2}});
    for (const DType type : {DType::f32, DType::f64, DType::bf16})
        leave_out(value_name::valid, {type, {}});
    return inputs;
}

/// The type of the input `valid`.
DType valid_type(const SampleTypes& inputs)
{
    const auto valid = inputs.find(value_name::valid);
    return valid == inputs.end() ? DType::f32 : valid->second.dtype;
}

std::unique_ptr<const ArraySamples> open_arrays(const std::string& path, const SampleTypes& inputs, i64 part,
                                                i64 parts)
{
    for (const std::string& file : files_of_store(path))
        if (!holds_arrays(file))
            throw UserError(
                {file, "is not a file of arrays", "the model is a graph, which reads arrays",
                 "name an HDF5 file with a dataset for each input; `trivium data arrays` makes one of "
                 "NumPy files"});
    auto arrays = std::make_unique<const ArraySamples>(path, without_made(inputs));
    if (arrays->stored_bytes() <= most_verified_at_start)
        arrays->verify(part, parts);
    return arrays;
}

/// Reads samples part, part + parts, … of the first batch: numbers that cannot be used end the run before it
/// begins.
void read_first(const Batches& data, i64 batch, i64 part, i64 parts)
{
    const Batch first = data.at(0);
    std::vector<std::byte> buffer;
    for (const SampleSource::Array& each : data.source().arrays()) {
        buffer.resize(static_cast<std::size_t>(each.type.bytes()));
        const Box whole{Shape(each.type.shape.size(), 0), each.type.shape};
        for (i64 sample = part; sample < batch; sample += parts) {
            first.arrays.at(each.name).read(sample, whole, buffer.data());
            Activity::of_process().advance();
        }
    }
}

TokenStore open_store(const char* key, const std::string& path, const RunSources& run)
{
    const auto& [config, grid, inputs, options] = run;
    require_no_arrays(path);
    TokenStore store = TokenStore::open(path, options);
    if (store.vocab() > config.model.vocab)
        throw UserError(
            {path,
             str("has a vocabulary of ", store.vocab(), " tokens, the model one of ", config.model.vocab),
             "token ids would exceed the model's embedding table",
             str("set model.vocab to ", store.vocab(), " or more")});
    if (!has_samples(store, config.model.seq, config.data))
        throw UserError({path,
                         str("has ", counted(store.size(), "token"), ", less than one sample of ",
                             config.model.seq, " + 1"),
                         str("model.seq = ", config.model.seq),
                         str("tokenize more text for ", key, ", or lower model.seq")});
    verify_at_start(store, grid.local_rank(), grid.local_ranks());
    return store;
}

std::unique_ptr<const SampleSource> open_source(const char* key, const std::string& path,
                                                const RunSources& run)
{
    return about_key(key, [&]() -> std::unique_ptr<const SampleSource> {
        if (!run.inputs.empty())
            return open_arrays(path, run.inputs, run.grid.local_rank(), run.grid.local_ranks());
        return std::make_unique<StoreSamples>(open_store(key, path, run), run.config.model.seq,
                                              run.config.data);
    });
}

void require_same_tokenizers(const SampleSource& source, const SampleSource& train)
{
    const auto named = [](const SampleSource& each) {
        return each.tokenizer().empty() ? "unknown (set data.tokenizer)" : each.tokenizer();
    };
    if (source.tokenizer() != train.tokenizer())
        throw UserError({source.path(), "was written with a different tokenizer from that of " + train.path(),
                         named(source) + " and " + named(train), "tokenize both with the same tokenizer"});
}

/// What its content is.
const char* parts_of(const SampleSource& source) { return source.tokens() > 0 ? "tokens" : "samples"; }

} // namespace

SampleTypes inputs_of(const RunConfig& config)
{
    return config.model.is_program() ? inputs_per_sample(config.model, compute_type(config.train.precision))
                                     : SampleTypes{};
}

TrainingData open_training_data(const RunConfig& config, const Grid& grid, const SampleTypes& inputs)
{
    if (config.data.train.empty())
        throw UserError(
            inputs.empty()
                ? Diagnostic{"data.train", "is not given", "training needs a token store",
                             "make one with `trivium data tokenize TEXT --output train.h5` and set "
                             "data.train"}
                : Diagnostic{
                      "data.train", "is not given", "training needs samples of the graph's inputs",
                      "set it to an HDF5 file with a dataset for each; `trivium data arrays` makes one"});
    RunSources run{config, grid, inputs, {}};
    if (inputs.empty())
        run.options = store_options(config.data, config.model.vocab);
    SampleSources sources;
    for (const DataSource& named : config.data.train.list) {
        sources.push_back(open_source("data.train", named.path, run));
        const SampleSource& source = *sources.back();
        if (const auto* tokens = dynamic_cast<const StoreSamples*>(&source); tokens && sources.size() == 1)
            require_tokenizer(config.data, run.options, tokens->store());
        require_same_tokenizers(source, *sources.front());
        for (std::size_t before = 0; before + 1 < sources.size(); ++before)
            if (sources[before]->content() == source.content())
                throw UserError({"data.train",
                                 str(sources[before]->path(), " and ", source.path(), " have the same ",
                                     parts_of(source)),
                                 str("a store is known by its ", parts_of(source)),
                                 "name it once, with the sum of the weights"});
    }
    TrainingData data{{std::move(sources), static_cast<u64>(config.train.seed)}, {}};
    data.train.set_valid(valid_type(inputs));
    for (const ValidationStore& named : config.data.valid.list) {
        data.valid.push_back({named.name, Batches(open_source("data.valid", named.path, run))});
        data.valid.back().data.set_valid(valid_type(inputs));
        const SampleSource& valid = data.valid.back().data.source();
        require_same_tokenizers(valid, data.train.source());
        for (const auto& train : data.train.sources())
            if (grid.world().rank() == 0 && valid.content() == train->content())
                log_warning(
                    str("data.valid (", valid.path(), ") has the same ", parts_of(valid), " as data.train (",
                        train->path(), "), so the validation loss does not measure unseen ",
                        valid.tokens() > 0 ? "text; `trivium data tokenize" : "samples; `trivium data arrays",
                        " --valid` holds ", valid.tokens() > 0 ? "text" : "some", " out"));
    }
    if (!inputs.empty()) {
        about_key("data.train", [&] {
            read_first(data.train, config.train.global_batch, grid.world().rank(), grid.world().size());
        });
        for (const ValidationSet& set : data.valid)
            about_key("data.valid", [&] {
                read_first(set.data, std::min(config.train.global_batch, set.data.samples()),
                           grid.world().rank(), grid.world().size());
            });
    }
    return data;
}

Batches open_validation(const std::string& path, const SampleTypes& inputs)
{
    Batches batches(open_arrays(path, inputs, 0, 1));
    batches.set_valid(valid_type(inputs));
    return batches;
}

std::string content(const std::vector<ValidationSet>& sets)
{
    std::string text;
    for (const ValidationSet& set : sets)
        text += (text.empty() ? "" : "; ") + set.data.content();
    return text;
}

Batches open_validation(TokenStore store, const RunConfig& config, const TokenStoreOptions& options,
                        const CheckpointReader& checkpoint)
{
    const std::string& path = store.path();
    if (store.vocab() > config.model.vocab)
        throw UserError(
            {path,
             str("has a vocabulary of ", store.vocab(), " tokens, but the model has ", config.model.vocab),
             "", "use data of the model's tokenizer"});
    require_same_tokenizer(checkpoint, store.fingerprint(), path);
    require_tokenizer(config.data, options, store);
    if (!has_samples(store, config.model.seq, config.data))
        throw UserError({path, "does not contain a whole sample", str("model.seq = ", config.model.seq),
                         "use more text"});
    verify_at_start(store);
    return Batches(std::make_unique<StoreSamples>(std::move(store), config.model.seq, config.data));
}

} // namespace trivium
