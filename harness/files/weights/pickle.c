/* pickle.c - runs a pickle's stack machine. A dozen data types and four global names are supported;
 * no code of the file is executed. */
#include "harness/files/weights/pickle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/bytes.h"
#include "harness/core/tensor.h"
#include "harness/core/utf8.h"
#include "harness/files/weights/text.h"

enum {
    MAX_BYTES = 64 << 20,
    MAX_NODES = 1 << 20,
    MAX_CELLS = 1 << 22, /* maximum number of container items; 32 MiB of cells */
    MAX_KEY = 255,
    PROTOCOL = 2,
};

static const uint32_t mark = UINT32_MAX;

struct machine {
    struct kvr_pickle *p;
    const char *where;
    const unsigned char *bytes;
    size_t n, at, op_at; /* op_at: offset of the current instruction in `bytes` */
    uint32_t *stack, n_stack, cap_stack;
    uint32_t *memo, n_memo, cap_memo; /* memo[i]: index of a node, plus 1; 0: unset */
};

static const struct {
    const char *module, *name;
    enum kvr_pk_global what;
    enum kvr_dtype dtype;
} globals[] = {
#define GLOBAL(module, name, what, dtype) { module, name, what, dtype },
#include "harness/files/weights/pickle_globals.def"
#undef GLOBAL
};

/* refuse(m, format, ...): fails with a message that begins with the file's path and the position of
 * the instruction. */
#define refuse(m, ...)                                                                             \
    kvr_fail_prefix(kvr_fail(KVR_EFORMAT, __VA_ARGS__), "%s: pickle: byte %zu", (m)->where,        \
                    (m)->op_at)

/* Doubles the capacity of an array if it is full; fails beyond `most` elements. */
static enum kvr_status grow(const struct machine *m, void *array, uint32_t n, uint32_t *cap,
                            size_t size, uint32_t most, const char *what)
{
    uint32_t want = *cap ? 2 * *cap : 64;
    void *p;

    if (n < *cap)
        return KVR_OK;
    if (n >= most)
        return kvr_fail(KVR_EFORMAT,
                        "%s: pickle: byte %zu: the file has more than the limit of %u %s", m->where,
                        m->op_at, most, what);
    memcpy(&p, array, sizeof p);
    p = realloc(p, want * size);
    if (!p)
        return kvr_fail(KVR_ENOMEM, "%s: pickle: out of memory while allocating %u %s", m->where,
                        want, what);
    memcpy(array, &p, sizeof p);
    *cap = want;
    return KVR_OK;
}

/* --- Reading bytes ------------------------------------------------------------------------- */

static enum kvr_status take(struct machine *m, size_t n, const unsigned char **out)
{
    *out = NULL;
    if (n > m->n - m->at)
        return refuse(
            m, "the instruction needs %zu more bytes, but the pickle has %zu left (truncated?)", n,
            m->n - m->at);
    *out = m->bytes + m->at;
    m->at += n;
    return KVR_OK;
}

static enum kvr_status take_number(struct machine *m, int n_bytes, uint64_t *out)
{
    const unsigned char *p;

    *out = 0;
    KVR_TRY(take(m, (size_t)n_bytes, &p));
    *out = kvr_little_endian(p, n_bytes);
    return KVR_OK;
}

static enum kvr_status take_line(struct machine *m, const unsigned char **out, size_t *n)
{
    const unsigned char *end = memchr(m->bytes + m->at, '\n', m->n - m->at);

    *out = NULL;
    *n = 0;
    if (!end)
        return refuse(
            m, "a module or type name does not end with a line feed (is the file truncated?)");
    *out = m->bytes + m->at;
    *n = (size_t)(end - *out);
    m->at += *n + 1;
    return KVR_OK;
}

/* --- Stack and objects --------------------------------------------------------------------- */

static enum kvr_status push(struct machine *m, uint32_t node)
{
    KVR_TRY(grow(m, &m->stack, m->n_stack, &m->cap_stack, sizeof *m->stack, MAX_NODES,
                 "objects on the stack"));
    m->stack[m->n_stack++] = node;
    return KVR_OK;
}

