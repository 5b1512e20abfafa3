#!/usr/bin/env bash
# import vbench: scales, file names, and invalid files.
. tests/cli/lib.sh || exit 1
tiny_config "$work/tiny.yaml"
cd "$work" || exit 1
"$kvreel" run tiny.yaml --db t.db --out o --jobs 2 --filter 'prompt=red' -q >"$out" 2>"$err" || exit 1
mapfile -t videos < <(find o/videos -name '*.mp4' | sort)
check "the sweep has three videos" test ${#videos[@]} -eq 3

# VBench's files mix scales: imaging_quality is 0..100 per video, but its aggregate is 0..1.
cat >r.json <<JSON
{
  "subject_consistency": [0.9, [
    {"video_path": "/data/x/${videos[0]##*/}", "video_results": 0.8},
    {"video_path": "/data/x/${videos[1]##*/}", "video_results": 0.9},
    {"video_path": "/data/x/${videos[2]##*/}", "video_results": 1.0}]],
  "imaging_quality": [0.605, [
    {"video_path": "${videos[0]}", "video_results": 60.0},
    {"video_path": "${videos[1]}", "video_results": 61.0}]],
  "small_percent": [0.005, [{"video_path": "${videos[0]}", "video_results": 0.5}]],
  "percent": [70, [{"video_path": "${videos[0]}", "video_results": 70}]],
  "dynamic_degree": [0.5, [
    {"video_path": "${videos[0]}", "video_results": true},
    {"video_path": "${videos[1]%.mp4}.avi", "video_results": false}]],
  "subject_by_frames": [0.934, [
    {"video_path": "${videos[0]}", "video_results": 0.9},
    {"video_path": "${videos[1]}", "video_results": 0.96}]],
  "percent_by_frames": [0.704, [
    {"video_path": "${videos[0]}", "video_results": 70},
    {"video_path": "${videos[1]}", "video_results": 72}]],
  "overall_consistency": [-0.005, [
    {"video_path": "${videos[0]}", "video_results": -0.02},
    {"video_path": "${videos[1]}", "video_results": 0.01}]],
  "temporal_style": [-0.02, [{"video_path": "${videos[0]}", "video_results": -0.02}]],
  "motion_smoothness": [NaN, []],
  "unscored": [NaN, [
    {"video_path": "${videos[0]}", "video_results": NaN},
    {"video_path": "elsewhere.mp4", "video_results": 0.5}]]
}
JSON
link=$(find o/by-name -name 'BF16.mp4' | head -n 1)
cat >link.json <<JSON
{"aesthetic_quality": [0.5, [{"video_path": "$link", "video_results": 0.5}]]}
JSON
exits 0 "import by readable names" import vbench link.json --db t.db --json
json "a link is matched to the cell of its video" '.matched == 1 and .unmatched == []'
exits 0 "import" import vbench r.json --db t.db --json
json "import --json counts dimensions, videos and matches" '.dimensions == 10 and .videos == 18 and .matched == 17 and .stored == 17 and .unmatched == ["elsewhere.mp4"] and .empty == ["motion_smoothness"]'
says "the message names the unmatched video" 'no cell matches the video elsewhere.mp4'
says "the message names the dimension without a video" 'motion_smoothness: no videos in this VBench dimension'
value() { # DIMENSION VIDEO
    sql t.db "SELECT coalesce(round(m.value, 6), 'NULL: ' || missing) FROM metric m JOIN artifact a \
        ON a.cell = m.cell WHERE a.kind = 'video' AND 'o/' || a.path = '$2' AND m.name = 'vbench.$1'"
}
same() { check "$1" test "$2" = "$3"; }
same "a score in 0..1 is stored unchanged" "$(value subject_consistency "${videos[1]}")" 0.9
same "a score in 0..100 is divided by 100" "$(value imaging_quality "${videos[1]}")" 0.61
same "a small score in 0..100 is recognized by its aggregate" "$(value small_percent "${videos[0]}")" 0.005
same "a score is divided by 100 if the aggregate is in 0..100, too" "$(value percent "${videos[0]}")" 0.7
same "true is stored as 1" "$(value dynamic_degree "${videos[0]}")" 1.0
same "a video with another suffix is matched" "$(value dynamic_degree "${videos[1]}")" 0.0
same "a NaN score is NULL with the reason" "$(value unscored "${videos[0]}")" "NULL: VBench gives NaN for this video"
same "a score whose aggregate is a mean over frames" "$(value subject_by_frames "${videos[1]}")" 0.96
same "a score in 0..100 whose aggregate is a mean over frames" "$(value percent_by_frames "${videos[1]}")" 0.72
same "overall_consistency may be negative" "$(value overall_consistency "${videos[0]}")" -0.02
same "temporal_style may be negative" "$(value temporal_style "${videos[0]}")" -0.02

printf '\xef\xbb\xbf{"subject_consistency": [0.8, [{"video_path": "%s", "video_results": 0.8}]]}' "${videos[0]}" >mark.json
exits 0 "import accepts a byte order mark" import vbench mark.json --db t.db
n=$(sql t.db "SELECT count(*) FROM metric")
exits 0 "import of the same file again" import vbench r.json --db t.db
same "a second import replaces the values" "$(sql t.db "SELECT count(*) FROM metric")" "$n"

bad() { # NAME PATTERN JSON
    printf '%s' "$3" >bad.json
    exits 2 "$1" import vbench bad.json --db t.db
    says "$1: the error names the cause" "$2"
    same "$1: nothing is stored" "$(sql t.db "SELECT count(*) FROM metric")" "$n"
}
v="\"video_path\": \"${videos[0]}\", \"video_results\""
bad "contradictory scales of aggregate and scores" 'x: the aggregate is 0.739, but the scores of the videos are 67.5..67.5' \
    "{\"y\": [0.5, [{$v: 0.5}]], \"x\": [0.739, [{$v: 67.5}]]}"
bad "a score above 100" 'has the score 101, need a fraction in 0..1' "{\"x\": [null, [{$v: 101}]]}"
bad "a negative score" '-0.1, need a fraction in 0..1' "{\"x\": [null, [{$v: -0.1}]]}"
bad "a cosine above 1" 'temporal_style: video 0 .*has the score 1.5, need a cosine similarity in -1..1' "{\"temporal_style\": [1.5, [{$v: 1.5}]]}"
bad "a cosine in percent" 'aggregate has the score 50, need a cosine similarity in -1..1' "{\"temporal_style\": [50, [{$v: 0.5}]]}"
bad "a score as text" "x: video 0 \('.*mp4'\) has \"0.71\", need a number" "{\"x\": [0.71, [{$v: \"0.71\"}]]}"
bad "a score of null" "x: video 0 \('.*mp4'\) has null" "{\"x\": [0.71, [{$v: null}]]}"
bad "a score in a list" "x: video 0 .* has \[0.5\]" "{\"x\": [0.71, [{$v: [0.5]}]]}"
bad "an infinite score" "x: video 0 .* has -Infinity" "{\"x\": [0.71, [{$v: -Infinity}]]}"
bad "no score" "x: video 0 .* has no 'video_results'" '{"x": [0.71, [{"video_path": "a.mp4"}]]}'
bad "an aggregate as text" 'x: the aggregate has "0.71"' "{\"x\": [\"0.71\", [{$v: 0.71}]]}"
bad "UTF-16" 'UTF-16 text .it begins with the byte order mark FF FE.: save it as UTF-8' $'\xff\xfe{}'
bad "a dimension that is no list of aggregate and scores" 'expected \[aggregate' '{"x": 0.5}'
bad "a file without dimensions" 'no dimension' '{}'
bad "a list instead of an object" 'need one JSON object' '[]'
bad "a video without a path" "no 'video_path'" '{"x": [0.5, [{"video_results": 0.5}]]}'
bad "a file that is no JSON" 'bad.json:1' '{'
exits 2 "import refuses a missing file" import vbench none.json --db t.db
exits 2 "import refuses a missing database" import vbench r.json --db none.db
check "import creates no database" test ! -e none.db
exits 2 "import refuses an unknown kind" import vbensh r.json --db t.db
echo '{"x": [0.5, [{"video_path": "elsewhere.mp4", "video_results": 0.5}]]}' >far.json
exits 5 "import of videos that no cell has" import vbench far.json --db t.db

# Windows paths.
printf '{"windows": [0.25, [{"video_path": "C:\\\\clips\\\\%s", "video_results": 0.25}]]}' "${videos[0]##*/}" >windows.json
exits 0 "import accepts a Windows path" import vbench windows.json --db t.db
same "a Windows path is matched by its file name" "$(value windows "${videos[0]}")" 0.25

# If several rollouts have a video of the same name, the folder must identify one of them.
changed t.db "UPDATE artifact SET path = 'run' || cell || '/same.mp4' WHERE kind = 'video'"
cell=$(sql t.db "SELECT cell FROM artifact WHERE kind = 'video' LIMIT 1")
echo "{\"x\": [0.5, [{\"video_path\": \"/data/run$cell/same.mp4\", \"video_results\": 0.5}]]}" >one.json
exits 0 "a video name of several rollouts, with its folder" import vbench one.json --db t.db --json
json "the folder identifies one rollout" '.stored == 1'
same "it is the rollout of that folder" "$(sql t.db "SELECT cell FROM metric WHERE name = 'vbench.x'")" "$cell"
echo '{"x": [0.5, [{"video_path": "same.mp4", "video_results": 0.5}]]}' >one.json
exits 2 "a video name of several rollouts, without its folder" import vbench one.json --db t.db
says "the error says that the name is ambiguous" 'belongs to several rollouts'
