// For tests with other programs. `save FOLDER`: saves checkpoints of many tilings to
// FOLDER/NUMBER/step-00000001. `dump CHECKPOINT FOLDER`: reads each tensor with CheckpointReader and writes
// it to FOLDER/NUMBER; FOLDER/list has number, type, extents and name.
#include "base/check.hpp"
#include "io/temporary_folder.hpp"
#include "io/tiled_model.hpp"

#include <cstdio>
#include <iostream>

using namespace trivium;

namespace {

void save(const std::string& folder)
{
    for (std::size_t i = 0; i < tilings().size(); ++i)
        save_tiled(str(folder, "/", i), tilings()[i], 1);
}

void dump(const std::string& checkpoint, const std::string& folder)
{
    const CheckpointReader reader = CheckpointReader::open(checkpoint);
    std::string list;
    i64 number = 0;
    for (const CheckpointReader::Entry& entry : reader.tensors()) {
        std::string bytes(static_cast<std::size_t>(element_count(entry.shape) * size_of(entry.type)), '\0');
        reader.read(whole_tensor(entry.name, entry.shape, entry.type, bytes.data()));
        put(str(folder, "/", number), bytes);
        list += str(number, " ", name_of(entry.type), " ", entry.pieces);
        for (const i64 extent : entry.shape)
            list += str(" ", extent);
        list += "\t" + entry.name + "\n";
        ++number;
    }
    put(folder + "/list", list);
}

} // namespace

int main(int argc, char** argv)
{
    try {
        const std::string work = argc > 1 ? argv[1] : "";
        if (work == "save" && argc == 3)
            save(argv[2]);
        else if (work == "dump" && argc == 4)
            dump(argv[2], argv[3]);
        else
            TRV_CHECK(false, "save FOLDER or dump CHECKPOINT FOLDER");
        return 0;
    } catch (const std::exception& error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
