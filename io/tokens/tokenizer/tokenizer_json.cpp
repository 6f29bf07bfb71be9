#include "io/tokens/tokenizer/tokenizer_json.hpp"

#include "base/check.hpp"
#include "io/files/strict_json.hpp"
#include "io/files/utf8.hpp"
#include "io/tokens/sentencepiece_model.hpp"
#include "io/tokens/stated_eos.hpp"
#include "io/tokens/tokenizer/tokenizer_members.hpp"
#include "io/tokens/tokenizer/tokenizer_steps.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <unordered_map>

namespace trivium {

namespace {

using Json = nlohmann::json;
using Kind = TokenizerJson::Token::Kind;

/// Names of special tokens in known models, the most likely first.
constexpr std::array eos_names{"<|end_of_text|>", "<|endoftext|>", "</s>",
                               "<eos>",           "<|eos|>",       "<\uff5cend\u2581of\u2581sentence\uff5c>"};
constexpr std::array bos_names{"<|begin_of_text|>",
                               "<|startoftext|>",
                               "<s>",
                               "<bos>",
                               "<|bos|>",
                               "<\uff5cbegin\u2581of\u2581sentence\uff5c>"};

/// GPT-2's byte-level alphabet: maps each byte to a printable character. Printable bytes map to themselves,
/// the others to U+0100 and above.
struct Alphabet {
    std::array<std::string, 256> letters;
    std::unordered_map<std::string_view, char> bytes;

    Alphabet()
    {
        unsigned next = 0x100;
        for (unsigned byte = 0; byte < 256; ++byte) {
            const bool prints = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
            const unsigned letter = prints ? byte : next++;
            std::string& text = letters[byte];
            if (letter < 0x80)
                text = static_cast<char>(letter);
            else
                text = {static_cast<char>(0xc0 | letter >> 6), static_cast<char>(0x80 | (letter & 0x3f))};
        }
        for (unsigned byte = 0; byte < 256; ++byte)
            bytes.emplace(letters[byte], static_cast<char>(byte));
    }

    /// The bytes of a token spelled in this alphabet; nullopt if it contains other characters.
    std::optional<std::string> bytes_of(std::string_view token) const
    {
        std::string text;
        for (std::size_t at = 0; at < token.size();) {
            const std::size_t length = static_cast<unsigned char>(token[at]) < 0x80 ? 1 : 2;
            const auto found = bytes.find(token.substr(at, length));
            if (found == bytes.end())
                return {};
            text += found->second;
            at += length;
        }
        return text;
    }
};

const Alphabet& alphabet()
{
    static const Alphabet instance;
    return instance;
}

/// `tokenizers` reads the digits of a score as an integer and divides it by a power of ten, which rounds
/// twice. Sums of scores that are equal but for rounding decide between divisions of a text.
double as_serde_reads(double score)
{
    char text[32];
    const char* const end =
        std::to_chars(text, text + sizeof text, std::abs(score), std::chars_format::scientific).ptr;
    u64 digits = 0;
    int places = 0; // behind the point
    const char* at = text;
    for (bool behind = false; at != end && *at != 'e'; ++at) {
        if (*at == '.') {
            behind = true;
            continue;
        }
        digits = 10 * digits + static_cast<u64>(*at - '0');
        places += behind;
    }
    int exponent = 0;
    if (at != end)
        std::from_chars(at + (at[1] == '+' ? 2 : 1), end, exponent);
    exponent -= places;
    if (std::abs(exponent) > 22) // such powers are not exact; no score is as small or as large
        return score;
    double power = 1;
    for (int i = 0; i < std::abs(exponent); ++i)
        power *= 10;
    const auto number = static_cast<double>(digits);
    return std::copysign(exponent < 0 ? number / power : number * power, score);
}

class Reader : TokenizerMembers {
public:
    Reader(const Json& file, const std::string& place) : TokenizerMembers(place), file_(file) {}

