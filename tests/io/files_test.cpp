#include "base/check.hpp"
#include "catch.hpp"
#include "io/files.hpp"
#include "io/temporary_folder.hpp"

#include <cstring>

using namespace trivium;

TEST_CASE("a file is replaced whole, or not at all")
{
    const TemporaryFolder folder;
    write_file(folder / "a/b.txt", "old");
    CHECK(get(folder / "a/b.txt") == "old");
    CHECK(read_file(folder / "a/b.txt") == "old");
    const auto fail = [&] {
        replace_file(folder / "a/b.txt", [](const std::string& temporary) {
            put(temporary, "half");
            throw IoError({temporary, "broken", "", "retry"});
        });
    };
    CHECK_THROWS_AS(fail(), IoError);
    CHECK(get(folder / "a/b.txt") == "old");
    CHECK(std::distance(std::filesystem::directory_iterator(folder / "a"), {}) == 1);
    const std::string long_text(3'000'000, 'x');
    write_file(folder / "a/b.txt", long_text);
    CHECK((read_file(folder / "a/b.txt") == long_text));
    CHECK(file_size(folder / "a/b.txt") == 3'000'000);
}

TEST_CASE("a full disk is an IoError with a remedy")
{
    if (!std::filesystem::exists("/dev/full"))
        return;
    const std::string message = message_of<IoError>([] {
        FileWriter file("/dev/full");
        file.write("x", 1);
        file.close();
    });
    CHECK(says(message, "/dev/full", std::strerror(ENOSPC), "free space"));
}
