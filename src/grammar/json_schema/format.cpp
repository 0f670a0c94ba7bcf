#include "grammar/json_schema/format.h"

namespace cairn::grammar {

namespace {

std::string date() {
  const std::string leap_year = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
  return "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
         "02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
         leap_year + "-02-29)";
}

std::string time() {
  const std::string hour_minute = "(?:[01][0-9]|2[0-3]):[0-5][0-9]";
  return hour_minute + ":[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[+-]" + hour_minute + ")";
}

std::string duration() {
  const std::string clock = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
  const std::string calendar = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)";
  return "P(?:" + calendar + "(?:" + clock + ")?|" + clock + "|[0-9]+W)";
}

std::string ipv4() {
  const std::string byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return "(?:" + byte + "\\.){3}" + byte;
}

std::string ipv6() {
  const std::string group = "[0-9A-Fa-f]{1,4}";
  const std::string last = "(?:" + group + ":" + group + "|" + ipv4() + ")";
  std::string out = "(?:(?:" + group + ":){6}" + last;
  for (int before = 0; before <= 7; ++before) {  // groups before "::"
    const std::string head = before == 0 ? "" : group + "(?::" + group + "){" + std::to_string(before - 1) + "}";
    const int most = 7 - before;  // groups behind it, an IPv4 address counting two
    out += "|" + head + "::";
    if (most == 0) continue;
    out += "(?:(?:" + group + ":){0," + std::to_string(most - 1) + "}" + group;
    if (most >= 2) out += "|(?:" + group + ":){0," + std::to_string(most - 2) + "}" + ipv4();
    out += ")?";
  }
  return out + ")";
}

std::string hostname() {
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return "(?=.{1,253}$)" + label + "(?:\\." + label + ")*";
}

std::string email() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return atom + "(?:\\." + atom + ")*@" + label + "(?:\\." + label + ")*";
}

/// `more`: characters beyond ASCII, for IRIs.
std::string uri(bool relative, const std::string& more) {
  const std::string unreserved = "A-Za-z0-9\\-._~" + more, sub = "!$&'()*+,;=", percent = "%[0-9A-Fa-f]{2}";
  const std::string character = "(?:[" + unreserved + sub + ":@]|" + percent + ")";
  const std::string no_colon = "(?:[" + unreserved + sub + "@]|" + percent + ")";
  const std::string user = "(?:[" + unreserved + sub + ":]|" + percent + ")*@";
  const std::string name = "(?:[" + unreserved + sub + "]|" + percent + ")*";
  const std::string literal = "\\[(?:" + ipv6() + "|[vV][0-9A-Fa-f]+\\.[" + unreserved + sub + ":]+)\\]";
  const std::string authority = "(?:" + user + ")?(?:" + literal + "|" + name + ")(?::[0-9]*)?";
  const std::string path_more = "(?:/" + character + "*)*";
  const std::string tail = "(?:\\?(?:" + character + "|[/?])*)?(?:#(?:" + character + "|[/?])*)?";
  const std::string network = "//" + authority + path_more, absolute = "/(?:" + character + "+" + path_more + ")?";
  const std::string whole =
      "[A-Za-z][A-Za-z0-9+.\\-]*:(?:" + network + "|" + absolute + "|" + character + "+" + path_more + "|)" + tail;
  if (!relative) return whole;
  return "(?:" + whole + "|(?:" + network + "|" + absolute + "|" + no_colon + "+" + path_more + "|)" + tail + ")";
}

std::string uri_template() {
  const std::string variable =
      "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9][0-9]{0,3}|\\*)?";
  const std::string expression = "\\{[+#./;?&=,!@|]?" + variable + "(?:," + variable + ")*\\}";
  return "(?:[^\\x00-\\x20\"'%<>\\\\^`{|}]|%[0-9A-Fa-f]{2}|" + expression + ")*";
}

/// Expressions of ECMA-262 in outline: classes and groups are closed, groups are at most five deep, and what is
/// repeated stands before its count.
std::string regex() {
  const std::string escape = R"(\\(?:[^\n\rcux]|c[A-Za-z]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}))";
  const std::string set = R"(\[\^?(?:[^\]\\]|)" + escape + R"()*\])";
  const std::string count = R"((?:(?:[*+?]|\{[0-9]{1,3}(?:,(?:[0-9]{1,3})?)?\})\??)?)";
  const std::string single = R"((?:[^\\()\[\]{}*+?|]|)" + escape + "|" + set + ")" + count;
  std::string body = "(?:" + single + R"(|\|)*)";
  for (int depth = 0; depth < 5; ++depth) {
    const std::string group = R"(\((?:\?(?:[:=!]|<[=!]|P?<[A-Za-z_][A-Za-z0-9_]*>))?)" + body + R"(\))" + count;
    body = "(?:" + single + R"(|\||)" + group + ")*";
  }
  return body;
}

}  // namespace

std::optional<std::string> format_pattern(std::string_view format) {
  const std::string beyond_ascii = "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF";
  if (format == "date") return date();
  if (format == "time") return time();
  if (format == "date-time") return date() + "[Tt]" + time();
  if (format == "duration") return duration();
  if (format == "email") return email();
  if (format == "hostname") return hostname();
  if (format == "ipv4") return ipv4();
  if (format == "ipv6") return ipv6();
  if (format == "uuid") return "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}";
  if (format == "uri") return uri(false, "");
  if (format == "uri-reference") return uri(true, "");
  if (format == "iri") return uri(false, beyond_ascii);
  if (format == "iri-reference") return uri(true, beyond_ascii);
  if (format == "uri-template") return uri_template();
  if (format == "regex") return regex();
  if (format == "json-pointer") return "(?:/(?:[^~/]|~[01])*)*";
  if (format == "relative-json-pointer") return "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)";
  return std::nullopt;
}

}  // namespace cairn::grammar