static enum kvr_status pop(struct machine *m, uint32_t *node)
{
    *node = 0;
    if (m->n_stack == 0 || m->stack[m->n_stack - 1] == mark)
        return refuse(m, "the stack is empty");
    *node = m->stack[--m->n_stack];
    return KVR_OK;
}

static enum kvr_status top(const struct machine *m, uint32_t *node)
{
    *node = 0;
    if (m->n_stack == 0 || m->stack[m->n_stack - 1] == mark)
        return refuse(m, "the stack is empty");
    *node = m->stack[m->n_stack - 1];
    return KVR_OK;
}

/* Finds the items above the topmost mark, which is stack[*base - 1]. */
static enum kvr_status above_mark(const struct machine *m, uint32_t *base)
{
    *base = 0;
    for (uint32_t i = m->n_stack; i > 0; i--)
        if (m->stack[i - 1] == mark) {
            *base = i;
            return KVR_OK;
        }
    return refuse(m, "this pickle instruction needs a MARK on the stack, but there is none");
}

static enum kvr_status push_new(struct machine *m, struct kvr_pk_node x)
{
    struct kvr_pickle *p = m->p;

    KVR_TRY(grow(m, &p->nodes, p->n_nodes, &p->cap_nodes, sizeof *p->nodes, MAX_NODES, "objects"));
    p->nodes[p->n_nodes] = x;
    return push(m, p->n_nodes++);
}

static enum kvr_status push_int(struct machine *m, int64_t i)
{
    return push_new(m, (struct kvr_pk_node){ .kind = KVR_PK_INT, .i = i });
}

static enum kvr_status add_item(struct machine *m, uint32_t to, uint32_t item)
{
    struct kvr_pickle *p = m->p;
    struct kvr_pk_node *x;

    KVR_TRY(grow(m, &p->cells, p->n_cells, &p->cap_cells, sizeof *p->cells, MAX_CELLS,
                 "items of containers"));
    /* cells[0] is unused, since index 0 ends a list; the first grow() makes room for 64 cells */
    if (p->n_cells == 0)
        p->cells[p->n_cells++] = (struct kvr_pk_cell){ 0 };
    x = &p->nodes[to];
    p->cells[p->n_cells] = (struct kvr_pk_cell){ .node = item };
    if (x->n == 0)
        x->first = p->n_cells;
    else
        p->cells[x->last].next = p->n_cells;
    x->last = p->n_cells++;
    x->n++;
    return KVR_OK;
}

static enum kvr_status push_tuple(struct machine *m, uint32_t base)
{
    uint32_t n = m->n_stack - base, first = base, tuple = m->p->n_nodes;

    for (uint32_t i = 0; i < n; i++)
        if (m->stack[first + i] == mark)
            return refuse(m, "the stack is empty");
    KVR_TRY(push_new(m, (struct kvr_pk_node){ .kind = KVR_PK_TUPLE }));
    for (uint32_t i = 0; i < n; i++)
        KVR_TRY(add_item(m, tuple, m->stack[first + i]));
    m->n_stack = first;
    return push(m, tuple);
}

static enum kvr_status tuple_of(struct machine *m, uint32_t n)
{
    return m->n_stack < n ? refuse(m, "the stack is empty") : push_tuple(m, m->n_stack - n);
}

static enum kvr_status tuple_above_mark(struct machine *m)
{
    uint32_t base, tuple;

    KVR_TRY(above_mark(m, &base));
    KVR_TRY(push_tuple(m, base));
    KVR_TRY(pop(m, &tuple));
    m->n_stack = base - 1;
    return push(m, tuple);
}

static enum kvr_status append_above_mark(struct machine *m)
{
    uint32_t base, list;

    KVR_TRY(above_mark(m, &base));
    if (base < 2 || m->stack[base - 2] == mark ||
        m->p->nodes[m->stack[base - 2]].kind != KVR_PK_LIST)
        return refuse(m, "instruction APPENDS needs a list to append to, found another type");
    list = m->stack[base - 2];
    for (uint32_t i = base; i < m->n_stack; i++)
        KVR_TRY(add_item(m, list, m->stack[i]));
    m->n_stack = base - 1;
    return KVR_OK;
}

