#include "serve/api.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "io/files/strict_json.hpp"

#include <array>
#include <ctime>
#include <random>
#include <sstream>

namespace trivium {

namespace {

using Json = nlohmann::ordered_json;

struct Endpoint {
    const char *method, *path;
};
constexpr std::array<Endpoint, 7> endpoints{{{"GET", "/health"},
                                             {"GET", "/v1/models"},
                                             {"POST", "/v1/completions"},
                                             {"POST", "/v1/chat/completions"},
                                             {"GET", "/tokenizer_info"},
                                             {"POST", "/tokenize"},
                                             {"POST", "/detokenize"}}};

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

HttpReply reply(const Json& json) { return {200, dump(json)}; }

HttpReply reply(const ApiError& error)
{
    HttpReply reply{error.status(), dump(json_of(error))};
    if (error.status() == 429 || error.status() == 503)
        reply.retry_after = 1;
    return reply;
}

/// In a time that does not depend on where they differ.
bool are_equal(std::string_view a, std::string_view b)
{
    unsigned char difference = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < a.size(); ++i)
        difference = static_cast<unsigned char>(difference | (a[i] ^ (b.empty() ? '\0' : b[i % b.size()])));
    return difference == 0;
}

u64 random_number()
{
    static thread_local std::mt19937_64 random{std::random_device{}()};
    return random();
}

AnswerHead new_head(bool is_chat)
{
    std::ostringstream id;
    id << (is_chat ? "chatcmpl-" : "cmpl-") << std::hex << random_number() << random_number();
    return {id.str(), static_cast<std::int64_t>(std::time(nullptr))};
}

Json parse_body(const std::string& body)
{
    constexpr int depth = 64; // schemas of tools
    try {
        return parse_ordered_json(body, "the body", depth, "");
    } catch (const UserError& error) {
        throw ApiError(400, one_line(error));
    }
}

Json models(const ServedModel& model)
{
    const Json each{
        {"id", model.id},   {"object", "model"},  {"created", model.created},       {"owned_by", "trivium"},
        {"root", model.id}, {"step", model.step}, {"max_model_len", model.capacity}};
    return {{"object", "list"}, {"data", Json::array({each})}};
}

/// As in vLLM: also of messages.
Json tokenize(const Json& body, const ServedModel& model)
{
    const JsonFields fields(body);
    std::vector<i32> ids;
    if (fields.find("messages")) {
        ids = parse_chat(body, model, 0).prompts[0].ids;
    } else {
        const Json* prompt = fields.find("prompt");
        if (!prompt || !prompt->is_string())
            throw ApiError(400, "prompt must be a string", "prompt");
        try {
            ids = model.texts->encode(prompt->get_ref<const std::string&>(),
                                      fields.flag("add_special_tokens", true));
        } catch (const UserError& error) {
            throw ApiError(400, str("the prompt cannot be tokenized: ", one_line(error)), "prompt");
        }
    }
    Json labels;
    if (fields.flag("return_token_strs", false)) {
        labels = Json::array();
        for (const i32 id : ids)
            labels.push_back(model.texts->label(id));
    }
    return {
        {"count", ids.size()}, {"max_model_len", model.capacity}, {"tokens", ids}, {"token_strs", labels}};
}

Json detokenize(const Json& body, const ServedModel& model)
{
    const JsonFields fields(body);
    if (!fields.find("tokens"))
        throw ApiError(400, "tokens is missing", "tokens");
    return {{"prompt", model.texts->decode(fields.ids("tokens", model.tokenizer->vocab_size()), true)}};
}

/// Sends the events of a job while they come.
void stream_events(TextJob& job, const CompletionRequest& request, const ServedModel& model,
                   const IsOpen& is_there, const SendText& send)
{
    const auto event = [&](const Json& json) {
        return json.is_null() || send(str("data: ", dump(json), "\n\n"));
    };
    StreamedAnswer answer(request, new_head(request.is_chat), model);
    bool is_open = true;
    try {
        for (std::size_t i = 0; i < job.requests().size(); ++i)
            is_open = is_open && event(answer.begin(i));
        while (const std::optional<TextJob::Token> token = job.next(is_there)) {
            if (!(is_open = is_open && event(answer.token(token->index, token->score, token->text))))
                job.leave();
        }
        const std::vector<TextResult> results = job.results();
        for (std::size_t i = 0; i < results.size(); ++i)
            is_open = is_open && event(answer.end(i, results[i].finish));
        if (is_open && request.include_usage)
            is_open = event(answer.usage(results));
        if (is_open)
            send("data: [DONE]\n\n");
    } catch (const ApiError& error) { // the status is sent already
        if (is_open)
            send(str("data: ", dump(json_of(error)), "\n\n"));
    }
}

} // namespace

