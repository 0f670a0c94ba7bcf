# Compiler flags, sanitizers, ccache and mold. Included once, before any target. CUDA's flags: cuda.cmake.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# "Dev" is for sanitizers: optimised enough to run real models, with whole stack traces.
set(CMAKE_CXX_FLAGS_DEV "-O1 -g1 -fno-omit-frame-pointer")
# Without line numbers, which nothing here reads: for a profile or a debugger, configure with -DCMAKE_CXX_FLAGS=-g1.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# The same objects go into the program and into libcairn, which exports the names of its C interface alone. With sanitizers
# the library is an archive.
if(NOT CAIRN_SANITIZE AND NOT CAIRN_KERNELS_ONLY)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
endif()

# -ffp-contract=off: whether a*b+c is fused must not depend on how a loop was inlined, or the same request could give
# other bytes in another batch. Kernels ask for fused multiply-adds by name.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual>"
                    "$<$<COMPILE_LANGUAGE:CXX>:-Wimplicit-fallthrough;-Werror;-ffp-contract=off>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these inside its own headers and inside coroutine frames at -O3 and under sanitizers.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-dangling-pointer>"
                      "$<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow;-Wno-array-bounds;-Wno-free-nonheap-object>"
                      "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-mismatched-new-delete>")
else()
  # clang sees deprecated parts inside libstdc++ 12's own algorithms, and does not know all of g++'s attributes.
  add_compile_options(-Wno-deprecated-declarations -Wno-ignored-attributes)
endif()

if(CAIRN_SANITIZE)
  add_compile_options(-fsanitize=${CAIRN_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CAIRN_SANITIZE})
  if(CAIRN_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Asio has fences that ThreadSanitizer does not model; its queues are also guarded by mutexes, which it does.
    add_compile_options(-Wno-tsan)
  endif()
endif()
if(CAIRN_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Files are named from the checkout on in messages, so objects do not depend on where it lies, and caches serve every clone.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>")

find_program(CAIRN_CCACHE ccache)
if(CAIRN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # With paths from the checkout on: presets, clones and worktrees take what another of them has compiled alike.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      "${CAIRN_CCACHE}")
endif()
find_program(CAIRN_MOLD mold)
if(CAIRN_MOLD AND NOT CMAKE_CROSSCOMPILING)  # a cross compiler looks for linkers of its own only
  add_link_options(-fuse-ld=mold)
endif()
