#include "cli/data/sample_report.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "cli/config_arguments.hpp"
#include "cli/data/printable.hpp"
#include "train/data/store_samples.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace trivium {

namespace {

struct Shown {
    std::string what; ///< "document", "sample"
    i64 of = 0;       ///< number of them
    std::vector<i32> ids;
    std::vector<bool> trained;
};

void require_number(const std::string& path, const SampleChoice& choice, const Shown& shown)
{
    if (choice.number >= shown.of)
        throw UserError({str("--sample ", choice.number), str("is not in ", path),
                         str("it has ", counted_in_groups(shown.of, shown.what), ", numbered from 0"),
                         "choose a smaller number"});
}

Shown document_of(const TokenStore& store, const SampleChoice& choice)
{
    Shown shown{"document", store.documents(), {}, {}};
    require_number(store.path(), choice, shown);
    const i64 begin = store.document_begin(choice.number), end = store.document_begin(choice.number + 1);
    shown.ids.resize(static_cast<std::size_t>(end - begin));
    store.read(begin, end - begin, shown.ids.data());
    shown.trained.resize(shown.ids.size());
    for (const TokenSpan& span : store.trained(begin, end - begin))
        std::fill(shown.trained.begin() + (span.begin - begin), shown.trained.begin() + (span.end - begin),
                  true);
    return shown;
}

Shown sample_of(TokenStore store, const SampleChoice& choice)
{
    const RunConfig config = load_config({choice.config, {}, false});
    const StoreSamples samples(std::move(store), config.model.seq, config.data);
    Shown shown{"sample", samples.samples(), {}, {}};
    require_number(samples.path(), choice, shown);
    shown.ids = samples.tokens_of(choice.number);
    std::vector<i32> targets(static_cast<std::size_t>(samples.seq()));
    samples.read(SampleInput::targets, choice.number, 0, samples.seq(), targets.data());
    shown.trained.resize(shown.ids.size());
    for (std::size_t at = 1; at < shown.ids.size(); ++at)
        shown.trained[at] = targets[at - 1] >= 0; // the first token is no target
    return shown;
}

void print_json(const std::string& path, const SampleChoice& choice, const Shown& shown,
                const Tokenizer& tokenizer)
{
    nlohmann::ordered_json pieces = nlohmann::ordered_json::array();
    for (const i32 id : shown.ids)
        pieces.push_back(spelled_out(tokenizer, {&id, 1}));
    const nlohmann::ordered_json report{
        {"file", path},
        {shown.what, choice.number},
        {"tokens", shown.ids},
        {"trained", shown.trained},
        {"trained_tokens", std::count(shown.trained.begin(), shown.trained.end(), true)},
        {"pieces", pieces},
        {"text", spelled_out(tokenizer, shown.ids)}};
    std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

} // namespace

void show_sample(TokenStore store, const SampleChoice& choice)
{
    const std::string path = store.path();
    const std::unique_ptr<Tokenizer> tokenizer = store.tokenizer();
    const Shown shown =
        choice.config.empty() ? document_of(store, choice) : sample_of(std::move(store), choice);
    if (choice.json)
        return print_json(path, choice, shown, *tokenizer);
    const char* const no_color = std::getenv("NO_COLOR");
    const bool colours = ::isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == '\0');
    const std::string begin = colours ? "\x1b[1;32m" : "[", end = colours ? "\x1b[0m" : "]";
    std::cout << path << ", " << shown.what << " " << choice.number << " of " << format_count(shown.of)
              << ": " << counted_in_groups(static_cast<i64>(shown.ids.size()), "token") << ", "
              << format_count(std::count(shown.trained.begin(), shown.trained.end(), true)) << " trained ("
              << (colours ? str(begin, "in colour", end) : std::string("[in brackets]")) << ")\n";
    const std::span<const i32> ids(shown.ids);
    for (std::size_t at = 0, next = 0; at < ids.size(); at = next) {
        next = at;
        while (next < ids.size() && shown.trained[next] == shown.trained[at])
            ++next;
        const std::string text = printable(spelled_out(*tokenizer, ids.subspan(at, next - at)));
        std::cout << (shown.trained[at] ? str(begin, text, end) : text);
    }
    std::cout << "\n";
}

} // namespace trivium
