// The command under the launcher, as users run it.
#include "../train/program.hpp"
#include "base/check.hpp"
#include "catch.hpp"
#include "check/cases.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace {

nlohmann::json check_json(const Outcome& outcome)
{
    INFO(outcome.err);
    INFO(outcome.out);
    return nlohmann::json::parse(outcome.out);
}

} // namespace

TEST_CASE("the page has the number of trainings")
{
    const auto cases = [](int ranks) { return trivium::check_cases(ranks, false).size(); };
    CHECK(has(read_text(TRIVIUM_SOURCE "/docs/check.md"),
              trivium::str("(", cases(4), " on 4 ranks, ", cases(8), " on 8)")));
}

TEST_CASE("a check of three ranks, and the machine file that it writes", "[release]")
{
    const Folder folder;
    const Outcome outcome =
        run_ranks({{3, {"check", "--dir", "ck", "-o", "machine.toml", "--json"}}}, folder.path());
    const auto report = check_json(outcome);
    CHECK(outcome.status == report["status"]);
    for (const auto& finding : report["findings"]) // a busy machine may keep a rank from its cores
        CHECK((finding["severity"] == "warning" || finding["part"] == "rates"));
    CHECK(report["ranks"] == 3);
    CHECK(report["done"].size() == 5);
    REQUIRE(report["nodes"].size() == 1);
    CHECK(report["nodes"][0]["ranks"] == std::vector<int>{0, 1, 2});
    CHECK(report["nodes"][0]["folder_write_bytes_per_second"] > 0);
    CHECK(report["links"].size() == 3);
    for (const char* rate : {"flops_f32", "flops_bf16", "bytes_per_second"})
        CHECK(report["per_rank"][2][rate] > 0);
    CHECK(std::filesystem::is_empty(folder / "ck"));
    // The file agrees with the report, and the planner accepts it.
    const std::string file = read_text(folder / "machine.toml");
    CHECK(has(file, "flops_f32 = "));
    const Outcome plan = run_program(
        {"plan", "/dev/null", "model.preset=toy", "model.vocab=300", "--machine", "machine.toml", "--json"},
        folder.path());
    INFO(plan.err);
    REQUIRE(plan.status == 0);
    CHECK(nlohmann::json::parse(plan.out)["machine"] == report["machine"]["name"]);
    for (const char* op : {"\"matmul f32 nn ", "\"attention_grad bf16 ", "\"adamw f32 ", "\"convolution f32 ",
                           "\"reduce_scatter f32 bucket ", "\"layer_norm_grad_x f32 ", "\"rms_norm bf16 "})
        CHECK(has(file, op));
    std::string wrong = file;
    wrong.insert(wrong.find("\"matmul f32 nn ") + 15, "1:0 ");
    write_text(folder / "machine.toml", wrong);
    const Outcome refused =
        run_program({"plan", "/dev/null", "model.preset=toy", "--machine", "machine.toml"}, folder.path());
    CHECK(refused.status == 2);
    CHECK(has(refused.err, "machine.toml: '1:0' in 'matmul f32 nn"));
}

TEST_CASE("a check of one rank, as text")
{
    const Folder folder;
    const Outcome outcome = run_program({"check", "--only", "arithmetic,rates"}, folder.path());
    INFO(outcome.err);
    CHECK(outcome.status == 0);
    CHECK(has(outcome.err, "simple loops in f64"));
    CHECK(has(outcome.out, "GFLOP/s"));
    CHECK((has(outcome.out, "check: passed; ") ||
           has(outcome.out, "check: passed, but some measurements are not reliable; "))); // a busy machine
    CHECK_FALSE(has(outcome.err, "composition"));
}

TEST_CASE("a machine file can be written to stdout")
{
    const Folder folder; // on few cores three ranks measure less
    const Outcome outcome = run_ranks({{3, {"check", "--only", "rates", "-o", "/dev/fd/1"}}}, folder.path());
    INFO(outcome.err);
    CHECK(outcome.status == 0);
    CHECK(has(outcome.out, "measured by `trivium check`"));
    CHECK(has(outcome.out, "\"matmul f32 nn "));
}

TEST_CASE("a processor without bf16 products in hardware")
{
    const Folder folder;
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    const Outcome outcome = run_program({"check", "--only", "arithmetic"}, folder.path());
    unsetenv("ONEDNN_MAX_CPU_ISA");
    INFO(outcome.err);
    CHECK(outcome.status == 0);
}

