#pragma once
// What commands that read text have in common.
#include "base/clock.hpp"
#include "cli/command_line.hpp"
#include "io/tokens/text_files.hpp"

namespace trivium {

/// Adds inputs, --key, --include, --exclude and --skip-bad.
void add_selection(Command& command, TextSelection& text);

/// Prints which files were read and left out.
void print_report(const CorpusReport& report);

/// UserError if an output is also one of `others`, or its folder is missing.
void require_own_place(const std::string& output, const std::vector<std::string>& others);

inline constexpr const char* force_remedy = "name another file, or add --force to replace this one";

/// UserError if a file is at `output`, unless `force`.
void require_free(const std::string& output, bool force);

/// Prints the progress of a command a few times per second.
class TextProgress {
public:
    /// `tokens`: -1 if there are none.
    void show(Bytes done, Bytes total, i64 tokens = -1);
    Seconds seconds() const;

private:
    Seconds begin_ = now(), last_ = 0;
};

} // namespace trivium
