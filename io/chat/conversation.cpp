#include "io/chat/conversation.hpp"

#include "base/check.hpp"
#include "io/files/strict_json.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace trivium {

const char* name_of(ChatForm form)
{
    switch (form) {
    case ChatForm::messages: return "messages";
    case ChatForm::prompt_messages: return "prompt and completion of messages";
    case ChatForm::prompt_text: return "prompt and completion";
    case ChatForm::sharegpt: return "ShareGPT";
    case ChatForm::alpaca: return "Alpaca";
    case ChatForm::text: return "text";
    }
    return "";
}

namespace {

constexpr const char* known_forms =
    "known are: \"messages\" (objects with role and content); \"prompt\" and \"completion\" (texts or lists "
    "of messages); "
    "\"conversations\" (objects with from and value); \"instruction\", \"input\" and \"output\"; \"text\"";

/// Flags of messages that say whether they are trained.
constexpr std::array flag_names{"weight", "train", "training", "trainable"};

class RecordReader {
public:
    RecordReader(const ChatJson& record, const std::string& place) : record_(record)
    {
        result_.place = place;
    }

    Conversation run()
    {
        if (!record_.is_object())
            fail("is not a JSON object", "a record of chats is an object");
        if (has("messages"))
            read_messages(list_in(record_, "messages", ""), true);
        else if (has("conversations") || has("conversation"))
            read_conversations(has("conversations") ? "conversations" : "conversation");
        else if (has("prompt") && has("completion"))
            read_prompt();
        else if (has("instruction") && has("output"))
            read_alpaca();
        else if (has("text"))
            read_text();
        else
            refuse_form();
        read_tools();
        read_variables();
        return std::move(result_);
    }

private:
    bool has(const char* key) const
    {
        const auto found = record_.find(key);
        return found != record_.end() && !found->is_null();
    }
    [[noreturn]] void fail(const std::string& problem, const std::string& reason = "") const
    {
        throw UserError({result_.place, problem, reason, "correct this record, or leave it out"});
    }
    [[noreturn]] void refuse_form() const
    {
        std::string keys;
        for (const auto& [key, value] : record_.items())
            if (keys.size() < 200)
                keys += (keys.empty() ? "" : ", ") + in_quotes(key);
        throw UserError({result_.place, "is not a chat of a known form",
                         str(keys.empty() ? "it has no keys" : "its keys are " + keys, "; ", known_forms),
                         "correct this record, or leave it out; a text in another field is read with --key"});
    }

    const ChatJson& list_in(const ChatJson& object, const char* key, const std::string& where) const
    {
        const ChatJson& list = object.at(key);
        if (!list.is_array())
            fail(str("\"", key, "\" is not a list", where));
        if (list.empty())
            fail(str("\"", key, "\" is empty", where));
        return list;
    }
    /// A text of the record; a missing one or null is "".
    std::string text_in(const char* key, const char* wanted = "not a text") const
    {
        if (!has(key))
            return "";
        const ChatJson& text = record_.at(key);
        if (!text.is_string())
            fail(str("\"", key, "\" is ", wanted));
        return text.get<std::string>();
    }

    static std::string number_of(std::size_t i) { return str("message ", i + 1); }

    /// 0 or 1 where the message has a flag.
    std::optional<bool> flag_of(const ChatJson& message, std::size_t i) const
    {
        for (const char* name : flag_names) {
            const auto found = message.find(name);
            if (found == message.end() || found->is_null())
                continue;
            if (found->is_boolean())
                return found->get<bool>();
            if (found->is_number() && (found->get<double>() == 0 || found->get<double>() == 1))
                return found->get<double>() == 1;
            fail(str(number_of(i), ": \"", name, "\" is neither 0 nor 1"));
        }
        return std::nullopt;
    }

    /// `trains`: whether the assistant's messages are trained, unless a flag says otherwise.
    void add_message(ChatJson message, bool trains)
    {
        const std::size_t i = result_.messages.size();
        const std::optional<bool> flag = flag_of(message, i);
        for (const char* name : flag_names)
            message.erase(name);
        const bool assistant = message["role"] == "assistant";
        if (flag.value_or(false) && !assistant)
            fail(str(number_of(i), " is marked as trained, but its role is ",
                     in_quotes(message["role"].get<std::string>())),
                 "only what the assistant says can be trained");
        result_.trained.push_back(flag.value_or(trains && assistant));
        result_.messages.push_back(std::move(message));
    }

