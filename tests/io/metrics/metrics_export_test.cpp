#include "base/check.hpp"
#include "catch.hpp"
#include "io/metrics/crc32c.hpp"
#include "io/metrics/metrics_export.hpp"
#include "io/metrics_lines.hpp"

#include <cmath>

using namespace trivium;

TEST_CASE("CRC-32C has the values of RFC 3720, appendix B.4")
{
    std::string up, down;
    for (int i = 0; i < 32; ++i) {
        up += static_cast<char>(i);
        down += static_cast<char>(31 - i);
    }
    CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
    CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
    CHECK(crc32c(up) == 0x46dd794e);
    CHECK(crc32c(down) == 0x113fdb5c);
    CHECK(crc32c("123456789") == 0xe3069283);
    CHECK(crc32c("") == 0);
}

TEST_CASE("a table of metrics distinguishes absent values from values that are not finite")
{
    const MetricsTable table = table_of("{\"step\":1,\"loss\":5}\n{\"step\":2,\"norm\":0.5,\"loss\":null}\n{"
                                        "\"step\":4,\"norm\":7,\"flag\":true,\"loss\":2}\n{\"step\":5,\"lo");
    CHECK(table.steps == std::vector<i64>{1, 2, 4});
    REQUIRE(table.columns.size() == 3);
    CHECK(table.columns[1].name == "norm");
    for (const MetricsColumn& column : table.columns) {
        CHECK(column.values.size() == 3);
        CHECK(column.present.size() == 3);
    }
    const MetricsColumn& loss = *table.find("loss");
    CHECK(loss.present == std::vector<bool>{true, true, true});
    CHECK(loss.values[0] == 5);
    CHECK(std::isnan(loss.values[1]));
    CHECK(loss.values[2] == 2);
    CHECK(table.find("norm")->present == std::vector<bool>{false, true, true});
    CHECK(std::isnan(table.values("norm")[0]));
    CHECK(table.values("flag")[2] == 1);
    CHECK(table.find("none") == nullptr);
    CHECK(std::isnan(table.values("none")[1]));
}

TEST_CASE("CSV has one line per step; missing values are empty, values that are not finite are nan")
{
    const TemporaryFolder folder;
    const NamedMetrics a{"a", table_of("{\"step\":1,\"loss\":5.1,\"tokens\":16384}\n{\"step\":2,\"loss\":"
                                       "null,\"big\":1e22}\n{\"step\":3,\"lo")};
    write_csv(folder / "sub/a.csv", std::vector{a});
    CHECK(get(folder / "sub/a.csv") == "step,loss,tokens,big\n1,5.1,16384,\n2,nan,,1e+22\n");
    const NamedMetrics b{"b,\"c\"", table_of("{\"step\":-1,\"odd, name\":0.1}\n")};
    write_csv(folder / "ab.csv", std::vector{a, b});
    CHECK(get(folder / "ab.csv") == "run,step,loss,tokens,big,\"odd, "
                                    "name\"\na,1,5.1,16384,,\na,2,nan,,1e+22,\n\"b,\"\"c\"\"\",-1,,,,0.1\n");
    put(folder / "file", "");
    CHECK(says(message_of<UserError>([&] { write_csv(folder / "file/a.csv", std::vector{a}); }), "file"));
}

TEST_CASE("an event file equals that of TensorBoard's own writer")
{
    // EventFileWriter's records for Event(wall_time=1.5, file_version="brain.Event:2") and
    // Event(wall_time=1.5, step=300, summary=Summary(value=[Value(tag="loss", simple_value=2.25),
    // Value(tag="skipped", simple_value=1)]))
    const unsigned char expected[] = {
        0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xa3, 0x7f, 0x4b, 0x22, 0x09, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0xf8, 0x3f, 0x1a, 0x0d, 0x62, 0x72, 0x61, 0x69, 0x6e, 0x2e, 0x45, 0x76, 0x65, 0x6e, 0x74,
        0x3a, 0x32, 0x2a, 0x28, 0x64, 0x6c, 0x2b, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x86, 0x1b, 0xc3,
        0x4b, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf8, 0x3f, 0x10, 0xac, 0x02, 0x2a, 0x1d, 0x0a, 0x0b,
        0x0a, 0x04, 0x6c, 0x6f, 0x73, 0x73, 0x15, 0x00, 0x00, 0x10, 0x40, 0x0a, 0x0e, 0x0a, 0x07, 0x73, 0x6b,
        0x69, 0x70, 0x70, 0x65, 0x64, 0x15, 0x00, 0x00, 0x80, 0x3f, 0x0f, 0x95, 0xee, 0x05};
    const TemporaryFolder folder;
    write_event_files(folder / "tb",
                      std::vector{NamedMetrics{
                          "a", table_of("{\"step\":300,\"loss\":2.25,\"skipped\":true,\"time\":1.5}\n")}});
    CHECK(get(folder / "tb/events.out.tfevents.trivium") ==
          std::string(reinterpret_cast<const char*>(expected), sizeof expected));
}

TEST_CASE("runs are named by the parts in which their paths differ")
{
    const auto names = [](std::vector<std::string> paths) { return run_names(paths); };
    using Names = std::vector<std::string>;
    CHECK(names({"runs/a/logs/metrics.jsonl"}) == Names{"runs/a/logs/metrics.jsonl"});
    CHECK(names({"runs/a/logs/metrics.jsonl", "runs/b/logs/metrics.jsonl"}) == Names{"a", "b"});
    CHECK(names({"/x/a/1", "/x/a/2", "/x/b/1"}) == Names{"a/1", "a/2", "b/1"});
    CHECK(names({"logs", "./old/logs"}).size() == 2);
    const TemporaryFolder folder;
    put(folder / "a/metrics.jsonl", "");
    put(folder / "b/metrics.jsonl", "");
    CHECK(names({folder / "a", folder / "b/metrics.jsonl"}) == Names{"a", "b"});
    CHECK(says(message_of<UserError>([&] {
                   names({folder / "a", folder / "a/../a/metrics.jsonl"});
               }),
               "twice"));
}

TEST_CASE("metrics.superseded.jsonl may have incomplete lines anywhere")
{
    const TemporaryFolder folder;
    put(folder / "metrics.superseded.jsonl", "{\"step\":1}\n{\"step\":2,\"lo\n{\"step\":2}\n");
    CHECK(read_metrics_table(folder / "metrics.superseded.jsonl").steps == std::vector<i64>{1, 2});
}
