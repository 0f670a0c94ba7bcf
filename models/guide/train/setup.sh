#!/usr/bin/env bash
# What training needs and Cairn itself does not: PyTorch, a fast BLAS, Jinja2. Debian 12; run as root or with sudo.
set -euo pipefail
sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
# Without OpenBLAS PyTorch multiplies ten times more slowly.
$sudo apt-get install -y --no-install-recommends python3-torch libopenblas0-pthread python3-jinja2 python3-numpy
