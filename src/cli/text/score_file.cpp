#include "cli/text/score_file.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "cli/text/prompts.hpp"
#include "cli/text/text_output.hpp"
#include "io/files/files.hpp"
#include "io/files/strict_json.hpp"
#include "mpi/records.hpp"
#include "train/data/inputs.hpp"
#include "train/text_model.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// Length of `text` without the white space at its end, as Python's str.rstrip() finds it.
std::size_t stripped(std::string_view text)
{
    static constexpr std::string_view spaces[] = {
        " ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\x1c",   "\x1d",   "\x1e",   "\x1f",
        "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
        "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
    for (bool found = true; found;) {
        found = false;
        for (const std::string_view space : spaces)
            if (text.ends_with(space)) {
                text.remove_suffix(space.size());
                found = true;
            }
    }
    return text.size();
}

ScoredTokens joined(std::vector<i32> context, const std::vector<i32>& continuation)
{
    const auto begin = static_cast<i64>(context.size());
    context.insert(context.end(), continuation.begin(), continuation.end());
    return {std::move(context), begin, 0};
}

} // namespace

ScoredTokens tokens_of_pair(std::string context, std::string continuation, const Tokenizer& tokenizer)
{
    if (context.empty())
        return joined({tokenizer.eos()}, tokenizer.encode(continuation));
    const std::size_t end = stripped(context);
    continuation = context.substr(end) + continuation;
    context.resize(end);
    const auto begin = static_cast<i64>(tokenizer.encode(context).size());
    ScoredTokens pair{tokenizer.encode(context + continuation), begin, 0};
    if (begin == 0) { // only white space
        pair.tokens.insert(pair.tokens.begin(), tokenizer.eos());
        pair.continuation = 1;
    }
    return pair;
}

std::vector<ScoredTokens> parse_pairs(std::string_view text, const std::string& place,
                                      const Tokenizer& tokenizer, i64 most)
{
    std::vector<ScoredTokens> pairs;
    for (const auto& [number, line] : lines_of(text)) {
        const std::string here = str(place, ":", number);
        const ChatJson object = parse_ordered_json(line, here, 16, "correct this line");
        if (!object.is_object())
            throw UserError({here, str("is ", shown(object)), "",
                             "give an object with `context` and `continuation` on each line"});
        const std::vector<i32> context = tokens_of_key(object, "context", here, tokenizer),
                               continuation = tokens_of_key(object, "continuation", here, tokenizer);
        const bool texts = object["context"].is_string();
        if (texts != object["continuation"].is_string())
            throw UserError({here, "has a text and a list of ids", "", "give two texts or two lists"});
        ScoredTokens pair =
            texts ? tokens_of_pair(object["context"], object["continuation"], tokenizer)
                  : joined(context.empty() ? std::vector<i32>{tokenizer.eos()} : context, continuation);
        const i64 count = static_cast<i64>(pair.tokens.size()) - pair.continuation;
        if (count <= 0)
            throw UserError({here, "the continuation has no tokens", "", "give a longer one"});
        if (count > most)
            throw UserError({here, str("the continuation has ", counted(count, "token")),
                             str("the model takes ", most, " (model.seq)"), "score it in parts"});
        pair.left_out = std::max<i64>(0, static_cast<i64>(pair.tokens.size()) - (most + 1));
        pair.tokens.erase(pair.tokens.begin(), pair.tokens.begin() + pair.left_out);
        pair.continuation -= pair.left_out;
        pairs.push_back(std::move(pair));
    }
    if (pairs.empty())
        throw UserError(
            {place, "has no lines", "", "give an object with `context` and `continuation` on each"});
    return pairs;
}

void score_file(Comm& world, const RunConfig& config, const ScoreFile& file)
{
    std::vector<ScoredTokens> pairs;
    succeed_together(world, [&] {
        if (world.rank() == 0)
            pairs = parse_pairs(file.input == "-" ? read_stdin()
                                                  : read_file(file.input, "file of texts to score"),
                                file.input, *tokenizer_of(config.data), config.model.seq);
    });
    i64 longest = 1, cut = 0;
    for (const ScoredTokens& pair : pairs) {
        longest = std::max(longest, static_cast<i64>(pair.tokens.size()) - 1);
        cut += pair.left_out > 0 ? 1 : 0;
    }
    const auto [count, capacity] =
        share_record(world, std::pair(std::ssize(pairs), longest)); // rank 0 has them
    TextModel model(config, world, {file.checkpoint, file.batch, capacity, true, count, file.average});
    if (cut > 0)
        log_warning(str(counted(cut, "line"), cut == 1 ? " is" : " are", " longer than model.seq = ",
                        config.model.seq, ": the begin of the context is left out"));
    model.lead([&] {
        JsonLines out(file.output);
        const auto some = static_cast<std::size_t>(32 * model.rows());
        for (std::size_t first = 0; first < pairs.size(); first += some) {
            std::vector<TextRequest> requests;
            for (std::size_t i = first; i < std::min(first + some, pairs.size()); ++i) {
                requests.emplace_back();
                requests.back().prompt = pairs[i].tokens;
                requests.back().top = 1;
                requests.back().scored_from = pairs[i].continuation;
            }
            const std::vector<TextResult> results = model.complete(requests);
            for (std::size_t i = 0; i < results.size(); ++i) {
                double sum = 0;
                bool is_greedy = true;
                for (const TokenScore& score : results[i].prompt) {
                    sum += score.logprob;
                    is_greedy = is_greedy && score.logprob == score.top[0].second;
                }
                nlohmann::ordered_json line{
                    {"logprob", sum}, {"is_greedy", is_greedy}, {"tokens", results[i].prompt.size()}};
                if (const i64 left_out = pairs[first + i].left_out; left_out > 0)
                    line["left_out"] = left_out;
                out.write(line);
            }
        }
        out.close();
    });
}

} // namespace trivium
