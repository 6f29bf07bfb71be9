#pragma once
// Runs of the program in which a call of one rank fails, or a rank is killed.
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trivium::crash {

struct Ended {
    int status = 0;    ///< exit status; 128 + n after signal n
    bool hung = false; ///< it was killed because it exceeded its time
    double seconds = 0;
    std::string out, err;
};

using Environment = std::map<std::string, std::string>;

/// Runs `trivium ARGUMENTS…` in folder `cwd`, under the launcher if `ranks` > 1. Calls `meanwhile` with the
/// first process about every millisecond. Kills the process and its descendants after `seconds`.
Ended run(int ranks, const std::vector<std::string>& arguments, const std::string& cwd,
          const Environment& environment = {}, const std::function<void(int)>& meanwhile = {},
          double seconds = 60);

/// A line of the log of tests/crash/fail_io.cpp.
struct Call {
    long number = 0;
    std::string name, path;
};
std::vector<Call> read_calls(const std::string& log);

/// The steps that "saved …/step-N" lines report, in order.
std::vector<long> reported_steps(const std::string& log);

} // namespace trivium::crash
