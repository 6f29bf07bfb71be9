#include "io/tokens/byte_bpe.hpp"

#include "base/check.hpp"
#include "io/files/hash.hpp"
#include "io/files/utf8.hpp"
#include "io/tokens/added_tokens.hpp"
#include "io/tokens/nfc.hpp"
#include "io/tokens/stated_eos.hpp"
#include "io/tokens/tokenizer_json.hpp"

#include <mutex>

namespace trivium {

namespace {

constexpr std::size_t longest_cached = 64;
constexpr std::size_t max_cached = std::size_t{1} << 18;

struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <class Value>
using ByText = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

class ByteBpe final : public Tokenizer {
public:
    ByteBpe(std::string file, const std::string& place) : ByteBpe(parse_tokenizer_json(file, place), place)
    {
        model_ = std::move(file);
        fingerprint_ = str("bpe:", hex(hash_bytes(without_eos(model_))));
    }

    i64 vocab_size() const override { return static_cast<i64>(tokens_.size()); }
    i32 bos() const override { return bos_; }
    i32 eos() const override { return eos_; }
    std::string name() const override { return str("byte-level BPE, ", tokens_.size(), " tokens"); }
    std::string fingerprint() const override { return fingerprint_; }
    const std::string& model() const override { return model_; }

    std::vector<i32> encode(std::string_view text) const override
    {
        const std::lock_guard lock(mutex_);
        Encoding encoding{{}, MatchEffort::for_text(text.size())};
        while (!text.empty()) {
            const i64 invalid = first_invalid_utf8(text);
            const std::string_view valid =
                text.substr(0, invalid < 0 ? text.size() : static_cast<std::size_t>(invalid));
            add_text(valid, 0, encoding);
            text.remove_prefix(valid.size());
            if (!text.empty()) {
                encoding.ids.push_back(id_of(text[0]));
                text.remove_prefix(1);
            }
        }
        return std::move(encoding.ids);
    }

    std::string decode(std::span<const i32> ids) const override
    {
        std::string text;
        for (const i32 id : ids) {
            const bool known =
                id >= 0 && id < vocab_size() &&
                tokens_[static_cast<std::size_t>(id)].kind != TokenizerJson::Token::Kind::absent;
            text +=
                known ? std::string_view(tokens_[static_cast<std::size_t>(id)].text) : replacement_character;
        }
        return text;
    }

private:
    struct Encoding {
        std::vector<i32> ids;
        MatchEffort effort;
    };

    ByteBpe(TokenizerJson json, const std::string& place)
        : place_(place), tokens_(std::move(json.tokens)), bytes_(json.bytes), merges_(json.merges),
          prefix_space_at_(json.prefix_space_at), nfc_(json.nfc), bos_(json.bos), eos_(json.eos)
    {
        for (const SplitRule& rule : json.splits)
            splits_.emplace_back(rule, place);
        for (const TokenizerJson::Added& token : json.added) {
            const std::string text = token.normalized && nfc_ ? to_nfc(token.text) : token.text;
            added_[token.normalized ? 1 : 0].add(text, token.id);
            if (token.id >= 0)
                tokens_[static_cast<std::size_t>(token.id)].text = text;
        }
        if (json.ignore_merges)
            for (std::size_t id = 0; id < tokens_.size(); ++id)
                if (tokens_[id].is_piece)
                    whole_.emplace(tokens_[id].text, static_cast<i32>(id));
    }

    /// `pass`: which of the two lists of added tokens to look for.
    void add_text(std::string_view text, std::size_t pass, Encoding& encoding) const
    {
        if (text.empty())
            return;
        std::string composed;
        if (nfc_ && pass == 1) // the first list matches text before normalization
            text = composed = to_nfc(text);
        if (pass == added_.size())
            return split(text, 0, encoding);
        std::size_t begin = 0;
        for (std::size_t from = 0; !added_[pass].empty();) {
            const AddedTokens::Found found = added_[pass].find(text, from);
            if (found.length == 0)
                break;
            from = found.begin + found.length;
            if (found.id < 0)
                continue;
            add_text(text.substr(begin, found.begin - begin), pass + 1, encoding);
            encoding.ids.push_back(found.id);
            begin = from;
        }
        add_text(text.substr(begin), pass + 1, encoding);
    }

    void split(std::string_view text, std::size_t at, Encoding& encoding) const
    {
        std::string with_space;
        if (static_cast<i64>(at) == prefix_space_at_ && !text.starts_with(' '))
            text = with_space = str(' ', text);
        if (at == splits_.size())
            return add_piece(text, encoding.ids);
        splits_[at].split(text, encoding.effort,
                          [&](std::string_view piece) { split(piece, at + 1, encoding); });
    }

    void add_piece(std::string_view text, std::vector<i32>& ids) const
    {
        if (const auto known = cache_.find(text); known != cache_.end()) {
            ids.insert(ids.end(), known->second.begin(), known->second.end());
            return;
        }
        const std::vector<i32> encoded = encode_piece(text);
        ids.insert(ids.end(), encoded.begin(), encoded.end());
        if (text.size() > longest_cached)
            return;
        if (cache_.size() >= max_cached)
            cache_.clear();
        cache_.emplace(text, encoded);
    }

    i32 id_of(char c) const
    {
        const auto byte = static_cast<unsigned char>(c);
        if (bytes_[byte] < 0)
            throw UserError({place_, str("has no token for the byte ", static_cast<int>(byte)),
                             "its vocabulary lacks some of the 256 bytes, and this text has one of them",
                             "leave the text out, or use another tokenizer"});
        return bytes_[byte];
    }

    std::vector<i32> encode_piece(std::string_view text) const
    {
        if (const auto whole = whole_.find(text); whole != whole_.end())
            return {whole->second};
        std::vector<i32> ids;
        ids.reserve(text.size());
        for (const char c : text)
            ids.push_back(id_of(c));
        merges_.apply(ids);
        return ids;
    }

    std::string place_, model_, fingerprint_;
    std::vector<TokenizerJson::Token> tokens_; ///< by id
    std::array<i32, 256> bytes_;               ///< -1: none
    BpeMerges merges_;
    ByText<i32> whole_;                ///< pieces that are one token without any merge (ignore_merges)
    std::array<AddedTokens, 2> added_; ///< matched before and after normalization
    std::vector<TextSplit> splits_;
    i64 prefix_space_at_;
    bool nfc_;
    i32 bos_, eos_;
    mutable std::mutex mutex_; ///< protects the cache and the scratch memory of splits_
    mutable ByText<std::vector<i32>> cache_;
};

} // namespace

std::unique_ptr<Tokenizer> make_byte_bpe(std::string file, const std::string& place)
{
    return std::make_unique<ByteBpe>(std::move(file), place);
}

} // namespace trivium