static enum kvr_status append_one(struct machine *m)
{
    uint32_t item, list;

    KVR_TRY(pop(m, &item));
    KVR_TRY(top(m, &list));
    if (m->p->nodes[list].kind != KVR_PK_LIST)
        return refuse(m, "instruction APPEND needs a list to append to, found another type");
    return add_item(m, list, item);
}

static enum kvr_status set_item(struct machine *m, uint32_t dict, uint32_t key, uint32_t value)
{
    const struct kvr_pk_node *d = &m->p->nodes[dict], *k = &m->p->nodes[key];

    if (d->kind != KVR_PK_DICT)
        return refuse(m, "instruction SETITEM or SETITEMS needs a dict, found another type");
    if (k->kind != KVR_PK_STR && k->kind != KVR_PK_INT)
        return refuse(m, "a dict has a key that is neither a string nor an integer");
    KVR_TRY(add_item(m, dict, key));
    return add_item(m, dict, value);
}

static enum kvr_status set_one(struct machine *m)
{
    uint32_t key, value, dict;

    KVR_TRY(pop(m, &value));
    KVR_TRY(pop(m, &key));
    KVR_TRY(top(m, &dict));
    return set_item(m, dict, key, value);
}

static enum kvr_status set_above_mark(struct machine *m)
{
    uint32_t base;

    KVR_TRY(above_mark(m, &base));
    if ((m->n_stack - base) % 2 != 0)
        return refuse(m,
                      "a dict key has no value: %u keys and values were given, need an even number",
                      m->n_stack - base);
    if (base < 2 || m->stack[base - 2] == mark)
        return refuse(m, "the stack is empty");
    for (uint32_t i = base; i < m->n_stack; i += 2)
        KVR_TRY(set_item(m, m->stack[base - 2], m->stack[i], m->stack[i + 1]));
    m->n_stack = base - 1;
    return KVR_OK;
}

/* --- Memo ---------------------------------------------------------------------------------- */

/* Stores the top of the stack in memo entry i. Python numbers memo entries 0, 1, 2, ... and stores
 * one object in each, so an index i >= n_nodes is refused. */
static enum kvr_status put(struct machine *m, uint64_t i)
{
    uint32_t node;

    KVR_TRY(top(m, &node));
    if (i >= m->p->n_nodes)
        return refuse(m,
                      "the pickle sets memo entry %" PRIu64
                      ", need an index below the number of objects (%u)",
                      i, m->p->n_nodes);
    while (m->n_memo <= i) {
        KVR_TRY(
            grow(m, &m->memo, m->n_memo, &m->cap_memo, sizeof *m->memo, MAX_NODES, "memo entries"));
        m->memo[m->n_memo++] = 0;
    }
    m->memo[i] = node + 1;
    return KVR_OK;
}

static enum kvr_status get(struct machine *m, uint64_t i)
{
    if (i >= m->n_memo || m->memo[i] == 0)
        return refuse(m, "the pickle's memo entry %" PRIu64 " is read but was never set", i);
    return push(m, m->memo[i] - 1);
}

/* --- Global names -------------------------------------------------------------------------- */

static bool same(const unsigned char *s, size_t n, const char *name)
{
    return n == strlen(name) && memcmp(s, name, n) == 0;
}

static enum kvr_status push_global(struct machine *m)
{
    const unsigned char *module, *name;
    char a[KVR_PRINTABLE], b[KVR_PRINTABLE];
    size_t n_module, n_name;

    KVR_TRY(take_line(m, &module, &n_module));
    KVR_TRY(take_line(m, &name, &n_name));
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (same(module, n_module, globals[i].module) && same(name, n_name, globals[i].name))
            return push_new(m, (struct kvr_pk_node){ .kind = KVR_PK_GLOBAL, .i = (int64_t)i });
    return kvr_fail(KVR_EFORMAT,
                    "%s: pickle: byte %zu: the name '%s %s' is not allowed in a weight file; "
                    "nothing was executed",
                    m->where, m->op_at, kvr_printable(a, module, n_module),
                    kvr_printable(b, name, n_name));
}

