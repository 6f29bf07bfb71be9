#include "io/tokens/tokenizer.hpp"

#include "base/check.hpp"
#include "io/chat/conversation.hpp"
#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "io/files/strict_json.hpp"
#include "io/files/utf8.hpp"
#include "io/tokens/plain_status.hpp"
#include "io/tokens/sentencepiece_model.hpp"
#include "io/tokens/stated_eos.hpp"
#include "io/tokens/tokenizer/added_tokens.hpp"
#include "io/tokens/tokenizer/json_tokenizer.hpp"
#include "io/tokens/tokenizer/tokenizer_json.hpp"

#include <cctype>
#include <filesystem>
#include <sentencepiece_processor.h>
#include <unordered_set>

namespace trivium {

namespace {

constexpr std::size_t long_text = std::size_t{64} << 10;

class ByteTokenizer final : public Tokenizer {
public:
    i64 vocab_size() const override { return 258; }
    i32 bos() const override { return 256; }
    i32 eos() const override { return 257; }
    std::string name() const override { return "bytes"; }
    std::string fingerprint() const override { return "bytes"; }
    const std::string& model() const override { return model_; }

    void encode_part(std::string_view text, bool, std::vector<i32>& ids) const override
    {
        for (const char c : text)
            ids.push_back(static_cast<unsigned char>(c));
    }

    void encode_chat(std::string_view text, std::span<const TextSpan> spans, std::vector<i32>& ids,
                     std::vector<bool>& inside) const override
    {
        for (std::size_t at = 0; at < text.size();) {
            const std::string_view rest = text.substr(at);
            const i32 id = rest.starts_with(special_text(bos()))   ? bos()
                           : rest.starts_with(special_text(eos())) ? eos()
                                                                   : static_cast<unsigned char>(rest[0]);
            const std::size_t end = at + (id < bos() ? 1 : special_text(id).size());
            ids.push_back(id);
            inside.push_back(is_inside(spans, at, end));
            at = end;
        }
    }
    std::string special_text(i32 id) const override
    {
        return id == bos() ? "<bos>" : id == eos() ? "<eos>" : "";
    }

    std::size_t cut(std::string_view text, std::size_t from) const override
    {
        return from < text.size() ? from : std::string_view::npos;
    }

    std::string decode(std::span<const i32> ids) const override
    {
        std::string text;
        text.reserve(ids.size());
        for (const i32 id : ids) {
            if (id >= 0 && id < 256)
                text += static_cast<char>(id);
            else if (id != bos() && id != eos())
                text += replacement_character;
        }
        return text;
    }

private:
    std::string model_ = "bytes";
};

class SentencePieceTokenizer final : public Tokenizer {
public:
    SentencePieceTokenizer(std::string model, const std::string& place) : model_(std::move(model))
    {
        const auto bad = [&](const std::string& problem, const std::string& reason) {
            throw UserError({place, problem, reason,
                             "name a SentencePiece model, such as `trivium data tokenizer` makes, a "
                             "tokenizer.json, or \"bytes\""});
        };
        require_no_pointer(model_, place);
        if (model_.empty())
            bad("is not a SentencePiece model", "the file is empty");
        const auto status = processor_.LoadFromSerializedProto(model_);
        if (!status.ok())
            bad("is not a SentencePiece model", plain_status(status.ToString()));
        const i32 size = processor_.GetPieceSize();
        if (processor_.eos_id() < 0 || processor_.eos_id() >= size)
            bad("has no end-of-text token", "its eos id is not set");
        pieces_.reserve(static_cast<std::size_t>(size));
        bool every_byte = true;
        for (i32 id = 0; id < size; ++id) {
            pieces_.push_back(piece_text(id));
            note_neighbours(processor_.IdToPiece(id));
            if (processor_.IsControl(id))
                controls_.add(processor_.IdToPiece(id), id);
        }
        for (int byte = 0; byte < 256; ++byte)
            every_byte = every_byte && byte_id(byte) >= 0;
        const std::vector<int> probe = processor_.EncodeAsIds("a");
        dummy_prefix_ = !probe.empty() && processor_.IdToPiece(probe[0]).starts_with(space_mark);
        const SentencePieceModel settings = parse_sentencepiece_model(model_, place);
        exact_ = every_byte && !dummy_prefix_ && !settings.has_rules && !settings.remove_extra_whitespaces;
        fingerprint_ = str("sentencepiece:", hex(hash_bytes(model_)));
    }

