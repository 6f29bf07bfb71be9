#include "base/check.hpp"
#include "catch.hpp"
#include "io/temporary_folder.hpp"

#include <cstdlib>

using namespace trivium;

TEST_CASE("the first of a job's ranks to end says how, where a script asks")
{
    CHECK(leave_status(2) == 2); // nobody asks
    const TemporaryFolder folder;
    const std::string path = folder / "status";
    ::setenv("TRIVIUM_STATUS_FILE", path.c_str(), 1);
    CHECK(leave_status(75) == 75);
    CHECK(leave_status(1) == 1);
    CHECK(get(path) == "75\n");
    ::setenv("TRIVIUM_STATUS_FILE", (folder / "none/status").c_str(), 1);
    CHECK(leave_status(1) == 1); // a folder that is not there is no failure of its own
    ::unsetenv("TRIVIUM_STATUS_FILE");
}
