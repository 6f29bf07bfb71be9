// `trivium train`.
#include "base/check.hpp"
#include "mpi/session.hpp"
#include "train/grid_report.hpp"
#include "train/run_commands.hpp"
#include "train/signals.hpp"
#include "train/trainer.hpp"

namespace trivium {

namespace {

int train(Session& session, const RunSignals& signals, const ConfigArguments& arguments, const std::string& build)
{
    if (session.rank() > 0)
        set_log_level(LogLevel::quiet);
    RunConfig config;
    succeed_together(session.world(), [&] {
        config = load_config(arguments);
        if (rank_count(config.parallel) != session.ranks())
            throw UserError({"[parallel]",
                             str("the grid has ", rank_count(config.parallel), " ranks, ", session.ranks(), " were started"),
                             str("data ", config.parallel.data, " x pipeline ", config.parallel.pipeline, " x tensor ",
                                 config.parallel.tensor),
                             "start as many ranks as the grid has (mpirun -n, srun -n), or change the grid"});
    });
    require_same_config(session.world(), config);
    return Trainer(std::move(config), build, session.world()).run(signals);
}

} // namespace

int on_first_rank(const std::function<int()>& work)
{
    return run_session([&](Session& session) {
        if (session.rank() == 0)
            return work();
        return 0;
    });
}

void add_train_command(Command& program, const std::string& build)
{
    Command command = program.add("train", "train a model, or go on from its newest checkpoint");
    auto arguments = std::make_shared<ConfigArguments>();
    arguments->add_to(command, false);
    command.action([=] {
        const RunSignals signals; // from now on they ask for a checkpoint, and are heard after the first step
        return run_session([&](Session& session) { return train(session, signals, *arguments, build); });
    });
}

} // namespace trivium
