# schema.jq - checks a document against a JSON Schema. It supports the keywords of draft 2020-12 that docs/schemas/
# uses: type, const, enum, required, properties, additionalProperties, items, minimum, maximum, pattern, minItems.
# It prints one line per error.
#
#     jq -rn --slurpfile s SCHEMA --slurpfile d DOCUMENT -f tests/cli/schema.jq

def kind: if type == "number" and . == floor then "integer" else type end;
def has_type($t): kind as $k | any([$t] | flatten[]; . == $k or (. == "number" and $k == "integer"));
def faults($s; $at):
    if $s == true then empty
    elif $s == false then "\($at): is not in the schema"
    else
        (if ($s | has("type")) and (has_type($s.type) | not) then "\($at): \(kind), not \($s.type)" else empty end),
        (if ($s | has("const")) and . != $s.const then "\($at): \(.), not \($s.const)" else empty end),
        (if ($s | has("enum")) and (. as $v | any($s.enum[]; . == $v) | not) then "\($at): \(.), not one of \($s.enum)" else empty end),
        (if $s.minimum and type == "number" and . < $s.minimum then "\($at): \(.) < \($s.minimum)" else empty end),
        (if $s.maximum and type == "number" and . > $s.maximum then "\($at): \(.) > \($s.maximum)" else empty end),
        (if $s.pattern and type == "string" and (test($s.pattern) | not) then "\($at): \(.) is not /\($s.pattern)/" else empty end),
        (if $s.minItems and type == "array" and length < $s.minItems then "\($at): \(length) items" else empty end),
        (if type == "object" then
            . as $o |
            ($s.required // [] | .[] | . as $k | select($o | has($k) | not) | "\($at): no \($k)"),
            (to_entries[] | .key as $k |
                (if ($s.properties // {}) | has($k) then $s.properties[$k]
                 elif $s | has("additionalProperties") then $s.additionalProperties else true end) as $sub |
                .value | faults($sub; "\($at).\($k)"))
        else empty end),
        (if type == "array" and ($s | has("items")) then
            to_entries[] | .key as $i | .value | faults($s.items; "\($at)[\($i)]")
        else empty end)
    end;
$d[0] | faults($s[0]; "$")
