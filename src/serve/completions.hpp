#pragma once
// Requests for completions in OpenAI's form, and their answers. Lengths are in tokens.
#include "serve/fields.hpp"
#include "serve/served_model.hpp"
#include "train/text_model.hpp"

namespace trivium {

inline constexpr i64 most_sequences = 1024; ///< of a request: prompts times n
inline constexpr i64 most_alternatives = 100;

struct ServedPrompt {
    std::vector<i32> ids;
    std::string text; ///< as it was given, or what the ids decode to
};

/// A request to /v1/completions or /v1/chat/completions.
struct CompletionRequest {
    bool is_chat = false;
    std::vector<ServedPrompt> prompts; ///< at least one
    i64 n = 1;                         ///< completions of each prompt
    i64 logprobs = -1;                 ///< alternatives of each token; -1: no logprobs
    bool echo = false;                 ///< the prompt is part of the answer
    bool stream = false, include_usage = false;
    TextRequest common{}; ///< all but prompt, sampler.sample and what follows from the above

    i64 sequences() const { return static_cast<i64>(prompts.size()) * n; }
};

/// Throws ApiError if a field is missing, has a wrong type or is out of range, if it is one that would change
/// the result and is not supported, or if a prompt does not fit. Ignores unknown fields, and the name of the
/// model. `seed`: of a request without one.
CompletionRequest parse_completion(const nlohmann::ordered_json& body, const ServedModel& model, u64 seed);
/// The same for messages, with the model's chat template.
CompletionRequest parse_chat(const nlohmann::ordered_json& body, const ServedModel& model, u64 seed);

/// The requests to a TextModel, in the order of the answer's choices: prompt by prompt, n of each.
std::vector<TextRequest> text_requests(const CompletionRequest& request);

/// What is the same in all parts of an answer.
struct AnswerHead {
    std::string id;
    std::int64_t created = 0;
};

/// The answer; `results` are those of text_requests().
nlohmann::ordered_json answer_of(const CompletionRequest& request, const AnswerHead& head,
                                 const std::vector<TextResult>& results, const ServedModel& model);

/// An answer in parts (server-sent events); each part is one JSON object.
class StreamedAnswer {
public:
    /// `request` and `model` must outlive it.
    StreamedAnswer(const CompletionRequest& request, AnswerHead head, const ServedModel& model);

    /// What precedes a choice's tokens: with echo its prompt, in chats the role. Null if nothing does.
    nlohmann::ordered_json begin(std::size_t index);
    /// A sampled token, and the text that it made final.
    nlohmann::ordered_json token(std::size_t index, const TokenScore& score, std::string_view text);
    nlohmann::ordered_json end(std::size_t index, const std::string& finish);
    /// The last part, if it was asked for.
    nlohmann::ordered_json usage(const std::vector<TextResult>& results);

private:
    nlohmann::ordered_json part(nlohmann::ordered_json choices) const;

    const CompletionRequest& request_;
    AnswerHead head_;
    const ServedModel& model_;
    std::vector<i64> offsets_; ///< of each choice: characters of its text so far
};

} // namespace trivium