    i64 vocab_size() const override { return static_cast<i64>(pieces_.size()); }
    i32 bos() const override { return processor_.bos_id() < 0 ? eos() : processor_.bos_id(); }
    i32 eos() const override { return processor_.eos_id(); }
    std::string name() const override { return str("sentencepiece, ", pieces_.size(), " tokens"); }
    std::string fingerprint() const override { return fingerprint_; }
    const std::string& model() const override { return model_; }

    void encode_part(std::string_view text, bool, std::vector<i32>& ids) const override
    {
        if (!exact_) // a foreign model: encode exactly as SentencePiece does
            return append_words(text, ids);
        // A literal U+2581 would decode to a space, so encode its three bytes instead.
        for (std::size_t begin = 0; begin <= text.size();) {
            const std::size_t mark = text.find(space_mark, begin);
            append_in_blocks(text.substr(begin, mark - begin), ids);
            if (mark == std::string_view::npos)
                break;
            for (const char c : space_mark)
                ids.push_back(byte_id(static_cast<unsigned char>(c)));
            begin = mark + space_mark.size();
        }
    }

    void encode_chat(std::string_view text, std::span<const TextSpan> spans, std::vector<i32>& ids,
                     std::vector<bool>& inside) const override
    {
        for (std::size_t begin = 0; begin < text.size();) {
            const AddedTokens::Found control = controls_.find(text, begin);
            append_marked(text, begin, control.begin, spans, ids, inside);
            begin = control.begin + control.length;
            if (control.length == 0)
                break;
            ids.push_back(control.value);
            inside.push_back(is_inside(spans, control.begin, begin));
        }
    }
    std::string special_text(i32 id) const override
    {
        return id >= 0 && id < vocab_size() && processor_.IsControl(id) ? processor_.IdToPiece(id) : "";
    }

    std::size_t cut(std::string_view text, std::size_t from) const override
    {
        const std::size_t at = exact_ ? boundary(text, from) : text.size();
        return at < text.size() ? at : std::string_view::npos;
    }

    std::string decode(std::span<const i32> ids) const override
    {
        std::string text;
        for (const i32 id : ids)
            text += id >= 0 && id < vocab_size() ? std::string_view(pieces_[static_cast<std::size_t>(id)])
                                                 : replacement_character;
        if (dummy_prefix_ && text.starts_with(' '))
            text.erase(0, 1);
        return text;
    }

private:
    int byte_id(int byte) const
    {
        const int id = processor_.PieceToId(byte_piece(byte));
        return processor_.IsByte(id) ? id : -1;
    }

    std::string piece_text(i32 id) const
    {
        const std::string& piece = processor_.IdToPiece(id);
        if (processor_.IsControl(id))
            return "";
        if (processor_.IsUnknown(id))
            return std::string(replacement_character);
        if (processor_.IsByte(id))
            return {static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))};
        return with_spaces(piece);
    }

    void append(std::string_view text, std::vector<i32>& ids) const
    {
        std::vector<int> found;
        const auto status = processor_.Encode(text, &found);
        TRV_CHECK(status.ok(), "SentencePiece cannot encode: ", plain_status(status.ToString()));
        ids.insert(ids.end(), found.begin(), found.end());
    }

