#pragma once
// What a server knows about the model that it serves.
#include "config/run_config.hpp"
#include "io/chat/chat_template.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "serve/token_texts.hpp"

#include <cstdint>
#include <memory>
#include <optional>

namespace trivium {

/// Immutable, shared by the threads of a server.
struct ServedModel {
    std::string id;               ///< of the API: the checkpoint's path
    i64 step = 0;                 ///< of the checkpoint
    std::int64_t created = 0;     ///< Unix time at which it was loaded
    i64 capacity = 0;             ///< tokens of a sequence, prompt and completion
    i64 vocab = 0;                ///< token ids are less
    std::vector<i32> ends{};      ///< further tokens that end a completion, besides the tokenizer's eos
    std::vector<i32> chat_ends{}; ///< tokens that end an answer in a chat, besides those
    std::shared_ptr<const Tokenizer> tokenizer{};
    std::shared_ptr<const TokenTexts> texts{};
    nlohmann::ordered_json tokenizer_info{}; ///< as a tokenizer_config.json, with the special tokens
    std::optional<ChatTemplate> chat{};
};

/// All but capacity and vocab. Texts of special tokens, settings and chat template are those that an export
/// of the checkpoint has; data.chat_template comes before the latter. UserError if that cannot be read.
ServedModel served_model(const RunConfig& config, const CheckpointReader& checkpoint,
                         std::shared_ptr<const Tokenizer> tokenizer);

} // namespace trivium
