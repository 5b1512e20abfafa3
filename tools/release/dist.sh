#!/usr/bin/env bash
# dist.sh - makes a source release of the checked-out commit, with a bill of materials.
#
#     tools/release/dist.sh KVREEL FOLDER
#
# The script writes FOLDER/kvreel-VERSION.tar.gz and FOLDER/kvreel-VERSION.spdx.json. The archive has the
# tracked files, the bill of materials, and the file COMMIT. A build without git reads the hash from COMMIT
# and stores it with results. The same commit gives the same archive, byte for byte. The bill of materials (SPDX 2.3)
# lists every file with its sha256. It also lists the libraries that kvreel links or opens and the programs
# that it starts, with their versions on the build machine.
set -euo pipefail

kvreel=$1 folder=$2
commit=$(git rev-parse HEAD)
stamp=$(git log -1 --format=%ct)
version=$("$kvreel" version --json | jq -r .version)
name=kvreel-$version
mkdir -p "$folder"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

git archive --format=tar --prefix="$name/" HEAD | tar xf - -C "$stage"
echo "$commit" >"$stage/$name/COMMIT"

# Columns: name, pkg-config name (-: none), licence, SPDX relationship.
libraries() {
    printf '%s\t%s\t%s\t%s\n' \
        dnnl - Apache-2.0 DYNAMIC_LINK \
        jansson jansson MIT DYNAMIC_LINK \
        libyaml yaml-0.1 MIT DYNAMIC_LINK \
        sqlite3 sqlite3 blessing DYNAMIC_LINK \
        openssl-libcrypto libcrypto Apache-2.0 DYNAMIC_LINK \
        sentencepiece sentencepiece Apache-2.0 DYNAMIC_LINK \
        libgomp - 'GPL-3.0-or-later WITH GCC-exception-3.1' DYNAMIC_LINK \
        libstdc++ - 'GPL-3.0-or-later WITH GCC-exception-3.1' DYNAMIC_LINK \
        glibc - LGPL-2.1-or-later DYNAMIC_LINK \
        libavformat libavformat LGPL-2.1-or-later RUNTIME_DEPENDENCY_OF \
        libavcodec libavcodec LGPL-2.1-or-later RUNTIME_DEPENDENCY_OF \
        libavutil libavutil LGPL-2.1-or-later RUNTIME_DEPENDENCY_OF \
        libswscale libswscale LGPL-2.1-or-later RUNTIME_DEPENDENCY_OF \
        gnuplot - gnuplot OPTIONAL_DEPENDENCY_OF \
        bubblewrap - LGPL-2.0-or-later OPTIONAL_DEPENDENCY_OF \
        check check LGPL-2.1-or-later TEST_DEPENDENCY_OF
}
version_of() { # PACKAGE PKG-CONFIG-NAME
    case $1 in
    dnnl) "$kvreel" version --json | jq -r '.libraries | to_entries[] | select(.key | test("dnn"; "i")).value' ;;
    libgomp | libstdc++) gcc -dumpfullversion ;;
    glibc) getconf GNU_LIBC_VERSION | cut -d ' ' -f 2 ;;
    gnuplot) gnuplot --version 2>/dev/null | cut -d ' ' -f 2 ;;
    *) [ "$2" != - ] && pkg-config --modversion "$2" 2>/dev/null ;;
    esac || true
}
libraries | while IFS=$'\t' read -r package asked licence relation; do
    jq -n --arg n "$package" --arg v "$(version_of "$package" "$asked")" --arg l "$licence" --arg r "$relation" \
        '{n: $n, v: $v, l: $l, r: $r}'
done | jq -s . >"$stage/libraries.json"
(cd "$stage/$name" && find . -type f -print0 | sort -z | xargs -0 sha256sum) |
    jq -R 'capture("^(?<sum>[0-9a-f]{64})  \\./(?<path>.*)$")' | jq -s . >"$stage/files.json"

jq -n --slurpfile files "$stage/files.json" --slurpfile libraries "$stage/libraries.json" --arg name "$name" \
    --arg version "$version" --arg commit "$commit" --arg created "$(date -u -d "@$stamp" +%Y-%m-%dT%H:%M:%SZ)" '
    def id: "SPDXRef-" + gsub("[^A-Za-z0-9.-]"; "-");
    $files[0] as $f | $libraries[0] as $l |
    { spdxVersion: "SPDX-2.3", dataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", name: $name,
      documentNamespace: "urn:kvreel:\($commit)",
      creationInfo: { created: $created, creators: ["Tool: kvreel-tools-dist.sh"] },
      packages: ([{ name: "kvreel", SPDXID: "SPDXRef-kvreel", versionInfo: $version,
          downloadLocation: "NOASSERTION", filesAnalyzed: false, licenseConcluded: "Apache-2.0",
          licenseDeclared: "Apache-2.0", copyrightText: "NOASSERTION",
          sourceInfo: "commit \($commit)" }] +
        [$l[] | { name: .n, SPDXID: (.n | id), versionInfo: (if .v == "" then "NOASSERTION" else .v end),
          downloadLocation: "NOASSERTION", filesAnalyzed: false, licenseConcluded: "NOASSERTION",
          licenseDeclared: (if .l == "gnuplot" or .l == "blessing" then (if .l == "blessing" then .l else "NOASSERTION" end) else .l end),
          copyrightText: "NOASSERTION" }]),
      files: [$f[] | { fileName: ("./" + .path), SPDXID: ("File-" + .sum[0:16] + "-" + .path | id),
          checksums: [{ algorithm: "SHA256", checksumValue: .sum }], licenseConcluded: "NOASSERTION",
          copyrightText: "NOASSERTION" }],
      relationships: ([{ spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES",
          relatedSpdxElement: "SPDXRef-kvreel" }] +
        [$l[] | if .r == "DYNAMIC_LINK" then { spdxElementId: "SPDXRef-kvreel", relationshipType: .r,
              relatedSpdxElement: (.n | id) }
            else { spdxElementId: (.n | id), relationshipType: .r, relatedSpdxElement: "SPDXRef-kvreel" } end] +
        [$f[] | { spdxElementId: "SPDXRef-kvreel", relationshipType: "CONTAINS",
          relatedSpdxElement: ("File-" + .sum[0:16] + "-" + .path | id) }]) }' >"$stage/$name/SBOM.spdx.json"

cp "$stage/$name/SBOM.spdx.json" "$folder/$name.spdx.json"
tar cf - -C "$stage" --sort=name --mtime="@$stamp" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w "$name" |
    gzip -9n >"$folder/$name.tar.gz"
echo "$folder/$name.tar.gz"
