#pragma once
// Runs the program as a user would.
#include "has.hpp"
#include <functional>
#include <string>
#include <vector>

struct Outcome {
    int status = 0;       ///< exit status; 128 + n after signal n
    std::string out, err; ///< of `train`, whose log goes to stdout, `err` has that too, in front
};

/// Runs `trivium ARGS…` in folder `cwd`.
Outcome run_program(const std::vector<std::string>& arguments, const std::string& cwd);

/// `ranks` ranks that get the same arguments.
struct Launch {
    int ranks = 1;
    std::vector<std::string> arguments;
    std::string folder{};  ///< where they start; empty: where the launcher does
    std::string program{}; ///< what they run; empty: the program under test
};
/// Runs the program under the MPI launcher; several parts are one job.
Outcome run_ranks(const std::vector<Launch>& parts, const std::string& cwd);
/// The same, and calls `then` with the launcher's process once it says `when`.
Outcome run_ranks_and(const std::vector<Launch>& parts, const std::string& cwd, const std::string& when,
                      const std::function<void(int)>& then);

/// The same, and sends `signal` once it says `when`.
Outcome run_and_signal(const std::vector<std::string>& arguments, const std::string& cwd,
                       const std::string& when, int signal, const std::function<void()>& before = {});

/// A process and all below it, itself last.
std::vector<int> family_of(int process);
/// Of these, those that run a program of this name.
std::vector<int> processes_below(int process, const std::string& name);

/// An empty folder that goes with the object.
class Folder {
public:
    Folder();
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder();
    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

void write_text(const std::string& path, const std::string& text);
std::string read_text(const std::string& path);

/// Some English-like text of `words` words, the same each time.
std::string some_text(int words);
