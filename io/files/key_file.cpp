#include "io/files/key_file.hpp"

#include "base/check.hpp"
#include "io/files/config_value.hpp"
#include "io/files/files.hpp"

#include <algorithm>

namespace trivium {

void read_key_file(const std::string& path, std::string_view what, const std::vector<KeyPlace>& keys)
{
    const toml::table file = parse_toml(read_file(path, what, max_settings_bytes), path);
    for (const auto& [key, value] : file) {
        const toml::node& node = value; // clang 14 cannot capture structured bindings
        const std::string name(key.str()), place = toml_place(path, node.source());
        const auto known = std::ranges::find_if(keys, [&](const KeyPlace& k) { return k.name == name; });
        if (known == keys.end()) {
            std::vector<std::string> names;
            for (const KeyPlace& k : keys)
                names.push_back(k.name);
            throw UserError({place, str("unknown key '", name, "'"),
                             str("the keys of a ", what, " are ", one_of(names)),
                             did_you_mean(name, names, "remove it")});
        }
        std::visit([&](auto* target) { assign(*target, ConfigValue{node, place, name, ""}); }, known->value);
    }
}

std::string print_key_file(const std::vector<KeyPlace>& keys)
{
    std::string text;
    for (const KeyPlace& key : keys)
        if (const auto* list = std::get_if<std::vector<std::string>*>(&key.value)) {
            text += str(key.name, " = [ # ", key.meaning, "\n");
            for (const std::string& entry : **list)
                text += str("  ", print_value(entry), ",\n");
            text += "]\n";
        } else {
            text += std::visit(
                [&](const auto* value) {
                    return str(key.name, " = ", print_value(*value), " # ", key.meaning, "\n");
                },
                key.value);
        }
    return text;
}

} // namespace trivium
