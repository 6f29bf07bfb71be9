// Rows of a Parquet file as JSON records, with their lists and structures.
#include "io/chat/conversation.hpp"
#include "io/files/utf8.hpp"
#include "io/tokens/text/parquet_file.hpp"

#include <algorithm>
#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/scalar.h>
#include <parquet/arrow/reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>

namespace trivium {

namespace {

constexpr i64 rows_at_once = 64;

void check(const arrow::Status& status)
{
    if (!status.ok())
        throw std::runtime_error(status.message());
}
template <class T>
T checked(arrow::Result<T> result)
{
    check(result.status());
    return result.MoveValueUnsafe();
}

/// Values of Arrow as JSON. Columns and fields have the types that were written.
class JsonOfArrow {
public:
    ChatJson value(const arrow::Array& array, i64 row)
    {
        if (array.IsNull(row))
            return {};
        switch (array.type_id()) {
        case arrow::Type::STRING:
        case arrow::Type::BINARY: return text(static_cast<const arrow::BinaryArray&>(array).GetView(row));
        case arrow::Type::LARGE_STRING:
        case arrow::Type::LARGE_BINARY:
            return text(static_cast<const arrow::LargeBinaryArray&>(array).GetView(row));
        case arrow::Type::BOOL: return static_cast<const arrow::BooleanArray&>(array).Value(row);
        case arrow::Type::INT8: return static_cast<const arrow::Int8Array&>(array).Value(row);
        case arrow::Type::INT16: return static_cast<const arrow::Int16Array&>(array).Value(row);
        case arrow::Type::INT32: return static_cast<const arrow::Int32Array&>(array).Value(row);
        case arrow::Type::INT64: return static_cast<const arrow::Int64Array&>(array).Value(row);
        case arrow::Type::UINT8: return static_cast<const arrow::UInt8Array&>(array).Value(row);
        case arrow::Type::UINT16: return static_cast<const arrow::UInt16Array&>(array).Value(row);
        case arrow::Type::UINT32: return static_cast<const arrow::UInt32Array&>(array).Value(row);
        case arrow::Type::UINT64: return static_cast<const arrow::UInt64Array&>(array).Value(row);
        case arrow::Type::FLOAT: return static_cast<const arrow::FloatArray&>(array).Value(row);
        case arrow::Type::DOUBLE: return static_cast<const arrow::DoubleArray&>(array).Value(row);
        case arrow::Type::LIST: return list(static_cast<const arrow::ListArray&>(array), row);
        case arrow::Type::LARGE_LIST: return list(static_cast<const arrow::LargeListArray&>(array), row);
        case arrow::Type::FIXED_SIZE_LIST:
            return list(static_cast<const arrow::FixedSizeListArray&>(array), row);
        case arrow::Type::STRUCT: return object(static_cast<const arrow::StructArray&>(array), row);
        case arrow::Type::MAP: return object(static_cast<const arrow::MapArray&>(array), row);
        case arrow::Type::DICTIONARY: {
            const auto& codes = static_cast<const arrow::DictionaryArray&>(array);
            return value(*codes.dictionary(), codes.GetValueIndex(row));
        }
        case arrow::Type::EXTENSION:
            return value(*static_cast<const arrow::ExtensionArray&>(array).storage(), row);
        default: return text(checked(array.GetScalar(row))->ToString()); // string views, times
        }
    }

    /// A text of the values so far that is not UTF-8; empty: there is none.
    const std::string& invalid() const { return invalid_; }

private:
    std::string text(std::string_view view)
    {
        if (first_invalid_utf8(view) < 0)
            return std::string(view);
        invalid_ = view;
        return "";
    }

    template <class List>
    ChatJson list(const List& array, i64 row)
    {
        ChatJson values = ChatJson::array();
        for (i64 i = 0; i < array.value_length(row); ++i)
            values.push_back(value(*array.values(), array.value_offset(row) + i));
        return values;
    }

    /// All structures of a column have the same fields, so a null is a field that this one does not have. But
    /// a message without a content (as one with tool calls) has null there, for which templates look.
    ChatJson object(const arrow::StructArray& array, i64 row)
    {
        ChatJson fields = ChatJson::object();
        for (int i = 0; i < array.num_fields(); ++i) {
            const std::string& name = array.struct_type()->field(i)->name();
            ChatJson field = value(*array.field(i), row);
            if (!field.is_null() || name == "content")
                fields[name] = std::move(field);
        }
        return fields;
    }

