# Puts Cairn's own questions (src/evaluation/questions.jsonl) into the program as they are.
function(cairn_question_set target)
  set(set "${CMAKE_SOURCE_DIR}/src/evaluation/questions.jsonl")
  set(out "${CMAKE_CURRENT_BINARY_DIR}/own_questions.cpp")
  file(GENERATE OUTPUT "${out}" CONTENT "// Made by cmake/question_set.cmake.
#include \"evaluation/question.h\"

asm(\".section .rodata\\n.global own_questions\\n.global own_questions_end\\nown_questions:\\n\"
    \".incbin \\\"${set}\\\"\\nown_questions_end:\\n.byte 0\\n.previous\\n\");
extern \"C\" const char own_questions[], own_questions_end[];

namespace cairn::evaluation {

std::string_view own_questions_text() { return {own_questions, own_questions_end}; }

}  // namespace cairn::evaluation
")
  target_sources(${target} PRIVATE "${out}")
  set_source_files_properties("${out}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON OBJECT_DEPENDS "${set}")
endfunction()
