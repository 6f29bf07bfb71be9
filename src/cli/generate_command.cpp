// `trivium generate`.
#include "base/check.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "cli/config_arguments.hpp"
#include "compile/threads.hpp"
#include "io/tokens/tokenizer.hpp"
#include "train/generator.hpp"
#include "train/inputs.hpp"
#include "train/sampler.hpp"
#include "train/state.hpp"
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
};

/// How much of `text` ends on a whole UTF-8 character.
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
    if (a.tokens < 1 || a.tokens > 10'000'000)
        throw UserError({"--tokens", str("must be from 1 to 10000000, is ", a.tokens), "",
                         "give a number in that range"});
    const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of(config.data);
    const CheckpointReader checkpoint = open_checkpoint(a.checkpoint, config.checkpoint);
    require_same_model(checkpoint, config);
    require_same_tokenizer(checkpoint, tokenizer->fingerprint(), "data.tokenizer");
    std::vector<std::int32_t> ids{tokenizer->eos()}; // documents follow one another behind an eos
    const std::vector<std::int32_t> prompt = tokenizer->encode(a.prompt);
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    const i64 wanted = static_cast<i64>(ids.size()) + a.tokens;
    if (wanted > config.model.seq)
        log_warning(fmt::format("prompt and sample have {} tokens, the model was trained on {}", wanted,
                                config.model.seq));
    if (wanted > config.model.seq && config.model.family == Family::gpt2)
        throw UserError(
            {"--tokens",
             str("prompt and sample need ", wanted, " positions, the model has ", config.model.seq),
             "gpt2 has learned positions", "ask for fewer tokens or give a shorter prompt"});

    const int threads = thread_count(config.parallel, thread_limit());
    const Computing computing(threads);
    GenerationShape shape;
    shape.prefill = std::min<i64>(64, wanted);
    shape.capacity = round_up(wanted, shape.prefill);
    Engine engine(compile_generation(config, shape, {machine_of(computing), {}, 0}), {.threads = threads});
    engine.initialise(0, Role::constant);
    engine.initialise(0, Role::state);
    restore_parameters(checkpoint, engine.program(prefill_program), engine.arena());

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
    std::fflush(stdout); // before what follows on stderr
    log_info(fmt::format("{} tokens in {} ({:.1f} tokens/s)", sampled.size(), format_seconds(seconds),
                         static_cast<double>(sampled.size()) / seconds));
    return 0;
}

} // namespace

void add_generate_command(Command& program)
{
    Command command = program.add("generate", "text from a prompt");
    auto a = std::make_shared<GenerateArguments>();
    a->config.add_to(command, true);
    command.option("--prompt", a->prompt, "text to go on from")
        .option("--tokens", a->tokens, "most tokens to sample", {.show_default = true})
        .option("--checkpoint", a->checkpoint, "a checkpoint (default: the run's newest good one)")
        .option("--temperature", a->sampler.temperature, "0 = always the likeliest token",
                {.show_default = true, .from = 0, .to = 1e6})
        .option("--top-k", a->sampler.top_k, "sample among the k likeliest; 0 = all", {.from = 0, .to = 1e9})
        .option("--top-p", a->sampler.top_p, "sample among the likeliest that reach this probability",
                {.show_default = true, .from = 0, .to = 1})
        .option("--seed", a->sampler.seed, "seed of the sampling");
    command.action([=] { return on_first_rank([&] { return generate(*a); }); });
}

} // namespace trivium
