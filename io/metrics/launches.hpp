#pragma once
// launches.jsonl: of each launch of a run one JSON object at its begin and one at its end, and between them
// one where it went on from another step than it was to begin at.
#include "base/units.hpp"

#include <string>
#include <vector>

namespace trivium {

struct Launch {
    i64 number = 0;      ///< from 1 on
    std::string begin{}; ///< "2026-11-22T00:10:00Z"
    std::string job{};   ///< the scheduler's id; empty without one
    i64 restart = 0;     ///< of that job
    i64 ranks = 1, nodes = 1;
    std::string grid{};      ///< for people
    std::string model{};     ///< for people
    i64 from = 0, steps = 0; ///< steps done before, and those of the whole run; 0: not known
    // Of the end; a launch that was killed, or whose end only another rank saw, has none.
    std::string end{};
    int status = -1;      ///< exit status
    std::string reason{}; ///< "done", "signal USR1", an error's first line …
    i64 to = -1;          ///< steps done

    bool ended() const { return !end.empty(); }
};

/// All launches in dir/launches.jsonl (or in that file); none where it is not there. What is no such object
/// is left out.
std::vector<Launch> read_launches(const std::string& path);

/// Writes the lines of one launch; one process at a time.
class LaunchLog {
public:
    /// Makes `dir`, gives `launch` its number and time, and appends its first line. IoError.
    LaunchLog(const std::string& dir, Launch launch);
    i64 from() const { return from_; } ///< the step it begins at, as far as its lines tell
    /// Appends that it goes on from `step` instead. IoError.
    void restored(i64 step);
    /// Appends the last line. IoError.
    void end(int status, const std::string& reason, i64 step);

private:
    std::string path_;
    i64 number_, from_;
};

/// The last line of a launch, from whichever process sees its end: appended to dir/launches.jsonl for the
/// last launch there, unless that has ended. IoError.
void end_last_launch(const std::string& dir, int status, const std::string& reason);

/// Whether it ended by a signal before its time was nearly over: by a pre-emption, or a user.
bool was_told_to_stop(const Launch& launch);

/// Whether `limit` launches of `job` in a row, the last ones, have begun at `step` or later: the job gets no
/// further. Of those that were told to stop, ten count as one.
bool makes_no_progress(const std::vector<Launch>& launches, const std::string& job, i64 step, i64 limit);

} // namespace trivium