void Api::serve(std::shared_ptr<const ServedModel> model)
{
    const std::lock_guard lock(mutex_);
    model_ = std::move(model);
}

std::shared_ptr<const ServedModel> Api::model() const
{
    const std::lock_guard lock(mutex_);
    return model_;
}

HttpReply Api::error(int status, const std::string& message) { return reply(ApiError(status, message)); }

std::optional<HttpReply> Api::refuse(const HttpRequest& request) const
{
    const std::string method = request.method == "HEAD" ? "GET" : request.method;
    std::string methods;
    bool is_known = false;
    for (const Endpoint& endpoint : endpoints)
        if (request.path == endpoint.path) {
            is_known = is_known || method == endpoint.method;
            methods = endpoint.method;
        }
    const bool is_open = is_known && request.path == "/health"; // for those who only look whether it runs
    constexpr std::string_view scheme = "Bearer ";
    if (!token_.empty() && !is_open &&
        !(std::string_view(request.authorization).starts_with(scheme) &&
          are_equal(std::string_view(request.authorization).substr(scheme.size()), token_)))
        return error(401, request.authorization.empty()
                              ? "a token is required: send the header \"Authorization: Bearer TOKEN\""
                              : "the token is wrong");
    if (methods.empty())
        return error(404, str("there is no endpoint ", in_quotes(request.path),
                              "; there are /v1/completions, "
                              "/v1/chat/completions, /v1/models, /health, /tokenize, /detokenize "
                              "and /tokenizer_info"));
    if (!is_known)
        return error(405, str(request.path, " takes the method ", methods));
    if (queue_.is_closed())
        return error(503, "the server is stopping");
    if (!model())
        return error(503, "the model is being loaded");
    return {};
}

HttpReply Api::answer(const HttpRequest& request)
{
    try {
        const std::shared_ptr<const ServedModel> served = model();
        if (request.path == "/health")
            return reply({{"status", "ok"},
                          {"model", served->id},
                          {"step", served->step},
                          {"requests", queue_.size()}});
        if (request.path == "/v1/models")
            return reply(models(*served));
        if (request.path == "/tokenizer_info")
            return reply(served->tokenizer_info);
        if (request.path == "/tokenize")
            return reply(tokenize(parse_body(request.body), *served));
        if (request.path == "/detokenize")
            return reply(detokenize(parse_body(request.body), *served));
        return complete(request, request.path == "/v1/chat/completions");
    } catch (const ApiError& e) {
        return reply(e);
    } catch (const std::exception& e) {
        log_warning(str("a request to ", request.path, " failed: ", e.what()));
        return error(500, "the server failed; its log has the reason");
    }
}

HttpReply Api::complete(const HttpRequest& request, bool is_chat)
{
    const std::shared_ptr<const ServedModel> served = model();
    const Json body = parse_body(request.body);
    const auto parsed =
        std::make_shared<const CompletionRequest>(is_chat ? parse_chat(body, *served, random_number())
                                                          : parse_completion(body, *served, random_number()));
    const auto job = std::make_shared<TextJob>(text_requests(*parsed), parsed->stream);
    queue_.submit(job);
    job->wait_begin(request.is_open);
    if (!parsed->stream)
        return reply(answer_of(*parsed, new_head(is_chat), job->results(request.is_open), *served));
    HttpReply answer;
    answer.type = "text/event-stream";
    answer.stream = [job, parsed, served, is_there = request.is_open](const SendText& send) {
        stream_events(*job, *parsed, *served, is_there, send);
    };
    return answer;
}

} // namespace trivium
