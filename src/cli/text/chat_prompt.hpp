#pragma once
// Prompts of `generate --chat`.
#include "cli/text/prompts.hpp"
#include "config/run_config.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/tokens/tokenizer.hpp"

#include <set>
#include <string>
#include <vector>

namespace trivium {

struct ChatPrompt {
    std::string text;     ///< rendered, up to the begin of the answer
    std::vector<i32> ids; ///< of it; nothing is put in front
    std::set<i32> ends;   ///< an answer ends with one of them
};
/// `chat`: a text, or with `record` what it was given as. A text is what a user says; or JSON (it begins with
/// '[' or '{'): a list of messages, or a record of a chat, whose last message is not the assistant's.
/// UserError if there is no template, or it refuses the messages.
ChatPrompt chat_prompt(const Prompt& chat, const RunConfig& config, const RunState& state,
                       const Tokenizer& tokenizer);

} // namespace trivium
