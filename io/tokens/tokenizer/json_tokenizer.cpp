#include "io/tokens/tokenizer/json_tokenizer.hpp"

#include "base/check.hpp"
#include "io/chat/conversation.hpp"
#include "io/files/hash.hpp"
#include "io/files/utf8.hpp"
#include "io/tokens/stated_eos.hpp"
#include "io/tokens/tokenizer/added_tokens.hpp"
#include "io/tokens/tokenizer/piece_encoder.hpp"
#include "io/tokens/tokenizer/tokenizer_json.hpp"

#include <algorithm>
#include <cctype>
#include <mutex>

namespace trivium {

namespace {

/// Where a part of text begins: with the text, behind an added token, or inside, where another part ended.
enum class PartBegin { text, segment, inside };

class JsonTokenizer final : public Tokenizer {
public:
    JsonTokenizer(std::string file, const std::string& place)
        : JsonTokenizer(parse_tokenizer_json(file, place), place)
    {
        model_ = std::move(file);
        fingerprint_ = str(kind_, hex(hash_bytes(without_eos(model_))));
    }

    i64 vocab_size() const override { return static_cast<i64>(tokens_.size()); }
    i32 bos() const override { return bos_; }
    i32 eos() const override { return eos_; }
    std::string name() const override { return str(name_, ", ", tokens_.size(), " tokens"); }
    std::string fingerprint() const override { return fingerprint_; }
    const std::string& model() const override { return model_; }

    void encode_part(std::string_view text, bool first, std::vector<i32>& ids) const override
    {
        std::unique_ptr<Scratch> scratch = take_scratch();
        Encoding encoding{*scratch, ids, MatchEffort::for_text(text.size()), nullptr};
        for (PartBegin begin = first ? PartBegin::text : PartBegin::inside; !text.empty();
             begin = PartBegin::inside) {
            const i64 invalid = first_invalid_utf8(text);
            const std::string_view valid =
                text.substr(0, invalid < 0 ? text.size() : static_cast<std::size_t>(invalid));
            add_text(valid, 0, begin, {}, encoding);
            text.remove_prefix(valid.size());
            if (!text.empty()) {
                ids.push_back(encoder_.id_of_byte(text[0]));
                text.remove_prefix(1);
            }
        }
        give_back(std::move(scratch));
    }

    void encode_chat(std::string_view text, std::span<const TextSpan> spans, std::vector<i32>& ids,
                     std::vector<bool>& inside) const override
    {
        std::unique_ptr<Scratch> scratch = take_scratch();
        Encoding encoding{*scratch, ids, MatchEffort::for_text(text.size()), &inside};
        add_text(text, 0, PartBegin::text, spans, encoding);
        give_back(std::move(scratch));
    }

    std::string special_text(i32 id) const override
    {
        const auto found = specials_.find(id);
        return found == specials_.end() ? "" : found->second;
    }

    std::size_t cut(std::string_view text, std::size_t from) const override
    {
        const auto is_letter = [&](std::size_t at) {
            return std::isalpha(static_cast<unsigned char>(text[at])) != 0;
        };
        for (std::size_t at = std::max<std::size_t>(from, 1); words_ != Words::unknown; ++at) {
            at = text.find(' ', at);
            if (at == std::string_view::npos || at + 1 >= text.size())
                break;
            if (is_letter(at - 1) && is_letter(at + 1) &&
                (words_ == Words::apart || encoder_.divides(text.substr(at - 1, 1), space_)))
                return at;
        }
        return std::string_view::npos;
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
        if (strips_space_ && text.starts_with(' '))
            text.erase(0, 1);
        return text;
    }

private:
    using Step = TokenizerJson::Step;

    /// An added token.
    struct Found {
        i32 id;
        bool left, right; ///< takes white space
        bool special;     ///< stays text, but in chats
    };

    /// What one thread needs.
    struct Scratch {
        PieceEncoder::Scratch pieces;
        Normalizer normalizer;
        std::vector<TextSplit> splits; ///< of the steps that split
        bool used = false;
    };
    struct Encoding {
        Scratch& scratch;
        std::vector<i32>& ids;
        MatchEffort effort;
        std::vector<bool>* inside; ///< of encode_chat(); otherwise null, and there are no spans
    };
    using Spans = std::span<const TextSpan>; ///< of a part of text
    /// Whether words are encoded independently of each other, for cut().
    enum class Words { unknown, apart, if_divided };

