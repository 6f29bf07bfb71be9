// `trivium generate`.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "cli/config_arguments.hpp"
#include "compile/threads.hpp"
#include "io/tokens/tokenizer.hpp"
#include "train/data/inputs.hpp"
#include "train/generator.hpp"
#include "train/sampler.hpp"
#include "train/save/saved_tensors.hpp"
#include "train/this_machine.hpp"

#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

struct GenerateArguments {
    ConfigArguments config;
    std::string checkpoint, prompt;
    i64 tokens = 128;
    SamplerConfig sampler;
    bool average = false;
};

/// Length of the longest prefix of `text` that ends with a complete UTF-8 character.
std::size_t whole_characters(const std::string& text)
{
    std::size_t end = text.size();
    for (std::size_t back = 1; back <= 4 && back <= text.size(); ++back) {
        const auto byte = static_cast<unsigned char>(text[text.size() - back]);
        if (byte < 0x80)
            break;
        if (byte >= 0xC0) {
            const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
            end = length > back ? text.size() - back : text.size();
            break;
        }
    }
    return end;
}

int generate(const GenerateArguments& a)
{
    const RunConfig config = load_config(a.config);
    if (config.model.is_program())
        throw UserError({"model.family", "is \"graph\": a program of the user's own generates no text", "",
                         "evaluate it with `trivium eval`"});
    if (a.tokens < 1 || a.tokens > 10'000'000)
        throw UserError({"--tokens", str("must be from 1 to 10000000, is ", a.tokens), "",
                         "choose a number in that range"});
    const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of(config.data);
    const CheckpointReader checkpoint = open_checkpoint(a.checkpoint, config);
    if (a.average)
        checkpoint.read_averages();
    require_same_model(checkpoint, config);
    require_same_tokenizer(checkpoint, tokenizer->fingerprint(), "data.tokenizer");
    std::vector<std::int32_t> ids{tokenizer->eos()}; // an eos separates documents
    const std::vector<std::int32_t> prompt = tokenizer->encode(a.prompt);
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    const i64 total_tokens = static_cast<i64>(ids.size()) + a.tokens;
    if (total_tokens > config.model.seq)
        log_warning(fmt::format("prompt and sample have {} tokens, but the model was trained on {}",
                                total_tokens, config.model.seq));
    if (total_tokens > config.model.seq && config.model.positions == Positions::learned)
        throw UserError(
            {"--tokens",
             str("prompt and sample need ", total_tokens, " positions, but the model has ", config.model.seq),
             "its positions are learned", "use fewer tokens or a shorter prompt"});

    const int threads = thread_count(config.parallel, thread_limit());
    const Computing computing(threads);
    GenerationShape shape;
    shape.prefill = std::min<i64>(64, total_tokens);
    shape.capacity = round_up(total_tokens, shape.prefill);
    Engine engine(compile_generation(config, shape, {machine_of(computing), {}, 0}), {.threads = threads});
    engine.initialise(0, Role::constant);
    engine.initialise(0, Role::state);
    restore_parameters(checkpoint, engine.program(prefill_program), engine.arenas());

    Generator generator(engine);
    Sampler sampler(a.sampler);
    if (!a.config.json)
        fmt::print("{}", a.prompt);
    std::vector<std::int32_t> sampled;
    std::string text;
    std::size_t printed = 0;
    std::span<const std::int32_t> next = ids;
    const auto begin = std::chrono::steady_clock::now();
    while (static_cast<i64>(sampled.size()) < a.tokens) {
        const std::span<const float> logits = generator.append(next);
        sampled.push_back(sampler.pick(logits, tokenizer->vocab_size()));
        if (sampled.back() == tokenizer->eos())
            break;
        next = std::span<const std::int32_t>(sampled).last(1);
        text = tokenizer->decode(sampled);
        if (const std::size_t whole = whole_characters(text); !a.config.json && whole > printed) {
            fmt::print("{}", text.substr(printed, whole - printed));
            std::fflush(stdout);
            printed = whole;
        }
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (a.config.json)
        fmt::print("{}\n", nlohmann::ordered_json{{"prompt", a.prompt},
                                                  {"text", text},
                                                  {"tokens", sampled},
                                                  {"checkpoint", checkpoint.path()},
                                                  {"arena_bytes", engine.planned()}}
                               .dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
        fmt::print("\n");
    std::fflush(stdout); // before the next lines on stderr
    log_info(fmt::format("{} in {} ({:.1f} tokens/s)", counted(sampled.size(), "token"),
                         format_seconds(seconds), static_cast<double>(sampled.size()) / seconds));
    return 0;
}

} // namespace

void add_generate_command(Command& program)
{
    Command command = program.add("generate", "generate text from a prompt");
    auto a = std::make_shared<GenerateArguments>();
    a->config.add_to(command, true);
    command.option("--prompt", a->prompt, "text to continue")
        .option("--tokens", a->tokens, "maximum number of tokens to sample", {.show_default = true})
        .option("--checkpoint", a->checkpoint,
                "checkpoint, or best (default: the newest good one of the run)")
        .flag("--average", a->average, "use the averaged weights (train.ema)")
        .option("--temperature", a->sampler.temperature,
                "sampling temperature; 0 = always the most likely token",
                {.show_default = true, .from = 0, .to = 1e6})
        .option("--top-k", a->sampler.top_k, "sample among the k most likely tokens; 0 = all",
                {.from = 0, .to = 1e9})
        .option("--top-p", a->sampler.top_p,
                "sample among the most likely tokens that together reach this probability",
                {.show_default = true, .from = 0, .to = 1})
        .option("--seed", a->sampler.seed, "seed for sampling");
    command.action([=] { return on_first_rank([&] { return generate(*a); }); });
}

} // namespace trivium
