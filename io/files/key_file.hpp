#pragma once
// Files of `key = value` lines, TOML without tables, for structs that list their keys: machine files.
#include "base/units.hpp"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trivium {

/// A key, the location of its value, and its meaning.
struct KeyPlace {
    std::string name;
    std::variant<bool*, i64*, double*, std::string*, std::vector<std::string>*> value;
    std::string meaning;
};

/// The keys of a struct whose function `keys` calls visit(name, member, meaning) for each, with members of
/// these types. `object` must outlive the list.
template <class Struct>
std::vector<KeyPlace> key_places(Struct& object)
{
    std::vector<KeyPlace> places;
    Struct::keys(object, [&](const char* name, auto& member, const char* meaning) {
        places.push_back({name, &member, meaning});
    });
    return places;
}

/// Sets the keys that the file contains and leaves the others unchanged. `what` names the file's role in
/// messages. UserError on a missing file, wrong syntax (line, column), an unknown key (with the nearest known
/// one), a wrong type.
void read_key_file(const std::string& path, std::string_view what, const std::vector<KeyPlace>& keys);

/// One line per key, with its meaning. read_key_file reads the same values back, bit for bit.
std::string print_key_file(const std::vector<KeyPlace>& keys);

} // namespace trivium
