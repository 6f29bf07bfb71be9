#include "base/check.hpp"
#include "catch.hpp"
#include "io/files/json_value.hpp"
#include "io/temporary_folder.hpp"

using namespace trivium;
using Json = nlohmann::json;

TEST_CASE("errors in JSON have line, column and reason, but not the library's names")
{
    const auto message = [](const std::string& text) {
        return message_of<UserError>([&] { (void)parse_strict_json(text, "file.json"); });
    };
    CHECK(message(R"({"a": [1, 2.5, "x", null]})").empty());
    CHECK(says(message("{\n  \"a\": 1,\n  \"b\" 2\n}"), "file.json: is not valid JSON at line 3, column 7",
               "reason: "));
    CHECK(says(message(""), "is not valid JSON at line 1, column 1"));
    CHECK(says(message("[1e999]"), "is not valid JSON", "overflow"));
    CHECK(says(message("\"\xff\""), "is not valid JSON at line 1"));
    CHECK(says(message(R"({"a": 1, "a": 2})"), "the key \"a\" twice"));
    CHECK(says(message(std::string(17, '[') + std::string(17, ']')), "nested too deeply"));
    CHECK(says(message(std::string(1'000'000, '[')), "nested too deeply"));
    for (const char* text : {"{", "[1,]", "nul", "{\"a\"}", "[1e999]", "\"\\u12\"", "\"\xc3\x28\""})
        CHECK(!has(message(text), "json.exception"));
}

TEST_CASE("errors about values of another type name the key")
{
    const Json json = Json::parse(
        R"({"step": "seven", "loss": 1.5, "name": 3, "list": {}, "large": 18446744073709551615, "hash": "xyz"})");
    const auto fault = [](auto&& read) -> std::string {
        try {
            read();
        } catch (const JsonFault& f) {
            return f.text;
        }
        return "";
    };
    CHECK(fault([&] { (void)count_at(json, "step"); }) ==
          "has 'step' = \"seven\" where a whole number should be");
    CHECK(fault([&] { (void)integer_at(json, "loss"); }) ==
          "has 'loss' = 1.5 where a whole number should be");
    CHECK(fault([&] { (void)text_at(json, "name"); }) == "has 'name' = 3 where text should be");
    CHECK(fault([&] { (void)list_at(json, "list"); }) == "has 'list' = an object where a list should be");
    CHECK(has(fault([&] { (void)integer_at(json, "large"); }), "'large'"));
    CHECK(has(fault([&] { (void)hash_at(json, "hash"); }), "'hash'"));
    CHECK(fault([&] { (void)count_at(json, "none"); }) == "has no 'none'");
    CHECK(has(fault([&] { (void)count_at(Json(5), "none"); }), "'none'"));
}
