#pragma once
// Errors and contracts.
//
// Three kinds of failure, by type:
//   UserError      the input is wrong (config, file content, command line): exit status 2
//   IoError        the system refused (missing file, full disk, failed write): exit status 1
//   InternalError  a bug in Trivium: exit status 1
// Every message names place, problem, reason and remedy.
#include <array>
#include <charconv>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace trivium {

/// Text, a character, or an integer.
template <class T>
inline constexpr bool is_plain_text = std::is_convertible_v<const T&, std::string_view> ||
                                      std::is_same_v<T, char> ||
                                      (std::is_integral_v<T> && !std::is_same_v<T, bool> &&
                                       !std::is_same_v<T, signed char> && !std::is_same_v<T, unsigned char>);

/// Concatenates its arguments with operator<<, texts and integers without a stream. \pre no null pointers
template <class... Args>
std::string str(const Args&... args)
{
    if constexpr ((is_plain_text<Args> && ...)) {
        std::string text;
        const auto add = [&]<class T>(const T& part) {
            if constexpr (std::is_convertible_v<const T&, std::string_view>)
                text += std::string_view(part);
            else if constexpr (std::is_same_v<T, char>)
                text += part;
            else {
                std::array<char, 24> digits; // of 64 bits and the sign
                const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), part).ptr;
                text.append(digits.data(), end);
            }
        };
        (add(args), ...);
        return text;
    } else {
        std::ostringstream out;
        (out << ... << args);
        return out.str();
    }
}

/// The four parts of an error message. `reason` and `remedy` may be empty.
struct Diagnostic {
    std::string place;   ///< file, key, tensor or rank the message is about
    std::string problem; ///< what is wrong
    std::string reason;  ///< why it is wrong
    std::string remedy;  ///< what to do about it
};

/// "place: problem", then one line each for the reason and the remedy, if they are not empty.
std::string format(const Diagnostic& diagnostic);

class Error : public std::runtime_error {
public:
    Error(const std::string& what, int exit_status) : std::runtime_error(what), exit_status_(exit_status) {}
    int exit_status() const { return exit_status_; }

private:
    int exit_status_;
};

class UserError : public Error {
public:
    explicit UserError(const Diagnostic& diagnostic) : Error(format(diagnostic), 2) {}
};

class IoError : public Error {
public:
    explicit IoError(const Diagnostic& diagnostic) : Error(format(diagnostic), 1) {}
};

class InternalError : public Error {
public:
    InternalError(const char* file, int line, const std::string& what);
};

/// Returns `status`, and writes it to the file named by $TRIVIUM_STATUS_FILE, unless that file exists: it
/// keeps the status of the first rank that ends. Launchers report the status of ranks that they killed, or
/// none.
int leave_status(int status);

/// True if expensive contracts are on (the preset `debug`).
#ifdef TRIVIUM_CONTRACTS
inline constexpr bool contracts_on = true;
#else
inline constexpr bool contracts_on = false;
#endif

} // namespace trivium

/// Always on: throws InternalError when `condition` is false.
#define TRV_CHECK(condition, ...)                                                                            \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            throw ::trivium::InternalError(__FILE__, __LINE__,                                               \
                                           ::trivium::str("'" #condition "' is false: ", __VA_ARGS__));      \
    } while (false)

/// Only if `contracts_on`: preconditions on hot paths.
#define TRV_EXPECT(condition, ...)                                                                           \
    do {                                                                                                     \
        if constexpr (::trivium::contracts_on)                                                               \
            TRV_CHECK(condition, __VA_ARGS__);                                                               \
    } while (false)