    ChatJson object(const arrow::MapArray& array, i64 row)
    {
        ChatJson fields = ChatJson::object();
        for (i64 i = array.value_offset(row); i < array.value_offset(row + 1); ++i) {
            const ChatJson key = value(*array.keys(), i);
            fields[key.is_string() ? key.get<std::string>() : key.dump()] = value(*array.items(), i);
        }
        return fields;
    }

    std::string invalid_;
};

class ArrowRecords final : public ParquetRows {
public:
    ArrowRecords(ParquetFile file, const std::string& key)
        : path_(std::move(file.path)), rows_(std::move(file.group_rows))
    {
        checked_parquet(path_, unreadable_parquet, [&] {
            columns_ = leaves_of(*file.reader->metadata()->schema(), key);
            parquet::ArrowReaderProperties properties(false); // no threads of its own
            properties.set_batch_size(rows_at_once);
            properties.set_pre_buffer(false); // otherwise a row group is read as a whole
            reader_ = reader_of<parquet::arrow::FileReader>(std::move(file.reader), properties);
        });
    }

    bool are_records() const override { return true; }
    const std::vector<i64>& group_rows() const override { return rows_; }

    void begin_group(std::size_t group) override
    {
        group_ = group;
        left_ = rows_[group];
        checked_parquet(path_, damaged(), [&] { batches_ = batches(*reader_, {static_cast<int>(group)}); });
    }

    std::vector<std::optional<std::string>> next(std::size_t) override
    {
        std::vector<std::optional<std::string>> records;
        if (left_ == 0)
            return records;
        checked_parquet(path_, damaged(), [&] {
            std::shared_ptr<arrow::RecordBatch> batch;
            check(batches_->ReadNext(&batch));
            if (!batch || batch->num_rows() == 0 || batch->num_rows() > left_)
                refuse_parquet(path_, damaged(), str(left_, " rows of ", rows_[group_], " are missing"));
            check(batch->Validate());
            for (i64 row = 0; row < batch->num_rows(); ++row)
                records.emplace_back(record(*batch, row));
        });
        left_ -= static_cast<i64>(records.size());
        return records;
    }

private:
    std::string damaged() const { return str("is damaged in row group ", group_); }

    /// The leaves of the columns that are read.
    static std::vector<int> leaves_of(const parquet::SchemaDescriptor& schema, const std::string& key)
    {
        std::vector<int> leaves;
        for (int i = 0; i < schema.num_columns(); ++i) {
            const std::string& name = schema.GetColumnRoot(i)->name();
            if (name == key || std::ranges::find(chat_fields, name) != chat_fields.end())
                leaves.push_back(i);
        }
        return leaves;
    }

    // Arrow's versions differ in how they return these.
    template <class Reader>
    static std::unique_ptr<Reader> reader_of(std::unique_ptr<parquet::ParquetFileReader> file,
                                             const parquet::ArrowReaderProperties& properties)
    {
        arrow::MemoryPool* const pool = arrow::default_memory_pool();
        if constexpr (requires { Reader::Make(pool, std::move(file), properties).status(); }) {
            return checked(Reader::Make(pool, std::move(file), properties));
        } else {
            std::unique_ptr<Reader> made;
            check(Reader::Make(pool, std::move(file), properties, &made));
            return made;
        }
    }
    template <class Reader>
    std::unique_ptr<arrow::RecordBatchReader> batches(Reader& reader, const std::vector<int>& groups) const
    {
        if constexpr (requires { reader.GetRecordBatchReader(groups, groups).status(); }) {
            return checked(reader.GetRecordBatchReader(groups, columns_));
        } else {
            std::unique_ptr<arrow::RecordBatchReader> made;
            check(reader.GetRecordBatchReader(groups, columns_, &made));
            return made;
        }
    }

    /// If a text of it is not UTF-8, that text.
    static std::string record(const arrow::RecordBatch& batch, i64 row)
    {
        JsonOfArrow json;
        ChatJson fields = ChatJson::object();
        for (int i = 0; i < batch.num_columns(); ++i)
            if (ChatJson field = json.value(*batch.column(i), row); !field.is_null())
                fields[batch.column_name(i)] = std::move(field);
        return json.invalid().empty() ? fields.dump() : json.invalid();
    }

    std::string path_;
    std::vector<i64> rows_; ///< of each row group
    std::vector<int> columns_;
    std::unique_ptr<parquet::arrow::FileReader> reader_;
    std::size_t group_ = 0;
    std::unique_ptr<arrow::RecordBatchReader> batches_; ///< of group_
    i64 left_ = 0;                                      ///< rows of group_
};

} // namespace

std::unique_ptr<ParquetRows> open_parquet_records(ParquetFile file, const std::string& key)
{
    return std::make_unique<ArrowRecords>(std::move(file), key);
}

} // namespace trivium
