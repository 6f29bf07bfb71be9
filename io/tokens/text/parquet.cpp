#include "base/check.hpp"
#include "io/files/files.hpp"
#include "io/files/strict_json.hpp"
#include "io/tokens/json_records.hpp"
#include "io/tokens/text/byte_stream.hpp"
#include "io/tokens/text/parquet_file.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <parquet/column_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>
#include <parquet/types.h>

namespace trivium {

namespace {

constexpr i64 rows_at_once = 64;
constexpr const char* other_column =
    "name the column that holds the text with --key, or leave the file out (--exclude)";

class ArrowColumn final : public ParquetRows {
public:
    ArrowColumn(ParquetFile file, const std::string& name)
        : path_(file.path), file_(std::move(file.reader)), metadata_(file_->metadata()),
          rows_(std::move(file.group_rows)),
          column_(checked_parquet(path_, unreadable_parquet, [&] { return find(name); }))
    {
    }

    bool are_records() const override { return false; }
    const std::vector<i64>& group_rows() const override { return rows_; }

    void begin_group(std::size_t group) override
    {
        group_ = group;
        left_ = rows_[group];
        checked_parquet(path_, damaged(), [&] {
            group_reader_ = file_->RowGroup(static_cast<int>(group));
            const std::shared_ptr<parquet::ColumnReader> reader = group_reader_->Column(column_);
            TRV_CHECK(reader->type() == parquet::Type::BYTE_ARRAY, "the schema says so");
            column_reader_ = std::static_pointer_cast<parquet::ByteArrayReader>(reader);
        });
    }

    std::vector<std::optional<std::string>> next(std::size_t bytes) override
    {
        std::vector<std::optional<std::string>> texts;
        std::size_t taken = 0;
        checked_parquet(path_, damaged(), [&] {
            while (left_ > 0 && taken < bytes)
                taken += read(texts, bytes - taken);
        });
        return texts;
    }

private:
    /// What is wrong with a row group that cannot be read.
    std::string damaged() const { return str("is damaged in row group ", group_); }

    /// The index of the column among the leaves of the schema.
    int find(const std::string& name) const
    {
        const parquet::SchemaDescriptor& schema = *metadata_->schema();
        const parquet::schema::GroupNode& root = *schema.group_node();
        const parquet::schema::Node* found = nullptr;
        std::string names;
        for (int i = 0; i < root.field_count(); ++i) {
            const parquet::schema::Node& each = *root.field(i);
            if (names.size() < 200)
                names += (names.empty() ? "its columns are " : ", ") + in_quotes(each.name());
            if (each.name() != name)
                continue;
            if (found)
                throw UserError({path_, str("has two columns ", in_quotes(name)), "", other_column});
            found = &each;
        }
        if (!found)
            throw UserError({path_, str("has no column ", in_quotes(name)), names, other_column});
        const std::string its = str("its column ", in_quotes(name), " ");
        if (found->is_group() || found->is_repeated())
            throw UserError(
                {path_, its + "is nested", "it has lists, maps or structures, not strings", other_column});
        const auto type = static_cast<const parquet::schema::PrimitiveNode&>(*found).physical_type();
        const auto& logical = found->logical_type();
        const bool plain = !logical || logical->is_none() || logical->is_string() || logical->is_JSON() ||
                           logical->is_enum();
        if (type != parquet::Type::BYTE_ARRAY || !plain)
            throw UserError({path_, its + "does not hold strings",
                             str("its type is ", plain ? parquet::TypeToString(type) : logical->ToString()),
                             other_column});
        return schema.ColumnIndex(*found);
    }

