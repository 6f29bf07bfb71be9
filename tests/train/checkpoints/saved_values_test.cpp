// Which rank writes which part of a checkpoint: every value once, and the same amount on each rank.
#include "catch.hpp"
#include "choose/decide.hpp"
#include "compile/saved_values.hpp"
#include "io/checkpoint/box.hpp"
#include "train/program.hpp"
#include "train/tiny_run.hpp"

#include <algorithm>
#include <cmath>
#include <map>

using namespace trivium;

namespace {

struct RankShare {
    Coordinates at;
    std::vector<SavedValue> values;
    Bytes planned = 0;

    Bytes written() const
    {
        Bytes bytes = 0;
        for (const SavedValue& value : values)
            bytes += value.written();
        return bytes;
    }
};

std::vector<RankShare> shares(RunConfig config)
{
    config.checkpoint.every = 1;
    resolve_and_validate(config);
    std::vector<RankShare> ranks;
    compile_ranks(
        decide(config, Machine{}), {}, [](const Mesh&, i64) { return true; },
        [&](i64, Compiled& compiled) {
            ranks.push_back({compiled.at,
                             saved_values(compiled.programs[train_program], compiled.at, compiled.holders),
                             compiled.memory.snapshot});
            return true;
        });
    return ranks;
}

RunConfig config_of(const tiny::Layout& layout, int model)
{
    static const Folder folder;
    static const tiny::Ground ground(folder.path());
    return ground.config(tiny::model_of(model), Precision::f32, layout, "none");
}

} // namespace

TEST_CASE("on every layout the written parts tile each tensor and match the plan", "[release]")
{
    for (const tiny::Layout& layout : tiny::layouts())
        for (int model = 0; model < 4; ++model) {
            INFO(layout.text() << ", model " << model);
            std::map<std::string, std::vector<Box>> boxes;
            std::map<std::string, Shape> shapes;
            for (const RankShare& rank : shares(config_of(layout, model))) {
                for (const SavedValue& value : rank.values) {
                    Box box = value.box;
                    box.offset[0] += value.rows.begin;
                    box.shape[0] = value.rows.size;
                    REQUIRE(is_inside(box, value.whole));
                    if (element_count(box.shape) > 0)
                        boxes[value.name].push_back(box);
                    shapes[value.name] = value.whole;
                }
                CHECK(rank.planned == rank.written());
            }
            for (const auto& [name, shape] : shapes) {
                INFO(name);
                CHECK(tiling_fault(shape, boxes[name]) == "");
            }
        }
}

TEST_CASE("values that all data ranks hold are divided among them to within a row", "[release]")
{
    for (const i64 zero : {0, 1})
        for (const i64 data : {2, 3, 4, 6})
            for (const i64 tensor : {1, 2}) {
                const std::vector<RankShare> ranks =
                    shares(config_of({data, 1, tensor, zero, "1f1b", true, 1}, 0));
                for (i64 t = 0; t < tensor; ++t) {
                    Bytes least = std::numeric_limits<Bytes>::max(), most = 0, row = 0;
                    for (const RankShare& rank : ranks)
                        if (rank.at[2] == t) {
                            least = std::min(least, rank.written());
                            most = std::max(most, rank.written());
                            for (const SavedValue& value : rank.values)
                                row = std::max(row, value.row_bytes);
                        }
                    INFO("zero " << zero << ", data " << data << ", tensor " << t << " of " << tensor << ": "
                                 << least << " to " << most << ", row " << row);
                    // ZeRO's shards of the moments differ by up to one row per tensor.
                    CHECK(most - least <= (zero == 0 ? 2 * row : most / 4));
                    CHECK(least > 0);
                }
            }
}

TEST_CASE("the first and the last stage, which both hold a tied embedding, share its writing")
{
    const std::vector<RankShare> ranks = shares(config_of({1, 3, 1, 0, "1f1b", true, 1}, 2)); // llama, tied
    std::vector<Bytes> written;
    for (const RankShare& rank : ranks) {
        Bytes bytes = 0;
        for (const SavedValue& value : rank.values)
            bytes += value.name.find("embed.weight") != std::string::npos ? value.written() : 0;
        written.push_back(bytes);
    }
    REQUIRE(written.size() == 3);
    CHECK(written[0] > 0);
    CHECK(written[1] == 0);
    CHECK(written[2] > 0);
}

TEST_CASE("a run with products of joined weights resumes from a checkpoint of one without, and conversely")
{
    const Folder folder;
    const tiny::Ground ground(folder.path());
    for (const Family family : {Family::llama, Family::gpt2}) {
        std::vector<double> later;
        for (const bool resumes : {false, true})
            for (const bool on : {true, false}) {
                const auto name = [&](bool grouped, bool resumed) {
                    return std::string(name_of(family)) + (grouped ? "-on" : "-off") + (resumed ? "-2" : "");
                };
                RunConfig c = ground.config({family, false}, Precision::f32, {}, name(on, resumes));
                c.model.heads = 4;
                c.model.kv_heads = family == Family::llama ? 2 : 4;
                c.model.dim = 32;
                c.model.ffn_dim = 24;
                c.parallel.group = on;
                c.checkpoint.every = 4;
                if (resumes)
                    c.checkpoint.resume = ground.path(name(!on, false)) + "/" + checkpoint_name(4);
                const std::vector<double> losses = tiny::train(c, 5);
                REQUIRE(losses.size() == 4);
                INFO(name(on, resumes));
                if (later.empty())
                    later = losses;
                for (std::size_t i = 0; i < losses.size(); ++i)
                    CHECK(std::abs(losses[i] - later[i]) <= 1e-6 * later[i]);
            }
    }
}
