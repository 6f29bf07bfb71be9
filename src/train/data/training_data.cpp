#include "train/data/training_data.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "config/about_key.hpp"
#include "train/data/inputs.hpp"

namespace trivium {

namespace {

/// What all stores of a run have in common.
struct RunStores {
    const RunConfig& config;
    const Grid& grid;
    TokenStoreOptions options;
};

TokenStore open_store(const char* key, const std::string& path, const RunStores& run)
{
    const auto& [config, grid, options] = run;
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

StoreSamples open_samples(const char* key, const std::string& path, const RunStores& run)
{
    return about_key(
        key, [&] { return StoreSamples(open_store(key, path, run), run.config.model.seq, run.config.data); });
}

void require_same(const TokenStore& store, const TokenStore& train)
{
    const auto named = [](const TokenStore& each) {
        return each.fingerprint().empty() ? "unknown (set data.tokenizer)" : each.fingerprint();
    };
    if (store.fingerprint() != train.fingerprint())
        throw UserError({store.path(), "was written with a different tokenizer from that of " + train.path(),
                         named(store) + " and " + named(train), "tokenize both with the same tokenizer"});
}

} // namespace

TrainingData open_training_data(const RunConfig& config, const Grid& grid)
{
    if (config.data.train.empty())
        throw UserError({"data.train", "is not given", "training needs a token store",
                         "make one with `trivium data tokenize TEXT --output train.h5` and set data.train"});
    const RunStores run{config, grid, store_options(config.data, config.model.vocab)};
    std::vector<StoreSamples> stores;
    for (const DataSource& source : config.data.train.list) {
        stores.push_back(open_samples("data.train", source.path, run));
        const TokenStore& store = stores.back().store();
        if (stores.size() == 1)
            require_tokenizer(config.data, run.options, store);
        else
            require_same(store, stores.front().store());
        for (std::size_t before = 0; before + 1 < stores.size(); ++before)
            if (stores[before].store().content() == store.content())
                throw UserError(
                    {"data.train",
                     str(stores[before].store().path(), " and ", store.path(), " have the same tokens"),
                     "a store is known by its tokens", "name it once, with the sum of the weights"});
    }
    TrainingData data{{std::move(stores), static_cast<u64>(config.train.seed)}, {}};
    for (const ValidationStore& named : config.data.valid.list) {
        data.valid.push_back({named.name, Batches(open_samples("data.valid", named.path, run))});
        const TokenStore& valid = data.valid.back().data.store();
        require_same(valid, data.train.store());
        for (const StoreSamples& train : data.train.stores())
            if (grid.world().rank() == 0 && valid.content() == train.store().content())
                log_warning(
                    str("data.valid (", valid.path(), ") has the same tokens as data.train (",
                        train.store().path(),
                        "), so the validation loss does not measure unseen text; `trivium data tokenize "
                        "--valid` holds text out"));
    }
    return data;
}

std::string content(const std::vector<ValidationSet>& sets)
{
    std::string text;
    for (const ValidationSet& set : sets)
        text += (text.empty() ? "" : "; ") + set.data.content();
    return text;
}

} // namespace trivium
