#include "train/data/training_data.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "config/about_key.hpp"
#include "train/data/inputs.hpp"

namespace trivium {

namespace {

TokenStore open_store(const char* key, const std::string& path, const RunConfig& config, const Grid& grid)
{
    TokenStore store = TokenStore::open(path, store_options(config.data, config.model.vocab));
    if (store.vocab() > config.model.vocab)
        throw UserError(
            {path,
             str("has a vocabulary of ", store.vocab(), " tokens, the model one of ", config.model.vocab),
             "token ids would exceed the model's embedding table",
             str("set model.vocab to ", store.vocab(), " or more")});
    if (window_count(store.size(), config.model.seq) == 0)
        throw UserError({path,
                         str("has ", counted(store.size(), "token"), ", less than one sample of ",
                             config.model.seq, " + 1"),
                         str("model.seq = ", config.model.seq),
                         str("tokenize more text for ", key, ", or lower model.seq")});
    verify_at_start(store, grid.local_rank(), grid.local_ranks());
    return store;
}

} // namespace

TrainingData open_training_data(const RunConfig& config, const Grid& grid)
{
    if (config.data.train.empty())
        throw UserError({"data.train", "is not given", "training needs a token store",
                         "make one with `trivium data tokenize TEXT --output train.h5` and set data.train"});
    const i64 seq = config.model.seq;
    TrainingData data{
        {about_key("data.train", [&] { return open_store("data.train", config.data.train, config, grid); }),
         seq, static_cast<u64>(config.train.seed)},
        {}};
    const TokenStore& train = data.train.store();
    require_tokenizer(config.data, train);
    if (config.data.valid.empty())
        return data;
    data.valid.emplace(
        about_key("data.valid", [&] { return open_store("data.valid", config.data.valid, config, grid); }),
        seq);
    const TokenStore& valid = data.valid->store();
    const auto named = [](const TokenStore& store) {
        return store.fingerprint().empty() ? "unknown (set data.tokenizer)" : store.fingerprint();
    };
    if (valid.fingerprint() != train.fingerprint())
        throw UserError({config.data.valid,
                         "was written with a different tokenizer from that of " + config.data.train,
                         named(valid) + " and " + named(train), "tokenize both with the same tokenizer"});
    if (grid.world().rank() == 0 && valid.content() == train.content())
        log_warning(str("data.valid (", config.data.valid, ") has the same tokens as data.train (",
                        config.data.train,
                        "), so the validation loss does not measure unseen text; `trivium data tokenize "
                        "--valid` holds text out"));
    return data;
}

} // namespace trivium
