#pragma once
// Runs of the program in which a call of one rank fails, or a rank is killed.
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trivium::crash {

struct Ended {
    int status = 0;    ///< exit status; 128 + n after signal n
    bool hung = false; ///< it was killed when its time was over
    double seconds = 0;
    std::string out, err;
};

using Environment = std::map<std::string, std::string>;

/// Starts `trivium ARGUMENTS…` in folder `cwd`, under the launcher where `ranks` > 1. `meanwhile` is called
/// every millisecond or so with the first process. After `seconds` the process and all below it are killed.
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
