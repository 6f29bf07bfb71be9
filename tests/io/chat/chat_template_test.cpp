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

const std::string data = TRIVIUM_TEST_DATA "/io/chat";

std::string test_data(const std::string& name) { return read_file(data + "/" + name); }

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
    const ChatJson chats = ChatJson::parse(test_data("chats.json")),
                   golden = ChatJson::parse(test_data("golden.json"));
    std::map<std::string, ChatJson> by_name;
    for (const ChatJson& chat : chats)
        by_name[chat["name"].get<std::string>()] = chat;
    std::map<std::string, std::pair<ChatTemplate, ChatTemplate>> templates;
    std::size_t rendered = 0, with_spans = 0;
    for (const ChatJson& result : golden["results"]) {
        const auto name = result["template"].get<std::string>();
        if (!templates.contains(name)) {
            const std::string source = test_data("templates/" + name + ".jinja");
            templates.emplace(name,
                              std::pair(ChatTemplate(source, name, tokens),
                                        ChatTemplate(without_generation(source), name + " without", tokens)));
        }
        const auto& [stated, searched] = templates.at(name);
        const ChatJson& chat = by_name.at(result["chat"].get<std::string>());
        const ChatOptions options = options_of(chat, result["prompt"].get<bool>());
        INFO(name << ": " << chat["name"] << ", prompt " << options.add_generation_prompt);
        // Arguments of calls are adapted, which transformers refuses or prints as JSON of a text.
        if (result.contains("refused")) {
            if (!has(chat["messages"].dump(), "tool_calls"))
                CHECK_THROWS_AS(stated.render(chat["messages"], options), UserError);
            continue;
        }
        if (chat["name"] == "arguments as text" &&
            stated.render(chat["messages"], options) != result["text"].get<std::string>())
            continue;
        ++rendered;
        REQUIRE(stated.render(chat["messages"], options) == result["text"].get<std::string>());
        if (options.add_generation_prompt)
            continue;
        const Conversation conversation = conversation_of(chat["messages"]);
        const ChatText with_tags = stated.render(conversation, options),
                       found = searched.render(conversation, options);
        CHECK(found.text == with_tags.text);
        CHECK(with_tags.text == result["text"].get<std::string>());
        CHECK(with_tags.trained == spans_of(result["spans"]));
        with_spans += found.trained.empty() ? 0 : 1;
        if (chat["name"] == "no thinking" && (name == "qwen3" || name == "glm4"))
            CHECK(!has(shown(found), "think")); // the prompt says already that there is none
        else
            CHECK(shown(found) == shown(with_tags));
    }
    CHECK(rendered > 800);
    CHECK(with_spans > 350);
}

namespace {

const std::string chatml =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

std::string trained_of(const std::string& source, const ChatJson& record, const ChatOptions& options = {})
{
    const ChatTemplate chat_template(source, "t.jinja", tokens);
    const ChatText chat = chat_template.render(conversation_of_json(record, "f.jsonl:3"), options);
    std::string text;
    for (const TextSpan& span : chat.trained)
        text += "[" + chat.text.substr(span.begin, span.end - span.begin) + "]";
    return text;
}

} // namespace

TEST_CASE("Flags of messages choose which are trained, with and without generation tags")
{
    const ChatJson first{{"role", "assistant"}, {"content", "one"}, {"weight", 0}};
    const ChatJson record{
        {"messages", {message("user", "x"), first, message("user", "y"), message("assistant", "two")}}};
    CHECK(trained_of(chatml, record) == "[two<|im_end|>]");
    const std::string stated =
        "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}"
        "{{ m.content }};{% endgeneration %}{% else %}{{ m.content }};{% endif %}{% endfor %}";
    CHECK(trained_of(stated, record) == "[two;]");
    const std::string in_macro =
        "{% macro all(ms) %}" + stated + "{% endmacro %}{{ 'é: ' }}{{ all(messages) }}";
    CHECK(trained_of(in_macro, {{"messages", {message("user", "x"), message("assistant", "ü")}}}) == "[ü;]");
    CHECK(trained_of(chatml, {{"messages",
                               {message("assistant", "Hi"), message("user", "x"),
                                message("assistant", "y")}}}) == "[Hi<|im_end|>][y<|im_end|>]");
}