/* Copies the first n items of a tuple to `out`; false: `tuple` has fewer or is no tuple. */
static bool items_of(const struct machine *m, uint32_t tuple, uint32_t *out, uint32_t n)
{
    const struct kvr_pk_node *x = &m->p->nodes[tuple];
    uint32_t cell = x->first;

    if (x->kind != KVR_PK_TUPLE || x->n < n)
        return false;
    for (uint32_t i = 0; i < n; i++, cell = m->p->cells[cell].next)
        out[i] = m->p->cells[cell].node;
    return true;
}

static bool is_ints(const struct machine *m, const struct kvr_pk_node *tuple)
{
    uint32_t cell = tuple->first;

    if (tuple->kind != KVR_PK_TUPLE)
        return false;
    for (uint32_t i = 0; i < tuple->n; i++, cell = m->p->cells[cell].next)
        if (m->p->nodes[m->p->cells[cell].node].kind != KVR_PK_INT)
            return false;
    return true;
}

static bool is_empty_dict(const struct kvr_pk_node *x)
{
    return x->kind == KVR_PK_DICT && x->n == 0;
}

/* Runs PyTorch's function _rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks,
 * metadata), which creates a tensor. The backward hooks and the optional metadata must be empty. */
static enum kvr_status rebuild_tensor(struct machine *m, uint32_t args)
{
    const struct kvr_pk_node *nodes = m->p->nodes;
    uint32_t a[7], n = nodes[args].n;

    if (n < 6 || n > 7 || !items_of(m, args, a, n))
        return refuse(m, "_rebuild_tensor_v2 is called with %u arguments, need a tuple of 6 or 7",
                      n);
    /* A file can pass one tuple of 2^20 items to 2^20 calls, so is_ints() must not read it. */
    for (int i = 2; i < 4; i++)
        if (nodes[a[i]].kind == KVR_PK_TUPLE && nodes[a[i]].n > KVR_MAX_DIMS)
            return refuse(m, "a tensor has %u %s, at most %d are supported", nodes[a[i]].n,
                          i == 2 ? "dimensions" : "strides", KVR_MAX_DIMS);
    if (nodes[a[0]].kind != KVR_PK_STORAGE || nodes[a[1]].kind != KVR_PK_INT ||
        !is_ints(m, &nodes[a[2]]) || !is_ints(m, &nodes[a[3]]) || nodes[a[4]].kind != KVR_PK_BOOL ||
        !is_empty_dict(&nodes[a[5]]))
        return refuse(m,
                      "_rebuild_tensor_v2 was called with other arguments, need storage, offset, "
                      "shape, strides, a bool and an empty dict of hooks");
    if (n == 7 && nodes[a[6]].kind != KVR_PK_NONE && !is_empty_dict(&nodes[a[6]]))
        return refuse(m, "_rebuild_tensor_v2 was called with tensor metadata (argument 7), which "
                         "is not supported");
    return push_new(m, (struct kvr_pk_node){ .kind = KVR_PK_TENSOR, .first = nodes[args].first });
}

static enum kvr_status rebuild_parameter(struct machine *m, uint32_t args)
{
    const struct kvr_pk_node *nodes = m->p->nodes;
    uint32_t a[3];

    if (nodes[args].n != 3 || !items_of(m, args, a, 3) || nodes[a[0]].kind != KVR_PK_TENSOR ||
        nodes[a[1]].kind != KVR_PK_BOOL || !is_empty_dict(&nodes[a[2]]))
        return refuse(m, "_rebuild_parameter was called with other arguments, need a tensor, a "
                         "bool and an empty dict of hooks");
    return push(m, a[0]);
}

static enum kvr_status reduce(struct machine *m)
{
    uint32_t args, callable;

    KVR_TRY(pop(m, &args));
    KVR_TRY(pop(m, &callable));
    if (m->p->nodes[callable].kind != KVR_PK_GLOBAL || m->p->nodes[args].kind != KVR_PK_TUPLE)
        return refuse(m, "instruction REDUCE needs a type or function and a tuple of arguments, "
                         "found another type");
    switch (globals[m->p->nodes[callable].i].what) {
    case KVR_PK_ORDERED_DICT:
        if (m->p->nodes[args].n != 0)
            return refuse(m, "an OrderedDict is created from %u arguments, need 0",
                          m->p->nodes[args].n);
        return push_new(m, (struct kvr_pk_node){ .kind = KVR_PK_DICT, .ordered = 1 });
    case KVR_PK_REBUILD_TENSOR:
        return rebuild_tensor(m, args);
    case KVR_PK_REBUILD_PARAMETER:
        return rebuild_parameter(m, args);
    case KVR_PK_STORAGE_TYPE:
        break;
    }
    return refuse(
        m, "instruction REDUCE calls a torch storage type as a function, which is not allowed");
}