    void read_messages(const ChatJson& list, bool trains)
    {
        for (const ChatJson& message : list) {
            const std::size_t i = result_.messages.size();
            if (!message.is_object())
                fail(number_of(i) + " is not an object",
                     "messages are objects with \"role\" and \"content\"");
            if (message.contains("from") && message.contains("value") && !message.contains("role")) {
                add_message(of_sharegpt(message, i, "from", "value"), trains);
                continue;
            }
            if (message.contains("role") && !message["role"].is_string())
                fail(number_of(i) + ": \"role\" is not a text");
            if (!message.contains("role"))
                fail(number_of(i) + " has no \"role\"", "messages are objects with \"role\" and \"content\"");
            check_content(message, i);
            add_message(message, trains);
        }
    }

    /// `name`: the record's own name of the content.
    void check_content(const ChatJson& message, std::size_t i, const char* name = "content") const
    {
        const ChatJson content = message.value("content", ChatJson());
        const auto calls = message.find("tool_calls");
        if (calls != message.end() && !calls->is_null() && !calls->is_array())
            fail(number_of(i) + ": \"tool_calls\" is not a list");
        if (content.is_null()) {
            const bool says_something = [&] {
                for (const char* key :
                     {"tool_calls", "reasoning_content", "thinking", "reasoning", "function_call"})
                    if (message.contains(key) && !message[key].is_null())
                        return true;
                return false;
            }();
            if (!says_something)
                fail(str(number_of(i), " has no \"", name, "\""));
        } else if (!content.is_string() && !content.is_array()) {
            fail(str(number_of(i), ": \"", name, "\" is neither a text nor a list of parts"));
        }
    }

    /// Roles of ShareGPT and its relatives as those of messages.
    std::string role_of(const std::string& from, std::size_t i) const
    {
        static constexpr std::array<std::array<std::string_view, 2>, 4> roles{{
            {"user", "human, user, prompter, input"},
            {"assistant", "gpt, assistant, chatgpt, bing, bard, model, output, claude"},
            {"system", "system"},
            {"tool", "tool, function, observation, function_response, tool_response"},
        }};
        std::string known;
        for (const auto& [role, names] : roles) {
            if (from.find(',') == std::string::npos &&
                str(", ", names, ", ").find(", " + from + ", ") != std::string::npos)
                return std::string(role);
            known += str(known.empty() ? "" : ", ", names);
        }
        fail(str(number_of(i), " is from ", in_quotes(from)), "known are: " + known);
    }

    ChatJson of_sharegpt(const ChatJson& message, std::size_t i, const char* from, const char* value) const
    {
        if (!message.at(from).is_string())
            fail(str(number_of(i), ": \"", from, "\" is not a text"));
        ChatJson result = ChatJson::object();
        const std::string speaker = message.at(from).get<std::string>();
        if (speaker == "function_call") {
            result["role"] = "assistant";
            result["tool_calls"] = called(message.at(value), i);
        } else {
            result["role"] = role_of(speaker, i);
            result["content"] = message.at(value);
        }
        for (const auto& [key, other] : message.items())
            if (key != from && key != value && !result.contains(key))
                result[key] = other;
        check_content(result, i, value);
        return result;
    }

    /// The tool calls of a "function_call": JSON of {"name", "arguments"}, or a list of them.
    ChatJson called(const ChatJson& value, std::size_t i) const
    {
        ChatJson calls =
            value.is_string() ? ChatJson::parse(value.get<std::string>(), nullptr, false) : value;
        if (calls.is_object())
            calls = ChatJson::array({calls});
        ChatJson result = ChatJson::array();
        for (const ChatJson& call : calls) {
            if (!call.is_object() || !call.contains("name"))
                fail(number_of(i) + ": a function_call is not JSON with \"name\" and \"arguments\"");
            result.push_back(ChatJson{{"type", "function"}, {"function", call}});
        }
        if (result.empty())
            fail(number_of(i) + ": a function_call is not JSON with \"name\" and \"arguments\"");
        return result;
    }

    void read_conversations(const char* key)
    {
        result_.form = ChatForm::sharegpt;
        const ChatJson& list = list_in(record_, key, "");
        if (list[0].is_object() && list[0].contains("role")) {
            result_.form = ChatForm::messages;
            return read_messages(list, true);
        }
        if (const bool stated = std::any_of(list.begin(), list.end(),
                                            [](const ChatJson& message) {
                                                return message.is_object() &&
                                                       message.value("from", ChatJson()) == "system";
                                            });
            !stated && !text_in("system").empty())
            add_message({{"role", "system"}, {"content", text_in("system")}}, true);
        for (const ChatJson& message : list) {
            const std::size_t i = result_.messages.size();
            if (!message.is_object() || !message.contains("from") || !message.contains("value"))
                fail(number_of(i) + " is not an object with \"from\" and \"value\"");
            add_message(of_sharegpt(message, i, "from", "value"), true);
        }
    }

