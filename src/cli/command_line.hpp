#pragma once
// The command line: a small interface to CLI11. Only command_line.cpp includes its header, which compiles
// slowly.
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

/// What an option or argument accepts, in addition to its type.
struct Accepts {
    bool required = false;
    bool show_default = false;
    bool list = false;                ///< a,b,c: several values in one argument
    bool repeats = false;             ///< may be given several times, each with one value
    double from = 0, to = 0;          ///< the allowed range, if from < to
    std::vector<std::string> words{}; ///< the allowed values, if not empty
    std::string type{};               ///< name of the value in --help
    std::string needs{};              ///< name of another option that this one requires
};

/// A command being defined. The variables that options fill must outlive the action.
class Command {
public:
    Command(CLI::App& app, Action& chosen) : app_(&app), chosen_(&chosen) {}

    /// Adds a sub-command. A command with sub-commands requires one of them.
    Command add(const std::string& name, const std::string& help);
    /// Adds an argument by position ("file") or by name ("-o,--output"). T: std::string, a vector of them,
    /// i64, u64 or double.
    template <class T>
    Command& option(const std::string& name, T& value, const std::string& help, const Accepts& accepts = {});
    Command& flag(const std::string& name, bool& value, const std::string& help);
    /// Text at the end of --help.
    Command& footer(const std::string& text);
    /// Accepts and ignores further arguments.
    Command& accept_anything();
    /// `work` runs if this command was chosen.
    void action(Action work);

private:
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
    /// Parses the arguments and runs the chosen command; --help and --version print and return 0. Throws
    /// UserError for wrong usage, with the nearest sub-command or option.
    int run(int argc, char* argv[]);

private:
    std::unique_ptr<CLI::App> app_;
    Action action_;
};

} // namespace trivium
