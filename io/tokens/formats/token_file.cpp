#include "io/tokens/formats/token_file.hpp"

#include "base/check.hpp"
#include "io/files/files.hpp"
#include "io/files/plain_file.hpp"
#include "io/tokens/formats/token_types.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace trivium {

namespace {

bool file_exists(const std::string& path)
{
    std::error_code none;
    return std::filesystem::is_regular_file(path, none);
}

PlainFile open_file(const std::string& path, std::string_view what)
{
    return PlainFile::open(path, what, PlainFile::Links::follow);
}

/// The first bytes of a file.
std::string beginning(const PlainFile& file, Bytes most)
{
    std::string bytes(static_cast<std::size_t>(std::min(file.size(), most)), '\0');
    file.read(0, bytes.data(), static_cast<Bytes>(bytes.size()));
    return bytes;
}

TokenFile of_megatron(const std::string& prefix)
{
    const PlainFile index = open_file(prefix + ".idx", "index of Megatron-LM"),
                    ids = open_file(prefix + ".bin", "file of tokens");
    TokenFile found{ids.path(), "Megatron .bin and .idx", read_megatron_index(source_of(index))};
    if (const Bytes stated = found.header.tokens * size_of(found.header.type); stated != ids.size())
        throw UserError(
            {ids.path(), "does not have the tokens of its index",
             str(index.path(), " has ", found.header.tokens, " tokens of ", name_of(found.header.type),
                 ", which is ", stated, " bytes; the file has ", ids.size()),
             "copy both files again whole, or preprocess the text again"});
    return found;
}

/// Ids without a header. `type`: automatic finds it from the content.
TokenFile of_ids(const PlainFile& file, std::string format, TokenType type)
{
    TokenFile found{file.path(), std::move(format), {}};
    found.guessed = type == TokenType::automatic;
    if (found.guessed) {
        const std::string bytes = beginning(file, Bytes{1} << 16);
        type = guess_token_type(reinterpret_cast<const unsigned char*>(bytes.data()),
                                static_cast<Bytes>(bytes.size()));
    }
    if (file.size() % size_of(type) != 0)
        throw UserError(
            {file.path(),
             str("has ", file.size(), " bytes, no multiple of the ", size_of(type), " of ", name_of(type)),
             found.guessed ? str("its content looks like ", name_of(type)) : "data.token_type says so",
             "set data.token_type (--type) to its type, or copy the file again whole"});
    found.header.type = type;
    found.header.tokens = file.size() / size_of(type);
    return found;
}

TokenFile of_datatrove(const PlainFile& file, TokenType headerless)
{
    const std::string& path = file.path();
    const char* const format = "datatrove .ds";
    DatatroveMetadata metadata;
    if (file_exists(path + ".metadata"))
        metadata =
            parse_datatrove_metadata(read_file(path + ".metadata", "file of metadata", max_settings_bytes));
    if (!file_exists(path + ".index")) {
        if (headerless == TokenType::automatic && (metadata.width == 2 || metadata.width == 4))
            headerless = metadata.width == 2 ? TokenType::uint16 : TokenType::uint32;
        return of_ids(file, format, headerless);
    }
    const PlainFile index = open_file(path + ".index", "index of datatrove");
    TokenFile found{path, format, read_datatrove_index(source_of(index))};
    TokenHeader& header = found.header;
    const auto disagree = [&](const std::string& with, const std::string& reason) {
        throw UserError({path, "does not have the tokens of its " + with, reason,
                         "copy its files again whole, or tokenize the text again"});
    };
    const bool narrow = header.tokens <= file.size() / 2 && header.tokens * 2 == file.size();
    if (!narrow && (header.tokens > file.size() / 4 || header.tokens * 4 != file.size()))
        disagree("index", str(index.path(), " ends at token ", header.tokens,
                              ", which has 2 or 4 bytes; the file has ", file.size(), " bytes"));
    header.type = narrow ? TokenType::uint16 : TokenType::uint32;
    if ((metadata.width != 0 && metadata.width != size_of(header.type)) ||
        (metadata.tokens >= 0 && metadata.tokens != header.tokens))
        disagree("metadata", str(path, ".metadata does not say ", header.tokens, " tokens of ",
                                 size_of(header.type), " bytes, as its index does"));
    return found;
}

} // namespace

std::optional<TokenFile> find_token_file(const std::string& path, TokenType headerless)
{
    if (path.ends_with(".idx") ||
        (path.ends_with(".bin") && file_exists(path.substr(0, path.size() - 4) + ".idx")))
        return of_megatron(path.substr(0, path.size() - 4));
    if (!file_exists(path))
        return file_exists(path + ".idx") || file_exists(path + ".bin") ? std::optional(of_megatron(path))
                                                                        : std::nullopt;
    const PlainFile file = open_file(path, "file of tokens");
    const std::string begin = beginning(file, 64);
    i32 number = 0;
    std::memcpy(&number, begin.data(), std::min(begin.size(), sizeof number));
    if (number == llmc_gpt2 || number == llmc_llama3)
        return TokenFile{path, "llm.c .bin", read_llmc_header(source_of(file), number)};
    if (begin.starts_with("\x93NUMPY"))
        return TokenFile{path, "NumPy .npy", read_numpy_header(source_of(file))};
    if (begin.starts_with("Trivium ") || begin.starts_with("\x89HDF"))
        return {};
    const bool is_bin = path.ends_with(".bin"), is_ds = path.ends_with(".ds");
    if (!is_bin && !is_ds && !path.ends_with(".npy"))
        return {};
    require_no_pointer(begin, path);
    if (begin.empty())
        throw UserError({path, "is empty", "", write_foreign_again});
    return is_ds ? of_datatrove(file, headerless)
                 : of_ids(file, is_bin ? "nanoGPT .bin" : "OLMo .npy", headerless);
}

} // namespace trivium
