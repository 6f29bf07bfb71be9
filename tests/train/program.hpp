#pragma once
// Runs the program like a user.
#include "has.hpp"
#include <functional>
#include <string>
#include <vector>

struct Outcome {
    int status = 0;       ///< exit status; 128 + n after signal n
    std::string out, err; ///< for `train`, whose log goes to stdout, `err` begins with that log
};

/// Runs `trivium ARGS…` in folder `cwd`.
Outcome run_program(const std::vector<std::string>& arguments, const std::string& cwd);

/// `ranks` ranks with the same arguments.
struct Launch {
    int ranks = 1;
    std::vector<std::string> arguments;
    std::string folder{};  ///< working folder; empty: that of the launcher
    std::string program{}; ///< program; empty: the program under test
};
/// Runs the program under the MPI launcher; several parts form one job.
Outcome run_ranks(const std::vector<Launch>& parts, const std::string& cwd);
/// The same, and calls `then` with the launcher's process when it has printed `when`.
Outcome run_ranks_and(const std::vector<Launch>& parts, const std::string& cwd, const std::string& when,
                      const std::function<void(int)>& then);

/// The same, and sends `signal` when it has printed `when`.
Outcome run_and_signal(const std::vector<std::string>& arguments, const std::string& cwd,
                       const std::string& when, int signal, const std::function<void()>& before = {});

/// A process and its descendants, itself last.
std::vector<int> family_of(int process);
/// Those of them that run a program of this name, without what such a process has started: a child between
/// fork() and its own name is called like its parent.
std::vector<int> processes_below(int process, const std::string& name);
/// Whether a process exists and has not ended.
bool is_left(int process);

/// An empty folder that is removed with the object.
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
/// Writes some_text() to a file of the folder, and the token store of its bytes. `more`: arguments.
void make_store(const Folder& folder, int words, const std::string& text = "text.txt",
                const std::string& store = "train.h5", const std::vector<std::string>& more = {});
