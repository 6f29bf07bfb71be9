#include "cli/command_line.hpp"

#include "base/check.hpp"
#include "config/keys.hpp"

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdlib>
#include <type_traits>

namespace trivium {

template <class T>
Command& Command::option(const std::string& name, T& value, const std::string& help, const Accepts& accepts)
{
    CLI::Option* option = app_->add_option(name, value, help)->required(accepts.required);
    if (accepts.show_default)
        option->capture_default_str();
    if (accepts.list)
        option->delimiter(',')->allow_extra_args(false);
    if (accepts.repeats)
        option->allow_extra_args(false);
    if constexpr (std::is_arithmetic_v<T>)
        if (accepts.from < accepts.to)
            option->check(CLI::Range(static_cast<T>(accepts.from), static_cast<T>(accepts.to)));
    if constexpr (std::is_floating_point_v<T>) // NaN is in every range
        option->check([](const std::string& text) {
            return std::isfinite(std::strtod(text.c_str(), nullptr)) ? "" : text + " is not a number";
        });
    if (!accepts.words.empty())
        option->check(CLI::IsMember(accepts.words));
    if (!accepts.type.empty())
        option->type_name(accepts.type);
    if (!accepts.needs.empty())
        option->needs(app_->get_option(accepts.needs));
    return *this;
}

template Command& Command::option(const std::string&, std::string&, const std::string&, const Accepts&);
template Command& Command::option(const std::string&, std::vector<std::string>&, const std::string&,
                                  const Accepts&);
template Command& Command::option(const std::string&, i64&, const std::string&, const Accepts&);
template Command& Command::option(const std::string&, u64&, const std::string&, const Accepts&);
template Command& Command::option(const std::string&, double&, const std::string&, const Accepts&);

namespace {

/// The command that was chosen, and its options as users write them.
const CLI::App* chosen_of(const CLI::App* app)
{
    while (!app->get_subcommands().empty())
        app = app->get_subcommands().front();
    return app;
}

std::vector<std::string> options_of(const CLI::App& app)
{
    std::vector<std::string> all;
    for (const CLI::Option* option : app.get_options()) {
        for (const std::string& name : option->get_lnames())
            all.push_back("--" + name);
        for (const std::string& name : option->get_snames())
            all.push_back("-" + name);
    }
    return all;
}

/// "trivium data show".
std::string path_of(const CLI::App* command)
{
    std::string path;
    for (const CLI::App* at = command; at; at = at->get_parent())
        path = at->get_name() + (path.empty() ? "" : " ") + path;
    return path;
}

/// Throws for words that no option takes, with the first that looks like an option and the nearest known one.
[[noreturn]] void throw_unexpected(const CLI::App& app)
{
    const CLI::App* command = chosen_of(&app);
    const std::string path = path_of(command);
    std::string word;
    for (const std::string& extra : app.remaining(true))
        if (word.empty() || (!word.starts_with('-') && extra.starts_with('-')))
            word = extra;
    word = word.substr(0, word.find('='));
    if (!word.starts_with('-'))
        throw UserError({"command line", str("unexpected argument '", word, "' of `", path, "`"), "",
                         str("see `", path, " --help`")});
    if (word.find('.') != std::string::npos)
        throw UserError(
            {"command line", str("`", path, "` has no option '", word, "'"),
             "keys of the config are given without dashes",
             str("write '", word.substr(word.find_first_not_of('-')), "=VALUE' after the config")});
    const std::string near = nearest_word(word, options_of(*command));
    throw UserError({"command line", str("`", path, "` has no option '", word, "'"), "",
                     near.empty() ? str("see `", path, " --help`")
                                  : str("did you mean '", near, "'? `", path, " --help` lists all")});
}

} // namespace

Command Command::add(const std::string& name, const std::string& help)
{
    app_->require_subcommand(1);
    return {*app_->add_subcommand(name, help), *chosen_};
}

Command& Command::flag(const std::string& name, bool& value, const std::string& help)
{
    app_->add_flag(name, value, help);
    return *this;
}

Command& Command::footer(const std::string& text)
{
    app_->footer(text);
    return *this;
}

Command& Command::accept_anything()
{
    app_->allow_extras();
    return *this;
}

void Command::action(Action work)
{
    app_->callback([work = std::move(work), chosen = chosen_] { *chosen = work; });
}

CommandLine::CommandLine(const std::string& name, const std::string& help, const std::string& version)
    : app_(std::make_unique<CLI::App>(help, name))
{
    app_->set_version_flag("--version", version);
    app_->footer("Each sub-command has its own --help. Keys of the config file: docs/config.md.");
}

CommandLine::~CommandLine() = default;

int CommandLine::run(int argc, char* argv[])
{
    // CLI11 would report a misspelt sub-command as an unexpected argument.
    const CLI::App* at = app_.get();
    for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
        std::vector<std::string> names;
        const CLI::App* next = nullptr;
        for (const CLI::App* command : at->get_subcommands({})) {
            names.push_back(command->get_name());
            if (command->get_name() == argv[i])
                next = command;
        }
        if (names.empty())
            break;
        if (!next)
            throw UserError({"command line", str("there is no sub-command '", argv[i], "'"), "",
                             did_you_mean(argv[i], names, "use " + one_of(names))});
        at = next;
    }
    try {
        app_->parse(argc, argv);
    } catch (const CLI::Success& e) { // --help, --version
        return app_->exit(e);
    } catch (const CLI::ParseError& e) {
        // A required option may be missing because it is misspelt: report that first.
        if (!app_->remaining(true).empty())
            throw_unexpected(*app_);
        throw UserError(
            {"command line", e.what(), "", str("see `", path_of(chosen_of(app_.get())), " --help`")});
    }
    return action_ ? action_() : 0;
}

} // namespace trivium
