#!/usr/bin/env bash
# dist and reproducible: the same commit gives the same archive and, for a sample of objects, the same binary.
. tests/cli/lib.sh || exit 1
git rev-parse HEAD >"$work/head" 2>/dev/null || {
    skip "the release" "not a git checkout"
    exit 0
}

check "dist" bash tools/release/dist.sh "$kvreel" "$work/a"
check "dist again" bash tools/release/dist.sh "$kvreel" "$work/b"
tar=$(find "$work/a" -name 'kvreel-*.tar.gz')
bill=$(find "$work/a" -name 'kvreel-*.spdx.json')
check "both archives are equal, byte for byte" cmp "$tar" "$work/b/$(basename "$tar")"
mkdir "$work/in"
check "the archive unpacks" tar xf "$tar" -C "$work/in"
top=$(echo "$work"/in/*)
check "the archive has one top folder" test -d "$top"
check "the file COMMIT has the commit" cmp "$top/COMMIT" "$work/head"
check "the archive has the files of git, COMMIT and SBOM.spdx.json" diff \
    <({ git ls-tree -r --name-only HEAD && echo COMMIT && echo SBOM.spdx.json; } | sort) \
    <(cd "$top" && find . -type f -printf '%P\n' | sort)
check "the bill of materials is also in the archive" cmp "$bill" "$top/SBOM.spdx.json"
cp "$bill" "$out"
json "the bill is SPDX with one description of kvreel" '.spdxVersion == "SPDX-2.3" and
    ([.relationships[] | select(.relationshipType == "DESCRIBES")] | length) == 1'
json "the identifiers in the bill are unique and well formed" '[.packages[].SPDXID, .files[].SPDXID] as $i |
    ($i | length) == ($i | unique | length) and all($i[]; test("^SPDXRef-[A-Za-z0-9.-]+$"))'
json "the relationships refer to existing identifiers" '([.packages[].SPDXID, .files[].SPDXID, .SPDXID] | map({(.): 1}) | add) as $i |
    all(.relationships[]; $i[.spdxElementId] and $i[.relatedSpdxElement])'
# The bill of materials lists the linked libraries.
linked=$(readelf -d "$kvreel" | sed -n 's/.*NEEDED.*\[\([a-z]*[a-z+0-9]*\)[-.].*/\1/p' | sed 's/^\(ld\|libc\|libm\)$/glibc/' | sort -u | tr '\n' ' ')
check "nine libraries are linked" test "$linked" = "glibc libcrypto libdnnl libgomp libjansson libsentencepiece libsqlite3 libstdc++ libyaml "
json "the bill has the linked libraries with versions" '[.relationships[] | select(.relationshipType == "DYNAMIC_LINK").relatedSpdxElement] as $l |
    [.packages[] | select(.SPDXID | IN($l[])) | .versionInfo | test("^[0-9v]")] | length == 9 and all'
check "the bill has the right hash of every file" bash -c "cd '$top' && jq -r '.files[] | .checksums[0].checksumValue + \"  \" + .fileName' '$bill' |
    sha256sum --quiet -c -"

check "a sample of objects is equal in two build folders" bash tools/release/reproducible.sh "$work/twice" \
    build/harness/core/version.o build/harness/core/status.o build/methods/registry.o \
    build/methods/kernels/pack_isa.avx2.o build/methods/corrections/corrections_cuda.emu.o build/plots/report/page.o
