#include "io/tokens/tokenizer/piece_encoder.hpp"

#include "base/check.hpp"
#include "io/tokens/tokenizer/character.hpp"

#include <algorithm>

namespace trivium {

namespace {

u64 pair_of(std::uint32_t left, std::uint32_t right) { return u64{left} << 32 | right; }

} // namespace

PieceEncoder::PieceEncoder(TokenizerJson& json, const std::string& place)
    : place_(place), byte_level_(json.byte_level),
      byte_fallback_(!json.byte_level && std::ranges::all_of(json.bytes, [](i32 id) { return id >= 0; })),
      fuse_unknown_(json.fuse_unknown), is_unigram_(json.unigram), unknown_(json.unknown), bytes_(json.bytes),
      merges_(json.merges), ignore_merges_(json.ignore_merges)
{
    ascii_.fill(-1);
    has_words_ = !byte_level_ && !is_unigram_ && !ignore_merges_;
    lengths_.resize(json.tokens.size(), 0);
    for (std::size_t at = 0; at < json.tokens.size(); ++at) {
        TokenizerJson::Token& token = json.tokens[at];
        const auto id = static_cast<i32>(at);
        if (is_unigram_ && at < json.scores.size())
            unigram_.note_score(json.scores[at]);
        if (!token.is_piece)
            continue;
        const std::string_view piece = byte_level_ ? token.text : token.piece;
        lengths_[at] = static_cast<std::uint32_t>(piece.size());
        if (ignore_merges_)
            whole_.add(piece, id);
        if (is_unigram_)
            unigram_.add(piece, id, json.scores[at]);
        if (byte_level_)
            continue;
        if (character_length(piece[0]) == piece.size()) {
            const std::uint32_t code = code_point(piece.data());
            (code < common ? ascii_[code] : characters_[code]) = id;
        }
        token.piece.shrink_to_fit();
    }
    for (const i32 id : bytes_)
        if (id >= 0)
            lengths_[static_cast<std::size_t>(id)] = 1;
    if (!has_words_)
        return;
    for (const BpeMerges::Merge& merge : json.merges) {
        const auto text = [&](i32 id) -> const std::string& {
            return json.tokens[static_cast<std::size_t>(id)].piece;
        };
        // A merge of the tokens of bytes, or of special tokens, would join what has no characters.
        has_words_ = has_words_ && !text(merge.left).empty() && !text(merge.right).empty() &&
                     std::ranges::find(bytes_, merge.left) == bytes_.end() &&
                     std::ranges::find(bytes_, merge.right) == bytes_.end();
        note_neighbours(text(merge.result));
    }
}

void PieceEncoder::note_neighbours(std::string_view piece)
{
    for (std::size_t at = 0; at < piece.size();) {
        const std::size_t next = at + character_length(piece[at]);
        if (next >= piece.size())
            break;
        const std::uint32_t left = code_point(&piece[at]), right = code_point(&piece[next]);
        const auto place = [&](std::uint32_t code) { return code == mark_ ? common : code; };
        if (place(left) <= common && place(right) <= common)
            common_neighbours_.set(place(left) * (common + 1) + place(right));
        neighbours_.insert(pair_of(left, right));
        at = next;
    }
}

i32 PieceEncoder::id_of_character(std::uint32_t code) const
{
    if (code < common)
        return ascii_[code];
    const auto found = characters_.find(code);
    return found == characters_.end() ? -1 : found->second;
}

/// Whether merges, or the rules for unknown characters, may join these two.
bool PieceEncoder::joins(std::uint32_t left, std::uint32_t right) const
{
    const auto place = [&](std::uint32_t code) { return code == mark_ ? common : code; };
    const bool neighbours = place(left) <= common && place(right) <= common
                                ? common_neighbours_.test(place(left) * (common + 1) + place(right))
                                : neighbours_.contains(pair_of(left, right));
    return neighbours || (!byte_fallback_ && (id_of_character(left) < 0 || id_of_character(right) < 0));
}

bool PieceEncoder::divides(std::string_view left, std::string_view right) const
{
    return has_words_ && !left.empty() && !right.empty() &&
           !joins(code_point(left.data()), code_point(right.data()));
}

i32 PieceEncoder::id_of_byte(char c) const
{
    const auto byte = static_cast<unsigned char>(c);
    if (bytes_[byte] < 0)
        throw UserError({place_, str("has no token for the byte ", static_cast<int>(byte)),
                         "its vocabulary lacks some of the 256 bytes, and this text has one of them",
                         "leave the text out, or use another tokenizer"});
    return bytes_[byte];
}

std::size_t PieceEncoder::end_of(std::string_view piece, std::size_t& at, i32 id) const
{
    const auto is_unknown = [&](std::size_t place) {
        return place < piece.size() && id_of_character(code_point(&piece[place])) < 0;
    };
    if (byte_level_ || byte_fallback_ || id != unknown_) {
        while (!byte_level_ && !byte_fallback_ && unknown_ < 0 && is_unknown(at))
            at += character_length(piece[at]);
        return std::min(piece.size(), at + lengths_[static_cast<std::size_t>(id)]);
    }
    std::size_t end = at;
    do
        end += end < piece.size() ? character_length(piece[end]) : 0;
    while ((fuse_unknown_ || is_unigram_) && is_unknown(end));
    return std::min(piece.size(), end);
}

void PieceEncoder::encode(std::string_view piece, Scratch& scratch, std::vector<i32>& ids) const
{
    if (!has_words_)
        return encode_word(piece, scratch, ids);
    std::size_t begin = 0;
    std::uint32_t left = code_point(piece.data());
    for (std::size_t at = character_length(piece[0]); at < piece.size();) {
        const std::uint32_t right = code_point(&piece[at]);
        if (!joins(left, right)) {
            encode_word(piece.substr(begin, at - begin), scratch, ids);
            begin = at;
        }
        left = right;
        at += character_length(piece[at]);
    }
    encode_word(piece.substr(begin), scratch, ids);
}

void PieceEncoder::encode_word(std::string_view word, Scratch& scratch, std::vector<i32>& ids) const
{
    if (word.size() > WordCache::longest_word)
        return compute(word, scratch, ids);
    bool hit = false;
    WordCache::Entry& entry = scratch.cache.find(word, hit);
    if (hit) {
        for (const i32 id : entry.found())
            ids.push_back(id);
        return;
    }
    const std::size_t before = ids.size();
    compute(word, scratch, ids);
    WordCache::set(entry, word, std::span<const i32>(ids).subspan(before));
}

void PieceEncoder::compute(std::string_view word, Scratch& scratch, std::vector<i32>& ids) const
{
    if (is_unigram_) {
        for (const Unigram::Part& part : unigram_.encode(word, scratch.unigram)) {
            bool after_unknown = false;
            if (part.id != Unigram::unknown)
                ids.push_back(part.id);
            else
                add_unknown(word.substr(part.begin, part.end - part.begin), ids, after_unknown);
        }
        return;
    }
    if (ignore_merges_) {
        ByteTrie::Node node = ByteTrie::root;
        for (std::size_t at = 0; at < word.size() && node != ByteTrie::no_node; ++at)
            node = whole_.child(node, word[at]);
        if (node != ByteTrie::no_node && whole_.value(node) != ByteTrie::none)
            return ids.push_back(whole_.value(node));
    }
    const std::size_t before = ids.size();
    if (byte_level_)
        for (const char c : word)
            ids.push_back(id_of_byte(c));
    else
        add_characters(word, ids);
    ids.resize(before + merges_.apply(ids.data() + before, ids.size() - before));
}

void PieceEncoder::add_characters(std::string_view word, std::vector<i32>& symbols) const
{
    bool after_unknown = false;
    for (std::size_t at = 0; at < word.size();) {
        const std::size_t length = character_length(word[at]);
        const i32 id = id_of_character(code_point(&word[at]));
        if (id >= 0) {
            symbols.push_back(id);
            after_unknown = false;
        } else
            add_unknown(word.substr(at, length), symbols, after_unknown);
        at += length;
    }
}

void PieceEncoder::add_unknown(std::string_view character, std::vector<i32>& symbols,
                               bool& after_unknown) const
{
    if (byte_fallback_) {
        for (const char c : character)
            symbols.push_back(id_of_byte(c));
        return;
    }
    if (unknown_ < 0) {
        if (is_unigram_)
            throw UserError({place_, "has no token for a character, and none for unknown ones", "",
                             "leave the text out, or use another tokenizer"});
        return;
    }
    if (!after_unknown || !fuse_unknown_)
        symbols.push_back(unknown_);
    after_unknown = true;
}

} // namespace trivium
