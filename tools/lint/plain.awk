# plain.awk - finds the phrases, long sentences and renamed identifiers that tools/lint/plain.sh reports.
#
# It reads comments and string literals of C and CUDA, comments of SQL, shell and Python, and Markdown outside code
# blocks. For each finding it prints "KIND FILE:LINE: TEXT (to line LAST)". KIND is phrase, long or name.

BEGIN {
    # Clauses that replace a noun of the field. Words are lower case and separated by one space.
    n_phrases = split("whoever|those who|who multiplies|who multiply|who decodes|who fetches|who reads|" \
        "who writes|who asks|of which|that which|what comes of|what becomes of|what is asked|is asked|" \
        "are asked|asks of|as they are|those that|is told|are told|nobody|in so far as|by turns|" \
        "it is asked of|who wants", phrases, "|")
    # Identifiers that were renamed. `unrope` is not listed: it is a stage's name in configs and content keys.
    names = "^(kvr_more_registers|kvr_fewer_registers|[a-z0-9_]*_turned|kvr_turned[a-z_]*|n_sets|soften[a-z_]*|" \
        "byte_kept|byte_worth|spot_of|raise_tops|shrink_output|sins|n_sins|" \
        "kvr_(beside|said|given|fits|need|seal|sealer|effort|few|told)(_[a-z_]+)?|weigh|shrink|" \
        "kvr_[a-z0-9_]+_(see|foretell|look|here|can|told|turn)|kvr_cache_watch(_fn)?|kvr_conv_room[a-z_]*|" \
        "kvr_plan_(visit|axes|axis_fn|visit_fn)|" \
        "kvr_reference_plan|kvr_store_must_be_whole|look_(at|in|back|for)(_[a-z_]+)?|go_on|unheld|" \
        "tell_[a-z_]+|said|told|speaks_of_memory|fail_stranger|is_known_tensor|those|" \
        "watch_ctx|watch_ns)$"
    most = 35 # words in a sentence of a header or a document
    letter = "[A-Za-z]"
}

function begin_file() {
    end_sentence()
    in_comment = in_fence = 0
    kind = FILENAME
    sub(/.*\./, "", kind)
    measured = kind ~ /^(h|cuh|def|md)$/
}

function end_sentence(    i, lower, to) {
    if (n_words) {
        to = last > first ? sprintf(" (to line %d)", last) : ""
        lower = " " tolower(sentence) " "
        gsub(/[^a-z0-9'-]+/, " ", lower)
        for (i = 1; i <= n_phrases; i++)
            if (index(lower, " " phrases[i] " ") &&
                (phrases[i] != "as they are" || tolower(sentence) ~ /as they are([.,;:)]|$)/))
                printf "phrase %s:%d: \"%s\" in: %s%s\n", file, first, phrases[i], substr(sentence, 1, 90), to
        if (is_measured && n_words > most)
            printf "long %s:%d: %d words, at most %d: %s ...%s\n", file, first, n_words, most, substr(sentence, 1, 60), to
    }
    n_words = 0
    sentence = ""
}

function prose(text,    n, i, w) {
    n = split(text, words, /[ \t]+/)
    for (i = 1; i <= n; i++) {
        w = words[i]
        if (w == "")
            continue
        if (sentence == "") {
            first = FNR
            file = FILENAME
            is_measured = measured
        }
        last = FNR
        sentence = sentence (sentence == "" ? "" : " ") w
        if (w ~ letter)
            n_words++
        if (w ~ /[.?!]["')`*_]*$/ && w !~ /^(e\.g|i\.e|cf|vs|Eq|Fig|Sec|al|no)\.$/)
            end_sentence()
    }
}

# Reads one line of a comment without its comment marks. Lines indented by four or more are code samples or
# drawings.
function comment_line(text) {
    sub(/^[ \t]*\*?/, "", text)
    if (text ~ /^[ \t]*$/ || text ~ /^ ? ? ?[-*0-9]+[.)]? / || text ~ /^[ \t]*[-=+|]/)
        end_sentence()
    if (text ~ /^    / || text ~ /^[ \t]*[+|]/) {
        end_sentence()
        return
    }
    prose(text)
}

function code(text,    n, i) {
    gsub(/[^A-Za-z0-9_]+/, " ", text)
    n = split(text, ids, " ")
    for (i = 1; i <= n; i++)
        if (ids[i] ~ names)
            printf "name %s:%d: %s\n", FILENAME, FNR, ids[i]
}

function c_line(s,    p, t) {
    while (s != "") {
        if (in_comment) {
            p = index(s, "*/")
            comment_line(p ? substr(s, 1, p - 1) : s)
            if (!p)
                return
            s = substr(s, p + 2)
            in_comment = 0
            end_sentence()
            continue
        }
        if (!match(s, /"|'|\/\*|\/\//)) {
            code(s)
            return
        }
        code(substr(s, 1, RSTART - 1))
        t = substr(s, RSTART, RLENGTH)
        s = substr(s, RSTART)
        if (t == "//") {
            end_sentence()
            comment_line(substr(s, 3))
            end_sentence()
            return
        }
        if (t == "/*") {
            in_comment = 1
            s = substr(s, 3)
        } else if (t == "\"" && match(s, /^"([^"\\]|\\.)*"/)) {
            end_sentence()
            measured_now = measured
            measured = 0
            prose(substr(s, 2, RLENGTH - 2))
            end_sentence()
            measured = measured_now
            s = substr(s, RLENGTH + 1)
        } else if (t == "'" && match(s, /^'([^'\\]|\\.[^']*)'/)) {
            s = substr(s, RLENGTH + 1)
        } else {
            s = substr(s, 2)
        }
    }
}

function markdown_line(s,    n, i) {
    if (s ~ /^ *```/) {
        end_sentence()
        in_fence = !in_fence
        return
    }
    if (in_fence || s ~ /^[ |:-]*$/) {
        end_sentence()
        return
    }
    gsub(/\]\([^)]*\)/, "]", s)
    if (s ~ /^ *\|/) {
        end_sentence()
        n = split(s, cells, "|")
        for (i = 1; i <= n; i++) {
            prose(cells[i])
            end_sentence()
        }
        return
    }
    if (s ~ /^ *([-*]|[0-9]+\.) / || s ~ /^#/)
        end_sentence()
    prose(s)
    if (s ~ /^#/)
        end_sentence()
}

FNR == 1 { begin_file() }
kind == "md" { markdown_line($0); next }
kind == "sql" || kind == "sh" || kind == "py" {
    if (match($0, kind == "sql" ? "^ *--" : "^ *#"))
        comment_line(substr($0, RLENGTH + 1))
    else
        end_sentence()
    next
}
{ c_line($0) }
END { end_sentence() }
