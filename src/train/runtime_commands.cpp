// The commands of the full build.
#include "io/tokenizer.hpp"
#include "io/token_store.hpp"
#include "train/command.hpp"
#include "train/data_command.hpp"
#include "train/run_commands.hpp"

#include <CLI/CLI.hpp>

namespace trivium {

void add_runtime_commands(CLI::App& app, Action& action, const std::string& build)
{
    add_train_command(app, action, build);
    add_eval_command(app, action);
    add_generate_command(app, action);
    add_data_command(app);
    add_checkpoint_command(app, action);
    add_metrics_command(app, action);
}

i64 vocabulary_of(const DataConfig& data)
{
    return data.train.empty() ? make_tokenizer(data.tokenizer)->vocab_size() : TokenStore::open(data.train).vocab();
}

} // namespace trivium
