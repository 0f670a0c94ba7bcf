"""What the processor can do. To be imported before NumPy and torch, whose threads and code paths it chooses."""
import os
import pathlib


def _flags() -> set[str]:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split(":", 1)[1].split()) for line in lines if line.startswith("flags")), set())


FLAGS = _flags()
# Parallel work is done by processes (workers.py).
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
if "avx512f" in FLAGS:
    # Debian's OpenBLAS takes processors that are younger than it for older ones, and torch wants to be asked.
    os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
    os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx512")
