#!/usr/bin/env bash
# The commands of docs/bring-your-own.md run. The Python commands need numpy and torch.
. tests/cli/lib.sh || exit 1
. tests/cli/walk.sh || exit 1
. tests/cli/python.sh || exit 1

clone=$work/kvreel
make_clone "$clone"
sed -i '/" run "\*) exec "\$real" "\$@" --limit 1/d' "$clone/build/kvreel" # run these small sweeps whole; walk.sh limits a sweep to one cell
walk "$clone" commands docs/bring-your-own.md plain sh
for what in model metric; do
    check "the sweep with a user-written $what has three finished cells" test "$(sql "$clone/out/own/$what.db" "SELECT count(*) FROM cell WHERE outcome = 'OK'")" -eq 3
done
check "the sweep over recorded traces has seven finished cells" test "$(sql "$clone/out/mine.db" "SELECT count(*) FROM cell WHERE outcome = 'OK'")" -eq 7
check "the user-written metric has values" test "$(sql "$clone/out/own/metric.db" "SELECT count(*) FROM metric WHERE name = 'mine.size' AND value > 0")" -ge 2
left_clean "$clone" docs/bring-your-own.md
needs_python "a method in Python"
python_has torch "a method in torch" || exit 0
walk "$clone" method docs/bring-your-own.md bash
check "the sweep with a user-written method has three finished cells" test "$(sql "$clone/out/own/method.db" "SELECT count(*) FROM cell WHERE outcome = 'OK'")" -eq 3
# Bytes: 8 bits per value, 16 per head and token, and 24 bytes of metadata per chunk.
check "the user-written method compresses 1.5 to 2 times" test "$(sql "$clone/out/own/method.db" "SELECT compression BETWEEN 1.5 AND 2 FROM summary WHERE method = 'TORCH_INT8'")" = 1
left_clean "$clone" docs/bring-your-own.md
