# What each instruction set's folder is compiled with: the one list, which the build, tests/emulation/cpu and
# scripts/tidy.py read. CAIRN_ISA_FLAGS_<folder>.
set(CAIRN_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi2)
set(CAIRN_ISA_FLAGS_avxvnni -mavxvnni -mavx2 -mfma -mf16c -mbmi2)
set(CAIRN_ISA_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx2 -mfma -mf16c -mbmi2)
set(CAIRN_ISA_FLAGS_avx512bf16 -mavx512bf16 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx2 -mfma -mf16c -mbmi2)
set(CAIRN_ISA_FLAGS_neon -march=armv8.2-a+dotprod)
