// The commands of the full build.
#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/config_arguments.hpp"
#include "config/about_key.hpp"
#include "io/tokens/store_list.hpp"
#include "io/tokens/token_store.hpp"
#include "io/tokens/tokenizer.hpp"
#include "kernels/runtime.hpp"
#include "train/data/inputs.hpp"

namespace trivium {

void add_runtime_commands(Command& program, const std::string& build)
{
    add_train_command(program, build);
    add_check_command(program, build);
    add_eval_command(program);
    add_generate_command(program);
    add_serve_command(program);
    add_data_command(program);
    add_checkpoint_command(program, build);
}

int thread_limit() { return kernels::thread_limit(); }

i64 vocabulary_of(const DataConfig& data)
{
    if (data.train.empty())
        return tokenizer_named_by(data)->vocab_size();
    const std::string& path = data.train.list.front().path;
    const i64 vocab = about_key("data.train", [&] {
        return TokenStore::open(files_of_store(path).front(), store_options(data)).vocab();
    });
    if (vocab == 0)
        throw UserError({"model.vocab", "is not given", path + " does not say its vocabulary",
                         "set model.vocab, or data.tokenizer to the tokenizer that made its ids"});
    return vocab;
}

bool stores_have_masks(const DataConfig& data)
{
    return std::ranges::any_of(data.train.list, [](const DataSource& each) { return names_mask(each.path); });
}

} // namespace trivium
