#include "io/gguf/vocabulary.hpp"

#include "base/check.hpp"
#include "io/tokens/sentencepiece_model.hpp"
#include "io/tokens/stated_eos.hpp"
#include "io/tokens/tokenizer/tokenizer_steps.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

namespace trivium {

namespace {

using Json = nlohmann::json;
using Kind = GgufVocabulary::Kind;

/// Of tokens that merges must not make, such as "</s>": llama.cpp merges what spells any token.
constexpr float lowest_score = -1e6f;

/// How llama.cpp splits text before BPE of bytes.
struct PreTokenizer {
    const char* name;
    bool whole_words;                  ///< text that is a token becomes it without merges (ignore_merges)
    std::vector<std::string> patterns; ///< one after another, as in tokenizer.json
};

const std::vector<PreTokenizer>& pre_tokenizers()
{
    static const std::string suffix = "(?i:'s|'t|'re|'ve|'m|'ll|'d)", first = R"([^\r\n\p{L}\p{N}]?)",
                             marks = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)",
                             paths = R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)",
                             spaces = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
                             upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])",
                             lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
    static const std::string llama3 = suffix + "|" + first + R"(\p{L}+|\p{N}{1,3})" + marks + spaces;
    // Splits as llama3 does: tiktoken's pattern, with its possessive repetitions.
    static const std::string cl100k =
        R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
    static const std::vector<PreTokenizer> all{
        {"gpt-2", false, {gpt2_pattern}},
        {"smollm", false, {R"(\p{N})", gpt2_pattern}},
        {"llama-bpe", true, {llama3}},
        {"dbrx", false, {llama3}},
        {"llama-bpe", true, {cl100k}},
        {"dbrx", false, {cl100k}},
        {"qwen2", false, {suffix + "|" + first + R"(\p{L}+|\p{N})" + marks + spaces}},
        {"gpt-4o",
         false,
         {first + upper + "*" + lower + "+" + suffix + "?|" + first + upper + "+" + lower + "*" + suffix +
          R"(?|\p{N}{1,3})" + paths + spaces}},
        {"tekken",
         true,
         {first + upper + "*" + lower + "+|" + first + upper + "+" + lower + R"(*|\p{N})" + paths + spaces}},
    };
    return all;
}

[[noreturn]] void refuse(const std::string& place, const std::string& reason)
{
    throw UserError({place, "llama.cpp has no such tokenizer", reason,
                     "export with --tokenizer none and give llama.cpp token ids, or export a folder for "
                     "transformers (a name without .gguf)"});
}

/// Whether merges make each token of the vocabulary from its bytes, so that ignore_merges changes nothing.
bool merges_make_all(const TokenizerJson& from)
{
    const BpeMerges merges(from.merges);
    std::unordered_set<i32> added;
    for (const TokenizerJson::Added& token : from.added)
        if (!token.special)
            added.insert(token.id);
    for (std::size_t id = 0; id < from.tokens.size(); ++id) {
        const TokenizerJson::Token& token = from.tokens[id];
        if (token.kind != TokenizerJson::Token::Kind::plain || !token.is_piece ||
            added.contains(static_cast<i32>(id)))
            continue;
        std::vector<i32> ids;
        for (const char byte : token.text)
            ids.push_back(from.bytes[static_cast<unsigned char>(byte)]);
        if (std::ranges::find(ids, -1) != ids.end() || merges.apply(ids.data(), ids.size()) != 1)
            return false;
    }
    return true;
}

