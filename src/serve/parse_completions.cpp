// Requests for completions: from JSON.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/files/strict_json.hpp"
#include "serve/completions.hpp"

#include <algorithm>
#include <tuple>

namespace trivium {

namespace {

constexpr i64 default_tokens = 16; ///< OpenAI's
constexpr i64 most_stops = 64;

/// JsonFields of this API, or of other servers, that would change the result.
constexpr std::array unsupported{"suffix",
                                 "logit_bias",
                                 "guided_json",
                                 "guided_regex",
                                 "guided_choice",
                                 "bad_words",
                                 "guided_grammar",
                                 "functions",
                                 "prompt_logprobs",
                                 "audio",
                                 "structured_outputs",
                                 "prompt_embeds",
                                 "truncate_prompt_tokens"};
constexpr std::array unsupported_numbers{"presence_penalty", "frequency_penalty", "min_tokens"};

void refuse_unsupported(const JsonFields& fields, i64 n)
{
    for (const char* name : unsupported)
        fields.refuse_unless(name, "");
    for (const char* name : unsupported_numbers)
        fields.refuse_unless(name, 0);
    fields.refuse_unless("best_of", n);
    fields.refuse_unless("length_penalty", 1);
    fields.refuse_unless("use_beam_search", false);
    fields.refuse_unless("response_format", {{"type", "text"}});
}

/// What the two kinds of requests share; -1: max_tokens is absent.
void parse_common(const JsonFields& fields, const ServedModel& model, u64 seed, CompletionRequest& to)
{
    to.n = fields.integer("n", 1, 1, most_sequences);
    refuse_unsupported(fields, to.n);
    to.stream = fields.flag("stream", false);
    if (const nlohmann::ordered_json* options = fields.find("stream_options"))
        to.include_usage = JsonFields(*options).flag("include_usage", false);

    SamplerConfig& sampler = to.common.sampler;
    sampler.temperature = fields.number("temperature", 1, 0, 1e6);
    sampler.top_p = fields.number("top_p", 1, 0, 1);
    sampler.top_k = std::max<i64>(fields.integer("top_k", 0, -1, 1'000'000'000), 0); // -1: all, as in vLLM
    sampler.min_p = fields.number("min_p", 0, 0, 1);
    sampler.repetition_penalty = fields.number("repetition_penalty", 1, 1e-3, 1e3);
    sampler.seed = seed;
    if (const nlohmann::ordered_json* given = fields.find("seed")) {
        if (!given->is_number_integer())
            throw ApiError(400, str("seed must be an integer, is ", shown(*given)), "seed");
        sampler.seed = given->is_number_unsigned() ? given->get<u64>() : static_cast<u64>(given->get<i64>());
    }

    to.common.stop = fields.texts("stop");
    if (static_cast<i64>(to.common.stop.size()) > most_stops)
        throw ApiError(
            400, str("stop has ", to.common.stop.size(), " strings, at most ", most_stops, " are allowed"),
            "stop");
    if (std::find(to.common.stop.begin(), to.common.stop.end(), "") != to.common.stop.end())
        throw ApiError(400, "stop contains an empty string", "stop");
    to.common.ends = fields.ids("stop_token_ids", model.vocab);
    to.common.ignores_eos = fields.flag("ignore_eos", false);
    const auto add_ends = [&](const std::vector<i32>& ends) {
        to.common.ends.insert(to.common.ends.end(), ends.begin(), ends.end());
    };
    if (!to.common.ignores_eos)
        add_ends(model.ends);
    if (!to.common.ignores_eos && to.is_chat)
        add_ends(model.chat_ends);
}

/// max_tokens, which `names` call so; `fallback` as far as the prompts leave room for it. ApiError if a
/// prompt does not fit.
void parse_length(const JsonFields& fields, std::initializer_list<const char*> names, i64 fallback,
                  const ServedModel& model, CompletionRequest& to)
{
    std::size_t longest = 0;
    for (const ServedPrompt& prompt : to.prompts)
        longest = std::max(longest, prompt.ids.size());
    const i64 room = model.capacity - static_cast<i64>(longest);
    const char* const field = to.is_chat ? "messages" : "prompt";
    if (room < 0)
        throw ApiError(400,
                       str("the prompt has ", counted(static_cast<i64>(longest), "token"),
                           ", but the context has ", model.capacity),
                       field);
    to.common.tokens = std::min(fallback, room);
    for (const char* name : names) {
        if (!fields.find(name))
            continue;
        to.common.tokens = fields.integer(name, 0, 0, 10'000'000);
        if (to.common.tokens > room)
            throw ApiError(400,
                           str("the prompt has ", counted(static_cast<i64>(longest), "token"), " and ", name,
                               " is ", to.common.tokens, ", but the context has ", model.capacity, " tokens"),
                           name);
        return;
    }
    if (room == 0 && fallback > 0 && !to.echo)
        throw ApiError(400,
                       str("the prompt has ", counted(static_cast<i64>(longest), "token"),
                           ", which leaves no room for an answer: the "
                           "context has ",
                           model.capacity),
                       field);
}

ServedPrompt prompt_of_text(std::string text, bool with_first, const ServedModel& model)
{
    ServedPrompt prompt;
    try {
        prompt.ids = model.texts->encode(text, with_first);
    } catch (const UserError& error) { // a byte without a token
        throw ApiError(400, str("the prompt cannot be tokenized: ", one_line(error)), "prompt");
    }
    if (prompt.ids.empty()) // a model needs one; in training, documents follow it
        prompt.ids.push_back(model.tokenizer->eos());
    prompt.text = std::move(text);
    return prompt;
}

ServedPrompt prompt_of_ids(const nlohmann::ordered_json& list, const ServedModel& model)
{
    ServedPrompt prompt{token_ids(list, "prompt", model.vocab), ""};
    if (prompt.ids.empty())
        throw ApiError(400, "prompt has an empty list of token ids: a prompt has at least one", "prompt");
    prompt.text = model.texts->decode(prompt.ids, false);
    return prompt;
}

std::vector<ServedPrompt> parse_prompts(const JsonFields& fields, const ServedModel& model)
{
    const nlohmann::ordered_json* value = fields.find("prompt");
    if (!value)
        throw ApiError(400, "prompt is missing", "prompt");
    const bool with_first = fields.flag("add_special_tokens", true);
    if (value->is_string())
        return {prompt_of_text(value->get<std::string>(), with_first, model)};
    const auto all = [&](auto is) { return std::all_of(value->begin(), value->end(), is); };
    std::vector<ServedPrompt> prompts;
    if (!value->is_array() || value->empty())
        ; // refused below
    else if (all([](const nlohmann::ordered_json& each) { return each.is_number(); }))
        prompts.push_back(prompt_of_ids(*value, model));
    else if (all([](const nlohmann::ordered_json& each) { return each.is_string(); }))
        for (const nlohmann::ordered_json& each : *value)
            prompts.push_back(prompt_of_text(each.get<std::string>(), with_first, model));
    else if (all([](const nlohmann::ordered_json& each) { return each.is_array(); }))
        for (const nlohmann::ordered_json& each : *value)
            prompts.push_back(prompt_of_ids(each, model));
    if (prompts.empty())
        throw ApiError(400,
                       "prompt must be a string, a list of strings, a list of token ids or a list of such "
                       "lists, and not empty",
                       "prompt");
    return prompts;
}

/// Fields of chats alone.
void refuse_unsupported_of_chats(const JsonFields& fields)
{
    for (const char* name : {"chat_template", "reasoning_effort", "mm_processor_kwargs"})
        fields.refuse_unless(name, "");
    for (const char* name : {"continue_final_message", "echo", "add_special_tokens"})
        fields.refuse_unless(name, false);
    fields.refuse_unless("parallel_tool_calls", true);
    fields.refuse_unless("modalities", nlohmann::ordered_json::array({"text"}));
}

/// The messages, tools and variables of a request, checked as records of chats are.
Conversation conversation_of(const JsonFields& fields)
{
    const nlohmann::ordered_json* messages = fields.find("messages");
    if (!messages || !messages->is_array() || messages->empty())
        throw ApiError(400, "messages must be a list of messages, and not empty", "messages");
    for (const nlohmann::ordered_json& message : *messages)
        if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
            throw ApiError(400, str("messages contains ", shown(message), ", which has no role"), "messages");
    ChatJson record{{"messages", *messages}};
    for (const auto& [name, wanted, is_right] :
         {std::tuple("tools", "a list of tools", &ChatJson::is_array),
          std::tuple("documents", "a list of documents", &ChatJson::is_array),
          std::tuple("chat_template_kwargs", "an object", &ChatJson::is_object)})
        if (const nlohmann::ordered_json* value = fields.find(name)) {
            if (!(value->*is_right)())
                throw ApiError(400, str(name, " must be ", wanted, ", is ", shown(*value)), name);
            record[name] = *value;
        }
    if (record.contains("chat_template_kwargs"))
        for (const char* name : {"messages", "tools", "documents", "add_generation_prompt"})
            if (record["chat_template_kwargs"].contains(name))
                throw ApiError(400,
                               str("chat_template_kwargs contains ", name, ", which is a field of its own"),
                               "chat_template_kwargs");
    // The answer is a text: whether a tool is called in it is up to the model.
    const std::string choice = fields.text("tool_choice", "auto");
    if (choice != "auto" && choice != "none")
        throw ApiError(400,
                       str("tool_choice ", in_quotes(choice), " is not supported: it may be auto or none"),
                       "tool_choice");
    if (choice == "none")
        record.erase("tools");
    return conversation_of_json(record, "");
}

std::string rendered_chat(const JsonFields& fields, const ChatTemplate& chat)
{
    refuse_unsupported_of_chats(fields);
    const bool answers = fields.flag("add_generation_prompt", true);
    Conversation conversation;
    try {
        conversation = conversation_of(fields);
    } catch (const UserError& error) {
        throw ApiError(400, str("messages or tools are wrong: ", one_line(error)), "messages");
    }
    try {
        return chat.render(conversation.messages, {.tools = conversation.tools,
                                                   .add_generation_prompt = answers,
                                                   .variables = conversation.variables,
                                                   .now = {}});
    } catch (const UserError& error) {
        throw ApiError(400, str("the chat template refuses the messages: ", one_line(error)), "messages");
    }
}

} // namespace

CompletionRequest parse_completion(const nlohmann::ordered_json& body, const ServedModel& model, u64 seed)
{
    const JsonFields fields(body);
    CompletionRequest request;
    parse_common(fields, model, seed, request);
    request.echo = fields.flag("echo", false);
    request.logprobs = fields.integer("logprobs", -1, 0, most_alternatives);
    if (request.stream && request.echo && request.logprobs >= 0)
        throw ApiError(400, "stream, echo and logprobs do not go together: leave out one of them", "stream");
    request.prompts = parse_prompts(fields, model);
    if (request.sequences() > most_sequences)
        throw ApiError(400,
                       str("the request has ", request.prompts.size(), " prompts with ", request.n,
                           " completions each: more than ", most_sequences, " sequences"),
                       "prompt");
    parse_length(fields, {"max_tokens"}, default_tokens, model, request);
    return request;
}

CompletionRequest parse_chat(const nlohmann::ordered_json& body, const ServedModel& model, u64 seed)
{
    const JsonFields fields(body);
    CompletionRequest request;
    request.is_chat = true;
    if (!model.chat)
        throw ApiError(400, "the model has no chat template: set data.chat_template, or send the text to "
                            "/v1/completions");
    parse_common(fields, model, seed, request);
    const i64 alternatives = fields.integer("top_logprobs", 0, 0, most_alternatives);
    if (fields.flag("logprobs", false))
        request.logprobs = alternatives;
    else if (alternatives > 0)
        throw ApiError(400, "top_logprobs needs logprobs to be true", "top_logprobs");
    std::string text = rendered_chat(fields, *model.chat);
    request.prompts.push_back(prompt_of_text(std::move(text), false, model));
    parse_length(fields, {"max_completion_tokens", "max_tokens"}, model.capacity, model, request);
    return request;
}

std::vector<TextRequest> text_requests(const CompletionRequest& request)
{
    std::vector<TextRequest> requests;
    requests.reserve(static_cast<std::size_t>(request.sequences()));
    for (const ServedPrompt& prompt : request.prompts)
        for (i64 sample = 0; sample < request.n; ++sample) {
            TextRequest each = request.common;
            each.prompt = prompt.ids;
            each.sampler.sample = sample;
            each.top = request.logprobs;
            if (request.echo && request.logprobs >= 0 && sample == 0) // the others have the same
                each.scored_from = 0;
            requests.push_back(std::move(each));
        }
    return requests;
}

} // namespace trivium