    TokenizerJson read()
    {
        const Json& model = member(file_, "model");
        check_model(model);
        decoding_ = read_tokenizer_steps(file_, place_, out_);
        if (out_.unigram)
            read_pieces(model);
        else {
            read_vocabulary(member(model, "vocab"));
            read_merges(member(model, "merges"));
            out_.ignore_merges = flag(model, "ignore_merges", false);
            out_.fuse_unknown = flag(model, "fuse_unk", false);
        }
        read_bytes(model);
        read_added();
        find_special_tokens();
        return std::move(out_);
    }

private:
    void check_model(const Json& model)
    {
        const std::string type =
            model.is_object() && model.contains("type") ? text(model, "type") : "BPE"; // early files lack it
        out_.unigram = type == "Unigram";
        if (type != "BPE" && !out_.unigram)
            unsupported("a model of type " + in_quotes(type), "");
        if (const auto dropout = model.find("dropout");
            dropout != model.end() && !dropout->is_null() && *dropout != 0)
            unsupported("dropout", "the same text would get other ids each time");
        for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
            if (const auto affix = model.find(name);
                affix != model.end() && !affix->is_null() && *affix != "")
                unsupported(str("a ", name), "");
    }

    /// A token's id. Gaps are allowed, but an id must not make the table much larger than the file.
    i32 id_of(const std::string& token, const Json& value, std::size_t tokens) const
    {
        if (!value.is_number_integer() ||
            (value.is_number_unsigned() ? value.get<u64>() >> 31 != 0 : value.get<i64>() < 0))
            damaged(str("has the id ", shown(value), " for the token ", in_quotes(token)));
        const i64 id = value.get<i64>(), max_id = 2 * static_cast<i64>(tokens) + 1024;
        if (id > max_id)
            damaged(str("has the id ", id, " for the token ", in_quotes(token)),
                    str("it has ", tokens, " tokens"));
        return static_cast<i32>(id);
    }

    TokenizerJson::Token& slot(i32 id)
    {
        const auto at = static_cast<std::size_t>(id);
        if (at >= out_.tokens.size())
            out_.tokens.resize(at + 1);
        return out_.tokens[at];
    }

    /// What a token that is not of the byte-level alphabet decodes to.
    std::string decoded(std::string token) const
    {
        if (const int byte = byte_of_piece(token); byte >= 0 && decoding_.bytes)
            return {static_cast<char>(byte)};
        for (const auto& [what, by] : decoding_.replaced)
            for (std::size_t at = 0; (at = token.find(what, at)) != std::string::npos; at += by.size())
                token.replace(at, what.size(), by);
        return token;
    }

    void add_token(const std::string& token, i32 id)
    {
        TokenizerJson::Token& entry = slot(id);
        if (entry.kind != Kind::absent)
            damaged(str("has the id ", id, " for two tokens"), in_quotes(token) + " is one of them");
        if (out_.byte_level) {
            const std::optional<std::string> bytes = alphabet().bytes_of(token);
            entry = {Kind::plain, bytes.value_or(token), bytes.has_value()};
        } else
            entry = {Kind::plain, decoded(token), !token.empty(), token};
        ids_.emplace(token, id);
    }

    void read_vocabulary(const Json& vocabulary)
    {
        if (!vocabulary.is_object())
            damaged("has a 'vocab' that is not a table of tokens");
        ids_.reserve(vocabulary.size());
        for (const auto& [token, value] : vocabulary.items())
            add_token(token, id_of(token, value, vocabulary.size()));
    }

    /// The vocabulary of a unigram model: a list of [piece, score].
    void read_pieces(const Json& model)
    {
        const Json& pieces = member(model, "vocab");
        if (!pieces.is_array())
            damaged("has a 'vocab' that is not a list of pieces");
        for (const Json& piece : pieces) {
            if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number())
                damaged(str("has an entry of 'vocab' (number ", out_.tokens.size(),
                            ") that is not a piece with its score"));
            if (ids_.contains(piece[0].get<std::string>()))
                damaged("has two pieces " + in_quotes(piece[0].get<std::string>()));
            add_token(piece[0].get<std::string>(), static_cast<i32>(out_.tokens.size()));
            out_.scores.push_back(as_serde_reads(piece[1].get<double>()));
        }
        out_.fuse_unknown = true;
        if (const auto unknown = model.find("unk_id"); unknown != model.end() && !unknown->is_null()) {
            if (!unknown->is_number_integer() || *unknown < 0 || *unknown >= out_.tokens.size())
                damaged("has an 'unk_id' that is not the id of a piece");
            out_.unknown = unknown->get<i32>();
        }
    }

    void read_bytes(const Json& model)
    {
        out_.bytes.fill(-1);
        if (!out_.byte_level && !flag(model, "byte_fallback", false))
            return read_unknown(model);
        for (int byte = 0; byte < 256; ++byte) {
            const auto found = ids_.find(out_.byte_level ? alphabet().letters[static_cast<std::size_t>(byte)]
                                                         : byte_piece(byte));
            if (found != ids_.end())
                out_.bytes[static_cast<std::size_t>(byte)] = found->second;
        }
        read_unknown(model);
    }