/* Runs BUILD, which sets attributes of an object. Only an OrderedDict may have attributes, as a
 * state_dict has _metadata. The attributes are ignored. */
static enum kvr_status build(struct machine *m)
{
    uint32_t state, target;

    KVR_TRY(pop(m, &state));
    KVR_TRY(top(m, &target));
    if (m->p->nodes[target].kind != KVR_PK_DICT || !m->p->nodes[target].ordered ||
        m->p->nodes[state].kind != KVR_PK_DICT)
        return refuse(m, "instruction BUILD must set attributes from a dict on an OrderedDict, "
                         "found other types");
    return KVR_OK;
}

/* Runs BINPERSID, which replaces the persistent id on the stack by the PyTorch storage that it
 * identifies, an array of elements. The id is the tuple ('storage', type, key, location, number of
 * elements); torch's legacy format appends None. */
static enum kvr_status push_storage(struct machine *m)
{
    const struct kvr_pk_node *nodes = m->p->nodes, *key;
    uint32_t id, a[6], n;

    KVR_TRY(pop(m, &id));
    n = nodes[id].n;
    if (n < 5 || n > 6 || !items_of(m, id, a, n) || nodes[a[0]].kind != KVR_PK_STR ||
        !same(nodes[a[0]].text, nodes[a[0]].n, "storage"))
        return refuse(m, "a storage's persistent id must be a tuple of 5 or 6 elements that begins "
                         "with 'storage'");
    if (nodes[a[1]].kind != KVR_PK_GLOBAL || globals[nodes[a[1]].i].what != KVR_PK_STORAGE_TYPE)
        return refuse(m,
                      "the type in a storage's persistent id is not one of torch's storage types");
    key = &nodes[a[2]];
    if (key->kind != KVR_PK_STR || key->n == 0 || key->n > MAX_KEY)
        return refuse(m, "a storage's key must be a string of 1 to %d bytes", (int)MAX_KEY);
    if (nodes[a[3]].kind != KVR_PK_STR || nodes[a[4]].kind != KVR_PK_INT || nodes[a[4]].i < 0)
        return refuse(
            m, "a storage needs a location (a string) and a number of elements (at least 0)");
    if (n == 6 && nodes[a[5]].kind != KVR_PK_NONE)
        return refuse(m, "a storage is a view of another (torch before 0.4): save the file again "
                         "with a newer torch");
    return push_new(m, (struct kvr_pk_node){ .kind = KVR_PK_STORAGE,
                                             .dtype = (uint8_t)globals[nodes[a[1]].i].dtype,
                                             .i = nodes[a[4]].i,
                                             .key = a[2] });
}

/* --- Instructions -------------------------------------------------------------------------- */

static enum kvr_status push_string(struct machine *m)
{
    const unsigned char *s;
    uint64_t n;

    KVR_TRY(take_number(m, 4, &n));
    KVR_TRY(take(m, (size_t)n, &s));
    if (!kvr_utf8_is_n(s, (size_t)n) || (n && memchr(s, 0, (size_t)n)))
        return refuse(m, "a string of %" PRIu64 " bytes is not UTF-8 or contains a NUL", n);
    return push_new(m, (struct kvr_pk_node){ .kind = KVR_PK_STR, .n = (uint32_t)n, .text = s });
}

static enum kvr_status push_long(struct machine *m)
{
    const unsigned char *s;
    uint64_t n, x = 0;

    KVR_TRY(take_number(m, 1, &n));
    KVR_TRY(take(m, (size_t)n, &s));
    if (n > 8)
        return push_new(m,
                        (struct kvr_pk_node){ .kind = KVR_PK_LONG, .n = (uint32_t)n, .text = s });
    if (n && s[n - 1] >= 0x80)
        x = UINT64_MAX;
    for (uint64_t i = n; i-- > 0;)
        x = x << 8 | s[i];
    return push_int(m, (int64_t)x);
}

