#pragma once
// `trivium data` within a test.
#include "base/log.hpp"
#include "cli/commands.hpp"

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace trivium {

/// The output of `trivium data ARGUMENTS…`. Does not catch its exceptions. `status`: its exit status.
inline std::string data(std::vector<std::string> arguments, int* status = nullptr)
{
    CommandLine line("trivium", "", "");
    Command program = line.root();
    add_data_command(program);
    arguments.insert(arguments.begin(), {"trivium", "data"});
    std::vector<char*> argv;
    for (std::string& argument : arguments)
        argv.push_back(argument.data());
    std::ostringstream output;
    std::streambuf* const before = std::cout.rdbuf(output.rdbuf());
    set_log_level(LogLevel::quiet);
    int result = 0;
    try {
        result = line.run(static_cast<int>(argv.size()), argv.data());
    } catch (...) {
        std::cout.rdbuf(before);
        set_log_level(LogLevel::info);
        throw;
    }
    std::cout.rdbuf(before);
    set_log_level(LogLevel::info);
    if (status != nullptr)
        *status = result;
    return output.str();
}

} // namespace trivium
