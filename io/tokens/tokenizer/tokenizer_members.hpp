#pragma once
// Members of a tokenizer.json, with the errors of a damaged one.
#include "base/check.hpp"
#include "io/files/strict_json.hpp"

#include <nlohmann/json.hpp>

namespace trivium {

class TokenizerMembers {
protected:
    using Json = nlohmann::json;

    explicit TokenizerMembers(const std::string& place) : place_(place) {}

    [[noreturn]] void damaged(const std::string& problem, const std::string& reason = "") const
    {
        throw UserError(
            {place_, problem, reason, "get the tokenizer.json of the model again from where it came from"});
    }

    [[noreturn]] void unsupported(const std::string& what, const std::string& reason) const
    {
        throw UserError(
            {place_, str("is a tokenizer with ", what, ", which is not supported"),
             reason.empty()
                 ? "a tokenizer.json must be BPE or Unigram, like those of GPT-2, Llama, Qwen and Gemma"
                 : reason,
             "if the model has a tokenizer.model (SentencePiece), like Llama 2, use that instead"});
    }

    const Json& member(const Json& object, const char* name) const
    {
        if (!object.is_object() || !object.contains(name))
            damaged(str("has no '", name, "' where a tokenizer.json has one"),
                    "is it another file of the model?");
        return object.at(name);
    }

    std::string text(const Json& object, const char* name) const
    {
        const Json& value = member(object, name);
        if (!value.is_string())
            damaged(str("has a '", name, "' that is not a string"));
        return value.get<std::string>();
    }

    bool flag(const Json& object, const char* name, bool otherwise) const
    {
        if (!object.contains(name) || object.at(name).is_null())
            return otherwise;
        if (!object.at(name).is_boolean())
            damaged(str("has a '", name, "' that is neither true nor false"));
        return object.at(name).get<bool>();
    }

    const std::string& place_;
};

} // namespace trivium
