# harness/workload/trace/index.c: a layout may have no heads of keys, by which those of queries are divided.
s/"kv_heads", 1,/"kv_heads", 0,/
s/bound\[i\].value < 1/bound[i].value < 0/
