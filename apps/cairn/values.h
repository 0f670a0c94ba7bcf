/// Checks of options' values that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cairn {

/// Replaces llama-server's -hf and -hfr in the words of a command line, which CLI11 would read as -h with a value, by
/// --hf-repo, where the command has that.
void expand_hugging_face_flag(int argc, char** argv);

/// Has every option of the command and of its subcommands refuse an empty text, which would mean "not given", except
/// where a text may be empty.
void refuse_empty_values(CLI::App& command);

/// Adds an option whose value is a list with commas between, of which none may be empty; given several times, the lists
/// follow each other.
CLI::Option* add_list(CLI::App& command, const std::string& names, std::vector<std::string>& list,
                      const std::string& help);

/// A check in the words of a function that reads a text and returns a Result.
template <class Parse>
CLI::Validator readable_by(Parse parse) {
  return CLI::Validator(
      [parse](std::string& text) {
        const auto read = parse(text);
        return read ? std::string() : read.error().message;
      },
      "");
}
/// A check of an address to listen on (net/listen_address.h).
CLI::Validator listen_address();
/// A check that the path is that of a file that can be read, in the words of read_text_file.
CLI::Validator existing_file();

}  // namespace cairn
