// Answers with completions: to JSON.
#include "serve/completions.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

/// The four lists of a completion's logprobs.
class LogprobLists {
public:
    LogprobLists(const TokenTexts& texts, i64 alternatives, i64 offset)
        : texts_(texts), alternatives_(alternatives), offset_(offset)
    {
    }

    /// `text`: what the token adds to the text.
    void add(const TokenScore& score, std::string_view text)
    {
        tokens_.push_back(texts_.label(score.token));
        logprobs_.push_back(number_or_null(score.logprob));
        tops_.push_back(std::isfinite(score.logprob) ? top_of(score) : Json());
        offsets_.push_back(offset_);
        offset_ += characters_of(text);
    }
    Json json() const
    {
        return {{"tokens", tokens_},
                {"token_logprobs", logprobs_},
                {"top_logprobs", tops_},
                {"text_offset", offsets_}};
    }

private:
    /// The most probable tokens, and the one that is there. Of tokens with the same name, the most probable.
    Json top_of(const TokenScore& score) const
    {
        Json top = Json::object();
        const auto add = [&](i32 token, double logprob) {
            const auto [at, is_new] = top.emplace(texts_.label(token), logprob);
            if (!is_new && at->get<double>() < logprob)
                *at = logprob;
        };
        for (std::size_t i = 0; i < std::min(score.top.size(), static_cast<std::size_t>(alternatives_)); ++i)
            add(score.top[i].first, score.top[i].second);
        add(score.token, score.logprob);
        return top;
    }

    const TokenTexts& texts_;
    i64 alternatives_, offset_;
    Json tokens_ = Json::array(), logprobs_ = Json::array(), tops_ = Json::array(), offsets_ = Json::array();
};

/// As the first token of a text, which may lose its space.
std::string first_text(const TokenTexts& texts, i32 id)
{
    return texts.tokenizer().decode(std::span<const i32>(&id, 1));
}

Json of_chat_token(const TokenTexts& texts, i32 token, double logprob)
{
    Json bytes = Json::array();
    for (const char byte : texts.piece(token))
        bytes.push_back(static_cast<unsigned char>(byte));
    return {{"token", texts.label(token)}, {"logprob", number_or_null(logprob)}, {"bytes", bytes}};
}

Json of_chat_score(const TokenTexts& texts, const TokenScore& score, i64 alternatives)
{
    Json json = of_chat_token(texts, score.token, score.logprob);
    json["top_logprobs"] = Json::array();
    for (std::size_t i = 0; i < std::min(score.top.size(), static_cast<std::size_t>(alternatives)); ++i)
        json["top_logprobs"].push_back(of_chat_token(texts, score.top[i].first, score.top[i].second));
    return json;
}

Json logprobs_of(const CompletionRequest& request, const std::vector<TokenScore>& prompt,
                 const TextResult& result, const TokenTexts& texts)
{
    if (request.logprobs < 0)
        return {};
    if (request.is_chat) {
        Json content = Json::array();
        for (const TokenScore& score : result.sampled)
            content.push_back(of_chat_score(texts, score, request.logprobs));
        return {{"content", content}};
    }
    LogprobLists lists(texts, request.logprobs, 0);
    if (request.echo)
        for (std::size_t i = 0; i < prompt.size(); ++i)
            lists.add(prompt[i], i == 0 ? first_text(texts, prompt[i].token) : texts.piece(prompt[i].token));
    for (const TokenScore& score : result.sampled)
        lists.add(score, texts.piece(score.token));
    return lists.json();
}

Json usage_of(const CompletionRequest& request, const std::vector<TextResult>& results)
{
    std::size_t prompt = 0, completion = 0;
    for (const ServedPrompt& each : request.prompts)
        prompt += each.ids.size();
    for (const TextResult& result : results)
        completion += result.sampled.size();
    return {
        {"prompt_tokens", prompt}, {"completion_tokens", completion}, {"total_tokens", prompt + completion}};
}

Json head_of(const CompletionRequest& request, const AnswerHead& head, const ServedModel& model,
             bool in_parts)
{
    const char* const object = !request.is_chat ? "text_completion"
                               : in_parts       ? "chat.completion.chunk"
                                                : "chat.completion";
    return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", model.id}};
}

const ServedPrompt& prompt_of(const CompletionRequest& request, std::size_t index)
{
    return request.prompts.at(index / static_cast<std::size_t>(request.n));
}

} // namespace

Json answer_of(const CompletionRequest& request, const AnswerHead& head,
               const std::vector<TextResult>& results, const ServedModel& model)
{
    Json answer = head_of(request, head, model, false);
    Json& choices = answer["choices"] = Json::array();
    for (std::size_t i = 0; i < results.size(); ++i) {
        const TextResult& result = results[i];
        const TextResult& scored = results[i - i % static_cast<std::size_t>(request.n)];
        Json choice{{"index", i}};
        if (request.is_chat)
            choice["message"] = {{"role", "assistant"}, {"content", result.text}};
        else
            choice["text"] = request.echo ? prompt_of(request, i).text + result.text : result.text;
        choice["logprobs"] = logprobs_of(request, scored.prompt, result, *model.texts);
        choice["finish_reason"] = result.finish;
        choices.push_back(std::move(choice));
    }
    answer["usage"] = usage_of(request, results);
    return answer;
}

StreamedAnswer::StreamedAnswer(const CompletionRequest& request, AnswerHead head, const ServedModel& model)
    : request_(request), head_(std::move(head)), model_(model),
      offsets_(static_cast<std::size_t>(request.sequences()))
{
}

Json StreamedAnswer::part(Json choices) const
{
    Json json = head_of(request_, head_, model_, true);
    json["choices"] = std::move(choices);
    return json;
}

Json StreamedAnswer::begin(std::size_t index)
{
    Json choice{{"index", index}};
    if (request_.is_chat) {
        choice["delta"] = {{"role", "assistant"}, {"content", ""}};
    } else if (request_.echo) {
        choice["text"] = prompt_of(request_, index).text;
        offsets_.at(index) += characters_of(prompt_of(request_, index).text);
    } else
        return {};
    choice["logprobs"] = choice["finish_reason"] = nullptr;
    return part(Json::array({choice}));
}

Json StreamedAnswer::token(std::size_t index, const TokenScore& score, std::string_view text)
{
    Json choice{{"index", index}};
    Json logprobs;
    if (request_.logprobs >= 0 && request_.is_chat) {
        logprobs = {{"content", Json::array({of_chat_score(*model_.texts, score, request_.logprobs)})}};
    } else if (request_.logprobs >= 0) {
        LogprobLists lists(*model_.texts, request_.logprobs, offsets_.at(index));
        lists.add(score, model_.texts->piece(score.token));
        logprobs = lists.json();
    }
    offsets_.at(index) += characters_of(model_.texts->piece(score.token));
    if (request_.is_chat)
        choice["delta"] = {{"content", text}};
    else
        choice["text"] = text;
    choice["logprobs"] = std::move(logprobs);
    choice["finish_reason"] = nullptr;
    return part(Json::array({choice}));
}

Json StreamedAnswer::end(std::size_t index, const std::string& finish)
{
    Json choice{{"index", index}};
    if (request_.is_chat)
        choice["delta"] = Json::object();
    else
        choice["text"] = "";
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = finish;
    return part(Json::array({choice}));
}

Json StreamedAnswer::usage(const std::vector<TextResult>& results)
{
    Json json = part(Json::array());
    json["usage"] = usage_of(request_, results);
    return json;
}

} // namespace trivium
