// What users of mixtures, validation sets and schedules type and see.
#include "catch.hpp"
#include "io/metrics/metrics.hpp"
#include "train/program.hpp"

#include <nlohmann/json.hpp>

using namespace trivium;

TEST_CASE("a run of two stores and two validation sets, resumed with other weights and extended")
{
    const Folder folder;
    const auto run = [&](std::vector<std::string> words, int status) {
        const Outcome outcome = run_program(words, folder.path());
        INFO(outcome.err);
        CHECK(outcome.status == status);
        return outcome.err + outcome.out;
    };
    make_store(folder, 3000, "a.txt", "a.h5");
    make_store(folder, 1700, "b.txt", "b.h5");
    make_store(folder, 400, "v.txt", "v.h5");
    write_text(folder / "run.toml",
               "[model]\npreset = \"toy\"\nlayers = 1\nseq = 16\n[data]\n"
               "train = [{path = \"a.h5\", weight = 0.75}, {path = \"b.h5\", weight = 0.25}]\n"
               "valid = {first = \"v.h5\", second = \"b.h5\"}\n[train]\nsteps = 10\nglobal_batch = 4\nlr = "
               "1e-3\nschedule = \"wsd\"\ndecay_steps = 4\neval_batches = 2\n[parallel]\nthreads = 1\n");
    const std::string first = run({"train", "run.toml"}, 0);
    CHECK(has(first, "data     2 stores"));
    CHECK(has(first, "75.0 % a.h5: 30 of "));
    CHECK(has(first, "25.0 % b.h5: 10 of "));
    CHECK(has(first, "of first  perplexity"));
    const std::vector<MetricsRecord> records = read_metrics(folder / "logs");
    REQUIRE(records.size() == 10);
    const auto valid = [&](const char* name) {
        return records.back().value(std::string("valid_loss") + name);
    };
    CHECK(valid("") == Approx((valid("_first") + valid("_second")) / 2)); // as many tokens in each
    CHECK(records[5].value("lr") == Approx(1e-3));
    CHECK(records[9].value("lr") < 1e-9);
    const auto report = nlohmann::json::parse(
        run_program({"eval", "run.toml", "--json", "--batches", "2"}, folder.path()).out);
    CHECK(report["sets"]["first"]["loss"].get<double>() == Approx(valid("_first")).epsilon(1e-6));
    CHECK(report["loss"].get<double>() == Approx(valid("")).epsilon(1e-6));

    const std::string longer = run({"train", "run.toml", "train.steps=20", "train.stop_after=2",
                                    "data.train=[{path=\"a.h5\", weight=1}, {path=\"b.h5\", weight=1}]"},
                                   0);
    CHECK(has(longer, "the run is extended after its decay, so the rate rises from 0 to 0.001"));
    CHECK(has(longer, "resume from a checkpoint up to step 6, before the decay"));
    CHECK(has(longer,
              "data.train: from sample 40 on the shares are a.h5 50 %, b.h5 50 % (they were a.h5 75 %, "
              "b.h5 25 %)"));
    CHECK(has(longer, "; 30 read before"));
    CHECK(has(run({"checkpoint", "show", "checkpoints/step-00000012"}, 0), "read       34 samples of a.h5"));
    const std::string refused = run({"train", "run.toml", "train.steps=100000"}, 2);
    CHECK(has(refused, "epochs"));
    CHECK(has(refused, "or repeat = true to read it again"));
    CHECK(has(run({"train", "run.toml", "data.train=[{path=\"a.h5\"}, {path=\"missing.h5\"}]"}, 2),
              "missing.h5"));
    CHECK(has(run({"train", "run.toml", "data.valid={\"a b\" = \"v.h5\"}"}, 2), "the name 'a b'"));
}