    /// Appends some rows of the group, of about `room` bytes if they are like those before; returns about how
    /// many bytes they take.
    std::size_t read(std::vector<std::optional<std::string>>& texts, std::size_t room)
    {
        std::array<std::int16_t, rows_at_once> levels{};
        std::array<parquet::ByteArray, rows_at_once> values;
        const i64 wanted =
            std::clamp(static_cast<i64>(room) / row_bytes_, i64{1}, std::min(left_, rows_at_once));
        i64 present = 0;
        // Pointers into a page, until the next call.
        const i64 rows = column_reader_->HasNext() ? column_reader_->ReadBatch(wanted, levels.data(), nullptr,
                                                                               values.data(), &present)
                                                   : 0;
        if (rows <= 0)
            refuse_parquet(path_, damaged(), str(left_, " rows of ", rows_[group_], " are missing"));
        const std::int16_t whole =
            column_reader_->descr()->max_definition_level(); // 0: the column has no nulls
        std::size_t bytes = 0;
        i64 used = 0;
        for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
            std::optional<std::string>& text = texts.emplace_back();
            bytes += sizeof text;
            if (whole > 0 && levels[row] != whole)
                continue;
            if (used == present)
                refuse_parquet(path_, damaged(), "it has fewer texts than it states");
            const parquet::ByteArray& value = values[static_cast<std::size_t>(used++)];
            text.emplace(reinterpret_cast<const char*>(value.ptr), value.len);
            bytes += value.len;
        }
        left_ -= rows;
        row_bytes_ = ceil_div(static_cast<i64>(bytes), rows);
        return bytes;
    }

    std::string path_;
    std::unique_ptr<parquet::ParquetFileReader> file_;
    std::shared_ptr<parquet::FileMetaData> metadata_;
    std::vector<i64> rows_; ///< of each row group
    int column_;
    std::size_t group_ = 0;
    std::shared_ptr<parquet::RowGroupReader> group_reader_;   ///< of group_
    std::shared_ptr<parquet::ByteArrayReader> column_reader_; ///< likewise
    i64 left_ = 0;                                            ///< rows of group_
    i64 row_bytes_ = i64{1} << 20;                            ///< of the last rows
};

/// A file from whose end one can read.
void require_file(const std::string& path)
{
    std::error_code ignored;
    file_size(path, "Parquet file");
    if (!std::filesystem::is_regular_file(path, ignored))
        throw UserError({path, "cannot be read as a Parquet file",
                         "it is not a regular file, and is read from its end", "write it to a file first"});
    std::string head;
    ByteStream(path).read(head, 1024);
    require_no_pointer(head, path);
}

ParquetFile open_file(const std::string& path)
{
    require_file(path);
    ParquetFile file{path, nullptr, {}};
    checked_parquet(path, unreadable_parquet, [&] {
        parquet::ReaderProperties properties;
        properties.enable_buffered_stream(); // otherwise a row group is read as a whole
        properties.set_page_checksum_verification(true);
        file.reader = parquet::ParquetFileReader::OpenFile(path, false, properties);
        const auto metadata = file.reader->metadata();
        for (int group = 0; group < metadata->num_row_groups(); ++group)
            file.group_rows.push_back(metadata->RowGroup(group)->num_rows());
    });
    i64 total = 0;
    for (const i64 rows : file.group_rows) {
        if (rows < 0 || rows > std::numeric_limits<i64>::max() - total)
            refuse_parquet(path, "is damaged", str("a row group has ", rows, " rows"));
        total += rows;
    }
    return file;
}

/// A record whose fields are the columns of the file.
std::string fields_of(const ParquetFile& file)
{
    nlohmann::json columns = nlohmann::json::object();
    const parquet::schema::GroupNode& root = *file.reader->metadata()->schema()->group_node();
    for (int i = 0; i < root.field_count(); ++i)
        columns[root.field(i)->name()] = true;
    return columns.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace

void refuse_parquet(const std::string& path, const std::string& problem, const std::string& reason)
{
    throw UserError(
        {path, problem, reason, "get it again from where it came from, or leave it out (--exclude)"});
}

std::unique_ptr<ParquetRows> open_parquet(const std::string& path, const RecordRule& rule)
{
    ParquetFile file = open_file(path);
    if (rule.chats && has_chat(fields_of(file), rule.key))
        return open_parquet_records(std::move(file), rule.key);
    return std::make_unique<ArrowColumn>(std::move(file), rule.key);
}

} // namespace trivium