    void read_unknown(const Json& model)
    {
        const auto unknown = model.find("unk_token");
        if (out_.unigram || out_.byte_level || unknown == model.end() || unknown->is_null())
            return;
        const auto found = ids_.find(text(model, "unk_token"));
        if (found == ids_.end())
            damaged("has an 'unk_token' that is not in the vocabulary");
        out_.unknown = found->second;
    }

    i32 merged_token(const std::string& token, std::size_t rank) const
    {
        const auto found = ids_.find(token);
        if (found == ids_.end())
            damaged(str("has a merge (number ", rank, ") of ", in_quotes(token)),
                    "which is not in the vocabulary");
        return found->second;
    }

    /// A merge is "left right" or, in later files, ["left", "right"].
    void read_merges(const Json& merges)
    {
        if (!merges.is_array())
            damaged("has 'merges' that are not a list");
        out_.merges.reserve(merges.size());
        for (const Json& merge : merges) {
            const std::size_t rank = out_.merges.size();
            std::string left, right;
            if (merge.is_string()) {
                const auto& line = merge.get_ref<const std::string&>();
                if (line.starts_with("#version"))
                    continue;
                const std::size_t space = line.find(' ');
                if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
                    damaged(str("has a merge (number ", rank, ") ", in_quotes(line)),
                            "it must be of two tokens");
                left = line.substr(0, space);
                right = line.substr(space + 1);
            } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                       merge[1].is_string()) {
                left = merge[0].get<std::string>();
                right = merge[1].get<std::string>();
            } else {
                damaged(str("has a merge (number ", rank, ") that is not a pair of tokens"));
            }
            out_.merges.push_back(
                {merged_token(left, rank), merged_token(right, rank), merged_token(left + right, rank)});
        }
    }

    /// added_tokens that are "special" become special tokens, which no text encodes to, unless BPE yields
    /// them too (some files mark "!" as special, for padding).
    void read_added()
    {
        const auto list = file_.find("added_tokens");
        if (list == file_.end() || list->is_null())
            return;
        if (!list->is_array())
            damaged("has 'added_tokens' that are not a list");
        made_.resize(out_.tokens.size());
        for (const i32 id : out_.bytes)
            if (id >= 0)
                made_[static_cast<std::size_t>(id)] = true;
        for (std::size_t id = 0; !out_.byte_level && !out_.unigram && id < out_.tokens.size(); ++id)
            if (const std::string& piece = out_.tokens[id].piece;
                !piece.empty() && first_character(piece) == piece.size())
                made_[id] = true; // one character
        for (const BpeMerges::Merge& merge : out_.merges)
            made_[static_cast<std::size_t>(merge.result)] = true;
        const std::size_t tokens = ids_.size() + list->size();
        for (const Json& token : *list) {
            const std::string content = text(token, "content");
            const i32 id = id_of(content, member(token, "id"), tokens);
            const auto known = ids_.find(content);
            if (content.empty() ||
                (known == ids_.end() ? slot(id).kind != Kind::absent : known->second != id))
                damaged(str("adds a token ", in_quotes(content), " with the id ", id),
                        "the token has another id, or the id another token");
            ids_.emplace(content, id);
            if (flag(token, "special", false)) {
                out_.added.push_back({content, id, flag(token, "normalized", false),
                                      flag(token, "lstrip", false), flag(token, "rstrip", false), true});
                if (!is_made(id))
                    slot(id) = {Kind::special, "", false};
                continue;
            }
            if (flag(token, "single_word", false))
                unsupported(str("an added token ", in_quotes(content), " with 'single_word'"), "");
            out_.added.push_back({content, id, flag(token, "normalized", true), flag(token, "lstrip", false),
                                  flag(token, "rstrip", false)});
            slot(id).kind = Kind::plain;
            slot(id).text = out_.byte_level ? content : decoded(content);
        }
    }

    bool is_made(i32 id) const
    {
        return static_cast<std::size_t>(id) < made_.size() && made_[static_cast<std::size_t>(id)];
    }

    template <class Names>
    std::optional<i32> special_token(const Names& names) const
    {
        for (const char* name : names)
            if (const auto found = ids_.find(name);
                found != ids_.end() &&
                out_.tokens[static_cast<std::size_t>(found->second)].kind == Kind::special)
                return found->second;
        return {};
    }

