#include "io/chat/chat_template.hpp"

#include "base/check.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "io/files/files.hpp"
#include "io/temporary_folder.hpp"

#include <filesystem>
#include <regex>

using namespace trivium;

namespace {

const std::string data = TRIVIUM_CHAT_TEST_DATA;

std::string read(const std::string& name) { return read_file(data + "/" + name); }

const ChatJson tokens{{"bos_token", "<s>"}, {"eos_token", "</s>"}};

/// Without {% generation %}.
std::string without_generation(const std::string& source)
{
    return std::regex_replace(source, std::regex(R"(\{%[-+]? *(end)?generation *[-+]?%\})"), "");
}

std::vector<TextSpan> spans_of(const ChatJson& json)
{
    std::vector<TextSpan> spans;
    for (const ChatJson& span : json) {
        const TextSpan next{span[0].get<std::size_t>(), span[1].get<std::size_t>()};
        if (!spans.empty() && spans.back().end == next.begin)
            spans.back().end = next.end;
        else if (next.begin < next.end)
            spans.push_back(next);
    }
    return spans;
}

/// The trained parts, of which those that are blank are not searched.
std::string shown(const ChatText& chat)
{
    std::string text;
    for (const TextSpan& span : chat.trained)
        if (const std::string part = chat.text.substr(span.begin, span.end - span.begin);
            part.find_first_not_of(" \n") != std::string::npos)
            text += str(span.begin, "[", part, "]");
    return text;
}

ChatOptions options_of(const ChatJson& chat, bool prompt)
{
    ChatOptions options;
    options.tools = chat.value("tools", ChatJson());
    options.variables = chat.value("variables", ChatJson::object());
    if (chat.contains("documents"))
        options.variables["documents"] = chat["documents"];
    options.add_generation_prompt = prompt;
    return options;
}

Conversation conversation_of(const ChatJson& messages)
{
    return conversation_of_json({{"messages", messages}}, "chats.jsonl:1");
}

ChatJson message(const char* role, const char* content) { return {{"role", role}, {"content", content}}; }

} // namespace

TEST_CASE("Templates render chats as transformers does, and the spans of the assistant are found without "
          "generation tags")
{
    const ChatJson chats = ChatJson::parse(read("chats.json")), golden = ChatJson::parse(read("golden.json"));
    std::map<std::string, ChatJson> by_name;
    for (const ChatJson& chat : chats)
        by_name[chat["name"].get<std::string>()] = chat;
    std::map<std::string, std::pair<ChatTemplate, ChatTemplate>> templates;
    std::size_t rendered = 0, with_spans = 0;
    for (const ChatJson& result : golden["results"]) {
        const auto name = result["template"].get<std::string>();
        if (!templates.contains(name)) {
            const std::string source = read("templates/" + name + ".jinja");
            templates.emplace(name,
                              std::pair(ChatTemplate(source, name, tokens),
                                        ChatTemplate(without_generation(source), name + " without", tokens)));
        }
        const auto& [stated, searched] = templates.at(name);
        const ChatJson& chat = by_name.at(result["chat"].get<std::string>());
        const ChatOptions options = options_of(chat, result["prompt"].get<bool>());
        INFO(name << ": " << chat["name"] << ", prompt " << options.add_generation_prompt);
        if (result.contains("refused")) {
            CHECK_THROWS_AS(stated.render(chat["messages"], options), UserError);
            continue;
        }
        ++rendered;
        REQUIRE(stated.render(chat["messages"], options) == result["text"].get<std::string>());
        if (options.add_generation_prompt)
            continue;
        const Conversation conversation = conversation_of(chat["messages"]);
        const ChatText with_tags = stated.render(conversation, options),
                       found = searched.render(conversation, options);
        CHECK(found.text == with_tags.text);
        // Where JSON in a text would be printed as JSON of a text, it is adapted.
        if (chat["name"] != "arguments as text") {
            CHECK(with_tags.text == result["text"].get<std::string>());
            CHECK(with_tags.trained == spans_of(result["spans"]));
        }
        with_spans += found.trained.empty() ? 0 : 1;
        if (chat["name"] == "no thinking" && (name == "qwen3" || name == "glm4"))
            CHECK(!has(shown(found), "think")); // the prompt says already that there is none
        else
            CHECK(shown(found) == shown(with_tags));
    }
    CHECK(rendered > 800);
    CHECK(with_spans > 350);
}
