#!/usr/bin/env python3
"""Writes src/grammar/readers/unicode_tables.cpp: scripts, script extensions and binary properties of characters.

usage: unicode_tables.py > src/grammar/readers/unicode_tables.cpp   (needs the package regex, whose tables are those of
the Unicode Character Database)
"""
import sys

import regex
import regex._regex_core as core

# ECMA-262's binary properties that utf8proc does not tell: its long names and its short ones.
BINARY = """Alphabetic Alpha|Bidi_Control Bidi_C|Bidi_Mirrored Bidi_M|Case_Ignorable CI|Cased|Changes_When_Casefolded CWCF|
Changes_When_Casemapped CWCM|Changes_When_Lowercased CWL|Changes_When_Titlecased CWT|Changes_When_Uppercased CWU|Dash|
Default_Ignorable_Code_Point DI|Deprecated Dep|Diacritic Dia|Emoji|Emoji_Component EComp|Emoji_Modifier EMod|
Emoji_Modifier_Base EBase|Emoji_Presentation EPres|Extended_Pictographic ExtPict|Extender Ext|Grapheme_Base Gr_Base|
Grapheme_Extend Gr_Ext|Hex_Digit Hex|IDS_Binary_Operator IDSB|IDS_Trinary_Operator IDST|ID_Continue IDC|ID_Start IDS|
Ideographic Ideo|Join_Control Join_C|Logical_Order_Exception LOE|Lowercase Lower|Math|Noncharacter_Code_Point NChar|
Pattern_Syntax Pat_Syn|Pattern_White_Space Pat_WS|Quotation_Mark QMark|Radical|Regional_Indicator RI|
Sentence_Terminal STerm|Soft_Dotted SD|Terminal_Punctuation Term|Unified_Ideograph UIdeo|Uppercase Upper|
Variation_Selector VS|XID_Continue XIDC|XID_Start XIDS"""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
CHARACTERS = "".join(map(chr, range(0x110000)))
LINE_BYTES = 112


def ranges(expression):
    return [(found.start(), found.end()) for found in regex.finditer(rf"(?V1)\p{{{expression}}}+", CHARACTERS)]


def encoded(found):
    """The lengths of gaps and ranges in turn, in digits of five bits, the lowest first; 32 is added to all but the last."""
    out, before = "", 0
    for begin, end in found:
        for number in (begin - before, end - begin):
            while number > 31:
                out += LETTERS[32 + number % 32]
                number //= 32
            out += LETTERS[number]
        before = end
    return out


def write(names, found):
    plain = " ".join(name.lower().replace("_", "") for name in names)
    text = encoded(found)
    head = f'{{"{plain}", "'
    room = LINE_BYTES - len(head)
    lines = [text[:room]] + [text[at : at + LINE_BYTES] for at in range(room, len(text), LINE_BYTES)]
    print(head + '"\n "'.join(lines) + '"},')


def values_of(name):
    by_id = {}
    for value, number in core.PROPERTIES[name][1].items():
        by_id.setdefault(number, []).append(value)
    return [names for names in by_id.values() if "UNKNOWN" not in names]


def main():
    print("""// Written by scripts/unicode_tables.py: do not edit. The data are those of the Unicode Character Database, copyright
// Unicode, Inc.; NOTICE has its licence.
#include "grammar/readers/unicode_tables.h"

namespace cairn::grammar {
namespace {
// clang-format off
""")
    print("constexpr UnicodeTable kBinaryProperties[] = {")
    for entry in BINARY.replace("\n", "").split("|"):
        names = entry.split()
        write(names, ranges(names[0]))
    print("};\n\nconstexpr UnicodeTable kScripts[] = {")
    scripts = values_of("SCRIPT")
    found = {names[0]: ranges("Script=" + names[0]) for names in scripts}
    for names in scripts:
        write(names, found[names[0]])
    print("};\n\n// Scripts whose extensions are other characters than their own.\nconstexpr UnicodeTable kScriptExtensions[] = {")
    for names in scripts:
        extended = ranges("Script_Extensions=" + names[0])
        if extended != found[names[0]]:
            write(names, extended)
    print("""};

// clang-format on
}  // namespace

std::span<const UnicodeTable> binary_properties() { return kBinaryProperties; }
std::span<const UnicodeTable> scripts() { return kScripts; }
std::span<const UnicodeTable> script_extensions() { return kScriptExtensions; }

}  // namespace cairn::grammar""")


if __name__ == "__main__":
    sys.exit(main())
