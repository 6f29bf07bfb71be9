#include "io/tokens/tokenizer_json.hpp"

#include "base/check.hpp"
#include "io/files/strict_json.hpp"
#include "io/tokens/stated_eos.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace trivium {

namespace {

using Json = nlohmann::json;
using i32 = std::int32_t;
using Kind = TokenizerJson::Token::Kind;

constexpr const char* gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

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

class Reader {
public:
    Reader(const Json& file, const std::string& place) : file_(file), place_(place) {}

    TokenizerJson read()
    {
        const Json& model = member(file_, "model");
        check_model(model);
        if (const auto normalizer = file_.find("normalizer"); normalizer != file_.end())
            read_normalizer(*normalizer, false);
        read_pre_tokenizer(member(file_, "pre_tokenizer"), false);
        if (!byte_level_)
            unsupported("no pre_tokenizer ByteLevel", "");
        check_decoder();
        read_vocabulary(member(model, "vocab"));
        read_merges(member(model, "merges"));
        out_.ignore_merges = flag(model, "ignore_merges", false);
        read_added();
        find_special_tokens();
        return std::move(out_);
    }

private:
    [[noreturn]] void damaged(const std::string& problem, const std::string& reason = "") const
    {
        throw UserError(
            {place_, problem, reason, "get the tokenizer.json of the model again from where it came from"});
    }

    [[noreturn]] void unsupported(const std::string& what, const std::string& reason) const
    {
        throw UserError(
            {place_, str("is a tokenizer with ", what, ", which is not supported"),
             reason.empty() ? "a tokenizer.json must be byte-level BPE, like those of GPT-2, Llama 3 and Qwen"
                            : reason,
             "if the model has a tokenizer.model (SentencePiece), like Llama 2, use that instead"});
    }

    const Json& member(const Json& object, const char* name) const
    {
        if (!object.is_object() || !object.contains(name))
            damaged(str("has no '", name, "' where a tokenizer.json has one"),
                    "is it another file of the model?");
        return object.at(name);
    }

    std::string text(const Json& object, const char* name) const
    {
        const Json& value = member(object, name);
        if (!value.is_string())
            damaged(str("has a '", name, "' that is not a string"));
        return value.get<std::string>();
    }

    bool flag(const Json& object, const char* name, bool otherwise) const
    {
        if (!object.contains(name) || object.at(name).is_null())
            return otherwise;
        if (!object.at(name).is_boolean())
            damaged(str("has a '", name, "' that is neither true nor false"));
        return object.at(name).get<bool>();
    }

    /// Only NFC (as in Qwen) or no normalizer is supported.
    void read_normalizer(const Json& step, bool inside)
    {
        if (step.is_null())
            return;
        const std::string type = text(step, "type");
        if (type == "Sequence" && !inside) {
            const Json& steps = member(step, "normalizers");
            if (!steps.is_array())
                damaged("has a Sequence of normalizers that is not a list");
            for (const Json& each : steps)
                read_normalizer(each, true);
        } else if (type == "NFC")
            out_.nfc = true;
        else
            unsupported("the normalizer " + in_quotes(type), "");
    }

    void check_model(const Json& model) const
    {
        const std::string type =
            model.is_object() && model.contains("type") ? text(model, "type") : "BPE"; // early files lack it
        if (type != "BPE")
            unsupported("a model of type " + in_quotes(type), "");
        if (flag(model, "byte_fallback", false))
            unsupported("byte_fallback", "it was made from a SentencePiece model");
        if (const auto dropout = model.find("dropout");
            dropout != model.end() && !dropout->is_null() && *dropout != 0)
            unsupported("dropout", "the same text would get other ids each time");
        for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
            if (const auto affix = model.find(name);
                affix != model.end() && !affix->is_null() && *affix != "")
                unsupported(str("a ", name), "");
    }

    void check_decoder() const
    {
        const auto decoder = file_.find("decoder");
        if (decoder != file_.end() && !decoder->is_null() && text(*decoder, "type") != "ByteLevel")
            unsupported("the decoder " + in_quotes(text(*decoder, "type")), "");
    }

