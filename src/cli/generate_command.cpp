// `trivium generate`.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "cli/config_arguments.hpp"
#include "cli/text/chat_prompt.hpp"
#include "cli/text/prompts.hpp"
#include "cli/text/text_output.hpp"
#include "mpi/records.hpp"
#include "train/data/inputs.hpp"
#include "train/text_model.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace trivium {

namespace {

struct GenerateArguments {
    ConfigArguments config;
    std::string checkpoint, prompt, prompts, output;
    std::vector<std::string> stop;
    i64 tokens = 128, samples = 1, logprobs = -1, batch = 8;
    SamplerConfig sampler;
    bool average = false, chat = false;

    /// One text, which is printed while it grows.
    bool is_streamed() const
    {
        return prompts.empty() && output.empty() && samples == 1 && logprobs < 0 && !config.json;
    }
};

std::vector<Prompt> texts_of(const GenerateArguments& a, const Tokenizer& tokenizer)
{
    if (!a.prompts.empty() && !a.prompt.empty())
        throw UserError({"--prompts", "cannot be combined with --prompt", "", "leave one of them out"});
    if (!a.prompts.empty())
        return parse_prompts(a.prompts == "-" ? read_stdin() : read_file(a.prompts, "file of prompts"),
                             a.prompts, tokenizer, a.chat);
    if (a.prompt != "-")
        return {prompt_of(a.prompt, tokenizer)};
    std::string text = read_stdin();
    if (text.ends_with('\n'))
        text.pop_back();
    return {prompt_of(text, tokenizer)};
}

/// What the model reads; on rank 0.
std::vector<Prompt> prompts_of(const GenerateArguments& a, const RunConfig& config)
{
    const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of(config.data);
    std::vector<Prompt> prompts = texts_of(a, *tokenizer);
    if (!a.chat)
        return prompts;
    const CheckpointReader checkpoint = open_checkpoint(a.checkpoint, config); // it may have the template
    for (Prompt& prompt : prompts) {
        ChatPrompt chat = chat_prompt(prompt, config, checkpoint.state(), *tokenizer);
        prompt.tokens = std::move(chat.ids);
        prompt.ends.assign(chat.ends.begin(), chat.ends.end());
    }
    return prompts;
}

i64 longest_of(const std::vector<Prompt>& prompts)
{
    i64 longest = 0;
    for (const Prompt& prompt : prompts)
        longest = std::max(longest, static_cast<i64>(prompt.tokens.size()));
    return longest;
}

std::vector<TextRequest> requests_of(const GenerateArguments& a, const std::vector<Prompt>& prompts)
{
    std::vector<TextRequest> requests;
    for (std::size_t prompt = 0; prompt < prompts.size(); ++prompt)
        for (i64 sample = 0; sample < a.samples; ++sample) {
            TextRequest request;
            request.prompt = prompts[prompt].tokens;
            request.tokens = a.tokens;
            request.sampler = a.sampler;
            request.sampler.sample = (static_cast<i64>(prompt) << 32) + sample;
            request.stop = a.stop;
            request.ends = prompts[prompt].ends;
            request.top = a.logprobs;
            requests.push_back(std::move(request));
        }
    return requests;
}

nlohmann::ordered_json result_of(const GenerateArguments& a, const Prompt& prompt, i64 sample,
                                 const TextResult& result, const Tokenizer& tokenizer)
{
    nlohmann::ordered_json line{{"prompt", prompt.given}};
    if (a.samples > 1)
        line["sample"] = sample;
    line["text"] = result.text;
    line["tokens"] = nlohmann::json::array();
    for (const TokenScore& score : result.sampled)
        line["tokens"].push_back(score.token);
    line["finish"] = result.finish;
    if (a.logprobs >= 0)
        for (const TokenScore& score : result.sampled)
            line["logprobs"].push_back({{"token", score.token},
                                        {"text", tokenizer.decode(std::span(&score.token, 1))},
                                        {"logprob", score.logprob},
                                        {"top", score.top}});
    return line;
}

/// On rank 0. Returns the number of sampled tokens.
std::size_t write_results(const GenerateArguments& a, const std::vector<Prompt>& prompts, TextModel& model)
{
    const std::vector<TextRequest> requests = requests_of(a, prompts);
    std::size_t count = 0;
    if (a.is_streamed()) {
        if (!a.chat)
            fmt::print("{}", a.prompt == "-" ? prompts[0].given.get<std::string>() : a.prompt);
        std::fflush(stdout);
        count = model
                    .complete(requests,
                              [](std::size_t, const TokenScore&, std::string_view text) {
                                  fmt::print("{}", text);
                                  std::fflush(stdout);
                              })[0]
                    .sampled.size();
        fmt::print("\n");
        std::fflush(stdout); // before the next lines on stderr
        return count;
    }
    JsonLines out(a.output);
    const auto some = static_cast<std::size_t>(32 * model.rows());
    for (std::size_t first = 0; first < requests.size(); first += some) {
        const std::vector<TextResult> results = model.complete(
            {requests.begin() + static_cast<std::ptrdiff_t>(first),
             requests.begin() + static_cast<std::ptrdiff_t>(std::min(first + some, requests.size()))});
        for (std::size_t i = 0; i < results.size(); ++i) {
            const auto samples = static_cast<std::size_t>(a.samples);
            const i64 sample = static_cast<i64>((first + i) % samples);
            nlohmann::ordered_json line =
                result_of(a, prompts[(first + i) / samples], sample, results[i], model.tokenizer());
            count += results[i].sampled.size();
            if (a.config.json && a.prompts.empty() && a.samples == 1 && a.output.empty()) {
                line["checkpoint"] = model.checkpoint();
                line["arena_bytes"] = model.arena_bytes();
                fmt::print("{}\n", line.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
                std::fflush(stdout);
            } else {
                out.write(line);
            }
        }
    }
    out.close();
    return count;
}

void generate(Comm& world, const GenerateArguments& a)
{
    RunConfig config;
    std::vector<Prompt> prompts; // of rank 0
    succeed_together(world, [&] {
        config = load_config(a.config);
        require_text(config.model);
        if (a.tokens < 1 || a.tokens > 10'000'000)
            throw UserError({"--tokens", str("must be from 1 to 10000000, is ", a.tokens), "",
                             "choose a number in that range"});
        if (std::ranges::find(a.stop, "") != a.stop.end())
            throw UserError({"--stop", "is empty", "every text has it", "leave it out"});
        if (world.rank() == 0)
            prompts = prompts_of(a, config);
    });
    // Rank 0 has the prompts.
    const auto [requests, longest] =
        share_record(world, std::pair(std::ssize(prompts) * a.samples, longest_of(prompts)));
    const i64 total = longest + a.tokens;
    TextModel model(config, world,
                    {a.checkpoint, a.batch, total, false, requests, a.average, "--batch or --tokens"});
    if (world.rank() == 0 && total > config.model.seq)
        log_warning(str("prompt and sample have ", total, " tokens, but the model was trained on ",
                        config.model.seq));
    model.lead([&] {
        const auto begin = std::chrono::steady_clock::now();
        const std::size_t count = write_results(a, prompts, model);
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        log_info(fmt::format("{} in {} ({:.1f} tokens/s)", counted(count, "token"), format_seconds(seconds),
                             static_cast<double>(count) / seconds));
    });
}

} // namespace

void add_generate_command(Command& program)
{
    Command command = program.add("generate", "generate text from prompts");
    auto a = std::make_shared<GenerateArguments>();
    a->config.add_to(command, true);
    command.option("--prompt", a->prompt, "text to continue; - = stdin")
        .option("--prompts", a->prompts,
                "many: JSON lines with `prompt` (a text or a list of ids; with --chat also messages, or "
                "`messages`), or lines "
                "of text; - = stdin",
                {.type = "FILE"})
        .option("-o,--output", a->output,
                "file for the results, as JSON lines (of --prompts: default stdout)")
        .flag("--chat", a->chat,
              "a prompt is what a user says, or messages as JSON: the chat template of the model renders it, "
              "and "
              "the text is the answer")
        .option("--tokens", a->tokens, "maximum number of tokens to sample", {.show_default = true})
        .option("--stop", a->stop, "text that ends a sample, without being part of it; may be repeated",
                {.repeats = true, .type = "TEXT"})
        .option("--n", a->samples, "samples of each prompt", {.show_default = true, .from = 1, .to = 1e6})
        .option(
            "--logprobs", a->logprobs,
            "also the log probability of each token, and of so many of the most likely ones; as JSON lines",
            {.from = 0, .to = 1e6, .type = "K"})
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
        .option("--min-p", a->sampler.min_p,
                "sample among the tokens with at least this part of the most likely one's probability",
                {.from = 0, .to = 1})
        .option("--repetition-penalty", a->sampler.repetition_penalty,
                "divides the positive logits of tokens that are there already, multiplies negative ones",
                {.show_default = true, .from = 1e-3, .to = 1e3})
        .option("--seed", a->sampler.seed, "seed for sampling")
        .option("--batch", a->batch, "sequences that a data rank computes together",
                {.show_default = true, .from = 1, .to = 1e6});
    command.action([=] { return on_all_ranks([&](Comm& world) { generate(world, *a); }); });
}

} // namespace trivium
