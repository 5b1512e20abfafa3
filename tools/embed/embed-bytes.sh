#!/bin/sh
# embed-bytes.sh - a file as C: `embed-bytes.sh NAME FILE` prints its bytes as NAME and how many as
# NAME_bytes. Aligned as tensors of a file are (harness/core/safetensors.h).
set -eu
printf '#include <stddef.h>\n\nextern const unsigned char %s[];\nextern const size_t %s_bytes;\n' "$1" "$1"
printf '_Alignas(16) const unsigned char %s[] = {\n' "$1"
od -An -v -tu1 -w24 "$2" | sed 's/  */,/g; s/^,//; s/$/,/'
printf '};\nconst size_t %s_bytes = sizeof %s;\n' "$1" "$1"