    void add_split(std::string pattern, SplitBehavior behavior, bool literal = false, bool invert = false)
    {
        out_.splits.push_back({std::move(pattern), literal, behavior, invert});
    }

    SplitBehavior behavior(const Json& step) const
    {
        const std::string name = text(step, "behavior");
        constexpr std::array names{"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
                                   "Contiguous"};
        const auto found = std::ranges::find(names, name);
        if (found == names.end())
            unsupported("a pre_tokenizer of behavior " + in_quotes(name), "");
        return static_cast<SplitBehavior>(found - names.begin());
    }

    void read_pre_tokenizer(const Json& step, bool inside)
    {
        if (step.is_null())
            return;
        const std::string type = text(step, "type");
        if (byte_level_)
            unsupported(str("the pre_tokenizer ", in_quotes(type), " after ByteLevel"), "");
        if (type == "Sequence" && !inside) {
            const Json& steps = member(step, "pretokenizers");
            if (!steps.is_array() || steps.size() > 100)
                damaged("has a Sequence of pre_tokenizers that is not a list, or is too long");
            for (const Json& each : steps)
                read_pre_tokenizer(each, true);
        } else if (type == "Split") {
            const Json& pattern = member(step, "pattern");
            const bool literal = pattern.is_object() && pattern.contains("String");
            add_split(text(pattern, literal ? "String" : "Regex"), behavior(step), literal,
                      flag(step, "invert", false));
        } else if (type == "Digits") {
            add_split(R"(\p{N})", flag(step, "individual_digits", false) ? SplitBehavior::isolated
                                                                         : SplitBehavior::contiguous);
        } else if (type == "Punctuation") {
            add_split(R"([$+<=>^`|~\p{P}])",
                      step.contains("behavior") ? behavior(step) : SplitBehavior::isolated);
        } else if (type == "ByteLevel") {
            byte_level_ = true;
            if (flag(step, "add_prefix_space", true))
                out_.prefix_space_at = static_cast<i64>(out_.splits.size());
            if (flag(step, "use_regex", true))
                add_split(gpt2_pattern, SplitBehavior::isolated);
        } else {
            unsupported("the pre_tokenizer " + in_quotes(type), "");
        }
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

    void read_vocabulary(const Json& vocabulary)
    {
        if (!vocabulary.is_object())
            damaged("has a 'vocab' that is not a table of tokens");
        ids_.reserve(vocabulary.size());
        for (const auto& [token, value] : vocabulary.items()) {
            const i32 id = id_of(token, value, vocabulary.size());
            TokenizerJson::Token& entry = slot(id);
            if (entry.kind != Kind::absent)
                damaged(str("has the id ", id, " for two tokens"), in_quotes(token) + " is one of them");
            const std::optional<std::string> bytes = alphabet().bytes_of(token);
            entry = {Kind::plain, bytes.value_or(token), bytes.has_value()};
            ids_.emplace(token, id);
        }
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const auto found = ids_.find(alphabet().letters[byte]);
            out_.bytes[byte] = found == ids_.end() ? -1 : found->second;
        }
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
                out_.added.push_back({content, -1, flag(token, "normalized", false)});
                if (!is_made(id))
                    slot(id) = {Kind::special, "", false};
                continue;
            }
            for (const char* name : {"single_word", "lstrip", "rstrip"})
                if (flag(token, name, false))
                    unsupported(str("an added token ", in_quotes(content), " with '", name, "'"), "");
            out_.added.push_back({content, id, flag(token, "normalized", true)});
            slot(id).kind = Kind::plain;
            slot(id).text = content;
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
        added->id = -1;
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
            if (token.id < 0 && ++count <= 8)
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
        if (!bos)
            bos = special_token(bos_names);
        out_.bos = bos.value_or(*eos);
    }

    const Json& file_;
    const std::string& place_;
    TokenizerJson out_;
    std::unordered_map<std::string, i32> ids_; ///< by token, as spelled in the file
    std::vector<bool> made_;                   ///< by id: BPE yields the token
    bool byte_level_ = false;
};

} // namespace

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