    /// For encode_chat(): text [begin, end) without special tokens.
    void append_marked(std::string_view text, std::size_t begin, std::size_t end,
                       std::span<const TextSpan> spans, std::vector<i32>& ids,
                       std::vector<bool>& inside) const
    {
        while (begin < end) {
            const std::size_t mark = exact_ ? std::min(text.find(space_mark, begin), end) : end;
            sentencepiece::ImmutableSentencePieceText pieces;
            const auto status = processor_.Encode(text.substr(begin, mark - begin), pieces.mutable_proto());
            TRV_CHECK(status.ok(), "SentencePiece cannot encode: ", plain_status(status.ToString()));
            for (const auto& piece : pieces.pieces()) {
                ids.push_back(static_cast<i32>(piece.id()));
                inside.push_back(is_inside(spans, begin + piece.begin(), begin + piece.end()));
            }
            begin = mark;
            for (std::size_t byte = 0; mark < end && byte < space_mark.size(); ++byte, ++begin) {
                ids.push_back(byte_id(static_cast<unsigned char>(space_mark[byte])));
                inside.push_back(is_inside(spans, begin, begin + 1));
            }
        }
    }

    /// The character at `at`, as pieces spell it, and the place of the next one.
    static std::pair<char32_t, std::size_t> character(std::string_view text, std::size_t at)
    {
        const auto lead = static_cast<unsigned char>(text[at]);
        if (lead == ' ')
            return {U'\u2581', at + 1};
        std::size_t length = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
        length = std::min(length, text.size() - at);
        char32_t code = 0; // enough to tell characters apart
        for (std::size_t i = 0; i < length; ++i)
            code = code << 8 | static_cast<unsigned char>(text[at + i]);
        return {text.substr(at, length) == space_mark ? U'\u2581' : code, at + length};
    }

    static u64 neighbours(char32_t left, char32_t right) { return u64{left} << 32 | right; }

    void note_neighbours(std::string_view piece)
    {
        for (std::size_t at = 0, next = 0; at < piece.size(); at = next) {
            const char32_t left = character(piece, at).first;
            next = character(piece, at).second;
            if (next < piece.size())
                neighbours_.insert(neighbours(left, character(piece, next).first));
        }
    }

    /// Whether a character with this first byte composes with none before it, in any normalization: ASCII and
    /// the ideographs U+4000 to U+9FFF.
    static bool stands_alone(char lead)
    {
        const auto byte = static_cast<unsigned char>(lead);
        return byte < 0x80 || (byte >= 0xe4 && byte <= 0xe9);
    }

    /// The first place from `from` on that no piece extends over, so that a cut there changes no id: no piece
    /// has these two characters in a row.
    std::size_t boundary(std::string_view text, std::size_t from) const
    {
        from = character_begin(text, from);
        while (from < text.size()) {
            const auto [left, next] = character(text, from);
            if (next == text.size() || (stands_alone(text[next]) &&
                                        !neighbours_.contains(neighbours(left, character(text, next).first))))
                return next;
            from = next;
        }
        return text.size();
    }

    /// SentencePiece needs several hundred bytes of memory per byte of text, so long text is encoded in
    /// blocks.
    void append_in_blocks(std::string_view text, std::vector<i32>& ids) const
    {
        while (text.size() > long_text) {
            const std::size_t end = boundary(text, long_text);
            append(text.substr(0, end), ids);
            text.remove_prefix(end);
        }
        if (!text.empty())
            append(text, ids);
    }

    /// The same for a foreign model, which may change characters, and may put a space in front of a text: a
    /// block ends before a single space between letters, which that space replaces, if no piece has a space
    /// behind a letter.
    void append_words(std::string_view text, std::vector<i32>& ids) const
    {
        const auto is_letter = [&](std::size_t at) {
            return at < text.size() && std::isalpha(static_cast<unsigned char>(text[at])) != 0;
        };
        const auto joins_space = [&](char letter) { // also in lower case, which the model may make of it
            const auto byte = static_cast<unsigned char>(letter);
            return neighbours_.contains(neighbours(byte, U'\u2581')) ||
                   neighbours_.contains(
                       neighbours(static_cast<unsigned char>(std::tolower(byte)), U'\u2581'));
        };
        while (dummy_prefix_ && text.size() > long_text) {
            std::size_t space = text.find(' ', long_text);
            while (space != std::string_view::npos &&
                   !(is_letter(space - 1) && is_letter(space + 1) && !joins_space(text[space - 1])))
                space = text.find(' ', space + 1);
            if (space == std::string_view::npos)
                break;
            append(text.substr(0, space), ids);
            text.remove_prefix(space + 1);
        }
        append(text, ids);
    }

