#include "io/chat/conversation.hpp"

#include "base/check.hpp"
#include "catch.hpp"
#include "has.hpp"

using namespace trivium;

namespace {

Conversation read_record(const std::string& record) { return conversation_of_record(record, "data.jsonl:7"); }

/// "role:content" of each message, with * where it is trained.
std::string summary(const Conversation& conversation)
{
    std::string text;
    for (std::size_t i = 0; i < conversation.messages.size(); ++i) {
        const ChatJson& message = conversation.messages[i];
        text += (i == 0 ? "" : " ") + message["role"].get<std::string>() + ":" +
                (message.contains("content") && message["content"].is_string()
                     ? message["content"].get<std::string>()
                     : "-") +
                (conversation.trained[i] ? "*" : "");
    }
    return text;
}

std::string error_of(const std::string& record)
{
    return message_of<UserError>([&] { read_record(record); });
}

} // namespace

TEST_CASE("Records of chats are recognised by their keys")
{
    struct Case {
        const char* record;
        ChatForm form;
        const char* messages;
    };
    for (
        const Case& one : std::vector<Case>{
            {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})",
             ChatForm::messages, "user:a assistant:b*"},
            {R"({"id": 1, "conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "a"},
                 {"from": "gpt", "value": "b"}, {"from": "tool", "value": "t"}, {"from": "chatgpt", "value": "c"}]})",
             ChatForm::sharegpt, "system:s user:a assistant:b* tool:t assistant:c*"},
            {R"({"system": "s", "conversations": [{"from": "user", "value": "a"}, {"from": "bing", "value": "b"}]})",
             ChatForm::sharegpt, "system:s user:a assistant:b*"},
            {R"({"conversations": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})",
             ChatForm::messages, "user:a assistant:b*"},
            {R"({"prompt": "a", "completion": "b"})", ChatForm::prompt_text, "user:a assistant:b*"},
            {R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                 {"role": "user", "content": "c"}], "completion": [{"role": "assistant", "content": "d"}]})",
             ChatForm::prompt_messages, "user:a assistant:b user:c assistant:d*"},
            {R"({"instruction": "a", "input": "i", "output": "b", "history": [["x", "y"]], "system": "s"})",
             ChatForm::alpaca, "system:s user:x assistant:y* user:a\n\ni assistant:b*"},
            {R"({"text": "a"})", ChatForm::text, ""},
            {R"({"messages": [{"role": "assistant", "content": "a", "weight": 0}, {"role": "user", "content": "x", "train": false},
                 {"role": "assistant", "content": "b", "train": 1}]})",
             ChatForm::messages, "assistant:a user:x assistant:b*"},
        }) {
        INFO(one.record);
        const Conversation conversation = read_record(one.record);
        CHECK(conversation.form == one.form);
        CHECK(summary(conversation) == one.messages);
        CHECK(conversation.place == "data.jsonl:7");
    }
}

TEST_CASE("Plain forms have their usual texts")
{
    const Conversation pair = read_record(R"({"prompt": "Grüße: ", "completion": "b"})");
    CHECK(pair.plain);
    const ChatText text = plain_text(pair, "</s>");
    CHECK(text.text == "Grüße: b</s>");
    CHECK(text.trained == std::vector<TextSpan>{{9, 14}});
    CHECK(plain_text(read_record(R"({"text": "all"})")).trained == std::vector<TextSpan>{{0, 3}});
    CHECK(plain_text(read_record(R"({"text": ""})")).trained.empty());
    // The prompts published with the data set.
    CHECK(plain_text(read_record(R"({"instruction": "Add.", "input": "", "output": "4"})")).text ==
          "Below is an instruction that describes a task. Write a response that appropriately completes the "
          "request.\n\n"
          "### Instruction:\nAdd.\n\n### Response:\n4");
    CHECK(plain_text(read_record(R"({"instruction": "Add.", "input": "2+2", "output": "4"})")).text ==
          "Below is an instruction that describes a task, paired with an input that provides further "
          "context. Write a "
          "response that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### "
          "Input:\n2+2\n\n### "
          "Response:\n4");
    CHECK(has(plain_text(read_record(R"({"instruction": "a", "output": "b", "system": "Be kind."})")).text,
              "Be kind.\n\n### Inst"));
    CHECK(!read_record(R"({"messages": [{"role": "user", "content": "a"}]})").plain);
}

TEST_CASE("Tools are lists or JSON in a text, calls keep their arguments")
{
    for (const char* tools : {R"([{"name": "f"}])", R"("[{\"name\": \"f\"}]")"}) {
        const Conversation conversation =
            read_record(std::string(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant",
            "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"z": 1, "a": 2}}}]},
            {"role": "tool", "content": "1"}], "tools": )") +
                        tools + "}");
        CHECK(conversation.tools == ChatJson::array({ChatJson{{"name", "f"}}}));
        CHECK(summary(conversation) == "user:a assistant:-* tool:1");
        CHECK(conversation.messages[1]["tool_calls"][0]["function"]["arguments"].dump() ==
              R"({"z":1,"a":2})");
    }
    CHECK(read_record(R"({"messages": [{"role": "user", "content": "a"}], "tools": []})").tools.is_null());
    const Conversation call = read_record(R"({"conversations": [{"from": "human", "value": "a"},
        {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"k\": 1}}"}, {"from": "observation", "value": "1"}]})");
    CHECK(summary(call) == "user:a assistant:-* tool:1");
    CHECK(call.messages[1]["tool_calls"][0]["function"]["name"] == "f");
    const Conversation variables =
        read_record(R"({"messages": [{"role": "user", "content": "a"}], "documents": [],
        "chat_template_kwargs": {"enable_thinking": false}})");
    CHECK(variables.variables.dump() == R"({"enable_thinking":false,"documents":[]})");
}

TEST_CASE("Records of no known form are refused with their keys")
{
    const std::string unknown = error_of(R"({"question": "a", "answer": "b"})");
    for (const char* part : {"data.jsonl:7: is not a chat of a known form", "\"question\", \"answer\"",
                             "conversations", "instruction"})
        CHECK(has(unknown, part));
    for (const auto& [record, part] : std::vector<std::pair<const char*, const char*>>{
             {"[1]", "not a JSON object"},
             {"{", "is not valid JSON"},
             {R"({"messages": []})", "is empty"},
             {R"({"messages": 3})", "is not a list"},
             {R"({"messages": ["a"]})", "message 1 is not an object"},
             {R"({"messages": [{"content": "a"}]})", "message 1 has no \"role\""},
             {R"({"messages": [{"role": "user"}]})", "message 1 has no \"content\""},
             {R"({"messages": [{"role": "user", "content": 1}]})", "neither a text nor a list"},
             {R"({"messages": [{"role": "user", "content": "a", "weight": 1}]})",
              "only what the assistant says"},
             {R"({"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]})", "neither 0 nor 1"},
             {R"({"conversations": [{"from": "dog", "value": "a"}]})", "message 1 is from \"dog\""},
             {R"({"conversations": [{"from": "gpt"}]})", "\"from\" and \"value\""},
             {R"({"prompt": 1, "completion": "a"})", "\"prompt\" is neither a text nor a list of messages"},
             {R"({"messages": [{"role": 3, "content": "a"}]})", "message 1: \"role\" is not a text"},
             {R"({"conversations": [{"from": "human", "value": 3}]})", "\"value\" is neither a text"},
             {R"({"messages": [{"role": "user", "content": "a"}], "tools": "x"})", "neither a list nor JSON"},
         }) {
        INFO(record << ": " << error_of(record));
        CHECK(has(error_of(record), part));
    }
}