std::string pre_tokenizer_of(const TokenizerJson& from, const std::string& place)
{
    for (const NormalizerStep& step : from.normalizer)
        if (step.kind != NormalizerStep::Kind::form || step.form != UnicodeForm::nfc) // NFC: most text has it
            refuse(place, "it normalizes text before it splits it");
    std::vector<std::string> patterns;
    for (const TokenizerJson::Step& step : from.steps) {
        if (step.kind != TokenizerJson::Step::Kind::split)
            refuse(place, "it puts a space in front of text");
        if (step.rule.literal || step.rule.invert || step.rule.behavior != SplitBehavior::isolated)
            refuse(place, "it splits text by a rule other than a pattern that isolates its matches");
        patterns.push_back(step.rule.pattern);
    }
    const PreTokenizer* other = nullptr;
    for (const PreTokenizer& each : pre_tokenizers())
        if (each.patterns == patterns) {
            if (each.whole_words == from.ignore_merges)
                return each.name;
            other = &each;
        }
    if (other && merges_make_all(from))
        return other->name;
    std::string known;
    for (const PreTokenizer& each : pre_tokenizers())
        if (known.find(each.name) == std::string::npos)
            known += str(known.empty() ? "" : ", ", each.name);
    refuse(place, other ? str("its ignore_merges is ", from.ignore_merges ? "true" : "false")
                        : str("Trivium does not know its pattern as one of llama.cpp's (", known, ")"));
}

/// Whether spaces become `space_mark`, and nothing else changes or splits text; then sets the prefix.
bool only_marks_spaces(const TokenizerJson& from, bool& prefix)
{
    using Step = TokenizerJson::Step;
    bool marks = false;
    for (const NormalizerStep& step : from.normalizer) {
        const bool prepends = step.kind == NormalizerStep::Kind::prepend && step.text == space_mark;
        const bool replaces = step.kind == NormalizerStep::Kind::replace && step.pattern.literal &&
                              step.pattern.pattern == " " && step.text == space_mark;
        if (!prepends && !replaces)
            return false;
        prefix = prefix || prepends;
        marks = marks || replaces;
    }
    for (const Step& step : from.steps)
        if (step.kind == Step::Kind::mark && step.mark == space_mark && !marks) {
            prefix = step.prefix != Step::Prefix::never;
            marks = true;
        } else if (!marks || step.kind != Step::Kind::split || !step.rule.literal || step.rule.pattern != " ")
            return false; // where spaces are marks, splitting at spaces does nothing
    return marks;
}

/// SentencePiece ranks tokens, a tokenizer.json ranks pairs: it can be undone if the pairs of a token follow
/// each other.
void set_scores(GgufVocabulary& to, const TokenizerJson& from, const std::string& place)
{
    to.scores.assign(to.tokens.size(), lowest_score);
    float score = 0;
    i32 last = -1;
    for (const BpeMerges::Merge& merge : from.merges)
        if (std::exchange(last, merge.result) != merge.result &&
            std::exchange(to.scores[static_cast<std::size_t>(last)], --score) != lowest_score)
            refuse(place, "its merges rank pairs of tokens, not tokens");
}

void set_merges(GgufVocabulary& to, const Json& merges)
{
    for (const Json& merge : merges)
        if (!merge.is_string())
            to.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
        else if (!merge.get_ref<const std::string&>().starts_with("#version"))
            to.merges.push_back(merge.get<std::string>());
}

/// `text` has been parsed before.
GgufVocabulary of_json(const std::string& text, const std::string& place)
{
    const TokenizerJson from = parse_tokenizer_json(text, place);
    if (from.unigram)
        refuse(place, "it is a unigram model");
    const Json file = Json::parse(text);
    GgufVocabulary to;
    to.begins_with_bos = from.begins_with_bos;
    to.tokens.resize(from.tokens.size());
    to.kinds.assign(from.tokens.size(), Kind::unused);
    const auto set = [&](i64 id, const std::string& token, Kind kind) {
        to.tokens[static_cast<std::size_t>(id)] = token;
        to.kinds[static_cast<std::size_t>(id)] = kind;
    };
    for (const auto& [token, id] : file.at("model").at("vocab").items()) {
        const int byte = from.byte_level ? -1 : byte_of_piece(token);
        set(id.get<i64>(), token,
            byte >= 0 && from.bytes[static_cast<std::size_t>(byte)] == id.get<i64>() ? Kind::byte
                                                                                     : Kind::normal);
    }
    for (const Json& token : file.value("added_tokens", Json::array())) {
        const i64 id = token.at("id").get<i64>();
        const bool special =
            from.tokens[static_cast<std::size_t>(id)].kind == TokenizerJson::Token::Kind::special;
        if (special || !token.value("special", false)) // text yields the others
            set(id, token.at("content").get<std::string>(), special ? Kind::control : Kind::user_defined);
    }
    if (from.byte_level) {
        to.model = "gpt2";
        to.pre = pre_tokenizer_of(from, place);
        set_merges(to, file.at("model").at("merges"));
        return to;
    }
    to.model = "llama";
    to.pre = "default";
    if (std::ranges::find(from.bytes, -1) != from.bytes.end())
        refuse(place, "it has no tokens for single bytes");
    if (!only_marks_spaces(from, to.add_space_prefix))
        refuse(place, "it changes or splits text before it merges characters");
    set_scores(to, from, place);
    to.unknown_id = from.unknown;
    if (from.unknown >= 0)
        to.kinds[static_cast<std::size_t>(from.unknown)] = Kind::unknown;
    return to;
}

