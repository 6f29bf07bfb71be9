#include "base/bf16.hpp"
#include "base/check.hpp"
#include "io/hugging_face/safetensors.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace trivium {

SafetensorsWriter::SafetensorsWriter(std::string folder, std::vector<SafetensorsEntry> tensors,
                                     Bytes shard_bytes, const std::string& file)
    : folder_(std::move(folder))
{
    TRV_CHECK(shard_bytes > 0, "a shard of ", shard_bytes, " bytes");
    Bytes in_shard = 0;
    for (SafetensorsEntry& tensor : tensors) {
        TRV_CHECK(tensor.type == "F32" || tensor.type == "BF16", tensor.name, " is ", tensor.type);
        const Bytes bytes = element_count(tensor.shape) * (tensor.type == "F32" ? 4 : 2);
        if (shards_.empty() || (in_shard > 0 && bytes > 0 && in_shard + bytes > shard_bytes)) {
            shards_.emplace_back();
            in_shard = 0;
        }
        shards_.back().tensors.push_back(std::move(tensor));
        in_shard += bytes;
        bytes_ += bytes;
    }
    for (std::size_t i = 0; i < shards_.size(); ++i) {
        char name[64];
        std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, shards_.size());
        shards_[i].name = shards_.size() == 1 ? file : name;
    }
    open_next();
}

void SafetensorsWriter::open_next()
{
    // Tensors without elements are complete immediately.
    while (left_ == 0) {
        if (file_ && ++tensor_ < shards_[next_shard_ - 1].tensors.size()) {
            left_ = element_count(shards_[next_shard_ - 1].tensors[tensor_].shape);
            continue;
        }
        if (file_)
            file_->close();
        file_.reset();
        if (next_shard_ == shards_.size())
            return;
        Shard& shard = shards_[next_shard_++];
        file_ = std::make_unique<FileWriter>(folder_ + "/" + shard.name);
        file_->write(print_safetensors_header(shard.tensors, {{"format", "pt"}})); // required by transformers
        tensor_ = 0;
        left_ = element_count(shard.tensors[0].shape);
    }
}

void SafetensorsWriter::write(std::span<const float> values)
{
    std::vector<bf16> narrow;
    while (!values.empty()) {
        TRV_CHECK(file_, "more values than the tensors have");
        const auto count =
            std::min<std::size_t>({values.size(), static_cast<std::size_t>(left_), std::size_t{1} << 18});
        if (shards_[next_shard_ - 1].tensors[tensor_].type == "F32") {
            file_->write(values.data(), static_cast<Bytes>(count * sizeof(float)));
        } else {
            narrow.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
            file_->write(narrow.data(), static_cast<Bytes>(count * sizeof(bf16)));
        }
        values = values.subspan(count);
        left_ -= static_cast<i64>(count);
        open_next();
    }
}

void SafetensorsWriter::close()
{
    TRV_CHECK(!file_, "the tensors are not complete");
    if (shards_.size() < 2)
        return;
    nlohmann::ordered_json index;
    index["metadata"]["total_size"] = bytes_;
    for (const Shard& shard : shards_)
        for (const SafetensorsEntry& tensor : shard.tensors)
            index["weight_map"][tensor.name] = shard.name;
    write_file(folder_ + "/model.safetensors.index.json", index.dump(2) + "\n");
}

} // namespace trivium