    JsonTokenizer(TokenizerJson json, const std::string& place)
        : steps_(std::move(json.steps)), normalizer_(json.normalizer, place), encoder_(json, place),
          kind_(json.unigram ? "unigram:" : "bpe:"), name_(json.unigram      ? "unigram"
                                                           : json.byte_level ? "byte-level BPE"
                                                                             : "BPE"),
          tokens_(std::move(json.tokens)), strips_space_(json.strips_space), bos_(json.bos), eos_(json.eos)
    {
        for (const Step& step : steps_)
            if (step.kind == Step::Kind::split)
                splits_.emplace_back(step.rule, place);
        MatchEffort effort = MatchEffort::for_text(0);
        for (const TokenizerJson::Added& token : json.added) {
            // As `tokenizers` does it, with what is put in front of a text.
            const std::string text =
                token.normalized ? normalizer_.apply(token.text, false, effort) : token.text;
            if (text.empty())
                continue;
            const auto pass = static_cast<std::size_t>(token.normalized);
            added_[pass].add(text, static_cast<i32>(found_.size()));
            finds_[pass] = finds_[pass] || !token.special;
            found_.push_back({token.id, token.left, token.right, token.special});
            if (token.special)
                specials_[token.id] = token.text;
            if (!token.special && json.byte_level)
                tokens_[static_cast<std::size_t>(token.id)].text = text;
        }
        words_ = words_of(json);
        for (TokenizerJson::Token& token : tokens_)
            token.piece = {};
    }

    Words words_of(const TokenizerJson& json)
    {
        if (!normalizer_.keeps_words_apart(space_))
            return Words::unknown;
        for (const TokenizerJson::Added& token : json.added) {
            if (!finds_[0] && !finds_[1]) // none of them is searched for
                break;
            if (!token.special && (token.left || token.right))
                return Words::unknown;
            for (const std::string& space : {std::string(" "), space_})
                for (std::size_t at = 1; (at = token.text.find(space, at)) != std::string::npos; ++at)
                    if (std::isalpha(static_cast<unsigned char>(token.text[at - 1])) != 0)
                        return Words::unknown;
        }
        bool apart = false;
        std::size_t split = 0;
        for (const Step& step : steps_) {
            if (step.kind == Step::Kind::mark) {
                if (step.mark != " " && space_ != " ")
                    return Words::unknown;
                space_ = step.mark;
                continue;
            }
            const TextSplit& each = splits_[split++];
            if (step.rule.literal && step.rule.pattern == " " && space_ != " ")
                continue; // no space is left
            if (space_ == " " && each.cuts_before_words())
                apart = true;
            else if (step.rule.literal && step.rule.pattern == space_ && !step.rule.invert &&
                     step.rule.behavior == SplitBehavior::merged_with_next)
                apart = true;
            else if (!each.ignores_words())
                return Words::unknown;
        }
        return apart ? Words::apart : Words::if_divided;
    }

    std::unique_ptr<Scratch> take_scratch() const
    {
        {
            const std::lock_guard lock(mutex_);
            if (!idle_.empty()) {
                std::unique_ptr<Scratch> scratch = std::move(idle_.back());
                idle_.pop_back();
                return scratch;
            }
        }
        return std::unique_ptr<Scratch>(new Scratch{{}, normalizer_, splits_});
    }

    void give_back(std::unique_ptr<Scratch> scratch) const
    {
        const std::lock_guard lock(mutex_);
        idle_.push_back(std::move(scratch));
    }

    /// The parts of spans in [begin, end), relative to `begin`.
    static std::vector<TextSpan> within(Spans spans, std::size_t begin, std::size_t end)
    {
        std::vector<TextSpan> parts;
        for (const TextSpan& span : spans)
            if (span.end > begin && span.begin < end)
                parts.push_back({std::max(span.begin, begin) - begin, std::min(span.end, end) - begin});
        return parts;
    }

    /// Spans of `before` in `after`, which `change` makes of it: a place is where the text up to it ends.
    template <class Change>
    static std::vector<TextSpan> moved(Spans spans, std::string_view before, std::string_view after,
                                       const Change& change)
    {
        const auto place = [&](std::size_t at) -> std::size_t {
            return at == 0              ? 0
                   : at < before.size() ? std::min(change(before.substr(0, at)).size(), after.size())
                                        : after.size();
        };
        std::vector<TextSpan> parts;
        for (const TextSpan& span : spans)
            parts.push_back(before == after ? span : TextSpan{place(span.begin), place(span.end)});
        return parts;
    }

    void add_token(const Found& token, std::size_t begin, std::size_t end, Spans spans,
                   Encoding& encoding) const
    {
        encoding.ids.push_back(token.id);
        if (encoding.inside != nullptr)
            encoding.inside->push_back(is_inside(spans, begin, end));
    }