static enum kvr_status push_number(struct machine *m, int n_bytes)
{
    uint64_t x;

    KVR_TRY(take_number(m, n_bytes, &x));
    return push_int(m, n_bytes == 4 ? (int64_t)(int32_t)(uint32_t)x : (int64_t)x);
}

static enum kvr_status push_real(struct machine *m)
{
    const unsigned char *s;

    KVR_TRY(take(m, 8, &s));
    return push_new(m, (struct kvr_pk_node){ .kind = KVR_PK_REAL });
}

static enum kvr_status memo(struct machine *m, enum kvr_status (*what)(struct machine *, uint64_t),
                            int n_bytes)
{
    uint64_t i;

    KVR_TRY(take_number(m, n_bytes, &i));
    return what(m, i);
}

static enum kvr_status push_kind(struct machine *m, enum kvr_pk_kind kind)
{
    return push_new(m, (struct kvr_pk_node){ .kind = (uint8_t)kind });
}

/* Runs an instruction that pushes a new value, and refuses unknown instructions. */
static enum kvr_status push_value(struct machine *m, unsigned char op)
{
    switch (op) {
    case '(':
        return push(m, mark);
    case ')':
        return push_kind(m, KVR_PK_TUPLE);
    case ']':
        return push_kind(m, KVR_PK_LIST);
    case '}':
        return push_kind(m, KVR_PK_DICT);
    case 'N':
        return push_kind(m, KVR_PK_NONE);
    case 0x88: /* NEWTRUE */
        return push_new(m, (struct kvr_pk_node){ .kind = KVR_PK_BOOL, .i = 1 });
    case 0x89: /* NEWFALSE */
        return push_kind(m, KVR_PK_BOOL);
    case 'K': /* BININT1, BININT2 and BININT: integers of 1, 2 and 4 bytes */
        return push_number(m, 1);
    case 'M':
        return push_number(m, 2);
    case 'J':
        return push_number(m, 4);
    case 0x8a: /* LONG1 */
        return push_long(m);
    case 'G': /* BINFLOAT */
        return push_real(m);
    case 'X': /* BINUNICODE */
        return push_string(m);
    case 'c':
        return push_global(m);
    default:
        return kvr_fail(KVR_EFORMAT,
                        "%s: pickle: byte %zu: instruction 0x%02x is not allowed in a weight file; "
                        "nothing was executed",
                        m->where, m->op_at, op);
    }
}

static enum kvr_status step(struct machine *m, unsigned char op)
{
    switch (op) {
    case 't':
        return tuple_above_mark(m);
    case 0x85:
    case 0x86:
    case 0x87: /* TUPLE1, 2, 3 */
        return tuple_of(m, op - 0x84u);
    case 'a':
        return append_one(m);
    case 'e':
        return append_above_mark(m);
    case 's':
        return set_one(m);
    case 'u':
        return set_above_mark(m);
    case 'q': /* BINPUT, LONG_BINPUT, BINGET, LONG_BINGET */
        return memo(m, put, 1);
    case 'r':
        return memo(m, put, 4);
    case 'h':
        return memo(m, get, 1);
    case 'j':
        return memo(m, get, 4);
    case 'R':
        return reduce(m);
    case 'b':
        return build(m);
    case 'Q': /* BINPERSID */
        return push_storage(m);
    default:
        return push_value(m, op);
    }
}

static enum kvr_status run(struct machine *m)
{
    const unsigned char *p;

    KVR_TRY(take(m, 2, &p));
    if (p[0] != 0x80)
        return refuse(m, "the pickle begins with byte 0x%02x, need 0x80 (the PROTO instruction)",
                      p[0]);
    if (p[1] != PROTOCOL)
        return kvr_fail(KVR_EFORMAT, "%s: pickle: protocol is %d, need %d (torch.save's default)",
                        m->where, p[1], PROTOCOL);
    for (;;) {
        m->op_at = m->at;
        KVR_TRY(take(m, 1, &p));
        if (*p == '.')
            break;
        KVR_TRY(step(m, *p));
    }
    KVR_TRY(pop(m, &m->p->root));
    return m->n_stack == 0
               ? KVR_OK
               : refuse(m, "the pickle ends with %u objects on the stack, need 1 (the model)",
                        m->n_stack + 1);
}

