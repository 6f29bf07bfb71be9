#include "io/hugging_face/sentencepiece_json.hpp"

#include "base/units.hpp"
#include "io/files/utf8.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

namespace trivium {

namespace {

using OrderedJson = nlohmann::ordered_json;
using Kind = SentencePieceModel::Kind;

constexpr std::size_t longest_piece = 256; ///< bytes; the time to order its merges grows quadratically

/// The offsets of UTF-8 characters, and the end.
std::vector<std::size_t> character_bounds(std::string_view text)
{
    std::vector<std::size_t> bounds;
    for (std::size_t at = 0; at < text.size(); ++at)
        if (!continues_character(text[at]))
            bounds.push_back(at);
    bounds.push_back(text.size());
    return bounds;
}

/// Scores of the pieces that BPE may yield, by text.
using Scores = std::unordered_map<std::string_view, float>;

/// The byte at which SentencePiece joins the last two parts when it encodes the text `piece`; 0 if the result
/// is not this piece.
std::size_t last_merge(std::string_view piece, const Scores& scores)
{
    std::vector<std::size_t> bounds = character_bounds(piece); // of the symbols
    while (bounds.size() > 3) {
        std::size_t best = 0;
        float best_score = 0;
        for (std::size_t i = 1; i + 1 < bounds.size(); ++i) { // the highest score, then the leftmost
            const auto found = scores.find(piece.substr(bounds[i - 1], bounds[i + 1] - bounds[i - 1]));
            if (found != scores.end() && (best == 0 || found->second > best_score)) {
                best = i;
                best_score = found->second;
            }
        }
        if (best == 0)
            return 0;
        bounds.erase(bounds.begin() + static_cast<std::ptrdiff_t>(best));
    }
    return bounds.size() == 3 ? bounds[1] : 0;
}

/// All pairs that yield a piece, in SentencePiece's order of merges. SentencePiece ranks pieces, and takes
/// the leftmost of several places; tokenizer.json ranks pairs. So for each piece, the pair that SentencePiece
/// uses in the piece itself comes first, then pairs with a longer left part before those with a shorter one.
OrderedJson merges_of(const std::vector<std::string_view>& by_score, const Scores& scores)
{
    OrderedJson merges = OrderedJson::array();
    for (const std::string_view piece : by_score) {
        const std::vector<std::size_t> bounds = character_bounds(piece);
        const std::size_t usual = last_merge(piece, scores);
        const auto add = [&](std::size_t at) {
            if (scores.contains(piece.substr(0, at)) && scores.contains(piece.substr(at)))
                merges.push_back({piece.substr(0, at), piece.substr(at)});
        };
        if (usual > 0)
            add(usual);
        for (std::size_t i = bounds.size() - 1; i-- > 1;)
            if (bounds[i] != usual)
                add(bounds[i]);
    }
    return merges;
}

/// Why the model cannot become a tokenizer.json; "" if it can.
std::string obstacle(const SentencePieceModel& model, const std::vector<std::string>& pieces,
                     const Scores& scores)
{
    if (!model.is_bpe)
        return "its pieces were not made by byte-pair encoding";
    if (model.has_rules || model.space_as_suffix || !model.escape_whitespaces)
        return "it has normalization rules, or marks spaces in an unusual way";
    std::set<float> of_merges;
    std::size_t count = 0;
    for (std::size_t id = 0; id < pieces.size(); ++id) {
        const Kind kind = model.pieces[id].kind;
        if (pieces[id].size() > longest_piece || first_invalid_utf8(pieces[id]) >= 0)
            return "it has a piece that is very long, or not UTF-8";
        if (kind == Kind::unused ||
            (kind == Kind::user_defined && (model.add_dummy_prefix || model.remove_extra_whitespaces)))
            return "it has unused or user-defined pieces";
        if (kind != Kind::normal)
            continue;
        const std::vector<std::size_t> bounds = character_bounds(pieces[id]);
        for (std::size_t i = 1; i < bounds.size(); ++i)
            if (!scores.contains(
                    std::string_view(pieces[id]).substr(bounds[i - 1], bounds[i] - bounds[i - 1])))
                return "it has a piece with a character that is not a piece";
        if (bounds.size() > 2) {
            of_merges.insert(model.pieces[id].score);
            ++count;
        }
    }
    return of_merges.size() == count ? "" : "it has merges of equal score";
}

/// The normalizer that corresponds to the model's settings.
OrderedJson normalizer_of(const SentencePieceModel& model, bool every_byte)
{
    OrderedJson steps = OrderedJson::array();
    const auto replace = [&](const char* kind, std::string_view what, const char* with) {
        steps.push_back({{"type", "Replace"}, {"pattern", {{kind, what}}}, {"content", with}});
    };
    if (model.remove_extra_whitespaces) {
        replace("Regex", "\\A +", "");
        replace("Regex", " {2,}", " ");
    }
    if (model.add_dummy_prefix || !every_byte) // then Tokenizer::encode treats U+2581 as a space
        replace("String", space_mark, " ");
    if (model.remove_extra_whitespaces)
        replace("Regex", " +\\z", "");
    if (model.add_dummy_prefix)
        steps.push_back({{"type", "Prepend"}, {"prepend", " "}});
    return steps.empty() ? OrderedJson() : OrderedJson{{"type", "Sequence"}, {"normalizers", steps}};
}

OrderedJson decoder_of(const SentencePieceModel& model)
{
    OrderedJson steps = OrderedJson::array({{{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
    if (model.add_dummy_prefix)
        steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    return {{"type", "Sequence"}, {"decoders", steps}};
}

/// Adds the special token `text` at the beginning of each text.
OrderedJson post_processor_of(const std::string& text, i64 id)
{
    const auto special = [&](int type) {
        return OrderedJson{{"SpecialToken", {{"id", text}, {"type_id", type}}}};
    };
    const auto sequence = [&](const char* name, int type) {
        return OrderedJson{{"Sequence", {{"id", name}, {"type_id", type}}}};
    };
    return {{"type", "TemplateProcessing"},
            {"single", OrderedJson::array({special(0), sequence("A", 0)})},
            {"pair", OrderedJson::array({special(0), sequence("A", 0), special(1), sequence("B", 1)})},
            {"special_tokens", {{text, {{"id", text}, {"ids", {id}}, {"tokens", {text}}}}}}};
}

OrderedJson added_token(const std::string& text, i64 id, bool special)
{
    return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
            {"rstrip", false}, {"normalized", false}, {"special", special}};
}

} // namespace

SentencePieceJson print_sentencepiece_json(const SentencePieceModel& model, i64 first)
{
    std::vector<std::string> pieces;
    i64 bytes = 0;
    for (const SentencePieceModel::Piece& piece : model.pieces) {
        pieces.push_back(piece.kind == Kind::normal || piece.kind == Kind::user_defined
                             ? with_spaces(piece.text)
                             : piece.text);
        bytes += piece.kind == Kind::byte ? 1 : 0;
    }
    Scores scores;
    std::vector<std::string_view> by_score;
    for (std::size_t id = 0; id < pieces.size(); ++id)
        if (model.pieces[id].kind == Kind::normal &&
            scores.emplace(pieces[id], model.pieces[id].score).second)
            by_score.push_back(pieces[id]);
    if (const std::string why = obstacle(model, pieces, scores); !why.empty())
        return {"", why};
    std::stable_sort(by_score.begin(), by_score.end(),
                     [&](std::string_view a, std::string_view b) { return scores.at(a) > scores.at(b); });

    OrderedJson added = OrderedJson::array(), unknown;
    std::set<std::string_view> texts;
    for (std::size_t id = 0; id < pieces.size(); ++id) {
        const Kind kind = model.pieces[id].kind;
        if (!texts.insert(pieces[id]).second)
            return {"", "it has a piece twice"};
        if (kind == Kind::unknown)
            unknown = pieces[id];
        if (kind == Kind::unknown || kind == Kind::control || kind == Kind::user_defined)
            added.push_back(added_token(pieces[id], static_cast<i64>(id), kind != Kind::user_defined));
    }
    OrderedJson file{
        {"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", added}};
    file["normalizer"] = normalizer_of(model, bytes == 256);
    file["pre_tokenizer"] = nullptr;
    file["post_processor"] =
        first < 0 ? OrderedJson() : post_processor_of(pieces.at(static_cast<std::size_t>(first)), first);
    file["decoder"] = decoder_of(model);
    OrderedJson bpe{{"type", "BPE"},
                    {"dropout", nullptr},
                    {"unk_token", unknown},
                    {"continuing_subword_prefix", nullptr},
                    {"end_of_word_suffix", nullptr},
                    {"fuse_unk", true},
                    {"byte_fallback", bytes > 0},
                    {"ignore_merges", false}};
    std::string text = file.dump(1);
    text.resize(text.size() - 2); // "\n}"
    std::string inner = bpe.dump(1);
    inner.resize(inner.size() - 2);
    // Prints the vocabulary in the order of ids, to be readable.
    std::string vocab;
    for (std::size_t id = 0; id < pieces.size(); ++id)
        vocab += (id == 0 ? "" : ",\n") + nlohmann::json(pieces[id]).dump() + ": " + std::to_string(id);
    text += ",\n \"model\": " + inner + ",\n \"vocab\": {\n" + vocab +
            "\n },\n \"merges\": " + merges_of(by_score, scores).dump() + "\n}\n}\n";
    return {text, ""};
}

SentencePieceModel byte_pieces()
{
    SentencePieceModel model;
    for (int byte = 0; byte < 256; ++byte)
        model.pieces.push_back({byte_piece(byte), 0, Kind::byte});
    model.pieces.push_back({"<s>", 0, Kind::control});
    model.pieces.push_back({"</s>", 0, Kind::control});
    model.is_bpe = model.byte_fallback = true;
    model.add_dummy_prefix = model.remove_extra_whitespaces = false;
    return model;
}

} // namespace trivium
