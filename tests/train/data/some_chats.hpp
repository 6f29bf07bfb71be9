#pragma once
// A tokenizer with a chat template, and a folder of chats in the forms found in the wild.
#include "io/tokens/tokenizer/tokenizer_json.hpp"
#include "train/program.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

using Json = nlohmann::json;

inline const char* const chatml =
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content + "
    "'<|im_end|>\\n' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

/// BPE of bytes without merges: 256 bytes, then <|end|>, <|im_start|> and <|im_end|>.
inline void write_tokenizer(const Folder& folder, const std::string& name)
{
    std::filesystem::create_directories(folder / name);
    Json vocab = Json::object(), added = Json::array();
    for (int byte = 0; byte < 256; ++byte)
        vocab[trivium::byte_level_letter(byte)] = byte;
    for (const char* token : {"<|end|>", "<|im_start|>", "<|im_end|>"})
        added.push_back(
            {{"id", 256 + added.size()}, {"content", token}, {"special", true}, {"normalized", false}});
    write_text(
        folder / (name + "/tokenizer.json"),
        Json{{"version", "1.0"},
             {"added_tokens", added},
             {"normalizer", nullptr},
             {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
             {"post_processor", nullptr},
             {"decoder", {{"type", "ByteLevel"}}},
             {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}}
            .dump());
    write_text(folder / (name + "/tokenizer_config.json"),
               Json{{"eos_token", "<|end|>"}, {"chat_template", chatml}}.dump());
}

inline Json chat(const std::string& question, const std::string& answer)
{
    return {{"messages",
             {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", answer}}}}};
}

/// chats/: a.jsonl with 14 conversations of three forms and two that are left out (too long for 200 tokens;
/// no answer), b.json with one of Alpaca's form, and a text.
inline void write_chats(const Folder& folder)
{
    std::string lines;
    for (int i = 0; i < 12; ++i)
        lines +=
            chat("What is " + std::to_string(i) + "?", "It is number " + std::to_string(i)).dump() + "\n";
    lines += Json{{"prompt", "1 + 1 ="}, {"completion", " 2"}}.dump() + "\n";
    lines +=
        Json{{"conversations", {{{"from", "human"}, {"value", "Hi"}}, {{"from", "gpt"}, {"value", "Hey"}}}}}
            .dump() +
        "\n";
    lines += Json{{"messages", {{{"role", "user"}, {"content", "no answer"}}}}}.dump() + "\n";
    lines += chat("long?", std::string(300, 'x')).dump() + "\n";
    std::filesystem::create_directories(folder / "chats");
    write_text(folder / "chats/a.jsonl", lines);
    write_text(folder / "chats/b.json",
               Json{{{"instruction", "Say hello"}, {"input", ""}, {"output", "hello"}}}.dump());
    write_text(folder / "chats/c.txt", "Some text.");
}
