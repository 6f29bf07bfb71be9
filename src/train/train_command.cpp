// `trivium train`.
#include "base/check.hpp"
#include "kernels/runtime.hpp"
#include "mpi/session.hpp"
#include "train/run_commands.hpp"
#include "train/trainer.hpp"

namespace trivium {

namespace {

int train(const ConfigArguments& arguments, const std::string& build)
{
    const Session session;
    if (session.rank() > 0)
        set_log_level(LogLevel::quiet);
    RunConfig config;
    try {
        config = load_config(arguments);
    } catch (const Error& error) { // the same on every rank: one message
        if (session.rank() > 0)
            return error.exit_status();
        throw;
    }
    if (rank_count(config.parallel) != session.ranks() && session.rank() > 0)
        return 2; // rank 0 says why
    if (rank_count(config.parallel) != session.ranks())
        throw UserError({"[parallel]",
                         str("the grid has ", rank_count(config.parallel), " ranks, ", session.ranks(), " were started"),
                         str("data ", config.parallel.data, " x pipeline ", config.parallel.pipeline, " x tensor ",
                             config.parallel.tensor),
                         "start as many ranks as the grid has, or change the grid"});
    const kernels::Runtime runtime(thread_count(config.parallel));
    return Trainer(std::move(config), build).run();
}

} // namespace

void add_train_command(Command& program, const std::string& build)
{
    Command command = program.add("train", "train a model, or go on from its newest checkpoint");
    auto arguments = std::make_shared<ConfigArguments>();
    arguments->add_to(command, false);
    command.action([=] { return train(*arguments, build); });
}

} // namespace trivium
