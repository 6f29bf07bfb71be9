#include "catch.hpp"
#include "io/files/files.hpp"
#include "io/metrics/launches.hpp"
#include "io/temporary_folder.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

using namespace trivium;

TEST_CASE("launches have a begin and an end; killed ones lack the end")
{
    const TemporaryFolder folder;
    const std::string dir = folder / "log";
    CHECK(read_launches(dir).empty());
    Launch launch;
    launch.job = "12";
    launch.restart = 1;
    launch.ranks = 8;
    launch.nodes = 4;
    launch.grid = "data 2 x \"pipeline\" 4";
    launch.from = 40;
    launch.steps = 1000;
    launch.model = "small, \"f32\"";
    LaunchLog(dir, launch).end(75, "signal USR1", 60);
    LaunchLog(dir, launch); // killed
    LaunchLog(dir, launch).end(0, "done", 100);
    const auto all = read_launches(dir);
    REQUIRE(all.size() == 3);
    CHECK((all[0].number == 1 && all[0].job == "12" && all[0].restart == 1 && all[0].ranks == 8 &&
           all[0].nodes == 4 && all[0].grid == launch.grid));
    CHECK((all[0].from == 40 && all[0].to == 60 && all[0].status == 75 && all[0].reason == "signal USR1"));
    CHECK((all[0].steps == 1000 && all[0].model == launch.model));
    CHECK(all[0].begin.size() == 20);
    CHECK_FALSE(all[1].ended());
    CHECK((all[2].number == 3 && all[2].ended() && all[2].to == 100));
    // Each line is one JSON object.
    std::istringstream lines(read_file(dir + "/launches.jsonl"));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count)
        CHECK(nlohmann::json::parse(line).contains("launch"));
    CHECK(count == 5);
}

TEST_CASE("an incomplete line of a killed launch is skipped, and the next one starts on a new line")
{
    const TemporaryFolder folder;
    LaunchLog(folder.path(), {});
    write_file(folder / "launches.jsonl",
               read_file(folder / "launches.jsonl") + "{\"launch\":1,\"event\":\"e");
    LaunchLog(folder.path(), {}).end(1, "x", 0);
    const auto all = read_launches(folder / "launches.jsonl");
    REQUIRE(all.size() == 2);
    CHECK_FALSE(all[0].ended());
    CHECK((all[1].number == 2 && all[1].status == 1));
}

TEST_CASE("a launch that resumes from another step than planned is recorded")
{
    const TemporaryFolder folder;
    Launch launch;
    launch.from = 4;
    LaunchLog log(folder.path(), launch);
    log.restored(2);
    CHECK(log.from() == 2);
    REQUIRE(read_launches(folder.path()).size() == 1);
    CHECK((read_launches(folder.path())[0].from == 2 && !read_launches(folder.path())[0].ended()));
    log.end(0, "done", 8);
    CHECK((read_launches(folder.path())[0].from == 2 && read_launches(folder.path())[0].to == 8));
}

TEST_CASE("a job makes no progress when its last launches began at one step")
{
    const auto launch = [](const std::string& job, i64 from) {
        Launch l;
        l.job = job;
        l.from = from;
        return l;
    };
    CHECK(makes_no_progress({launch("a", 5), launch("a", 5), launch("a", 5)}, "a", 5, 3));
    CHECK_FALSE(makes_no_progress({launch("a", 5), launch("a", 5)}, "a", 5, 3));
    CHECK_FALSE(makes_no_progress({launch("a", 4), launch("a", 5), launch("a", 5)}, "a", 5, 3));
    CHECK_FALSE(
        makes_no_progress({launch("a", 5), launch("a", 5), launch("a", 5)}, "a", 6, 3)); // it has saved since
    CHECK_FALSE(makes_no_progress({launch("b", 5), launch("b", 5), launch("b", 5)}, "a", 5, 3));
    CHECK(makes_no_progress({launch("a", 9), launch("a", 5), launch("a", 5)}, "a", 5,
                            3)); // fell back to an older one
    CHECK_FALSE(makes_no_progress({launch("a", 5)}, "a", 5, 0));
    const auto ended = [&](int status, const std::string& reason) {
        Launch l = launch("a", 5);
        l.end = "2026-11-22T00:10:00Z", l.status = status, l.reason = reason;
        return l;
    };
    const Launch asked = ended(75, "signal USR1"), hung = ended(75, "hang: no heartbeat from rank 1"),
                 died = launch("a", 5);
    CHECK_FALSE(makes_no_progress({asked, asked, asked, asked}, "a", 5, 3)); // pre-empted four times
    CHECK_FALSE(makes_no_progress({died, asked, hung, asked}, "a", 5, 3));
    CHECK(makes_no_progress({died, asked, hung, asked, died}, "a", 5, 3));
    CHECK(makes_no_progress({hung, hung, hung}, "a", 5, 3));
    CHECK_FALSE(makes_no_progress(std::vector<Launch>(29, asked), "a", 5, 3));
    CHECK(makes_no_progress(std::vector<Launch>(30, asked), "a", 5, 3)); // but not forever
    const Launch late = ended(75, "signal USR1, late in the job's time"),
                 limit = ended(75, "the job's time limit"); // too short a time
    CHECK(makes_no_progress({late, limit, late}, "a", 5, 3));
    CHECK(makes_no_progress({ended(1, "signal of a broken disk"), died, died}, "a", 5, 3));
}
