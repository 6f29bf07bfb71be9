// Runs with adapters or frozen parameters: they begin from a checkpoint, save, and resume on other grids bit
// for bit; other adapters are refused.
#include "base/bf16.hpp"
#include "base/check.hpp"
#include "catch.hpp"
#include "config/trained_parameters.hpp"
#include "has.hpp"
#include "io/temporary_folder.hpp"
#include "train/tiny_run.hpp"

#include <cstring>

using namespace trivium;
using namespace trivium::tiny;

namespace {

RunConfig with_lora(RunConfig config, const std::string& base)
{
    config.train.lora.rank = 3;
    config.train.lora.dropout = 0.1;
    config.train.lora.train = {"final_norm.*"};
    config.train.init_from = base;
    config.train.steps = 4;
    return config;
}

/// Whether two checkpoints' values of a parameter are the same, the first perhaps rounded to bf16.
bool same_values(const Content& a, const Content& b, const std::string& name, bool rounded)
{
    const std::vector<std::byte>&x = a.tensors.at("param/" + name), &y = b.tensors.at("param/" + name);
    if (x.size() != y.size())
        return false;
    for (std::size_t at = 0; at < x.size(); at += sizeof(float)) {
        float of_a = 0, of_b = 0;
        std::memcpy(&of_a, x.data() + at, sizeof of_a);
        std::memcpy(&of_b, y.data() + at, sizeof of_b);
        if (of_a != (rounded ? static_cast<float>(bf16(of_b)) : of_b))
            return false;
    }
    return true;
}

} // namespace

TEST_CASE("a run with adapters begins from weights, keeps them, and resumes on any grid bit for bit")
{
    const TemporaryFolder folder;
    const Ground ground(folder.path());
    RunConfig base = ground.config({Family::llama, false}, Precision::f32, layouts()[0], "base");
    base.train.steps = 1;
    train(base);
    const std::string weights = base.checkpoint.dir;
    const Content before = content(weights + "/" + checkpoint_name(1));
    for (const Precision precision : {Precision::f32, Precision::bf16})
        for (const bool magnitudes : {precision == Precision::bf16}) {
            if (contracts_on && !magnitudes) // sanitizers take their time
                continue;
            INFO(name_of(precision) << (magnitudes ? ", magnitudes" : ""));
            const std::string name = str(name_of(precision), magnitudes);
            RunConfig run =
                with_lora(ground.config({Family::llama, false}, precision, layouts()[8], name), weights);
            run.train.lora.magnitudes = magnitudes;
            train(run);
            const std::string path = run.checkpoint.dir + "/" + checkpoint_name(4);
            const Content saved = content(path);
            const TrainedParameters trained = trained_parameters(run);
            std::size_t adapters = 0;
            for (const auto& [tensor, bytes] : saved.tensors) {
                const std::string parameter = tensor.substr(tensor.find('/') + 1);
                adapters += tensor.starts_with("param/") && is_of_adapter(parameter);
                if (!tensor.starts_with("param/"))
                    CHECK(!trained.is_frozen(parameter)); // no moments
                else if (trained.is_frozen(parameter))
                    CHECK(same_values(saved, before, parameter, precision == Precision::bf16));
            }
            CHECK(adapters == 5u * 7 * (magnitudes ? 3 : 2));
            for (const std::size_t to : {5, 10}) {
                if (contracts_on && to == 5)
                    continue;
                RunConfig again = with_lora(
                    ground.config({Family::llama, false}, precision, layouts()[to], str(name, "-", to)),
                    weights);
                again.train.lora.magnitudes = magnitudes;
                again.train.steps = 8;
                again.checkpoint.resume = path;
                INFO(layouts()[to].text());
                train(standing_still(again));
                CHECK(difference(content(again.checkpoint.dir + "/" + checkpoint_name(5)), saved) == "");
            }
        }
}

TEST_CASE("a resumed run has the adapters of its checkpoint, and trains nothing that was frozen")
{
    const TemporaryFolder folder;
    const Ground ground(folder.path());
    const Layout& layout = layouts()[0];
    RunConfig base = ground.config({Family::gpt2, true}, Precision::f32, layout, "base");
    base.train.steps = 1;
    train(base);
    RunConfig run =
        with_lora(ground.config({Family::gpt2, true}, Precision::f32, layout, "run"), base.checkpoint.dir);
    train(run);
    run.train.steps = 5;
    const auto message = [&](const auto& change) {
        RunConfig other = run;
        change(other);
        return message_of<UserError>([&] { train(other); });
    };
    CHECK(
        has(message([](RunConfig& c) { c.train.lora.rank = 4; }), "was trained with train.lora = {rank = 3"));
    CHECK(has(message([](RunConfig& c) { c.train.lora.alpha = 7; }), "its adapters have another form"));
    CHECK(has(message([](RunConfig& c) { c.train.lora = {}; }), "an adapter that the config does not have"));
    CHECK(has(message([](RunConfig& c) { c.train.lora.train.push_back("embed.*"); }),
              "was frozen when it was saved"));
    CHECK(
        has(message([&](RunConfig& c) { c.checkpoint.dir = base.checkpoint.dir; }), "which this run trains"));
    // Another run that begins with the adapters of this one.
    const auto begun = [&](const char* name, const auto& change) {
        RunConfig other =
            with_lora(ground.config({Family::gpt2, true}, Precision::f32, layout, name), run.checkpoint.dir);
        change(other.train.lora);
        return message_of<UserError>([&] { train(other); });
    };
    CHECK(has(begun("alpha", [](LoraConfig& c) { c.alpha = 7; }), "its adapters have another form"));
    CHECK(has(begun("rank", [](LoraConfig& c) { c.rank = 4; }), "its adapters have another form"));
    CHECK(has(begun("stable", [](LoraConfig& c) { c.rank_stable = true; }), "set train.lora to that value"));
    CHECK(begun("same", [](LoraConfig& c) { c.alpha = 6; }).empty());
    CHECK(begun("more", [](LoraConfig& c) { c.targets = {"layers.*", "embed.weight"}; }).empty());
    RunConfig frozen = ground.config({Family::gpt2, true}, Precision::f32, layout, "frozen");
    frozen.train.freeze = {"embed.*"};
    frozen.train.steps = 2;
    train(frozen);
    frozen.train.steps = 3;
    frozen.train.freeze.push_back("layers.0.*");
    CHECK_NOTHROW(train(frozen));
    frozen.train.steps = 4;
    frozen.train.freeze = {"layers.0.*"};
    CHECK(has(message_of<UserError>([&] { train(frozen); }), "'embed.weight' was frozen when it was saved"));
}
