#pragma once
// launches.jsonl: a JSON object at the start and at the end of each launch of a run, and one between them if
// the launch resumed from another step than planned.
#include "base/units.hpp"

#include <string>
#include <vector>

namespace trivium {

struct Launch {
    i64 number = 0;      ///< 1, 2, …
    std::string begin{}; ///< "2026-11-22T00:10:00Z"
    std::string job{};   ///< the scheduler's id; empty without one
    i64 restart = 0;     ///< restart count of that job
    i64 ranks = 1, nodes = 1;
    std::string grid{};      ///< description
    std::string model{};     ///< description
    std::string machine{};   ///< name
    i64 from = 0, steps = 0; ///< completed steps before it; steps of the whole run, 0: unknown
    // The end of the launch; absent (`end` empty) if it was killed before a process could record it.
    std::string end{};
    int status = -1;      ///< exit status
    std::string reason{}; ///< "done", "signal USR1", an error's first line …
    i64 to = -1;          ///< completed steps; -1: unknown

    bool ended() const { return !end.empty(); }
};

/// All launches in the file `path`, or in `path`/launches.jsonl; none if the file does not exist. Skips
/// invalid lines.
std::vector<Launch> read_launches(const std::string& path);

/// Appends the lines of one launch to launches.jsonl. One process at a time may write the file.
class LaunchLog {
public:
    /// Makes `dir`, gives `launch` the next number and the current time, and appends its first line. IoError.
    LaunchLog(const std::string& dir, Launch launch);
    i64 from() const { return from_; } ///< the step from which the launch begins, as its lines state it
    /// Appends that the launch resumes from `step` instead. IoError.
    void restored(i64 step);
    /// Appends the last line, with the completed steps. IoError.
    void end(int status, const std::string& reason, i64 step);

private:
    std::string path_;
    i64 number_, from_;
};

/// Records the end of the last launch in dir/launches.jsonl, unless the end is recorded. Any process that
/// detects the end may call it. IoError.
void end_last_launch(const std::string& dir, int status, const std::string& reason);

/// Whether the last `limit` launches of `job` all began at `step` or later: the job makes no progress. Ten
/// launches that a pre-emption or a user stopped count as one. False if `limit` is 0.
bool makes_no_progress(const std::vector<Launch>& launches, const std::string& job, i64 step, i64 limit);

} // namespace trivium