GgufVocabulary of_sentencepiece(const std::string& model, const std::string& place)
{
    const SentencePieceModel from = parse_sentencepiece_model(model, place);
    if (!from.is_bpe)
        refuse(place, "its pieces were not made by byte-pair encoding");
    if (from.has_rules || from.remove_extra_whitespaces || from.space_as_suffix || !from.escape_whitespaces)
        refuse(place, "it normalizes text, or marks spaces in an unusual way");
    GgufVocabulary to;
    to.model = "llama";
    to.pre = "default";
    to.add_space_prefix = from.add_dummy_prefix;
    i64 bytes = 0;
    for (const SentencePieceModel::Piece& piece : from.pieces) {
        const auto kind = static_cast<Kind>(piece.kind);
        bytes += kind == Kind::byte ? 1 : 0;
        if (kind == Kind::unknown)
            to.unknown_id = static_cast<i64>(to.tokens.size());
        to.tokens.push_back(kind == Kind::user_defined ? with_spaces(piece.text) : piece.text);
        to.kinds.push_back(kind);
        to.scores.push_back(kind == Kind::normal ? piece.score : lowest_score);
    }
    if (bytes != 256)
        refuse(place, "it has no tokens for single bytes");
    return to;
}

/// The tokenizer "bytes": BPE of bytes without merges, which splits anywhere.
GgufVocabulary of_bytes()
{
    GgufVocabulary to;
    to.model = "gpt2";
    to.pre = "gpt-2";
    for (int byte = 0; byte < 256; ++byte)
        to.tokens.push_back(byte_level_letter(byte));
    to.kinds.assign(256, Kind::normal);
    for (const char* token : {"<s>", "</s>"}) {
        to.tokens.emplace_back(token);
        to.kinds.push_back(Kind::control);
    }
    return to;
}

} // namespace

i64 GgufVocabulary::find(std::string_view token) const
{
    const auto at = std::ranges::find(tokens, token);
    return at == tokens.end() ? -1 : at - tokens.begin();
}

GgufVocabulary gguf_vocabulary(const Tokenizer& tokenizer)
{
    const std::string& model = tokenizer.model();
    const std::string place = "tokenizer (" + tokenizer.name() + ")";
    if (model == "bytes")
        return of_bytes();
    return looks_like_tokenizer_json(model) ? of_json(model, place) : of_sentencepiece(model, place);
}

void pad_vocabulary(GgufVocabulary& vocabulary, i64 size)
{
    if (static_cast<i64>(vocabulary.tokens.size()) > size)
        throw UserError({"tokenizer", str("has ", vocabulary.tokens.size(), " tokens"),
                         str("the model has ", size), "name the tokenizer of the run with --tokenizer"});
    vocabulary.tokens.resize(static_cast<std::size_t>(size));
    vocabulary.kinds.resize(vocabulary.tokens.size(), Kind::unused);
    if (!vocabulary.scores.empty())
        vocabulary.scores.resize(vocabulary.tokens.size(), lowest_score);
    // llama.cpp refuses tokens that are equal, and renames those without text.
    std::unordered_set<std::string> known;
    for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
        std::string& token = vocabulary.tokens[id];
        if (token.empty())
            token = str("[PAD", id, "]");
        while (!known.insert(token).second)
            token += "_";
    }
}

} // namespace trivium
