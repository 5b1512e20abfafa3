#!/bin/sh
# embed-bytes.sh - prints a file as C source: `embed-bytes.sh NAME FILE` defines the array NAME with the
# file's bytes and NAME_bytes with their number. The array is aligned to 16 bytes, as tensors must be
# (harness/core/safetensors.h).
set -eu
printf '#include <stddef.h>\n\nextern const unsigned char %s[];\nextern const size_t %s_bytes;\n' "$1" "$1"
printf '_Alignas(16) const unsigned char %s[] = {\n' "$1"
od -An -v -tu1 -w24 "$2" | sed 's/  */,/g; s/^,//; s/$/,/'
printf '};\nconst size_t %s_bytes = sizeof %s;\n' "$1" "$1"
