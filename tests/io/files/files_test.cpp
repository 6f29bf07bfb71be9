#include "base/check.hpp"
#include "catch.hpp"
#include "io/files/files.hpp"
#include "io/files/hdf5.hpp"
#include "io/temporary_folder.hpp"

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace trivium;

namespace fs = std::filesystem;

namespace {

/// Owns a file descriptor.
struct Open {
    int number;
    ~Open() { ::close(number); }
    std::string path() const { return "/proc/self/fd/" + std::to_string(number); }
};

std::string read_some(int number)
{
    char text[64];
    const ssize_t got = ::read(number, text, sizeof text);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

} // namespace

TEST_CASE("a file is replaced atomically")
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

TEST_CASE("writing through a link replaces its target")
{
    const TemporaryFolder folder;
    put(folder / "far/target", "old");
    fs::create_directories(folder / "near");
    fs::create_symlink("../far/target", folder / "near/link");
    fs::create_symlink(folder / "near/link", folder / "link");
    write_file(folder / "link", "new");
    CHECK(get(folder / "far/target") == "new");
    CHECK(fs::read_symlink(folder / "link") == folder / "near/link");
    CHECK(fs::read_symlink(folder / "near/link") == "../far/target");
    fs::remove(folder / "far/target"); // now the link points to a missing file
    write_file(folder / "link", "newer");
    CHECK(get(folder / "far/target") == "newer");
    CHECK(fs::is_symlink(folder / "near/link"));
    CHECK(names(folder / "far") == std::vector<std::string>{"target"});
    CHECK(names(folder / "near") == std::vector<std::string>{"link"});
    fs::create_symlink(folder / "round", folder / "round");
    CHECK(says(message_of<UserError>([&] { write_file(folder / "round", ""); }), "round",
               std::strerror(ELOOP)));
}

TEST_CASE("files that are not regular are written to, not replaced")
{
    const TemporaryFolder folder;
    const std::string pipe = folder / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    const Open reader{::open(pipe.c_str(), O_RDWR | O_NONBLOCK)};
    write_file(pipe, "one");
    CHECK(fs::is_fifo(pipe));
    CHECK(read_some(reader.number) == "one");
    CHECK_THROWS_AS(replace_file(pipe,
                                 [](const std::string&) {
                                     throw IoError({"disk", "broken", "", "retry"});
                                 }),
                    IoError);
    CHECK(fs::is_fifo(pipe));
    write_file(reader.path(), "two"); // as /dev/stdout
    CHECK(read_some(reader.number) == "two");
    CHECK(names(folder.path()) == std::vector<std::string>{"pipe"});
}

TEST_CASE("a deleted file that is still open is written to")
{
    const TemporaryFolder folder;
    put(folder / "file", "old");
    const Open file{::open((folder / "file").c_str(), O_RDWR)};
    fs::remove(folder / "file");
    write_file(file.path(), "new");
    CHECK(read_some(file.number) == "new");
    CHECK(names(folder.path()).empty());
}

TEST_CASE("writing to a pipe without readers is an IoError if SIGPIPE is ignored")
{
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    ::close(ends[0]);
    const Open writer{ends[1]};
    const auto before = std::signal(SIGPIPE, SIG_IGN);
    const std::string message = message_of<IoError>([&] { write_file(writer.path(), "x"); });
    std::signal(SIGPIPE, before);
    CHECK(says(message, writer.path(), "cannot write", "reads it"));
}

TEST_CASE("a file that is too large is refused before it is read")
{
    const TemporaryFolder folder;
    put(folder / "small", "12345");
    CHECK(read_file(folder / "small", "config file", 5) == "12345");
    CHECK(says(message_of<UserError>([&] { (void)read_file(folder / "small", "config file", 4); }), "small",
               "too large for a config file", "5 B"));
    fs::resize_file(folder / "small", 60'000'000'000); // sparse
    CHECK(says(
        message_of<UserError>([&] { (void)read_file(folder / "small", "config file", max_settings_bytes); }),
        "small", "too large"));
    CHECK(
        says(message_of<UserError>([&] { (void)read_file("/dev/zero", "config file", max_settings_bytes); }),
             "/dev/zero", "too large"));
}

// The library is not safe for threads; with contracts on, close() asks it for open datasets.
TEST_CASE("threads write HDF5 files at the same time")
{
    const TemporaryFolder folder;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread)
        threads.emplace_back([&folder, thread] {
            for (int n = 0; n < 40; ++n) {
                h5::File file = h5::File::create(folder / ("file" + std::to_string(thread)));
                file.set("turn", n);
                file.create_dataset("data", DType::f32, {4}).set("boxes", std::vector<i64>{n, n});
                file.close();
            }
        });
    for (std::thread& thread : threads)
        thread.join();
    for (int thread = 0; thread < 4; ++thread)
        CHECK(h5::File::open(folder / ("file" + std::to_string(thread))).get_integer("turn") == 39);
}
