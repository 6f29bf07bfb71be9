#include "serve/token_texts.hpp"

#include "base/check.hpp"
#include "io/files/utf8.hpp"

#include <algorithm>
#include <array>

namespace trivium {

TokenTexts::TokenTexts(const Tokenizer& tokenizer, std::map<std::string, i32> special, i32 first)
    : tokenizer_(tokenizer), has_special_(!special.empty()), first_(first)
{
    for (const auto& [text, id] : special) {
        find_.add(text, id);
        spelled_.emplace(id, text);
    }
    // Tokenizers may leave out a space at the begin of a text, so each token is decoded behind another one.
    const std::vector<i32> anchors = tokenizer.encode("a");
    const std::string before = tokenizer.decode(anchors);
    const i64 vocab = tokenizer.vocab_size();
    pieces_.reserve(static_cast<std::size_t>(vocab));
    std::vector<i32> pair = anchors;
    pair.push_back(0);
    for (i32 id = 0; id < vocab; ++id) {
        pair.back() = id;
        std::string text = tokenizer.decode(pair);
        text.erase(0, text.starts_with(before) ? before.size() : 0);
        pieces_.push_back(std::move(text));
    }
}

std::vector<i32> TokenTexts::encode(std::string_view text, bool with_first) const
{
    std::vector<i32> ids;
    if (with_first && first_ >= 0)
        ids.push_back(first_);
    std::size_t done = 0;
    while (has_special_) {
        const AddedTokens::Found found = find_.find(text, done);
        if (found.length == 0)
            break;
        if (found.begin > done)
            tokenizer_.encode_part(text.substr(done, found.begin - done), true, ids);
        ids.push_back(found.value);
        done = found.begin + found.length;
    }
    if (done < text.size())
        tokenizer_.encode_part(text.substr(done), true, ids);
    return ids;
}

std::string TokenTexts::decode(std::span<const i32> ids, bool with_special) const
{
    if (!with_special)
        return tokenizer_.decode(ids);
    std::string text;
    for (std::size_t done = 0; done < ids.size();) {
        const auto special = std::find_if(ids.begin() + static_cast<std::ptrdiff_t>(done), ids.end(),
                                          [&](i32 id) { return spelled_.contains(id); });
        const auto end = static_cast<std::size_t>(special - ids.begin());
        text += tokenizer_.decode(ids.subspan(done, end - done));
        if (special != ids.end())
            text += spelled_.at(*special);
        done = end + 1;
    }
    return text;
}

std::string TokenTexts::label(i32 id) const
{
    const std::string& text = piece(id);
    if (text.empty()) {
        const auto special = spelled_.find(id);
        return special == spelled_.end() ? str("token_id:", id) : special->second;
    }
    if (first_invalid_utf8(text) < 0)
        return text;
    std::string label = "bytes:";
    for (const char c : text) {
        constexpr std::string_view digits = "0123456789abcdef";
        const auto byte = static_cast<unsigned char>(c);
        label += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
    }
    return label;
}

i64 characters_of(std::string_view text)
{
    return std::count_if(text.begin(), text.end(),
                         [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

} // namespace trivium