/* --- Duplicate keys ------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    const struct kvr_pk_node *x = *(const struct kvr_pk_node *const *)a;
    const struct kvr_pk_node *y = *(const struct kvr_pk_node *const *)b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->kind == KVR_PK_INT)
        return (x->i > y->i) - (x->i < y->i);
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return x->text == y->text ? 0 : memcmp(x->text, y->text, x->n);
}

static enum kvr_status check_keys(const struct machine *m, const struct kvr_pk_node *dict,
                                  const struct kvr_pk_node **keys)
{
    uint32_t cell = dict->first, n = dict->n / 2;
    char shown[KVR_PRINTABLE];

    for (uint32_t i = 0; i < n; i++) {
        keys[i] = &m->p->nodes[m->p->cells[cell].node];
        cell = m->p->cells[m->p->cells[cell].next].next;
    }
    qsort(keys, n, sizeof *keys, by_key);
    for (uint32_t i = 1; i < n; i++)
        if (by_key(&keys[i - 1], &keys[i]) == 0)
            return keys[i]->kind == KVR_PK_STR
                       ? kvr_fail(KVR_EFORMAT, "%s: pickle: key '%s' occurs twice in a dict",
                                  m->where, kvr_printable(shown, keys[i]->text, keys[i]->n))
                       : kvr_fail(KVR_EFORMAT, "%s: pickle: key %" PRId64 " occurs twice in a dict",
                                  m->where, keys[i]->i);
    return KVR_OK;
}

static enum kvr_status check_dicts(const struct machine *m)
{
    const struct kvr_pk_node **keys;
    enum kvr_status st = KVR_OK;
    uint32_t most = 0;

    for (uint32_t i = 0; i < m->p->n_nodes; i++)
        if (m->p->nodes[i].kind == KVR_PK_DICT && m->p->nodes[i].n > most)
            most = m->p->nodes[i].n;
    keys = calloc(most / 2 + 1, sizeof *keys);
    if (!keys)
        return kvr_fail(KVR_ENOMEM, "%s: pickle: out of memory while allocating %u keys", m->where,
                        most / 2);
    for (uint32_t i = 0; st == KVR_OK && i < m->p->n_nodes; i++)
        if (m->p->nodes[i].kind == KVR_PK_DICT)
            st = check_keys(m, &m->p->nodes[i], keys);
    free(keys);
    return st;
}

enum kvr_status kvr_pickle_read(struct kvr_pickle *p, const char *where, const unsigned char *bytes,
                                size_t n, size_t *used)
{
    struct machine m = { .p = p, .where = where, .bytes = bytes, .n = n };
    enum kvr_status st;

    *p = (struct kvr_pickle){ 0 };
    if (m.n > MAX_BYTES)
        m.n = MAX_BYTES;
    st = run(&m);
    if (st == KVR_OK)
        st = check_dicts(&m);
    free(m.stack);
    free(m.memo);
    *used = m.at;
    if (st != KVR_OK)
        kvr_pickle_free(p);
    return st;
}

void kvr_pickle_free(struct kvr_pickle *p)
{
    free(p->nodes);
    free(p->cells);
    *p = (struct kvr_pickle){ 0 };
}

const struct kvr_pk_node *kvr_pickle_get(const struct kvr_pickle *p, const struct kvr_pk_node *dict,
                                         const char *key)
{
    uint32_t cell = dict->first;

    if (dict->kind != KVR_PK_DICT)
        return NULL;
    for (uint32_t i = 0; i < dict->n; i += 2) {
        const struct kvr_pk_node *k = &p->nodes[p->cells[cell].node];
        uint32_t value = p->cells[cell].next;

        if (k->kind == KVR_PK_STR && same(k->text, k->n, key))
            return &p->nodes[p->cells[value].node];
        cell = p->cells[value].next;
    }
    return NULL;
}
