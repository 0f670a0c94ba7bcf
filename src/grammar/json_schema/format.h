/// `format` of JSON Schema as regular expressions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::grammar {

/// The pattern that strings of a format match from end to end, as regex_reader.h reads it. Nullopt: the format is
/// unknown, or says nothing about a string's characters ("regex"), and so every string has it.
///
/// Each accepts only what the format's standard allows: RFC 3339 (dates, times, durations), RFC 3986 and 3987 (URIs,
/// IRIs), RFC 5321 (e-mail, without quoted and address forms), RFC 1123 (host names), RFC 4291 (IPv6), RFC 4122
/// (UUIDs), RFC 6901 (JSON pointers), RFC 6570 (URI templates). Leap seconds are left out.
std::optional<std::string> format_pattern(std::string_view format);

}  // namespace cairn::grammar