TEST_CASE("errors in the use of check")
{
    const Folder folder;
    const auto fails = [&](const std::vector<std::string>& words, const std::string& message) {
        std::vector<std::string> all{"check"};
        all.insert(all.end(), words.begin(), words.end());
        const Outcome outcome = run_program(all, folder.path());
        INFO(outcome.err);
        CHECK(outcome.status != 0);
        CHECK(has(outcome.err, message));
        return outcome.status;
    };
    CHECK(fails({"--only", "folder", "-o", "m.toml"}, "would have nothing to write") == 2);
    CHECK(fails({"--only", "rates", "--dir", "ck"}, "the folder would not be tested") == 2);
    CHECK(fails({"--only", "speed"}, "speed") == 2);
    CHECK(fails({"--slow-rank", "7"}, "7") == 2);
    for (const char* option : {"--slow-rank", "--slow-link", "--clock", "--watchdog"})
        for (const char* value : {"nan", "inf", "-nan"})
            CHECK(fails({option, value}, value) == 2);
    CHECK(fails({"--only", "folder"}, "no folder is named") == 2);
    const std::string no_utf8 = "a\xff";
    const Outcome odd = run_program({"check", "--only", "folder", "--dir", no_utf8, "--json"}, folder.path());
    INFO(odd.err);
    CHECK(odd.status == 0);
    CHECK(has(odd.out, "\xEF\xBF\xBD")); // the replacement character
    CHECK(std::system((std::string(TRIVIUM_PROGRAM) + " check --only environment --json > /dev/full 2> " +
                       (folder / "err"))
                          .c_str()) == 1 << 8);
    CHECK(has(read_text(folder / "err"), "the report cannot be written"));
    write_text(folder / "file", "");
    CHECK(fails({"--only", "rates", "-o", "file/m.toml"}, "file: cannot make this folder") ==
          2); // before anything is measured
    CHECK(fails({"--only", "folder", "--dir", "file"}, "") == 1);
}

TEST_CASE("ranks that see different folders")
{
    const Folder folder;
    std::filesystem::create_directory(folder / "a");
    std::filesystem::create_directory(folder / "b");
    const auto part = [&](const std::string& where) {
        Launch launch{1, {"check", "--only", "folder", "--dir", "ck", "--json"}};
        launch.folder = folder / where;
        return launch;
    };
    const Outcome outcome = run_ranks({part("a"), part("b")}, folder.path());
    const auto report = check_json(outcome);
    CHECK(outcome.status == 1);
    REQUIRE(report["findings"].size() == 1);
    CHECK(report["findings"][0]["ranks"] == std::vector<int>{1});
    CHECK(has(report["findings"][0]["problem"], "is not the folder that rank 0 sees"));
}

TEST_CASE("a rank that runs another build")
{
    const Folder folder;
    std::filesystem::copy(TRIVIUM_PROGRAM, folder / "older");
    std::ofstream(folder / "older", std::ios::app) << "one byte more";
    const std::vector<std::string> words{"check", "--only", "environment", "--json"};
    const Outcome outcome = run_ranks({{2, words}, {1, words, "", folder / "older"}}, folder.path());
    const auto report = check_json(outcome);
    CHECK(outcome.status == 1);
    bool found = false;
    for (const auto& finding : report["findings"])
        if (finding["severity"] == "fault") {
            CHECK(has(finding["problem"], "a different build from most ranks"));
            CHECK(finding["ranks"] == std::vector<int>{2});
            found = true;
        }
    CHECK(found);
}

TEST_CASE("a stopped rank is named, and the check ends")
{
    const Folder folder;
    const auto begin = std::chrono::steady_clock::now();
    std::vector<int> ranks;
    const Outcome outcome = run_ranks_and(
        {{3, {"check", "--only", "environment,composition,rates", "--long", "--watchdog", "3"}}},
        folder.path(), "environment", [&](int launcher) {
            ranks = processes_below(launcher, "trivium");
            REQUIRE(ranks.size() == 3);
            kill(ranks[1], SIGSTOP);
        });
    for (const int rank : ranks)
        kill(rank, SIGKILL);
    INFO(outcome.err);
    CHECK(outcome.status != 0);
    CHECK(outcome.status == 1);
    CHECK(has(outcome.err, "the run hangs: no heartbeat from rank "));
    CHECK(has(outcome.err, " of the check"));
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
}
