#include "base/check.hpp"
#include "catch.hpp"
#include "io/metrics/metrics.hpp"
#include "io/metrics/shown_samples.hpp"
#include "io/temporary_folder.hpp"

#include <cmath>

using namespace trivium;

namespace {

MetricsRecord record(i64 step, double loss)
{
    MetricsRecord r;
    r.step = step;
    r.set("loss", loss);
    r.set("tokens", 16384);
    return r;
}

} // namespace

TEST_CASE("metrics are one JSON object per line")
{
    const TemporaryFolder folder;
    MetricsWriter writer(folder / "logs/a", 0);
    writer.write(record(1, 5.25));
    writer.write(record(2, NAN));
    CHECK(get(folder / "logs/a/metrics.jsonl") ==
          "{\"step\":1,\"loss\":5.25,\"tokens\":16384}\n{\"step\":2,\"loss\":null,\"tokens\":16384}\n");
    const auto records = read_metrics(folder / "logs/a");
    REQUIRE(records.size() == 2);
    CHECK(records[0].step == 1);
    CHECK(records[0].value("loss") == 5.25);
    CHECK(records[1].has("loss"));
    CHECK(std::isnan(records[1].value("loss")));
    CHECK_FALSE(records[1].has("x"));
    CHECK(std::isnan(records[1].value("x")));
}

TEST_CASE("after a resume, each step occurs once")
{
    const TemporaryFolder folder;
    {
        MetricsWriter writer(folder.path(), 0);
        for (i64 step = 1; step <= 5; ++step)
            writer.write(record(step, double(step)));
    }
    const std::string before = get(folder / "metrics.jsonl");
    std::ofstream(folder / "metrics.jsonl", std::ios::app) << "{\"step\":6,\"lo";
    {
        MetricsWriter writer(folder.path(), 3);
        writer.write(record(4, 40));
        writer.write(record(5, 50));
    }
    const auto records = read_metrics(folder / "metrics.jsonl");
    REQUIRE(records.size() == 5);
    for (i64 step = 1; step <= 5; ++step)
        CHECK(records[std::size_t(step - 1)].step == step);
    CHECK(records[3].value("loss") == 40);
    CHECK(records[3].value("restarted_at") == 3);
    CHECK_FALSE(records[4].has("restarted_at"));
    CHECK(get(folder / "metrics.superseded.jsonl") == "{\"step\":4,\"loss\":4,\"tokens\":16384}\n{\"step\":5,"
                                                      "\"loss\":5,\"tokens\":16384}\n{\"step\":6,\"lo\n");
    // A second resume appends to the side file; a resume at the end moves nothing.
    {
        MetricsWriter writer(folder.path(), 4);
    }
    CHECK(has(get(folder / "metrics.superseded.jsonl"), "\"loss\":50"));
    const std::string side = get(folder / "metrics.superseded.jsonl");
    {
        MetricsWriter writer(folder.path(), 4);
    }
    CHECK(get(folder / "metrics.superseded.jsonl") == side);
    // A new run in an old folder starts an empty file.
    {
        MetricsWriter writer(folder.path(), 0);
    }
    CHECK(get(folder / "metrics.jsonl").empty());
}

TEST_CASE("a kill between the two writes of a restart does not duplicate superseded steps")
{
    const TemporaryFolder folder;
    const std::string kept = "{\"step\":1}\n", lost = "{\"step\":2}\n{\"step\":3}\n{\"step\":4,\"lo";
    put(folder / "metrics.jsonl", kept + lost);
    {
        MetricsWriter writer(folder.path(), 1);
    }
    const std::string side = get(folder / "metrics.superseded.jsonl");
    CHECK(side == lost + "\n");
    put(folder / "metrics.jsonl", kept + lost); // the kill came before the file was replaced
    {
        MetricsWriter writer(folder.path(), 1);
    }
    CHECK(get(folder / "metrics.superseded.jsonl") == side);
    CHECK(get(folder / "metrics.jsonl") == kept);
    // Later superseded lines are added, although the last ones are equal.
    put(folder / "metrics.jsonl", kept + "{\"step\":2,\"again\":1}\n" + lost);
    {
        MetricsWriter writer(folder.path(), 1);
    }
    CHECK(get(folder / "metrics.superseded.jsonl") == side + "{\"step\":2,\"again\":1}\n" + side);
}

TEST_CASE("the error names an invalid line of a metrics file; an incomplete last line is skipped")
{
    const TemporaryFolder folder;
    put(folder / "m.jsonl", "{\"step\":1,\"loss\":1,\"note\":\"x\",\"skipped\":true}\n{\"step\":2,\"lo");
    const auto records = read_metrics(folder / "m.jsonl");
    REQUIRE(records.size() == 1);
    CHECK(records[0].value("skipped") == 1);
    CHECK_FALSE(records[0].has("note"));
    put(folder / "m.jsonl", "{\"step\":1}\nwhat\n{\"step\":2}\n");
    CHECK(says(message_of<UserError>([&] { read_metrics(folder / "m.jsonl"); }), "m.jsonl:2",
               "not the record of a step"));
    CHECK(says(message_of<UserError>([&] { read_metrics(folder / "none.jsonl"); }), "no such metrics file"));
    put(folder / "file", "");
    CHECK(says(message_of<UserError>([&] { MetricsWriter(folder / "file/logs", 0); }), "file/logs",
               "cannot make"));
}

TEST_CASE("shown samples are read as they were written, and few steps of a long run remain")
{
    const TemporaryFolder folder;
    CHECK(read_shown_samples(folder / "").empty());
    std::vector<ShownSample> all{{"x \"1\"", 3, -1, {}, {2, 2}, {0.1F, -1e-30F, NAN, 16777216}}};
    for (i64 step = 1; step <= 1000; ++step) {
        all.push_back({"made", 3, step, "x \"1\"", {2}, {static_cast<float>(step), INFINITY}});
        thin_steps(all, 4);
    }
    write_shown_samples(folder / "", all);
    const std::vector<ShownSample> read = read_shown_samples(folder / "");
    REQUIRE(read.size() == all.size());
    REQUIRE(read.size() == 1 + 4);
    CHECK(read[0].name == all[0].name);
    CHECK(read[0].step == -1);
    CHECK(read[0].shape == std::vector<i64>{2, 2});
    CHECK((read[0].values[0] == 0.1F && read[0].values[1] == -1e-30F && std::isnan(read[0].values[2])));
    CHECK(read[1].step == 1);
    CHECK(read[4].step == 1000);
    for (std::size_t i = 1; i < 5; ++i) {
        CHECK(read[i].scale == "x \"1\"");
        CHECK(read[i].values[0] == static_cast<float>(read[i].step));
        CHECK((i == 1 || static_cast<double>(read[i].step) / static_cast<double>(read[i - 1].step) > 2));
    }
}