    void read_prompt()
    {
        const ChatJson &prompt = record_.at("prompt"), &completion = record_.at("completion");
        if (prompt.is_array() || completion.is_array()) {
            result_.form = ChatForm::prompt_messages;
            if (prompt.is_string())
                add_message({{"role", "user"}, {"content", prompt}}, false);
            else
                read_messages(list_in(record_, "prompt", ""), false);
            if (completion.is_string())
                add_message({{"role", "assistant"}, {"content", completion}}, true);
            else
                read_messages(list_in(record_, "completion", ""), true);
            return;
        }
        result_.form = ChatForm::prompt_text;
        result_.plain = true;
        constexpr const char* neither = "neither a text nor a list of messages";
        result_.prompt = text_in("prompt", neither);
        result_.completion = text_in("completion", neither);
        add_message({{"role", "user"}, {"content", result_.prompt}}, true);
        add_message({{"role", "assistant"}, {"content", result_.completion}}, true);
    }

    /// The messages of the record, and the prompt that was published with the data set Alpaca. "history" has
    /// earlier turns, which only the messages show.
    void read_alpaca()
    {
        result_.form = ChatForm::alpaca;
        result_.plain = true;
        const std::string instruction = text_in("instruction"), input = text_in("input"),
                          system = text_in("system");
        const std::string introduction = !system.empty() ? system
                                         : input.empty()
                                             ? "Below is an instruction that describes a task. Write a "
                                               "response that appropriately completes the request."
                                             : "Below is an instruction that describes a task, paired with "
                                               "an input that provides further context. "
                                               "Write a response that appropriately completes the request.";
        result_.prompt = introduction + "\n\n### Instruction:\n" + instruction +
                         (input.empty() ? "" : "\n\n### Input:\n" + input) + "\n\n### Response:\n";
        result_.completion = text_in("output");
        if (!system.empty())
            add_message({{"role", "system"}, {"content", system}}, true);
        if (has("history"))
            for (const ChatJson& turn : record_.at("history")) {
                if (!turn.is_array() || turn.size() != 2 || !turn[0].is_string() || !turn[1].is_string())
                    fail("\"history\" is not a list of pairs of texts");
                add_message({{"role", "user"}, {"content", turn[0]}}, true);
                add_message({{"role", "assistant"}, {"content", turn[1]}}, true);
            }
        add_message({{"role", "user"}, {"content", instruction + (input.empty() ? "" : "\n\n" + input)}},
                    true);
        add_message({{"role", "assistant"}, {"content", result_.completion}}, true);
    }

    void read_text()
    {
        result_.form = ChatForm::text;
        result_.plain = true;
        result_.completion = text_in("text");
    }

    /// A list of schemas, or JSON of one in a text.
    void read_tools()
    {
        for (const char* key : {"tools", "functions"}) {
            if (!has(key))
                continue;
            ChatJson tools = record_.at(key);
            if (tools.is_string()) {
                const std::string text = tools.get<std::string>();
                if (text.find_first_not_of(" \t\r\n") == std::string::npos)
                    continue;
                tools = ChatJson::parse(text, nullptr, false);
            }
            if (!tools.is_array())
                fail(str("\"", key, "\" is neither a list nor JSON of a list"));
            for (const ChatJson& tool : tools)
                if (!tool.is_object())
                    fail(str("\"", key, "\" has an element that is not an object"));
            if (!tools.empty())
                result_.tools = std::move(tools);
            return;
        }
    }

    void read_variables()
    {
        if (has("chat_template_kwargs")) {
            if (!record_.at("chat_template_kwargs").is_object())
                fail("\"chat_template_kwargs\" is not an object");
            result_.variables = record_.at("chat_template_kwargs");
        }
        if (has("documents") && record_.at("documents").is_array())
            result_.variables["documents"] = record_.at("documents");
    }

    const ChatJson& record_;
    Conversation result_;
};

} // namespace

Conversation conversation_of_json(const ChatJson& record, const std::string& place)
{
    return RecordReader(record, place).run();
}

Conversation conversation_of_record(std::string_view record, const std::string& place)
{
    return conversation_of_json(parse_ordered_json(record, place, 64, "correct this record, or leave it out"),
                                place);
}

ChatText plain_text(const Conversation& conversation, const std::string& end)
{
    TRV_CHECK(conversation.plain, "only plain forms have a text of their own");
    ChatText text{conversation.prompt + conversation.completion + end, {}};
    if (text.text.size() > conversation.prompt.size())
        text.trained.push_back({conversation.prompt.size(), text.text.size()});
    return text;
}

} // namespace trivium