    /// `pass`: which of the two lists of added tokens to look for.
    void add_text(std::string_view text, std::size_t pass, PartBegin begins, Spans spans,
                  Encoding& encoding) const
    {
        if (text.empty())
            return;
        std::string normalized;
        std::vector<TextSpan> own;
        if (pass == 1 && !normalizer_.empty()) { // the first list matches text before normalization
            const auto normalize = [&](std::string_view part) {
                return encoding.scratch.normalizer.apply(part, begins == PartBegin::inside, encoding.effort);
            };
            normalized = normalize(text);
            spans = own = moved(spans, text, normalized, normalize);
            text = normalized;
        }
        if (pass == added_.size()) {
            if (!text.empty())
                split(text, 0, 0, begins, spans, encoding);
            return;
        }
        std::size_t done = 0;
        for (std::size_t from = 0; finds_[pass] || encoding.inside != nullptr;) {
            const AddedTokens::Found found = added_[pass].find(text, from);
            if (found.length == 0)
                break;
            const Found& token = found_[static_cast<std::size_t>(found.value)];
            std::size_t begin = found.begin, end = found.begin + found.length;
            from = end;
            if (token.special && encoding.inside == nullptr)
                continue;
            if (token.left)
                begin = std::max(done, begin - space_at_end(text.substr(0, begin)));
            if (token.right)
                from = end += space_at_begin(text.substr(end));
            if (begin > done)
                add_text(text.substr(done, begin - done), pass + 1, done == 0 ? begins : PartBegin::segment,
                         within(spans, done, begin), encoding);
            add_token(token, begin, end, spans, encoding);
            done = end;
        }
        add_text(text.substr(done), pass + 1, done == 0 ? begins : PartBegin::segment,
                 within(spans, done, text.size()), encoding);
    }

    /// \pre `text` is not empty
    void split(std::string_view text, std::size_t at, std::size_t splits, PartBegin begins, Spans spans,
               Encoding& encoding) const
    {
        if (at == steps_.size())
            return encode_piece(text, spans, encoding);
        const Step& step = steps_[at];
        if (step.kind == Step::Kind::mark) {
            const std::string marked = with_mark(text, step, begins);
            return split(marked, at + 1, splits, begins,
                         moved(spans, text, marked, [&](auto part) { return with_mark(part, step, begins); }),
                         encoding);
        }
        encoding.scratch.splits[splits].split(text, encoding.effort, [&](std::string_view piece) {
            const auto begin = static_cast<std::size_t>(piece.data() - text.data());
            split(piece, at + 1, splits + 1, begin == 0 ? begins : PartBegin::segment,
                  within(spans, begin, begin + piece.size()), encoding);
        });
    }

    void encode_piece(std::string_view piece, Spans spans, Encoding& encoding) const
    {
        const std::size_t before = encoding.ids.size();
        encoder_.encode(piece, encoding.scratch.pieces, encoding.ids);
        if (encoding.inside == nullptr)
            return;
        std::size_t at = 0;
        for (std::size_t i = before; i < encoding.ids.size(); ++i) {
            const std::size_t end = encoder_.end_of(piece, at, encoding.ids[i]);
            encoding.inside->push_back(is_inside(spans, at, end));
            at = end;
        }
    }

    static std::string with_mark(std::string_view text, const Step& step, PartBegin begins)
    {
        std::string marked;
        marked.reserve(text.size() + text.size() / 2);
        for (const char c : text) {
            if (c == ' ')
                marked += step.mark;
            else
                marked += c;
        }
        const bool here = step.prefix == Step::Prefix::always ||
                          (step.prefix == Step::Prefix::first && begins == PartBegin::text);
        if (here && !marked.starts_with(step.mark))
            marked.insert(0, step.mark);
        return marked;
    }

    std::vector<Step> steps_;
    std::vector<TextSplit> splits_; ///< copied for each thread
    Normalizer normalizer_;
    PieceEncoder encoder_;
    std::string kind_, name_, model_, fingerprint_;
    std::vector<TokenizerJson::Token> tokens_; ///< by id
    std::array<AddedTokens, 2>
        added_; ///< matched before and after normalization; their values are indices of found_
    std::array<bool, 2> finds_{}; ///< some of them are more than text
    std::vector<Found> found_;
    std::unordered_map<i32, std::string> specials_;
    bool strips_space_;
    std::string space_; ///< what a space between words is for the encoder
    Words words_ = Words::unknown;
    i32 bos_, eos_;
    mutable std::mutex mutex_; ///< protects idle_
    mutable std::vector<std::unique_ptr<Scratch>> idle_;
};

} // namespace

std::unique_ptr<Tokenizer> make_json_tokenizer(std::string file, const std::string& place)
{
    return std::make_unique<JsonTokenizer>(std::move(file), place);
}

} // namespace trivium