TEST_CASE("Spans are found in templates that merge, strip or look around, or refused with a reason")
{
    const ChatJson record{{"messages",
                           {message("user", "same"), message("assistant", "same"), message("user", "x"),
                            message("assistant", " y ")}}};
    // Indexes instead of a loop over the messages: the texts of the messages before say where the answers
    // are.
    const std::string by_index =
        "{% for i in range(messages|length) %}{% set m = messages[i] %}{{ m.role ~ ': ' ~ "
        "m.content|trim ~ '</s>\n' }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";
    CHECK(trained_of(by_index, record) == "[same</s>][y</s>]");
    // Messages merged into others.
    const std::string merged =
        "{% set ns = namespace(all=[]) %}{% for m in messages %}{% set ns.all = ns.all + "
        "[{'who': m.role, 'what': m.content|trim}] %}{% endfor %}{% for m in ns.all %}"
        "{{ '<' ~ m.who ~ '>' ~ m.what ~ '</s>' }}{% endfor %}"
        "{{ '<assistant>' if add_generation_prompt }}";
    CHECK(trained_of(merged, record) == "[same</s>][y</s>]");
    // The token that ends a text follows the loop.
    const std::string behind = "{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ m.content }}{% endfor %}{{ "
                               "'<assistant>' if add_generation_prompt else eos_token }}";
    CHECK(trained_of(behind, {{"messages", {message("user", "a"), message("assistant", "b")}}}) == "[b</s>]");
    // The answer is printed within the turn of the question, and the end of the chat is not that of its
    // begin.
    const std::string pairs =
        "{{ messages|length }}{% for m in messages %}{% if m.role == 'user' %}{{ m.content ~ ' -> ' ~ "
        "(loop.nextitem.content if not loop.last else '') ~ ';' }}{% endif %}{% endfor %}";
    const std::string error = message_of<UserError>([&] { trained_of(pairs, record); });
    INFO(error);
    CHECK(has(error, "f.jsonl:3, t.jinja: the text of message 2 cannot be told"));
    CHECK(has(error, "{% generation %}"));
}

