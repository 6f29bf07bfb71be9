#pragma once
// The command line: a small face of CLI11, whose header takes long to compile; command_line.cpp alone
// includes it.
#include "base/units.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trivium {

/// A sub-command's work; returns the exit status.
using Action = std::function<int()>;

/// What an option or argument accepts, beside its type.
struct Accepts {
    bool required = false;
    bool show_default = false;
    bool list = false;                ///< a,b,c: several values in one word
    double from = 0, to = 0;          ///< a range, where from < to
    std::vector<std::string> words{}; ///< one of these, where there are any
    std::string type{};               ///< what --help calls the value
    std::string needs{};              ///< an option without which this one means nothing
};

/// A command under description. The variables that options fill must live until the action has run.
class Command {
public:
    Command(CLI::App& app, Action& chosen) : app_(&app), chosen_(&chosen) {}

    /// A sub-command of this one; a command with sub-commands needs one of them.
    Command add(const std::string& name, const std::string& help);
    /// An argument by position ("file") or by name ("-o,--output").
    Command& option(const std::string& name, std::string& value, const std::string& help,
                    const Accepts& accepts = {});
    Command& option(const std::string& name, std::vector<std::string>& value, const std::string& help,
                    const Accepts& accepts = {});
    Command& option(const std::string& name, i64& value, const std::string& help,
                    const Accepts& accepts = {});
    Command& option(const std::string& name, u64& value, const std::string& help,
                    const Accepts& accepts = {});
    Command& option(const std::string& name, double& value, const std::string& help,
                    const Accepts& accepts = {});
    Command& flag(const std::string& name, bool& value, const std::string& help);
    /// What --help ends with.
    Command& footer(const std::string& text);
    /// Takes any further words without a look at them.
    Command& accept_anything();
    /// What to do where this command was chosen.
    void action(Action work);

private:
    template <class T>
    Command& add_option(const std::string& name, T& value, const std::string& help, const Accepts& accepts);

    CLI::App* app_;
    Action* chosen_;
};

class CommandLine {
public:
    CommandLine(const std::string& name, const std::string& help, const std::string& version);
    CommandLine(const CommandLine&) = delete;
    CommandLine& operator=(const CommandLine&) = delete;
    ~CommandLine();

    Command root() { return {*app_, action_}; }
    /// Parses and runs what was chosen; --help and --version print and give 0. Throws UserError for a misuse,
    /// which names the nearest sub-command.
    int run(int argc, char* argv[]);

private:
    std::unique_ptr<CLI::App> app_;
    Action action_;
};

} // namespace trivium
