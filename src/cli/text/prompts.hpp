#pragma once
// The prompts of `generate`.
#include "io/tokens/tokenizer.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

struct Prompt {
    nlohmann::json given;    ///< a text, or a list of ids
    std::vector<i32> tokens; ///< what the model reads
    std::vector<i32> ends{}; ///< ids that end a sample, with the tokenizer's eos
};

/// A text as the beginning of a document: after the token that separates documents.
Prompt prompt_of(const std::string& text, const Tokenizer& tokenizer);

/// All of stdin, as text. IoError.
std::string read_stdin();

/// The lines of a text: without line ends, and without those that are empty but for white space; each with
/// its number, counted from 1.
std::vector<std::pair<i64, std::string_view>> lines_of(std::string_view text);

/// A text or a list of ids of a JSON object, as tokens; `place`: of the object. UserError if it is neither,
/// or an id is not below `vocab`.
std::vector<i32> tokens_of_key(const nlohmann::json& object, const char* key, const std::string& place,
                               const Tokenizer& tokenizer);

/// The prompts of a text: lines of JSON objects, `prompt` being a text or a list of ids, if the first line
/// begins with `{`; otherwise each line is a prompt. `place`: the file. UserError if there are none, or a
/// line is no such object.
std::vector<Prompt> parse_prompts(std::string_view text, const std::string& place,
                                  const Tokenizer& tokenizer);

} // namespace trivium
