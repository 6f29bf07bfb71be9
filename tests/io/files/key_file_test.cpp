#include "base/check.hpp"
#include "catch.hpp"
#include "io/files/key_file.hpp"
#include "io/temporary_folder.hpp"

using namespace trivium;

namespace {

struct Things {
    std::string name = "a \"b\"\n";
    bool on = true;
    i64 count = i64{1} << 53;
    double rate = 0.1 + 0.2;

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("name", self.name, "what it is called");
        visit("on", self.on, "whether");
        visit("count", self.count, "how many");
        visit("rate", self.rate, "how fast");
    }
};

/// The error for a file with this content.
std::string key_file_error(const std::string& content)
{
    const TemporaryFolder folder;
    put(folder / "things.toml", content);
    Things things;
    return message_of<UserError>(
        [&] { read_key_file(folder / "things.toml", "file of things", key_places(things)); });
}

} // namespace

TEST_CASE("a key file reads back bit for bit")
{
    const TemporaryFolder folder;
    Things things, back;
    const std::string text = print_key_file(key_places(things));
    CHECK(has(text, "count = 9007199254740992 # how many\n"));
    back.name = "";
    back.on = false;
    back.count = 0;
    back.rate = 0;
    put(folder / "things.toml", "# a comment\n" + text);
    read_key_file(folder / "things.toml", "file of things", key_places(back));
    CHECK(back.name == things.name);
    CHECK(back.on);
    CHECK(back.count == things.count);
    CHECK(back.rate == things.rate);
    put(folder / "few.toml", "count = 3\n");
    read_key_file(folder / "few.toml", "file of things", key_places(back));
    CHECK(back.count == 3);
    CHECK(back.rate == things.rate); // missing keys are unchanged
}

TEST_CASE("errors in a key file")
{
    const std::string unknown = key_file_error("on = true\nrat = 1.0\n");
    CHECK(has(unknown, "things.toml:2:"));
    CHECK(has(unknown, "did you mean 'rate'?"));
    CHECK(has(key_file_error("count = \"three\"\n"), "count"));
    CHECK(has(key_file_error("count = 1.5\n"), "count"));
    CHECK(has(key_file_error("[table]\ncount = 1\n"), "unknown key 'table'"));
    CHECK(has(key_file_error("count = = 1\n"), "is not valid TOML"));
    Things things;
    CHECK(has(message_of<UserError>(
                  [&] { read_key_file("/nowhere/things.toml", "file of things", key_places(things)); }),
              "/nowhere/things.toml"));
}
