#include "base/address_space.hpp"
#include "base/check.hpp"
#include "catch.hpp"
#include "io/temporary_folder.hpp"

#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <sstream>

using namespace trivium;

TEST_CASE("the first rank of a job that ends writes its status, if a script asks for it")
{
    CHECK(leave_status(2) == 2); // no script asks
    const TemporaryFolder folder;
    const std::string path = folder / "status";
    ::setenv("TRIVIUM_STATUS_FILE", path.c_str(), 1);
    CHECK(leave_status(75) == 75);
    CHECK(leave_status(1) == 1);
    CHECK(get(path) == "75\n");
    ::setenv("TRIVIUM_STATUS_FILE", (folder / "none/status").c_str(), 1);
    CHECK(leave_status(1) == 1); // a missing folder is not an error
    ::unsetenv("TRIVIUM_STATUS_FILE");
}

TEST_CASE("str() has what a stream prints, with and without one")
{
    const auto same = [](const auto&... parts) {
        std::ostringstream out;
        (out << ... << parts);
        CHECK(str(parts...) == out.str());
    };
    const std::string text = "text";
    same(text, 'c', "literal", std::string_view("view"), text.c_str());
    same(INT64_MIN, " ", INT64_MAX, " ", UINT64_MAX, " ", -7, " ", std::int16_t{-300}, " ", 0U);
    same(true, false);
    same(std::int8_t{65}, std::uint8_t{66}); // characters
    same(1.5, " ", 1e-30, " ", 0.1F, " ", text);
    same(std::setprecision(3), 2.0 / 3, " ", 7);
    same(std::filesystem::path("a b"));
    same();
}

TEST_CASE("a path that the system refuses is not an internal error")
{
    const std::filesystem::filesystem_error refused("status", "a/b",
                                                    std::make_error_code(std::errc::permission_denied));
    CHECK(describe_exception(refused) == "a/b: cannot be accessed\n  reason: Permission denied\n  remedy: "
                                         "check the path and its permissions");
    CHECK(describe_exception(std::runtime_error("odd")) == "internal error: odd");
}
