#pragma once
// launches.jsonl: a JSON object at the start and at the end of each launch of a run, and one between them if
// it resumed from another step than planned.
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
    i64 from = 0, steps = 0; ///< steps done before, and steps of the whole run; 0: unknown
    // The end; missing if the launch was killed or only another rank saw its end.
    std::string end{};
    int status = -1;      ///< exit status
    std::string reason{}; ///< "done", "signal USR1", an error's first line …
    i64 to = -1;          ///< steps done

    bool ended() const { return !end.empty(); }
};

/// All launches in dir/launches.jsonl (or in that file); empty if it does not exist. Skips invalid lines.
std::vector<Launch> read_launches(const std::string& path);

/// Writes the lines of one launch; one process at a time.
class LaunchLog {
public:
    /// Makes `dir`, sets number and time of `launch`, and appends its first line. IoError.
    LaunchLog(const std::string& dir, Launch launch);
    i64 from() const { return from_; } ///< the step from which it starts, according to its lines
    /// Appends that it resumes from `step` instead. IoError.
    void restored(i64 step);
    /// Appends the last line. IoError.
    void end(int status, const std::string& reason, i64 step);

private:
    std::string path_;
    i64 number_, from_;
};

/// Appends the last line of the last launch in dir/launches.jsonl, from any process that sees its end, unless
/// it has one. IoError.
void end_last_launch(const std::string& dir, int status, const std::string& reason);

/// Whether a signal ended it well before its time limit: a pre-emption, or a user.
bool was_told_to_stop(const Launch& launch);

/// Whether the last `limit` launches of `job` all began at `step` or later: the job makes no progress. Ten
/// launches that a signal stopped count as one.
bool makes_no_progress(const std::vector<Launch>& launches, const std::string& job, i64 step, i64 limit);

} // namespace trivium
