# The CUDA language for src/kernels/cuda, in builds that ask for it (CAIRN_CUDA). Included once, before any target.
if(CAIRN_SANITIZE)
  message(FATAL_ERROR "CAIRN_CUDA with CAIRN_SANITIZE: sanitizers do not see the GPU's memory; for that there is compute-sanitizer.")
endif()
# The toolkit's installer puts nvcc outside PATH.
find_program(CAIRN_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(CAIRN_NVCC AND NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER "${CAIRN_NVCC}")
endif()
# One architecture by default: each takes minutes and megabytes. 80, 86, 89, 90a, 100 and 120 work, alone or as a list;
# 90a is Hopper with the instructions that only it has.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "90a")
endif()
# In the program itself, which then needs the driver alone.
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
if(CAIRN_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CAIRN_CCACHE}")
endif()
enable_language(CUDA)
if(NOT TARGET CUDA::nvToolsExt)  # CMake 3.25 fails without this library, which CUDA 13 no longer has
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
endif()
find_package(CUDAToolkit 12.3 REQUIRED)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)

# -fmad=false as -ffp-contract=off elsewhere: kernels for one row and for many must round alike, so they ask for fused
# multiply-adds by name.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-Werror=all-warnings;-lineinfo>"
                    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wimplicit-fallthrough,-ffp-contract=off>")
