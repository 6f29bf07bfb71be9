#pragma once
// Texts that are kept beside the tests: read, compared, and rewritten where TRIVIUM_UPDATE_GOLDEN is set.
// A rewritten file is for a person to read before it is committed.
#include "catch.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace trivium {

inline std::string test_file(const std::string& path)
{
    std::string file = TRIVIUM_TEST_DATA;
    file += '/';
    return file += path;
}

inline std::string read_text(const std::string& path)
{
    std::ifstream in(test_file(path));
    INFO(path);
    REQUIRE(in.good());
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

inline void require_golden(const std::string& path, const std::string& text)
{
    if (std::getenv("TRIVIUM_UPDATE_GOLDEN")) {
        std::ofstream out(test_file(path));
        out << text;
    }
    INFO(path << " differs; TRIVIUM_UPDATE_GOLDEN=1 rewrites it");
    REQUIRE(text == read_text(path));
}

} // namespace trivium
