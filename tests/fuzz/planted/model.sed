# harness/engine/model_config.c: a model of no layers is read.
s/"num_layers", 1, 1024/"num_layers", 0, 1024/
