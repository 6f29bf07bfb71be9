#include "train/data/inputs.hpp"

#include "base/check.hpp"
#include "config/about_key.hpp"
#include "io/arrays/array_file.hpp"
#include "io/files/config_file.hpp"
#include "io/files/config_value.hpp"
#include "io/tokens/store_list.hpp"
#include "model/program.hpp"

#include <filesystem>

namespace trivium {

namespace {

void require_same_program(const CheckpointReader& checkpoint, const NamedNumbers& sizes,
                          const ModelConfig& model)
{
    const std::string& text = checkpoint.state().program;
    const auto is_same = [&] {
        const i64 samples = model.program.samples; // not what it computes
        return what_it_computes(text, checkpoint.path() + " (its program)", sizes, samples) ==
               what_it_computes(model.program.text.get(), model.file, model.sizes, samples);
    };
    const bool same = model.is_program() && !text.empty() && is_same();
    if (!same)
        throw UserError(
            {checkpoint.path(),
             text.empty() ? "was not trained with a program, the config has model.family = "
                            "\"graph\""
             : model.is_program()
                 ? str("was trained with a program that computes something else than ", model.file)
                 : str("was trained with a program, the config has model.family = \"", name_of(model.family),
                       "\""),
             "it is a checkpoint of another model",
             text.empty() ? "use another checkpoint"
                          : "use that program (the checkpoint's manifest.json has its text), or "
                            "another checkpoint; its mesh, shardings and blocks may change"});
}

} // namespace

namespace {

/// Of those, if both have some, that change what the model computes. `begins`: a run begins with them, and
/// may have more: magnitudes, and adapters of other weights.
void require_same_adapters(const CheckpointReader& checkpoint, const LoraConfig& saved, const LoraConfig& now,
                           bool begins)
{
    if (saved.rank == 0 || now.rank == 0)
        return;
    LoraConfig same = now;
    same.dropout = saved.dropout;
    same.train = saved.train;
    if (begins)
        same.targets = saved.targets;
    if (begins && !saved.magnitudes)
        same.magnitudes = false;
    if (same.alpha == 0)
        same.alpha = 2 * static_cast<double>(same.rank);
    LoraConfig theirs = saved;
    if (theirs.alpha == 0)
        theirs.alpha = 2 * static_cast<double>(theirs.rank);
    if (!(same == theirs))
        throw UserError(
            {checkpoint.path(),
             str("was trained with train.lora = ", print_value(saved), ", the config has ", print_value(now)),
             "its adapters have another form",
             begins ? "set train.lora to that value; or begin with new adapters from weights in which "
                      "these are merged: `trivium checkpoint export`, then `import`"
                    : "set train.lora to that value, or begin with new adapters from a checkpoint without "
                      "any: train.init_from, with another checkpoint.dir"});
}

RunConfig config_of(const CheckpointReader& checkpoint)
{
    return parse_config(checkpoint.state().config, checkpoint.path() + " (its config)");
}

} // namespace

void require_same_model(const CheckpointReader& checkpoint, const RunConfig& config)
{
    RunConfig saved = config_of(checkpoint);
    if (config.model.is_program() || saved.model.is_program()) {
        require_same_program(checkpoint, saved.model.sizes, config.model);
        return;
    }
    resolve(saved.model); // keys that its version did not have
    const auto theirs = values_by_key(to_toml(saved, {"model"}));
    for (const auto& [key, ours] : values_by_key(to_toml(config, {"model"})))
        if (kind_of_key(key) == KeyKind::forward && theirs.at(key) != ours)
            throw UserError({checkpoint.path(),
                             str("was trained with ", key, " = ", theirs.at(key), ", the config has ", ours),
                             "it is a checkpoint of another model",
                             str("set ", key, " to that value, or use another checkpoint")});
    require_same_adapters(checkpoint, saved.train.lora, config.train.lora, false);
}

void require_fitting_adapters(const CheckpointReader& checkpoint, const RunConfig& config)
{
    if (config.train.lora.rank > 0)
        require_same_adapters(checkpoint, config_of(checkpoint).train.lora, config.train.lora, true);
}

bool take_adapters(const CheckpointReader& checkpoint, RunConfig& config)
{
    if (config.model.is_program() || config.train.lora.rank > 0)
        return false;
    config.train.lora = config_of(checkpoint).train.lora;
    return config.train.lora.rank > 0;
}

void require_same_tokenizer(const CheckpointReader& checkpoint, const std::string& tokenizer,
                            const std::string& place)
{
    const std::string& theirs = checkpoint.state().tokenizer;
    if (!theirs.empty() && tokenizer.empty())
        throw UserError({place, "does not say which tokenizer made its ids",
                         str(checkpoint.path(), " was trained with ", theirs),
                         "set data.tokenizer to the tokenizer that made them"});
    if (!theirs.empty() && theirs != tokenizer)
        throw UserError(
            {place, "has a different tokenizer from the one with which " + checkpoint.path() + " was trained",
             tokenizer + " and " + theirs, "use the model's tokenizer"});
}

std::unique_ptr<Tokenizer> tokenizer_named_by(const DataConfig& data)
{
    return about_key("data.tokenizer",
                     [&] { return make_tokenizer(data.tokenizer.empty() ? "bytes" : data.tokenizer); });
}

TokenStoreOptions store_options(const DataConfig& data, i64 vocab)
{
    TokenStoreOptions options{data.token_type, vocab, data.eos};
    if (!data.tokenizer.empty())
        options.tokenizer = tokenizer_named_by(data);
    return options;
}

void require_no_arrays(const std::string& path)
{
    for (const std::string& file : files_of_store(path))
        if (std::error_code none; std::filesystem::is_regular_file(file, none) && holds_arrays(file))
            throw UserError(
                {file, "is not a token store",
                 "it is another HDF5 file, of arrays perhaps; the model is a transformer, which reads tokens",
                 "make a token store with `trivium data tokenize`; arrays are for graphs"});
}

void require_tokenizer(const DataConfig& data, const TokenStoreOptions& options, const TokenStore& store)
{
    if (!options.tokenizer) // the store contains its tokenizer
        return;
    if (const std::string wanted = options.tokenizer->fingerprint(); wanted != store.fingerprint())
        throw UserError({store.path(), "was not written with data.tokenizer = " + data.tokenizer,
                         str("the store's tokenizer is ", store.fingerprint(), ", that one is ", wanted),
                         "leave data.tokenizer out (the store contains its tokenizer), or tokenize the text "
                         "again with that one"});
}

std::unique_ptr<Tokenizer> tokenizer_of(const DataConfig& data)
{
    if (data.train.empty())
        return tokenizer_named_by(data);
    const TokenStoreOptions options = store_options(data);
    const TokenStore store = about_key("data.train", [&] {
        return TokenStore::open(files_of_store(data.train.list.front().path).front(), options);
    });
    require_tokenizer(data, options, store);
    return store.tokenizer();
}

void verify_at_start(const TokenStore& store, i64 part, i64 parts)
{
    if (store.file_bytes() <= most_verified_at_start)
        store.verify(part, parts);
}

CheckpointReader open_checkpoint(const std::string& path, const RunConfig& config)
{
    const auto open = [](const std::string& from, const char* key) {
        return CheckpointReader::open(restore_from(
            *make_self_comm(), from, [](const CheckpointReader&) {}, key));
    };
    const std::string& dir = config.checkpoint.dir;
    if (!path.empty())
        return open(path_of_checkpoint(path, dir), "--checkpoint");
    if (!list_checkpoints(dir).empty())
        return open(dir, "checkpoint.dir");
    if (!config.train.init_from.empty())
        return open(config.train.init_from, "train.init_from");
    throw UserError({dir, "contains no checkpoint", "no run has saved there yet",
                     "train first, or name a checkpoint with --checkpoint"});
}

} // namespace trivium
