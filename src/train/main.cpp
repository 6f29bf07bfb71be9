// The program `trivium`: parses the command line, runs one sub-command, turns errors into exit statuses.
#include "base/check.hpp"
#include "base/log.hpp"
#include "train/command.hpp"
#include "version.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>

namespace trivium {

namespace {

std::string version_text()
{
    return str("trivium ", trivium_version, " (", trivium_build, ")\n", trivium_dependencies);
}

/// CLI11 would take a misspelt sub-command for a stray argument.
void check_command(const CLI::App& app, int argc, char* argv[])
{
    if (argc < 2 || argv[1][0] == '-')
        return;
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands({}))
        names.push_back(command->get_name());
    if (std::find(names.begin(), names.end(), argv[1]) != names.end())
        return;
    const std::string near = nearest_word(argv[1], names);
    throw UserError({"command line", str("there is no sub-command '", argv[1], "'"), "",
                     near.empty() ? "use " + one_of(names) : "did you mean '" + near + "'?"});
}

int run(int argc, char* argv[])
{
    CLI::App app{"Trivium trains transformer language models on MPI clusters.", "trivium"};
    app.set_version_flag("--version", version_text());
    app.require_subcommand(1);
    app.footer("Each sub-command has its own --help. Keys of the config file: docs/config.md.");
    Action action;
    add_runtime_commands(app, action, str("trivium ", trivium_version));
    add_plan_command(app, action);
    add_explain_command(app, action);
    check_command(app, argc, argv);
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& e) { // --help, --version
        return app.exit(e);
    } catch (const CLI::ParseError& e) {
        throw UserError({"command line", e.what(), "", "see `trivium --help` or `trivium SUBCOMMAND --help`"});
    }
    return action ? action() : 0;
}

} // namespace

} // namespace trivium

int main(int argc, char* argv[])
{
    try {
        return trivium::run(argc, argv);
    } catch (const trivium::Error& error) {
        trivium::log_progress("");
        std::fprintf(stderr, "trivium: %s\n", error.what());
        return error.exit_status();
    } catch (const std::bad_alloc&) {
        std::fprintf(stderr, "trivium: out of memory\n  remedy: `trivium plan` shows what a run needs\n");
        return 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "trivium: internal error: %s\n", error.what());
        return 1;
    }
}