    /// The token that with_eos states, which becomes special.
    std::optional<i32> stated_eos()
    {
        const auto statement = file_.find(eos_statement);
        if (statement == file_.end())
            return {};
        const std::string name = text(*statement, "eos_token");
        const auto added = std::ranges::find_if(
            out_.added, [&](const TokenizerJson::Added& token) { return token.text == name; });
        if (added == out_.added.end() || is_made(ids_.at(name)))
            throw UserError({place_, str("has no special token ", in_quotes(name)),
                             "the end-of-text token must be one of its added_tokens", special_names()});
        added->special = true;
        const i32 id = ids_.at(name);
        slot(id) = {Kind::special, "", false};
        return id;
    }

    /// The first special token of the post-processor's template before the text, or after it.
    std::optional<i32> template_token(bool after) const
    {
        const auto processor = file_.find("post_processor");
        if (processor == file_.end() || !processor->is_object())
            return {};
        std::vector<const Json*> steps{&*processor};
        if (const auto list = processor->find("processors"); list != processor->end() && list->is_array())
            for (const Json& step : *list)
                steps.push_back(&step);
        for (const Json* step : steps) {
            const auto single = step->is_object() ? step->find("single") : step->end();
            if (!step->is_object() || single == step->end() || !single->is_array())
                continue;
            bool is_after = false;
            for (const Json& part : *single) {
                if (!part.is_object())
                    continue;
                is_after = is_after || part.contains("Sequence");
                const auto token = part.find("SpecialToken");
                if (token == part.end() || is_after != after)
                    continue;
                const auto found = ids_.find(text(*token, "id"));
                if (found != ids_.end() &&
                    out_.tokens[static_cast<std::size_t>(found->second)].kind == Kind::special)
                    return found->second;
            }
        }
        return {};
    }

    /// For remedies: a few names of special tokens.
    std::string special_names() const
    {
        std::string list;
        std::size_t count = 0;
        for (const TokenizerJson::Added& token : out_.added)
            if (token.special && ++count <= 8)
                list += (list.empty() ? "" : ", ") + token.text;
        return list.empty() ? ""
                            : str("name the token that ends a document with --eod; its special tokens are ",
                                  list, count > 8 ? ", …" : "");
    }

    /// Sets bos and eos.
    void find_special_tokens()
    {
        std::optional<i32> eos = stated_eos();
        if (!eos)
            eos = template_token(true);
        if (!eos)
            eos = special_token(eos_names);
        std::vector<i32> special;
        for (std::size_t id = 0; id < out_.tokens.size(); ++id)
            if (out_.tokens[id].kind == Kind::special)
                special.push_back(static_cast<i32>(id));
        if (!eos && special.size() == 1)
            eos = special.front();
        if (!eos && !special.empty())
            throw UserError(
                {place_, "does not say which token ends a document",
                 "none of its special added_tokens is <|end_of_text|>, <|endoftext|>, </s> or similar",
                 special_names()});
        if (!eos)
            damaged("has no end-of-text token", "none of its added_tokens is special");
        out_.eos = *eos;
        std::optional<i32> bos = template_token(false);
        out_.begins_with_bos = bos.has_value();
        if (!bos)
            bos = special_token(bos_names);
        out_.bos = bos.value_or(*eos);
    }

    const Json& file_;
    TokenizerJson out_;
    std::unordered_map<std::string, i32> ids_; ///< by token, as spelled in the file
    std::vector<bool> made_;                   ///< by id: BPE yields the token
    TokenDecoding decoding_;
};

} // namespace

const std::string& byte_level_letter(int byte)
{
    return alphabet().letters.at(static_cast<std::size_t>(byte));
}

bool looks_like_tokenizer_json(std::string_view bytes)
{
    constexpr const char* blanks = " \t\r\n";
    const std::size_t brace = bytes.find_first_not_of(blanks);
    if (brace == std::string_view::npos || bytes[brace] != '{')
        return false;
    const std::size_t next = bytes.find_first_not_of(blanks, brace + 1);
    return next == std::string_view::npos || bytes[next] == '"' || bytes[next] == '}';
}

TokenizerJson parse_tokenizer_json(const std::string& text, const std::string& place)
{
    const Json file = parse_strict_json(text, place, 32);
    try {
        return Reader(file, place).read();
    } catch (const Json::exception& error) {
        throw UserError({place, "is not laid out as a tokenizer.json", reason_of(error),
                         "get the tokenizer.json of the model again from where it came from"});
    }
}

} // namespace trivium
