// Without a driver (a login node, a laptop) the program starts and runs all commands that need no device; the
// others report it.
#include "catch.hpp"
#include "runtime/device.hpp"
#include "train/program.hpp"

#include <cstdio>

namespace {

bool skip()
{
    const int count = trivium::device_count();
    if (count > 0)
        std::printf("skipped: this machine has a GPU (%d)\n", count);
    return count > 0;
}

} // namespace

TEST_CASE("--version names the device's toolkit and the library of collectives")
{
    const Folder folder;
    const Outcome version = run_program({"--version"}, folder.path());
    INFO(version.out << version.err);
    REQUIRE(version.status == 0);
    CHECK((has(version.out, "CUDA ") || has(version.out, "HIP")));
    CHECK(has(version.out, "CCL"));
}

TEST_CASE("without a device plan, explain and data work")
{
    if (skip())
        return;
    const Folder folder;
    write_text(folder / "words.txt", some_text(500));
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"plan", "/dev/null", "model.preset=toy"},
             {"explain", "/dev/null", "model.preset=toy", "--only", "graph"},
             {"data", "tokenize", "words.txt", "--tokenizer", "bytes", "--output", "words.h5"},
             {"data", "show", "words.h5"}}) {
        const Outcome outcome = run_program(arguments, folder.path());
        INFO(arguments[0] << ": " << outcome.err);
        CHECK(outcome.status == 0);
    }
}

TEST_CASE("without a device, train reports place, problem, reason and remedy")
{
    if (skip())
        return;
    const Folder folder;
    make_store(folder, 2000, "words.txt", "words.h5");
    const Outcome train = run_program({"train", "/dev/null", "model.preset=toy", "data.train=words.h5",
                                       "data.tokenizer=bytes", "train.steps=1", "train.global_batch=1"},
                                      folder.path());
    INFO(train.err);
    CHECK(train.status == 2);
    for (const char* word : {"device", "finds none here", "driver", "remedy", "'default'"})
        CHECK(has(train.err, word));
    CHECK_FALSE(has(train.err, "internal"));
}