    std::string model_, fingerprint_;
    sentencepiece::SentencePieceProcessor processor_;
    std::vector<std::string> pieces_;    ///< what each id decodes to
    AddedTokens controls_;               ///< special tokens
    std::unordered_set<u64> neighbours_; ///< characters that follow each other in some piece
    bool dummy_prefix_ = false;          ///< the model adds a space in front of every text
    bool exact_ = false; ///< the model has all bytes, and adds and changes nothing: decoding is exact
};

/// The eos_token of the tokenizer_config.json in the folder of `path`, "" if there is none. It is a string or
/// an object with its content.
std::string configured_eos(const std::string& path)
{
    const std::filesystem::path config = std::filesystem::path(path).parent_path() / "tokenizer_config.json";
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(config, ignored))
        return "";
    const nlohmann::json file = parse_strict_json(
        read_file(config.string(), "tokenizer config", max_tokenizer_bytes), config.string(), 32);
    const auto token = file.is_object() ? file.find("eos_token") : file.end();
    if (!file.is_object() || token == file.end())
        return "";
    const nlohmann::json name = token->is_object() ? token->value("content", nlohmann::json()) : *token;
    return name.is_string() ? name.get<std::string>() : "";
}

} // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec, const std::string& eod)
{
    const auto refuse_eod = [&] {
        if (!eod.empty())
            throw UserError({"--eod " + eod, "applies to a tokenizer.json only",
                             str("'", spec, "' has an end-of-text token of its own"), "leave it out"});
    };
    if (spec == "bytes") {
        refuse_eod();
        return std::make_unique<ByteTokenizer>();
    }
    if (spec.empty())
        throw UserError({"tokenizer", "none is named", "",
                         "set it to \"bytes\", or to the path of a SentencePiece model or a tokenizer.json"});
    const std::string file = read_file(spec, "tokenizer model (nor is it \"bytes\")", max_tokenizer_bytes);
    if (!looks_like_tokenizer_json(file)) {
        refuse_eod();
        return tokenizer_from_model(file, spec);
    }
    const std::string eos = eod.empty() ? configured_eos(spec) : eod;
    if (eos.empty())
        return tokenizer_from_model(file, spec);
    std::unique_ptr<Tokenizer> stated = tokenizer_from_model(with_eos(file, eos), spec);
    if (!eod.empty())
        return stated;
    try { // the text stays as it is if it says the same by itself
        std::unique_ptr<Tokenizer> alone = tokenizer_from_model(file, spec);
        return alone->eos() == stated->eos() ? std::move(alone) : std::move(stated);
    } catch (const UserError&) {
        return stated;
    }
}

bool is_inside(std::span<const TextSpan> spans, std::size_t begin, std::size_t end)
{
    for (const TextSpan& span : spans)
        if (begin < span.end && (end > span.begin || (begin == end && begin == span.begin)))
            return true;
    return false;
}

std::string spelled_out(const Tokenizer& tokenizer, std::span<const i32> ids)
{
    const std::vector<i32> probe = tokenizer.encode("a"); // so that a space after it stays
    std::string text;
    std::vector<i32> plain = probe;
    const auto take = [&] {
        if (plain.size() > probe.size())
            text += tokenizer.decode(plain).substr(tokenizer.decode(probe).size());
        plain = probe;
    };
    for (const i32 id : ids) {
        const std::string special = tokenizer.special_text(id);
        if (special.empty()) {
            plain.push_back(id);
            continue;
        }
        take();
        text += special;
    }
    take();
    return text;
}

std::unique_ptr<Tokenizer> tokenizer_from_model(const std::string& model, const std::string& place)
{
    if (model == "bytes")
        return std::make_unique<ByteTokenizer>();
    if (looks_like_tokenizer_json(model))
        return make_json_tokenizer(model, place);
    return std::make_unique<SentencePieceTokenizer>(model, place);
}

} // namespace trivium
