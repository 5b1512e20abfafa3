# harness/workload/trace/index.c: a layout may have no heads of keys, by which those of queries are divided.
s/kvr_json_int_in(o, where, e->name, 1,/kvr_json_int_in(o, where, e->name, 0,/
