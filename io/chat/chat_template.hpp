#pragma once
// Chat templates: Jinja texts that render the messages of a chat as the text that a model reads.
#include "io/chat/conversation.hpp"

#include <ctime>
#include <map>
#include <memory>
#include <optional>

namespace trivium {

namespace jinja {
class Template;
}

struct ChatOptions {
    ChatJson tools;                          ///< a list of JSON schemas, or null
    bool add_generation_prompt = false;      ///< ends with the header of an answer
    ChatJson variables = ChatJson::object(); ///< further ones, such as "enable_thinking" or "documents"
    std::optional<std::time_t> now;          ///< for strftime_now; by default the time of the call
};

/// Content of files by name, relative to their folder ("additional_chat_templates/rag.jinja").
using ChatFiles = std::map<std::string, std::string>;
/// Whether these files have a template, which may be damaged.
bool has_chat_template(const ChatFiles& files);

/// Renders as the method apply_chat_template of Hugging Face's transformers does (jinja2's sandbox,
/// trim_blocks, lstrip_blocks, loop controls, `{% generation %}`, JSON as Python writes it). Messages lose
/// keys that are null, and reasoning is given under each of its names ("reasoning_content", "thinking").
/// Immutable: several threads may render concurrently; copies share the parsed templates.
class ChatTemplate {
public:
    /// `place` names the template in messages, `variables` are known to it (special tokens: "bos_token",
    /// "eos_token", …). UserError ("PLACE:LINE") if it is not a valid template.
    ChatTemplate(const std::string& source, const std::string& place,
                 ChatJson variables = ChatJson::object());

    /// `path`: a folder as of a Hugging Face model (chat_template.jinja and additional_chat_templates,
    /// otherwise the "chat_template" of tokenizer_config.json or chat_template.json), a
    /// tokenizer_config.json, or a file with the template. Special tokens come from the tokenizer_config.json
    /// in the same folder, if there is one. UserError if there is no template, or if a file is damaged.
    static ChatTemplate load(const std::string& path);
    /// As load() of a folder; nullopt if it contains no template.
    static std::optional<ChatTemplate> find(const std::string& folder);
    /// The same among files of a folder, by name; `place` precedes the names in messages.
    static std::optional<ChatTemplate> find(const ChatFiles& files, const std::string& place);

    /// The text of the messages (a list of objects). Of several templates, "tool_use" is chosen where there
    /// are tools, otherwise "default". UserError (place: "PLACE:LINE") if the template refuses the messages
    /// (raise_exception), fails, or exceeds a limit of time, depth or size.
    ///
    /// Adapts what templates of text models need: typed parts become one text where the template cannot read
    /// parts, and the arguments of tool calls become objects or strings, as the template needs them.
    std::string render(const ChatJson& messages, const ChatOptions& options = {}) const;

    /// The text of a conversation's messages with the spans of those that are trained: what the assistant
    /// says, with the end of its turn. The conversation's tools and variables go before those of the options.
    /// Adapts and refuses as above. UserError also if the conversation has no messages.
    ///
    /// Templates with `{% generation %}` state the spans. Otherwise each text remembers which message it came
    /// from, and during which message of a loop it was printed: a span begins where the prompt of the
    /// messages before (add_generation_prompt) ends, and ends with the last text of the turn that is not
    /// blank. UserError if a message cannot be found so: where a template prints parts of other messages
    /// within its turn, or does not print it within a loop over the messages. The remedy is a template with
    /// `{% generation %}`.
    ChatText render(const Conversation& conversation, const ChatOptions& options = {}) const;

    /// Whether spans are stated by `{% generation %}`.
    bool has_generation(bool with_tools = false) const;

    /// The source of the template for conversations (without tools), to be kept with a model.
    const std::string& source() const;
    /// By name: "default", "tool_use", …
    const std::map<std::string, std::string>& sources() const;
    /// The special tokens and other variables that the template knows.
    const ChatJson& variables() const;
    /// Where it comes from, for messages.
    const std::string& place() const;

private:
    struct Parts; ///< immutable, shared by copies
    explicit ChatTemplate(std::shared_ptr<const Parts> parts);
    std::shared_ptr<const Parts> parts_;
};

} // namespace trivium
