# harness/store/setting.c: a word that is not there is put all the same.
s/KVR_TRY(kvr_json_string(o, where, key, \&word))/(void)kvr_json_string(o, where, key, \&word)/
