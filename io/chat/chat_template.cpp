#include "io/chat/chat_template.hpp"

#include "base/check.hpp"
#include "io/chat/chat_parts.hpp"
#include "io/chat/jinja/operations.hpp"
#include "io/chat/jinja/python_text.hpp"
#include "io/chat/trained_spans.hpp"

#include <algorithm>

namespace trivium {

using jinja::MarkedText;
using jinja::Template;

namespace {

constexpr const char* probe = "Qx7Zprobe"; ///< a text that no template contains
constexpr i64 probe_work = 1'000'000;      ///< steps of the rendering of a few short messages

/// Keys of a message whose texts are part of its header, not its words.
bool is_in_header(std::string_view key)
{
    return key == "role" || key == "name" || key == "tool_call_id" || key == "id" || key == "channel" ||
           key == "recipient";
}

/// A message without keys that are null, with its reasoning under each name, as transformers passes it.
ChatJson normalized(const ChatJson& message, const std::string& place)
{
    if (!message.is_object())
        throw UserError({place, "a message of a chat is not an object", "",
                         "messages are objects with \"role\" and \"content\""});
    ChatJson result = ChatJson::object();
    const ChatJson* reasoning = nullptr;
    for (const char* name : {"reasoning_content", "thinking", "reasoning"})
        if (const auto found = message.find(name);
            reasoning == nullptr && found != message.end() && !found->is_null())
            reasoning = &*found;
    if (reasoning != nullptr && (!message.contains("thinking") || message.at("thinking").is_null()))
        result["thinking"] = *reasoning;
    for (const auto& [key, value] : message.items())
        if (!value.is_null())
            result[key] = value;
    if (reasoning != nullptr)
        result["reasoning_content"] = *reasoning;
    return result;
}

/// `marked`: texts remember the message they came from.
jinja::Value value_of_messages(const ChatJson& messages, bool marked, const std::string& place)
{
    if (!messages.is_array() || messages.empty())
        throw UserError({place, "a chat needs a list of messages, at least one", "", ""});
    std::vector<jinja::Value> values;
    for (const ChatJson& message : messages) {
        const i32 index = marked ? static_cast<i32>(values.size()) : -1;
        std::vector<std::pair<jinja::Value, jinja::Value>> items;
        const ChatJson known = normalized(message, place);
        for (const auto& [key, value] : known.items())
            items.emplace_back(jinja::Value(key), jinja::value_of(value, is_in_header(key) ? -1 : index));
        values.push_back(jinja::make_dict(std::move(items), index));
    }
    return jinja::make_list(std::move(values));
}

MarkedText rendered(const Template& program, const ChatJson& variables, const ChatJson& messages,
                    const ChatOptions& options, bool marked)
{
    jinja::Variables all;
    try {
        const jinja::WorkLimit limit(jinja::default_work);
        all.emplace_back("messages", value_of_messages(messages, marked, program.place()));
        all.emplace_back("tools", jinja::value_of(options.tools));
        for (const ChatJson* more : {&options.variables, &variables})
            for (const auto& [name, value] : more->items())
                all.emplace_back(name, jinja::value_of(value));
    } catch (const jinja::Failure& failure) {
        throw UserError({program.place(), "the chat cannot be rendered: " + failure.problem, "", ""});
    }
    all.emplace_back("documents", jinja::Value());
    all.emplace_back("add_generation_prompt", options.add_generation_prompt);
    return program.render(all, options.now.value_or(std::time(nullptr)));
}

/// What a template prints of a chat with `content`; "" if it fails.
std::string probed(const Template& program, const ChatJson& variables, const ChatJson& messages,
                   ChatOptions options)
{
    try {
        return rendered(program, variables, messages, options, false).text();
    } catch (const UserError&) {
        return {};
    }
}

bool prints(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// Whether a template can read typed parts of a content, or cannot read texts either.
bool takes_parts(const Template& program, const ChatJson& variables)
{
    const auto printed_with = [&](const ChatJson& content) {
        const ChatJson message{{"role", "user"}, {"content", content}};
        return probed(program, variables, ChatJson::array({message}), {});
    };
    const ChatJson part{{"type", "text"}, {"text", probe}};
    const std::string of_parts = printed_with(ChatJson::array({part}));
    if (prints(of_parts, probe))
        return !prints(of_parts, "'type'");
    return !prints(printed_with(probe), probe);
}

/// What a template prints of a call whose argument "k" is the probe.
std::string probed_call(const Template& program, const ChatJson& variables, const ChatJson& arguments)
{
    const ChatJson schema{{"type", "object"},
                          {"properties", {{"k", {{"type", "string"}, {"description", "d"}}}}},
                          {"required", {"k"}}};
    const ChatJson tool{{"type", "function"},
                        {"function", {{"name", "f"}, {"description", "d"}, {"parameters", schema}}}};
    ChatOptions options;
    options.tools = ChatJson::array({tool});
    const ChatJson call{
        {"id", "call00001"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}};
    const ChatJson user{{"role", "user"}, {"content", "x"}};
    const ChatJson assistant{{"role", "assistant"}, {"content", ""}, {"tool_calls", ChatJson::array({call})}};
    const ChatJson result{{"role", "tool"}, {"name", "f"}, {"tool_call_id", "call00001"}, {"content", "x"}};
    return probed(program, variables, ChatJson::array({user, assistant, result}), options);
}

ArgumentForm argument_form(const Template& program, const ChatJson& variables)
{
    const std::string of_object = probed_call(program, variables, {{"k", probe}});
    const std::string of_text = probed_call(program, variables, str("{\"k\": \"", probe, "\"}"));
    const bool takes_objects = prints(of_object, probe) && !prints(of_object, "{'k'");
    const bool takes_texts = prints(of_text, probe) && !prints(of_text, "\\\"k\\\"");
    return takes_objects == takes_texts ? ArgumentForm::any
           : takes_objects              ? ArgumentForm::object
                                        : ArgumentForm::text;
}

/// The texts of typed parts as one.
ChatJson joined_parts(const ChatJson& content, const std::string& place)
{
    std::string text;
    for (const ChatJson& part : content) {
        const bool is_text = part.is_object() && part.value("text", ChatJson()).is_string() &&
                             part.value("type", ChatJson("text")) == ChatJson("text");
        if (!is_text && !part.is_string())
            throw UserError({place,
                             "a message has a part that is not text, which the chat template cannot read", "",
                             "use a template for such parts, or leave this chat out"});
        text += part.is_string() ? part.get<std::string>() : part.at("text").get<std::string>();
    }
    return text;
}

void adapt_arguments(ChatJson& message, ArgumentForm form)
{
    const auto calls = message.find("tool_calls");
    if (form == ArgumentForm::any || calls == message.end() || !calls->is_array())
        return;
    for (ChatJson& call : *calls) {
        if (!call.is_object())
            continue;
        ChatJson& function = call.contains("function") ? call["function"] : call;
        if (!function.is_object() || !function.contains("arguments"))
            continue;
        ChatJson& arguments = function["arguments"];
        if (form == ArgumentForm::object && arguments.is_string()) {
            const ChatJson parsed = ChatJson::parse(arguments.get<std::string>(), nullptr, false);
            if (parsed.is_object())
                arguments = parsed;
        } else if (form == ArgumentForm::text && arguments.is_object()) {
            const jinja::WorkLimit limit(jinja::default_work);
            jinja::TextStyle json_style;
            json_style.json = true;
            arguments = jinja::written(jinja::value_of(arguments), json_style).text();
        }
    }
}

/// Messages as the template needs them.
ChatJson adapted(ChatJson messages, const ChatProgram& program, const std::string& place)
try {
    for (ChatJson& message : messages) {
        if (!message.is_object())
            continue; // which normalized() reports
        if (const auto content = message.find("content");
            !program.parts && content != message.end() && content->is_array())
            *content = joined_parts(*content, place);
        adapt_arguments(message, program.arguments);
    }
    return messages;
} catch (const jinja::Failure& failure) {
    throw UserError({place, "the chat cannot be rendered: " + failure.problem, "", ""});
}

} // namespace

ChatProgram::ChatProgram(const std::string& text, const std::string& place, const ChatJson& variables)
    : source(text), program(text, place), parts(takes_parts(program, variables)),
      arguments(argument_form(program, variables))
{
}

ChatTemplate::ChatTemplate(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

ChatTemplate::ChatTemplate(const std::string& source, const std::string& place, ChatJson variables)
    : ChatTemplate(std::make_shared<const Parts>(std::map<std::string, std::string>{{"default", source}},
                                                 place, std::move(variables)))
{
}

ChatTemplate::Parts::Parts(std::map<std::string, std::string> texts, std::string from, ChatJson known)
    : sources(std::move(texts)), variables(std::move(known)), place(std::move(from))
{
    const jinja::WorkCap cap(probe_work);
    for (const auto& [name, source] : sources)
        programs.try_emplace(name, source, name == "default" ? place : str(place, " (", name, ")"),
                             variables);
}

const ChatProgram& ChatTemplate::Parts::program(bool with_tools) const
{
    if (const auto found = programs.find("tool_use"); with_tools && found != programs.end())
        return found->second;
    if (const auto found = programs.find("default"); found != programs.end())
        return found->second;
    std::string names;
    for (const auto& [name, program] : programs)
        names += (names.empty() ? "" : ", ") + name;
    throw UserError({place, "has several chat templates, none of which is named default", "it has: " + names,
                     "name a file that contains one of them"});
}

std::string ChatTemplate::render(const ChatJson& messages, const ChatOptions& options) const
{
    const ChatProgram& program = parts_->program(!options.tools.is_null());
    return rendered(program.program, parts_->variables, adapted(messages, program, parts_->place), options,
                    false)
        .text();
}

ChatText ChatTemplate::render(const Conversation& conversation, const ChatOptions& given) const
{
    ChatOptions options = given;
    if (!conversation.tools.is_null())
        options.tools = conversation.tools;
    options.variables.update(conversation.variables);
    const ChatProgram& program = parts_->program(!options.tools.is_null());
    const std::string place =
        conversation.place.empty() ? parts_->place : str(conversation.place, ", ", parts_->place);
    TRV_CHECK(conversation.trained.size() == conversation.messages.size(), "each message is trained or not");
    const ChatJson messages = adapted(conversation.messages, program, place);
    const auto render_these = [&](const ChatJson& some, bool prompt) {
        ChatOptions these = options;
        these.add_generation_prompt = prompt;
        return rendered(program.program, parts_->variables, some, these, true);
    };
    const auto render_if_possible = [&](const ChatJson& some, bool prompt) -> std::optional<MarkedText> {
        try {
            return render_these(some, prompt);
        } catch (const UserError&) {
            return std::nullopt;
        }
    };
    try {
        const MarkedText text = render_these(messages, false);
        const ChatJson& eos = parts_->variables.value("eos_token", ChatJson(""));
        const jinja::WorkLimit limit(jinja::default_work);
        std::vector<TextSpan> spans =
            trained_spans({text, messages, conversation.trained, program.program.has_generation(),
                           eos.is_string() ? eos.get<std::string>() : "", render_if_possible, place});
        return {text.text(), std::move(spans)};
    } catch (const jinja::Failure& failure) {
        throw UserError({place, failure.problem, "", ""});
    }
}

bool ChatTemplate::has_generation(bool with_tools) const
{
    return parts_->program(with_tools).program.has_generation();
}

const std::string& ChatTemplate::source() const { return parts_->program(false).source; }
const std::map<std::string, std::string>& ChatTemplate::sources() const { return parts_->sources; }
const ChatJson& ChatTemplate::variables() const { return parts_->variables; }
const std::string& ChatTemplate::place() const { return parts_->place; }

} // namespace trivium