TEST_CASE("Contents of parts and arguments of calls are adapted to what a template reads")
{
    const ChatJson part{{"type", "text"}, {"text", "b"}};
    const ChatJson of_parts{{"role", "assistant"}, {"content", ChatJson::array({part, part})}};
    CHECK(trained_of(chatml, {{"messages", {message("user", "a"), of_parts}}}) == "[bb<|im_end|>]");
    const std::string reads_parts =
        "{% for m in messages %}{{ m.role }}:{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endif %};{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}";
    CHECK(trained_of(reads_parts, {{"messages", {message("user", "a"), of_parts}}}) == "[<b><b>;]");
    const ChatJson image{{"role", "user"},
                         {"content", ChatJson::array({ChatJson{{"type", "image"}, {"url", "x"}}})}};
    CHECK(has(message_of<UserError>([&] {
                  trained_of(chatml, {{"messages", {image, message("assistant", "b")}}});
              }),
              "not text"));

    const auto call_of = [](const ChatJson& arguments) {
        const ChatJson call{{"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}};
        const ChatJson calls{
            {"role", "assistant"}, {"content", nullptr}, {"tool_calls", ChatJson::array({call})}};
        return ChatJson{{"messages", {message("user", "a"), calls}}};
    };
    const std::string head =
        "{% for m in messages %}{% if m.role == 'assistant' %}{% for c in m.tool_calls %}<";
    const std::string tail = ">{% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
    const std::string wants_object = head + "{{ c.function.arguments | tojson }}" + tail;
    const std::string wants_text = head + "{{ 'x' + c.function.arguments }}" + tail;
    for (const ChatJson& arguments : {ChatJson("{\"k\":1}"), ChatJson{{"k", 1}}}) {
        CHECK(trained_of(wants_object, call_of(arguments)) == "[<{\"k\": 1}>]");
        CHECK(has(trained_of(wants_text, call_of(arguments)), "<x{\"k\":"));
        // The text of messages alone, as a model is asked.
        const ChatJson asked = call_of(arguments)["messages"];
        CHECK(ChatTemplate(wants_object, "t").render(asked) == "a<{\"k\": 1}>");
        CHECK(has(ChatTemplate(wants_text, "t").render(asked), "a<x{\"k\":"));
    }
    CHECK(ChatTemplate("{% for m in messages %}{{ m.content + ';' }}{% endfor %}", "t")
              .render(ChatJson::array({of_parts})) == "bb;");
}

TEST_CASE("Templates are found in the files of a model, with its special tokens")
{
    const TemporaryFolder folder;
    CHECK(!ChatTemplate::find(folder.path()));
    CHECK(
        has(message_of<UserError>([&] { ChatTemplate::load(folder.path()); }), "contains no chat template"));
    const ChatJson messages = ChatJson::array({message("user", "a")});
    ChatJson config{
        {"bos_token", {{"content", "<B>"}, {"lstrip", false}}}, {"eos_token", "<E>"}, {"unk_token", nullptr}};
    config["chat_template"] = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ unk_token }}";
    const std::string file = folder / "tokenizer_config.json";
    write_file(file, config.dump());
    CHECK(ChatTemplate::load(folder.path()).render(messages) == "<B>a<E>");
    CHECK(ChatTemplate::load(file).render(messages) == "<B>a<E>");
    CHECK(ChatTemplate::load(file).place() == file);

    ChatJson named = ChatJson::array();
    named.push_back({{"name", "default"}, {"template", "plain"}});
    named.push_back({{"name", "tool_use"}, {"template", "with {{ tools|length }}"}});
    config["chat_template"] = named;
    write_file(file, config.dump());
    const ChatTemplate several = ChatTemplate::load(folder.path());
    ChatOptions options;
    CHECK(several.render(messages, options) == "plain");
    options.tools = ChatJson::array({ChatJson::object()});
    CHECK(several.render(messages, options) == "with 1");
    CHECK(several.source() == "plain");
    CHECK(several.sources().size() == 2);

    write_file(folder / "chat_template.jinja", "{{ eos_token }}!");
    CHECK(ChatTemplate::load(folder.path()).render(messages) == "<E>!");
    CHECK(ChatTemplate::load(folder / "chat_template.jinja").render(messages) == "<E>!");
    std::filesystem::create_directory(folder / "additional_chat_templates");
    write_file(folder / "additional_chat_templates/tool_use.jinja", "tools");
    CHECK(ChatTemplate::load(folder.path()).render(messages, options) == "tools");

    config["chat_template"] = 3;
    write_file(file, config.dump());
    CHECK(has(message_of<UserError>([&] { ChatTemplate::load(file); }), "neither a text nor a list"));
    CHECK(has(message_of<UserError>([&] { ChatTemplate("{{", "x"); }), "x:1: is not a valid chat template"));
}

TEST_CASE("Times, reasoning and nulls are given as transformers does")
{
    const ChatTemplate dated("{{ strftime_now('%Y-%m-%d') }}", "t.jinja");
    ChatOptions options;
    options.now = 86'400 * 366 + 43'200;
    CHECK(dated.render(ChatJson::array({message("user", "a")}), options) == "1971-01-02");
    const ChatTemplate reasons(
        "{{ messages[0].thinking }}|{{ messages[0].reasoning_content }}|{{ 'content' in messages[0] }}",
        "t.jinja");
    for (const char* key : {"thinking", "reasoning_content", "reasoning"}) {
        const ChatJson given{{"role", "assistant"}, {"content", nullptr}, {key, "r"}};
        CHECK(reasons.render(ChatJson::array({given})) == "r|r|False");
    }
    CHECK(has(message_of<UserError>([&] { dated.render(ChatJson::array()); }), "at least one"));
}
